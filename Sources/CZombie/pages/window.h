// Windows: pages of their own for small blocks at the price of a packed heap. The blocks lie side by side in physical pages that are
// mapped several times (a window is one mapping of a chunk's pages), and each is handed out at a page of another window, or at
// another page of the same: that page is the block's alone. When the block dies its page is guarded and stays dead, while the
// memory serves again at once, at another address. (The idea: Dhurjati and Adve, DSN 2006; "Oscar", USENIX Security 2017.)
//
//   chunk     | A B C D | E F G H |      one size class, pages of shared anonymous memory
//   window 1  | A . . . | E . . . |      of each page one block is in use, or was, by way of this window
//   window 2  | . B . . | . F . . |
//
// What a full page of its own would notice and this does not: reads next to the block. What is written behind it, in its slot, is found
// when it is freed. Handing out costs a third of a private page: neighbours become accessible in one call, and no page is zeroed.
//
// Children of a fork get copies, in windows at the same addresses: the memory is copied before the fork, and mapped in the child, by
// the handlers of fork. Nothing is ever shared between processes: what is not copied so (a bare clone without CLONE_VM) is
// missing in the child. Since libc uses blocks of its own between the two handlers, those get no windows.
//
// Slow path; one lock. Needs guards for shared memory (Linux 6.15).

#ifndef ZG_WINDOW_H
#define ZG_WINDOW_H

#include "blocks/alias.h"
#include "findings/found.h"
#include "platform/base.h"
#include "threads/thread.h"

// Larger blocks have at most one neighbour in a page, and get private pages.
#define ZG_WINDOW_MOST UINT64_C(2040)

// Sets the address space aside. At the start, once the heap has its own.
void zg_window_reserve(void);
// They may be on; whether the system can is asked when the first is wanted.
bool zg_window_may_be(void);
// Small blocks of this caller (a return address) may get windows. Finds out at the first call whether the system can.
bool zg_window_is_for(uint64_t caller);
// Every block that can lie in a window is to lie in one (fence_windows=all).
bool zg_window_is_forced(void);
// Nothing more is to get windows: the program locks its memory, say.
void zg_window_stop(void);
// The same, and what lies in windows goes on in private pages, if the process has one thread: before something comes by which a fork
// could not copy it any more. The thread is entered.
void zg_window_leave(void);

// A block of state fresh, of `zero` contents or any, the rest of its slot filled; beside others that live as long as those of its
// context do (lifetimes.h). NULL where memory, mappings or address space do not
// reach, or the size or alignment is too large.
struct zg_alias *zg_window_allocate(uint64_t size, uint64_t alignment, bool zero, uint32_t context);
// What of the fill behind the block has changed. False: nothing.
bool zg_window_is_overrun(const struct zg_alias *alias, struct zg_change *change);
// A block that dies, state freeing: its page is guarded, by itself as long as there is time for that, or with others
// by and by, which costs a third: then it is filled, and looked at when it is guarded.
void zg_window_retire(struct zg_alias *alias);
// Guards what waits for it.
void zg_window_flush(void);

// Looks at the fill behind all blocks in use, and reports each that has changed once. Returns the number of findings.
uint64_t zg_window_verify_live(const char *found_by);

// Memory of chunks without blocks goes back. Returns the bytes.
uint64_t zg_window_trim(void);
// Bytes of memory that blocks in windows lie in.
uint64_t zg_window_bytes(void);

// Around a fork: the parent copies; in the child the windows lead to the copy.
void zg_window_lock(void);
void zg_window_unlock(bool reset);
void zg_window_fork_prepare(void);
void zg_window_fork_done(bool child);

// A fault at an address of the windows in a process that was made by a system call which nothing of ours has seen: it gets what its
// parent has by now, or cannot go on. Signal context; no lock.
enum zg_window_fault { zg_window_fault_other, zg_window_fault_mended, zg_window_fault_lost };
enum zg_window_fault zg_window_fault(uint64_t address);

#ifdef ZG_CHECK_INVARIANTS
// What is broken, in words; NULL where all is well.
const char *zg_window_broken(void);
#endif

#endif
