// The stack depot. Three parts:
//   nodes   the tree, append-only in one reservation: frame, depth, parent; and beside it each node's hash
//   stacks  table of {tag, settled, node} of all stacks that were captured. A stack's home is the cache line that the hash of
//           its outer frames names, which it shares with its family; where that line is full, a place that its own hash names
//   known   the same of all nodes, by their own hash: only new stacks are looked up there, frame by frame
// Tables are read without a lock, written under it, replaced by a larger one when they fill up. Old ones stay mapped,
// emptied: a reader may still be in them, finds nothing, and looks again under the lock.
// The tag stands for the stack: a new one is compared with about three others by 37 bits each, so that among 2^26 stacks one
// is taken for another with a probability below 2^-9 over the process's whole life.
// Hot path. Rank of the lock: stands in ARCHITECTURE.md.

#include "stacks/depot.h"

#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/unwind.h"

enum { NODE_BITS = 26, FIRST_TABLE_BITS = 12, LINE = 8 };
#define NODE_MOST (UINT64_C(1) << NODE_BITS)
#define PC_MASK ((UINT64_C(1) << 48) - 1)
#define COMMIT_NODES (UINT64_C(1) << 14)
_Static_assert(ZG_DEPOT_SETTLED == NODE_MOST, "the flag lies above the node's number");
// The hash of what a shortened stack lacks further out, and the flag of its nodes, which the inner ones inherit.
#define LACKING UINT64_C(0x2545f4914f6cdd1d)
#define SHORTENED (UINT64_C(1) << 63)
#define TAG_MASK (~UINT64_C(0) << (NODE_BITS + 1))

static struct zg_lock depot_lock;
static struct zg_depot_node *nodes;
static uint64_t *node_hashes;
static uint64_t node_count = 1; // node 0 means unknown
static uint64_t node_committed, node_limit;

struct table {
    uint64_t *entries; // the hash's high bits, ZG_DEPOT_SETTLED, the node; 0: empty
    uint64_t mask;
};
// Each of twice the size of the one before it. A home is by families or by the stacks' own hashes alone.
struct tables {
    struct table sizes[NODE_BITS + 2 - FIRST_TABLE_BITS];
    struct table *current;
    uint64_t count;
    bool by_family;
};
static struct tables stacks = {.current = stacks.sizes, .by_family = true};
static struct tables known = {.current = known.sizes};

void zg_depot_lock(void) { zg_lock_take(&depot_lock); }
void zg_depot_unlock(void) { zg_lock_drop(&depot_lock); }
void zg_depot_reset_lock(void) { zg_lock_reset(&depot_lock); }

static bool make_table(struct table *table, uint32_t bits) {
    uint64_t *entries = zg_os_map_table(sizeof *entries << bits);
    *table = (struct table){entries, (UINT64_C(1) << bits) - 1};
    if (!entries) zg_stats_degrade(zg_degradation_no_table_memory);
    return entries != NULL;
}

bool zg_depot_init(uint64_t bytes) {
    node_limit = zg_min(bytes / (sizeof *nodes + sizeof *node_hashes), NODE_MOST) / COMMIT_NODES * COMMIT_NODES;
    nodes = zg_os_reserve(node_limit * (sizeof *nodes + sizeof *node_hashes));
    if (!nodes) return false;
    node_hashes = (uint64_t *)(nodes + node_limit);
    return make_table(&stacks.sizes[0], FIRST_TABLE_BITS) && make_table(&known.sizes[0], FIRST_TABLE_BITS);
}

const struct zg_depot_node *zg_depot_nodes(uint64_t *count) {
    *count = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    return nodes;
}

ZG_INLINE bool has_tag(uint64_t entry, uint64_t hash) { return !((entry ^ hash) & TAG_MASK); }

// The entry that says what is known of the stack, or the empty one that would. A family's line is searched from a place that
// differs from member to member. `outer` is ignored where homes are not by families.
ZG_INLINE uint64_t *entry_of(const struct table *table, bool by_family, uint64_t hash, uint64_t outer) {
    uint64_t *line = &table->entries[outer & table->mask & ~(uint64_t)(LINE - 1)];
    for (uint64_t i = 0; by_family && i < LINE; i++) {
        uint64_t *at = &line[(hash + i) % LINE], entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (!entry || has_tag(entry, hash)) return at;
    }
    for (uint64_t i = hash / LINE;; i++) {
        uint64_t *at = &table->entries[i & table->mask], entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (!entry || has_tag(entry, hash)) return at;
    }
}

