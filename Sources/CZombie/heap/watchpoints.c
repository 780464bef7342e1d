// Opens, moves and closes hardware watchpoints, and chooses the blocks to watch. Slow path. No thread waits for the
// lock: a function that finds the lock taken does nothing. Some functions run in signal context.

#define _GNU_SOURCE
#include "heap/watchpoints.h"

#include <signal.h>
#include <time.h>

#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/single.h"

// The figures are from docs/design/037-watchpoints.md.
// A block is watched for this much processor time of the process. While any watchpoint is set, the processor's repeated
// string instructions, which copy and fill large blocks, are 8 to 36 times slower; git is 35 % slower.
#define WATCHED_NS ((uint64_t)8000000)
// After a watch, no watch begins for this many times the watch's duration. This reduces the slowdown of git to 0.35 %.
#define REST_TIMES ((uint64_t)100)
// A watch begins only if the process has freed 64 blocks within this time. The process will then soon free more blocks,
// and one of these frees ends the watch.
#define ACTIVE_NS ((uint64_t)20000000)
// A pair with a busy allocation stack is rare if, in this time before its free, no pair with any busy stack was freed
// that was missing from its thread's cache of pairs. Rare pairs stay out of the caches. A free whose pair is not cached
// takes 0.2 us more, so the frees of rare pairs take at most 0.2 % of the processor time.
#define RARE_NS ((uint64_t)100000)
// Time between two readings of the number of context switches and threads.
#define LOOK_NS ((uint64_t)100000000)
// Three open events make a context switch 0.4 us slower, and the creation and end of a thread 25 us. These delays may
// take at most 0.5 % of the time.
#define SWITCH_NS ((uint64_t)400)
#define THREAD_NS ((uint64_t)25000)
#define OPEN_SHARE ((uint64_t)200)
enum {
    BUSY_STACKS = 4096, // counters, direct-mapped
    // An allocation stack is busy from this number of counted frees on. One free in 64 is counted, so BUSY_LEAST stands
    // for about 1,000 frees. Blocks of stacks with fewer frees are isolated more often, and short-lived programs have
    // no busy stacks.
    BUSY_LEAST = 16,
    TRACKED_PAIRS = 256,
    STRAYS_MOST = 8,
    // Number of calls of zg_watchpoints_look (one for each 64 frees) after which a thread's cache of pairs is cleared,
    // so that frequent pairs are examined again.
    LOOKS_PER_CACHE = 1024,
};

static uint8_t busy[BUSY_STACKS];
// tracked_pairs: pairs of busy allocation stacks that were rare at their last free. wanted_ticks: time of the last free
// whose pair had a busy allocation stack and was not cached. Both are approximate if several threads change them.
static uint64_t tracked_pairs[TRACKED_PAIRS];
static uint64_t wanted_ticks;

static struct zg_lock lock;
static uint64_t our_handler; // 0: nothing is watched
static uint32_t is_refused;  // watchpoints stay off: opening or moving them failed, or the process ends
static int owner;            // process that opened the events; 0: they are closed
static struct {
    int descriptor;
    uint64_t id;
} events[ZG_WATCHED_WORDS];
static bool is_set;                // the watchpoints are on
static zg_slot held;               // slot number plus 1 of the block that is or was last watched; 0: none
static uint64_t held_pair;         // pair of `held`; 0: the pair has turned out to be frequent
static uint64_t set_ticks, set_ns; // start of the watch, in ticks, and in processor time of the process
static uint64_t rest_ticks;        // time until which nothing is watched
static uint64_t active_ticks;      // time of the last flush of 64 freed blocks, approximate
static uint32_t strays;            // accesses at the watchpoints, since these were last moved, that were not findings
static uint64_t looked_ticks;      // when `switching_ns` was last set
static uint64_t switching_ns;      // cost that all context switches and threads so far would have had with open events
static uint64_t looks;             // number of calls of zg_watchpoints_look, approximate

bool zg_watchpoints_may_be(void) {
    return ZG_ARCH_TRAPS_AFTER_ACCESS && zg_config.watchpoints && zg_config.profile != zg_profile_mte;
}

void zg_watchpoints_start(uint64_t handler) { zg_store(&our_handler, handler); }

// Returns true if the descriptor still refers to the event that was opened: the program may have closed it and reused
// its number.
static bool is_ours(int word) {
    return events[word].descriptor >= 0 && zg_os_watch_id(events[word].descriptor) == events[word].id;
}

static void close_events(void) {
    for (int i = 0; i < ZG_WATCHED_WORDS && owner; i++) {
        if (is_ours(i)) zg_os_close(events[i].descriptor);
        events[i].descriptor = -1;
    }
    owner = 0;
    __atomic_store_n(&is_set, false, __ATOMIC_RELAXED);
}

