// Decides whether an exit was caused by an uncaught error, and makes the finding. One thread runs libc's exit handlers.

#include "faults/exit_crash.h"

#include <signal.h>

#include "faults/collector.h"
#include "findings/crash.h"
#include "findings/found.h"
#include "findings/last_text.h"
#include "findings/report.h"
#include "images/module.h"
#include "include/zg_kept_text.h"
#include "platform/os.h"
#include "platform/text.h"
#include "stacks/depot.h"

enum {
    PYTHON_STATUS = 1, // of an uncaught exception
    RUST_STATUS = 101, // what std's lang_start returns for a panic of the main thread
    NODE_ENDS = 2,
    // TriggerUncaughtException has 915 bytes in Node.js 20
    NODE_END_BYTES = 1024,
};

// A thread's last uncaught Python exception, or its last Rust panic, which may still be caught.
struct uncaught {
    int tid; // 0: none
    uint32_t stack;
    uint64_t text_ends; // zg_last_text.ends when the error was noted
};
// `python` and `rust` are about the main thread, which alone decides the status. `rust_in_thread` is the last panic of
// another thread, which the main thread passes on without a message (resume_unwind).
static struct uncaught python, rust, rust_in_thread;
static uint64_t node_ends[NODE_ENDS];
static uint32_t node_end_count;

// Used once, in the thread that runs the exit handlers.
static struct zg_finding finding;
static struct zg_crash crash;
static char text[ZG_KEPT_TEXT_BYTES], message[ZG_KEPT_WORDS_BYTES];
// Function and place "file:line" of the error, as the text has them; empty if unknown.
static char raised_in[256], said_at[1024];

static void note(struct uncaught *place, uint32_t stack) {
    *place = (struct uncaught){zg_os_tid(), stack, zg_load(&zg_last_text.ends)};
}
void zg_exit_crash_note_python(uint32_t stack) {
    if (zg_os_tid() == zg_os_pid()) note(&python, stack);
}
void zg_exit_crash_note_rust(uint32_t stack) {
    static uint32_t is_busy; // another thread panics at the same time: one of the two is enough
    if (zg_os_tid() == zg_os_pid()) {
        note(&rust, stack);
    } else if (!__atomic_exchange_n(&is_busy, 1, __ATOMIC_ACQUIRE)) {
        note(&rust_in_thread, stack);
        __atomic_store_n(&is_busy, 0, __ATOMIC_RELEASE);
    }
}
void zg_exit_crash_add_node_end(uint64_t function) {
    if (function && node_end_count < NODE_ENDS) node_ends[node_end_count++] = function;
}

// Whether libc called exit because main returned: then the frames are libc's up to the program's entry (_start).
// Otherwise the program's code called exit, with a status of its own choice.
static bool main_has_returned(const uint64_t *frames, int count) {
    struct zg_module libc;
    if (!count || !zg_module_find_unwind(frames[0] - 1, &libc)) return false;
    int own = 0;
    while (own < count && frames[own] - libc.start < libc.end - libc.start) own++;
    return own >= count - 1;
}

static bool is_in_node_end(const uint64_t *frames, int count) {
    for (int i = 0; i < count; i++)
        for (uint32_t j = 0; j < node_end_count; j++)
            if (frames[i] - node_ends[j] < NODE_END_BYTES) return true;
    return false;
}

static const char *next_line(const char *line) {
    while (*line && *line != '\n') line++;
    return *line ? line + 1 : line;
}

