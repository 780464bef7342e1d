// Dead pages are opened again: to learn more about an access, or because the program is to go on after its finding.
// Signal context; no lock.

#ifndef ZG_REVIVE_H
#define ZG_REVIVE_H

#include "blocks/lookup.h"
#include "zombies/zombie.h"

// A word loaded from the header of a dead object says little: the page, where it is protected, is opened with a trap header in
// it and filled behind it. The instruction goes on and the next one faults in the trap region, with the method or the kind of
// reference counting. False: nothing was changed.
bool zg_revive_header(const struct zg_block_view *view);

// -- on_finding=continue. False where it cannot be done --
// The contents of a fenced block come back.
bool zg_revive_fenced(const struct zg_block_view *view);
// The same for the block at this address, or for the guard there, which becomes a page of zeros. False for an address outside
// of the fenced blocks' area.
bool zg_revive_fenced_at(uint64_t address);
// A retired block's page comes back, filled, and the access goes on as one to filled memory would.
bool zg_revive_page(uint64_t address);
// The object gets its contents back, as far as they were kept; pointers into the trap region work as if it lived.
bool zg_revive_zombie(const struct zg_zombie_hit *hit);

#endif
