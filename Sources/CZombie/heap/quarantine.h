// The quarantine: holds filled, freed blocks before their slots are reused.
//
//   free -> pending (per thread, 64 blocks) -> newest K of the allocation context -> queue of the shard -> evicted
//
// The second stage makes the quarantine fair: the newest freed blocks of a context leave the stage only when the same
// context frees newer ones, or when the whole quarantine is trimmed. So a busy context cannot flush a rare one. The
// byte cap counts all stages but the first. Large blocks have a queue of their own and are evicted first.
// Slow path; one lock per shard and one for the large blocks.

#ifndef ZG_QUARANTINE_H
#define ZG_QUARANTINE_H

#include "include/zg_block.h"
#include "platform/base.h"
#include "threads/thread.h"

void zg_quarantine_init(void);
// Sets the byte cap. The next flushes evict the blocks over the cap.
void zg_quarantine_set_cap(uint64_t bytes);
// Call when a test starts: from then on, quarantine_bytes is the only limit. A write after free is found when the block
// leaves the quarantine. In a smaller quarantine, the block would more often leave during a later test, and the finding
// would be attributed to that test.
void zg_quarantine_begin_test(void);
// Moves the thread's pending blocks into its shard and evicts blocks over the cap. The thread is in the runtime.
void zg_quarantine_flush(struct zg_thread *thread);
// Adds a large block that is filled and in state quarantined. The thread is in the runtime.
void zg_quarantine_add_span(struct zg_thread *thread, struct zg_span *span);
// Verifies and evicts blocks until `keep_bytes` are left. Returns the bytes evicted. The thread is in the runtime.
uint64_t zg_quarantine_trim(struct zg_thread *thread, uint64_t keep_bytes);
// Verifies every quarantined block in place; finds small blocks by their records, and large blocks by their queue.
// Returns the number of findings.
uint64_t zg_quarantine_verify_all(const char *found_by);
uint64_t zg_quarantine_bytes(void);
void zg_quarantine_lock_all(void);
void zg_quarantine_unlock_all(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// Returns a description of a broken invariant, or NULL. Calls `slot` and `span` for each quarantined block
// (process/invariants.h).
const char *zg_quarantine_broken(void (*slot)(zg_slot slot), void (*span)(uint32_t number));
#endif

#endif
