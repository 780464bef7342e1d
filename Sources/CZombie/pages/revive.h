// Makes retired pages accessible again, to learn more about an access, or because the program continues after a
// finding.
// Signal context; no lock.

#ifndef ZG_REVIVE_H
#define ZG_REVIVE_H

#include "blocks/lookup.h"
#include "zombies/zombie.h"

// Makes the protected page of a freed object accessible, with a trap word as header and the fill behind it. A load from
// the header says little about the access. The instruction can now continue, and the next one faults in the trap
// region, which reveals the method or the kind of reference counting. False if nothing was changed.
bool zg_revive_header(const struct zg_block_view *view);

// --- on_finding=continue: these return false if the pages cannot be made accessible ---------------------------------

// Restores the contents of an isolated block, or fills it if they were not kept.
bool zg_revive_isolated(const struct zg_block_view *view);
// Does the same for the block at this address. A guard page there becomes a page of zeros. False if the address is
// outside the area of private pages.
bool zg_revive_isolated_at(uint64_t address);
// Makes the page of a retired block accessible and fills it: the access continues as in a filled block.
bool zg_revive_page(uint64_t address);
// Restores the saved contents of the object. Pointers into the trap region then work as if it were live.
bool zg_revive_zombie(const struct zg_zombie_hit *hit);

#endif
