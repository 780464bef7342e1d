// While a program forks, a thread keeps faulting on its own page, which its handler opens; each child faults once, too.
// libs: -lpthread

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int stop;

static void open_page(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

static void close_and_touch(volatile char *page) {
    mprotect((void *)page, 4096, PROT_NONE);
    *page = 1;
}

static void *touch(void *page) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) close_and_touch(page);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, touch, pages);
    int good = 0;
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();
        if (!pid) {
            close_and_touch(pages + 4096);
            _exit(3);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("%d children\n", good);
    return 0;
}
