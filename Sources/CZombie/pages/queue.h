// A first-in, first-out queue of records that are numbered from 1 on, such as windows, private pages or runs of slots.
// The links are fields of the records, so the queue needs no memory and adding a record never fails. `amount` is the
// size of the queue's contents in bytes or pages, for callers that limit this size; these callers update `amount` when
// they add and take records.
// No lock: callers hold the lock of the records. `oldest` may be read without a lock.

#ifndef ZG_QUEUE_H
#define ZG_QUEUE_H

#include "platform/base.h"

// Invariants:
// 1. `oldest` and `newest` are both 0, or both nonzero.
// 2. Following the links from `oldest` ends at `newest`, whose link is 0.
struct zg_queue {
    uint32_t oldest, newest;
    uint64_t amount;
};

// Location of the links: address of record 1's link, and distance between the links of adjacent records.
struct zg_queue_links {
    uint64_t first, stride;
};
// Describes the links in field `member` of records of this type. `first`: address of record 1.
#define ZG_QUEUE_LINKS(first, type, member)                                                                            \
    ((struct zg_queue_links){(uint64_t)(first) + offsetof(type, member), sizeof(type)})

ZG_INLINE uint32_t *zg_queue_link(struct zg_queue_links links, uint32_t number) {
    return (uint32_t *)(links.first + (number - UINT64_C(1)) * links.stride);
}

ZG_INLINE void zg_queue_add(struct zg_queue *queue, struct zg_queue_links links, uint32_t number) {
    *zg_queue_link(links, number) = 0;
    if (queue->oldest) *zg_queue_link(links, queue->newest) = number;
    else __atomic_store_n(&queue->oldest, number, __ATOMIC_RELAXED);
    queue->newest = number;
}

// Removes the oldest record. Returns its number; 0 if the queue is empty.
ZG_INLINE uint32_t zg_queue_take(struct zg_queue *queue, struct zg_queue_links links) {
    uint32_t number = queue->oldest;
    if (!number) return 0;
    uint32_t next = *zg_queue_link(links, number);
    __atomic_store_n(&queue->oldest, next, __ATOMIC_RELAXED);
    if (!next) queue->newest = 0;
    return number;
}

// Returns true if the queue is not empty and holds more than `most`.
ZG_INLINE bool zg_queue_is_over(const struct zg_queue *queue, uint64_t most) {
    return queue->amount > most && queue->oldest;
}

#endif
