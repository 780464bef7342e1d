// Makes every system call of the runtime except those that set up signals. Tests can make each call fail here, and
// calls that a seccomp filter would not allow are skipped (filter.h). Results: 0 or a count on success, a negated errno
// on failure; errno itself is never touched. Any context.

#ifndef ZG_OS_H
#define ZG_OS_H

#include "platform/base.h"

// Reserves address space without memory (PROT_NONE, no swap reserved), excluded from core files. NULL if refused.
void *zg_os_reserve(uint64_t bytes);
// Unmaps memory that zg_os_map or a similar function returned.
void zg_os_release(void *start, uint64_t bytes);
// Unmaps a whole reservation.
void zg_os_unreserve(void *start, uint64_t bytes);
// Returns the size of all reservations.
uint64_t zg_os_reserved_bytes(void);
// Returns the size of the runtime's other mappings.
uint64_t zg_os_mapped_bytes(void);
// Returns the size of the runtime's private memory that RLIMIT_DATA does not count, because the kernel counts it as
// stack.
uint64_t zg_os_uncounted_bytes(void);
// Declares the one part of a reservation that holds shared mappings. Call before the part is used.
void zg_os_will_share(void *start, uint64_t bytes);
// Makes part of a reservation readable and writable and includes it in core files. Fresh pages read as zero.
int zg_os_commit(void *start, uint64_t bytes);
// Excludes the range from core files.
void zg_os_leave_out_of_core(void *start, uint64_t bytes);
// Turns on synchronous tag checks of this thread and the threads that it creates (arch.h). False if the kernel has no
// tag checks.
bool zg_os_start_tags(void);
// Turns on memory tags for one part of a reservation; fresh memory has tag 0. Call once.
bool zg_os_tag_range(void *start, uint64_t bytes);
// Releases the pages; they read as zero afterwards.
int zg_os_discard(void *start, uint64_t bytes);
// Releases the pages and makes the range inaccessible until it is committed again.
int zg_os_retire(void *start, uint64_t bytes);
// Like zg_os_retire, but without the advice against huge pages, so the range's mapping merges only with mappings that
// lack this advice, too. The range must not be committed.
int zg_os_blank(void *start, uint64_t bytes);
// Makes the range inaccessible and keeps its pages.
int zg_os_protect(void *start, uint64_t bytes);
// Makes pages of an accessible mapping inaccessible and releases their memory without splitting the mapping (guard
// pages). zg_os_unguard undoes that. -EINVAL if the kernel lacks guard pages (before Linux 6.13) or the pages are
// locked.
int zg_os_guard(void *start, uint64_t bytes);
int zg_os_unguard(void *start, uint64_t bytes);
// Maps zeroed memory for the runtime's own tables. NULL if refused.
void *zg_os_map(uint64_t bytes);
// Like zg_os_map, at the address `start`. NULL if any part of the range is mapped already.
void *zg_os_map_at(void *start, uint64_t bytes);
// Maps zeroed memory of any size for the life of the process. RLIMIT_DATA does not count it.
void *zg_os_map_for_good(uint64_t bytes);
// Returns the `index`-th range of the runtime's address space: reservations, and memory of zg_os_map of 64 KiB and
// more. False past the last one. A range that was unmapped is empty.
bool zg_os_own_range(uint64_t index, uint64_t *start, uint64_t *end);
struct zg_layout_range;
// Returns the table of the ranges of zg_os_own_range, for readers in other processes (zg_stats_page.h). `*count`
// receives its length.
const struct zg_layout_range *zg_os_own_ranges(uint64_t *count);
// Call with `on` before mlockall(MCL_FUTURE) takes effect. Sets address space aside, so that the runtime's later
// mappings are neither backed at once nor counted against RLIMIT_MEMLOCK.
void zg_os_lock_later(bool on);
// With `on`, locks the memory of blocks whenever it is committed.
void zg_os_lock_blocks_later(bool on);
// Locks pages of the range when they are first used. -errno if the limit forbids it.
int zg_os_lock_on_fault(void *start, uint64_t bytes);
// Locks all pages of the range.
int zg_os_lock(void *start, uint64_t bytes);
// Unlocks the range.
void zg_os_unlock(void *start, uint64_t bytes);
// Like zg_os_map_for_good, for tables that are read at random: uses huge pages if the system allows MADV_HUGEPAGE.
// `bytes` is a power of two.
void *zg_os_map_table(uint64_t bytes);
// Finds the pages that have memory, and sets bit 0 of their byte in `present`, which has one byte per page. `start` is
// a multiple of the page size.
int zg_os_find_present(void *start, uint64_t bytes, unsigned char *present);
// Returns whether the kernel, by its overcommit rules, would grant this much memory now. No memory stays allocated.
bool zg_os_would_give(uint64_t bytes);
// Moves the pages of [from, from+bytes), part of one reservation, to [to, to+bytes). `from` stays mapped and reads as
// zero. Fails if the kernel does not support this, or if the range consists of several mappings. `from` is then
// unchanged. `to` is unchanged or reads as zero; if the result is -EFAULT, `to` is unmapped.
int zg_os_move(void *from, void *to, uint64_t bytes);
// Returns true if the range is private anonymous memory. Only for freed memory, because a child that is forked during
// the check gets zeros (MADV_WIPEONFORK).
bool zg_os_is_private(void *start, uint64_t bytes);
// Moves a range that consists of several mappings, one mapping at a time, by zg_os_move. `*moved` bytes from `from` on
// were moved, even on failure.
int zg_os_move_several(void *from, void *to, uint64_t bytes, uint64_t *moved);

