// A bounded text buffer that formats like printf, without libc, locale, or allocation. Also small string helpers.
// Any context.

#ifndef ZG_TEXT_H
#define ZG_TEXT_H

#include "platform/base.h"

struct zg_text {
    char *bytes;
    uint64_t capacity; // at least 1; the buffer always ends with a NUL
    uint64_t count;    // without the NUL
    bool truncated;
};

void zg_text_init(struct zg_text *text, char *bytes, uint64_t capacity);
void zg_text_char(struct zg_text *text, char c);
void zg_text_string(struct zg_text *text, const char *string);
void zg_text_decimal(struct zg_text *text, uint64_t value);
void zg_text_signed(struct zg_text *text, int64_t value);
void zg_text_padded(struct zg_text *text, uint64_t value, int digits);
void zg_text_hex(struct zg_text *text, uint64_t value);        // "0x1f"
void zg_text_hex_digits(struct zg_text *text, uint64_t value); // "1f"
// Appends two hexadecimal digits for each byte.
void zg_text_hex_bytes(struct zg_text *text, const uint8_t *bytes, uint64_t count);
// Appends a quoted JSON string: escapes control characters and quotes, and keeps bytes over 0x7f.
void zg_text_json_string(struct zg_text *text, const char *string);
// Appends a string on one line: replaces control characters by blanks.
void zg_text_visible(struct zg_text *text, const char *string);
void zg_text_json_hex(struct zg_text *text, uint64_t value); // "\"0x1f\""

uint64_t zg_string_length(const char *string);
bool zg_string_equal(const char *a, const char *b);
bool zg_string_begins(const char *string, const char *start);
// Returns the part of a path behind its last slash.
const char *zg_string_last_part(const char *path);
// Copies at most capacity - 1 bytes and a NUL.
void zg_string_copy(char *to, const char *from, uint64_t capacity);

#endif
