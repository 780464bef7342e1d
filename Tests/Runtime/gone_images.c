// Stacks that lead into a closed library name it, and never another library that took its place.
// preload
// library: loading_library.c
// options: on_finding=continue:report_path=/tmp/zguard-gone-%p.jsonl

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

typedef int (*call)(void *(*allocate)(unsigned long), int depth, void **made);

static void *allocate(unsigned long size) { return malloc(size); }

// Copies a file to a new file with a name from this template.
static int copy_file(const char *from, char *template) {
    static char bytes[1 << 20];
    int input = open(from, O_RDONLY), output = mkstemp(template);
    ssize_t count = input < 0 ? -1 : read(input, bytes, sizeof bytes);
    int is_copied = count > 0 && output >= 0 && write(output, bytes, (size_t)count) == count;
    close(input);
    close(output);
    return is_copied;
}

// Lets the library at `path` allocate a block, and closes the library. Returns the address of the library's code.
static char *block_of(const char *path, void **block) {
    void *library = dlopen(path, RTLD_NOW);
    call function = library ? (call)dlsym(library, "loading_call") : NULL;
    if (!function) return NULL;
    function(allocate, 3, block);
    dlclose(library);
    return (char *)function;
}

static void free_twice(void *block) {
    free(block);
    free(block);
}

// Returns the last line of the report.
static char *last_finding(void) {
    static char text[1 << 20];
    char path[64];
    snprintf(path, sizeof path, "/tmp/zguard-gone-%d.jsonl", getpid());
    int file = open(path, O_RDONLY);
    ssize_t count = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    while (count > 0 && text[count - 1] == '\n') count--;
    text[count > 0 ? count : 0] = 0;
    char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

int main(int count, char **words) {
    CHECK_EQUAL(count, 2, "the library is the argument");
    char copy[] = "/tmp/zguard-gone-copy.XXXXXX";
    CHECK(copy_file(words[1], copy), "the library is copied");

    // A double free while the closed library's addresses are unused.
    void *block = NULL, *other = NULL;
    block_of(words[1], &block);
    free_twice(block);
    const char *alloc = strstr(last_finding(), "\"alloc\":["), *named = alloc ? strstr(alloc, words[1]) : NULL;
    CHECK(named, "a stack names the library that is gone");
    CHECK(named && strstr(named, "\"build_id\":\""), "and its build");

    // A double free of the first library's block, after another library was loaded at its addresses.
    int same_place = 0;
    for (int i = 0; i < 20 && !same_place; i++) {
        const char *place = block_of(words[1], &block);
        same_place = block_of(copy, &other) == place;
    }
    CHECK(same_place, "one library takes the other's place");
    free_twice(block);
    alloc = strstr(last_finding(), "\"alloc\":[");
    CHECK(alloc && !strstr(alloc, copy) && !strstr(alloc, words[1]), "where two libraries have been, none is named");

    unlink(copy);
    char path[64];
    snprintf(path, sizeof path, "/tmp/zguard-gone-%d.jsonl", getpid());
    unlink(path);
    return check_end();
}
