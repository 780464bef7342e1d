// Interposes read, write, send, recv and the other system calls with buffers: checks the buffers, calls libc's
// function, and checks the result. Calls inside libc (stdio) do not pass through here.
// Any context, also signal handlers. libc's functions are looked up before main: dlsym takes the loader's lock. All are
// cancellation points: a cancelled thread is unwound through the frame here, which holds no lock.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published_here; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "entry/calls.h"
#include "faults/crash.h"
#include "findings/last_text.h"
#include "images/loader.h"
#include "platform/arch.h"

#ifdef __GLIBC__
// glibc declares addresses of sockets as transparent unions.
#define ADDRESS __SOCKADDR_ARG
#define CONST_ADDRESS __CONST_SOCKADDR_ARG
#define SOCKADDR(address) (address).__sockaddr__
#define ZG_FOR_LARGE_FILES(...) __VA_ARGS__
#else
#define ADDRESS struct sockaddr *restrict
#define CONST_ADDRESS const struct sockaddr *
#define SOCKADDR(address) (address)
#define ZG_FOR_LARGE_FILES(...) // musl's headers define pread64 and similar names as macros
#endif

#define ZG_KERNEL_READS false
#define ZG_KERNEL_WRITES true

// Aborts, like a fortified function of libc (_FORTIFY_SOURCE), if the buffer's size `room` is less than `bytes`.
static size_t check_fortified(size_t bytes, size_t room) {
    if (bytes > room) abort();
    return bytes;
}

#define ZG_LIBC(symbol, shown, kernel, parameters, arguments, plainly)                                                 \
    static const struct zg_call call_##symbol = {shown, kernel};                                                       \
    static ssize_t(*next_##symbol) parameters;                                                                         \
    __attribute__((constructor(101))) static void find_##symbol(void) {                                                \
        next_##symbol = (ssize_t(*) parameters)zg_loader_next(#symbol);                                                \
    }                                                                                                                  \
    static ZG_COLD ssize_t early_##symbol parameters { return plainly; }                                               \
    ZG_INLINE ssize_t go_##symbol parameters {                                                                         \
        return ZG_LIKELY(next_##symbol != NULL) ? next_##symbol arguments : early_##symbol arguments;                  \
    }

// Defines a call that is checked unless the expression `passes` is true.
#define ZG_CALL(symbol, shown, kernel, parameters, arguments, plainly, passes, begin)                                  \
    ZG_LIBC(symbol, shown, kernel, parameters, arguments, plainly)                                                     \
    ZG_PUBLISH ssize_t symbol parameters;                                                                              \
    ZG_PUBLISH ssize_t symbol parameters {                                                                             \
        const struct zg_call *call = &call_##symbol;                                                                   \
        const uint64_t *frame = ZG_FRAME;                                                                              \
        struct zg_call_watch watch;                                                                                    \
        if (passes) return go_##symbol arguments;                                                                      \
        begin;                                                                                                         \
        ssize_t result = go_##symbol arguments;                                                                        \
        zg_call_end(call, &watch, result, frame);                                                                      \
        ZG_NO_TAIL_CALL(result);                                                                                       \
        return result;                                                                                                 \
    }

// Defines a call with one buffer. Two comparisons show that a buffer lies outside the guarded heap, as most do. A
// buffer that lies completely in a small live block needs no second check if the kernel only reads it. These two cases
// avoid an extra frame, because returns are mispredicted after a system call, and each misprediction costs as much as
// the checks.
#define ZG_OPEN(...) __VA_ARGS__
#define ZG_BUFFER_CALL(symbol, shown, kernel, parameters, arguments, plainly, buffer, bytes, passes)                   \
    ZG_LIBC(symbol, shown, kernel, parameters, arguments, plainly)                                                     \
    static ZG_NOINLINE ssize_t watched_##symbol(ZG_OPEN parameters, const uint64_t *frame) {                           \
        struct zg_call_watch watch;                                                                                    \
        zg_call_begin(&call_##symbol, buffer, bytes, frame, &watch);                                                   \
        ssize_t result = go_##symbol arguments;                                                                        \
        zg_call_end(&call_##symbol, &watch, result, frame);                                                            \
        return result;                                                                                                 \
    }                                                                                                                  \
    ZG_PUBLISH ssize_t symbol parameters;                                                                              \
    ZG_PUBLISH ssize_t symbol parameters {                                                                             \
        if (ZG_LIKELY(!zg_lookup_is_in_heap((uint64_t)(buffer))) || (passes)) return go_##symbol arguments;            \
        const struct zg_block *block = zg_call_fits((uint64_t)(buffer), bytes);                                        \
        if (block && !kernel) return go_##symbol arguments;                                                            \
        ssize_t result =                                                                                               \
            ZG_LIKELY(block != NULL) ? go_##symbol arguments : watched_##symbol(ZG_OPEN arguments, ZG_FRAME);          \
        if (ZG_UNLIKELY(block && result > 0 && !zg_call_is_live(block)))                                               \
            zg_call_freed_meanwhile(&call_##symbol, buffer, result, ZG_FRAME);                                         \
        ZG_NO_TAIL_CALL(result);                                                                                       \
        return result;                                                                                                 \
    }

// --- files -----------------------------------------------------------------------------------------------------------

ZG_BUFFER_CALL(read, "read", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes), (file, buffer, bytes),
               ZG_RAW_SYSCALL(SYS_read, file, buffer, bytes, 0, 0, 0), buffer, bytes, false)
ZG_BUFFER_CALL(__read_chk, "read", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes, size_t room),
               (file, buffer, bytes, room),
               ZG_RAW_SYSCALL(SYS_read, file, buffer, check_fortified(bytes, room), 0, 0, 0), buffer, bytes, false)
