// Protects pages of freed blocks, and counts the mappings that this costs.
// Slow path; no lock.

#include "pages/protect.h"

#include <sys/resource.h>

#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

static uint32_t now; // enum zg_protection; zg_protection_none: not probed yet
static uint64_t mappings;
static bool had_guards; // guard pages were given up, but some pages may still have guards

// Probes whether the kernel supports guard pages. If RLIMIT_DATA is set and counts all writable address space, even
// without live blocks, inaccessible mappings are used instead: address space is then writable only while a block uses
// it.
static enum zg_protection probe(void) {
    enum zg_protection found = zg_protection_mprotect;
    if (zg_config.protect != zg_protect_mprotect &&
        (zg_os_uncounted_bytes() || zg_os_limit(RLIMIT_DATA) == RLIM_INFINITY)) {
        void *page = zg_os_map(ZG_PAGE_BYTES);
        if (page && zg_os_guard(page, ZG_PAGE_BYTES) == 0) found = zg_protection_guards;
        if (page) zg_os_release(page, ZG_PAGE_BYTES);
    }
    if (found == zg_protection_mprotect) zg_stats_degrade(zg_degradation_no_guard_pages);
    return found;
}

enum zg_protection zg_protection_now(void) {
    uint32_t known = __atomic_load_n(&now, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(known == zg_protection_none)) {
        known = probe();
        __atomic_store_n(&now, known, __ATOMIC_RELAXED);
    }
    return (enum zg_protection)known;
}

void zg_protection_give_up_guards(void) {
    __atomic_store_n(&had_guards, true, __ATOMIC_RELAXED);
    __atomic_store_n(&now, zg_protection_mprotect, __ATOMIC_RELAXED);
    zg_stats_degrade(zg_degradation_no_guard_pages);
}

bool zg_protection_had_guards(void) {
    return zg_protection_now() == zg_protection_guards || __atomic_load_n(&had_guards, __ATOMIC_RELAXED);
}

static bool stopped;
void zg_protection_stop(void) { __atomic_store_n(&stopped, true, __ATOMIC_RELAXED); }
bool zg_protection_is_stopped(void) { return __atomic_load_n(&stopped, __ATOMIC_RELAXED); }

enum zg_protection zg_protect(void *start, uint64_t bytes) {
    if (zg_protection_now() == zg_protection_guards) {
        if (zg_os_guard(start, bytes) == 0) return zg_protection_guards;
        zg_protection_give_up_guards();
    }
    // Splitting a mapping adds at most two mappings. If neighbors are protected later, their mappings merge with this
    // one; the count ignores that.
    if (zg_mappings_take(2)) {
        if (zg_os_retire(start, bytes) == 0) return zg_protection_mprotect;
        zg_mappings_give(2);
        zg_stats_degrade(zg_degradation_mappings_spent);
    }
    // The kernel may have guarded some of the pages before it refused the others.
    if (__atomic_load_n(&had_guards, __ATOMIC_RELAXED)) zg_os_unguard(start, bytes);
    return zg_protection_none;
}

bool zg_unprotect(void *start, uint64_t bytes, enum zg_protection protection) {
    // A page shared by two runs is protected like the run that was retired last, so both protections may be in use.
    bool both = __atomic_load_n(&had_guards, __ATOMIC_RELAXED);
    if ((both || protection == zg_protection_mprotect) && zg_os_commit(start, bytes) != 0) return false;
    if ((both || protection == zg_protection_guards) && zg_os_unguard(start, bytes) != 0) return false;
    return true;
}

bool zg_mappings_are_left(uint64_t count) { return zg_load(&mappings) + count <= zg_config.mappings; }

bool zg_mappings_take(uint64_t count) {
    uint64_t taken = __atomic_add_fetch(&mappings, count, __ATOMIC_RELAXED);
    bool has_room = taken <= zg_config.mappings;
    if (!has_room) {
        taken = __atomic_sub_fetch(&mappings, count, __ATOMIC_RELAXED);
        zg_stats_degrade(zg_degradation_mappings_spent);
    }
    zg_stats_set(zg_counter_protected_mappings, taken);
    return has_room;
}

void zg_mappings_give(uint64_t count) {
    uint64_t left = zg_load(&mappings);
    while (!__atomic_compare_exchange_n(&mappings, &left, left - zg_min(left, count), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    zg_stats_set(zg_counter_protected_mappings, zg_load(&mappings));
}
