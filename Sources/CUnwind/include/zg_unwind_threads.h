// Stack traces of other processes: stops their threads, reads their registers, and unwinds them with libunwind, which
// is opened if it is installed. For single-threaded processes: ptrace accepts requests only from the thread that
// attached.
// Functions return 0 or more, or -errno, unless stated otherwise.

#ifndef ZG_UNWIND_THREADS_H
#define ZG_UNWIND_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch_aarch64.h"
#include "arch_x86_64.h"

// Registers are indexed by DWARF number; the program counter has the index ZG_THREAD_PC.
enum { ZG_THREAD_REGISTERS = 33 };

// Attaches to a thread and tells it to stop. Returns before the thread has stopped.
int zg_thread_seize(int tid);
// 1: the thread has stopped; pass `*signal` (0: none) to zg_thread_detach. 0: not stopped yet.
int zg_thread_has_stopped(int tid, int *signal);
int zg_thread_registers(int tid, uint64_t registers[ZG_THREAD_REGISTERS]);
// Copies the registers of the floating-point and vector unit, in the processor's own layout. Returns the number of
// bytes.
int zg_thread_vectors(int tid, void *bytes, size_t count);
// Detaches from a stopped thread, which continues with this signal. A system call that the stop interrupted is
// restarted if the registers show the interruption (x86-64).
int zg_thread_detach(int tid, int signal);
// Reaps a thread that ended while it was traced, so that its parent is notified. 1: done; 0: it has not ended yet.
int zg_thread_reap(int tid);
// For processes without children: resumes a thread that stopped after the caller's wait had timed out, or reaps a
// thread that ended while it was traced. 1: done; 0: there is no such thread.
int zg_thread_release_next(void);

// Stops another thread of this process, unwinds its stack with `unwind`, and lets the thread continue. `unwind` must
// take no lock, which the stopped thread may hold, and must not allocate (zg_api.h). Waits at most `microseconds` for
// the thread to stop. Returns the number of frames. -EPERM: the kernel forbids it, or a debugger is attached;
// -ETIMEDOUT: the thread did not stop in time.
typedef uint64_t zg_thread_unwind(const uint64_t *registers, uint64_t pc, uint64_t *frames, uint64_t most);
int zg_thread_stack(int tid, int microseconds, zg_thread_unwind *unwind, uint64_t *frames, int most);

// The name of a system call, such as "read"; NULL if unknown.
const char *zg_call_name(long number);
// The effect of a ptrace stop on a system call. Check it before a thread is stopped: a program that uses no signals
// does not expect EINTR or a partial result.
enum zg_call_stop {
    zg_call_ends,     // may return EINTR or a partial result
    zg_call_restarts, // the kernel continues or restarts it
    // continues for most files; ends for devices, FUSE, and sockets that have a timeout or must fill the buffer
    zg_call_reads,
    zg_call_writes,   // continues for regular files only; for others, the call returns the bytes written so far
    zg_call_connects, // continues unless the socket has a timeout
};
enum zg_call_stop zg_call_when_stopped(long number);
// Whether a receiving call waits until its buffer is full (MSG_WAITALL).
bool zg_call_fills_buffer(long number, const uint64_t arguments[6]);
// Whether the socket has no timeout for sending (`to_send`) or for receiving; a receiving call must also return with
// the first byte (SO_RCVLOWAT).
bool zg_socket_waits_for_ever(int socket, bool to_send);
// Duplicates a descriptor of another process (pidfd_getfd, Linux 5.6). Returns the copy, or -errno.
int zg_socket_of_process(int pid, int descriptor);
// Whether the call waits for new clients (accept) rather than for an answer.
bool zg_call_accepts_clients(long number);
bool zg_call_is_futex(long number);
// Whether this is restart_syscall(2), with which the kernel resumes a stopped wait that has a timeout.
bool zg_call_is_restart(long number);

// Converts registers from the kernel's layout (user_regs_struct), which core files also use. False: too few bytes.
bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]);
// If a stop interrupted a system call, changes the kernel's registers (user_regs_struct) so that the call is restarted
// unless a handler runs. False: nothing to change.
bool zg_thread_restart_call(void *bytes, size_t count);

// Distance in bytes from the stack pointer to the frame pointer of a function, decoded from its first instructions; -1
// if it has no frame pointer, or the code is not understood.
int64_t zg_unwind_prologue_frame_offset(const unsigned char *code, size_t count);

// The address space to unwind: its memory and its images.
struct zg_unwind_source {
    void *context;
    // Returns the number of bytes read.
    size_t (*read)(void *context, uint64_t address, void *to, size_t bytes);
    // Finds the image that contains `pc`: its bounds, and its unwind table (.eh_frame_hdr). False: none.
    bool (*find)(void *context, uint64_t pc, uint64_t *start, uint64_t *end, uint64_t *table);
};

// NULL if libunwind is available; otherwise the reason, as text for the user.
const char *zg_unwind_obstacle(void);
// Unwinds from these registers, innermost frame first. `known` has a bit for each known register, by number. `frames`
// receives code addresses; `is_exact` tells whether each is the instruction itself (first frame, or interrupted by a
// signal) rather than a return address; `sps` (may be NULL) receives each frame's stack pointer. Returns the number of
// frames, at most `most`.
int zg_unwind_stack(const struct zg_unwind_source *source, const uint64_t registers[ZG_THREAD_REGISTERS],
                    uint64_t known, uint64_t *frames, bool *is_exact, uint64_t *sps, int most);

#endif
