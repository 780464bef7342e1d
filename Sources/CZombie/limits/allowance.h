// Limits on memory that are the program's (setrlimit): the kernel does not see the heap grow, which lies in address space that was
// reserved before (RLIMIT_AS) and is not counted (RLIMIT_DATA, platform/os.h). So the heap counts what another allocator would have
// mapped: the blocks in use, each with what glibc adds to it. Dead blocks, records and pages around blocks are nothing of the program's.
// zg_allowance_take: slow path of an allocation, no lock; what the rest of the process has mapped is read from /proc now and then.

#ifndef ZG_ALLOWANCE_H
#define ZG_ALLOWANCE_H

#include "platform/base.h"
#include "threads/thread.h"

// There is such a limit.
extern bool zg_allowance_is_limited __attribute__((visibility("hidden")));

// The program is about to limit its address space to so much: what the kernel refuses afterwards, since all that is reserved counts, is
// done now. Any process but a child that shares its memory.
void zg_allowance_before_limit(uint64_t limit);
// Limits may have changed: at the start, after setrlimit, and (the second) once the heap has grown by some MiB.
void zg_allowance_look(void);
void zg_allowance_look_at_growth(void);
// Whether so many bytes more may come into use. The thread is entered, or NULL.
bool zg_allowance_take(struct zg_thread *thread, uint64_t bytes);
// The same for a block of this size, or for those that are made available with it.
bool zg_allowance_take_block(struct zg_thread *thread, uint64_t size);
// The same for a block of another allocator, whose memory the kernel counts, but not what the heap has beside it.
bool zg_allowance_passes(uint64_t size);
// Since that time, in ticks, another allocator has been asked in vain: between two refusals it does not count.
void zg_allowance_discount(uint64_t since);
// A relief of memory has been tried for an allocation in vain: it is not worth trying again as long as nothing was freed.
bool zg_allowance_is_relief_vain(const struct zg_thread *thread);
void zg_allowance_note_vain(const struct zg_thread *thread);

#endif
