// Protects pages of freed blocks. Guard pages (MADV_GUARD_INSTALL, Linux 6.13, mm/madvise.c) need no mapping: the pages
// are discarded, and an access faults. Without them, a fresh inaccessible mapping replaces the pages, as long as
// mappings are left. The first call probes whether guard pages work.
// Slow path; no lock. Counts are approximate while other threads change them.

#ifndef ZG_PROTECT_H
#define ZG_PROTECT_H

#include "platform/base.h"

enum zg_protection { zg_protection_none, zg_protection_guards, zg_protection_mprotect };

// Returns the protection for new ranges.
enum zg_protection zg_protection_now(void);
// Switches to inaccessible mappings, because the kernel refused a guard page (for example, in locked memory).
void zg_protection_give_up_guards(void);
// Returns true if pages may have guards, because guard pages are in use or were in use before the switch to mappings.
bool zg_protection_had_guards(void);
// Stops protecting pages, because the fault handlers cannot be installed: an access to a protected page would only kill
// the program without a report.
void zg_protection_stop(void);
bool zg_protection_is_stopped(void);
// Discards the memory of whole pages and makes them inaccessible. Returns the protection used; zg_protection_none if
// the kernel refuses or mappings do not suffice.
enum zg_protection zg_protect(void *start, uint64_t bytes);
// Makes pages accessible again that zg_protect made inaccessible; they read as zero. False if the kernel refuses. The
// caller gives the mappings back.
bool zg_unprotect(void *start, uint64_t bytes, enum zg_protection protection);

// Takes `count` of the mappings that protected pages may cost (option `mappings`). False if too few are left.
bool zg_mappings_take(uint64_t count);
// Returns true if `count` mappings are left.
bool zg_mappings_are_left(uint64_t count);
// Gives mappings back.
void zg_mappings_give(uint64_t count);

#endif
