// Allocates, frees and reports a finding while another thread holds the loader's lock in dl_iterate_phdr.
// preload
// options: find_object=0:on_finding=continue:report_path=/dev/null

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

static int is_done, is_held;

static int hold(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info, (void)size, (void)context;
    __atomic_store_n(&is_held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&is_done, __ATOMIC_ACQUIRE)) usleep(100);
    return 1;
}

static void *hold_lock(void *unused) {
    dl_iterate_phdr(hold, NULL);
    return unused;
}

// Allocates below frames whose return addresses have no cached unwind rule.
__attribute__((noinline)) static void *from_new_place(int depth) {
    void *block = depth ? from_new_place(depth - 1) : malloc(40);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, hold_lock, NULL);
    while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) usleep(100);
    void *block = from_new_place(20);
    free(block);
    free(block);
    __atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK(block, "nobody waits for the loader");
    return check_end();
}
