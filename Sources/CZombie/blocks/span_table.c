// Records of large and isolated blocks, and the maps that lead to them. One lock, for new records.

#include "blocks/span_table.h"

#include "platform/lock.h"
#include "platform/os.h"
#include "settings/stats.h"

// Number of records committed at a time; a multiple of a page.
enum { SPAN_STEP = 4096 };

struct zg_span_map zg_large_map, zg_isolated_map;

static struct zg_lock table_lock;
static uint64_t area_base, area_bytes;
static struct zg_span *spans;
static uint64_t spans_used = 1, spans_committed, spans_limit;

static uint64_t map_bytes(uint64_t units) { return zg_round_up(units * sizeof(uint32_t), ZG_PAGE_BYTES); }

static void describe(struct zg_layout_area *area, const struct zg_span_map *map) {
    *area = (struct zg_layout_area){map->base, map->units << map->unit_shift, (uint64_t)map->numbers,
                                    UINT64_C(1) << map->unit_shift};
}

bool zg_span_table_init(uint64_t large_bytes, uint64_t isolated_bytes, uint64_t isolated_alignment) {
    uint64_t units = large_bytes >> ZG_UNIT_SHIFT, pages = isolated_bytes >> ZG_PAGE_SHIFT;
    spans_limit = zg_min(units + 1 + pages / 2, UINT32_MAX);
    uint64_t bytes = large_bytes + ZG_UNIT_BYTES + isolated_bytes;
    uint64_t tables_bytes =
        map_bytes(units) + map_bytes(pages) + zg_round_up(spans_limit * sizeof *spans, ZG_PAGE_BYTES);
    char *area = zg_os_reserve(bytes), *tables = zg_os_reserve(tables_bytes);
    if (!area || !tables) {
        if (area) zg_os_unreserve(area, bytes);
        if (tables) zg_os_unreserve(tables, tables_bytes);
        return false;
    }
    area_base = zg_round_up((uint64_t)area, ZG_UNIT_BYTES);
    area_bytes = (units << ZG_UNIT_SHIFT) + isolated_bytes;
    zg_large_map = (struct zg_span_map){area_base, units, ZG_UNIT_SHIFT, (uint32_t *)tables, 0};
    uint64_t isolated = area_base + (units << ZG_UNIT_SHIFT),
             skip = zg_round_up(isolated, isolated_alignment) - isolated;
    uint32_t *numbers = (uint32_t *)(tables + map_bytes(units));
    if (isolated_bytes > skip)
        zg_isolated_map =
            (struct zg_span_map){isolated + skip, (isolated_bytes - skip) >> ZG_PAGE_SHIFT, ZG_PAGE_SHIFT, numbers, 0};
    spans = (struct zg_span *)(tables + map_bytes(units) + map_bytes(pages));
    zg_stats->layout.spans_base = (uint64_t)spans;
    zg_stats->layout.span_bytes = sizeof *spans;
    zg_stats->layout.spans_used = spans_used;
    describe(&zg_stats->layout.large, &zg_large_map);
    if (zg_isolated_map.units) describe(&zg_stats->layout.isolated, &zg_isolated_map);
    return true;
}

uint64_t zg_span_table_cut(uint64_t bytes, uint64_t alignment) {
    uint64_t end = zg_isolated_map.base + (zg_isolated_map.units << zg_isolated_map.unit_shift);
    if (bytes > (zg_isolated_map.units << zg_isolated_map.unit_shift) / 4) return 0;
    uint64_t start = (end - bytes) & ~(alignment - 1);
    zg_isolated_map.units = (start - zg_isolated_map.base) >> zg_isolated_map.unit_shift;
    area_bytes = start - area_base;
    describe(&zg_stats->layout.isolated, &zg_isolated_map);
    return start;
}

bool zg_span_map_cover(struct zg_span_map *map, uint64_t end, uint64_t step) {
    if (end <= map->covered) return true;
    uint64_t to = zg_min(zg_round_up(end, step), map->units), count = to - map->covered;
    if (end > to || zg_os_commit(map->numbers + map->covered, map_bytes(count)) != 0) return false;
    zg_stats_add(zg_counter_metadata_bytes, count * sizeof *map->numbers);
    __atomic_store_n(&map->covered, to, __ATOMIC_RELEASE);
    return true;
}

// Makes sure that there is memory for one more record. Under the lock.
static bool has_record(void) {
    if (spans_used == spans_limit) return false;
    if (spans_used < spans_committed) return true;
    uint64_t step = zg_min(SPAN_STEP, spans_limit - spans_committed);
    if (zg_os_commit(spans + spans_committed, zg_round_up(step * sizeof *spans, ZG_PAGE_BYTES)) != 0) return false;
    spans_committed += step;
    zg_stats_add(zg_counter_metadata_bytes, step * sizeof *spans);
    return true;
}

struct zg_span *zg_span_table_add(struct zg_span_map *map, uint64_t first, uint64_t units) {
    zg_lock_take_inside(&table_lock);
    bool has_room = has_record();
    uint32_t number = (uint32_t)spans_used;
    struct zg_span *span = &spans[number];
    if (has_room) {
        span->base = map->base + (first << map->unit_shift);
        span->units = (uint32_t)units;
        __atomic_store_n(&spans_used, spans_used + 1, __ATOMIC_RELEASE);
        zg_store(&zg_stats->layout.spans_used, spans_used);
    }
    zg_lock_drop(&table_lock);
    if (!has_room) return NULL;
    for (uint64_t i = 0; i < units; i++) __atomic_store_n(&map->numbers[first + i], number, __ATOMIC_RELEASE);
    return span;
}

struct zg_span *zg_span_find(uint64_t address) {
    bool isolated = zg_isolated_map.units && address >= zg_isolated_map.base;
    const struct zg_span_map *map = isolated ? &zg_isolated_map : &zg_large_map;
    uint64_t unit = (address - map->base) >> map->unit_shift;
    if (unit >= __atomic_load_n(&map->covered, __ATOMIC_ACQUIRE)) return NULL;
    uint32_t number = __atomic_load_n(&map->numbers[unit], __ATOMIC_ACQUIRE);
    return number ? &spans[number] : NULL;
}

bool zg_span_contains(uint64_t address) { return address - area_base < area_bytes; }

void zg_span_area(uint64_t *start, uint64_t *bytes) {
    *start = area_base;
    *bytes = area_bytes;
}

uint32_t zg_span_number(const struct zg_span *span) { return (uint32_t)(span - spans); }
struct zg_span *zg_span_by_number(uint32_t number) {
    return &spans[number];
}
bool zg_span_exists(uint32_t number) { return number && number < __atomic_load_n(&spans_used, __ATOMIC_ACQUIRE); }
uint32_t zg_span_count(void) { return (uint32_t)__atomic_load_n(&spans_used, __ATOMIC_ACQUIRE); }

void zg_span_table_lock(void) { zg_lock_take(&table_lock); }
void zg_span_table_unlock(bool reset) {
    if (reset) zg_lock_reset(&table_lock);
    else zg_lock_drop(&table_lock);
}