// Undoes madvise for fork (MADV_DONTFORK, MADV_WIPEONFORK), so that children inherit the range with its contents.
void zg_os_inherit(void *start, uint64_t bytes);
// Returns true if all of the range is mapped.
bool zg_os_is_mapped(void *start, uint64_t bytes);
// Maps an inaccessible range if nothing is mapped there; otherwise returns false.
bool zg_os_map_hole(void *start, uint64_t bytes);
// Makes code writable while it stays executable. zg_os_close_code makes it, or newly written code, executable and
// read-only.
int zg_os_open_code(void *start, uint64_t bytes);
int zg_os_close_code(void *start, uint64_t bytes);

// Makes constants writable. zg_os_close_constants makes them read-only again.
int zg_os_open_constants(void *start, uint64_t bytes);
int zg_os_close_constants(void *start, uint64_t bytes);

// Copies from an address that may be unmapped. Returns the bytes copied; 0 if nothing could be read.
uint64_t zg_os_read_memory(void *to, uint64_t from, uint64_t bytes);
// Like zg_os_read_memory, but if nothing could be read, returns why: -EFAULT if nothing is mapped; other errors say
// nothing about the address.
int64_t zg_os_try_read_memory(void *to, uint64_t from, uint64_t bytes);
// Copies up to ZG_OS_PIECES ranges with one call, one behind the other, up to the first range that cannot be read in
// full. Returns the same as zg_os_try_read_memory.
struct zg_os_piece {
    uint64_t from, bytes;
};
enum { ZG_OS_PIECES = 4 };
int64_t zg_os_try_read_pieces(void *to, const struct zg_os_piece *pieces, int count);
// Copies from another process. False unless everything was copied: the kernel may deny access, or the process may be
// gone.
bool zg_os_read_process(int process, void *to, uint64_t from, uint64_t bytes);
// Returns true if every page of [low, high) is readable.
bool zg_os_is_readable(uint64_t low, uint64_t high);
// Returns true if process_vm_readv works in this process; a sandbox may refuse it.
bool zg_os_can_read_memory(void);
// Bits of zg_os_refused: kinds of calls that were refused at least once, regardless of their arguments.
enum zg_os_refusal { zg_os_refused_reads = 1, zg_os_refused_advice = 2 };
extern uint32_t zg_os_refused;

