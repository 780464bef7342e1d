// Focused stacks: allocation stacks of which every block is isolated, because an earlier run found a bug in their
// blocks. `zguard run --focus` writes their identities (identity.h) to a file, which the option `focus` names.
// Read at the start, constant afterwards. Any context; no lock.

#ifndef ZG_FOCUS_H
#define ZG_FOCUS_H

#include "include/zg_run_directory.h"
#include "platform/base.h"

// How blocks of a focused stack are placed in their pages. ZG_RUN_FOCUS_LETTERS has a letter for each.
enum zg_focus {
    zg_focus_none,
    zg_focus_end,       // in front of the guard page, aligned as malloc promises
    zg_focus_exact_end, // directly in front of the guard page, even if misaligned: a write right behind them faults
    zg_focus_start,     // directly behind a guard page: a write in front of them faults
};

// Whether there is a focused stack. Call zg_focus_of only then: it computes the stack's identity.
extern bool zg_focus_is_on;

// Reads the file of the option `focus`: a line for each stack, with its identity in 16 hexadecimal digits and a letter.
// A file that cannot be read is a degradation. If it names a stack, all stacks are recorded whole from now on, because
// a shortened stack has another identity.
void zg_focus_init(void);
// Returns how the stack's blocks are placed; zg_focus_none if the stack is not focused. A stack is focused if any inner
// part of it is in the file: the stack of the earlier run may have been shortened.
enum zg_focus zg_focus_of(uint32_t stack);

#endif
