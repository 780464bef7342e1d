// Protecting pages of dead blocks: MADV_GUARD_INSTALL where the kernel has it (Linux 6.13, mm/madvise.c: guards need no
// mapping, the pages are discarded, an access faults), or else a fresh inaccessible mapping over them, as long as there
// are mappings. The first use tries which one works.
// Slow path; no lock: counts are approximate where threads meet.

#ifndef ZG_PROTECT_H
#define ZG_PROTECT_H

#include "platform/base.h"

enum zg_protection { zg_protection_none, zg_protection_guards, zg_protection_mprotect };

// The protection of new ranges.
enum zg_protection zg_protection_now(void);
// The kernel refused a guard, because the pages are locked, for instance: mappings protect from now on.
void zg_protection_give_up_guards(void);
// Pages may have guards: guards protect, or did so before.
bool zg_protection_had_guards(void);
// The handlers of faults cannot be installed: an access to a protected page could only end the program, unexplained,
// and so no more pages are protected.
void zg_protection_stop(void);
bool zg_protection_is_stopped(void);
// Discards the memory of whole pages, and makes them inaccessible. Returns by which protection; zg_protection_none
// where the kernel refuses or mappings do not suffice.
enum zg_protection zg_protect(void *start, uint64_t bytes);
// Makes such pages accessible again; they read as zero. False where the kernel refuses. The caller gives the mappings
// back.
bool zg_unprotect(void *start, uint64_t bytes, enum zg_protection protection);

// The mappings that protected pages may cost (option `mappings`). Takes `count` of them: false where that is too many.
bool zg_mappings_take(uint64_t count);
// `count` mappings could be taken.
bool zg_mappings_are_left(uint64_t count);
// Gives mappings back.
void zg_mappings_give(uint64_t count);

#endif
