// Checks the buffers of system calls. Compares the arguments with the block records before the call. Programs pass
// larger sizes than the kernel transfers, so only transferred bytes count as an overrun: the call's result gives their
// number.
// Any context. No lock; no state is held across the call; findings take the report lock.

#define _GNU_SOURCE
#include "entry/calls.h"

#include <errno.h>

#include "blocks/tags.h"
#include "findings/found.h"
#include "pages/retire.h"
#include "pages/revive.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "settings/config.h"

enum { MOST_VECTORS = 1024 /* UIO_MAXIOV: the kernel takes no more */, BATCH = 16, MOST_JOINED = MOST_VECTORS };
enum { MOST_REOPENED = 16 /* pages behind a block */ };

static bool is_dead(enum zg_state state) {
    // A quarantined, held, retired or reusable block is freed memory.
    return state >= zg_state_quarantined;
}

static void forget(struct zg_call_watch *watch) {
    watch->limit = ZG_CALL_ANY;
    watch->target = NULL;
}

// Programs join adjacent buffers (nginx with its chains). In libc, a header separates any two blocks; here, blocks as
// large as their slots are adjacent. So a buffer may continue from the end of a block into the next one, if that is
// live. Returns how many of the buffer's bytes lie in the blocks behind `first`.
static ZG_COLD uint64_t joined_room(const struct zg_block_view *first, uint64_t wanted) {
    struct zg_block_view next;
    uint64_t end = first->start + first->size, room = 0;
    for (int i = 0; i < MOST_JOINED && room < wanted; i++, room += next.size)
        if (!zg_lookup_block(end + room, &next) || next.start != end + room || next.state != zg_state_live) break;
    return zg_min(room, wanted);
}

bool zg_call_look(const struct zg_call *call, uint64_t pointer, uint64_t bytes, uint64_t before,
                  struct zg_block_view *view, struct zg_call_watch *watch) {
    if (!bytes || !zg_lookup_block(pointer, view)) return true;
    uint64_t address = zg_arch_address(pointer);
    if (ZG_UNLIKELY(view->state != zg_state_live)) return !is_dead(view->state);
    uint64_t offset = (uint64_t)view->offset, room = offset < view->size ? view->size - offset : 0;
    if (call->writes && !watch->target) {
        watch->target = view->block;
        watch->first = pointer;
    }
    if (ZG_UNLIKELY(bytes > room && offset <= view->size)) room += joined_room(view, bytes - room);
    if (ZG_UNLIKELY(bytes > room && watch->limit == ZG_CALL_ANY)) {
        watch->limit = before + room;
        watch->address = address, watch->bytes = bytes, watch->room = room;
        watch->block = *view;
    }
    return true;
}

// --- findings --------------------------------------------------------------------------------------------------------

// Returns NULL in a child of vfork and in a thread of a bare clone(): both use another thread's thread-local storage,
// which holds that thread's id.
static struct zg_thread *enter(const uint64_t *frame) {
    const struct zg_thread *known = zg_thread_current_or_null();
    if (known && known->tid && known->tid != zg_os_tid()) return NULL;
    return zg_thread_enter(frame);
}

