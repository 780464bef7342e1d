// Enforces the program's own memory limits (setrlimit) on the heap. The kernel does not see the heap grow: it lies in
// address space reserved before RLIMIT_AS was set, and RLIMIT_DATA does not count it (platform/os.h). So the heap
// counts what another allocator would have mapped: live blocks with glibc's overhead, but no freed blocks, records or
// guard pages.
// zg_allowance_take: slow path of an allocation, no lock. It sometimes reads from /proc what the rest of the process
// has mapped.

#ifndef ZG_ALLOWANCE_H
#define ZG_ALLOWANCE_H

#include "platform/base.h"
#include "threads/thread.h"

// True if the heap must enforce RLIMIT_AS or RLIMIT_DATA.
extern bool zg_allowance_is_limited __attribute__((visibility("hidden")));

// Call before the program limits its address space to `limit`: grows the stack now, which the kernel would refuse
// afterwards because it counts all reservations. Not for a child that shares its parent's memory (vfork).
void zg_allowance_before_limit(uint64_t limit);
// zg_allowance_reread: rereads the limits, at start-up and after setrlimit. zg_allowance_reread_after_growth: rereads
// them if the heap has grown by 8 MiB since the last call that did.
void zg_allowance_reread(void);
void zg_allowance_reread_after_growth(void);
// Charges `bytes` that the program takes into use. Returns false if a limit forbids this. `thread` is in the runtime,
// or NULL.
bool zg_allowance_take(struct zg_thread *thread, uint64_t bytes);
// Charges a block of this size, or about half a magazine if the size is served from a slab.
bool zg_allowance_take_block(struct zg_thread *thread, uint64_t size);
// Charges a block that another allocator is to serve; returns false if a limit forbids this. The kernel counts this
// block, but not the guarded heap, so only the runtime can limit the sum of both.
bool zg_allowance_charge_bypassed(uint64_t size);
// Excludes the time since `since` (ticks), when another allocator was asked in vain, from the age of the last refusal.
void zg_allowance_discount(uint64_t since);
// Returns true if releasing memory does not help: after memory was returned to the kernel for a failed allocation, the
// allocation failed again, and no block was freed since then.
bool zg_allowance_is_relief_vain(const struct zg_thread *thread);
void zg_allowance_note_vain(const struct zg_thread *thread);

#endif
