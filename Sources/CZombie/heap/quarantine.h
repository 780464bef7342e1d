// The quarantine: where filled dead blocks wait before their slots serve again.
//
//   free -> pending (per thread, 64 blocks) -> newest K of the block's allocation context -> queue of the shard -> evicted
//
// The middle station is the fairness: a context's newest dead blocks leave only when the same context frees newer ones (or
// when the whole quarantine is trimmed), so a busy context cannot flush a rare one. The byte cap counts all stations but
// the first. Large blocks wait in a queue of their own and leave first.
// Slow path; one lock for each shard and one for the large blocks.

#ifndef ZG_QUARANTINE_H
#define ZG_QUARANTINE_H

#include "include/zg_block.h"
#include "platform/base.h"
#include "threads/thread.h"

void zg_quarantine_init(void);
// How much is held from now on; what is over it leaves with the next flushes.
void zg_quarantine_set_cap(uint64_t bytes);
// Hands the thread's pending blocks over and evicts what is over the cap. The thread is entered.
void zg_quarantine_flush(struct zg_thread *thread);
// A large block that is filled and in state quarantined. The thread is entered.
void zg_quarantine_add_span(struct zg_thread *thread, struct zg_span *span);
// Empties the quarantine down to `keep_bytes`, verifying. Returns the bytes that left it. The thread is entered.
uint64_t zg_quarantine_trim(struct zg_thread *thread, uint64_t keep_bytes);
// Verifies every quarantined block in place, found through the block records. Returns the number of findings.
uint64_t zg_quarantine_verify_all(const char *found_by);
uint64_t zg_quarantine_bytes(void);
void zg_quarantine_lock_all(void);
void zg_quarantine_unlock_all(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// What is broken, in words; NULL where all is well. Calls `slot` and `span` for each that is kept here (process/invariants.h).
const char *zg_quarantine_broken(void (*slot)(zg_slot slot), void (*span)(uint32_t number));
#endif

#endif
