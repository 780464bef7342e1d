// A shop whose releases have different bugs, one per worker process. RELEASE is 10 (release 1.10) or 11.
// Release 1.10 reads a dropped cart and frees a voucher twice. Release 1.11 still does both, and frees a label twice.

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile kept;

static __attribute__((noinline)) int read_dropped_cart(void) {
    kept = malloc(48);
    free(kept);
    return kept[8];
}

static __attribute__((noinline)) int free_voucher_twice(void) {
    kept = malloc(80);
    free(kept);
    free(kept);
    return 0;
}

#if RELEASE >= 11
static __attribute__((noinline)) int drop_label_twice(void) {
    kept = malloc(24);
    free(kept);
    free(kept);
    return 0;
}
#endif

static void work(int (*order)(void)) {
    pid_t worker = fork();
    if (worker == 0) {
        _exit(order() & 1);
    }
    waitpid(worker, NULL, 0);
}

int main(void) {
    work(read_dropped_cart);
    work(free_voucher_twice);
#if RELEASE >= 11
    work(drop_label_twice);
#endif
    return 0;
}
