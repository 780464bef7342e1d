// What tests of memory tags share: tags of pointers and of memory, and what a child that commits a bug says.

#ifndef TAGGED_H
#define TAGGED_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { HAS_TAGS = 1 << 18 /* HWCAP2_MTE */, GRANULE = 16 };

static inline bool has_tags(void) { return getauxval(AT_HWCAP2) & HAS_TAGS; }
static inline uint64_t address_of(const void *pointer) { return (uint64_t)pointer & ~(UINT64_C(15) << 56); }
static inline uint32_t tag_of(const void *pointer) { return (uint64_t)pointer >> 56 & 15; }

// The tag of the 16 bytes at an address.
static inline uint32_t tag_at(uint64_t address) {
    uint64_t word = address;
    __asm__ volatile(".arch_extension memtag\n ldg %0, [%0]" : "+r"(word)::"memory");
    return word >> 56 & 15;
}

// Blocks at the address of a block that died, one after the other; NULL where its place is not used again.
static inline char *next_at(const char *block, uint64_t size) {
    for (int i = 0; i < 1000; i++) {
        char *other = malloc(size);
        if (address_of(other) == address_of(block)) return other;
        free(other);
    }
    return NULL;
}

// A bug, which a child of its own commits, and what its one finding has to hold.
struct row {
    void (*commits)(void);
    const char *kind, *access, *confidence;
    const char *state;
    int size, offset;
    int signal; // that ends the child; 0: none
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

// Reads the report of a child, whose report_path is "tagged-%p.jsonl", and removes it.
static inline size_t read_report(pid_t child, char *said, size_t room) {
    char path[100];
    snprintf(path, sizeof path, "tagged-%d.jsonl", (int)child);
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
        int died = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (!CHECK(is_one && fits && has_stacks && died == row->signal, row->kind))
            fprintf(stderr, "row %d, status %x:\n%s\n", (int)(row - rows), (unsigned)status, said);
    }
    read_report(getpid(), said, sizeof said);
}

#endif
