// Threads at work, and a fault at a random moment in a random thread: at any instruction of the program, libc or the
// library.
// usage: storm WHAT WORK HANDLER SEED
//   WHAT  sent     a thread gets SIGSEGV
//         page     a data page outside the guarded heap becomes inaccessible
//         heap     any writable page except stacks becomes inaccessible
//         code     a page of code becomes inaccessible
//         scribble random bytes overwrite some memory
//         trace    a tracer writes garbage into the instruction pointer, the stack pointer or another register of
//                  threads; the guarded process is then the tracer's child, with the library that GUARD names
//         touch    all threads use freed memory at the same time
//   WORK  heap (malloc, free, realloc), reports (continuous findings), forks
// Exit status: 0 no thread faulted, 77 the program's handler ended it, 60 to 64 or 127 a system call or usage error.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "stacks.h"

enum { THREADS = 3, BLOCKS = 64, MOST_MAPPINGS = 400, AFTERWARDS_MS = 60, LONGEST_DELAY_US = 8000 };

static const char *what, *work, *handler;
static uint64_t chance;
static pthread_t threads[THREADS];
static pthread_barrier_t barrier;
static volatile uint64_t sink;
static volatile bool touches;

static bool is(const char *word, const char *name) { return strcmp(word, name) == 0; }

static uint64_t next_of(uint64_t *state, uint64_t below) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}
static uint64_t next(uint64_t below) { return next_of(&chance, below); }

static void sleep_us(uint64_t us) {
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static void use_heap(uint64_t *state, char **blocks) {
    char **block = &blocks[next_of(state, BLOCKS)];
    size_t bytes = (size_t)1 << next_of(state, 18);
    switch (next_of(state, 4)) {
    case 0: free(*block), *block = NULL; break;
    case 1: *block = realloc(*block, bytes); break;
    case 2: free(*block), *block = calloc(1, bytes); break;
    default: free(*block), *block = malloc(bytes); break;
    }
    if (*block) (*block)[0] = 1;
}

static void *worker(void *number) {
    char *blocks[BLOCKS] = {0};
    uint64_t state = chance + (uint64_t)(intptr_t)number * 977;
    pthread_barrier_wait(&barrier);
    for (;;) {
        if (is(work, "reports")) free_twice((uint32_t)next_of(&state, 1 << STACK_BITS));
        else use_heap(&state, blocks);
        if (touches) {
            uint64_t *volatile block = malloc(40 + next_of(&state, 4) * 16);
            free(block);
            block[1] = 1;
        }
    }
    return NULL;
}

static void on_signal(int signal) {
    (void)signal;
    _exit(77);
}

struct mapping {
    uint64_t low, high;
};

// Returns a random page of the mappings in /proc/self/maps with these permissions; never a stack.
static uint64_t find_place(const char *permissions, bool anywhere) {
    static struct mapping mappings[MOST_MAPPINGS];
    static char text[1 << 18];
    int file = open("/proc/self/maps", 0), count = 0;
    size_t length = 0;
    for (ssize_t got; length < sizeof text - 1 && (got = read(file, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = 0;
    close(file);
    uint64_t here = (uint64_t)&file;
    for (char *line = text; line && *line && count < MOST_MAPPINGS;
         line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        char *end = strchr(line, '\n'), access[5] = "";
        struct mapping mapping;
        if (sscanf(line, "%lx-%lx %4s", &mapping.low, &mapping.high, access) != 3 ||
            memcmp(access, permissions, 3) != 0)
            continue;
        if (here >= mapping.low && here < mapping.high) continue;
        if ((uint64_t)text >= mapping.low && (uint64_t)text < mapping.high) continue;
        bool is_file = end && memchr(line, '/', (size_t)(end - line));
        // The guarded heap is mapped from "/memfd:… (deleted)" or "/dev/zero (deleted)", as chunks are mapped twice for
        // windows.
        if (is_file && memmem(line, (size_t)(end - line), "(deleted)", 9)) is_file = false;
        if (!is_file && !anywhere) continue;
        mappings[count++] = mapping;
    }
    if (!count) return 0;
    struct mapping one = mappings[next((uint64_t)count)];
    uint64_t pages = (one.high - one.low) / 4096;
    return one.low + 4096 * next(pages > 64 && next(2) ? 64 : pages);
}

static void go_wrong(void) {
    if (is(what, "sent"))
        for (uint64_t left = 1 + next(3); left; left--) pthread_kill(threads[next(THREADS)], SIGSEGV);
    if (is(what, "page") || is(what, "heap") || is(what, "code")) {
        bool is_code = is(what, "code");
        for (uint64_t left = 1 + next(8); left; left--) {
            uint64_t place = find_place(is_code ? "r-x" : "rw-", is(what, "heap"));
            if (place) syscall(SYS_mprotect, place, 4096, PROT_NONE);
        }
    }
    if (is(what, "scribble")) {
        for (uint64_t left = 1 + next(4); left; left--) {
            uint64_t place = find_place("rw-", next(2)), bytes = 1 + next(4096), state = chance;
            for (uint64_t i = 0; place && i < bytes; i++) ((volatile char *)place)[i] = (char)next_of(&state, 256);
        }
    }
    if (is(what, "touch")) touches = true;
}

static int work_and_fail(void) {
    if (is(handler, "exit")) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = next(2) ? SA_ONSTACK : 0};
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)i) != 0) return 60;
    pthread_barrier_wait(&barrier);
    bool is_traced = is(what, "wait");
    if (is_traced && write(3, "", 1) != 1) return 61;
    uint64_t delay = next(LONGEST_DELAY_US);
    if (is(work, "forks")) {
        for (uint64_t left = 1 + next(6); left; left--) {
            pid_t child = fork();
            if (child == 0) {
                sleep_us(next(2000));
                for (int i = 0; i < 100; i++) sink = (uint64_t)malloc(100), free((void *)sink);
                _exit(0);
            }
        }
    }
    sleep_us(delay);
    if (!is_traced) go_wrong();
    sleep_us((is_traced ? 400 : AFTERWARDS_MS) * 1000);
    _exit(0);
}

