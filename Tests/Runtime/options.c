// The parser of ZGUARD_OPTIONS, the text buffer, and report lines (printed as JSON for the driver to read).
// link: runtime
// output: json

#include <string.h>
#include <unistd.h>

#include "check.h"
#include "findings/finding.h"
#include "findings/report.h"
#include "include/zg_options.h"
#include "platform/text.h"
#include "process/runtime.h"
#include "settings/config.h"

static bool is_new(struct zg_finding *finding) { return finding != NULL; }

struct seen {
    int unknown, bad;
    struct zg_option_error last;
};

static void note(const struct zg_option_error *error, void *context) {
    struct seen *seen = context;
    if (error->what == zg_option_unknown) seen->unknown++;
    else seen->bad++;
    seen->last = *error;
}

struct row {
    const char *text;
    int result, unknown;
    int option; // -1: no value to compare
    int64_t value;
};

#define DEFAULT INT64_MIN
#define IS(name) zg_option_name_##name
static const struct row rows[] = {
    {"", 1, 0, IS(quarantine_bytes), DEFAULT},
    {":", 1, 0, IS(stack_depth), DEFAULT},
    {":::", 1, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=5", 1, 0, IS(stack_depth), 5},
    {":stack_depth=5:", 1, 0, IS(stack_depth), 5},
    {"stack_depth=5::stack_depth=7", 1, 0, IS(stack_depth), 7},
    {"stack_depth=0", 1, 0, IS(stack_depth), 0},
    {"stack_depth=128", 1, 0, IS(stack_depth), 128},
    {"stack_depth=129", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=-1", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth= 5", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=5 ", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=0x10", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=5k", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=1=2", 0, 0, IS(stack_depth), DEFAULT},
    {"stack_depth=00000000000000000000007", 1, 0, IS(stack_depth), 7},
    {"quarantine_bytes=1k", 1, 0, IS(quarantine_bytes), 1024},
    {"quarantine_bytes=1K", 1, 0, IS(quarantine_bytes), 1024},
    {"quarantine_bytes=3m", 1, 0, IS(quarantine_bytes), 3 << 20},
    {"quarantine_bytes=2g", 1, 0, IS(quarantine_bytes), INT64_C(2) << 30},
    {"quarantine_bytes=1t", 1, 0, IS(quarantine_bytes), INT64_C(1) << 40},
    {"quarantine_bytes=1T", 1, 0, IS(quarantine_bytes), INT64_C(1) << 40},
    {"quarantine_bytes=2t", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=1kb", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=1p", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=k", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=m", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=1.5m", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=18446744073709551616", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=18446744073709551617k", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=4611686018427387904t", 0, 0, IS(quarantine_bytes), DEFAULT},
    {"quarantine_bytes=0", 1, 0, IS(quarantine_bytes), 0},
    {"fill_new=1", 1, 0, IS(fill_new), 1},
    {"fill_new=yes", 1, 0, IS(fill_new), 1},
    {"fill_new=true", 1, 0, IS(fill_new), 1},
    {"fill_new=on", 1, 0, IS(fill_new), 1},
    {"fill_new=on:fill_new=off", 1, 0, IS(fill_new), 0},
    {"fill_new=no", 1, 0, IS(fill_new), 0},
    {"fill_new=false", 1, 0, IS(fill_new), 0},
    {"fill_new=2", 0, 0, IS(fill_new), 0},
    {"fill_new=", 0, 0, IS(fill_new), 0},
    {"fill_new=onn", 0, 0, IS(fill_new), 0},
    {"on_finding=continue", 1, 0, IS(on_finding), 1},
    {"on_finding=abort", 1, 0, IS(on_finding), 0},
    {"on_finding=cont", 0, 0, IS(on_finding), 0},
    {"on_finding=abort|continue", 0, 0, IS(on_finding), 0},
    {"on_finding=", 0, 0, IS(on_finding), 0},
    {"dealloc_mismatch=all", 1, 0, IS(dealloc_mismatch), 2},
    {"profile=guard", 1, 0, IS(profile), 0},
    {"profile=nothing", 0, 0, IS(profile), 0},
    {"profile=fence", 1, 0, IS(isolated_per_context), ZG_FENCE_ALL},
    {"isolated_per_context=2:profile=fence", 1, 0, IS(isolated_per_context), 2},
    {"profile=fence:profile=guard", 1, 0, IS(isolated_per_context), DEFAULT},
    {"fence_per_context=2", 1, 0, IS(isolated_per_context), 2},
    {"fence_per_context=2:isolated_per_context=3", 1, 0, IS(isolated_per_context), 3},
    {"isolated_per_context=2:fence_per_context=3", 1, 0, IS(isolated_per_context), 3},
    {"fence_per_context=2:profile=fence", 1, 0, IS(isolated_per_context), 2},
    {"fence_per_context=65536", 0, 0, IS(isolated_per_context), DEFAULT},
    {"fence_bytes=1k", 1, 0, IS(isolated_bytes), 1024},
    {"fence_overhead=2.5%", 1, 0, IS(isolated_overhead), 25},
    {"fence_windows=all", 1, 0, IS(isolated_windows), zg_isolated_windows_all},
    {"fence_align=1", 1, 0, IS(isolated_align), zg_isolated_align_1},
    {"profile=fence:profile=sample", 1, 0, IS(isolated_overhead), DEFAULT},
    {"profile=sample", 1, 0, IS(sample_rate), 10000},
    {"sample_rate=7:profile=sample", 1, 0, IS(sample_rate), 7},
    {"profile=fence:stack_depth=5", 1, 0, IS(stack_depth), 5},
    {"overhead=5%", 1, 0, IS(overhead), 50},
    {"overhead=5", 1, 0, IS(overhead), 50},
    {"overhead=2.5%", 1, 0, IS(overhead), 25},
    {"overhead=100%", 1, 0, IS(overhead), 1000},
    {"overhead=100.1%", 0, 0, IS(overhead), DEFAULT},
    {"overhead=101", 0, 0, IS(overhead), DEFAULT},
    {"overhead=-1", 0, 0, IS(overhead), DEFAULT},
    {"overhead=5%%", 0, 0, IS(overhead), DEFAULT},
    {"overhead=5.%", 0, 0, IS(overhead), DEFAULT},
    {"overhead=%", 0, 0, IS(overhead), DEFAULT},
    {"report_path=/tmp/a=b.%p", 1, 0, -1, 0},
    {"unknown=1", 1, 1, -1, 0},
    {"unknown", 1, 1, -1, 0},
    {"=5", 1, 1, -1, 0},
    {"unknown=1:stack_depth=9:other=2", 1, 2, IS(stack_depth), 9},
    {"STACK_DEPTH=9", 1, 1, IS(stack_depth), DEFAULT},
    {"stack_depth=9:stack_depth=bad:stack_depth=11", 0, 0, IS(stack_depth), 9},
};

static const struct {
    const char *given, *nearest;
} nearest[] = {
    {"stack_deph=1", "stack_depth"},
    {"quarantine_byte=1", "quarantine_bytes"},
    {"fil_new=1", "fill_new"},
    {"statss=1", "stats"},
    {"reportpath=/x", "report_path"},
    {"on-finding=abort", "on_finding"},
    {"fence_byte=1", "isolated_bytes"},
    {"zzzzzzzzzzzz=1", ""},
    {"completely_different_thing=1", ""},
};

static void check_options(void) {
    static struct zg_options options;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct seen seen = {0};
        zg_options_defaults(&options);
        int result = zg_options_parse(&options, rows[i].text, note, &seen);
        CHECK_EQUAL(result, rows[i].result, rows[i].text);
        CHECK_EQUAL(seen.unknown, rows[i].unknown, rows[i].text);
        CHECK_EQUAL(seen.bad, !rows[i].result, rows[i].text);
        if (rows[i].option >= 0) {
            int64_t wanted = rows[i].value == DEFAULT ? zg_option_table[rows[i].option].initial : rows[i].value;
            CHECK_EQUAL(options.value[rows[i].option], wanted, rows[i].text);
        }
        if (!result) CHECK(seen.last.expected[0], "a bad value is told what was expected");
    }
    for (size_t i = 0; i < sizeof nearest / sizeof *nearest; i++) {
        struct seen seen = {0};
        zg_options_parse(&options, nearest[i].given, note, &seen);
        CHECK(seen.unknown == 1 && strcmp(seen.last.expected, nearest[i].nearest) == 0, nearest[i].given);
    }
    // For each option with a number, the default is in range, the smallest and the largest value are accepted, and the
    // value above the largest is not.
    for (int i = 0; i < zg_option_count; i++) {
        const struct zg_option_info *info = &zg_option_table[i];
        const struct zg_option_description *description = &zg_option_descriptions[i];
        CHECK(info->name[0] && description->text[0], "an option has a name and a text");
        CHECK(!i || description->group == description[-1].group || description->group == description[-1].group + 1,
              "a group's options are together");
        if (info->kind != zg_option_number && info->kind != zg_option_bytes) continue;
        CHECK(info->initial >= info->least && info->initial <= info->most, info->name);
        const int64_t values[] = {info->least, info->most, info->most + 1};
        for (int j = 0; j < 3; j++) {
            char text[128];
            struct seen seen = {0};
            snprintf(text, sizeof text, "%s=%" PRId64, info->name, values[j]);
            CHECK_EQUAL(zg_options_parse(&options, text, note, &seen), j < 2, text);
        }
    }
    // A former name of an option is not the present name of any option.
    for (int i = 0; i < zg_option_alias_count; i++)
        for (int j = 0; j < zg_option_count; j++)
            CHECK(strcmp(zg_option_aliases[i].name, zg_option_table[j].name) != 0, zg_option_aliases[i].name);
    // Names and values longer than any buffer.
    char *text = malloc(5000);
    struct seen seen = {0};
    memset(text, 'n', 4000);
    strcpy(text + 4000, "=1:stack_depth=12");
    zg_options_defaults(&options);
    CHECK(zg_options_parse(&options, text, note, &seen) && seen.unknown == 1, "a name of 4000 bytes is unknown");
    CHECK_EQUAL(strlen(seen.last.name), 63, "and cut off");
    CHECK_EQUAL(options.value[IS(stack_depth)], 12, "what follows is read");
    for (int length = 505; length < 520; length++) {
        memset(text, 0, 5000);
        strcpy(text, "report_path=");
        memset(text + 12, 'p', (size_t)length);
        seen = (struct seen){0};
        zg_options_defaults(&options);
        int result = zg_options_parse(&options, text, note, &seen);
        CHECK_EQUAL(result, length < ZG_OPTION_PATH_BYTES, "paths up to 511 bytes");
        if (result) CHECK_EQUAL(strlen(options.report_path), length, "are kept whole");
    }
    memset(text, 0, 5000);
    strcpy(text, "stack_depth=");
    memset(text + 12, '0', 600);
    text[612] = '9', text[613] = '9', text[614] = '9';
    seen = (struct seen){0};
    zg_options_defaults(&options);
    CHECK_EQUAL(zg_options_parse(&options, text, note, &seen), 0, "a number too large behind 600 zeros is bad, not 0");
    free(text);
    // Random texts: the parser does not crash, and all values are in range.
    static const char letters[] = "abdefgilnopqrstu_=::=0123456789kmgt%.";
    uint64_t state = 5;
    for (int i = 0; i < 100000; i++) {
        char random[64];
        int count = (int)(work_random(&state) % 63);
        for (int j = 0; j < count; j++) random[j] = letters[work_random(&state) % (sizeof letters - 1)];
        random[count] = 0;
        zg_options_parse(&options, random, note, &seen);
    }
}

