// Records of blocks in windows (pages/window.h): one for each page of the windows' area.
// Lookups: any context, no lock.

#ifndef ZG_ALIAS_H
#define ZG_ALIAS_H

#include "include/zg_block.h"
#include "platform/base.h"

// Invariant: aliases[0 … covered) is readable.
struct zg_alias_area {
    uint64_t base, pages; // pages 0: there is no area
    struct zg_alias *aliases;
    uint64_t covered;
};
extern struct zg_alias_area zg_alias_area;

// Takes an area of `pages` pages, aligned to `alignment`, from the end of the isolated blocks' area. False if there is
// no room.
bool zg_alias_init(uint64_t pages, uint64_t alignment);
// Makes the records readable up to page `end`. False if there is no memory. One caller at a time.
bool zg_alias_cover(uint64_t end);

ZG_INLINE bool zg_alias_contains(uint64_t address) {
    return address - zg_alias_area.base < zg_alias_area.pages * ZG_PAGE_BYTES;
}
// Returns the record of the block that is or was on the address's page, or NULL.
ZG_INLINE struct zg_alias *zg_alias_find(uint64_t address) {
    uint64_t page = (address - zg_alias_area.base) / ZG_PAGE_BYTES;
    if (page >= __atomic_load_n(&zg_alias_area.covered, __ATOMIC_ACQUIRE)) return NULL;
    struct zg_alias *alias = &zg_alias_area.aliases[page];
    return zg_header_state(__atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE)) == zg_state_fresh ? NULL : alias;
}
ZG_INLINE uint64_t zg_alias_number(const struct zg_alias *alias) { return (uint64_t)(alias - zg_alias_area.aliases); }
ZG_INLINE uint64_t zg_alias_page(const struct zg_alias *alias) {
    return zg_alias_area.base + zg_alias_number(alias) * ZG_PAGE_BYTES;
}
ZG_INLINE uint64_t zg_alias_start(const struct zg_alias *alias) { return zg_alias_page(alias) + alias->start; }
ZG_INLINE uint64_t zg_alias_size(const struct zg_alias *alias) {
    return alias->slot_bytes - zg_header_slack(__atomic_load_n(&alias->block.header, __ATOMIC_RELAXED));
}

#endif
