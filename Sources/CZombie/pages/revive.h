// Makes retired pages accessible again, because the program continues after a finding (on_finding=continue). All
// functions return false if the pages cannot be made accessible. Signal context; no lock.

#ifndef ZG_REVIVE_H
#define ZG_REVIVE_H

#include "blocks/lookup.h"
#include "zombies/zombie.h"

// Restores the contents of an isolated block, or fills it if they were not kept.
bool zg_revive_isolated(const struct zg_block_view *view);
// Restores or fills the isolated block at this address. A guard page there becomes a page of zeros. False if the
// address is outside the area of private pages.
bool zg_revive_isolated_at(uint64_t address);
// Makes the page of a retired block accessible and fills it: the access continues as in a filled block.
bool zg_revive_page(uint64_t address);
// Restores the saved contents of the object. Pointers into the trap region then work as if the object were live.
bool zg_revive_zombie(const struct zg_zombie_hit *hit);

#endif