static void check_text(void) {
    char bytes[64];
    struct zg_text text;
    for (uint64_t capacity = 1; capacity < 20; capacity++) {
        memset(bytes, '#', sizeof bytes);
        zg_text_init(&text, bytes, capacity);
        zg_text_string(&text, "0123456789");
        CHECK_EQUAL(text.count, capacity - 1 < 10 ? capacity - 1 : 10, "a text is cut to its capacity");
        CHECK_EQUAL(text.truncated, capacity - 1 < 10, "and says so");
        CHECK_EQUAL(strlen(bytes), text.count, "and ends with a NUL");
        CHECK(bytes[capacity] == '#', "nothing is written behind it");
    }
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 255, 4096, 0xffffffff, 0x100000000, UINT64_MAX / 2, UINT64_MAX};
    for (int i = 0; i < 11; i++) {
        char wanted[64];
        zg_text_init(&text, bytes, sizeof bytes);
        zg_text_decimal(&text, numbers[i]);
        snprintf(wanted, sizeof wanted, "%" PRIu64, numbers[i]);
        CHECK(strcmp(bytes, wanted) == 0, wanted);
        zg_text_init(&text, bytes, sizeof bytes);
        zg_text_hex(&text, numbers[i]);
        snprintf(wanted, sizeof wanted, "0x%" PRIx64, numbers[i]);
        CHECK(strcmp(bytes, wanted) == 0, wanted);
        zg_text_init(&text, bytes, sizeof bytes);
        zg_text_padded(&text, numbers[i], 6);
        snprintf(wanted, sizeof wanted, "%06" PRIu64, numbers[i]);
        CHECK(strcmp(bytes, wanted) == 0, wanted);
    }
    // Puts every byte into a string, alone and between others; the driver parses the lines.
    for (int c = 1; c < 0x80; c++) {
        char string[] = {'a', (char)c, 'b', 0};
        zg_text_init(&text, bytes, sizeof bytes);
        zg_text_json_string(&text, string);
        printf("{\"byte\":%d,\"text\":%s}\n", c, bytes);
    }
    zg_text_init(&text, bytes, sizeof bytes);
    zg_text_json_string(&text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa7\x9f");
    printf("{\"text\":%s}\n", bytes);
    char copy[4];
    zg_string_copy(copy, "abcdef", sizeof copy);
    CHECK(strcmp(copy, "abc") == 0, "a copy is cut");
    CHECK(zg_string_equal("", "") && zg_string_equal("a", "a") && !zg_string_equal("a", "ab") &&
              !zg_string_equal("ab", "a"),
          "strings are compared whole");
}