int zg_os_write(int descriptor, const void *bytes, uint64_t count);
// Opens a file for appending, and creates it for its owner if needed. Does not follow links, does not wait for a FIFO's
// reader, and refuses files that have several names or belong to a user other than the process's user and root.
int zg_os_open_append(const char *path);
// Opens an existing file in a directory for appending; follows links.
int zg_os_open_append_in(int directory, const char *name);
// Creates a new file in a directory for appending.
int zg_os_create_append(int directory, const char *name);
// Opens a directory (O_PATH, no link) that belongs to this user or root, and in which no other user can rename or
// remove files. -EPERM otherwise.
int zg_os_open_own_directory(const char *path);
// Sends one packet to the Unix socket (SOCK_SEQPACKET) that listens at the path, without waiting. -ECONNREFUSED or
// -ENOENT if no socket listens.
int zg_os_send(const char *path, const void *bytes, uint64_t count);
// Returns true for a pipe or socket, where a write may wait for the reader.
bool zg_os_may_block(int descriptor);
// Waits until the descriptor is writable. Returns false after the timeout or a signal, but true if the kernel does not
// answer.
bool zg_os_is_writable(int descriptor, int64_t timeout_ns);
int zg_os_open_read(const char *path);
// Shortens an existing file that has no other hard links by one byte. Unlike a write, this works under every file size
// limit and on a full disk. Processes that shorten the file at the same time do so one after the other; each waits for
// a limited time.
void zg_os_shorten(int directory, const char *name);
int zg_os_read(int descriptor, void *bytes, uint64_t count);
// Reads from the beginning of the file; the descriptor's position does not change.
int zg_os_read_again(int descriptor, void *bytes, uint64_t count);
int64_t zg_os_read_at(int descriptor, void *bytes, uint64_t count, uint64_t at);
// Opens a regular file to inspect it: the program that is about to be executed, or a file that the user has named. Does
// not wait. Negative on failure.
int zg_os_open_program(int directory, const char *path);
// Returns true if the process would gain privileges by executing the file (setuid, setgid, file capabilities), so that
// the loader ignores LD_PRELOAD (AT_SECURE; cap_bprm_creds_from_file in the kernel). `path` may be empty: `directory`
// is then the open file. Does not check whether the file system is mounted nosuid.
bool zg_os_gains_privileges(int directory, const char *path);
// Returns true if there is a regular file that the process may execute.
bool zg_os_is_executable(const char *path);
// Opens a kernel file (/proc, control groups) for reading. Tests set zg_os_root to a directory, whose path is put in
// front of `path`.
extern const char *zg_os_root;
int zg_os_open_system(const char *path);
// Returns true if both paths lead to the same file.
bool zg_os_is_same_file(const char *one, const char *other);
int zg_os_readlink(const char *path, char *target, uint64_t bytes);
void zg_os_close(int descriptor);
// Identifies the file of a descriptor. False if the descriptor is closed.
bool zg_os_identify(int descriptor, uint64_t *device, uint64_t *inode);
// Moves a descriptor out of the range that programs use, close-on-exec. Returns the new descriptor or a negative errno.
// Always closes the old descriptor, because its number must be free for the program.
int zg_os_hide_descriptor(int descriptor);
// Duplicates a descriptor out of the program's range, close-on-exec. Negative if the kernel refuses, or if descriptors
// are so scarce that all are left to the program.
int zg_os_duplicate_hidden(int descriptor);
// Begins and ends the creation of hidden descriptors. Their numbers are above the program's soft limit, if the hard
// limit leaves room, so that the program loses no descriptor. Between the two calls, new descriptors do not count
// against the program's limit. For start-up and the child of a fork.
void zg_os_lift_descriptor_limit(void);
void zg_os_restore_descriptor_limit(void);
// Gives the calling thread a descriptor table of its own that keeps only these descriptors; other threads' tables do
// not change. `kept` is in ascending order. False, without effect, if the kernel lacks the call (before Linux 5.9).
bool zg_os_leave_descriptors(const int *kept, int count);
// Opens a hardware watchpoint (perf_event_open), which is off at first. An access of the program to the watched bytes,
// in this thread or in threads that it creates later, sends SIGTRAP to the accessing thread; accesses of the kernel do
// not. Returns a descriptor or a negative errno. Call only in a single-threaded process: the new descriptor has the
// lowest free number, on which another thread may rely.
int zg_os_watch_open(void);
// Returns the number by which the kernel knows the watchpoint; 0 if the descriptor is no watchpoint.
uint64_t zg_os_watch_id(int descriptor);
// Moves the watchpoint in all threads. `bytes`: 1, 2, 4 or 8, of which the address is a multiple; 0 turns the
// watchpoint off.
int zg_os_watch_move(int descriptor, uint64_t address, uint32_t bytes);
// Value of si_perf_data in the siginfo_t of these watchpoints' signals.
#define ZG_OS_WATCH_MARK UINT64_C(0x3148435441574755) // "UGWATCH1" in memory order
// Returns true if a blocked SIGTRAP of a watchpoint stays pending (since Linux 5.18): older kernels end the process.
// One caller at a time.
bool zg_os_watch_is_safe(void);
// Returns the address of the handler that the kernel calls for this signal; 0 if unknown.
uint64_t zg_os_signal_handler(int signal);
// Returns true if another process traces this one, according to /proc. One caller at a time.
bool zg_os_is_traced(void);
// Returns the number of context switches of all threads so far.
uint64_t zg_os_context_switches(void);
// Creates a memory file that only its owner may open, sealed to a fixed size if the kernel allows it. Negative on
// failure.
int zg_os_memfd(const char *name, uint64_t bytes);
// Makes `user` the owner of the file, if the process has root's rights. Otherwise does nothing.
void zg_os_give_file(int descriptor, uint32_t user);
// Replaces the mapping at `at` by private zeros.
void *zg_os_map_private(uint64_t bytes, void *at);
// Maps a shared mapping once more at another address. NULL if refused.
void *zg_os_map_again(void *shared, uint64_t bytes);
void *zg_os_map_shared(int descriptor, uint64_t bytes, void *at);
// Maps zeroed memory that can be mapped several times and that children do not inherit. NULL if refused.
void *zg_os_map_common(uint64_t bytes);
// Maps memory of zg_os_map_common once more at `at`, and replaces what is mapped there.
int zg_os_map_window(void *common, uint64_t bytes, void *at);
// Sets whether children inherit memory of zg_os_map_common; they inherit it as shared memory.
int zg_os_share_with_children(void *common, uint64_t bytes, bool share);
// Maps the pages in advance, so that the first access to each does not fault.
int zg_os_populate(void *start, uint64_t bytes);
// Releases pages of memory of zg_os_map_common in all its mappings; the pages read as zero afterwards.
int zg_os_remove(void *common, uint64_t bytes);
// Opens a memory file of at least `bytes` bytes that is sealed against shrinking, so that a mapping of it stays valid.
// Negative on failure.
int zg_os_open_sealed(int directory, const char *name, uint64_t bytes);

