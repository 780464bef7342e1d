// Records of blocks in windows.

#include "blocks/alias.h"

#include "platform/os.h"
#include "settings/stats.h"

// Records that are made accessible at once: whole pages of them.
enum { STEP = 4096 };

struct zg_alias_area zg_alias_area;

bool zg_alias_init(uint64_t pages, uint64_t alignment) {
    uint64_t bytes = pages * ZG_PAGE_BYTES + alignment;
    char *area = zg_os_reserve(bytes);
    char *records = area ? zg_os_reserve(pages * sizeof(struct zg_alias)) : NULL;
    if (area && !records) zg_os_release(area, bytes);
    if (!records) return false;
    uint64_t base = zg_round_up((uint64_t)area, alignment);
    zg_alias_area = (struct zg_alias_area){base, pages, (struct zg_alias *)records, 0};
    return true;
}

bool zg_alias_cover(uint64_t end) {
    uint64_t covered = zg_alias_area.covered;
    if (end <= covered) return true;
    uint64_t to = zg_min(zg_round_up(end, STEP), zg_alias_area.pages);
    if (end > to) return false;
    if (zg_os_commit(zg_alias_area.aliases + covered, (to - covered) * sizeof(struct zg_alias)) != 0) return false;
    __atomic_store_n(&zg_alias_area.covered, to, __ATOMIC_RELEASE);
    return true;
}
