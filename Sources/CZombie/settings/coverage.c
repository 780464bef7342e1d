// Records how much was watched, and why the rest was not. Sums are updated by compare-and-swap, because other threads
// update them, and so do processes that were cloned without libc and share the statistics page.

#include "settings/coverage.h"

#include "platform/filter.h"
#include "platform/os.h"
#include "settings/exemption.h"
#include "settings/stats.h"

const struct zg_coverage_reason_info zg_coverage_reason_table[zg_coverage_reason_count] = {
#define ZG_X(name, kind, text) {#name, text, zg_coverage_reason_##kind},
    ZG_COVERAGE_REASONS(ZG_X)
#undef ZG_X
};

const char zg_coverage_sum_names[zg_coverage_sum_count][24] = {
#define ZG_X(name) #name,
    ZG_COVERAGE_SUMS(ZG_X)
#undef ZG_X
};

static const enum zg_counter summed[zg_coverage_sum_count] = {
#define ZG_X(name) zg_counter_##name,
    ZG_COVERAGE_SUMS(ZG_X)
#undef ZG_X
};

struct zg_coverage_page *zg_coverage_run_page;

static void set_first_time(uint64_t *first_ns, uint64_t now) {
    uint64_t none = 0;
    __atomic_compare_exchange_n(first_ns, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void zg_coverage_declined(enum zg_coverage_reason why) {
    struct zg_coverage_reason_note *own = &zg_stats->coverage_reasons[why];
    if (ZG_LIKELY(__atomic_fetch_add(&own->blocks, 1, __ATOMIC_RELAXED))) return;
    uint64_t now = zg_os_clock_ns(0 /* CLOCK_REALTIME */);
    if (!now) now = zg_stats->started_ns | 1; // a seccomp filter refuses clock_gettime
    set_first_time(&own->first_ns, now);
    if (zg_coverage_run_page) set_first_time(&zg_coverage_run_page->first_ns[why], now);
}

void zg_coverage_note_unwatched_child(void) {
    if (zg_coverage_run_page) __atomic_fetch_add(&zg_coverage_run_page->unwatched_programs, 1, __ATOMIC_RELAXED);
}

void zg_coverage_note_exempt(void) {
    if (zg_coverage_run_page) __atomic_fetch_add(&zg_coverage_run_page->exempt_programs, 1, __ATOMIC_RELAXED);
}

void zg_coverage_publish_run(void) {
    for (int i = 0; i < zg_coverage_sum_count; i++) {
        uint64_t now = zg_stats_get(summed[i]), before = zg_load(&zg_stats->told[i]);
        if (now != before &&
            __atomic_compare_exchange_n(&zg_stats->told[i], &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            __atomic_fetch_add(&zg_coverage_run_page->sums[i], now - before, __ATOMIC_RELAXED);
    }
    uint64_t *most = &zg_coverage_run_page->waiting_bytes_peak, known = zg_load(most);
    uint64_t own = zg_stats_get(zg_counter_waiting_bytes_peak);
    while (own > known && !__atomic_compare_exchange_n(most, &known, own, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void zg_coverage_after_fork_in_child(void) {
    for (int i = 0; i < zg_coverage_sum_count; i++) zg_store(&zg_stats->told[i], zg_stats_get(summed[i]));
}

bool zg_coverage_open(int descriptor) {
    if (descriptor < 0) return false;
    struct zg_coverage_page *page = zg_os_map_shared(descriptor, ZG_COVERAGE_BYTES, NULL);
    zg_os_close(descriptor);
    if (!page) return false;
    if (page->magic != ZG_COVERAGE_MAGIC || page->version != ZG_STATS_VERSION) {
        zg_os_release(page, ZG_COVERAGE_BYTES);
        return false;
    }
    for (int why = 0; why < zg_coverage_reason_count; why++) {
        uint64_t first = zg_load(&zg_stats->coverage_reasons[why].first_ns);
        if (first) set_first_time(&page->first_ns[why], first);
    }
    zg_coverage_run_page = page;
    if (zg_is_exempt) {
        zg_coverage_note_exempt();
        return true;
    }
    __atomic_fetch_add(&page->programs, 1, __ATOMIC_RELAXED);
    if (zg_filter_is_undescribed()) __atomic_fetch_add(&page->filtered_programs, 1, __ATOMIC_RELAXED);
    return true;
}
