// Keeps windows working across forks: children get copies of all chunks, in windows at the same addresses. Also turns
// windows into private pages when a fork could no longer copy them.
// zg_window_fork_prepare and zg_window_fork_done: around a fork, without a lock. zg_window_fault: signal context, no
// lock.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "pages/conditions.h"
#include "pages/window.h"
#include "pages/window_state.h"
#include "platform/os.h"
#include "settings/stats.h"
#include "threads/single.h"

static enum zg_state state_at(uint64_t page) {
    return zg_header_state(__atomic_load_n(&zg_alias_area.aliases[page].block.header, __ATOMIC_RELAXED));
}

// Returns true if the page has a block that can still be read.
static bool is_accessible(uint64_t page) {
    enum zg_state state = state_at(page);
    return state == zg_state_live || state == zg_state_freeing || state == zg_state_quarantined;
}

// Returns the number of the first open window from this number on; 0 if there is none.
static uint32_t next_open(uint32_t number) {
    for (; number < zg_windows.window_count; number++)
        if (zg_window_by_number(number)->phase == zg_window_open) return number;
    return 0;
}

static uint64_t bytes_of_all_chunks(void) {
    uint64_t bytes = 0;
    for (uint32_t number = 1; number < zg_windows.chunk_count; number++)
        bytes += zg_chunk_bytes(zg_chunk_by_number(number));
    return bytes;
}

// Guards the pages of retired blocks in a window that was just mapped.
static void guard_again(const struct zg_window *window) {
    uint64_t end = window->first + window->pages;
    for (uint64_t page = window->first, next; page < end; page = next) {
        next = page + 1;
        if (state_at(page) != zg_state_retired) continue;
        while (next < end && state_at(next) == zg_state_retired) next++;
        zg_os_guard((void *)zg_window_page_address(page), (next - page) * ZG_PAGE_BYTES);
    }
}

// Copies the pages of the window that have accessible blocks, from one copy of the window at `from` to another at `to`.
static void copy_accessible(const struct zg_window *window, char *to, const char *from) {
    for (uint32_t page = 0; page < window->pages; page++)
        if (is_accessible(window->first + page))
            __builtin_memcpy(to + page * ZG_PAGE_BYTES, from + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES);
}

// --- private pages instead of windows -------------------------------------------------------------------------------

// Turns the pages of a window into private ones at the same addresses, with their contents. Signals must be masked.
// Under the lock.
static bool make_private(const struct zg_window *window, char *copy) {
    char *start = zg_window_start(window);
    copy_accessible(window, copy, start);
    if (!zg_os_map_private(zg_window_bytes_of(window), start)) return false;
    copy_accessible(window, start, copy);
    guard_again(window);
    return true;
}

static bool make_all_private(char *copy) {
    for (uint32_t number = 1; (number = next_open(number)) != 0; number++)
        if (!make_private(zg_window_by_number(number), copy)) return false;
    for (uint32_t number = 1; number < zg_windows.chunk_count; number++) {
        const struct zg_chunk *chunk = zg_chunk_by_number(number);
        zg_os_release((void *)chunk->memory, zg_chunk_bytes(chunk));
    }
    return true;
}

void zg_window_leave(void) {
    zg_window_stop();
    if (!zg_windows_has_chunks() || zg_windows.are_private || !zg_is_single_threaded()) return;
    uint64_t signals;
    zg_windows_take_lock();
    char *copy = zg_os_map(ZG_CHUNK_PAGES_MOST * ZG_PAGE_BYTES);
    bool is_held = zg_os_mask_signals(SIG_SETMASK, UINT64_MAX, &signals);
    zg_windows.are_private = copy && is_held && make_all_private(copy);
    if (is_held) zg_os_restore_signals(signals);
    if (copy) zg_os_release(copy, ZG_CHUNK_PAGES_MOST * ZG_PAGE_BYTES);
    zg_windows_drop_lock();
}

// --- the copy for a child -------------------------------------------------------------------------------------------

// The copy of all chunks. Set only in the thread that forks, from zg_window_fork_prepare to zg_window_fork_done.
static __thread struct {
    char *start;
    uint64_t bytes;
} copied __attribute__((tls_model("initial-exec")));

// Sets whether children inherit the open windows (MADV_DOFORK).
static void share_all(bool share) {
    for (uint32_t number = 1; (number = next_open(number)) != 0; number++) {
        const struct zg_window *window = zg_window_by_number(number);
        zg_os_share_with_children(zg_window_start(window), zg_window_bytes_of(window), share);
    }
}

// Returns true if system call filters allow the child to map its windows.
static bool may_copy(void) {
    return zg_os_may_call(SYS_mremap) && zg_os_may_call(SYS_mmap) && zg_os_may_call(SYS_madvise);
}

static void count_fork(void) {
    static uint32_t forks;
    struct zg_isolation_conditions conditions = zg_conditions_now();
    if (zg_policy_ends_windows(&conditions, ++forks)) zg_window_stop();
}

// Maps shared memory that a child inherits. NULL if that is impossible.
static char *map_for_child(uint64_t bytes) {
    char *start = may_copy() ? zg_os_map_common(bytes) : NULL;
    if (!start || zg_os_share_with_children(start, bytes, true) == 0) return start;
    zg_os_release(start, bytes);
    return NULL;
}

