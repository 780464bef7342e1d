// Keeps the last report lines for code in this process (zg_api.h).
// zg_journal_add: under the report lock. Reading: any thread, under the same lock.

#ifndef ZG_JOURNAL_H
#define ZG_JOURNAL_H

#include "include/zg_kept_text.h"
#include "platform/base.h"

void zg_journal_add(const char *line, uint64_t bytes);
// Like the functions `finding` and `finding_count` of zg_api, but called with the report lock held.
uint64_t zg_journal_get(uint64_t index, char *text, uint64_t capacity);
uint64_t zg_journal_count(uint64_t *first_kept);
extern struct zg_kept_lines zg_journal;
// Futex word: zg_journal_add increments it and wakes its waiters.
extern uint32_t zg_journal_word;

#endif
