// Reads behind fenced blocks that stay in use. Masked vector loads (AVX-512: memcmp, strncmp and others of libc, vectorised
// loops' ends) reach behind a block and leave out what they reach; where that lies in a protected page the processor takes
// hundreds of cycles to leave it out. A block at the end of its page that a program compares all the time would make it several times
// slower. So, on processors that have such loads, the guard behind a block is opened once the block has been in use for
// `overread_ms` of processor time: from then on writes behind it are found when it is freed, reads no more.
// Slow path; takes the lock of fenced blocks.

#ifndef ZG_OVERREAD_H
#define ZG_OVERREAD_H

#include "include/zg_block.h"

void zg_overread_init(void);
// The block was just made.
void zg_overread_note(const struct zg_span *span);
// Opens what is due. Now and then.
void zg_overread_look(void);
void zg_overread_after_fork_in_child(void);

#endif