// Asks the kernel now for values that a seccomp filter may hide later (filter.h). Start-up and the child of a fork.
void zg_os_remember(void);
// Call before a filter takes effect: saves the thread's id and the clocks. If the filter hides the clocks, they
// continue from the saved values.
void zg_os_before_filter(void);
// Returns true if the filters allow this call (with arguments 0).
bool zg_os_may_call(long number);
// Returns true if the filters allow memory to be made accessible.
bool zg_os_may_commit(void);
// Returns true if the filters allow every call that features of the runtime need.
bool zg_os_may_all(void);
// Returns true in this process, and false in a child that shares this process's memory (vfork).
bool zg_os_is_own_process(void);
// Returns true if the thread still exists.
bool zg_os_has_thread(int tid);
// Returns true if the kernel says that no process has this id.
bool zg_os_is_gone(int pid);
// Lets a process trace the calling process even if the kernel allows only ancestors (Yama).
void zg_os_let_trace(int pid);
// Raises RLIMIT_FSIZE to the hard limit. `*before` receives the former limit.
bool zg_os_lift_file_limit(uint64_t before[2]);
// Sets RLIMIT_FSIZE to a limit that zg_os_lift_file_limit returned.
void zg_os_limit_files(const uint64_t limit[2]);
// Grows the main thread's stack to its limit, at most 8 MiB, or as far as the kernel allows. Call before something
// prevents the stack from growing later.
void zg_os_grow_stack(void);
// Returns the end of libc's own heap (brk); 0 if unknown.
uint64_t zg_os_break(void);
// Like sigaltstack, with stack_t arguments; for the runtime's own use.
int zg_os_alternate_stack(const void *stack, void *old);

// Returns true if the real, effective, or saved user is root, or unknown.
bool zg_os_may_become_root(void);
int zg_os_pid(void);
int zg_os_tid(void);
// Returns true if the kernel returned the id, now or before a filter. False if the runtime made it up because a filter
// hides it.
bool zg_os_tid_is_from_kernel(int tid);
void zg_os_thread_name(char name[16]);
// Records the identity of the process according to /proc, for use when a filter hides it. Start-up.
void zg_os_note_identity(int pid, const char *name);
void zg_os_after_fork_in_child(void);
void zg_os_set_thread_name(const char *name);
void zg_os_kill_self(int signal);
// Sends the calling thread a signal again; `info` is a siginfo_t as made by the kernel.
void zg_os_raise_again(int signal, const void *info);
// Changes the calling thread's signal mask (bit signal - 1) like sigprocmask. `*before`, unless NULL, receives the old
// mask. False, without effect, if a filter refuses the call.
bool zg_os_mask_signals(int how, uint64_t mask, uint64_t *before);
// Returns the signals pending for this thread or the process. False if the kernel does not answer.
bool zg_os_pending_signals(uint64_t *pending);
// Takes a blocked signal that is pending; `info` is a siginfo_t. False if there is none.
bool zg_os_take_signal(int signal, void *info);
// Restores the mask. Retries if a call fails, because the program must not continue with a wrong mask.
void zg_os_restore_signals(uint64_t mask);
void zg_os_exit(int status) __attribute__((noreturn));
uint64_t zg_os_clock_ns(int clock);
uint64_t zg_os_limit(int resource);
// Returns how much address space the process may have: RLIMIT_AS, or the size of the whole address space if that is
// small (39 or 42 bits instead of 47 and more). RLIM_INFINITY: more than the runtime needs.
uint64_t zg_os_address_space(void);
// Returns true if the kernel's page size is ZG_PAGE_BYTES.
bool zg_os_has_expected_pages(void);
// Returns the bytes of memory of the machine; 0 if unknown.
uint64_t zg_os_physical_memory(void);
void zg_os_yield(void);

// timeout_ns < 0: wait forever. `private_` is false for memory shared with other processes.
int zg_os_futex_wait(uint32_t *word, uint32_t expected, bool private_, int64_t timeout_ns);
int zg_os_futex_wake(uint32_t *word, int count, bool private_);

#endif