void zg_watchpoints_after_fork_in_child(void) {
    zg_lock_reset(&lock);
    // The events are the parent's. They watch no thread of the child.
    close_events();
    rest_ticks = 0;
}

void zg_watchpoints_note_free(uint32_t alloc_stack, uint64_t ticks) {
    uint8_t *count = &busy[(uint32_t)zg_mix(alloc_stack) % BUSY_STACKS], now = __atomic_load_n(count, __ATOMIC_RELAXED);
    if (now < BUSY_LEAST) __atomic_store_n(count, (uint8_t)(now + 1), __ATOMIC_RELAXED);
    // All threads share the cache line of this time: do not write to it at every call.
    if (ticks - zg_load(&active_ticks) > zg_clock_ticks(ACTIVE_NS / 8)) zg_store(&active_ticks, ticks);
}

bool zg_watchpoints_want(struct zg_thread *thread, uint32_t alloc_stack, uint32_t free_stack, bool is_new) {
    if (!zg_load(&our_handler) || __atomic_load_n(&is_refused, __ATOMIC_RELAXED)) return false;
    if (__atomic_load_n(&busy[(uint32_t)zg_mix(alloc_stack) % BUSY_STACKS], __ATOMIC_RELAXED) < BUSY_LEAST)
        return false;
    uint64_t pair = zg_pair(alloc_stack, free_stack), now = zg_arch_ticks();
    uint64_t *tracked = &tracked_pairs[(uint32_t)zg_mix(pair) % TRACKED_PAIRS];
    bool is_tracked = is_new || zg_load(tracked) == pair;
    bool is_rare = now - zg_load(&wanted_ticks) >= zg_clock_ticks(RARE_NS);
    zg_store(&wanted_ticks, now);
    // The caller has put the pair into the thread's cache. Take a rare pair out again, so that this function is called
    // for its next free, too.
    if (is_rare) *zg_pair_place(&thread->pairs, alloc_stack, free_stack) = 0;
    zg_store(tracked, is_rare ? pair : 0);
    if (!is_rare && zg_load(&held_pair) == pair) zg_store(&held_pair, 0);
    return is_new || (is_rare && is_tracked);
}

static uint64_t switching_now(void) {
    return zg_os_context_switches() * SWITCH_NS + zg_stats_get(zg_counter_threads) * THREAD_NS;
}

static bool open_events(void) {
    if (!zg_is_single_threaded() || zg_arch_is_translated() || zg_os_is_traced()) return false;
    if (!zg_os_watch_is_safe()) {
        zg_stats_degrade(zg_degradation_no_watchpoints);
        return false;
    }
    for (int i = 0; i < ZG_WATCHED_WORDS; i++) events[i].descriptor = -1;
    owner = zg_os_pid();
    bool done = true;
    for (int i = 0; i < ZG_WATCHED_WORDS && done; i++) {
        events[i].descriptor = zg_os_watch_open();
        events[i].id = events[i].descriptor >= 0 ? zg_os_watch_id(events[i].descriptor) : 0;
        done = events[i].id != 0;
    }
    if (!done) close_events();
    if (!done) zg_stats_degrade(zg_degradation_no_watchpoints);
    zg_store(&looked_ticks, zg_arch_ticks());
    switching_ns = switching_now();
    return done;
}

