// Scenarios of child processes (fork, vfork, posix_spawn, clone) and of exec.

#include "scenario.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/sched.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/prctl.h>

extern char **environ;

static void *end_at_once(void *unused) { return unused; }
static void *make_threads(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&all_over, __ATOMIC_RELAXED)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, end_at_once, malloc(30)) == 0) {
            void *block = NULL;
            pthread_join(thread, &block);
            free(block);
        }
    }
    return NULL;
}
static void *load_libraries(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&all_over, __ATOMIC_RELAXED)) {
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        if (library) dlclose(library);
    }
    return NULL;
}

static void *work_in_thread(void *rounds) { return (void *)(uint64_t)work_with_blocks((int)(uint64_t)rounds); }

enum { THREADS = 2 };
static pthread_t busy[THREADS];
// libc's fork does not reset the loader's locks. A child that was forked while a thread loaded libraries must not load
// libraries, start threads, or call exit.
static bool loads;
static void start_busy_threads(void) {
    void *(*const what[THREADS])(void *) = {churn, loads ? load_libraries : make_threads};
    for (int i = 0; i < THREADS; i++) MUST(pthread_create(&busy[i], NULL, what[i], NULL) == 0, "a thread starts");
}
static void end_busy_threads(void) {
    __atomic_store_n(&all_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(busy[i], NULL);
}

static void storm(void) {
    start_busy_threads();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            int wrong = work_with_blocks(100);
            if (i % 8 == 1 && !loads) {
                pthread_t thread;
                void *result = (void *)1;
                if (pthread_create(&thread, NULL, work_in_thread, (void *)100) == 0) pthread_join(thread, &result);
                wrong |= result != NULL;
            }
            if (i % 8 == 2 && !loads) {
                void *library = dlopen("libresolv.so.2", RTLD_NOW);
                wrong |= !library || dlclose(library);
            }
            if (i % 10 == 3 && !wrong) plant();
            if (i % 4 == 0 && !loads) exit(wrong);
            _exit(wrong);
        }
        int status = status_of(child);
        MUST(i % 10 == 3 ? planted_well(status) : status == 0, "a child of a storm of forks ends well");
    }
    end_busy_threads();
}

static void storm_with_loader(void) {
    loads = true;
    storm();
}

// Each process of the chain starts a thread and then forks the next process, in which that thread does not exist.
static void generations(void) {
    for (int depth = 0; depth < 8; depth++) {
        pthread_t thread;
        all_over = 0;
        MUST(pthread_create(&thread, NULL, churn, NULL) == 0, "a thread starts in a child");
        pid_t child = fork();
        if (child) {
            int status = status_of(child);
            __atomic_store_n(&all_over, 1, __ATOMIC_RELAXED);
            pthread_join(thread, NULL);
            if (depth == 0) {
                MUST(planted_well(status), "the last of eight generations ends as it should");
                return;
            }
            // Pass on the status of the youngest process.
            if (WIFSIGNALED(status)) {
                signal(WTERMSIG(status), SIG_DFL);
                raise(WTERMSIG(status));
            }
            _exit(status != 0);
        }
        if (work_with_blocks(100)) _exit(1);
    }
    plant();
    _exit(0);
}

static void *plant_in_thread(void *unused) {
    plant();
    return unused;
}

static void long_lived(void) {
    start_busy_threads();
    pid_t child = fork();
    if (child == 0) {
        // The runtime still lists the parent's threads, which do not exist in the child. New threads replace them.
        all_over = 0;
        start_busy_threads();
        for (int i = 0; i < 20; i++)
            if (work_with_blocks(500)) _exit(1);
        end_busy_threads();
        pthread_t thread;
        pthread_create(&thread, NULL, plant_in_thread, NULL);
        pthread_join(thread, NULL);
        exit(0);
    }
    MUST(planted_well(status_of(child)), "a child that goes on for long ends as it should");
    end_busy_threads();
}

static void only_exit(void) {
    start_busy_threads();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) _exit(7);
        int status = status_of(child);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child that only ends");
    }
    end_busy_threads();
}

// Each depth gives another stack, and so another finding: the runtime writes lines to the report all the time.
static NOINLINE void bug_at_depth(int depth) {
    volatile char room[32];
    room[depth % 32] = 1;
    if (depth) bug_at_depth(depth - 1);
    else plant();
    __asm__ volatile("" ::"r"(room[depth % 32]) : "memory");
}
static void *find_bugs(void *unused) {
    (void)unused;
    for (int i = 0; i < 25 && mode == goes_on; i++) bug_at_depth(i);
    return NULL;
}
static void *fork_with_bugs(void *unused) {
    (void)unused;
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (child == 0) {
            bug_at_depth(i + 40);
            _exit(0);
        }
        MUST(planted_well(status_of(child)), "a child with a bug, while others report theirs");
    }
    return NULL;
}
static void while_reporting(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i < 2 ? fork_with_bugs : find_bugs, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static int thread_count(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) count++;
    if (tasks) closedir(tasks);
    return count - 2;
}

