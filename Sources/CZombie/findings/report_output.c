// The outputs: what was opened, whether it still is that, and lines written to it. A line goes out with one write call where the
// kernel takes it whole, otherwise piece by piece; one that could be written in part only is ended before the next one begins.
// Cold and signal context; takes no lock.

#define _GNU_SOURCE
#include "findings/report_output.h"

#include <errno.h>

#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/stats.h"

// What was opened, and as which file: a number may be another file by now, one of the program's.
struct output {
    int descriptor; // -1: none
    uint64_t device, inode;
    bool is_cut; // what was written last is a part of a line
};
static struct output report_output = {.descriptor = -1}, error_output = {.descriptor = -1};
// Number 2, as it was at the start.
static struct output standard_error = {.descriptor = -1};
// Begins with the end of the line before.
static char line[128 << 10];

enum { BESIDE_BYTES = ZG_OPTION_PATH_BYTES + 32 + 16 };

static bool path_names_process(void) {
    for (const char *at = zg_config.report_path; *at; at++)
        if (at[0] == '%' && at[1] == 'p') return true;
    return false;
}

static void expand_path(struct zg_text *path) {
    for (const char *at = zg_config.report_path; *at; at++) {
        if (at[0] == '%' && at[1] == 'p') {
            zg_text_decimal(path, (uint64_t)zg_os_pid());
            at++;
        } else {
            zg_text_char(path, *at);
        }
    }
}

// Opened anew where the program closed it (daemons close all descriptors). The lowest free number, which is the program's.
static int open_path(void) {
    char bytes[ZG_OPTION_PATH_BYTES + 32];
    struct zg_text path;
    zg_text_init(&path, bytes, sizeof bytes);
    expand_path(&path);
    return zg_os_open_append(bytes);
}

static struct output output_of(int opened) {
    struct output output = {.descriptor = opened};
    if (opened >= 0 && !zg_os_identify(opened, &output.device, &output.inode)) {
        zg_os_close(opened);
        output.descriptor = -1;
    }
    return output;
}

static struct output output_out_of_the_way(int opened) {
    return output_of(opened < 0 ? opened : zg_os_hide_descriptor(opened));
}

static bool is_same(const struct output *output) {
    uint64_t device, inode;
    return output->descriptor >= 0 && zg_os_identify(output->descriptor, &device, &inode) && device == output->device &&
           inode == output->inode;
}

// What a program leaves running, such as a daemon, goes on starting guarded programs after `zguard run` has ended and its
// directory, zguard.XXXXXX, has gone. That is nothing to tell whoever uses them.
static bool is_of_run(void) {
    static const char name[] = "/zguard.XXXXXX/findings";
    const char *path = zg_config.report_path;
    size_t length = zg_string_length(path), own = sizeof name - 1;
    if (length < own) return false;
    for (size_t i = 0; i < own; i++)
        if (name[i] != 'X' && name[i] != path[length - own + i]) return false;
    return true;
}
static bool is_of_ended_run(int opened) { return opened == -ENOENT && is_of_run(); }

static void say_not_opened(int error) {
    char message[ZG_OPTION_PATH_BYTES + 128];
    struct zg_text text;
    zg_text_init(&text, message, sizeof message);
    zg_text_string(&text, "zguard: warning: cannot open report '");
    zg_text_string(&text, zg_config.report_path);
    zg_text_string(&text, "' (error ");
    zg_text_decimal(&text, (uint64_t)-error);
    zg_text_string(&text, "): findings go to standard error\n");
    zg_os_write(2, message, text.count);
}

void zg_report_open(void) {
    if (zg_os_identify(2, &standard_error.device, &standard_error.inode))
        standard_error.descriptor = 2; // the program's own
    if (zg_config.report_path[0]) {
        int opened = open_path();
        report_output = output_out_of_the_way(opened);
        if (opened >= 0) return; // where it cannot be kept open it is opened for each finding
        zg_stats_degrade(zg_degradation_no_report);
        if (!is_of_ended_run(opened)) say_not_opened(opened);
    }
    error_output = output_of(zg_os_duplicate_hidden(2));
}

void zg_report_after_fork_in_child(void) {
    // Each process writes its own file where the path says so; the parent's descriptor is shared otherwise.
    if (report_output.descriptor >= 0 && path_names_process()) {
        int opened = open_path();
        if (opened >= 0) report_output = output_out_of_the_way(opened);
    }
}

int zg_report_descriptors(int descriptors[2]) {
    int count = 0;
    if (is_same(&report_output)) descriptors[count++] = report_output.descriptor;
    if (is_same(&error_output)) descriptors[count++] = error_output.descriptor;
    return count;
}

