// Implements mlockall. The kernel checks everything that is mapped against RLIMIT_MEMLOCK and locks it. The runtime
// instead locks what belongs to the program. Cold; no lock of its own.
//
// If the process may lock everything, mlockall locks everything and the runtime's mere reservations are unlocked again.
// Otherwise the size of the program's mappings and live blocks is compared with the limit, and the mappings are then
// locked one by one. The memory of guarded blocks is not locked in that case: it is larger than the blocks, and the
// program may rely on the rest of the limit.

#define _GNU_SOURCE
#include "process/locking.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "blocks/lookup.h"
#include "images/module.h"
#include "limits/maintenance.h"
#include "pages/locked.h"
#include "pages/window.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "settings/bypass.h"
#include "settings/stats.h"

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

static bool locks_future;  // MCL_FUTURE is in force
static bool is_all_locked; // mlockall has locked all memory, including blocks: freed blocks are not unlocked

// --- what is mapped --------------------------------------------------------------------------------------------------

struct maps {
    int file, count, at;
    char bytes[1024];
};

struct mapping {
    uint64_t start, end;
    bool is_accessible;
};

static int next_byte(struct maps *maps) {
    if (maps->at == maps->count) {
        maps->at = 0;
        maps->count = zg_os_read(maps->file, maps->bytes, sizeof maps->bytes);
        if (maps->count <= 0) maps->count = 0;
    }
    return maps->at < maps->count ? maps->bytes[maps->at++] : -1;
}

