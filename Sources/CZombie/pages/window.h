// Windows: give small blocks pages of their own, at the memory cost of a packed heap.
//
// Blocks lie side by side in physical pages that are mapped several times. A window is one mapping of all pages of a
// chunk. Each block gets a virtual page that no other block uses: blocks that share a physical page are allocated in
// different windows. When the block is freed, its virtual page is guarded and not reused, while its memory is reused at
// once at another address. (The idea: Dhurjati and Adve, DSN 2006; "Oscar", USENIX Security 2017.)
//
//   chunk     | A B C D | E F G H |      one size class, pages of shared anonymous memory
//   window 1  | A . . . | E . . . |      in this window, one block of each page is in use or was
//   window 2  | . B . . | . F . . |
//
// Private pages detect reads beside a block; windows do not, because other blocks lie there. Writes behind the block,
// within its slot, are detected when it is freed. Allocating a block costs a third of a private page: adjacent pages
// become accessible in one call, and no page is zeroed.
//
// A fork's child gets copies of all chunks, in windows at the same addresses: the fork handlers copy the memory before
// the fork, and map the copy in the child. Processes never share window memory. A child that no handler sees (a bare
// clone without CLONE_VM) lacks the windows. libc uses its own blocks between the two handlers, so blocks that libc
// allocates for itself get no windows.
//
// Slow path; one lock. Needs guard pages in shared memory (Linux 6.15).
//
// Files, lowest first: window_state tables · window_switch whether there are windows · window_space address space ·
// chunk_class choice of chunks · chunk_slots slots of a chunk · window_pending guarding · window_gaps red zones ·
// window_fork children · window allocation.

#ifndef ZG_WINDOW_H
#define ZG_WINDOW_H

#include "blocks/alias.h"
#include "findings/found.h"
#include "pages/isolation_policy.h"
#include "pages/window_switch.h"
#include "platform/base.h"
#include "threads/thread.h"

// Stops windows and, if the process has one thread, turns their pages into private ones. Call before RLIMIT_AS or
// seccomp can prevent fork from copying window memory. The thread must be in the runtime.
void zg_window_leave(void);

// Allocates a block in state fresh, with its red zone filled. With `zero` its contents are zero, otherwise arbitrary.
// The block shares a chunk with blocks of similar lifetime (lifetimes.h). NULL if memory, mappings or address space do
// not suffice, or if size or alignment is too large.
struct zg_alias *zg_window_allocate(uint64_t size, uint64_t alignment, bool zero, uint32_t context);
// Finds the first and the last changed byte of the red zone behind the block. False if there is none.
bool zg_window_is_overrun(const struct zg_alias *alias, struct zg_change *change);
// Retires a freed block in state freeing. Guards its page before the program goes on if `at_once` is set or the time
// budget allows. Otherwise fills the block; its page is guarded later together with other pages, which costs a third of
// guarding it alone, and the fill is verified then. Returns true if the page is guarded.
bool zg_window_retire(struct zg_alias *alias, bool at_once);
// Guards all pending pages.
void zg_window_flush(void);

// Verifies the red zones behind all live blocks and reports each change once. Returns the number of findings.
uint64_t zg_window_verify_live(const char *found_by);

// Releases the memory of chunks without blocks. Returns the number of bytes.
uint64_t zg_window_trim(void);
// Returns the size of all chunks.
uint64_t zg_window_bytes(void);

// Called around a fork: the parent copies all chunks, and the child maps its windows onto the copy.
void zg_window_lock(void);
void zg_window_unlock(bool reset);
void zg_window_fork_prepare(void);
void zg_window_fork_done(bool child);

// Handles a fault at an address of the windows in a child process that was created by a direct system call, so that no
// fork handler ran. The child gets the contents that its parent has at this moment (mended); if that fails, the child
// cannot continue (lost). Any other fault is not handled (other). Signal context; no lock.
enum zg_window_fault { zg_window_fault_other, zg_window_fault_mended, zg_window_fault_lost };
enum zg_window_fault zg_window_fault(uint64_t address);

#ifdef ZG_CHECK_INVARIANTS
// Returns the name of a broken invariant, or NULL.
const char *zg_window_broken(void);
#endif

#endif