// Every kind of finding, with and without a block, with hostile texts: the line must be JSON with all fields.
static void print_reports(void) {
    static const char path[] = "report.jsonl";
    remove(path);
    setenv("ZGUARD_OPTIONS", "on_finding=continue:report_path=report.jsonl", 1);
    zg_runtime_start();
    static struct zg_finding finding;
    for (int kind = 0; kind < zg_finding_kind_count; kind++)
        for (int with_block = 0; with_block < 2; with_block++) {
            finding = (struct zg_finding){.kind = (enum zg_finding_kind)kind,
                                          .access = "read",
                                          .confidence = "exact",
                                          .address = UINT64_MAX - (uint64_t)kind,
                                          .has_block = with_block};
            finding.block = (struct zg_block_view){.start = 0x1000,
                                                   .size = UINT64_MAX,
                                                   .offset = kind % 2 ? -16 : 16,
                                                   .state = (enum zg_state)(kind % 6),
                                                   .alloc_thread = 65535};
            finding.access_count = kind % 2 ? ZG_STACK_MAX_DEPTH : 1;
            for (int i = 0; i < finding.access_count; i++)
                finding.access_stack[i] = i % 2 ? (uint64_t)print_reports + 1 : 0x1234567 + (uint64_t)i;
            zg_finding_detail_text(&finding, "quote\"and\\",
                                   "line\nfeed\tand\x01"
                                   "control\x7f");
            zg_finding_detail_number(&finding, "number", UINT64_MAX, true);
            zg_report_write(&finding, is_new);
        }
    FILE *report = fopen(path, "r");
    int lines = 0;
    for (int c; report && (c = fgetc(report)) != EOF;) {
        putchar(c);
        lines += c == '\n';
    }
    CHECK_EQUAL(lines, zg_finding_kind_count * 2, "one line a finding");
    if (report) fclose(report);
    remove(path);
}

int main(void) {
    check_options();
    check_text();
    print_reports();
    return check_end();
}
