// Reads behind isolated blocks that stay in use. Masked vector loads (AVX-512: memcmp, strncmp and other functions of
// libc, and the ends of vectorised loops) reach behind a block and mask out what lies there; where that is in a
// protected page the processor takes hundreds of cycles for the masking. A block at the end of its page that a program
// compares all the time would make it several times slower. So, on processors with such loads, the guard page behind a
// block is opened once the block has been in use for `overread_ms` of processor time: from then on overflowing writes
// are found when the block is freed, and overflowing reads are not found.
// Slow path; takes the lock of private pages.

#ifndef ZG_OVERREAD_H
#define ZG_OVERREAD_H

#include "include/zg_block.h"

void zg_overread_init(void);
// The block was just made.
void zg_overread_note(const struct zg_span *span);
// Opens the guard pages of blocks that are old enough. Called now and then.
void zg_overread_look(void);
void zg_overread_after_fork_in_child(void);

#endif
