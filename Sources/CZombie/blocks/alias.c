// Records of blocks in windows (pages/window.h). Slow path; the caller serializes.

#include "blocks/alias.h"

#include "blocks/span_table.h"
#include "platform/os.h"
#include "settings/stats.h"

// Number of records committed at a time; a multiple of a page.
enum { STEP = 4096 };

struct zg_alias_area zg_alias_area;

bool zg_alias_init(uint64_t pages, uint64_t alignment) {
    uint64_t base = zg_span_table_cut(pages * ZG_PAGE_BYTES, alignment);
    // Map the whole area blank (zg_os_blank). Pages that windows give back become blank again, so that their mapping
    // merges with the area's.
    if (base) zg_os_will_share((void *)base, pages * ZG_PAGE_BYTES);
    if (!base || zg_os_blank((void *)base, pages * ZG_PAGE_BYTES) != 0) return false;
    zg_alias_area = (struct zg_alias_area){base, pages, NULL, 0};
    struct zg_layout_windows *layout = &zg_stats->layout.windows;
    layout->base = base;
    layout->bytes = pages * ZG_PAGE_BYTES;
    layout->record_bytes = sizeof(struct zg_alias);
    layout->page_bytes = ZG_PAGE_BYTES;
    return true;
}

bool zg_alias_cover(uint64_t end) {
    uint64_t covered = zg_alias_area.covered;
    if (end <= covered) return true;
    if (!zg_alias_area.aliases) zg_alias_area.aliases = zg_os_reserve(zg_alias_area.pages * sizeof(struct zg_alias));
    if (!zg_alias_area.aliases) return false;
    zg_store(&zg_stats->layout.windows.records, (uint64_t)zg_alias_area.aliases);
    uint64_t to = zg_min(zg_round_up(end, STEP), zg_alias_area.pages);
    if (end > to) return false;
    if (zg_os_commit(zg_alias_area.aliases + covered, (to - covered) * sizeof(struct zg_alias)) != 0) return false;
    __atomic_store_n(&zg_alias_area.covered, to, __ATOMIC_RELEASE);
    return true;
}
