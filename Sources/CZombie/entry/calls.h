// System calls that are handed buffers: whether these lie in blocks of ours that are dead, or end before the buffer does.
// The kernel gives no fault: it reads and writes what is in the quarantine, and answers EFAULT for protected pages.
// Looking is pure arithmetic over the records: any context, no lock, no system call but for vectors that stand in memory
// nobody vouches for. A finding enters the runtime; a thread that is inside it already reports none. errno is kept.

#ifndef ZG_CALLS_H
#define ZG_CALLS_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "include/zg_block.h"
#include "platform/base.h"

struct zg_call {
    const char *name; // as the manual has it
    bool writes;      // the kernel writes the buffers; otherwise it reads them
};

#define ZG_CALL_ANY UINT64_MAX

// What is remembered of a call's buffers until it returns. On the caller's stack: a cancelled call leaves nothing behind.
struct zg_call_watch {
    // A call that transfers more than this ran over the end of `block`; ZG_CALL_ANY: it may transfer all of it.
    uint64_t limit;
    uint64_t address, bytes, room; // that buffer, and how much of it the block and those joined with it have
    struct zg_block_view block;    // as it was before the call
    uint64_t first;                // the first buffer in a live block, where the kernel writes it; 0: none
    const struct zg_block *target; // its block
};

// Before the call; `frame` is the frame address of the published function.
void zg_call_begin(const struct zg_call *call, const void *buffer, uint64_t bytes, const uint64_t *frame,
                   struct zg_call_watch *watch);
void zg_call_begin_vectors(const struct zg_call *call, const struct iovec *vectors, int64_t count,
                           const uint64_t *frame, struct zg_call_watch *watch);
void zg_call_begin_message(const struct zg_call *call, const struct msghdr *message, const uint64_t *frame,
                           struct zg_call_watch *watch);
// Memory that the kernel reads besides the buffers.
void zg_call_also_reads(const struct zg_call *call, const void *start, uint64_t bytes, const uint64_t *frame);
// After it, with its result.
ZG_INLINE void zg_call_end(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result,
                           const uint64_t *frame);

// The usual buffer: the whole of it lies in a small live block, which is returned; NULL otherwise. Then the call needs no
// watch: the kernel reads nothing else, and what it writes is well if the block is still live.
ZG_INLINE const struct zg_block *zg_call_fits(uint64_t address, uint64_t bytes);
ZG_INLINE bool zg_call_is_live(const struct zg_block *block);
// Another thread freed the buffer while the kernel waited for what it has then written into it.
void zg_call_freed_meanwhile(const struct zg_call *call, const void *buffer, ssize_t result, const uint64_t *frame);

// The part of zg_call_begin that decides: false where the buffer is dead memory, `view` being its block. `before` bytes stand
// in the buffers in front of it.
bool zg_call_look(const struct zg_call *call, uint64_t pointer, uint64_t bytes, uint64_t before,
                  struct zg_block_view *view, struct zg_call_watch *watch);

// -- inline part --

ZG_INLINE const struct zg_block *zg_call_fits(uint64_t address, uint64_t bytes) {
    uint64_t index, interior;
    if (!zg_slab_contains(address)) return NULL;
    struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    if (index >= __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE)) return NULL;
    uint32_t header = __atomic_load_n(&slab->blocks[index].header, __ATOMIC_ACQUIRE);
    uint64_t requested = zg_slab_requested(slab, header);
    if (zg_header_state(header) != zg_state_live || interior > requested || bytes > requested - interior) return NULL;
    return &slab->blocks[index];
}

ZG_INLINE bool zg_call_is_live(const struct zg_block *block) {
    return zg_header_state(__atomic_load_n(&block->header, __ATOMIC_ACQUIRE)) == zg_state_live;
}

void zg_call_end_slow(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result,
                      const uint64_t *frame);

ZG_INLINE void zg_call_end(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result,
                           const uint64_t *frame) {
    bool odd = watch->limit != ZG_CALL_ANY && (result < 0 || (uint64_t)result >= watch->limit);
    if (call->writes && watch->target && result > 0) odd |= !zg_call_is_live(watch->target);
    if (ZG_UNLIKELY(odd)) zg_call_end_slow(call, watch, result, frame);
}

#endif
