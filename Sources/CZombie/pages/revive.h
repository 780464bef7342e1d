// Retired pages are made accessible again: to learn more about an access, or because the program is to go on after its
// finding.
// Signal context; no lock.

#ifndef ZG_REVIVE_H
#define ZG_REVIVE_H

#include "blocks/lookup.h"
#include "zombies/zombie.h"

// A word that the program loads from the header of a dead object says little about the access. The object's protected
// page becomes accessible, with a trap header in it and filled behind it: the instruction goes on, and the next one
// faults in the trap region, which tells the method or the kind of reference counting. False: nothing was changed.
bool zg_revive_header(const struct zg_block_view *view);

// --- on_finding=continue: these are false where the pages cannot be opened ------------------------------------------

// The contents of an isolated block come back.
bool zg_revive_isolated(const struct zg_block_view *view);
// The same for the block at this address, or for a guard page there, which becomes a page of zeros. False for an
// address outside of the private pages' area.
bool zg_revive_isolated_at(uint64_t address);
// The page of a retired block becomes accessible, and is filled: the access goes on as one to filled memory would.
bool zg_revive_page(uint64_t address);
// The object gets its saved contents back; pointers into the trap region work as if it lived.
bool zg_revive_zombie(const struct zg_zombie_hit *hit);

#endif
