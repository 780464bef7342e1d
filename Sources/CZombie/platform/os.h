// Every system call of the runtime outside signal set-up goes through here, so that tests can make each of them fail, and none is
// made that a filter of system calls would answer otherwise than by letting it pass (filter.h).
// Results: 0 or a count on success, a negated errno on failure; errno itself is never touched. Any context.

#ifndef ZG_OS_H
#define ZG_OS_H

#include "platform/base.h"

// Address space without memory behind it (PROT_NONE, no swap reserved), left out of core files. NULL where refused.
void *zg_os_reserve(uint64_t bytes);
void zg_os_release(void *start, uint64_t bytes);
// The same for a whole reservation.
void zg_os_unreserve(void *start, uint64_t bytes);
// Address space that was reserved since the start. / What else the runtime has mapped. / What of its private memory RLIMIT_DATA does not
// count: the kernel has it among the stacks instead.
uint64_t zg_os_reserved_bytes(void);
uint64_t zg_os_mapped_bytes(void);
uint64_t zg_os_uncounted_bytes(void);
// This part of a reservation, of which there is one, is for memory that is shared. Before it is used.
void zg_os_will_share(void *start, uint64_t bytes);
// Makes part of a reservation readable and writable, and a part of core files; fresh pages read as zero.
int zg_os_commit(void *start, uint64_t bytes);
// Core files are to be written without this range.
void zg_os_leave_out_of_core(void *start, uint64_t bytes);
// Accesses of this thread, and of those that it makes, are checked for tags at the instruction (arch.h). False where the kernel cannot.
bool zg_os_start_tags(void);
// The memory of this part of a reservation, once, has tags, all 0 where it is fresh.
bool zg_os_tag_range(void *start, uint64_t bytes);
// Gives the pages back; they read as zero afterwards.
int zg_os_discard(void *start, uint64_t bytes);
// Gives the pages back and makes the range inaccessible until it is committed again.
int zg_os_retire(void *start, uint64_t bytes);
// The same without the advice that a reservation has: it merges with its like alone, and cannot be committed.
int zg_os_blank(void *start, uint64_t bytes);
// Makes the range inaccessible, and keeps its pages.
int zg_os_protect(void *start, uint64_t bytes);
// Makes pages of an accessible mapping inaccessible, and gives their memory back, without a mapping of their own; and back.
// -EINVAL where the kernel does not know it (before Linux 6.13) or the pages are locked.
int zg_os_guard(void *start, uint64_t bytes);
int zg_os_unguard(void *start, uint64_t bytes);
// Memory for the runtime's own tables, zeroed. NULL where refused.
void *zg_os_map(uint64_t bytes);
// The same for as long as the process lives, of any size: RLIMIT_DATA does not count it.
void *zg_os_map_for_good(uint64_t bytes);
// The `index`-th piece of address space that is the runtime's: reservations, and what zg_os_map gave of 64 KiB and more. False
// where there are no more; an empty range where one has gone.
bool zg_os_own_range(uint64_t index, uint64_t *start, uint64_t *end);
// The program has asked for all that is mapped later to be locked (mlockall): the runtime's own mappings are not to count, nor
// to be backed. Called with `on` before that takes effect, which sets address space aside.
void zg_os_lock_later(bool on);
// Memory of blocks is to be locked as it comes into use.
void zg_os_lock_blocks_later(bool on);
// Locks what of the range comes into use, as far as the process may. / Locks all of it. / Unlocks it.
int zg_os_lock_on_fault(void *start, uint64_t bytes);
int zg_os_lock(void *start, uint64_t bytes);
void zg_os_unlock(void *start, uint64_t bytes);
// The same for tables that are read at random: in huge pages, where the system lets programs ask for them. A power of two.
void *zg_os_map_table(uint64_t bytes);
// Which pages have memory: bit 0 of `present`, a byte for each page. The range begins at a page.
int zg_os_find_present(void *start, uint64_t bytes, unsigned char *present);
// Whether the kernel would give this much memory now: its overcommit rules are asked, nothing is kept.
bool zg_os_would_give(uint64_t bytes);
// Moves the pages of [from, from+bytes), parts of one reservation, to [to, to+bytes); `from` stays mapped and reads as zero. Where
// that fails (the kernel does not know it, or the range is several mappings) `from` is as it was, and `to` is as it was, reads as
// zero, or is not mapped any more: -EFAULT.
int zg_os_move(void *from, void *to, uint64_t bytes);
// Whether all of it is private memory of no file. Dead memory only: a child that is forked meanwhile may find zeros.
bool zg_os_is_private(void *start, uint64_t bytes);
// Moves a range of several mappings like zg_os_move, one after the other; `*moved` bytes from `from` on have moved, also where it
// fails.
int zg_os_move_several(void *from, void *to, uint64_t bytes, uint64_t *moved);

// Children inherit the range, with what is in it: undoes advice for fork.
void zg_os_inherit(void *start, uint64_t bytes);
// All of the range is mapped.
bool zg_os_is_mapped(void *start, uint64_t bytes);
// Maps an inaccessible range where nothing is mapped; false where something is.
bool zg_os_map_hole(void *start, uint64_t bytes);
// Makes code writable, and it stays executable; and back, or what was written code.
int zg_os_open_code(void *start, uint64_t bytes);
int zg_os_close_code(void *start, uint64_t bytes);