// With a small `pressure_thread_bytes` the runtime's maintenance thread works while this thread forks.
static void while_maintained(void) {
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(3000), 1, 3000);
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        if (thread_count() > 1) break;
    }
    MUST(mode == plain || thread_count() > 1, "there is a thread that watches for short memory");
    for (int i = 0; i < 24; i++) {
        for (int j = 0; j < BLOCKS; j++) memset(blocks[j] = malloc(3000), 1, 3000);
        for (int j = 0; j < BLOCKS; j++) free(blocks[j]);
        pid_t child = fork();
        if (child == 0) {
            int wrong = work_with_blocks(200);
            if (i % 10 == 5 && !wrong) plant();
            _exit(wrong);
        }
        int status = status_of(child);
        MUST(i % 10 == 5 ? planted_well(status) : status == 0, "a child of a process with the runtime's thread");
    }
}

// A bare clone bypasses libc's fork: the child's blocks are guarded, but its faults are not reported.
static void bare_clone(void) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        int wrong = work_with_blocks(500);
        if (!wrong && mode == dies) plant();
        _exit(wrong);
    }
    MUST(mode == goes_on ? status_of(child) == 0 : planted_well(status_of(child)), "a child of a bare clone");
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) _exit(work_with_blocks(500));
    MUST(status_of(child) == 0, "a child of a bare clone3");
    child = _Fork();
    if (child == 0) _exit(work_with_blocks(500));
    MUST(status_of(child) == 0, "a child of _Fork");
    MUST(work_with_blocks(500) == 0, "their parent works");
}

static char clone_stack[64 << 10] __attribute__((aligned(64)));
static int clone_exec(void *scenario) {
    run_self(scenario);
    return 1;
}
static int clone_end(void *unused) {
    (void)unused;
    return 9;
}
static void clone_with_memory(void) {
    for (int i = 0; i < 5; i++) {
        pid_t child = clone(clone_end, clone_stack + sizeof clone_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        int status = status_of(child);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 9, "a child in the same memory ends");
        child = clone(clone_exec, clone_stack + sizeof clone_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, "started");
        MUST(planted_well(status_of(child)), "a child in the same memory starts a program");
    }
}

static void started(void) { MUST(work_with_blocks(50) == 0, "a started program works"); }

static sigjmp_buf back;
static void go_back(int number) { siglongjmp(back, number); }

// A child of vfork changes signal dispositions for itself only, as shells do before each exec.
static void vforks(void) {
    struct sigaction action = {.sa_handler = go_back, .sa_flags = SA_NODEFER}, found;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    for (volatile int i = 0; i < 4; i++) {
        pid_t child = vfork();
        if (child == 0) {
            for (int number = 1; number < 32; number++) signal(number, i % 2 ? SIG_IGN : SIG_DFL);
            sigaction(SIGSEGV, NULL, &found);
            if (found.sa_handler != (i % 2 ? SIG_IGN : SIG_DFL)) _exit(5);
            if (i < 2) run_self("started");
            _exit(i);
        }
        int status = status_of(child);
        MUST(i < 2 ? planted_well(status) : WIFEXITED(status) && WEXITSTATUS(status) == i, "a child of vfork");
        sigaction(SIGSEGV, NULL, &found);
        MUST(found.sa_handler == go_back, "the parent's handler is still there");
        int number = sigsetjmp(back, 1);
        if (!number) *(volatile char *)8 = 1;
        MUST(number == SIGSEGV, "and is called");
    }
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static void spawns(void) {
    char *arguments[] = {"self", "started", (char *)mode_word, NULL};
    for (int i = 0; i < 3; i++) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, 5, 1000);
        posix_spawn_file_actions_adddup2(&actions, 5, 1001);
        posix_spawn_file_actions_addclosefrom_np(&actions, 3);
        posix_spawnattr_init(&attributes);
        sigset_t all;
        sigfillset(&all);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes,
                                 POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP | (i == 2 ? POSIX_SPAWN_SETSID : 0));
        pid_t child;
        if (i == 2) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
        int failure = posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments, environ);
        MUST(failure == 0, "posix_spawn starts a program");
        if (!failure) MUST(planted_well(status_of(child)), "a spawned program ends as it should");
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
}

