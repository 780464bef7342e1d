// Preloaded beside the library: saves the statistics page of each process at its end, as file PID in the directory
// ZG_KEPT.
// Finds the page by its name in the memory map, and so works with every build of the library and with guarded test
// bundles. With ZG_ACCOUNTS=OFFSET[,OFFSET…], also appends the 64-bit variables at these offsets in libzguard.so.
// Cold: runs once, at the end; allocates nothing.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char map[16 << 20]; // enough for 65,530 mappings

static const void *find_page(size_t *bytes) {
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 0;
    while (file >= 0 && length < sizeof(map) - 1 && (got = read(file, map + length, sizeof(map) - 1 - length)) > 0)
        length += (size_t)got;
    if (file >= 0) close(file);
    map[length] = 0;
    char *name = strstr(map, "zguard-stats");
    if (!name) return NULL;
    char *line = name;
    while (line > map && line[-1] != '\n') line--;
    char *rest;
    uintptr_t start = strtoull(line, &rest, 16), end = strtoull(rest + 1, NULL, 16);
    *bytes = end - start;
    return (const void *)start;
}

// Appends the variables whose offsets in the library ZG_ACCOUNTS lists. The memory map was read by find_page.
static void keep_accounts(int file) {
    const char *offsets = getenv("ZG_ACCOUNTS"), *name = strstr(map, "libzguard.so");
    if (!offsets || !name) return;
    while (name > map && name[-1] != '\n') name--;
    uintptr_t base = strtoull(name, NULL, 16);
    for (char *rest; *offsets; offsets = *rest ? rest + 1 : rest)
        if (write(file, (const void *)(base + strtoull(offsets, &rest, 16)), sizeof(uint64_t)) < 0) return;
}

static void keep(void) {
    static int is_kept;
    const char *folder = getenv("ZG_KEPT");
    size_t bytes;
    const void *page;
    if (!folder || __atomic_exchange_n(&is_kept, 1, __ATOMIC_RELAXED) || !(page = find_page(&bytes))) return;
    char path[4096];
    snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, page, bytes) != (ssize_t)bytes) unlink(path);
    keep_accounts(file);
    close(file);
}

__attribute__((destructor)) static void end(void) { keep(); }

// Interposed for processes that end without destructors, such as children of shells and compilers.
__attribute__((noreturn)) void _exit(int status) {
    keep();
    for (;;) syscall(SYS_exit_group, status);
}
__attribute__((noreturn)) void _Exit(int status) { _exit(status); }
