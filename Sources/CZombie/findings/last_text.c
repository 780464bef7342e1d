// A lock-free ring of records. A writer reserves space by one compare-and-swap, which also works if it interrupts
// another writer, and completes its record with its last store. A reader walks backwards from the newest record, skips
// incomplete ones and stops at an overwritten one.

#include "findings/last_text.h"

#include "platform/os.h"

enum { RING_BYTES = ZG_KEPT_WRITES_BYTES, MOST_BYTES = 1000, NO_TID = 0 };

// Records start at multiples of 8 bytes. Positions are byte counts since the first record, modulo 2^32.
struct record {
    uint32_t at;       // the record's own position; another value if it was overwritten
    uint32_t previous; // position of the previous record
    uint32_t tid;      // tid of the writer; NO_TID until the record is complete
    uint32_t count;    // bytes of text after the record
};

struct zg_kept_writes zg_last_text;

static uint32_t round_up(uint32_t count) { return (count + 7) & ~7u; }

static void put(uint32_t at, const char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) zg_last_text.ring[(at + i) % RING_BYTES] = bytes[i];
}
static void get(const char *ring, uint32_t at, char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) bytes[i] = ring[(at + i) % RING_BYTES];
}

void zg_last_text_note(const void *bytes, uint64_t count) {
    char copy[MOST_BYTES];
    struct record record = {.tid = NO_TID};
    record.count = (uint32_t)zg_os_read_memory(copy, (uint64_t)bytes, zg_min(count, MOST_BYTES));
    if (!record.count) return;
    uint64_t before = __atomic_load_n(&zg_last_text.ends, __ATOMIC_RELAXED), now;
    do {
        record.at = (uint32_t)before;
        record.previous = (uint32_t)(before >> 32);
        now = (uint64_t)record.at << 32 | (uint32_t)(record.at + sizeof record + round_up(record.count));
    } while (!__atomic_compare_exchange_n(&zg_last_text.ends, &before, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    put(record.at, (const char *)&record, sizeof record);
    put(record.at + sizeof record, copy, record.count);
    ZG_SIGNAL_FENCE();
    uint32_t *tid = (uint32_t *)(void *)&zg_last_text.ring[(record.at + offsetof(struct record, tid)) % RING_BYTES];
    __atomic_store_n(tid, (uint32_t)zg_os_tid(), __ATOMIC_RELEASE);
}

// `newest`: a value of `ends`, with the position and the end of the newest record. `most`: how many bytes in front of
// that end may be read.
static uint64_t copy_writes(const struct zg_kept_writes *writes, uint64_t newest, uint32_t most, int tid, char *text,
                            uint64_t capacity) {
    uint64_t start = capacity - 1;
    uint32_t end = (uint32_t)newest, at = (uint32_t)(newest >> 32);
    struct record record;
    if (newest)
        for (;; at = record.previous) {
            if (end - at > most) break;
            get(writes->ring, at, (char *)&record, sizeof record);
            if (record.at != at || record.count > MOST_BYTES) break;
            if (record.tid == (uint32_t)tid) {
                uint64_t part = zg_min(record.count, start);
                start -= part;
                get(writes->ring, at + (uint32_t)sizeof record + (uint32_t)(record.count - part), text + start,
                    (uint32_t)part);
                if (!start) break;
            }
            if (!record.at && !record.previous) break; // the very first record
        }
    uint64_t count = capacity - 1 - start;
    __builtin_memmove(text, text + start, count);
    text[count] = 0;
    return count;
}

uint64_t zg_kept_writes_get(const struct zg_kept_writes *writes, int tid, char *text, uint64_t capacity) {
    uint64_t newest = __atomic_load_n(&writes->ends, __ATOMIC_ACQUIRE);
    return copy_writes(writes, newest, RING_BYTES, tid, text, capacity);
}

uint64_t zg_last_text_since(uint64_t ends, int tid, char *text, uint64_t capacity) {
    uint64_t newest = __atomic_load_n(&zg_last_text.ends, __ATOMIC_ACQUIRE);
    uint32_t most = (uint32_t)newest - (uint32_t)ends;
    return copy_writes(&zg_last_text, newest, most > RING_BYTES ? RING_BYTES : most, tid, text, capacity);
}