static int read_hexadecimal(struct maps *maps, uint64_t *value) {
    int byte;
    for (*value = 0; (byte = next_byte(maps)) >= 0;
         *value = *value << 4 | (uint64_t)(byte <= '9' ? byte - '0' : byte - 'a' + 10))
        if (!((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f'))) break;
    return byte;
}

// Parses one line of /proc/self/maps: "start-end rwxp offset device inode name". Returns false at the end of the file
// or if the line has another form.
static bool next_mapping(struct maps *maps, struct mapping *mapping) {
    if (read_hexadecimal(maps, &mapping->start) != '-' || read_hexadecimal(maps, &mapping->end) != ' ') return false;
    int readable = next_byte(maps), writable = next_byte(maps), executable = next_byte(maps), byte;
    mapping->is_accessible = readable == 'r' || writable == 'w' || executable == 'x';
    while ((byte = next_byte(maps)) >= 0 && byte != '\n') {
    }
    return byte == '\n';
}

// Returns the runtime library's image; an empty range if the runtime is linked into the executable, whose variables are
// the program's.
static struct zg_module own_image(void) {
    struct zg_module module;
    bool is_known = zg_module_find_unwind((uint64_t)zg_locking_lock_all, &module);
    bool is_library = is_known && getauxval(AT_PHDR) - module.start >= module.end - module.start;
    return is_library ? module : (struct zg_module){.start = 0};
}

// Visits the mappings in /proc/self/maps: calls `act` for each accessible piece of the program's memory, and
// `act_on_own` for each piece of the runtime's.
struct pieces {
    void (*act)(struct pieces *pieces, uint64_t start, uint64_t end);
    void (*act_on_own)(struct pieces *pieces, uint64_t start, uint64_t end, bool accessible); // may be NULL
    uint64_t bytes;
    bool on_fault;
    struct zg_module image;
};

static bool own_range(const struct pieces *pieces, uint64_t index, uint64_t *start, uint64_t *end) {
    if (index) return zg_os_own_range(index - 1, start, end);
    *start = pieces->image.start;
    *end = pieces->image.end;
    return true;
}

static void split(struct pieces *pieces, const struct mapping *mapping) {
    for (uint64_t at = mapping->start, stop; at < mapping->end; at = stop) {
        uint64_t start, end;
        bool is_own = false;
        stop = mapping->end;
        for (uint64_t i = 0; own_range(pieces, i, &start, &end); i++) {
            if (end <= at || start >= stop || start == end) continue;
            is_own = start <= at;
            stop = is_own ? zg_min(end, mapping->end) : start;
            if (is_own) break;
        }
        if (is_own && pieces->act_on_own) pieces->act_on_own(pieces, at, stop, mapping->is_accessible);
        if (!is_own && mapping->is_accessible) pieces->act(pieces, at, stop);
    }
}

// Returns true if files may be opened. A seccomp filter installed after start-up could forbid opening files.
static bool may_open(void) {
    struct zg_process_state process;
    if (!zg_maintenance_begin()) return false;
    bool may = zg_pressure_process(&process) && process.as_at_start;
    zg_maintenance_end();
    return may;
}

// Visits all mappings. Returns false if /proc/self/maps cannot be read.
static bool for_each_piece(struct pieces *pieces) {
    if (!may_open()) return false;
    struct maps maps = {.file = zg_os_open_system("/proc/self/maps")};
    struct mapping mapping;
    bool any = false;
    if (maps.file < 0) return false;
    pieces->image = own_image();
    while (next_mapping(&maps, &mapping)) {
        any = true;
        split(pieces, &mapping);
    }
    zg_os_close(maps.file);
    return any;
}

// --- locking ---------------------------------------------------------------------------------------------------------

static void measure(struct pieces *pieces, uint64_t start, uint64_t end) { pieces->bytes += end - start; }
static void ignore(struct pieces *pieces, uint64_t start, uint64_t end) { (void)pieces, (void)start, (void)end; }

// Ignores failures, as mlockall does: a mapping may extend past the end of a truncated file.
static void lock_piece(struct pieces *pieces, uint64_t start, uint64_t end) {
    if (pieces->on_fault) zg_os_lock_on_fault((void *)start, end - start);
    else zg_os_lock((void *)start, end - start);
}

// Bounds of the library's .bss, which is unlocked, because it consists mostly of tables that are rarely touched.
extern char __bss_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static void unlock_unless_blocks(struct pieces *pieces, uint64_t start, uint64_t end, bool accessible) {
    if (start >= pieces->image.start && start < pieces->image.end) {
        start = zg_max(start, zg_round_up((uint64_t)__bss_start, ZG_PAGE_BYTES));
        end = zg_min(end, (uint64_t)_end & ~(ZG_PAGE_BYTES - 1));
        if (start < end) zg_os_unlock((void *)start, end - start);
    } else if (!accessible || !zg_lookup_is_in_heap(start)) zg_os_unlock((void *)start, end - start);
}

// After mlockall has locked everything: unlocks the runtime's reservations and .bss, but no blocks.
static int leave_reservations_out(int flags) {
    locks_future = flags & MCL_FUTURE;
    if (locks_future) zg_os_lock_blocks_later(true);
    else zg_os_lock_later(false);
    struct pieces pieces = {.act = ignore, .act_on_own = unlock_unless_blocks};
    for_each_piece(&pieces);
    return 0;
}

static int refuse(int flags, int error) {
    if ((flags & MCL_FUTURE) && !locks_future) zg_os_lock_later(false);
    errno = error;
    return -1;
}

int zg_locking_lock_all(int flags, struct zg_locking next) {
    zg_window_stop();
    if (flags & MCL_FUTURE) zg_os_lock_later(true); // before mlockall, while reserving address space does not lock it
    int before = errno, result = next.lock_all(flags), error = errno;
    if (result == 0) {
        is_all_locked = true;
        zg_locked_forget(false);
    }
    if (result == 0 && (flags & MCL_CURRENT)) return leave_reservations_out(flags);
    if (result == 0) {
        locks_future = flags & MCL_FUTURE;
        return 0;
    }
    uint64_t limit = zg_os_limit(RLIMIT_MEMLOCK);
    struct pieces pieces = {.act = measure};
    if (error != ENOMEM || !(flags & MCL_CURRENT) || !for_each_piece(&pieces)) return refuse(flags, error);
    if (pieces.bytes + zg_stats_live_bytes() > limit) return refuse(flags, error);
    // Each mlockall replaces the setting of MCL_FUTURE: clear an earlier MCL_FUTURE first.
    if (locks_future && next.unlock_all() != 0) return refuse(flags, errno);
    if ((flags & MCL_FUTURE) && next.lock_all(flags & ~MCL_CURRENT) != 0) return refuse(flags, errno);
    locks_future = flags & MCL_FUTURE;
    if (!locks_future) zg_os_lock_later(false);
    pieces = (struct pieces){.act = lock_piece, .on_fault = flags & MCL_ONFAULT};
    for_each_piece(&pieces);
    zg_stats_degrade(zg_degradation_blocks_not_locked);
    errno = before;
    return 0;
}

static void forget(bool is_child) {
    locks_future = is_all_locked = false;
    zg_locked_forget(is_child);
    zg_os_lock_later(false);
}

int zg_locking_unlock_all(struct zg_locking next) {
    int result = next.unlock_all();
    if (result == 0) forget(false);
    return result;
}

void zg_locking_note_all(bool are_locked, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (thread) zg_locked_forget(false);
    is_all_locked = are_locked;
    if (thread) zg_thread_leave(thread);
}

void zg_locking_note(uint64_t start, uint64_t bytes, bool is_locked, const uint64_t *frame) {
    bool is_foreign = zg_lookup_is_foreign(start) && zg_lookup_is_foreign(start + bytes - 1);
    if (!bytes || (is_foreign && !zg_bypass_mode)) return;
    if (is_locked ? is_all_locked : !zg_locked_any()) return;
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return; // a signal handler has interrupted the runtime
    if (is_locked) zg_locked_add(zg_arch_address(start), zg_arch_address(start) + bytes);
    else zg_locked_remove(zg_arch_address(start), zg_arch_address(start) + bytes);
    zg_thread_leave(thread);
}

void zg_locking_block_bypassed(uint64_t start, uint64_t bytes, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    zg_locked_died(start, start + bytes);
    zg_thread_leave(thread);
}

void zg_locking_unlock_freed(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    zg_locked_sweep();
    zg_thread_leave(thread);
}

void zg_locking_after_fork_in_child(void) { forget(true); }
