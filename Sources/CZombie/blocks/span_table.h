// Records of blocks outside of the slabs, found from any of their addresses. One reservation of address space holds the
// area of the large blocks (span.h) and behind it that of the isolated blocks (private_pages.h). Each area has a map
// from unit to record number. Lookups: any context, no lock. Adding records and covering addresses: slow path; new
// records under the table's lock.

#ifndef ZG_SPAN_TABLE_H
#define ZG_SPAN_TABLE_H

#include "include/zg_block.h"
#include "platform/base.h"

// Invariants: 1. numbers[0 … covered) is readable; the rest is not. 2. numbers[unit] is 0, or the record number of the
// span that contains the unit; it never becomes 0 again.
struct zg_span_map {
    uint64_t base, units; // units 0: there is no such area
    uint32_t unit_shift;  // a unit is 2^unit_shift bytes
    uint32_t *numbers;    // unit -> record number; 0: none
    uint64_t covered;     // number of units that `numbers` covers
};
extern struct zg_span_map zg_large_map, zg_isolated_map;

// Units of large blocks have 2^ZG_UNIT_SHIFT bytes; units of isolated blocks are pages.
#define ZG_UNIT_SHIFT 16
#define ZG_UNIT_BYTES (UINT64_C(1) << ZG_UNIT_SHIFT)

// Reserves both areas and their tables. The isolated blocks' area is aligned to `isolated_alignment`. False if the
// address space has no room.
bool zg_span_table_init(uint64_t large_bytes, uint64_t isolated_bytes, uint64_t isolated_alignment);

// Takes `bytes`, aligned to `alignment`, off the end of the isolated blocks' area. Returns 0 if `bytes` is more than a
// quarter of the area.
uint64_t zg_span_table_cut(uint64_t bytes, uint64_t alignment);
// Makes `numbers` readable up to unit `end`, rounded up to a multiple of `step` units. False if `end` lies beyond the
// area, or there is no memory. One caller at a time.
bool zg_span_map_cover(struct zg_span_map *map, uint64_t end, uint64_t step);
// Adds a record for a span of `units` units from `first` on, all of them covered. NULL if there is no memory. Records
// are never freed.
struct zg_span *zg_span_table_add(struct zg_span_map *map, uint64_t first, uint64_t units);

// Returns the span that contains the address, in any state, or NULL if there never was one.
struct zg_span *zg_span_find(uint64_t address);
bool zg_span_contains(uint64_t address);
void zg_span_area(uint64_t *start, uint64_t *bytes);
uint32_t zg_span_number(const struct zg_span *span);
struct zg_span *zg_span_by_number(uint32_t number); // the record must exist
bool zg_span_exists(uint32_t number);
// Returns the number of records plus 1: record numbers begin at 1.
uint32_t zg_span_count(void);

void zg_span_table_lock(void);
void zg_span_table_unlock(bool reset);

#endif
