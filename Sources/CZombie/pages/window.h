// Windows: pages of their own for small blocks, at the price of a packed heap. Blocks lie side by side in physical
// pages that are mapped several times (a window is one mapping of a chunk's pages), and each is handed out at a page of
// another window, or at another page of the same one: that page is the block's alone. When the block dies its page is
// guarded and stays dead, while its memory serves again at once, at another address. (The idea: Dhurjati and Adve, DSN
// 2006; "Oscar", USENIX Security 2017.)
//
//   chunk     | A B C D | E F G H |      one size class, pages of shared anonymous memory
//   window 1  | A . . . | E . . . |      by way of this window one block of each page is in use, or was
//   window 2  | . B . . | . F . . |
//
// A private page finds reads next to a block, and a window does not: other blocks lie there. A write behind the block,
// in its slot, is found when the block is freed. Handing a block out costs a third of a private page: neighbouring
// pages become accessible in one call, and no page is zeroed.
//
// Children of a fork get copies, in windows at the same addresses: the handlers of fork copy the memory before the
// fork, and map the copy in the child. Processes never share memory this way: a child that no handler sees (a bare
// clone without CLONE_VM) lacks the windows. Since libc uses blocks of its own between the two handlers, those get no
// windows.
//
// Slow path; one lock. Needs guards for shared memory (Linux 6.15).
//
// The files, from the bottom to the top: window_state the tables · window_switch whether there are windows ·
// window_space their address space · chunk_class which chunk hands blocks out · chunk_slots its slots · window_pending
// guarding · window_gaps red zones · window_fork children · window making blocks.

#ifndef ZG_WINDOW_H
#define ZG_WINDOW_H

#include "blocks/alias.h"
#include "findings/found.h"
#include "pages/isolation_policy.h"
#include "pages/window_switch.h"
#include "platform/base.h"
#include "threads/thread.h"

// Stops windows, and makes their pages private ones, if the process has one thread: called before a limit or a filter
// makes it impossible for a fork to copy them. The thread is in the runtime.
void zg_window_leave(void);

// Makes a block of state fresh, its contents zero or arbitrary, the rest of its slot filled; it lies beside blocks that
// live as long as its context's (lifetimes.h). NULL where memory, mappings or address space do not suffice, or the size
// or alignment is too large.
struct zg_alias *zg_window_allocate(uint64_t size, uint64_t alignment, bool zero, uint32_t context);
// The first and the last change of the red zone behind the block. False where there is none.
bool zg_window_is_overrun(const struct zg_alias *alias, struct zg_change *change);
// A block of state freeing dies: its page is guarded by itself, as long as there is time for that. Otherwise the block
// is filled, and verified when its page is guarded together with others, which costs a third.
void zg_window_retire(struct zg_alias *alias);
// Guards all pending pages.
void zg_window_flush(void);

// Verifies the red zones behind all live blocks, and reports each change once. Returns the number of findings.
uint64_t zg_window_verify_live(const char *found_by);

// Gives the memory of chunks without blocks back. Returns the bytes.
uint64_t zg_window_trim(void);
// Bytes of the memory of all chunks.
uint64_t zg_window_bytes(void);

// Around a fork: the parent copies all chunks; in the child the windows lead to the copy.
void zg_window_lock(void);
void zg_window_unlock(bool reset);
void zg_window_fork_prepare(void);
void zg_window_fork_done(bool child);

// A fault at an address of the windows, in a process that was made by a system call which no handler of the runtime
// saw: the process gets its parent's contents of this moment, or cannot go on. Signal context; no lock.
enum zg_window_fault { zg_window_fault_other, zg_window_fault_mended, zg_window_fault_lost };
enum zg_window_fault zg_window_fault(uint64_t address);

#ifdef ZG_CHECK_INVARIANTS
// Says what is broken; NULL where nothing is.
const char *zg_window_broken(void);
#endif

#endif
