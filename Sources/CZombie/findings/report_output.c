// Writes lines to the report outputs. A line takes one write call if the kernel accepts it whole, otherwise several. A
// line that was written only in part is terminated before the next one.
// A pipe or socket that is not read delays the program by at most 0.1 s in total until it is read again.
// Cold and signal context; takes no lock.

#define _GNU_SOURCE
#include "findings/report_output.h"

#include <errno.h>

#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/run_directory.h"
#include "settings/stats.h"

// An open output and the file it refers to: the program may have reused the descriptor number for another file.
struct output {
    int descriptor; // -1 if none
    uint64_t device, inode;
    bool may_block;    // a pipe or socket: its reader decides when a write returns
    bool is_cut;       // the last line was written only in part
    int64_t waited_ns; // time spent waiting for the reader since the last successful write
};
static struct output report_output = {.descriptor = -1}, error_output = {.descriptor = -1};
// Descriptor 2 as it was at start-up
static struct output standard_error = {.descriptor = -1};
// The line buffer. Byte 0 is a newline, to terminate a partly written line.
static char line[128 << 10];

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

static bool is_own_file; // true if only this process writes the report file
// Opens the report at the lowest free number. Also used to reopen it after the program has closed it (daemons close all
// descriptors).
static int open_path(void) {
    if (zg_run_is_named()) return zg_run_open_findings(&is_own_file);
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
    output.may_block = output.descriptor >= 0 && zg_os_may_block(opened);
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

static void say_not_opened(int error) {
    char message[ZG_OPTION_PATH_BYTES + 128];
    struct zg_text text;
    zg_text_init(&text, message, sizeof message);
    if (zg_run_is_named()) { // the run's path is secret
        zg_text_string(&text, "zguard: warning: cannot open the report of the run (error ");
    } else {
        zg_text_string(&text, "zguard: warning: cannot open report '");
        zg_text_string(&text, zg_config.report_path);
        zg_text_string(&text, "' (error ");
    }
    zg_text_decimal(&text, (uint64_t)-error);
    zg_text_string(&text, "): findings go to standard error\n");
    zg_os_write(2, message, text.count);
}

void zg_report_open(void) {
    if (zg_os_identify(2, &standard_error.device, &standard_error.inode)) {
        standard_error.descriptor = 2; // writes to the program's own descriptor
        standard_error.may_block = zg_os_may_block(2);
    }
    if (zg_config.report_path[0]) {
        int opened = open_path();
        report_output = output_out_of_the_way(opened);
        if (opened >= 0) return; // if the report cannot be kept open, it is opened for each finding
        zg_stats_degrade(zg_degradation_no_report);
        // Do not warn if the run is over: a daemon that survives the run may go on starting guarded programs, whose
        // users know nothing of the run. EMFILE may have passed by the time of the first finding.
        if (opened != -EMFILE && (opened != -ENOENT || !zg_run_is_named())) say_not_opened(opened);
    }
    error_output = output_of(zg_os_duplicate_hidden(2));
}

void zg_report_after_fork_in_child(void) {
    // With %p each process writes its own file; otherwise it shares the parent's descriptor.
    if (report_output.descriptor >= 0 && path_names_process()) {
        int opened = open_path();
        if (opened >= 0) report_output = output_out_of_the_way(opened);
    }
}

void zg_report_change_file(void) {
    if (is_own_file) return;
    int opened = open_path();
    if (opened < 0) return;
    struct output own = output_out_of_the_way(opened);
    if (own.descriptor < 0) return;
    if (is_same(&report_output)) zg_os_close(report_output.descriptor);
    report_output = own;
}

int zg_report_descriptors(int descriptors[2]) {
    int count = 0;
    if (is_same(&report_output)) descriptors[count++] = report_output.descriptor;
    if (is_same(&error_output)) descriptors[count++] = error_output.descriptor;
    return count;
}

enum { READER_STEP_NS = 5000000, READER_LONGEST_NS = 100000000 };

// Waits until a pipe or socket is writable. Its reader may be this same process, so the wait has a limit: returns false
// after the longest wait.
static bool wait_for_reader(struct output *output, int descriptor) {
    while (!zg_os_is_writable(descriptor, 0)) {
        if (output->waited_ns >= READER_LONGEST_NS) return false;
        zg_os_is_writable(descriptor, READER_STEP_NS);
        output->waited_ns += READER_STEP_NS;
    }
    return true;
}

// Returns the number of bytes written.
static uint64_t write_pieces(struct output *output, int descriptor, const char *bytes, uint64_t count) {
    // A writable pipe accepts PIPE_BUF bytes without blocking (pipe(7)).
    const uint64_t most = output->may_block ? 4096 : count;
    uint64_t written = 0;
    while (written < count) {
        if (output->may_block && !wait_for_reader(output, descriptor)) break;
        int result = zg_os_write(descriptor, bytes + written, zg_min(most, count - written));
        if (result > 0) {
            written += (uint64_t)result;
            output->waited_ns = 0;
            continue;
        }
        // A writable pipe may still refuse a whole piece, or another process may have filled it meanwhile.
        if (result != -EAGAIN || !output->may_block || output->waited_ns >= READER_LONGEST_NS) break;
        static uint32_t nobody;
        zg_os_futex_wait(&nobody, 0, true, READER_STEP_NS);
        output->waited_ns += READER_STEP_NS;
    }
    return written;
}

// Writes `text`, which begins at byte 1 of `line`.
static bool write_line(struct output *output, int descriptor, const struct zg_text *text) {
    uint64_t before = output->is_cut, count = text->count + before;
    uint64_t written = write_pieces(output, descriptor, text->bytes - before, count);
    if (written) output->is_cut = written > before && written < count;
    if (output->is_cut) output->is_cut = write_pieces(output, descriptor, "\n", 1) != 1;
    return written == count;
}

// The run's line count when this process wrote its last line
static uint64_t written;

static bool count_written(bool is_whole) {
    if (is_whole && zg_coverage_run_page)
        written = __atomic_add_fetch(&zg_coverage_run_page->written, 1, __ATOMIC_ACQ_REL);
    return is_whole;
}

bool zg_report_write_to_path(const struct zg_text *text) {
    if (is_same(&report_output)) {
        if (write_line(&report_output, report_output.descriptor, text)) return count_written(true);
        if (report_output.may_block) return false; // no reader; reopening a pipe or socket would not help
    }
    // Reopen the report, and keep a hidden descriptor if possible.
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
    if (!zg_coverage_run_page || !written) return;
    // zguard looks for new lines five times a second, and does not wake this thread.
    for (int64_t waited = 0; waited < longest && zg_load(&zg_coverage_run_page->shown) < written; waited += step)
        zg_os_futex_wait(&nobody, 0, true, step);
}

void zg_report_open_coverage(void) {
    if (zg_run_is_named() && !zg_coverage_open(zg_run_open_page(ZG_COVERAGE_BYTES))) zg_run_count_unmapped();
}

bool zg_report_is_read(void) {
    static const struct zg_run_message wrote = {.kind = zg_message_wrote};
    return zg_run_send(&wrote) != zg_run_is_over;
}

// Returns the output for standard error. NULL if descriptor 2 is another file now: a daemon closes descriptor 2, and
// the next open gets that number.
static struct output *find_error_output(void) {
    return is_same(&error_output) ? &error_output : is_same(&standard_error) ? &standard_error : NULL;
}

bool zg_report_write_to_standard_error(const struct zg_text *text) {
    struct output *output = find_error_output();
    return output && write_line(output, output->descriptor, text);
}

void zg_report_emit(const char *bytes, uint64_t count) {
    struct output *output = find_error_output();
    if (output) write_pieces(output, output->descriptor, bytes, count);
}

void zg_report_begin_line(struct zg_text *text) {
    line[0] = '\n';
    zg_text_init(text, line + 1, sizeof line - 1);
}
