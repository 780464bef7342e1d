// Named checks for the runtime's test programs. A failed check prints its place. The last line of a program's output is
// "checks N failures M", which tells the driver that the program ran to its end.
// Any thread; CHECK calls stdio only if a check fails.

#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../Support/alignment.h"
#include "../Support/work.h"

static int check_count, check_failures;

enum { CHECK_SHOWN = 25 };

__attribute__((unused)) static int check_that(int holds, const char *file, int line, const char *what) {
    __atomic_fetch_add(&check_count, 1, __ATOMIC_RELAXED);
    if (holds) return 1;
    if (__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED) < CHECK_SHOWN) {
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
        fflush(stderr);
    }
    return 0;
}

__attribute__((unused)) static int check_equal(uint64_t got, uint64_t wanted, const char *file, int line,
                                               const char *what) {
    char text[256];
    if (got == wanted) return check_that(1, file, line, what);
    snprintf(text, sizeof text, "%s: %" PRIu64 " (0x%" PRIx64 "), expected %" PRIu64 " (0x%" PRIx64 ")", what, got, got,
             wanted, wanted);
    return check_that(0, file, line, text);
}

#define CHECK(condition, what) check_that(!!(condition), __FILE__, __LINE__, what)
#define CHECK_EQUAL(got, wanted, what) check_equal((uint64_t)(got), (uint64_t)(wanted), __FILE__, __LINE__, what)

// Prints the closing line. Returns main's exit status.
__attribute__((unused)) static int check_end(void) {
    fflush(stderr);
    printf("checks %d failures %d\n", check_count, check_failures);
    fflush(stdout);
    return check_failures ? 1 : 0;
}

#endif
