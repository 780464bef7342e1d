// Checks the buffers of system calls: whether they lie in freed blocks, or continue behind the end of their block. The
// kernel does not fault there: it reads and writes quarantined memory, and returns EFAULT for protected pages.
// The checks use the block records alone: any context, no lock, and no system call except to read vectors in memory
// that may be unmapped. A finding enters the runtime; a thread that is already inside reports none. errno is kept.

#ifndef ZG_CALLS_H
#define ZG_CALLS_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "include/zg_block.h"
#include "include/zg_finding_kinds.h"
#include "platform/base.h"

struct zg_call {
    const char *name; // name of the function as in its manual page
    bool writes;      // the kernel writes the buffers; otherwise it reads them
};

#define ZG_CALL_ANY UINT64_MAX

// State of a call's buffers until it returns. It lives on the caller's stack, so a canceled call leaves nothing behind.
struct zg_call_watch {
    // If the call transfers more bytes than this, it has crossed the end of `block`. ZG_CALL_ANY: no limit.
    uint64_t limit;
    // The buffer in `block`. `room` is the number of its bytes in the block and in blocks joined with it.
    uint64_t address, bytes, room;
    struct zg_block_view block; // state of the block before the call
    // The first buffer in a live block, if the kernel writes it; 0: none.
    uint64_t first;
    const struct zg_block *target; // the block of `first`
};

// Call before the system call. `frame` is the frame address of the published function.
void zg_call_begin(const struct zg_call *call, const void *buffer, uint64_t bytes, const uint64_t *frame,
                   struct zg_call_watch *watch);
void zg_call_begin_vectors(const struct zg_call *call, const struct iovec *vectors, int64_t count,
                           const uint64_t *frame, struct zg_call_watch *watch);
void zg_call_begin_message(const struct zg_call *call, const struct msghdr *message, const uint64_t *frame,
                           struct zg_call_watch *watch);
// Checks memory that the kernel reads besides the buffers.
void zg_call_also_reads(const struct zg_call *call, const void *start, uint64_t bytes, const uint64_t *frame);
// Call after the system call, with its result.
ZG_INLINE void zg_call_end(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result,
                           const uint64_t *frame);

// The common case: returns the small live block that contains the whole buffer, or NULL. A call with such a buffer
// needs no watch: a read is correct, and a write is correct if the block is still live after the call.
ZG_INLINE const struct zg_block *zg_call_fits(uint64_t address, uint64_t bytes);
ZG_INLINE bool zg_call_is_live(const struct zg_block *block);
// Reports that another thread freed a buffer while the kernel waited for data, which the kernel then wrote into the
// freed buffer.
void zg_call_freed_meanwhile(const struct zg_call *call, const void *buffer, ssize_t result, const uint64_t *frame);

// A buffer, and the facts that a finding reports about it.
struct zg_call_discovery {
    enum zg_finding_kind kind;
    bool written;                     // true if the call writes the memory
    const struct zg_block_view *view; // NULL: memory whose block records are gone
    uint64_t address;                 // first byte that the finding is about
    uint64_t bytes;                   // size of the whole buffer; 0: unknown, for a string
    uint64_t excess;                  // bytes of the buffer behind the block's end that are accessed; 0: unknown
    const char *freed;                // when the buffer was freed; NULL: before the call
    const char *ended;                // how the call ended; NULL: it went beyond the block's end
    bool is_ahead;                    // a libc function is about to access the memory: a protected page would fault
};
// Reports the discovery. With on_finding=continue, makes the memory accessible that the call then accesses.
void zg_call_found(const struct zg_call *call, const struct zg_call_discovery *what, const uint64_t *frame);

// Part of zg_call_begin: returns false if the buffer is freed memory; its block is then in `view`. `before`: size of
// the call's buffers in front of this buffer.
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