void zg_window_fork_prepare(void) {
    count_fork();
    copied.start = NULL;
    copied.bytes = 0;
    uint32_t count = zg_windows.chunk_count;
    if (!zg_windows_has_chunks() || zg_windows.are_private) return;
    uint64_t bytes = bytes_of_all_chunks();
    char *to = map_for_child(bytes);
    if (!to) {
        // Processes now share the chunks: a slot freed by one process must not be reused by the other.
        zg_window_stop();
        zg_stats_degrade(zg_degradation_windows_shared);
        return share_all(true);
    }
    copied.start = to;
    copied.bytes = bytes;
    for (uint32_t number = 1; number < count; number++) {
        const struct zg_chunk *chunk = zg_chunk_by_number(number);
        for (uint32_t page = 0; page < chunk->pages; page++, to += ZG_PAGE_BYTES)
            if (zg_chunk_has_blocks(chunk, page))
                __builtin_memcpy(to, (void *)(chunk->memory + page * ZG_PAGE_BYTES), ZG_PAGE_BYTES);
    }
}

// In a child, turns a window that the kernel refuses to map into private pages with the window's blocks.
static void copy_to_private(const struct zg_window *window) {
    char *start = zg_window_start(window);
    if (!zg_os_map_private(zg_window_bytes_of(window), start)) return;
    copy_accessible(window, start, (const char *)zg_window_chunk(window)->memory);
}

// Maps the open windows onto their chunks. False if the kernel refuses one.
static bool map_windows(void) {
    for (uint32_t number = 1; (number = next_open(number)) != 0; number++) {
        const struct zg_window *window = zg_window_by_number(number);
        struct zg_chunk *chunk = zg_window_chunk(window);
        if (zg_os_map_window((void *)chunk->memory, zg_window_bytes_of(window), zg_window_start(window)) != 0)
            return false;
        guard_again(window);
        if (chunk->current_window == number) chunk->populated = chunk->cursor;
    }
    return true;
}

static void copy_all_to_private(void) {
    for (uint32_t number = 1; (number = next_open(number)) != 0; number++) {
        const struct zg_window *window = zg_window_by_number(number);
        struct zg_chunk *chunk = zg_window_chunk(window);
        copy_to_private(window);
        guard_again(window);
        if (chunk->current_window == number) chunk->populated = chunk->cursor;
    }
}

// Maps the process's windows onto this copy of all chunks.
static void map_copy(char *start, uint64_t bytes) {
    zg_os_share_with_children(start, bytes, false);
    char *at = start;
    for (uint32_t number = 1; number < zg_windows.chunk_count && at < start + bytes; number++) {
        zg_chunk_by_number(number)->memory = (uint64_t)at;
        at += zg_chunk_bytes(zg_chunk_by_number(number));
    }
    if (!map_windows()) {
        // Turn all windows into private pages, as in zg_window_leave. A child of this child then copies them with its
        // other memory.
        zg_window_stop();
        copy_all_to_private();
        zg_windows.are_private = true;
    }
    zg_store(&zg_windows.owner, (uint64_t)zg_os_pid());
}

void zg_window_fork_done(bool child) {
    if (child && copied.start) map_copy(copied.start, copied.bytes);
    else if (copied.start) zg_os_release(copied.start, copied.bytes);
    copied.start = NULL;
}

// --- children that no fork handler saw ------------------------------------------------------------------------------

// Reads the parent's chunks. False if that is impossible.
static bool read_chunks(int parent, char *to) {
    for (uint32_t number = 1; number < zg_windows.chunk_count; number++) {
        const struct zg_chunk *chunk = zg_chunk_by_number(number);
        for (uint32_t page = 0; page < chunk->pages; page++, to += ZG_PAGE_BYTES)
            if (zg_chunk_has_blocks(chunk, page) &&
                !zg_os_read_process(parent, to, chunk->memory + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES))
                return false;
    }
    return true;
}

enum zg_window_fault zg_window_fault(uint64_t address) {
    int parent = (int)zg_load(&zg_windows.owner);
    if (ZG_LIKELY(!zg_alias_contains(address)) || !parent || zg_windows.are_private || parent == zg_os_pid())
        return zg_window_fault_other;
    // A vfork child shares its parent's windows. There the page is mapped, and the fault has another cause.
    unsigned char present;
    if (zg_os_find_present((void *)(address & ~(ZG_PAGE_BYTES - 1)), ZG_PAGE_BYTES, &present) != -ENOMEM)
        return zg_window_fault_other;
    // The windows are not mapped. Reserve their addresses, so that the copy is not mapped there.
    for (uint32_t number = 1; (number = next_open(number)) != 0; number++) {
        const struct zg_window *window = zg_window_by_number(number);
        zg_os_blank(zg_window_start(window), zg_window_bytes_of(window));
    }
    uint64_t bytes = bytes_of_all_chunks();
    char *start = zg_os_map_common(bytes);
    if (!start || !read_chunks(parent, start)) {
        static const char message[] =
            "zguard: a process made by a bare system call lacks blocks in windows, and its parent cannot be "
            "read: it ends. Run it with ZGUARD_OPTIONS=isolated_windows=off\n";
        zg_os_write(2, message, sizeof message - 1);
        return zg_window_fault_lost;
    }
    map_copy(start, bytes);
    return zg_window_fault_mended;
}
