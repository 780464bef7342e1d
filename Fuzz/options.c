// Fuzzes the parser of ZGUARD_OPTIONS, which runs in every guarded process.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/zg_options.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "options.c:%d: %s\n", __LINE__, #condition);                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

struct seen {
    int bad, unknown;
};

static void report(const struct zg_option_error *error, void *context) {
    struct seen *seen = context;
    CHECK(memchr(error->name, 0, sizeof error->name) && memchr(error->value, 0, sizeof error->value));
    CHECK(memchr(error->expected, 0, sizeof error->expected));
    if (error->what == zg_option_bad_value) seen->bad++;
    else seen->unknown++;
    CHECK(seen->bad <= 1);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t count) {
    char *text = malloc(count + 1);
    CHECK(text);
    memcpy(text, data, count);
    text[count] = 0;

    struct zg_options options;
    struct seen seen = {0};
    zg_options_defaults(&options);
    int result = zg_options_parse(&options, text, report, &seen);
    CHECK(result == !seen.bad);
    CHECK(memchr(options.report_path, 0, sizeof options.report_path));
    for (int i = 0; i < zg_option_count; i++) {
        const struct zg_option_info *option = &zg_option_table[i];
        if (option->kind != zg_option_path)
            CHECK(options.value[i] >= option->least && options.value[i] <= option->most);
    }

    // Parsing the same text again gives the same result.
    struct zg_options again;
    struct seen seen_again = {0};
    zg_options_defaults(&again);
    CHECK(zg_options_parse(&again, text, report, &seen_again) == result);
    CHECK(seen.bad == seen_again.bad && seen.unknown == seen_again.unknown);
    CHECK(!memcmp(options.value, again.value, sizeof options.value) && !strcmp(options.report_path, again.report_path));
    free(text);
    return 0;
}