// A pipe that is full is waited for, but not for long: its reader may be this process.
static void wait_for_reader(void) {
    uint32_t word = 0;
    zg_os_futex_wait(&word, 0, true, 1000000);
}

// Returns how much could be written.
static uint64_t write_pieces(int descriptor, const char *bytes, uint64_t count) {
    enum { WAITS_MOST = 100 };
    uint64_t written = 0;
    for (int waits = 0; written < count;) {
        int result = zg_os_write(descriptor, bytes + written, count - written);
        if (result > 0) written += (uint64_t)result;
        else if (result == -EAGAIN && waits++ < WAITS_MOST) wait_for_reader();
        else break;
    }
    return written;
}

// `text` lies in `line`, behind its first byte.
static bool write_line(struct output *output, int descriptor, const struct zg_text *text) {
    uint64_t before = output->is_cut, count = text->count + before;
    uint64_t written = write_pieces(descriptor, text->bytes - before, count);
    if (written) output->is_cut = written > before && written < count;
    if (output->is_cut) output->is_cut = write_pieces(descriptor, "\n", 1) != 1;
    return written == count;
}

// How many lines the run had with the last of ours.
static uint64_t written;

static bool count_written(bool is_whole) {
    if (is_whole && zg_coverage_run) written = __atomic_add_fetch(&zg_coverage_run->written, 1, __ATOMIC_ACQ_REL);
    return is_whole;
}

bool zg_report_write_to_path(const struct zg_text *text) {
    if (is_same(&report_output) && write_line(&report_output, report_output.descriptor, text))
        return count_written(true);
    // Opened once more, and kept where that can be had.
    int opened = open_path();
    if (opened < 0) return false;
    if (report_output.descriptor >= 0 && is_same(&report_output)) zg_os_close(report_output.descriptor);
    struct output before = report_output;
    int kept = zg_os_duplicate_hidden(opened);
    report_output = output_of(kept);
    bool is_same_file = report_output.device == before.device && report_output.inode == before.inode;
    report_output.is_cut = before.is_cut && (is_same_file || report_output.descriptor < 0);
    bool is_whole = write_line(&report_output, opened, text);
    zg_os_close(opened);
    return count_written(is_whole);
}

void zg_report_wait_until_shown(void) {
    const int64_t longest = INT64_C(3000000000), step = 5000000;
    static uint32_t nobody;
    if (!zg_coverage_run || !written) return;
    // zguard looks five times in a second; nobody wakes us.
    for (int64_t waited = 0; waited < longest && zg_load(&zg_coverage_run->shown) < written; waited += step)
        zg_os_futex_wait(&nobody, 0, true, step);
}

// A file beside the report of a run. False: it is not one's.
static bool beside_report(char bytes[BESIDE_BYTES], const char *suffix) {
    if (!is_of_run()) return false;
    struct zg_text path;
    zg_text_init(&path, bytes, BESIDE_BYTES);
    expand_path(&path);
    zg_text_string(&path, suffix);
    return !path.truncated;
}

// The size of a file beside the report counts, downwards, what `zguard run` is to say of at the end (CountingFile.swift).
void zg_report_note_unwritten(void) {
    char path[BESIDE_BYTES];
    if (beside_report(path, ".unwritten")) zg_os_shorten(path);
}

// So does another one for processes that cannot tell the run what they watched (zg_coverage.h).
void zg_report_note_untold(void) {
    char path[BESIDE_BYTES];
    if (beside_report(path, ZG_COVERAGE_UNTOLD_SUFFIX)) zg_os_shorten(path);
}

void zg_report_open_coverage(void) {
    char path[BESIDE_BYTES];
    if (beside_report(path, ZG_COVERAGE_SUFFIX) && !zg_coverage_open(path)) zg_report_note_untold();
}

bool zg_report_wake_collector(void) {
    char path[BESIDE_BYTES];
    return !beside_report(path, ZG_COLLECTOR_SUFFIX) || zg_os_poke(path);
}

// Number 2 may be a file of the program's by now: a daemon closes what it was, and the next file takes the place. NULL then.
static struct output *find_error_output(void) {
    return is_same(&error_output) ? &error_output : is_same(&standard_error) ? &standard_error : NULL;
}

bool zg_report_write_to_standard_error(const struct zg_text *text) {
    struct output *output = find_error_output();
    return output && write_line(output, output->descriptor, text);
}

void zg_report_say(const char *bytes, uint64_t count) {
    const struct output *output = find_error_output();
    if (output) write_pieces(output->descriptor, bytes, count);
}

void zg_report_begin_line(struct zg_text *text) {
    line[0] = '\n';
    zg_text_init(text, line + 1, sizeof line - 1);
}