ZG_INLINE uint32_t find_in(const struct tables *tables, uint64_t hash, uint64_t outer) {
    const struct table *table = __atomic_load_n(&tables->current, __ATOMIC_ACQUIRE);
    return (uint32_t)(__atomic_load_n(entry_of(table, tables->by_family, hash, outer), __ATOMIC_ACQUIRE) & ~TAG_MASK);
}

uint32_t zg_depot_find(uint64_t hash, uint64_t outer) { return find_in(&stacks, hash, outer); }

static uint64_t outer_hash_of(uint32_t node) { return node_hashes[nodes[node].parent]; } // node_hashes[0] is 0

static void insert_into(const struct table *table, bool by_family, uint64_t node_and_flag) {
    uint32_t node = (uint32_t)(node_and_flag & (NODE_MOST - 1));
    uint64_t hash = node_hashes[node];
    __atomic_store_n(entry_of(table, by_family, hash, outer_hash_of(node)), (hash & TAG_MASK) | node_and_flag,
                     __ATOMIC_RELEASE);
}

// What the depot may take.
static uint64_t most_bytes(void) {
    return zg_max(zg_config.stack_bytes, zg_stats_get(zg_counter_live_bytes_peak) / 10);
}

static uint64_t bytes_with(uint64_t count, const struct tables *growing) {
    uint64_t entries = stacks.current->mask + known.current->mask + 2;
    if (growing) entries += growing->current->mask + 1;
    return count * (sizeof *nodes + sizeof *node_hashes) + entries * sizeof *stacks.current->entries;
}

// Every program may fill an eighth of stack_bytes at once, and adds one node more for so many captures: what new stacks take
// is a bounded part of what the program has done. Half of the bound is for whole stacks, half for the shorter ones that
// follow. Where those do not repeat either, ever shorter ones do.
bool zg_depot_is_scarce;
enum { FREE_SHARE = 8, CAPTURES_PER_NODE = 64, BYTES_PER_NODE = 64, HYSTERESIS = 1 << 13 };

static uint64_t free_nodes(void) { return zg_config.stack_bytes / BYTES_PER_NODE / FREE_SHARE; }

int zg_depot_depth(uint64_t captures, int depth) {
    static bool shortens;
    uint64_t used = __atomic_load_n(&node_count, __ATOMIC_RELAXED), most = most_bytes() / BYTES_PER_NODE;
    uint64_t allowed = zg_min(free_nodes() + captures / CAPTURES_PER_NODE, most / 2);
    bool before = __atomic_load_n(&shortens, __ATOMIC_RELAXED);
    // Not to and fro: one stack would become many of different lengths.
    bool now = used + (before ? HYSTERESIS : 0) > allowed;
    if (ZG_UNLIKELY(now != before)) __atomic_store_n(&shortens, now, __ATOMIC_RELAXED);
    if (ZG_LIKELY(!now)) return depth;
    if (!before) zg_stats_degrade(zg_degradation_stacks_shortened);
    int frames = used < allowed / 2 * 3 ? 6 : used < allowed / 4 * 7 ? 4 : used < allowed * 2 ? 2 : 1;
    return frames < depth ? frames : depth;
}

// Under the lock. Tables of families are kept half empty, so that most find room at home; what memory there may be decides
// where they become fuller.
static bool make_room(struct tables *tables) {
    struct table *old = tables->current, *larger = old + 1;
    uint64_t size = old->mask + 1;
    if (tables->count + 1 <= (tables->by_family ? size / 2 : size / 4 * 3)) return true;
    if (bytes_with(node_count, tables) > most_bytes()) return tables->count + 1 < size / 8 * 7;
    if (!make_table(larger, (uint32_t)__builtin_ctzll(size) + 1)) return tables->count + 1 < size;
    for (uint64_t i = 0; i < size; i++)
        if (old->entries[i]) insert_into(larger, tables->by_family, old->entries[i] & ~TAG_MASK);
    __atomic_store_n(&tables->current, larger, __ATOMIC_RELEASE);
    zg_os_discard(old->entries, size * sizeof *old->entries);
    return true;
}

static bool insert(struct tables *tables, uint32_t node) {
    if (!make_room(tables)) return false;
    insert_into(tables->current, tables->by_family, node);
    tables->count++;
    return true;
}

static bool commit_nodes(void) {
    if (node_committed == node_limit) return false;
    if (zg_os_commit(nodes + node_committed, COMMIT_NODES * sizeof *nodes) != 0) return false;
    if (zg_os_commit(node_hashes + node_committed, COMMIT_NODES * sizeof *node_hashes) != 0) return false;
    node_committed += COMMIT_NODES;
    return true;
}

