// The slow half of the futex mutex (the three-state mutex of Drepper, "Futexes Are Tricky", 2011).
// Slow path only; takes no other lock.

#include "platform/lock.h"

#include "platform/arch.h"
#include "platform/os.h"

enum { ZG_SPINS = 100 };

void zg_lock_wait(struct zg_lock *lock) {
    for (int i = 0; i < ZG_SPINS; i++) {
        if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && zg_lock_try(lock)) return;
        zg_arch_pause();
    }
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0) zg_os_futex_wait(&lock->word, 2, true, -1);
}

void zg_lock_wake(struct zg_lock *lock) { zg_os_futex_wake(&lock->word, 1, true); }
