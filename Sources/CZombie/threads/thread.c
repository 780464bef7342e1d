// Access to the calling thread's state without entering the runtime. Any context; no lock.

#include "threads/thread.h"

#include "platform/os.h"
#include "settings/coverage.h"
#include "settings/stats.h"

enum { MOST_PROBED = 1 << 20 };

__thread struct zg_thread *zg_thread_self;
__thread struct zg_thread *zg_bypassing_state;
struct zg_thread *zg_threads;

// The placeholder states consist only of their first word, `in_runtime`, because no other field of them is read. Three
// full states would add 1.5 MB to the library's file and to the memory that RLIMIT_DATA counts.
struct in_runtime {
    uint32_t in_runtime;
    char rest[60];
};
_Static_assert(__builtin_offsetof(struct zg_thread, in_runtime) == 0, "a state begins with it");
#define STAND_IN(name)                                                                                                 \
    struct in_runtime name##_stand_in __asm__(#name)                                                                   \
        __attribute__((visibility("hidden"), aligned(64))) = {.in_runtime = 1};
STAND_IN(zg_thread_ended)
STAND_IN(zg_thread_between)
STAND_IN(zg_thread_bypassing)

struct zg_thread *zg_thread_current_or_null(void) {
    struct zg_thread *thread = zg_thread_self;
    if (thread == &zg_thread_bypassing) return zg_bypassing_state;
    return thread == &zg_thread_ended || thread == &zg_thread_between ? NULL : thread;
}

uint32_t zg_thread_number(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread ? thread->number : 0;
}

struct zg_stack_bounds zg_thread_stack_bounds(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread ? thread->stack : (struct zg_stack_bounds){0, 0};
}

void zg_thread_extend_stack(struct zg_stack_bounds *bounds, uint64_t sp) {
    uint64_t low = sp & ~(ZG_PAGE_BYTES - 1);
    if (low >= bounds->low || bounds->low - low > MOST_PROBED) return; // another stack, such as a coroutine's
    if (zg_os_is_readable(low, bounds->low)) bounds->low = low;
}

void zg_thread_flush_many_counters(struct zg_thread *thread) {
    enum { CALLS = 1024, BYTES = 64 << 10 };
    zg_thread_count_pending(thread);
    uint64_t calls = thread->allocations + thread->frees, bytes = thread->allocated_bytes - thread->freed_bytes;
    // Flush the counts of the first calls at once: a process that is killed early would lose its counts.
    bool is_early = zg_stats_get(zg_counter_allocations) < 16 * CALLS;
    if (calls >= CALLS || bytes + BYTES > 2 * BYTES || is_early) zg_thread_flush_counters(thread);
}

void zg_thread_flush_counters(struct zg_thread *thread) {
    zg_thread_count_pending(thread);
    zg_stats_add(zg_counter_allocations, thread->allocations);
    zg_stats_add(zg_counter_frees, thread->frees);
    zg_stats_add(zg_counter_live_blocks, thread->allocations - thread->frees);
    zg_stats_add(zg_counter_live_bytes, thread->allocated_bytes - thread->freed_bytes);
    zg_stats_add(zg_counter_stacks_captured, thread->allocations + thread->frees); // every such call captures one stack
    if (thread->shortened) zg_stats_add(zg_counter_stacks_shortened, thread->shortened);
    if (thread->zombies) zg_stats_add(zg_counter_zombies, thread->zombies);
    if (thread->windowed) {
        zg_stats_add(zg_counter_fenced_blocks, thread->windowed);
        zg_stats_add(zg_counter_windowed_blocks, thread->windowed);
    }
    if (thread->tagged) zg_stats_add(zg_counter_tagged_blocks, thread->tagged);
    if (thread->guarded) zg_stats_add(zg_counter_guarded_at_once, thread->guarded);
    zg_stats_raise_peak(zg_counter_live_bytes_peak, zg_stats_live_bytes());
    thread->allocations = thread->frees = thread->allocated_bytes = thread->freed_bytes = 0;
    thread->shortened = thread->zombies = thread->windowed = thread->tagged = thread->guarded = 0;
    zg_stats_note_refusals();
    zg_coverage_publish();
}