// Under the lock: a node that is not there yet. 0 where the depot is full.
static uint32_t add_node(uint32_t parent, uint64_t pc, uint64_t hash, bool shortened) {
    if (node_count >= node_committed && !commit_nodes()) return 0;
    uint64_t outer = parent ? nodes[parent].pc_and_depth & ~PC_MASK : shortened ? SHORTENED : 0;
    uint32_t id = (uint32_t)node_count;
    nodes[id] = (struct zg_depot_node){pc | (outer + PC_MASK + 1), parent, (uint32_t)(hash >> 32)};
    node_hashes[id] = hash;
    if (!insert(&known, id)) return 0;
    __atomic_store_n(&node_count, node_count + 1, __ATOMIC_RELEASE);
    if (node_count >= free_nodes()) __atomic_store_n(&zg_depot_is_scarce, true, __ATOMIC_RELAXED);
    return id;
}

// Before anybody has the id of a new node. Under the lock.
static void tell_size(void) {
    zg_stats_set(zg_counter_stack_nodes, node_count - 1);
    zg_stats_set(zg_counter_stack_bytes, bytes_with(node_count, NULL));
    zg_store(&zg_stats->layout.nodes_used, node_count);
}

// `first` is the outermost frame, `step` leads inwards. `ids`: of each frame; may be NULL.
static uint32_t add(uint32_t outer, uint64_t outer_hash, const uint64_t *first, int step, int count, uint32_t *ids) {
    const bool shortened = !outer && outer_hash == LACKING;
    uint64_t hash = outer_hash;
    uint32_t id = outer;
    // Each look-up is a cache miss: all of them at once.
    const struct table *table = __atomic_load_n(&known.current, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++) {
        hash = zg_depot_hash(hash, first[i * step]);
        __builtin_prefetch(&table->entries[hash / LINE & table->mask], 1);
    }
    hash = outer_hash;
    zg_lock_take(&depot_lock);
    uint64_t before = node_count;
    // Past the bound only the shortest stacks are added.
    bool adds = (!outer && count == 1) || bytes_with(node_count + (uint64_t)count, NULL) <= most_bytes();
    for (int i = 0; i < count; i++) {
        uint64_t frame = first[i * step];
        outer_hash = id ? hash : 0; // as outer_hash_of the node
        hash = zg_depot_hash(hash, frame);
        uint32_t found = find_in(&known, hash, 0);
        id = found || !adds ? found : add_node(id, frame & PC_MASK, hash, shortened);
        if (ids) ids[i] = id;
        if (!id) break;
    }
    // Another thread may have added it meanwhile.
    if (id && !find_in(&stacks, hash, outer_hash) && !insert(&stacks, id)) id = 0;
    if (node_count != before) tell_size();
    zg_lock_drop(&depot_lock);
    if (!id && count) zg_stats_degrade(zg_degradation_depot_full);
    return id;
}

uint32_t zg_depot_add(uint32_t outer, uint64_t outer_hash, const uint64_t *frames, int count, uint32_t *ids) {
    return add(outer, outer_hash, frames, 1, count, ids);
}

// No copy the other way round: the program's stack may be small.
static uint32_t put(const uint64_t *frames, int count, uint64_t lacking) {
    uint64_t hash = lacking, outer = 0;
    if (count <= 0) return 0;
    for (int i = count - 1; i >= 0; i--) {
        outer = i == count - 1 ? 0 : hash;
        hash = zg_depot_hash(hash, frames[i]);
    }
    uint32_t id = zg_depot_find(hash, outer);
    return id ? id : add(0, lacking, frames + count - 1, -1, count, NULL);
}

uint32_t zg_depot_put(const uint64_t *frames, int count) { return put(frames, count, 0); }
uint32_t zg_depot_put_shortened(const uint64_t *frames, int count) { return put(frames, count, LACKING); }

bool zg_depot_is_shortened(uint32_t stack) {
    return stack && stack < __atomic_load_n(&node_count, __ATOMIC_ACQUIRE) && nodes[stack].pc_and_depth & SHORTENED;
}

void zg_depot_settle(uint32_t stack) {
    if (!stack) return;
    zg_lock_take(&depot_lock);
    uint64_t *entry = entry_of(stacks.current, true, node_hashes[stack], outer_hash_of(stack));
    if (*entry) __atomic_store_n(entry, *entry | ZG_DEPOT_SETTLED, __ATOMIC_RELEASE);
    zg_lock_drop(&depot_lock);
}

int zg_depot_get(uint32_t stack, uint64_t *frames, int depth) {
    int count = 0;
    uint64_t known = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    for (; stack && stack < known && count < depth; stack = nodes[stack].parent)
        frames[count++] = nodes[stack].pc_and_depth & PC_MASK;
    return count;
}
