// fork while other threads allocate: the child can allocate, free, and start threads; also vfork, exec and posix_spawn.
// slow
// preload
// control

#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>

#include "life.h"

extern char **environ;
static int stop;

static void *churn(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) work_with_blocks(300);
    return NULL;
}

static void *work_once(void *result) {
    *(int *)result = work_with_blocks(500);
    return NULL;
}

static void *fork_from_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        void *held = malloc(500 + (size_t)i);
        pid_t child = fork();
        if (child == 0) {
            free(held);
            int result = work_with_blocks(300);
            if (i % 20 == 0) {
                pthread_t thread;
                int other = 1;
                if (pthread_create(&thread, NULL, work_once, &other) == 0) pthread_join(thread, NULL);
                result |= other;
            }
            if (i % 20 == 1) { // forks a grandchild
                pid_t grandchild = fork();
                if (grandchild == 0) _exit(work_with_blocks(100));
                result |= life_wait(grandchild);
            }
            // Every fourth child runs libc's exit handlers as well.
            if (i % 4 == 0) exit(result);
            _exit(result);
        }
        CHECK_EQUAL(life_wait(child), 0, "a child of a threaded process allocates and frees");
        free(held);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count > 1) return strcmp(words[1], "work") == 0 ? work_with_blocks(2000) : 3;
    pthread_t threads[2], forking;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, churn, NULL);
    pthread_create(&forking, NULL, fork_from_thread, NULL);
    pthread_join(forking, NULL);
    char *arguments[] = {"self", "work", NULL};
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execv("/proc/self/exe", arguments);
            _exit(254);
        }
        CHECK_EQUAL(life_wait(child), 0, "vfork and exec of a guarded program");
        CHECK_EQUAL(work_with_blocks(200), 0, "the parent of a vfork goes on");
        CHECK_EQUAL(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0, "posix_spawn succeeds");
        CHECK_EQUAL(life_wait(child), 0, "posix_spawn of a guarded program");
    }
    CHECK_EQUAL(system("exit 7") >> 8, 7, "system runs a shell");
    FILE *pipe = popen("echo through a pipe", "r");
    char line[64] = "";
    CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "through a pipe\n") == 0, "popen reads from a shell");
    if (pipe) pclose(pipe);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    // Nested forks: each child allocates, and forks the next child.
    for (int depth = 0; depth < 30; depth++) {
        pid_t child = fork();
        if (child) {
            int result = life_wait(child);
            if (depth) _exit(result);
            CHECK_EQUAL(result, 0, "thirty generations of forks");
            break;
        }
        if (work_with_blocks(50)) _exit(1);
        if (depth == 29) _exit(0);
    }
    return check_end();
}
