// Handshake of a dying thread with the thread that reports the finding with symbol names. Signal context; no lock, two
// futexes.

#include "faults/namer.h"

#include "platform/os.h"

static uint32_t wanted, was_reported;
// State of the naming thread. Its pid is checked because the child of a fork has no such thread.
static int listener_pid, listener_tid;

bool zg_namer_is_waiting(void) {
    int pid = __atomic_load_n(&listener_pid, __ATOMIC_ACQUIRE);
    return pid && pid == zg_os_pid() && listener_tid != zg_os_tid();
}

// The wait is limited: the naming thread may be blocked by a lock that the dying thread holds, or by a thread that
// waits for the dying thread.
bool zg_namer_request(void) {
    const int64_t longest = INT64_C(10000000000), step = 100000000;
    if (!zg_namer_is_waiting()) return false;
    __atomic_store_n(&wanted, 1, __ATOMIC_RELEASE);
    for (int64_t waited = 0; waited < longest && !__atomic_load_n(&was_reported, __ATOMIC_ACQUIRE); waited += step) {
        zg_os_futex_wake(&wanted, 1, true); // repeated, because a call may fail
        zg_os_futex_wait(&was_reported, 0, true, step);
    }
    return __atomic_load_n(&was_reported, __ATOMIC_ACQUIRE);
}

void zg_namer_await(void) {
    listener_tid = zg_os_tid();
    __atomic_store_n(&listener_pid, zg_os_pid(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&wanted, __ATOMIC_ACQUIRE)) zg_os_futex_wait(&wanted, 0, true, -1);
}

void zg_namer_done(void) {
    __atomic_store_n(&was_reported, 1, __ATOMIC_RELEASE);
    zg_os_futex_wake(&was_reported, 1, true);
}
