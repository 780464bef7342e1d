// Processes are made in every way that does not share memory; parent and child then use the old blocks concurrently.
// libs: -lutil
// qemu-user: unguarded it does not come to its end there, in processes that bare system calls make

#define _GNU_SOURCE
#include <linux/sched.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { count = 200, stack_bytes = 256 << 10 };

struct block {
    unsigned char *start;
    size_t size;
    unsigned salt;
};

static struct block blocks[count];
static int to_child[2], to_parent[2];

static void write_block(struct block *block) {
    for (size_t i = 0; i < block->size; i++) block->start[i] = (unsigned char)(block->salt + i * 7);
}

static int lost(void) {
    int lost = 0;
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < blocks[i].size; j++)
            if (blocks[i].start[j] != (unsigned char)(blocks[i].salt + j * 7)) {
                lost++;
                break;
            }
    return lost;
}

static void make_block(struct block *block, unsigned salt) {
    block->salt = salt;
    block->size = 1 + salt * 37 % 2500;
    block->start = salt % 3 ? malloc(block->size) : calloc(1, block->size);
    for (size_t i = 0; salt % 3 == 0 && i < block->size; i++)
        if (block->start[i]) _exit(99);
    write_block(block);
}

static void change(unsigned by) {
    for (int i = 0; i < count; i++) {
        blocks[i].salt += by;
        write_block(&blocks[i]);
    }
}

// Replaces every other block and resizes every fourth.
static void replace(unsigned salt) {
    for (int i = 0; i < count; i += 2) {
        free(blocks[i].start);
        make_block(&blocks[i], salt + (unsigned)i);
    }
    for (int i = 1; i < count; i += 4) {
        blocks[i].size += 100;
        blocks[i].start = realloc(blocks[i].start, blocks[i].size);
        write_block(&blocks[i]);
    }
}

static void tell(int pipe) {
    if (write(pipe, "x", 1) != 1) _exit(98);
}
static void hear(int pipe) {
    char byte;
    if (read(pipe, &byte, 1) != 1) _exit(97);
}

// Run by the child: it must see the blocks as they were at the fork, and none of the parent's later changes.
static int work(void) {
    int wrong = lost();
    change(50);
    tell(to_parent[1]);
    hear(to_child[0]); // the parent has changed its own blocks by now
    wrong += lost();
    replace(1000);
    wrong += lost();
    pid_t grandchild = fork();
    if (!grandchild) {
        wrong += lost();
        change(9);
        replace(3000);
        _exit(wrong + lost() != 0);
    }
    int status;
    waitpid(grandchild, &status, 0);
    wrong += lost() + (status != 0);
    return wrong != 0;
}

static int work_on_stack(void *unused) {
    (void)unused;
    return work();
}

static int wrong_meanwhile(void) {
    hear(to_parent[0]);
    int wrong = lost();
    change(70);
    replace(2000);
    tell(to_child[1]);
    return wrong + lost();
}

static void wait_for(const char *way, pid_t child) {
    int wrong = wrong_meanwhile(), status = -1;
    while (waitpid(child, &status, 0) < 0) {
    }
    printf("%s: child %d, parent %d\n", way, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
           wrong + lost());
    fflush(stdout);
}

static void run(const char *way, pid_t child) {
    if (child < 0) {
        printf("%s is refused\n", way);
        return;
    }
    if (!child) _exit(work());
    wait_for(way, child);
}

static void run_daemon(void) {
    int result[2], status;
    if (pipe(result)) return;
    pid_t child = fork();
    if (!child) {
        if (daemon(1, 1)) _exit(96);
        char code = (char)('0' + work());
        _exit(write(result[1], &code, 1) != 1);
    }
    int wrong = wrong_meanwhile();
    waitpid(child, &status, 0);
    char code = 0;
    if (read(result[0], &code, 1) != 1) code = '?';
    printf("daemon: child %c, parent %d\n", code, wrong + lost());
    fflush(stdout);
}

static void run_terminal(void) {
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) return;
    if (!child) _exit(work());
    wait_for("forkpty", child);
    close(terminal);
}

static void run_shells(void) {
    change(5);
    char line[32] = "";
    FILE *pipe = popen("read line; echo $line again", "w");
    if (pipe) fprintf(pipe, "told\n"), change(6), printf("popen: %d", pclose(pipe));
    pipe = popen("echo a line", "r");
    if (pipe && fgets(line, sizeof line, pipe)) printf(", %s", line);
    if (pipe) pclose(pipe);
    printf("system: %d, parent %d\n", system("exit 3") >> 8, lost());
    fflush(stdout);
}

int main(void) {
    if (pipe(to_child) || pipe(to_parent)) return 1;
    for (int i = 0; i < count; i++) make_block(&blocks[i], (unsigned)i);
    for (int i = 0; i < 3000; i++) free(malloc((size_t)i % 2000)); // makes freed blocks
    char *stack = malloc(stack_bytes);
    // _Fork, clone and the raw system calls bypass what libc's fork() does before and after the system call.
    for (int round = 0; round < 2; round++) {
        run("fork", fork());
        run("_Fork", _Fork());
#ifdef SYS_fork // arm64's kernel has only clone
        run("syscall fork", (pid_t)syscall(SYS_fork));
#endif
        run("syscall clone", (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L));
        run("syscall clone, files shared",
            (pid_t)syscall(SYS_clone, (long)(SIGCHLD | CLONE_FILES | CLONE_FS), 0L, 0L, 0L, 0L));
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        run("syscall clone3", (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments));
        wait_for("clone", clone(work_on_stack, stack + stack_bytes, SIGCHLD, NULL));
        wait_for("clone, files shared",
                 clone(work_on_stack, stack + stack_bytes, SIGCHLD | CLONE_FILES | CLONE_FS, NULL));
        run_daemon();
        run_terminal();
        run_shells();
    }
    free(stack);
    for (int i = 0; i < count; i++) free(blocks[i].start);
    return 0;
}
