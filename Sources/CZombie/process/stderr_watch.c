// Replaces the write function in libc's vtable of file streams (_IO_file_jumps). The function pointer to replace is
// found by its value, _IO_file_write, which libc exports. If either symbol is missing, nothing is patched, and only
// text that the program passes to write itself is recorded.
// Start-up is cold; the replacement runs in any context.

#define _GNU_SOURCE
#include "process/stderr_watch.h"

#include <stdio.h>
#include <unistd.h>

#include "findings/last_text.h"
#include "images/loader.h"
#include "platform/os.h"

typedef ssize_t write_function(FILE *file, const void *bytes, ssize_t count);
static write_function *libcs;

static ssize_t write_noted(FILE *file, const void *bytes, ssize_t count) {
    if (count > 0 && fileno(file) == STDERR_FILENO) zg_last_text_note(bytes, (uint64_t)count);
    return libcs(file, bytes, count);
}

void zg_stderr_watch_start(void) {
    enum { ENTRIES = 21 };
    write_function **table = zg_loader_first("_IO_file_jumps");
    write_function *known = (write_function *)zg_loader_first("_IO_file_write");
    for (int i = 0; table && known && i < ENTRIES; i++) {
        if (table[i] != known) continue;
        uint64_t page = (uint64_t)&table[i] & ~(uint64_t)(ZG_PAGE_BYTES - 1);
        if (zg_os_open_constants((void *)page, ZG_PAGE_BYTES) != 0) return;
        libcs = known;
        __atomic_store_n(&table[i], write_noted, __ATOMIC_RELEASE);
        zg_os_close_constants((void *)page, ZG_PAGE_BYTES);
        return;
    }
}