// Makes constants writable, and constants again.
int zg_os_open_constants(void *start, uint64_t bytes);
int zg_os_close_constants(void *start, uint64_t bytes);

// Copies from an address that may not be mapped. Returns the bytes copied, 0 where nothing could be read.
uint64_t zg_os_read_memory(void *to, uint64_t from, uint64_t bytes);
// The same, and why nothing could be read: -EFAULT where nothing is mapped, anything else says nothing about the address.
int64_t zg_os_try_read_memory(void *to, uint64_t from, uint64_t bytes);
// Copies several pieces, one behind the other, by one call. Returns as zg_os_try_read_memory does, where a piece that cannot be read in
// full ends it. ZG_OS_PIECES at the most.
struct zg_os_piece {
    uint64_t from, bytes;
};
enum { ZG_OS_PIECES = 4 };
int64_t zg_os_try_read_pieces(void *to, const struct zg_os_piece *pieces, int count);
// Copies all of it from another process. False where the kernel does not let us, or it is gone.
bool zg_os_read_process(int process, void *to, uint64_t from, uint64_t bytes);
// Every page of [low, high) can be read.
bool zg_os_is_readable(uint64_t low, uint64_t high);
// process_vm_readv works in this process (a sandbox may refuse it).
bool zg_os_can_read_memory(void);
// What was refused as such, not for its arguments, once at least: bits of zg_os_refusal.
enum zg_os_refusal { zg_os_refused_reads = 1, zg_os_refused_advice = 2 };
extern uint32_t zg_os_refused;

int zg_os_write(int descriptor, const void *bytes, uint64_t count);
// For appending; made where it is not there, for the owner only. Follows no link, waits for nobody who reads a FIFO, and takes no file
// of another user's but root's, nor one with several names.
int zg_os_open_append(const char *path);
// The same for a file that exists in a directory, where links may be followed. / For a new file.
int zg_os_open_append_in(int directory, const char *name);
int zg_os_create_append(int directory, const char *name);
// Opens a directory (O_PATH, no link) of this user's or of root's, in which nobody else can rename or remove files. -EPERM otherwise.
int zg_os_open_own_directory(const char *path);
// Sends one packet to the Unix socket (SOCK_SEQPACKET) that listens at the path, without waiting. -ECONNREFUSED or -ENOENT where nobody
// listens.
int zg_os_send(const char *path, const void *bytes, uint64_t count);
// A pipe or a socket, where writing may wait for whoever reads.
bool zg_os_may_block(int descriptor);
// Waits until something can be written. True also where the kernel does not say.
bool zg_os_is_writable(int descriptor, int64_t timeout_ns);
int zg_os_open_read(const char *path);
// Makes a file that exists, under one name alone, a byte shorter; within every limit, and on a full disk.
// Processes that do it at the same time wait for each other, but not for long.
void zg_os_shorten(int directory, const char *name);
int zg_os_read(int descriptor, void *bytes, uint64_t count);
// The same from the file's beginning; the descriptor's position stays.
int zg_os_read_again(int descriptor, void *bytes, uint64_t count);
int64_t zg_os_read_at(int descriptor, void *bytes, uint64_t count, uint64_t at);
// For a look at a program before it is executed: regular files only. Nothing is waited for. Negative where there is none.
int zg_os_open_program(int directory, const char *path);
// There is a regular file that the process may execute.
bool zg_os_is_executable(const char *path);
// The kernel's files (/proc, control groups), for reading. They lie below zg_os_root, which tests set: "" is the real ones.
extern const char *zg_os_root;
int zg_os_open_system(const char *path);
int zg_os_readlink(const char *path, char *target, uint64_t bytes);
void zg_os_close(int descriptor);
// Which file the descriptor leads to. False where it is closed.
bool zg_os_identify(int descriptor, uint64_t *device, uint64_t *inode);
// Moves a descriptor out of the range that programs use, close-on-exec. Returns the new one, or a negative errno where there
// is none; the old one is closed in any case, for the program's next one is to have its number.
int zg_os_hide_descriptor(int descriptor);
// A second descriptor for the same file, out of the way, close-on-exec. Negative where there is none, or numbers are scarce: those are the
// program's.
int zg_os_duplicate_hidden(int descriptor);
// Hidden descriptors have numbers that the program cannot get, where its hard limit leaves room: they are none of its own fewer. From the
// first to the second call all others, too, are not counted against its limit. For the start, and the child of a fork.
void zg_os_lift_descriptor_limit(void);
void zg_os_restore_descriptor_limit(void);
// The calling thread goes on with a descriptor table of its own, in which only these are open; others' tables stay as they
// are. `kept` is sorted upwards. False where the kernel cannot (before 5.9): nothing has changed then.
bool zg_os_leave_descriptors(const int *kept, int count);
// A file in memory that only its owner may open, sealed where the kernel lets it be: its size stays what it is. Negative where there is
// none.
int zg_os_memfd(const char *name, uint64_t bytes);
// Makes another user the owner of the file, which takes the rights of root; otherwise nothing happens.
void zg_os_give_file(int descriptor, uint32_t user);
// Replaces what is mapped at `at` by private zeros.
void *zg_os_map_private(uint64_t bytes, void *at);
// What is mapped shared is mapped once more, elsewhere. NULL where that is refused.
void *zg_os_map_again(void *shared, uint64_t bytes);
void *zg_os_map_shared(int descriptor, uint64_t bytes, void *at);
// Memory that can be mapped several times, zeroed, that children do not inherit. NULL where refused.
void *zg_os_map_common(uint64_t bytes);
// Maps such memory once more, at `at`, in place of what is mapped there.
int zg_os_map_window(void *common, uint64_t bytes, void *at);
// Children inherit such memory, as memory that they share; or they do not.
int zg_os_share_with_children(void *common, uint64_t bytes, bool share);
// Makes the pages of a mapping be there, so that the first access to each is no fault.
int zg_os_populate(void *start, uint64_t bytes);
// Gives pages of such memory back, wherever they are mapped; they read as zero afterwards.
int zg_os_remove(void *common, uint64_t bytes);
// A file in memory of at least so many bytes that nobody can make smaller (what is mapped of it stays there), for mapping it.
// Negative where there is none at the path.
int zg_os_open_sealed(int directory, const char *name, uint64_t bytes);

