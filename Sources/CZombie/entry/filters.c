// Seccomp filters. Cold; while memory is committed, takes the locks of the heap one at a time.

#include "entry/filters.h"

#include <linux/filter.h>

#include "blocks/slab.h"
#include "blocks/span.h"
#include "entry/forks.h"
#include "platform/arch.h"
#include "platform/filter.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "process/maintenance_thread.h"
#include "settings/stats.h"

// Memory to commit before a filter forbids it: bytes of each size class, and spans of each size up to 1 MiB. It costs
// only address space until it is used.
#define RESERVE_BYTES ((uint64_t)4 << 20)
enum { RESERVE_SPANS = 8, NOTHING_TO_DO = -1, UNKNOWN = -2 };

static void open_reserve(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    zg_slab_open_reserve(RESERVE_BYTES);
    zg_span_open_reserve(RESERVE_SPANS);
    zg_thread_leave(thread);
}

// Copies the program's filter. Returns NULL if it is unreadable, not a filter, or if there is no memory for the copy.
// The program may pass invalid pointers on purpose, to get EFAULT.
static const struct zg_filter_instruction *copy(const void *program, uint32_t *count) {
    struct sock_fprog given;
    if (zg_os_read_memory(&given, (uint64_t)program, sizeof given) != sizeof given) return NULL;
    uint64_t bytes = given.len * sizeof(struct zg_filter_instruction);
    if (!given.len || given.len > ZG_FILTER_LONGEST) return NULL;
    void *copied = zg_os_map(zg_round_up(bytes, ZG_PAGE_BYTES));
    if (copied && zg_os_read_memory(copied, (uint64_t)given.filter, bytes) != bytes) {
        zg_os_release(copied, zg_round_up(bytes, ZG_PAGE_BYTES));
        return NULL;
    }
    *count = given.len;
    return copied;
}

int zg_filters_before(const void *program, bool all_threads, const uint64_t *frame) {
    // Nothing to do: libraries probe the kernel with a NULL filter, and the filter of a child of vfork applies to that
    // child alone.
    if (!program || !zg_os_is_own_process()) return NOTHING_TO_DO;
    zg_forks_leave_windows(frame);
    zg_os_before_filter();
    if (all_threads) zg_maintenance_thread_stop();
    uint32_t count = 0;
    const struct zg_filter_instruction *copied = copy(program, &count);
    if (!copied) {
        // The filter is invalid, or it is unknown because an earlier filter forbids reading its memory.
        if (zg_os_can_read_memory()) return NOTHING_TO_DO;
        open_reserve(frame);
        return UNKNOWN;
    }
    bool asks_nobody = zg_os_may_commit();
    int number = zg_filter_add(copied, count);
    if (number < 0) return UNKNOWN;
    bool still_commits = zg_os_may_commit();
    if (asks_nobody && !still_commits) {
        // The kernel does not have the filter yet. Drop the runtime's copy, which forbids committing, commit memory,
        // and add the copy again.
        zg_filter_drop(number);
        open_reserve(frame);
        number = zg_filter_add(copied, count);
    }
    return number < 0 ? UNKNOWN : number;
}

void zg_filters_after(int number, bool taken) {
    if (number == NOTHING_TO_DO) return;
    if (!taken) {
        if (number >= 0) zg_filter_drop(number);
        return;
    }
    if (number == UNKNOWN) zg_filter_add_unknown();
    if (!zg_os_may_all()) zg_stats_degrade(zg_degradation_filtered);
}

void zg_filters_before_strict(const uint64_t *frame) {
    if (!zg_os_is_own_process()) return;
    zg_forks_leave_windows(frame);
    zg_os_before_filter();
    open_reserve(frame);
}

void zg_filters_after_strict(bool taken) {
    if (!taken) return;
    // Strict mode also disables the processor's time stamp counter (disable_TSC in kernel/seccomp.c).
    zg_arch_ticks_stopped = 1;
    zg_filter_add_strict();
    zg_stats_degrade(zg_degradation_filtered);
}
