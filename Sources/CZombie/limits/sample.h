// Sampling (profile `sample`): one of sample_rate blocks, at random, gets pages of its own; all others go to the program's own
// malloc, untouched. What remains of the runtime for those is one decrement in malloc and one comparison in free.
// zg_sample_passes: hot path, no lock.

#ifndef ZG_SAMPLE_H
#define ZG_SAMPLE_H

#include "platform/base.h"

// Blocks that this thread still passes on before the next one is taken.
extern __thread int32_t zg_sample_left __attribute__((tls_model("initial-exec"), visibility("hidden")));

// While sampling: this block is one of those that libc serves.
bool zg_sample_draw(void);
ZG_INLINE bool zg_sample_passes(void) { return ZG_LIKELY(--zg_sample_left > 0) || zg_sample_draw(); }

// The calling thread's share of passed_blocks, as far as it has not been counted. At its end.
void zg_sample_count_passed(void);

// From here on blocks are passed on. Start-up: before, the guarded heap serves.
void zg_sample_start(void);
// The child of a fork draws other numbers than its parent.
void zg_sample_after_fork_in_child(void);

#endif
