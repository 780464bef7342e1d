// A first-in, first-out queue of records that have numbers from 1 on, such as windows, private pages or runs of slots.
// The links lie in the records, so that the queue is as long as there are records, and adding one never fails. `amount`
// bounds what the queue may hold, in bytes or pages: callers count it when they add and take records. No lock: callers
// hold that of the records. `oldest` may be read without a lock.

#ifndef ZG_QUEUE_H
#define ZG_QUEUE_H

#include "platform/base.h"

// Invariants:
// 1. Both are 0, or neither.
// 2. Following the links leads from `oldest` to `newest`, whose link is 0.
struct zg_queue {
    uint32_t oldest, newest;
    uint64_t amount;
};

// The links: the address of the one of record number 1, and the distance from one record to the next.
struct zg_queue_links {
    uint64_t first, stride;
};
// The links `member` of records of this type; `first` is the address of record number 1.
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

// Takes the oldest record out. Returns its number; 0 where the queue is empty.
ZG_INLINE uint32_t zg_queue_take(struct zg_queue *queue, struct zg_queue_links links) {
    uint32_t number = queue->oldest;
    if (!number) return 0;
    uint32_t next = *zg_queue_link(links, number);
    __atomic_store_n(&queue->oldest, next, __ATOMIC_RELAXED);
    if (!next) queue->newest = 0;
    return number;
}

// The queue is not empty, and holds more than it may.
ZG_INLINE bool zg_queue_is_over(const struct zg_queue *queue, uint64_t most) {
    return queue->amount > most && queue->oldest;
}

#endif