ZG_BUFFER_CALL(write, "write", ZG_KERNEL_READS, (int file, const void *buffer, size_t bytes), (file, buffer, bytes),
               ZG_RAW_SYSCALL(SYS_write, file, buffer, bytes, 0, 0, 0), buffer, bytes, false)

// With collect=crashes, keeps the last text written to standard error for the crash report. Without it, write is
// unchanged.
static ssize_t (*plain_write)(int file, const void *buffer, size_t bytes);
static ssize_t recording_write(int file, const void *buffer, size_t bytes) {
    if (file == STDERR_FILENO) zg_last_text_note(buffer, bytes);
    return plain_write(file, buffer, bytes);
}
__attribute__((constructor(102))) static void note_writes(void) {
    if (!zg_crash_is_wanted() || !next_write) return;
    plain_write = next_write;
    next_write = recording_write;
}

#define ZG_PREAD(symbol, type)                                                                                         \
    ZG_BUFFER_CALL(symbol, "pread", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes, type at),                 \
                   (file, buffer, bytes, at), ZG_RAW_SYSCALL(SYS_pread64, file, buffer, bytes, at, 0, 0), buffer,      \
                   bytes, false)
#define ZG_PREAD_CHK(symbol, type)                                                                                     \
    ZG_BUFFER_CALL(symbol, "pread", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes, type at, size_t room),    \
                   (file, buffer, bytes, at, room),                                                                    \
                   ZG_RAW_SYSCALL(SYS_pread64, file, buffer, check_fortified(bytes, room), at, 0, 0), buffer, bytes,   \
                   false)
#define ZG_PWRITE(symbol, type)                                                                                        \
    ZG_BUFFER_CALL(symbol, "pwrite", ZG_KERNEL_READS, (int file, const void *buffer, size_t bytes, type at),           \
                   (file, buffer, bytes, at), ZG_RAW_SYSCALL(SYS_pwrite64, file, buffer, bytes, at, 0, 0), buffer,     \
                   bytes, false)
ZG_PREAD(pread, off_t)
ZG_FOR_LARGE_FILES(ZG_PREAD(pread64, off64_t))
ZG_PREAD_CHK(__pread_chk, off_t)
ZG_FOR_LARGE_FILES(ZG_PREAD_CHK(__pread64_chk, off64_t))
ZG_PWRITE(pwrite, off_t)
ZG_FOR_LARGE_FILES(ZG_PWRITE(pwrite64, off64_t))

#define ZG_VECTOR_CALL(symbol, shown, kernel, number)                                                                  \
    ZG_CALL(symbol, shown, kernel, (int file, const struct iovec *vectors, int count), (file, vectors, count),         \
            ZG_RAW_SYSCALL(number, file, vectors, count, 0, 0, 0), false,                                              \
            zg_call_begin_vectors(call, vectors, count, frame, &watch))
#define ZG_VECTOR_CALL_AT(symbol, shown, kernel, number, type)                                                         \
    ZG_CALL(symbol, shown, kernel, (int file, const struct iovec *vectors, int count, type at),                        \
            (file, vectors, count, at), ZG_RAW_SYSCALL(number, file, vectors, count, at, 0, 0), false,                 \
            zg_call_begin_vectors(call, vectors, count, frame, &watch))
