// A thread opens the library late with dlopen and closes it again. Afterwards threads that used it can end, processes
// can fork, and the program's own signal handlers work as before.
// usage: opened_late LIBRARY
// for: run_opened_late

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../Support/work.h"

static const char *path;
static sigjmp_buf back;

static void on_fault(int signal) { siglongjmp(back, signal); }

// Opens the library, allocates and frees blocks with its malloc and free, and closes it. Returns `wrong` on failure.
static void *open_and_close(void *wrong) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*take)(size_t) = library ? (void *(*)(size_t))dlsym(library, "malloc") : NULL;
    void (*give)(void *) = library ? (void (*)(void *))dlsym(library, "free") : NULL;
    if (!take || !give) {
        fprintf(stderr, "FAILED: %s\n", dlerror());
        return wrong;
    }
    for (size_t i = 0; i < 200; i++) give(take(i * 7));
    return dlclose(library) == 0 ? NULL : wrong;
}

int main(int count, char **words) {
    int wrong = count < 2;
    path = words[1];
    signal(SIGSEGV, on_fault);
    for (int i = 0; i < 3 && !wrong; i++) {
        pthread_t thread;
        void *result = &wrong;
        wrong += pthread_create(&thread, NULL, open_and_close, &wrong) != 0;
        wrong += pthread_join(thread, &result) != 0 || result != NULL;
        wrong += work_with_blocks(50);
        int status = -1;
        pid_t child = fork();
        if (child == 0) _exit(work_with_blocks(50) ? 1 : 0);
        wrong += waitpid(child, &status, 0) != child || status != 0;
    }
    if (wrong) fprintf(stderr, "FAILED\n");
    int *volatile nowhere = (int *)8;
    if (!getenv("LD_PRELOAD") && sigsetjmp(back, 1) == 0) *nowhere = 1;
    if (!wrong) puts("works");
    return wrong != 0;
}