// Removes colours, which Python 3.13 writes to terminals: ESC [ numbers m.
static void remove_colours(void) {
    char *to = text;
    for (const char *from = text; *from;) {
        if (from[0] == 27 && from[1] == '[') {
            for (from += 2; (*from >= '0' && *from <= '9') || *from == ';';) from++;
            if (*from) from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

static const char *find_in_line(const char *line, const char *wanted) {
    for (; *line && *line != '\n'; line++)
        if (zg_string_begins(line, wanted)) return line;
    return NULL;
}

static void copy_part(char *to, uint64_t capacity, const char *from, const char *end) {
    uint64_t count = zg_min((uint64_t)(end - from), capacity - 1);
    __builtin_memcpy(to, from, count);
    to[count] = 0;
}

// An error counts as raised in the innermost frame of the program and its packages. The language's own library raises
// errors, such as that of a missing file, for all programs in the same functions: its frames count only if there are no
// others.
static bool has_own_frame;

static bool is_python_library(const char *path) {
    const char *at = find_in_line(path, "/lib/python3.");
    return zg_string_begins(path, "<frozen ") || (at && !find_in_line(at, "-packages/"));
}

static bool is_node_builtin(const char *frame) {
    return find_in_line(frame, "(node:") || find_in_line(frame, "at node:") || find_in_line(frame, "(<anonymous>)");
}

// Node.js's name for a function without a name.
static const char unnamed[] = "<anonymous>";

// Notes where the error was raised, from a line of Python's traceback, which has the outermost frame first:
// File "shop.py", line 3, in take
static void note_python_frame(const char *line) {
    static const char file[] = "  File \"", number[] = "\", line ", function[] = ", in ";
    const char *start = line + sizeof file - 1, *end = find_in_line(start, number), *digits, *name;
    if (!end || !(name = find_in_line(end, function))) return;
    if (!is_python_library(start)) has_own_frame = true;
    else if (has_own_frame) return;
    digits = end + sizeof number - 1;
    copy_part(said_at, sizeof said_at - 16, start, end);
    uint64_t count = zg_string_length(said_at);
    said_at[count] = ':';
    copy_part(said_at + count + 1, sizeof said_at - count - 1, digits, name);
    name += sizeof function - 1;
    copy_part(raised_in, sizeof raised_in, name, next_line(name) - 1);
}

// Notes where the error was raised, from a line of Node.js's stack, which has the innermost frame first:
// "    at take (/shop.js:1:21)", or "    at /shop.js:1:21" without a name.
static void note_node_frame(const char *line) {
    if (has_own_frame || (raised_in[0] && is_node_builtin(line))) return;
    has_own_frame = !is_node_builtin(line);
    const char *name = line + 7, *end = next_line(line) - 1, *place = find_in_line(name, " (");
    copy_part(raised_in, sizeof raised_in, place ? name : unnamed, place ? place : unnamed + sizeof unnamed - 1);
    copy_part(said_at, sizeof said_at, place ? place + 2 : name, place && end[-1] == ')' ? end - 1 : end);
    char *colon = NULL; // in front of the column
    for (char *at = said_at; *at; at++)
        if (*at == ':') colon = at;
    if (colon) *colon = 0;
}

// Notes the place of a thrown value, whose stack is unknown.
static void note_node_place(const char *line) {
    copy_part(raised_in, sizeof raised_in, unnamed, unnamed + sizeof unnamed - 1);
    copy_part(said_at, sizeof said_at, line, next_line(line) - 1);
}

static bool ends_node_message(const char *line) {
    return *line == '\n' || zg_string_begins(line, "    at ") || zg_string_begins(line, "(Use `node ");
}

// Copies the text up to `end`, or whole if `end` is NULL, without newlines at its end. False if nothing is left.
static bool copy_message(const char *from, const char *end) {
    uint64_t count = 0;
    while (from[count] && from + count != end && count + 1 < sizeof message) count++;
    while (count && (from[count - 1] == '\n' || from[count - 1] == ' ')) count--;
    __builtin_memcpy(message, from, count);
    message[count] = 0;
    return count;
}

// The exception's type and text follow the frames of the last traceback, whose lines are indented. A group of
// exceptions is drawn as a tree: its own type and text are in the first line "  | Type: text" that is no frame.
static bool find_python_message(void) {
    static const char traceback[] = "Traceback (most recent call last):", group[] = "  + Exception Group Traceback";
    const char *start = text, *line;
    bool is_group = false;
    remove_colours();
    for (line = text; *line; line = next_line(line)) {
        if (zg_string_begins(line, traceback)) start = next_line(line), is_group = false;
        else if (zg_string_begins(line, group) && !is_group) start = next_line(line), is_group = true;
    }
    for (line = start; *line; line = next_line(line)) {
        if (zg_string_begins(line, "  File \"")) note_python_frame(line);
        if (zg_string_begins(line, "  |   File \"")) note_python_frame(line + 4);
        if (is_group && zg_string_begins(line, "  | ") && line[4] != ' ')
            return copy_message(line + 4, next_line(line));
        if (!is_group && *line != ' ' && *line != '\n') return copy_message(line, NULL);
    }
    return false;
}

// Whether a line is the place that Node.js prints above the source line of an error: "/shop.js:22".
static bool is_node_place(const char *line) {
    const char *end = next_line(line) - 1, *at = end;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return at < end && at > line + 1 && at[-1] == ':';
}

// Node.js prints the place, the source line with carets under it, an empty line, the error with its stack, and at last
// its version. A thrown value that is no error has no stack, and no empty line in front.
static bool find_node_message(void) {
    const char *start = NULL, *error = NULL, *end = NULL, *before = text, *place = text;
    for (const char *line = text; *line; place = before, before = line, line = next_line(line)) {
        const char *caret = line;
        while (*caret == ' ' || *caret == '\t') caret++;
        bool is_underlined = *caret == '^';
        while (*caret == '^') caret++;
        bool is_value = is_underlined && !start && zg_string_begins(caret, "\n") && is_node_place(place);
        const char *next = is_underlined && zg_string_begins(caret, "\n\n") ? caret + 2
                           : is_value                                       ? caret + 1
                           : zg_string_begins(line, "Uncaught:\n")          ? next_line(line)
                                                                            : NULL;
        if (next) start = next, end = NULL, raised_in[0] = 0, has_own_frame = false;
        if (is_value) note_node_place(place);
        else if (start && line > start && !end && ends_node_message(line)) end = line;
        if (end && zg_string_begins(line, "    at ")) note_node_frame(line);
        if (zg_string_begins(line, "Node.js v")) error = start;
    }
    return error && copy_message(error, end);
}

static bool find_rust_message(int tid) {
    uint64_t count = zg_kept_writes_get(&zg_last_text, tid, text, sizeof text);
    return zg_kept_message(SIGABRT, false, text, count, message, sizeof message) &&
           zg_string_begins(message, "thread '");
}

// Finds the message of the language runtime that has ended the program. NULL if no runtime did, or its message is
// unknown.
static const struct uncaught *find_cause(int status, const uint64_t *frames, int count) {
    static const struct uncaught in_node;
    int tid = zg_os_tid();
    bool has_returned = tid == zg_os_pid() && main_has_returned(frames, count);
    if (python.tid == tid && status == PYTHON_STATUS && has_returned)
        return zg_last_text_since(python.text_ends, tid, text, sizeof text) && find_python_message() ? &python : NULL;
    if (rust.tid == tid && status == RUST_STATUS && has_returned) {
        // The main thread has written other text since the panic: it caught the panic and continued.
        if (zg_last_text_since(rust.text_ends, tid, text, sizeof text)) return NULL;
        if (find_rust_message(tid)) return &rust;
        return rust_in_thread.tid && find_rust_message(rust_in_thread.tid) ? &rust_in_thread : NULL;
    }
    if (!is_in_node_end(frames, count) || !zg_kept_writes_get(&zg_last_text, tid, text, sizeof text)) return NULL;
    return find_node_message() ? &in_node : NULL;
}

void zg_exit_crash_report(const uint64_t *frame, int status) {
    enum { STATUS_BITS = 0xff };
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    struct zg_registers registers;
    status &= STATUS_BITS;
    if (!status || !(python.tid || rust.tid || node_end_count) || !zg_os_is_own_process()) return;
    zg_collector_caller_registers(&registers, frame);
    int count = zg_unwind_full(&registers, false, frames, ZG_STACK_MAX_DEPTH);
    const struct uncaught *cause = find_cause(status, frames, count);
    if (!cause) return;
    zg_finding_init(&finding, zg_finding_crash, ZG_ACCESS(unknown), 0, NULL);
    finding.fatal = false; // the program ends already
    crash = (struct zg_crash){.status = status, .message = message};
    finding.crash = &crash;
    if (raised_in[0]) {
        zg_finding_detail_text(&finding, "raised_in", raised_in);
        zg_finding_detail_text(&finding, "said_at", said_at);
    }
    finding.access_count = cause->stack ? zg_depot_get(cause->stack, finding.access_stack, ZG_STACK_MAX_DEPTH) : 0;
    if (!finding.access_count) {
        finding.access_count = count;
        for (int i = 0; i < count; i++) finding.access_stack[i] = frames[i];
    }
    if (zg_found_report(&finding)) zg_report_complete(&finding, true);
}
