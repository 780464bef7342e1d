// Blocks die, by a thread that is entered. Hot path.

#ifndef ZG_FREE_H
#define ZG_FREE_H

#include "heap/mismatch.h"
#include "threads/thread.h"

// Larger blocks give their pages back at once when they are freed: filling them costs as much as faulting fresh pages in,
// and every later access is seen at the instruction.
#define ZG_RETIRE_LEAST ((uint64_t)1 << 20)

// `size` is what a sized function was told, ZG_ANY_SIZE otherwise. What is no live block is a finding, unless another
// allocator made it.
void zg_free_entered(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size);
// The same in line, for the door.
void zg_free_in_line(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size);

// An address in the heap that is not a live block's start is freed: reports what it is.
void zg_free_dead(uint64_t address, enum zg_deallocator deallocator);
// A mismatch is possible: reports it where it is one.
void zg_free_check_mismatch(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size);

#endif
