// Reads the file of focused stacks into a sorted table, and searches the table.

#define _GNU_SOURCE
#include "stacks/focus.h"

#include <fcntl.h>

#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/identity.h"

bool zg_focus_is_on;

// Identities of the focused stacks, sorted. Without the option `focus`, these pages stay untouched and take no memory.
static uint64_t identities[ZG_RUN_FOCUS_MOST];
static uint8_t placements[ZG_RUN_FOCUS_MOST];
static uint32_t count;

static uint32_t place_of(uint64_t identity) { return (uint32_t)zg_identity_place(identities, count, identity); }

static void add(uint64_t identity, enum zg_focus placement) {
    uint32_t place = place_of(identity);
    bool is_known = place < count && identities[place] == identity;
    if (!is_known && count == ZG_RUN_FOCUS_MOST) return;
    for (uint32_t i = count; !is_known && i > place; i--) {
        identities[i] = identities[i - 1];
        placements[i] = placements[i - 1];
    }
    count += !is_known;
    identities[place] = identity;
    placements[place] = (uint8_t)placement;
}

static int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static enum zg_focus placement_of(char c) {
    static const char letters[] = ZG_RUN_FOCUS_LETTERS;
    for (int i = 1; letters[i]; i++)
        if (letters[i] == c) return (enum zg_focus)i;
    return zg_focus_none;
}

// State of the reader: digits of the current line, and their value
struct line {
    uint64_t identity;
    int digits;
};

// Reads a line: the identity in 16 hexadecimal digits, and a letter. Skips lines of any other form.
static void read_char(struct line *line, char c) {
    enum { DIGITS = 16 };
    int digit = digit_of(c);
    if (line->digits < DIGITS && digit >= 0) {
        line->identity = line->identity << 4 | (uint64_t)digit;
        line->digits++;
        return;
    }
    enum zg_focus placement = placement_of(c);
    if (line->digits == DIGITS && placement != zg_focus_none) add(line->identity, placement);
    // Skip the rest of the line.
    *line = (struct line){0, c == '\n' ? 0 : DIGITS + 1};
}

void zg_focus_init(void) {
    if (!zg_config.focus[0]) return;
    // The directory of a run may be gone and replaced by another user's, if this process was started by a daemon that
    // outlives the run: do not wait for a FIFO, and do not read without end.
    enum { LINE_BYTES = 18, BYTES_MOST = ZG_RUN_FOCUS_MOST * LINE_BYTES };
    int file = zg_os_open_program(AT_FDCWD, zg_config.focus), got = -1;
    char bytes[512];
    struct line line = {0};
    for (int left = BYTES_MOST; file >= 0 && left > 0 && (got = zg_os_read(file, bytes, sizeof bytes)) > 0; left -= got)
        for (int i = 0; i < got; i++) read_char(&line, bytes[i]);
    if (file >= 0) zg_os_close(file);
    if (got < 0) zg_stats_degrade(zg_degradation_no_focus);
    zg_focus_is_on = count != 0;
    if (zg_focus_is_on) zg_config.stack_overhead = ZG_NO_LIMIT_PERCENT;
}

enum zg_focus zg_focus_of(uint32_t stack) {
    uint64_t parts[ZG_IDENTITY_FRAMES];
    for (int i = zg_stack_identities(stack, parts); i > 0; i--) {
        uint32_t place = place_of(parts[i - 1]);
        if (place < count && identities[place] == parts[i - 1]) return (enum zg_focus)placements[place];
    }
    return zg_focus_none;
}
