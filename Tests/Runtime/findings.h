// Commits bugs in child processes, and compares each child's one finding with a row of a table.

#ifndef FINDINGS_H
#define FINDINGS_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

// A bug that a child process commits, and the expected fields of its one finding.
struct row {
    void (*commits)(void);
    const char *kind, *access, *confidence;
    const char *state;
    int size, offset;
    int signal; // signal that ends the child; 0 if it exits with status 0
};

static inline bool has_text(const char *line, const char *name, const char *value) {
    char text[100];
    snprintf(text, sizeof text, "\"%s\":\"%s\"", name, value);
    return strstr(line, text) != NULL;
}

static inline bool has_number(const char *line, const char *name, int value) {
    char text[100];
    snprintf(text, sizeof text, "\"%s\":%d,", name, value);
    return strstr(line, text) != NULL;
}

// Reads and removes the report of a child with report_path "findings-%p.jsonl".
static inline size_t read_report(pid_t child, char *said, size_t room) {
    char path[100];
    snprintf(path, sizeof path, "findings-%d.jsonl", (int)child);
    int file = open(path, O_RDONLY);
    size_t count = 0;
    for (ssize_t got; file >= 0 && (got = read(file, said + count, room - 1 - count)) > 0;) count += (size_t)got;
    said[count] = 0;
    if (file >= 0) close(file);
    unlink(path);
    return count;
}

static inline void check_rows(const struct row *rows, size_t count, void (*prepare)(void)) {
    static char said[1 << 16];
    for (const struct row *row = rows; row < rows + count; row++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            prepare();
            row->commits();
            _exit(0);
        }
        waitpid(child, &status, 0);
        read_report(child, said, sizeof said);
        char *end = strchr(said, '\n');
        bool is_one = end && !end[1];
        bool fits = has_text(said, "kind", row->kind) && has_text(said, "access", row->access) &&
                    has_text(said, "confidence", row->confidence) && has_text(said, "state", row->state) &&
                    has_number(said, "size", row->size) && has_number(said, "offset", row->offset);
        bool is_dead = strcmp(row->state, "live") != 0;
        bool has_stacks =
            !strstr(said, "\"access\":[]") && !strstr(said, "\"alloc\":[]") && !strstr(said, "\"free\":[]") == is_dead;
        bool ends_so = row->signal ? WIFSIGNALED(status) && WTERMSIG(status) == row->signal : status == 0;
        if (!CHECK(is_one && fits && has_stacks && ends_so, row->kind))
            fprintf(stderr, "row %d, status %x:\n%s\n", (int)(row - rows), (unsigned)status, said);
    }
    read_report(getpid(), said, sizeof said);
}

#endif