// Marks the contents of a freed block, or the red zones of a live block, as changed, because this finding already
// reports the change.
static void expect_change(struct zg_block *block) {
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED);
    if (zg_header_state(header) == zg_state_quarantined || zg_header_state(header) == zg_state_live)
        __atomic_compare_exchange_n(&block->header, &header, header | ZG_HEADER_CHANGED, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

// on_finding=continue: makes a protected freed buffer accessible before the call, so that the call has its usual
// effect. After a failed call this would be too late: some failed calls have a lasting effect (a received datagram is
// lost).
static void reopen(const struct zg_block_view *block, uint64_t pointer, uint64_t bytes) {
    uint64_t address = zg_arch_address(pointer);
    struct zg_block_view now;
    if (zg_tags_are_on() && zg_lookup_block(address, &now) && now.block == block->block && zg_tags_open(pointer))
        return;
    uint64_t end = block->start + block->size, page = address & ~(ZG_PAGE_BYTES - 1);
    if (address >= end) return;
    end = address + zg_min(bytes, end - address);
    if (zg_os_is_readable(address, end) || zg_revive_isolated(block)) return;
    for (; page < end; page += ZG_PAGE_BYTES)
        if (!zg_os_is_readable(page, page + 1) && !zg_revive_page(page)) return;
}

// on_finding=continue: opens the guard pages behind a live block that the call is about to cross. The access would
// otherwise fault, and become a second finding.
static void reopen_behind(uint64_t address, uint64_t bytes) {
    uint64_t end = address + zg_min(bytes, (uint64_t)MOST_REOPENED * ZG_PAGE_BYTES);
    for (uint64_t page = address & ~(ZG_PAGE_BYTES - 1); page < end; page += ZG_PAGE_BYTES)
        if (!zg_os_is_readable(page, page + 1) && !zg_revive_isolated_at(page) && !zg_revive_page(page)) return;
}

static void go_on(const struct zg_call_discovery *what) {
    uint64_t bytes = what->bytes ? what->bytes : UINT64_MAX;
    if (what->kind == zg_finding_use_after_free && what->view) return reopen(what->view, what->address, bytes);
    if (what->is_ahead) reopen_behind(what->address, what->excess ? what->excess : 1);
}

ZG_COLD void zg_call_found(const struct zg_call *call, const struct zg_call_discovery *what, const uint64_t *frame) {
    int saved = errno;
    struct zg_thread *thread = enter(frame);
    errno = saved;
    if (!thread) return;
    struct zg_finding finding;
    uint64_t address = zg_arch_address(what->address);
    zg_finding_init(&finding, what->kind, what->written ? ZG_ACCESS(write) : ZG_ACCESS(read), address, what->view);
    zg_found_capture(&finding);
    finding.fatal = true; // the runtime must end the program, because the call does not
    if (what->view) finding.block.offset = (int64_t)(address - what->view->start);
    else zg_finding_detail_text(&finding, "what", ZG_FREE_MEMORY);
    bool is_freed = what->kind == zg_finding_use_after_free && what->view;
    if (is_freed && what->view->zombie) finding.member_byte = finding.block.offset;
    zg_finding_detail_text(&finding, "call", call->name);
    if (what->bytes) zg_finding_detail_number(&finding, "bytes", what->bytes, false);
    if (what->excess) zg_finding_detail_number(&finding, "excess", what->excess, false);
    if (what->freed) zg_finding_detail_text(&finding, "freed", what->freed);
    if (what->ended) zg_finding_detail_text(&finding, "ended", what->ended);
    if (what->view && what->written && (is_freed || what->is_ahead)) expect_change(what->view->block);
    zg_found_report(&finding);
    if (zg_config.on_finding == zg_on_finding_continue) go_on(what);
    zg_thread_leave(thread);
}

// A range of bytes that a system call reads or writes.
struct range {
    uint64_t address, bytes;
    uint64_t before; // size of the call's buffers in front of this one
    bool written;
};

ZG_INLINE void check(const struct zg_call *call, struct range range, const uint64_t *frame,
                     struct zg_call_watch *watch) {
    struct zg_block_view view;
    uint64_t address = range.address, bytes = range.bytes;
    const struct zg_block *block = zg_call_fits(address, bytes);
    if (ZG_LIKELY(block && (!call->writes || watch->target))) return;
    struct zg_call_discovery dead = {zg_finding_use_after_free, range.written, &view, .address = address,
                                     .bytes = bytes};
    if (ZG_LIKELY(zg_call_look(call, address, bytes, range.before, &view, watch))) {
        if (ZG_LIKELY(!bytes || !zg_retire_is_forgotten(address))) return;
        dead.view = NULL;
    }
    zg_call_found(call, &dead, frame);
}

// --- before the call -------------------------------------------------------------------------------------------------

void zg_call_begin(const struct zg_call *call, const void *buffer, uint64_t bytes, const uint64_t *frame,
                   struct zg_call_watch *watch) {
    forget(watch);
    check(call, (struct range){(uint64_t)buffer, bytes, 0, call->writes}, frame, watch);
}

void zg_call_also_reads(const struct zg_call *call, const void *start, uint64_t bytes, const uint64_t *frame) {
    struct zg_call_watch unused;
    forget(&unused);
    check(call, (struct range){(uint64_t)start, bytes, 0, false}, frame, &unused);
}

// A pointer of the program may be invalid, and the call must then return EFAULT. So memory is read in place only if it
// is certainly mapped: on the stack above the published function, or in a live block.
static bool peek(void *to, uint64_t from, uint64_t bytes, const uint64_t *frame) {
    struct zg_stack_bounds stack = zg_thread_stack_bounds();
    struct zg_block_view view;
    uint64_t here = (uint64_t)frame;
    bool known =
        here >= stack.low && here < stack.high && from >= here && from < stack.high && stack.high - from >= bytes;
    if (!known && zg_lookup_is_in_heap(from))
        known = zg_lookup_block(from, &view) && view.state == zg_state_live &&
                view.start + view.size - zg_arch_address(from) >= bytes &&
                zg_arch_address(from) < view.start + view.size;
    if (!known) return zg_os_read_memory(to, from, bytes) == bytes;
    __builtin_memcpy(to, (const void *)from, bytes);
    return true;
}

static void look_at_vectors(const struct zg_call *call, uint64_t vectors, uint64_t count, const uint64_t *frame,
                            struct zg_call_watch *watch) {
    struct iovec batch[BATCH];
    uint64_t before = 0;
    if (!count || count > MOST_VECTORS) return;
    zg_call_also_reads(call, (const void *)vectors, count * sizeof batch[0], frame);
    for (uint64_t at = 0; at < count; at += BATCH) {
        uint64_t now = zg_min(count - at, BATCH);
        if (!peek(batch, vectors + at * sizeof batch[0], now * sizeof batch[0], frame)) return;
        for (uint64_t i = 0; i < now; i++) {
            struct range range = {(uint64_t)batch[i].iov_base, batch[i].iov_len, before, call->writes};
            check(call, range, frame, watch);
            before += batch[i].iov_len;
        }
    }
}

void zg_call_begin_vectors(const struct zg_call *call, const struct iovec *vectors, int64_t count,
                           const uint64_t *frame, struct zg_call_watch *watch) {
    forget(watch);
    look_at_vectors(call, (uint64_t)vectors, (uint64_t)count, frame, watch);
}

void zg_call_begin_message(const struct zg_call *call, const struct msghdr *message, const uint64_t *frame,
                           struct zg_call_watch *watch) {
    struct msghdr copy;
    forget(watch);
    zg_call_also_reads(call, message, sizeof copy, frame);
    if (!peek(&copy, (uint64_t)message, sizeof copy, frame)) return;
    // Check the address and the control data only if the call reads them: a receiving call may write neither.
    if (!call->writes) {
        zg_call_also_reads(call, copy.msg_name, copy.msg_namelen, frame);
        zg_call_also_reads(call, copy.msg_control, copy.msg_controllen, frame);
    }
    look_at_vectors(call, (uint64_t)copy.msg_iov, copy.msg_iovlen, frame, watch);
}

// --- after the call --------------------------------------------------------------------------------------------------

// Returns the first byte of the buffer behind the block and the blocks that are joined with it.
static uint64_t behind(const struct zg_call_watch *watch) { return watch->address + watch->room; }

// Returns true if the buffer is readable up to the block's end, but some of its bytes behind the end are not.
static bool is_fault_behind(const struct zg_call_watch *watch) {
    uint64_t end = watch->address + watch->bytes, over = behind(watch);
    if (end < watch->address || end >> ZG_ARCH_ADDRESS_BITS)
        // Not a valid address range: the kernel refuses it without an access.
        return false;
    // All memory behind the block's last granule has another tag.
    if (zg_tags_are_on() && zg_tags_pointer(watch->block.start) != watch->block.start)
        return end > zg_round_up(over, 16);
    return (over == watch->address || zg_os_is_readable(watch->address, over)) && !zg_os_is_readable(over, end) &&
           zg_os_can_read_memory();
}

// Returns how the call ended if unreadable memory behind the block ended it: the call failed, or it transferred exactly
// the block's bytes. Otherwise NULL.
static const char *outcome(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result) {
    if (result < 0) {
        // If other buffers precede this buffer, EFAULT may be due to them.
        bool is_fault = errno == EFAULT && watch->limit == watch->room;
        return is_fault && is_fault_behind(watch) ? "failed with EFAULT" : NULL;
    }
    // A receiving call may end here just because there was no more data.
    return !call->writes && is_fault_behind(watch) ? "stopped short" : NULL;
}

ZG_COLD void zg_call_freed_meanwhile(const struct zg_call *call, const void *buffer, ssize_t result,
                                     const uint64_t *frame) {
    struct zg_block_view view;
    if (!zg_lookup_block((uint64_t)buffer, &view) || !is_dead(view.state)) return;
    struct zg_call_discovery dead = {
        zg_finding_use_after_free, true, &view, .address = (uint64_t)buffer, .bytes = (uint64_t)result,
        .freed = "during the call"};
    zg_call_found(call, &dead, frame);
}

ZG_COLD void zg_call_end_slow(const struct zg_call *call, const struct zg_call_watch *watch, ssize_t result,
                              const uint64_t *frame) {
    if (watch->limit != ZG_CALL_ANY && (result < 0 || (uint64_t)result >= watch->limit)) {
        struct zg_call_discovery over = {zg_finding_heap_overflow, call->writes, &watch->block,
                                         .address = behind(watch), .bytes = watch->bytes};
        if (result > 0 && (uint64_t)result > watch->limit)
            over.excess = zg_min((uint64_t)result - watch->limit, watch->bytes - watch->room);
        else over.ended = outcome(call, watch, result);
        if (over.excess || over.ended) zg_call_found(call, &over, frame);
    }
    if (call->writes && watch->target && result > 0) zg_call_freed_meanwhile(call, (void *)watch->first, result, frame);
}
