// Memory and string functions work up to the last byte of blocks, and are passed larger lengths than they use.
// libs: -Wno-stringop-overflow -Wno-stringop-overread -Wno-stringop-truncation -Wno-nonnull

#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

static unsigned long sum;

static void note(long value) { sum = sum * 31 + (unsigned long)value; }

static char *block_of(size_t bytes, int byte) {
    char *block = malloc(bytes);
    memset(block, byte, bytes);
    return block;
}

static char *string_of(size_t length) {
    char *string = block_of(length + 1, '7');
    string[length] = 0;
    return string;
}

// The strings' terminators are the last bytes of their blocks.
static void exact_strings(size_t length) {
    char *string = string_of(length), *other = string_of(length), *to = malloc(length + 1),
         *twice = malloc(2 * length + 1);
    note((long)strlen(string));
    note((long)strnlen(string, length + 1));
    note((long)strnlen(string, length));
    note((long)strnlen(string, SIZE_MAX));
    note(strcmp(string, other));
    note(strncmp(string, other, length));
    note(strncmp(string, other, SIZE_MAX));
    note(strcasecmp(string, other));
    note(strncasecmp(string, other, length + 100));
    note(strchr(string, 'x') == NULL);
    note(strchr(string, 0) - string);
    note(strrchr(string, '7') == NULL);
    note(strchrnul(string, 'x') - string);
    note(strstr(string, "77") != NULL);
    note(strstr(string, other) - string);
    note(strtol(string, NULL, 10) != 0);
    note((long)strtoull(string, NULL, 0));
    note(strtod(string, NULL) > 0);
    note(length < 9 ? atoi(string) : 0);
    note((long)strlen(strcpy(to, string)));
    note(stpcpy(to, string) - to);
    note((long)strlen(strncpy(to, string, length + 1)));
    strcpy(twice, string);
    note((long)strlen(strcat(twice, other)));
    strcpy(twice, string);
    note((long)strlen(strncat(twice, other, length)));
    strcpy(twice, string);
    note((long)strlen(strncat(twice, other, SIZE_MAX)));
    char *copy = strdup(string), *part = strndup(string, length / 2), *whole = strndup(string, SIZE_MAX);
    note((long)(strlen(copy) + strlen(part) + strlen(whole)));
    free(copy), free(part), free(whole);
    free(string), free(other), free(to), free(twice);
}

// Passes blocks without a terminator to functions, together with the block's length.
static void exact_bytes(size_t bytes) {
    char *block = block_of(bytes, '5'), *other = block_of(bytes, '5');
    note(memcmp(block, other, bytes));
    note(memcmp(block + bytes, other + bytes, 0));
    note(memchr(block, 'x', bytes) == NULL);
    note(memrchr(block, 'x', bytes) == NULL);
    note((long)strnlen(block, bytes));
    note(strncmp(block, other, bytes));
    note(strncasecmp(block, other, bytes));
    memcpy(block, other, bytes);
    note((char *)mempcpy(block, other, bytes) - block);
    strncpy(block, "x", bytes);
    note(block[0]);
    memset(block + bytes, 1, 0);
    char *copy = strndup(other, bytes);
    note((long)strlen(copy));
    free(copy);
    if (bytes > 3) {
        memmove(block + 1, block, bytes - 1);
        memmove(block, block + 3, bytes - 3);
    }
    free(block), free(other);
}

