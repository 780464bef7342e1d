// Keeps what the program last wrote to standard error: code that ends a program prints the reason there
// (collect=crashes). Any context, signal handlers included; no lock, no allocation.

#ifndef ZG_LAST_TEXT_H
#define ZG_LAST_TEXT_H

#include "include/zg_kept_text.h"
#include "platform/base.h"

// Keeps text that the calling thread writes to descriptor 2: the first 1000 bytes of each call, 128 KiB in all. Ignores
// unreadable text.
void zg_last_text_note(const void *bytes, uint64_t count);
// The kept text; read it with zg_kept_writes_get.
extern struct zg_kept_writes zg_last_text;
// Like zg_kept_writes_get, for what the thread has written since zg_last_text.ends had this value.
uint64_t zg_last_text_since(uint64_t ends, int tid, char *text, uint64_t capacity);

#endif
