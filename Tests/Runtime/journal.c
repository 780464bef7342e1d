// Journal: lines are read as they were written, and a new line displaces as many of the oldest lines as it needs.
// link: runtime

#include <string.h>

#include "check.h"
#include "findings/journal.h"

enum { BYTES = 256 << 10, LINES = 4096 };

static uint64_t length_of(uint64_t line, uint64_t longest) { return line * UINT64_C(0x9e3779b97f4a7c15) % longest + 1; }
static char letter_of(uint64_t line) { return (char)('a' + line % 26); }

static uint64_t written;

static void add(uint64_t length) {
    static char text[BYTES];
    memset(text, letter_of(written), length);
    zg_journal_add(text, length);
    written++;
}

// Checks that every line which the journal still has is complete.
static void check_kept(uint64_t longest) {
    static char text[BYTES];
    uint64_t first, count = zg_journal_count(&first), bytes = 0;
    CHECK_EQUAL(count, written, "all lines are counted");
    bool whole = true;
    for (uint64_t i = first; i < count; i++) {
        uint64_t length = zg_journal_get(i, text, sizeof text);
        whole = whole && length == length_of(i, longest);
        for (uint64_t j = 0; j < length; j++) whole = whole && text[j] == letter_of(i);
        bytes += length;
    }
    CHECK(whole, "what is kept is as it was written");
    CHECK(count - first <= LINES && bytes <= BYTES, "no more than there is room for");
    if (first) CHECK(!zg_journal_get(first - 1, text, sizeof text), "what made room is gone");
}

int main(void) {
    uint64_t first;
    // Short lines: the number of lines is the limit.
    while (written < 2 * LINES) add(length_of(written, 20));
    check_kept(20);
    zg_journal_count(&first);
    CHECK_EQUAL(written - first, LINES, "as many lines as there are places");
    // A long line takes the room of many short lines.
    uint64_t longest = 60 << 10;
    for (int i = 0; i < 200; i++) {
        add(length_of(written, longest));
        if (zg_journal_count(&first) && first >= 2 * LINES) check_kept(longest);
    }
    zg_journal_count(&first);
    CHECK(written - first >= 4 && written - first < 100, "a few long lines are kept");
    return check_end();
}
