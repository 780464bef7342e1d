// Sampling (profile `sample`): one of sample_rate blocks, at random, is isolated; the program's own malloc serves all
// others unchanged. For bypassed blocks the runtime costs one decrement in malloc and one comparison in free.
// zg_sample_bypasses: hot path, no lock.

#ifndef ZG_SAMPLE_H
#define ZG_SAMPLE_H

#include "platform/base.h"

// Number of this thread's blocks up to and including the next sample.
extern __thread int32_t zg_sample_left __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Called when the interval has ended: draws the next one. Returns true if libc is to serve this block.
bool zg_sample_draw(void);
ZG_INLINE bool zg_sample_bypasses(void) { return ZG_LIKELY(--zg_sample_left > 0) || zg_sample_draw(); }

// Adds the calling thread's bypassed blocks to passed_blocks. Call at the thread's end.
void zg_sample_count_bypassed(void);

// Starts sampling. Call at start-up; before this call, the guarded heap serves all blocks.
void zg_sample_start(void);
// Makes the child draw other random numbers than its parent.
void zg_sample_after_fork_in_child(void);

#endif
