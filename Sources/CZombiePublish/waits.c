// Interposes poll, select and epoll_wait. With collect=stalls they update the thread's wait heartbeat before and after
// the wait (threads/heartbeat.h); otherwise they tail-call libc's functions.
// Any context, also signal handlers. The functions are cancellation points; they hold no lock while they wait. Waits
// inside libc and inline system calls (liburing) do not pass through here.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published_here; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

#include "images/loader.h"
#include "platform/base.h"
#include "threads/heartbeat.h"

enum { MASK_BYTES = 8 }; // size of the kernel's sigset_t

// Defines one wait function. `file` is the descriptor waited for, or an enum zg_waits_for (zg_heartbeat_wait_ends).
#define ZG_WAIT(symbol, parameters, arguments, file)                                                                   \
    static int(*next_##symbol) parameters;                                                                             \
    __attribute__((constructor(101))) static void find_##symbol(void) {                                                \
        next_##symbol = (int(*) parameters)zg_loader_next(#symbol);                                                    \
    }                                                                                                                  \
    static ZG_NOINLINE int watched_##symbol parameters {                                                               \
        struct zg_heartbeat *heartbeat = zg_heartbeat_wait_begins();                                                   \
        int waits_for = file; /* read before the call: select overwrites its sets */                                   \
        int result = next_##symbol ? next_##symbol arguments : early_##symbol arguments;                               \
        if (heartbeat) zg_heartbeat_wait_ends(heartbeat, waits_for, result);                                           \
        return result;                                                                                                 \
    }                                                                                                                  \
    ZG_PUBLISH int symbol parameters;                                                                                  \
    ZG_PUBLISH int symbol parameters {                                                                                 \
        if (ZG_UNLIKELY(zg_heartbeats != NULL)) ZG_MUST_TAIL return watched_##symbol arguments;                        \
        if (ZG_UNLIKELY(!next_##symbol)) ZG_MUST_TAIL return early_##symbol arguments;                                 \
        ZG_MUST_TAIL return next_##symbol arguments;                                                                   \
    }

// --- poll ------------------------------------------------------------------------------------------------------------

// Passes a copy of the timeout, because the kernel overwrites the timeout with the remaining time.
static ZG_COLD int early_ppoll(struct pollfd *files, nfds_t count, const struct timespec *longest,
                               const sigset_t *mask) {
    struct timespec left = longest ? *longest : (struct timespec){0, 0};
    return (int)ZG_RAW_SYSCALL(SYS_ppoll, files, count, longest ? &left : NULL, mask, MASK_BYTES, 0);
}

static ZG_COLD int early_poll(struct pollfd *files, nfds_t count, int longest) {
    struct timespec time = {longest / 1000, longest % 1000 * 1000000L};
    return early_ppoll(files, count, longest < 0 ? NULL : &time, NULL);
}

static void check(nfds_t count, size_t room) {
    if (room / sizeof(struct pollfd) < count) abort();
}

static ZG_COLD int early___ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *longest,
                                     const sigset_t *mask, size_t room) {
    check(count, room);
    return early_ppoll(files, count, longest, mask);
}

static ZG_COLD int early___poll_chk(struct pollfd *files, nfds_t count, int longest, size_t room) {
    check(count, room);
    return early_poll(files, count, longest);
}

static int poll_target(const struct pollfd *files, nfds_t count, bool may_wait) {
    if (!may_wait || count == 0) return zg_waits_for_nothing;
    return count == 1 && files->fd >= 0 ? files->fd : zg_waits_for_several;
}

static bool is_some(const struct timespec *longest) { return !longest || longest->tv_sec || longest->tv_nsec; }

ZG_WAIT(poll, (struct pollfd * files, nfds_t count, int longest), (files, count, longest),
        poll_target(files, count, longest != 0))
ZG_WAIT(__poll_chk, (struct pollfd * files, nfds_t count, int longest, size_t room), (files, count, longest, room),
        poll_target(files, count, longest != 0))
ZG_WAIT(ppoll, (struct pollfd * files, nfds_t count, const struct timespec *longest, const sigset_t *mask),
        (files, count, longest, mask), poll_target(files, count, is_some(longest)))
ZG_WAIT(__ppoll_chk,
        (struct pollfd * files, nfds_t count, const struct timespec *longest, const sigset_t *mask, size_t room),
        (files, count, longest, mask, room), poll_target(files, count, is_some(longest)))

// --- select ----------------------------------------------------------------------------------------------------------

static int plain_select(int end, fd_set *readable, fd_set *writable, fd_set *special, struct timespec *left,
                        const sigset_t *mask) {
    const struct {
        const sigset_t *mask;
        uint64_t bytes;
    } masked = {mask, MASK_BYTES};
    return (int)ZG_RAW_SYSCALL(SYS_pselect6, end, readable, writable, special, left, &masked);
}

// select returns the remaining time in the caller's timeout, pselect does not.
static ZG_COLD int early_pselect(int end, fd_set *readable, fd_set *writable, fd_set *special,
                                 const struct timespec *longest, const sigset_t *mask) {
    struct timespec left = longest ? *longest : (struct timespec){0, 0};
    return plain_select(end, readable, writable, special, longest ? &left : NULL, mask);
}

static ZG_COLD int early_select(int end, fd_set *readable, fd_set *writable, fd_set *special, struct timeval *longest) {
    struct timespec left = {0, 0};
    if (longest) left = (struct timespec){longest->tv_sec, longest->tv_usec * 1000};
    int result = plain_select(end, readable, writable, special, longest ? &left : NULL, NULL);
    if (longest) *longest = (struct timeval){left.tv_sec, left.tv_nsec / 1000};
    return result;
}

// Returns the only descriptor in the sets, or an enum zg_waits_for. All words are scanned: a single descriptor is
// seldom a small number.
static int select_target(int end, const fd_set *readable, const fd_set *writable, const fd_set *special,
                         bool may_wait) {
    enum { WORD = 8 * sizeof(long) };
    const fd_set *const sets[] = {readable, writable, special};
    int found = zg_waits_for_nothing;
    for (int i = 0; may_wait && i < 3; i++)
        for (int word = 0; sets[i] && word * WORD < end; word++) {
            unsigned long bits = (unsigned long)((const long *)sets[i])[word];
            if (!bits) continue;
            int file = word * WORD + __builtin_ctzl(bits);
            if (bits & (bits - 1) || (found >= 0 && found != file)) return zg_waits_for_several;
            found = file;
        }
    return found;
}

ZG_WAIT(pselect,
        (int end, fd_set *readable, fd_set *writable, fd_set *special, const struct timespec *longest,
         const sigset_t *mask),
        (end, readable, writable, special, longest, mask),
        select_target(end, readable, writable, special, is_some(longest)))
ZG_WAIT(select, (int end, fd_set *readable, fd_set *writable, fd_set *special, struct timeval *longest),
        (end, readable, writable, special, longest),
        select_target(end, readable, writable, special, !longest || longest->tv_sec || longest->tv_usec))

// --- epoll -----------------------------------------------------------------------------------------------------------

static ZG_COLD int early_epoll_pwait(int poll, struct epoll_event *events, int most, int longest,
                                     const sigset_t *mask) {
    return (int)ZG_RAW_SYSCALL(SYS_epoll_pwait, poll, events, most, longest, mask, MASK_BYTES);
}

static ZG_COLD int early_epoll_wait(int poll, struct epoll_event *events, int most, int longest) {
    return early_epoll_pwait(poll, events, most, longest, NULL);
}

static ZG_COLD int early_epoll_pwait2(int poll, struct epoll_event *events, int most, const struct timespec *longest,
                                      const sigset_t *mask) {
    return (int)ZG_RAW_SYSCALL(SYS_epoll_pwait2, poll, events, most, longest, mask, MASK_BYTES);
}

static int some(bool may_wait) { return may_wait ? zg_waits_for_several : zg_waits_for_nothing; }

ZG_WAIT(epoll_wait, (int poll, struct epoll_event *events, int most, int longest), (poll, events, most, longest),
        some(longest != 0))
ZG_WAIT(epoll_pwait, (int poll, struct epoll_event *events, int most, int longest, const sigset_t *mask),
        (poll, events, most, longest, mask), some(longest != 0))
ZG_WAIT(epoll_pwait2,
        (int poll, struct epoll_event *events, int most, const struct timespec *longest, const sigset_t *mask),
        (poll, events, most, longest, mask), some(is_some(longest)))

#endif