static void results_of(const char *what, long result) { say("%s: %s", what, result == 0 ? "done" : strerror(errno)); }
static void namespaces(void) {
    results_of("unshare files", unshare(CLONE_FILES | CLONE_FS));
    results_of("unshare users", unshare(CLONE_NEWUSER));
    results_of("unshare mounts", unshare(CLONE_NEWNS));
    int names = open("/proc/self/ns/uts", O_RDONLY);
    results_of("unshare names", unshare(CLONE_NEWUTS));
    results_of("setns", setns(names, CLONE_NEWUTS));
    close(names);
    results_of("unshare processes", unshare(CLONE_NEWPID));
    pid_t child = fork();
    if (child == 0) {
        int wrong = work_with_blocks(50);
        plant();
        _exit(wrong);
    }
    MUST(planted_well(status_of(child)), "the first process of a new namespace");
    MUST(work_with_blocks(200) == 0, "works in new namespaces");
}

// A prepare handler registered before those of all libraries runs after theirs, when their locks are already held.
static int fork_waits, fork_has_begun;
static void wait_in_fork(void) {
    if (!__atomic_load_n(&fork_waits, __ATOMIC_ACQUIRE)) return;
    __atomic_store_n(&fork_has_begun, 1, __ATOMIC_RELEASE);
    usleep(300000);
}
static void register_early(void) { pthread_atfork(wait_in_fork, NULL, NULL); }
__attribute__((section(".preinit_array"), used)) static void (*const before_all_libraries)(void) = register_early;

static void *fork_once(void *unused) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    return unused;
}
// The program ends while one of its threads is inside fork.
static void end_inside_fork(void) {
    pthread_t thread;
    __atomic_store_n(&fork_waits, 1, __ATOMIC_RELEASE);
    MUST(pthread_create(&thread, NULL, fork_once, NULL) == 0, "a thread starts");
    while (!__atomic_load_n(&fork_has_begun, __ATOMIC_ACQUIRE)) usleep(1000);
}

// --- exec ------------------------------------------------------------------------------------------------------------

static void say_descriptors(void) {
    int count = 0;
    for (int i = 0; i < 4096; i++) count += fcntl(i, F_GETFD) >= 0 && !(fcntl(i, F_GETFD) & FD_CLOEXEC);
    say("%d descriptors for the next program", count);
}

// An environment variable counts the programs of the chain. Each prints how many descriptors the next one inherits.
static void chain(void) {
    const char *so_far = getenv("LIFE_CHAIN");
    int step = so_far ? atoi(so_far) : 0;
    say_descriptors();
    MUST(work_with_blocks(20) == 0, "a program of the chain works");
    if (step == 20) return;
    char number[16];
    snprintf(number, sizeof number, "%d", step + 1);
    setenv("LIFE_CHAIN", number, 1);
    char *arguments[] = {"self", "chain", (char *)mode_word, NULL};
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    switch (step % 4) {
    case 0: execve("/proc/self/exe", arguments, environ); break;
    case 1: fexecve(self, arguments, environ); break;
    case 2: syscall(SYS_execveat, self, "", arguments, environ, 0x1000 /* AT_EMPTY_PATH */); break;
    case 3: {
        char script[4200], path[4096];
        ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
        path[bytes > 0 ? bytes : 0] = 0;
        snprintf(script, sizeof script, "exec '%s' chain %s", path, mode_word);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        break;
    }
    }
    MUST(0, "exec does not return");
}

static void chain_from_thread_body(void) {
    char *arguments[] = {"self", "started", (char *)mode_word, NULL};
    execve("/proc/self/exe", arguments, environ);
}
static void *exec_in_thread(void *unused) {
    chain_from_thread_body();
    return unused;
}
// A thread other than the main one calls exec, which ends all other threads.
static void exec_from_thread(void) {
    start_busy_threads();
    pthread_t thread;
    pthread_create(&thread, NULL, exec_in_thread, NULL);
    pthread_join(thread, NULL);
}

const struct scenario scenarios[] = {
    {"storm", storm, "findings=3"},
    {"storm-with-loader", storm_with_loader, "findings=3"},
    {"generations", generations, "findings=2"},
    {"long-lived", long_lived, "findings=2"},
    {"only-exit", only_exit, ""},
    {"while-reporting", while_reporting, "findings=25"},
    {"while-maintained", while_maintained, "findings=3 modes=plain,guard,continue options=pressure_thread_bytes=1m"},
    {"bare-clone", bare_clone, ""},
    {"clone-with-memory", clone_with_memory, "findings=6"},
    {"started", started, ""},
    {"vforks", vforks, "findings=3"},
    {"spawns", spawns, "findings=4"},
    {"namespaces", namespaces, "findings=2"},
    {"chain", chain, ""},
    {"exec-from-thread", exec_from_thread, ""},
    {"end-inside-fork", end_inside_fork, ""},
    {NULL, NULL, NULL},
};
