// Text that a process stores in its memory for crash reports: the runtime's report lines, the program's output to
// standard error, its annotations.
// Readers of core files find the text through struct zg_layout_kept (zg_stats_page.h). The functions have no state; any
// context.

#ifndef ZG_KEPT_TEXT_H
#define ZG_KEPT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

// A ring buffer of lines. Line i begins starts[i % start_count] bytes behind the first byte ever written.
struct zg_kept_lines {
    uint64_t text, starts; // addresses; text 0: no line yet
    uint64_t count, end;   // lines and bytes ever written
    uint32_t text_bytes, start_count;
};

// The ring must hold the backtrace that a panicking Rust program writes behind its message: about 2000 pieces, each
// with a record of 16 bytes. ZG_KEPT_TEXT_BYTES: length of a thread's text in which a message is searched.
// ZG_KEPT_WORDS_BYTES: length of the message.
enum { ZG_KEPT_WRITES_BYTES = 131072, ZG_KEPT_TEXT_BYTES = 32768, ZG_KEPT_WORDS_BYTES = 2048 };
// Ring buffer of records: what threads wrote to standard error (findings/last_text.c).
struct zg_kept_writes {
    uint64_t ends; // newest record: start << 32 | end
    char ring[ZG_KEPT_WRITES_BYTES] __attribute__((aligned(8)));
};

enum { ZG_ANNOTATIONS = 32, ZG_ANNOTATION_KEY_BYTES = 32, ZG_ANNOTATION_VALUE_BYTES = 224 };
struct zg_annotation {
    uint32_t changes; // seqlock: odd while written
    char key[ZG_ANNOTATION_KEY_BYTES], value[ZG_ANNOTATION_VALUE_BYTES];
    bool is_there;
};

// Copies the text that the thread `tid` wrote, in order, and terminates it by a NUL. Drops the oldest bytes if the text
// does not fit. Returns the number of bytes without the NUL.
uint64_t zg_kept_writes_get(const struct zg_kept_writes *writes, int tid, char *text, uint64_t capacity);
// Finds the message that explains `signal` in a thread's last writes, and copies it without newlines at its end. False
// if there is none. `is_own`: the process raised the signal itself.
bool zg_kept_message(int signal, bool is_own, const char *text, uint64_t count, char *message, uint64_t capacity);

#endif
