// Records of blocks outside of the slabs, found from any address inside of them: one reservation of address space, the large
// blocks' area (span.h) in front and the fenced blocks' (fence.h) behind it, each with a map from unit to record number.
// Lookups: any context, no lock. Adding records and covering addresses: slow path; new records under the table's lock.

#ifndef ZG_SPAN_TABLE_H
#define ZG_SPAN_TABLE_H

#include "include/zg_block.h"
#include "platform/base.h"

// Invariants: 1. numbers[0 … covered) can be read; the others cannot. 2. An entry is 0, or the number of a record whose span
// the unit belongs to; it never goes back to 0.
struct zg_span_map {
    uint64_t base, units; // units 0: there is no such area
    uint32_t unit_shift;  // a unit is 2^unit_shift bytes
    uint32_t *numbers;    // unit -> record number, 0 for none
    uint64_t covered;     // units
};
extern struct zg_span_map zg_large_map, zg_fenced_map;

// A unit of a large block's span. Of a fenced block's it is a page.
#define ZG_UNIT_SHIFT 16
#define ZG_UNIT_BYTES (UINT64_C(1) << ZG_UNIT_SHIFT)

// Reserves both areas and their tables; the fenced one begins at a multiple of `fenced_alignment`. False where the address
// space does not allow it.
bool zg_span_table_init(uint64_t large_bytes, uint64_t fenced_bytes, uint64_t fenced_alignment);

// Takes the end of the fenced blocks' area for something else, from a multiple of `alignment` on; 0 where it has not four times as much.
uint64_t zg_span_table_cut(uint64_t bytes, uint64_t alignment);
// Makes the map's entries readable up to unit `end`, in steps of `step`. False where there is no memory. One caller at a time.
bool zg_span_map_cover(struct zg_span_map *map, uint64_t end, uint64_t step);
// A new record whose span is `units` units from `first` on, all of them covered. NULL where there is no memory for one. Records
// are never given back.
struct zg_span *zg_span_table_add(struct zg_span_map *map, uint64_t first, uint64_t units);

// The span that holds the address, in whatever state; NULL where no span was ever there.
struct zg_span *zg_span_find(uint64_t address);
bool zg_span_contains(uint64_t address);
void zg_span_area(uint64_t *start, uint64_t *bytes);
uint32_t zg_span_number(const struct zg_span *span);
struct zg_span *zg_span_by_number(uint32_t number); // of a span that exists
bool zg_span_exists(uint32_t number);
// Records in use and one more: numbers begin at 1.
uint32_t zg_span_count(void);

void zg_span_table_lock(void);
void zg_span_table_unlock(bool reset);

#endif
