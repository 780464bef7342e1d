// The slow part of the futex mutex (the three-state mutex of Drepper, "Futexes Are Tricky", 2011).
// Slow path only; takes no other lock.

#define _GNU_SOURCE
#include "platform/lock.h"

#include <time.h>

#include "platform/arch.h"
#include "platform/os.h"

enum { ZG_SPINS = 100 };
// Longest sleep: if a seccomp filter refuses the wake-up call, the waiter still finds the lock free.
#define LONGEST_SLEEP_NS 100000000

void zg_lock_wait(struct zg_lock *lock) {
    for (int i = 0; i < ZG_SPINS; i++) {
        if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && zg_lock_try(lock)) return;
        zg_arch_pause();
    }
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        zg_os_futex_wait(&lock->word, 2, true, LONGEST_SLEEP_NS);
}

bool zg_lock_take_within(struct zg_lock *lock, int64_t ns) {
    uint64_t end = zg_os_clock_ns(CLOCK_MONOTONIC) + (uint64_t)ns;
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES);
    if (zg_lock_try(lock)) return true;
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0) {
        int64_t left = (int64_t)(end - zg_os_clock_ns(CLOCK_MONOTONIC));
        if (left <= 0) return false;
        zg_os_futex_wait(&lock->word, 2, true, left < LONGEST_SLEEP_NS ? left : LONGEST_SLEEP_NS);
    }
    return true;
}

void zg_lock_wake(struct zg_lock *lock) { zg_os_futex_wake(&lock->word, 1, true); }
