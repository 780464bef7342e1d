// The journal: a ring buffer of text and a ring of line starts. Under the report lock.

#include "findings/journal.h"

#include "platform/os.h"

enum { BYTES = 256 << 10, LINES = 4096 };

uint32_t zg_journal_word;

struct zg_kept_lines zg_journal = {.text_bytes = BYTES, .start_count = LINES};

static char *bytes; // mapped at the first line
static uint64_t starts[LINES], first;

void zg_journal_add(const char *line, uint64_t length) {
    if (!bytes) bytes = zg_os_map(BYTES);
    zg_journal.text = (uint64_t)bytes;
    zg_journal.starts = (uint64_t)starts;
    starts[zg_journal.count % LINES] = zg_journal.end;
    if (bytes && length <= BYTES) {
        for (uint64_t i = 0; i < length; i++) bytes[(zg_journal.end + i) % BYTES] = line[i];
        zg_journal.end += length;
    }
    zg_journal.count++;
    while (first < zg_journal.count &&
           (zg_journal.end - starts[first % LINES] > BYTES || zg_journal.count - first > LINES))
        first++;
    __atomic_store_n(&zg_journal_word, (uint32_t)zg_journal.count, __ATOMIC_RELEASE);
    zg_os_futex_wake(&zg_journal_word, INT32_MAX, true);
}

uint64_t zg_journal_count(uint64_t *first_kept) {
    *first_kept = first;
    return zg_journal.count;
}

uint64_t zg_journal_get(uint64_t index, char *text, uint64_t capacity) {
    if (!bytes || index < first || index >= zg_journal.count) return 0;
    uint64_t start = starts[index % LINES];
    uint64_t length = (index + 1 < zg_journal.count ? starts[(index + 1) % LINES] : zg_journal.end) - start;
    for (uint64_t i = 0; i < length && length <= capacity; i++) text[i] = bytes[(start + i) % BYTES];
    return length;
}
