// Protecting dead pages: MADV_GUARD_INSTALL where the kernel has it (Linux 6.13, mm/madvise.c: no mapping of its own, the pages
// go, an access faults), or else a fresh inaccessible mapping over them, as long as mappings last. Which one is found out by
// trying, at the first use.
// Slow path; no lock: the counts are approximate where threads meet.

#ifndef ZG_PROTECT_H
#define ZG_PROTECT_H

#include "platform/base.h"

enum zg_protection { zg_protection_none, zg_protection_guards, zg_protection_mprotect };

// What new ranges are protected with.
enum zg_protection zg_protection_now(void);
// The kernel refused a guard (the pages are locked, say): from here on without.
void zg_protection_give_up_guards(void);
// Pages may be guarded: by now, or from before that.
bool zg_protection_had_guards(void);
// The handlers of faults cannot be installed: a page that is protected from now on could only end the program, unexplained.
void zg_protection_stop(void);
bool zg_protection_is_stopped(void);
// Takes the memory of whole pages away and makes them inaccessible; what with, or none where it cannot be had.
enum zg_protection zg_protect(void *start, uint64_t bytes);
// Makes such pages accessible again; they read as zero. False where the kernel refuses. The caller gives the mappings back.
bool zg_unprotect(void *start, uint64_t bytes, enum zg_protection protection);

// Mappings that protected pages may cost: takes `count` of them, false where that is too many. / Gives them back. / Whether so many
// are left.
bool zg_mappings_take(uint64_t count);
bool zg_mappings_are_left(uint64_t count);
void zg_mappings_give(uint64_t count);

#endif
