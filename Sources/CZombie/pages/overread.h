// Opens guard pages behind isolated blocks that stay live, so that masked vector loads do not get slow. Such loads
// (AVX-512: memcmp, strncmp and other functions of libc, and the ends of vectorized loops) reach behind a block and
// mask out these bytes. If the bytes are in a protected page, the processor takes hundreds of cycles. A program that
// often compares a block at the end of its page would run several times slower.
// On processors with such loads, the guard page is opened once the block has been live for `overread_ms` of processor
// time. From then on, overflowing writes are detected when the block is freed, and overflowing reads are missed.
// Slow path; takes the lock of private pages.

#ifndef ZG_OVERREAD_H
#define ZG_OVERREAD_H

#include "include/zg_block.h"

void zg_overread_init(void);
// Adds a new block to the young blocks.
void zg_overread_note(const struct zg_span *span);
// Opens the guard pages of blocks that are old enough. Threads call this regularly.
void zg_overread_look(void);
void zg_overread_after_fork_in_child(void);

#endif