// Passes lengths larger than the block to functions that certainly stop before the end of the block.
static void stops_early(void) {
    char *block = block_of(20, 'a'), *other = block_of(30, 'a');
    block[19] = 'b';
    note(memchr(block, 'b', 1000) != NULL);
    note(memchr(block, 'b', SIZE_MAX) != NULL);
#ifndef ISOLATED // libc's memcmp reads past the first difference, and would fault at a guard page behind the block
    note(memcmp(block, other, 1000) > 0);
    note(memcmp(other, block, 30) < 0);
#endif
    note(strncmp(block, other, 1000) > 0);
    note(strcmp(block, "b") < 0);
    note(strcmp("ab", block) > 0);
    note(strcasecmp("AB", block) > 0);
    note(strchr(block, 'b') != NULL);
// The strstr of glibc 2.31 and 2.43 reads the byte behind the match, which a string has.
#if !defined ISOLATED || !defined __GLIBC__ || (__GLIBC_MINOR__ > 31 && __GLIBC_MINOR__ < 43)
    note(strstr(block, "ab") != NULL);
#endif
    block[1] = 0;
    note((long)strnlen(block, 1000));
    note(strncmp(block, "a", 1000));
    block[0] = '7', block[1] = '.', block[2] = '5', block[3] = 'e', block[4] = ' ';
    note(atoi(block));
    note(strtol(block, NULL, 36));
    note(strtod(block, NULL) > 7);
    memset(block, '8', 20);
    block[19] = '9';
    note((long)strtoul(block, NULL, 8));
    note(strtol(block, NULL, 37)); // an invalid base: nothing is read
    free(block), free(other);
}

// Passes dangling pointers, empty blocks and ends of blocks to functions, with a length of 0.
static void of_nothing(void) {
    char *gone = malloc(100), *empty = malloc(0), *here = malloc(8);
    free(gone);
    char *volatile dangling = gone, *volatile none = empty, *volatile end = here + 8;
    note(memcmp(dangling, none, 0));
    note(memchr(dangling, 'x', 0) == NULL);
    note(memrchr(dangling, 'x', 0) == NULL);
    memcpy(dangling, none, 0);
    memcpy(end, dangling, 0);
    memmove(none, dangling, 0);
    memset(dangling, 1, 0);
    memset(end, 1, 0);
    note((long)strnlen(dangling, 0));
    note(strncmp(dangling, "x", 0));
    note(strncasecmp(end, dangling, 0));
    strncpy(none, dangling, 0);
    here[0] = 0;
    strncat(here, dangling, 0);
    wmemset((wchar_t *)(void *)dangling, 1, 0);
    free(empty), free(here);
}

static void wide(size_t length) {
    wchar_t *string = malloc((length + 1) * sizeof *string), *to = malloc((length + 1) * sizeof *to);
    wmemset(string, L'w', length);
    string[length] = 0;
    note((long)wcslen(string));
    note((long)wcslen(wcscpy(to, string)));
    wmemcpy(to, string, length + 1);
    wmemmove(to + 1, to, length);
    free(string), free(to);
}

// An allocator within one block: the runtime cannot know where its parts end.
static void arena(void) {
    char *pool = malloc(1000), *parts[10];
    for (int i = 0; i < 10; i++) parts[i] = pool + 100 * i;
    memset(parts[0], 'p', 1000);
    memcpy(parts[5], parts[0], 500);
    parts[9][99] = 0;
    note((long)strlen(parts[0]));
    free(pool);
}

// Uses all bytes that malloc_usable_size and realloc promise.
static void usable(void) {
    char *block = malloc(1);
    for (size_t bytes = 1; bytes < 200000; bytes += bytes / 3 + 1) {
        block = realloc(block, bytes);
        size_t room = malloc_usable_size(block);
        memset(block, 'u', room);
        block[room - 1] = 0;
        note(strlen(block) == room - 1);
        char *copy = strdup(block);
        note(strcmp(block, copy));
        free(copy);
    }
    for (size_t bytes = 100000; bytes > 10; bytes = bytes * 3 / 4) {
        block = realloc(block, bytes);
        memset(block, 's', malloc_usable_size(block));
        note(memchr(block, 'x', malloc_usable_size(block)) == NULL);
    }
    free(block);
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t length = 2; length < 300; length++) exact_strings(length);
        for (size_t bytes = 1; bytes < 300; bytes++) exact_bytes(bytes);
        for (size_t length = 1; length < 100; length++) wide(length);
        for (size_t length = 4000; length < 300000; length *= 3) exact_strings(length), exact_bytes(length);
        stops_early();
        of_nothing();
        arena();
        usable();
    }
    printf("%lu\n", sum);
    return 0;
}
