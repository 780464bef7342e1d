// Watches the first words of a freed block of a rare pair by hardware watchpoints, for about 8 ms of processor time.
// Such a block is not isolated, because its allocation stack is busy, and only a watchpoint notices a read of it.
//
// One block is watched at a time. The watched block stays out of the quarantine's queues until another block is
// watched, so its slot is not reused. The events are opened when the first block is watched, in a process with one
// thread, and then moved from block to block; threads that are created later inherit them. faults/fault.c distinguishes
// accesses to the block from accesses beside it.
// Slow path; one lock, for which no thread waits.

#ifndef ZG_WATCHPOINTS_H
#define ZG_WATCHPOINTS_H

#include "blocks/slab.h"
#include "threads/thread.h"

// Number of watched words. The processor has four debug registers; one is left to debuggers.
enum { ZG_WATCHED_WORDS = 3 };

// Returns true if this process may use watchpoints. The caller must then install the runtime's handler of SIGTRAP.
bool zg_watchpoints_may_be(void);
// Call after the runtime's signal handler for SIGTRAP, at address `handler`, was installed. Until then nothing is
// watched.
void zg_watchpoints_start(uint64_t handler);
void zg_watchpoints_after_fork_in_child(void);

// Counts a freed block of this allocation stack at time `ticks`. Call for a sample: one of ZG_PENDING_BLOCKS frees.
void zg_watchpoints_note_free(uint32_t alloc_stack, uint64_t ticks);
// Returns true if a freed block of this pair should be watched: the pair is rare and its allocation stack is busy.
// Takes rare pairs out of the thread's cache of pairs, so call it for every free whose pair is not in that cache.
// `is_new`: no block of the pair was freed before.
bool zg_watchpoints_want(struct zg_thread *thread, uint32_t alloc_stack, uint32_t free_stack, bool is_new);
// Watches a quarantined block that is in no queue yet. Returns false if the block is not watched. `*former` receives
// the entry (slot number plus 1) of the block that was watched before, which the caller must queue; 0: none.
bool zg_watchpoints_move(zg_slot slot, zg_slot *former);
// Returns true if the watchpoints' events are open, so that a SIGTRAP may be pending.
bool zg_watchpoints_are_open(void);
// Turns the watchpoints off until the next block is watched. Signal context.
void zg_watchpoints_pause(void);
// Turns the watchpoints off for the rest of the process. Call before the runtime reads the freed blocks at exit. A read
// of the watched block would raise SIGTRAP. If the program has already freed its alternate signal stack, as gawk does,
// the kernel cannot deliver this signal, and kills the process.
void zg_watchpoints_stop(void);
// Counts an access at a watchpoint that is not a finding. After several of these, turns the watchpoints off. Signal
// context.
void zg_watchpoints_note_stray(void);
// Ends a watch that has lasted long enough, and closes the watchpoints if they cost too much. Threads call this
// regularly, about once for every 64 frees.
void zg_watchpoints_look(struct zg_thread *thread);

#ifdef ZG_CHECK_INVARIANTS
// Returns the slot number plus 1 of the block that is or was last watched; 0 if there is none.
zg_slot zg_watchpoints_held(void);
#endif

#endif
