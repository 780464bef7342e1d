// Manages the statistics page: private memory at first, then a memfd that the process's owner can read.
// Counters: any context. Publishing: start-up and child of a fork only.

#include "settings/stats.h"

#include "platform/os.h"

const struct zg_counter_info zg_counter_table[zg_counter_count] = {
#define ZG_X(name, type, unit, text) {#name, #type, unit, text},
    ZG_COUNTERS(ZG_X)
#undef ZG_X
};

const struct zg_degradation_info zg_degradation_table[zg_degradation_count] = {
#define ZG_X(name, text) {#name, text},
    ZG_DEGRADATIONS(ZG_X)
#undef ZG_X
};

static union {
    struct zg_stats_page page;
    char bytes[ZG_STATS_BYTES];
} early __attribute__((aligned(4096)));

struct zg_stats_page *zg_stats = &early.page;
static bool is_published;
static int stats_descriptor = -1;          // descriptor of the memfd; -1: closed
static uint64_t stats_device, stats_inode; // device and inode number of the memfd

void zg_stats_raise_peak(enum zg_counter peak, uint64_t value) {
    uint64_t seen = zg_stats_get(peak);
    while (value > seen && !__atomic_compare_exchange_n(&zg_stats->counters[peak], &seen, value, true, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {
    }
}

void zg_stats_degrade(enum zg_degradation degradation) {
    uint64_t bit = UINT64_C(1) << degradation;
    if (!(zg_load(&zg_stats->degradations) & bit)) __atomic_fetch_or(&zg_stats->degradations, bit, __ATOMIC_RELAXED);
}

// In the child of a fork, the parent's page; otherwise NULL.
static struct zg_stats_page *parents;

static void note_unguarded_child(struct zg_stats_page *page) {
    __atomic_fetch_add(&page->counters[zg_counter_children_unguarded], 1, __ATOMIC_RELAXED);
    __atomic_fetch_or(&page->degradations, UINT64_C(1) << zg_degradation_children_unguarded, __ATOMIC_RELAXED);
}

void zg_stats_note_unguarded_child(void) {
    note_unguarded_child(zg_stats);
    if (parents) note_unguarded_child(parents);
}

void zg_stats_note_refusals(void) {
    uint32_t refused = __atomic_load_n(&zg_os_refused, __ATOMIC_RELAXED);
    if (ZG_LIKELY(!refused)) return;
    if (refused & zg_os_refused_reads) zg_stats_degrade(zg_degradation_no_safe_read);
    if (refused & zg_os_refused_advice) zg_stats_degrade(zg_degradation_advice_refused);
}

// Maps a new memfd with these contents over the current page. Loses counts that other threads make meanwhile.
static bool replace_page(const void *contents) {
    int descriptor = zg_os_memfd(ZG_STATS_NAME, ZG_STATS_BYTES);
    if (descriptor < 0) return false;
    uint64_t written = 0;
    while (written < ZG_STATS_BYTES) {
        int result = zg_os_write(descriptor, (const char *)contents + written, ZG_STATS_BYTES - written);
        if (result <= 0) {
            zg_os_close(descriptor);
            return false;
        }
        written += (uint64_t)result;
    }
    if (!zg_os_map_shared(descriptor, ZG_STATS_BYTES, zg_stats)) {
        zg_os_close(descriptor);
        return false;
    }
    is_published = true;
    // The descriptor stays open, outside the range that programs use, so that the owner can read the page from another
    // process. If no number outside that range is free, the descriptor is closed, and only a process that may ptrace
    // the guarded process can read the page.
    stats_descriptor = zg_os_hide_descriptor(descriptor);
    if (!zg_os_identify(stats_descriptor, &stats_device, &stats_inode)) stats_inode = 0;
    return true;
}

void zg_stats_publish(void) {
    if (!replace_page(zg_stats)) zg_stats_degrade(zg_degradation_no_statistics);
}

// Resets the fields that belong to one process.
static void begin_child(struct zg_stats_page *page) {
    page->pid = (uint32_t)zg_os_pid();
    page->has_maintenance_thread = 0;
    page->request = page->answer = 0;
    page->counters[zg_counter_findings] = 0;
    page->counters[zg_counter_findings_suppressed] = 0;
    page->counters[zg_counter_findings_lost] = 0;
}

// The program may have closed the inherited descriptor and opened its own file under the same number. Closes the
// descriptor only if it still refers to the parent's page.
static void close_inherited(void) {
    uint64_t device, inode;
    bool is_known = zg_os_identify(stats_descriptor, &device, &inode);
    if (is_known && inode && inode == stats_inode && device == stats_device) zg_os_close(stats_descriptor);
    stats_descriptor = -1;
}

void zg_stats_change_owner(uint32_t user) {
    uint64_t device, inode;
    // A vfork child runs in its parent's memory until exec: the page belongs to the parent. Also, the program may have
    // closed the descriptor and opened its own file under the same number.
    if (stats_descriptor < 0 || !zg_os_is_own_process() || !zg_os_identify(stats_descriptor, &device, &inode)) return;
    if (stats_inode && inode == stats_inode && device == stats_device) zg_os_give_file(stats_descriptor, user);
}

void zg_stats_after_fork_in_child(void) {
    if (!is_published) { // not shared with the parent
        begin_child(zg_stats);
        return;
    }
    static union {
        struct zg_stats_page page;
        char bytes[ZG_STATS_BYTES];
    } child; // separate in each process: a later child overwrites its own copy
    child.page = *zg_stats;
    if (parents) zg_os_release(parents, ZG_STATS_BYTES);
    parents = zg_os_map_again(zg_stats, ZG_STATS_BYTES);
    begin_child(&child.page);
    close_inherited();
    if (replace_page(&child)) return;
    is_published = false;
    // There is no memfd for the child. Stop sharing the parent's page: count in private memory mapped at the same
    // address, or in `child` if that mapping fails.
    child.page.degradations |= UINT64_C(1) << zg_degradation_no_statistics;
    if (zg_os_map_private(ZG_STATS_BYTES, zg_stats)) *zg_stats = child.page;
    else zg_stats = &child.page;
}
