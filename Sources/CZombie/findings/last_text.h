// What the program wrote to standard error of late: whoever ends a program says why there (collect=crashes). Any context, signal handlers
// included; no lock, no allocation.

#ifndef ZG_LAST_TEXT_H
#define ZG_LAST_TEXT_H

#include "include/zg_kept_text.h"
#include "platform/base.h"

// Keeps what the calling thread writes to descriptor 2, as far as it can be read: the first 1000 bytes of one call, 128 KiB of all.
void zg_last_text_note(const void *bytes, uint64_t count);
// What is kept of it: zg_kept_writes_get.
extern struct zg_kept_writes zg_last_text;

#endif
