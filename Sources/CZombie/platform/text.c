// The bounded text buffer. Any context; takes no lock.

#include "platform/text.h"

void zg_text_init(struct zg_text *text, char *bytes, uint64_t capacity) {
    *text = (struct zg_text){.bytes = bytes, .capacity = capacity};
    bytes[0] = 0;
}

void zg_text_char(struct zg_text *text, char c) {
    if (text->count + 1 >= text->capacity) {
        text->truncated = true;
        return;
    }
    text->bytes[text->count++] = c;
    text->bytes[text->count] = 0;
}

void zg_text_string(struct zg_text *text, const char *string) {
    while (*string) zg_text_char(text, *string++);
}

void zg_text_padded(struct zg_text *text, uint64_t value, int digits) {
    char reversed[20];
    int count = 0;
    do reversed[count++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    for (int i = count; i < digits; i++) zg_text_char(text, '0');
    while (count) zg_text_char(text, reversed[--count]);
}

void zg_text_decimal(struct zg_text *text, uint64_t value) { zg_text_padded(text, value, 1); }

void zg_text_signed(struct zg_text *text, int64_t value) {
    if (value < 0) zg_text_char(text, '-');
    zg_text_decimal(text, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static void put_digit(struct zg_text *text, uint64_t value) { zg_text_char(text, "0123456789abcdef"[value & 15]); }

void zg_text_hex_digits(struct zg_text *text, uint64_t value) {
    int shift = 60;
    while (shift > 0 && !(value >> shift & 15)) shift -= 4;
    for (; shift >= 0; shift -= 4) put_digit(text, value >> shift);
}

void zg_text_hex(struct zg_text *text, uint64_t value) {
    zg_text_string(text, "0x");
    zg_text_hex_digits(text, value);
}

void zg_text_hex_bytes(struct zg_text *text, const uint8_t *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        put_digit(text, bytes[i] >> 4);
        put_digit(text, bytes[i]);
    }
}

void zg_text_json_string(struct zg_text *text, const char *string) {
    zg_text_char(text, '"');
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\') {
            zg_text_char(text, '\\');
            zg_text_char(text, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            zg_text_string(text, "\\u00");
            zg_text_hex_bytes(text, &c, 1);
        } else {
            zg_text_char(text, (char)c);
        }
    }
    zg_text_char(text, '"');
}

void zg_text_visible(struct zg_text *text, const char *string) {
    for (; *string; string++) zg_text_char(text, (unsigned char)*string < 0x20 || *string == 0x7f ? ' ' : *string);
}

void zg_text_json_hex(struct zg_text *text, uint64_t value) {
    zg_text_char(text, '"');
    zg_text_hex(text, value);
    zg_text_char(text, '"');
}

uint64_t zg_string_length(const char *string) {
    uint64_t count = 0;
    while (string[count]) count++;
    return count;
}

bool zg_string_equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

bool zg_string_begins(const char *string, const char *start) {
    while (*start && *string == *start) string++, start++;
    return !*start;
}

const char *zg_string_last_part(const char *path) {
    const char *last = path;
    for (; *path; path++)
        if (*path == '/') last = path + 1;
    return last;
}

void zg_string_copy(char *to, const char *from, uint64_t capacity) {
    uint64_t count = 0;
    for (; count + 1 < capacity && from[count]; count++) to[count] = from[count];
    to[count] = 0;
}