// Returns the base register of the next instruction if it is a common move, comparison or addition with a memory
// operand.
static unsigned long long *base_of(pid_t tid, struct user_regs_struct *registers) {
    unsigned long long *all[] = {&registers->rax,
                                 &registers->rcx,
                                 &registers->rdx,
                                 &registers->rbx,
                                 NULL,
                                 &registers->rbp,
                                 &registers->rsi,
                                 &registers->rdi,
                                 &registers->r8,
                                 &registers->r9,
                                 &registers->r10,
                                 &registers->r11,
                                 NULL,
                                 &registers->r13,
                                 &registers->r14,
                                 &registers->r15}; // NULL at 4 and 12: a SIB byte follows, not a base
    static const unsigned char known[] = {0x01, 0x03, 0x29, 0x2b, 0x39, 0x3b, 0x63, 0x80, 0x81,
                                          0x83, 0x85, 0x88, 0x89, 0x8a, 0x8b, 0xc6, 0xc7};
    unsigned char code[8];
    long word = ptrace(PTRACE_PEEKTEXT, tid, registers->rip, 0);
    memcpy(code, &word, sizeof code);
    int at = (code[0] & 0xf0) == 0x40, extended = at && code[0] & 1;
    if (!memchr(known, code[at], sizeof known)) return NULL;
    int mode = code[at + 1] >> 6, base = (code[at + 1] & 7) + 8 * extended;
    return mode == 3 || (mode == 0 && (base & 7) == 5) ? NULL : all[base];
}

// Makes the thread fault at once: corrupts the base register of a memory access, the instruction pointer, or the stack
// pointer.
// Other registers are not changed: a value that wrongly says whether a lock of libc or the runtime is held would cause
// no fault, but corrupt state.
static void spoil(pid_t tid, struct user_regs_struct *registers) {
    static const uint64_t garbage[] = {0, 8, 0x13370000, UINT64_C(0x4141414141414141), UINT64_C(0x5555555555555555)};
    unsigned long long *base = base_of(tid, registers), *either = next(2) ? &registers->rip : &registers->rsp;
    *(base && next(4) ? base : either) = garbage[next(sizeof garbage / sizeof *garbage)];
    registers->orig_rax = (unsigned long long)-1; // keeps the kernel from restarting a system call
}

// Stops up to two threads, corrupts a register of each, and resumes them.
static void trace(pid_t process) {
    char path[64];
    int tids[16], count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory)) && count < 16;)
        if (entry->d_name[0] != '.') tids[count++] = atoi(entry->d_name);
    if (directory) closedir(directory);
    uint64_t victims = 1 + next(2);
    int stopped[2], stops = 0;
    for (uint64_t i = 0; i < victims && count; i++) {
        int tid = tids[next((uint64_t)count)], status;
        if (i && tid == stopped[0]) continue;
        if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0) continue;
        if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0 || waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
            continue;
        struct user_regs_struct registers;
        if (ptrace(PTRACE_GETREGS, tid, 0, &registers) == 0) {
            spoil(tid, &registers);
            ptrace(PTRACE_SETREGS, tid, 0, &registers);
        }
        stopped[stops++] = tid;
    }
    for (int i = 0; i < stops; i++) ptrace(PTRACE_DETACH, stopped[i], 0, 0);
}

static int trace_child(char **words) {
    int ends[2], status;
    char byte;
    if (pipe(ends) != 0) return 62;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 3);
        for (int i = 4; i < 16; i++) close(i);
        const char *guard = getenv("GUARD");
        if (guard) setenv("LD_PRELOAD", guard, 1);
        execl(words[0], words[0], "wait", words[2], words[3], words[4], (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) == 1) {
        sleep_us(next(LONGEST_DELAY_US));
        trace(child);
    }
    // Reap threads that stopped too late to be resumed, or their process never ends.
    for (pid_t ended; (ended = waitpid(-1, &status, __WALL)) != child || WIFSTOPPED(status);) {
        if (ended < 0 && errno == ECHILD) return 63;
        if (ended > 0 && WIFSTOPPED(status)) ptrace(PTRACE_DETACH, ended, 0, status >> 16 ? 0 : WSTOPSIG(status));
    }
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

int main(int count, char **words) {
    if (count < 5) return 64;
    what = words[1], work = words[2], handler = words[3];
    chance = strtoull(words[4], NULL, 0);
    return is(what, "trace") ? trace_child(words) : work_and_fail();
}
