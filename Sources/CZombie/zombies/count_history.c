// Keeps the table of retains and releases. One lock for each set; only a deallocation waits for it, briefly.

#include "zombies/count_history.h"

#include "platform/arch.h"
#include "platform/os.h"
#include "settings/stats.h"

enum { SET_BITS = 13 };

static char *table;
static uint32_t change_count;
static uint64_t entry_bytes;
// State of each set: bit 31 is its lock, the other bits count evictions and select the next entry to evict.
static uint32_t sets[1 << SET_BITS];
#define LOCKED UINT32_C(0x80000000)

const char *zg_count_event_text(uint32_t event) {
    static const char *const texts[] = {
#define ZG_X(name, text) text,
        ZG_COUNT_EVENTS(ZG_X)
#undef ZG_X
    };
    return event && event < ZG_ARRAY_COUNT(texts) ? texts[event] : NULL;
}

bool zg_count_history_init(uint32_t changes) {
    entry_bytes = sizeof(struct zg_count_entry) + changes * sizeof(struct zg_count_change);
    change_count = changes;
    table = zg_os_map(((uint64_t)ZG_COUNT_WAYS << SET_BITS) * entry_bytes);
    if (!table) return false;
    zg_stats->layout.counts =
        (struct zg_layout_counts){(uint64_t)table, 64 - SET_BITS, changes, (uint32_t)entry_bytes, 0};
    return true;
}

static bool is_missed;

void zg_count_history_miss(bool at_once) {
    is_missed = true;
    if (at_once) zg_count_history_swift_is_seen();
}

void zg_count_history_swift_is_seen(void) {
    if (is_missed) zg_stats_degrade(zg_degradation_no_count_history);
}

static uint64_t set_of(uint64_t object) { return object * ZG_COUNT_FACTOR >> (64 - SET_BITS); }
static struct zg_count_entry *entry_at(uint64_t set, uint64_t way) {
    return (struct zg_count_entry *)(table + (set * ZG_COUNT_WAYS + way) * entry_bytes);
}
static struct zg_count_change *changes_of(const struct zg_count_entry *entry) {
    return (struct zg_count_change *)(uint64_t)(entry + 1);
}

static struct zg_count_entry *find(uint64_t set, uint64_t object) {
    for (uint64_t way = 0; way < ZG_COUNT_WAYS; way++) {
        struct zg_count_entry *entry = entry_at(set, way);
        if (zg_load(&entry->object) == object) return entry;
    }
    return NULL;
}

// Takes a free entry of the set. If there is none, evicts one in round-robin order.
static struct zg_count_entry *take_entry(uint64_t set, uint64_t object, uint32_t *victim) {
    struct zg_count_entry *entry = find(set, 0);
    if (!entry) entry = entry_at(set, (*victim)++ % ZG_COUNT_WAYS);
    zg_store(&entry->object, object);
    return entry;
}

static void begin(struct zg_count_entry *entry, uint64_t class, uint16_t maker) {
    entry->count = 0;
    entry->is_over = entry->is_shared = false;
    entry->thread = maker;
    entry->class = class;
}

// Tries to lock the set. A deallocation retries: if it were not recorded, this object's changes would be attributed to
// the next object at the address.
static uint32_t enter_set(uint64_t set, bool is_end) {
    enum { TRIES = 1000 };
    uint32_t word = __atomic_fetch_or(&sets[set], LOCKED, __ATOMIC_ACQUIRE);
    for (int i = 0; i < TRIES && is_end && word & LOCKED; i++) {
        zg_arch_pause();
        word = __atomic_fetch_or(&sets[set], LOCKED, __ATOMIC_ACQUIRE);
    }
    return word;
}

// Releases the locks: threads of the parent that the child lacks may have held them.
void zg_count_history_after_fork_in_child(void) {
    for (uint64_t i = 0; table && i < ZG_ARRAY_COUNT(sets); i++)
        if (sets[i] & LOCKED) sets[i] &= ~LOCKED;
}

bool zg_count_history_add(uint64_t object, uint64_t class, struct zg_count_change change, bool begins_anew,
                          uint16_t maker) {
    uint64_t set = set_of(object);
    bool is_end = (change.what & 0xf) == zg_count_event_dealloc;
    uint32_t victim = enter_set(set, is_end);
    if (victim & LOCKED) return false;
    struct zg_count_entry *entry = find(set, object);
    bool is_new = !entry;
    if (is_new) entry = take_entry(set, object, &victim);
    if (is_new || (entry->is_over && begins_anew) || entry->class != class) begin(entry, class, maker);
    // One deallocation function calls another: record only the first of the two events.
    bool is_reported = entry->is_over && is_end;
    if (entry->thread != change.thread) entry->is_shared = true;
    entry->thread = change.thread;
    entry->is_over |= is_end;
    if (!is_reported) changes_of(entry)[entry->count % change_count] = change;
    if (!is_reported) __atomic_store_n(&entry->count, entry->count + 1, __ATOMIC_RELEASE);
    bool is_shared = entry->is_shared;
    __atomic_store_n(&sets[set], victim & ~LOCKED, __ATOMIC_RELEASE);
    return is_shared;
}

const struct zg_count_entry *zg_count_history_find(uint64_t object, uint64_t class) {
    const struct zg_count_entry *entry = table && object ? find(set_of(object), object) : NULL;
    return entry && entry->class == class ? entry : NULL;
}

bool zg_count_history_get(const struct zg_count_entry *entry, uint32_t age, struct zg_count_change *change) {
    uint32_t count = __atomic_load_n(&entry->count, __ATOMIC_ACQUIRE);
    if (age >= count || age >= change_count) return false;
    *change = changes_of(entry)[(count - 1 - age) % change_count];
    return true;
}
