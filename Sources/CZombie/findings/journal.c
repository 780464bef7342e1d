// The journal: a ring of bytes and one of ends. Under the report lock.

#include "findings/journal.h"

#include "platform/os.h"

enum { BYTES = 256 << 10, LINES = 4096 };

uint32_t zg_journal_word;

static char *bytes;                 // mapped with the first line
static uint64_t starts[LINES], end; // distances from the beginning of time; line i begins at starts[i % LINES]
static uint64_t count, first;

void zg_journal_add(const char *line, uint64_t length) {
    if (!bytes) bytes = zg_os_map(BYTES);
    starts[count % LINES] = end;
    if (bytes && length <= BYTES) {
        for (uint64_t i = 0; i < length; i++) bytes[(end + i) % BYTES] = line[i];
        end += length;
    }
    count++;
    while (first < count && (end - starts[first % LINES] > BYTES || count - first > LINES)) first++;
    __atomic_store_n(&zg_journal_word, (uint32_t)count, __ATOMIC_RELEASE);
    zg_os_futex_wake(&zg_journal_word, INT32_MAX, true);
}

uint64_t zg_journal_count(uint64_t *first_kept) {
    *first_kept = first;
    return count;
}

uint64_t zg_journal_get(uint64_t index, char *text, uint64_t capacity) {
    if (!bytes || index < first || index >= count) return 0;
    uint64_t start = starts[index % LINES], length = (index + 1 < count ? starts[(index + 1) % LINES] : end) - start;
    for (uint64_t i = 0; i < length && length <= capacity; i++) text[i] = bytes[(start + i) % BYTES];
    return length;
}