ZG_VECTOR_CALL(readv, "readv", ZG_KERNEL_WRITES, SYS_readv)
ZG_VECTOR_CALL(writev, "writev", ZG_KERNEL_READS, SYS_writev)
ZG_VECTOR_CALL_AT(preadv, "preadv", ZG_KERNEL_WRITES, SYS_preadv, off_t)
ZG_FOR_LARGE_FILES(ZG_VECTOR_CALL_AT(preadv64, "preadv", ZG_KERNEL_WRITES, SYS_preadv, off64_t))
ZG_VECTOR_CALL_AT(pwritev, "pwritev", ZG_KERNEL_READS, SYS_pwritev, off_t)
ZG_FOR_LARGE_FILES(ZG_VECTOR_CALL_AT(pwritev64, "pwritev", ZG_KERNEL_READS, SYS_pwritev, off64_t))

// --- sockets ---------------------------------------------------------------------------------------------------------
// Receives with MSG_TRUNC are not checked: the result is the packet's length instead of the bytes stored, and a stream
// socket stores nothing.

ZG_BUFFER_CALL(send, "send", ZG_KERNEL_READS, (int file, const void *buffer, size_t bytes, int flags),
               (file, buffer, bytes, flags), ZG_RAW_SYSCALL(SYS_sendto, file, buffer, bytes, flags, 0, 0), buffer,
               bytes, false)
ZG_BUFFER_CALL(recv, "recv", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes, int flags),
               (file, buffer, bytes, flags), ZG_RAW_SYSCALL(SYS_recvfrom, file, buffer, bytes, flags, 0, 0), buffer,
               bytes, flags &MSG_TRUNC)
ZG_BUFFER_CALL(__recv_chk, "recv", ZG_KERNEL_WRITES, (int file, void *buffer, size_t bytes, size_t room, int flags),
               (file, buffer, bytes, room, flags),
               ZG_RAW_SYSCALL(SYS_recvfrom, file, buffer, check_fortified(bytes, room), flags, 0, 0), buffer, bytes,
               flags &MSG_TRUNC)

ZG_CALL(sendto, "sendto", ZG_KERNEL_READS,
        (int file, const void *buffer, size_t bytes, int flags, CONST_ADDRESS to, socklen_t to_bytes),
        (file, buffer, bytes, flags, to, to_bytes),
        ZG_RAW_SYSCALL(SYS_sendto, file, buffer, bytes, flags, SOCKADDR(to), to_bytes),
        !zg_lookup_is_in_heap((uint64_t)buffer) && !zg_lookup_is_in_heap((uint64_t)SOCKADDR(to)),
        zg_call_also_reads(call, SOCKADDR(to), to_bytes, frame);
        zg_call_begin(call, buffer, bytes, frame, &watch))

ZG_BUFFER_CALL(recvfrom, "recvfrom", ZG_KERNEL_WRITES,
               (int file, void *buffer, size_t bytes, int flags, ADDRESS from, socklen_t *from_bytes),
               (file, buffer, bytes, flags, from, from_bytes),
               ZG_RAW_SYSCALL(SYS_recvfrom, file, buffer, bytes, flags, SOCKADDR(from), from_bytes), buffer, bytes,
               flags &MSG_TRUNC)
ZG_BUFFER_CALL(__recvfrom_chk, "recvfrom", ZG_KERNEL_WRITES,
               (int file, void *buffer, size_t bytes, size_t room, int flags, ADDRESS from, socklen_t *from_bytes),
               (file, buffer, bytes, room, flags, from, from_bytes),
               ZG_RAW_SYSCALL(SYS_recvfrom, file, buffer, check_fortified(bytes, room), flags, SOCKADDR(from),
                              from_bytes),
               buffer, bytes, flags &MSG_TRUNC)

#define ZG_MESSAGE_CALL(symbol, kernel, number, type, or_else)                                                         \
    ZG_CALL(symbol, #symbol, kernel, (int file, type *message, int flags), (file, message, flags),                     \
            ZG_RAW_SYSCALL(number, file, message, flags, 0, 0, 0), or_else,                                            \
            zg_call_begin_message(call, message, frame, &watch))
ZG_MESSAGE_CALL(sendmsg, ZG_KERNEL_READS, SYS_sendmsg, const struct msghdr, false)
ZG_MESSAGE_CALL(recvmsg, ZG_KERNEL_WRITES, SYS_recvmsg, struct msghdr, flags &MSG_TRUNC)

#endif
