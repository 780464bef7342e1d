// Stacks of other processes: stopping their threads, reading their registers, and unwinding them with libunwind, which is opened where it
// is installed. For processes of one thread: the kernel wants all calls about a thread from whoever stopped it.
// Functions return 0 or more, or -errno, where nothing else is said.

#ifndef ZG_UNWIND_THREADS_H
#define ZG_UNWIND_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch_aarch64.h"
#include "arch_x86_64.h"

// By their DWARF numbers; the address of the instruction is number ZG_THREAD_PC.
enum { ZG_THREAD_REGISTERS = 33 };

// Lets the thread stop at its next instruction; it has not stopped yet.
int zg_thread_seize(int tid);
// 1: it has stopped, and is to get `*signal` (0: none) when it goes on; 0: not yet.
int zg_thread_has_stopped(int tid, int *signal);
int zg_thread_registers(int tid, uint64_t registers[ZG_THREAD_REGISTERS]);
// It goes on, with this signal, and is nobody's any more. A call that the stop has ended after all begins again, as far as the processor's
// registers say so (x86-64).
int zg_thread_let_go(int tid, int signal);
// It has ended while it was traced: whoever made it may know now. 1: done; 0: it has not ended yet.
int zg_thread_bury(int tid);

// A thread of this process: stops it for a moment, has its stack unwound while it stands, and lets it go on. `unwind` must take no lock, for
// the thread may hold it, and allocate nothing (zg_api.h). `microseconds`: how long it may take until it stands. Returns how many frames
// there are. -EPERM: the kernel refuses, or a debugger has it.
typedef uint64_t zg_thread_unwind(const uint64_t *registers, uint64_t pc, uint64_t *frames, uint64_t most);
int zg_thread_stack(int tid, int microseconds, zg_thread_unwind *unwind, uint64_t *frames, int most);

// "read", "futex"; NULL for a system call that is not known.
const char *zg_call_name(long number);
// What comes of it where a thread is stopped in it and goes on again. Whoever has a thread stopped must know: a program without signals has
// never seen any of these calls return EINTR, or less than a whole.
enum zg_call_stop {
    zg_call_ends,    // it may return early
    zg_call_goes_on, // the kernel goes on with it
    zg_call_reads, // by file: goes on unless that is a socket with a timeout or one that is to fill its buffer, a device, or FUSE's
    zg_call_writes,   // goes on with regular files alone: what was written of more is returned
    zg_call_connects, // goes on unless the socket has a timeout
};
enum zg_call_stop zg_call_when_stopped(long number);
// A receiving call that is to fill its buffer (MSG_WAITALL).
bool zg_call_fills_buffer(long number, const uint64_t arguments[6]);
// It has no timeout, and returns with the first byte.
bool zg_socket_waits_for_ever(int socket, bool to_send);
// A copy of another process's descriptor (pidfd_getfd, Linux 5.6), or -errno.
int zg_socket_of_process(int pid, int descriptor);
// Whoever connects next: no answer to anything.
bool zg_call_waits_for_strangers(long number);
bool zg_call_is_futex(long number);
// What the kernel has a thread call that was stopped in a wait with an end (restart_syscall(2)).
bool zg_call_is_restart(long number);

// The registers of a thread in the bytes that the kernel has for them (user_regs_struct), as in core files too. False: too few bytes.
bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]);
// Where the stop has ended the call that the thread was in, has the kernel begin it again unless a handler runs. Changes the kernel's bytes
// (user_regs_struct); false: there is nothing to change.
bool zg_thread_mend_call(void *bytes, size_t count);

// How far above the stack pointer the frame pointer of a function points, by its first instructions; -1: it has none, or that cannot be said.
int64_t zg_unwind_frame_bytes(const unsigned char *code, size_t count);

// What is unwound: memory, and the images in it.
struct zg_unwind_source {
    void *context;
    // Returns how many bytes could be read.
    size_t (*read)(void *context, uint64_t address, void *to, size_t bytes);
    // The image that holds `pc`: where it lies, and its table of unwind information (.eh_frame_hdr). False: none has one.
    bool (*find)(void *context, uint64_t pc, uint64_t *start, uint64_t *end, uint64_t *table);
};

// libunwind is there. Otherwise what is missing, in words.
const char *zg_unwind_obstacle(void);
// The stack that these registers begin, innermost frame first; `known`: a bit for each register that is known, by number. `frames` addresses of instructions, `is_exact` whether it is the instruction
// itself (the first, or one that a signal interrupted) and not a return address. Returns how many, `most` at the most.
int zg_unwind_stack(const struct zg_unwind_source *source, const uint64_t registers[ZG_THREAD_REGISTERS],
                    uint64_t known, uint64_t *frames, bool *is_exact, int most);

#endif
