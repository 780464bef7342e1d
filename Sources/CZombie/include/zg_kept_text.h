// What the runtime keeps of words: the lines of its own report, what the program wrote to standard error, what it noted of itself. Readers of
// core files find them through struct zg_layout_kept (zg_stats_page.h). The functions have no state; any context.

#ifndef ZG_KEPT_TEXT_H
#define ZG_KEPT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

// Lines in a ring of bytes: line i begins `starts[i % start_count]` bytes behind the first byte ever.
struct zg_kept_lines {
    uint64_t text, starts; // addresses; no text: no line yet
    uint64_t count, end;   // lines ever, bytes ever
    uint32_t text_bytes, start_count;
};

// Rust writes a backtrace behind what it has to say, in two thousand pieces; each takes 16 bytes more. So much text is looked at, and so many
// bytes are the words of an end.
enum { ZG_KEPT_WRITES_BYTES = 131072, ZG_KEPT_TEXT_BYTES = 32768, ZG_KEPT_WORDS_BYTES = 2048 };
// Records of what threads wrote to standard error (findings/last_text.c).
struct zg_kept_writes {
    uint64_t ends; // the newest record's beginning << 32 | its end
    char ring[ZG_KEPT_WRITES_BYTES] __attribute__((aligned(8)));
};

enum { ZG_ANNOTATIONS = 32, ZG_ANNOTATION_KEY_BYTES = 32, ZG_ANNOTATION_VALUE_BYTES = 224 };
struct zg_annotation {
    uint32_t changes; // odd while it is written
    char key[ZG_ANNOTATION_KEY_BYTES], value[ZG_ANNOTATION_VALUE_BYTES];
    bool is_there;
};

// What this thread wrote, in its order, cut off in front where it does not fit; with a NUL. Returns the bytes without it.
uint64_t zg_kept_writes_get(const struct zg_kept_writes *writes, int tid, char *text, uint64_t capacity);
// The reason for this signal out of a thread's last writes, without newlines at its end; false where none is there. `is_own`: the process has
// raised the signal itself.
bool zg_kept_words(int signal, bool is_own, const char *text, uint64_t count, char *message, uint64_t capacity);

#endif