// Returns how many bytes of the word at `offset` can be watched: 8, or 4, 2 or 1 in an incomplete last word of the
// block, or 0 behind the block.
static uint32_t watched_bytes(uint64_t offset, uint64_t size) {
    if (offset >= size) return 0;
    uint64_t left = size - offset;
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

// Moves all watchpoints to the words from `offset` of a block. Returns false if the program has closed a descriptor or
// the kernel refuses the move.
static bool move_events(uint64_t start, uint64_t offset, uint64_t size) {
    bool done = true;
    for (int i = 0; i < ZG_WATCHED_WORDS && done; i++, offset += sizeof(uint64_t))
        done = is_ours(i) && zg_os_watch_move(events[i].descriptor, start + offset, watched_bytes(offset, size)) == 0;
    return done;
}

// Turns watchpoints off for the rest of the process: the program has closed the descriptors, or a seccomp filter
// forbids moving them.
static void refuse(void) {
    close_events();
    __atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
    zg_stats_degrade(zg_degradation_no_watchpoints);
}

// Returns the offset of the first word that is not a trap word. Trap words need no watchpoint: their use faults, and a
// fault gives more information.
static uint64_t first_watched_byte(uint32_t header) {
    uint32_t zombie = zg_header_zombie(header);
    return zombie & ZG_HEADER_SWIFT ? 16 : zombie & ZG_HEADER_CXX ? 8 : 0;
}

// Turns the watchpoints off and starts the pause after the watch. The caller holds the lock.
static void end_watch(uint64_t now) {
    if (!is_set || !owner || owner != zg_os_pid()) return;
    __atomic_store_n(&is_set, false, __ATOMIC_RELAXED);
    zg_store(&rest_ticks, now + (now - set_ticks) * REST_TIMES);
    if (!move_events(0, 0, 0)) refuse();
}

static bool may_watch(uint64_t now) {
    bool is_free = !__atomic_load_n(&is_set, __ATOMIC_RELAXED) || !zg_load(&held_pair);
    return is_free && now >= zg_load(&rest_ticks) && now - zg_load(&active_ticks) < zg_clock_ticks(ACTIVE_NS);
}

bool zg_watchpoints_move(zg_slot slot, zg_slot *former) {
    const struct zg_slab *slab = &zg_slabs.slab[zg_slot_class(slot)];
    const struct zg_block *block = &slab->blocks[zg_slot_index(slot)];
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED);
    uint64_t size = zg_slab_requested(slab, header), first = first_watched_byte(header);
    *former = 0;
    if (first >= size || !may_watch(zg_arch_ticks()) || !zg_lock_try(&lock)) return false;
    bool done = !__atomic_load_n(&is_refused, __ATOMIC_RELAXED) && (!owner || owner == zg_os_pid());
    // The program may have replaced the runtime's handler by a direct system call.
    done = done && zg_os_signal_handler(SIGTRAP) == zg_load(&our_handler);
    if (done && !owner && !open_events()) {
        done = false;
        __atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
    }
    if (done && !move_events(zg_slab_slot_address(slab, zg_slot_index(slot)), first, size)) {
        done = false;
        refuse();
    }
    if (done) {
        *former = held;
        held = slot + 1;
        strays = 0;
        zg_store(&held_pair, zg_pair(block->alloc_stack, block->free_stack));
        set_ticks = zg_arch_ticks();
        set_ns = zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        __atomic_store_n(&is_set, true, __ATOMIC_RELAXED);
        zg_stats_add(zg_counter_watchpoints, 1);
    }
    zg_lock_drop(&lock);
    return done;
}

bool zg_watchpoints_are_open(void) { return owner != 0; }

void zg_watchpoints_pause(void) {
    if (!zg_lock_try(&lock)) return;
    end_watch(zg_arch_ticks());
    zg_lock_drop(&lock);
}

void zg_watchpoints_stop(void) {
    enum { TRIES = 10000 }; // while another thread holds the lock, which it does for a few system calls
    __atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
    for (int i = 0; i < TRIES && __atomic_load_n(&is_set, __ATOMIC_RELAXED); i++, zg_arch_pause())
        zg_watchpoints_pause();
}

void zg_watchpoints_note_stray(void) {
    zg_stats_add(zg_counter_watchpoint_strays, 1);
    if (__atomic_add_fetch(&strays, 1, __ATOMIC_RELAXED) == STRAYS_MOST) zg_watchpoints_pause();
}

// Closes the events if context switches and new threads are so frequent that open events cost too much. In a process
// with one thread, the next block to watch opens the events again.
static void look_at_switches(uint64_t now) {
    uint64_t before = zg_load(&looked_ticks), since = now - before;
    if (since < zg_clock_ticks(LOOK_NS) || !zg_lock_try(&lock)) return;
    uint64_t spent = switching_now();
    if (owner && owner == zg_os_pid() && spent - switching_ns > zg_clock_ns(since) / OPEN_SHARE) close_events();
    switching_ns = spent;
    zg_store(&looked_ticks, now);
    zg_lock_drop(&lock);
}

// Ends the watch if it has lasted long enough, or if the block's pair is not rare.
static void look_at_watch(uint64_t now) {
    if (zg_load(&held_pair) && now - set_ticks < zg_clock_ticks(WATCHED_NS)) return;
    if (!zg_lock_try(&lock)) return;
    if (!zg_load(&held_pair) || zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - set_ns >= WATCHED_NS) end_watch(now);
    zg_lock_drop(&lock);
}

void zg_watchpoints_look(struct zg_thread *thread) {
    if (!zg_load(&our_handler)) return;
    uint64_t count = zg_load(&looks) + 1;
    zg_store(&looks, count);
    if (!(count % LOOKS_PER_CACHE)) __builtin_memset(&thread->pairs, 0, sizeof thread->pairs);
    if (!owner) return;
    uint64_t now = zg_arch_ticks();
    if (__atomic_load_n(&is_set, __ATOMIC_RELAXED)) look_at_watch(now);
    look_at_switches(now);
}

#ifdef ZG_CHECK_INVARIANTS
zg_slot zg_watchpoints_held(void) { return held; }
#endif
