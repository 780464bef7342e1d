// Finds the message of a crash: libc keeps the message of its own aborts in memory, all others were written to standard
// error. Signal context; no lock.

#define _GNU_SOURCE
#include "faults/crash_message.h"

#include <signal.h>

#include "findings/last_text.h"
#include "images/loader.h"
#include "platform/os.h"
#include "platform/text.h"

// glibc's abort_msg_s, to which __abort_msg points: the message of assert, malloc, or a fortified function.
struct abort_text {
    uint32_t bytes;
    char text[];
};
static struct abort_text **libcs_text;

void zg_crash_message_start(void) { libcs_text = zg_loader_first("__abort_msg"); }

static bool read_libcs(char *message, uint64_t capacity) {
    struct abort_text *text;
    if (!libcs_text || zg_os_read_memory(&text, (uint64_t)libcs_text, sizeof text) != sizeof text || !text)
        return false;
    uint64_t got = zg_os_read_memory(message, (uint64_t)text + offsetof(struct abort_text, text), capacity - 1);
    message[got] = 0;
    return message[0] != 0;
}

// Whether a line begins a language runtime's message about a fatal error.
static bool is_beginning(const char *line) {
    static const char *const starts[] = {
        "terminate called ", "libc++abi: ",   "pure virtual method called", "thread '",  "panic: ",
        "fatal error: ",     "Fatal error: ", "Fatal access conflict",      "Object 0x", "Fatal Python error: "};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(starts); i++)
        if (zg_string_begins(line, starts[i])) return true;
    // Swift can put the source location first: "Shop/Cart.swift:12: Fatal error: Index out of range". Rust since 1.83
    // adds the thread's id: "thread 'main' (123) panicked at …".
    for (; *line && *line != '\n'; line++)
        if (zg_string_begins(line, ": Fatal error: ") || zg_string_begins(line, ": Fatal error\n") ||
            zg_string_begins(line, ": Assertion failed") || zg_string_begins(line, ": Precondition failed"))
            return true;
    return false;
}

static const char *next_line(const char *line) {
    while (*line && *line != '\n') line++;
    return *line ? line + 1 : line;
}

// Whether `line` continues the message that begins at `beginning`: after a pure virtual call, std::terminate writes
// another line, and Rust panics a second time at a function that must not unwind.
static bool continues_message(const char *beginning, const char *line) {
    if (zg_string_begins(line, "terminate called ")) return zg_string_begins(beginning, "pure virtual");
    if (!zg_string_begins(line, "thread '") || !zg_string_begins(beginning, "thread '")) return false;
    const char *what = next_line(line);
    return zg_string_begins(what, "panic in a function that cannot unwind") ||
           zg_string_begins(what, "panic in a destructor during cleanup");
}

// Returns the last message of a language runtime, with all text behind it. If there is no such message and the program
// raised the signal itself (`is_own`), returns the last line. Otherwise returns NULL.
static const char *find_message(const char *text, uint64_t count, bool is_own) {
    const char *line = text, *last = NULL, *beginning = NULL;
    for (uint64_t i = 0; i < count; i++) {
        if (i && text[i - 1] != '\n') continue;
        line = text + i;
        if (*line == '\n') continue;
        last = line;
        if (is_beginning(line)) {
            if (!beginning || !continues_message(beginning, line)) beginning = line;
        }
    }
    return beginning ? beginning : is_own ? last : NULL;
}

static void drop_end(char *message) {
    for (uint64_t end = zg_string_length(message); end && message[end - 1] == '\n'; end--) message[end - 1] = 0;
}

// Whether the line is a heading or a hint of Rust's backtrace. Such lines are dropped, because the report has the
// stack.
static bool is_about_backtrace(const char *line) {
    return zg_string_begins(line, "stack backtrace:\n") || zg_string_begins(line, "note: run with `RUST_BACKTRACE=") ||
           zg_string_begins(line, "note: Some details are omitted, run with `RUST_BACKTRACE=");
}

static void copy_message(const char *words, char *message, uint64_t capacity) {
    uint64_t written = 0;
    bool in_backtrace = false, is_dropped = false;
    for (const char *line = words, *next; *line && written + 1 < capacity; line = next) {
        next = next_line(line);
        if (zg_string_begins(line, "stack backtrace:\n")) in_backtrace = true;
        else if (*line != ' ') in_backtrace = false; // a backtrace's frames are indented
        is_dropped = in_backtrace || is_about_backtrace(line) || (is_dropped && *line == '\n');
        if (is_dropped) continue;
        for (; line < next && written + 1 < capacity; line++) message[written++] = *line;
    }
    message[written] = 0;
    drop_end(message);
}

bool zg_kept_message(int signal, bool is_own, const char *text, uint64_t count, char *message, uint64_t capacity) {
    // Faults have no message: earlier output is unrelated to them.
    if (signal != SIGABRT && signal != SIGILL && signal != SIGTRAP) return false;
    const char *words = find_message(text, count, is_own && signal == SIGABRT);
    if (words) copy_message(words, message, capacity);
    return words && message[0];
}

bool zg_crash_message_find(int signal, bool is_own, char *message, uint64_t capacity) {
    static char text[ZG_KEPT_TEXT_BYTES]; // used by one crash at a time
    if (signal == SIGABRT && is_own && read_libcs(message, capacity)) {
        drop_end(message);
        return true;
    }
    uint64_t count = zg_kept_writes_get(&zg_last_text, zg_os_tid(), text, sizeof text);
    return zg_kept_message(signal, is_own, text, count, message, capacity);
}