// At the start and in the child of a fork: asks what is not to be asked again under a filter of system calls (filter.h).
void zg_os_remember(void);
// Before a filter counts: what the thread and the clocks say now is what they go on from.
void zg_os_before_filter(void);
// A filter lets this call through (where its arguments are 0). / It lets memory be made accessible. / It lets everything through that
// the runtime cannot do without losing something.
bool zg_os_may_call(long number);
bool zg_os_may_commit(void);
bool zg_os_may_all(void);
// The caller is this process; otherwise it is a child that shares its memory (vfork).
bool zg_os_is_own_process(void);
// The thread of this number is still there.
bool zg_os_has_thread(int tid);
// There is no process of this number, as far as one may ask. / It may trace this one, where the kernel lets only ancestors (Yama).
bool zg_os_is_gone(int pid);
void zg_os_let_trace(int pid);
// The limit on the size of files, as high as it may be; `*before` is what it was. / As it was.
bool zg_os_lift_file_limit(uint64_t before[2]);
void zg_os_limit_files(const uint64_t limit[2]);
// The main thread's stack is as large as it may become, 8 MiB at the most, as far as the kernel lets it: later it may not grow any more.
void zg_os_grow_stack(void);
// The end of libc's own heap, 0 where it cannot be asked for.
uint64_t zg_os_break(void);
// As sigaltstack (stack_t), for the runtime's own use.
int zg_os_alternate_stack(const void *stack, void *old);

// The real, the effective or the saved user is root, or that is not known.
bool zg_os_may_become_root(void);
int zg_os_pid(void);
int zg_os_tid(void);
// It is the kernel's number, of now or as told before a filter; otherwise one of our own, because a filter refuses to tell.
bool zg_os_tid_is_from_kernel(int tid);
void zg_os_thread_name(char name[16]);
// What /proc says of the process, for where a filter refuses to tell. Start-up.
void zg_os_note_identity(int pid, const char *name);
void zg_os_after_fork_in_child(void);
void zg_os_set_thread_name(const char *name);
void zg_os_kill_self(int signal);
// The calling thread gets this signal once more, `info` being a siginfo_t as the kernel made it.
void zg_os_raise_again(int signal, const void *info);
// Changes the calling thread's mask of blocked signals (bit signal - 1) as sigprocmask does; `*before`, unless NULL, becomes what it
// was. False where a filter of system calls refuses it: then nothing has changed.
bool zg_os_mask_signals(int how, uint64_t mask, uint64_t *before);
// Signals that wait for this thread or the process. False where the kernel does not say.
bool zg_os_pending_signals(uint64_t *pending);
// The mask as it was. Tried again where it is refused: no program can go on without.
void zg_os_restore_signals(uint64_t mask);
void zg_os_exit(int status) __attribute__((noreturn));
uint64_t zg_os_clock_ns(int clock);
uint64_t zg_os_limit(int resource);
// How much address space the process may have: its limit, or all that the kernel lays out where that is little (39 or 42 bits instead of
// 47 and more). RLIM_INFINITY: more than the runtime wants.
uint64_t zg_os_address_space(void);
// The kernel's pages are those that the runtime is made for.
bool zg_os_has_expected_pages(void);
// Bytes of memory that the machine has; 0 where the kernel does not say.
uint64_t zg_os_physical_memory(void);
void zg_os_yield(void);

// timeout_ns < 0: for ever. `private_` is false for memory that other processes share.
int zg_os_futex_wait(uint32_t *word, uint32_t expected, bool private_, int64_t timeout_ns);
int zg_os_futex_wake(uint32_t *word, int count, bool private_);

#endif
