// The stack depot. Three parts:
//   nodes   the tree, append-only in one reservation: frame, parent, hash
//   index   open addressing table of node numbers by (parent, pc), read without a lock, written under it; replaced by a
//           larger one when half full. Old ones stay mapped, emptied: a reader may still be in them, finds nothing, and
//           looks again under the lock
//   recent  direct-mapped, lossy: hash of a whole stack -> id; read and written without a lock (key xor value, as in
//           unwind.c). A 64-bit hash stands for the stack: with 2^20 stacks two collide with probability 2^-25.
// Hot path. Rank of the lock: stands in ARCHITECTURE.md.

#include "depot.h"

#include "lock.h"
#include "os.h"
#include "stats.h"

#define NODE_LIMIT (UINT64_C(1) << 26)
#define COMMIT_NODES (UINT64_C(1) << 14)

static struct zg_lock depot_lock;
static struct zg_depot_node *nodes;
static uint64_t node_count = 1; // node 0 means unknown
static uint64_t node_committed;

struct index {
    uint32_t *entries;
    uint64_t mask;
};
static struct index indexes[28];
static struct index *index_current = indexes;

struct recent {
    uint64_t key; // hash ^ id
    uint64_t id;
};
enum { RECENT_FIRST_BITS = 9, RECENT_LAST_BITS = 16 };
static struct recent first_recent[1 << RECENT_FIRST_BITS];
struct recent_table {
    struct recent *entries;
    uint64_t mask;
};
static struct recent_table recents[RECENT_LAST_BITS - RECENT_FIRST_BITS + 1] = {
    {first_recent, (1 << RECENT_FIRST_BITS) - 1}};
static struct recent_table *recent_current = recents;
static uint64_t recent_misses;

void zg_depot_lock(void) { zg_lock_take(&depot_lock); }
void zg_depot_unlock(void) { zg_lock_drop(&depot_lock); }
void zg_depot_reset_lock(void) { zg_lock_reset(&depot_lock); }

bool zg_depot_init(void) {
    nodes = zg_os_reserve(NODE_LIMIT * sizeof *nodes);
    if (!nodes) return false;
    indexes[0] = (struct index){zg_os_map(4096 * sizeof(uint32_t)), 4095};
    return indexes[0].entries != NULL;
}

const struct zg_depot_node *zg_depot_nodes(uint64_t *count) {
    *count = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    return nodes;
}

ZG_INLINE uint64_t node_pc(const struct zg_depot_node *node) { return node->pc_and_depth & ((UINT64_C(1) << 48) - 1); }

static uint32_t hash_of(uint32_t parent, uint64_t pc) {
    return (uint32_t)(zg_mix(pc * UINT64_C(0x9e3779b97f4a7c15) + parent) >> 16);
}

static void index_insert(struct index *index, uint32_t node) {
    uint64_t at = nodes[node].hash & index->mask;
    while (index->entries[at]) at = (at + 1) & index->mask;
    __atomic_store_n(&index->entries[at], node, __ATOMIC_RELEASE);
}

static bool grow_index(void) {
    struct index *old = index_current, *larger = old + 1;
    uint64_t count = (old->mask + 1) * 2;
    uint32_t *entries = zg_os_map(count * sizeof *entries);
    if (!entries) return false;
    *larger = (struct index){entries, count - 1};
    for (uint32_t node = 1; node < node_count; node++) index_insert(larger, node);
    __atomic_store_n(&index_current, larger, __ATOMIC_RELEASE);
    zg_os_discard(old->entries, (old->mask + 1) * sizeof *entries);
    return true;
}

ZG_INLINE uint32_t find_child(const struct index *index, uint32_t hash, uint32_t parent, uint64_t pc) {
    for (uint64_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        uint32_t id = __atomic_load_n(&index->entries[at], __ATOMIC_ACQUIRE);
        if (!id) return 0;
        const struct zg_depot_node *node = &nodes[id];
        if (node->hash == hash && node->parent == parent && node_pc(node) == pc) return id;
    }
}

// Under the lock: the node for one frame, made where it is new. 0 where the depot is full.
static uint32_t node_for(uint32_t parent, uint64_t pc) {
    uint32_t hash = hash_of(parent, pc), id = find_child(index_current, hash, parent, pc);
    if (id) return id;
    if (node_count * 2 > index_current->mask && !grow_index() && node_count + 1 > index_current->mask) return 0;
    if (node_count >= node_committed) {
        if (node_committed == NODE_LIMIT) return 0;
        if (zg_os_commit(nodes + node_committed, COMMIT_NODES * sizeof *nodes) != 0) return 0;
        node_committed += COMMIT_NODES;
    }
    uint64_t depth = (parent ? nodes[parent].pc_and_depth >> 48 : 0) + 1;
    id = (uint32_t)node_count;
    nodes[id] = (struct zg_depot_node){pc | depth << 48, parent, hash};
    __atomic_store_n(&node_count, node_count + 1, __ATOMIC_RELEASE);
    zg_stats_set(zg_counter_stack_nodes, node_count - 1);
    zg_store(&zg_stats->layout.nodes_used, node_count);
    index_insert(index_current, id);
    return id;
}

static ZG_NOINLINE uint32_t add_child(uint32_t parent, uint64_t pc) {
    zg_lock_take(&depot_lock);
    uint32_t id = node_for(parent, pc);
    zg_lock_drop(&depot_lock);
    if (!id) zg_stats_degrade(zg_degradation_depot_full);
    return id;
}

uint32_t zg_depot_child(uint32_t parent, uint64_t frame) {
    uint64_t pc = frame & ((UINT64_C(1) << 48) - 1);
    uint32_t id = find_child(__atomic_load_n(&index_current, __ATOMIC_ACQUIRE), hash_of(parent, pc), parent, pc);
    return ZG_LIKELY(id) ? id : add_child(parent, pc);
}

static void grow_recent(struct recent_table *table) {
    recent_misses = 0;
    if (table == &recents[RECENT_LAST_BITS - RECENT_FIRST_BITS]) return;
    uint64_t count = (table->mask + 1) * 2;
    struct recent *entries = zg_os_map(count * sizeof *entries);
    if (!entries) return;
    table[1] = (struct recent_table){entries, count - 1};
    __atomic_store_n(&recent_current, table + 1, __ATOMIC_RELEASE);
}

static ZG_NOINLINE uint32_t put_slow(const uint64_t *frames, int count, uint64_t hash) {
    zg_lock_take(&depot_lock);
    uint32_t id = 0;
    for (int i = count - 1; i >= 0; i--) {
        id = node_for(id, frames[i] & ((UINT64_C(1) << 48) - 1));
        if (!id) break;
    }
    struct recent_table *table = recent_current;
    if (id) {
        struct recent *entry = &table->entries[hash & table->mask];
        __atomic_store_n(&entry->id, id, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->key, hash ^ id, __ATOMIC_RELAXED);
        if (++recent_misses > table->mask) grow_recent(table);
    } else {
        zg_stats_degrade(zg_degradation_depot_full);
    }
    zg_lock_drop(&depot_lock);
    return id;
}

uint32_t zg_depot_put(const uint64_t *frames, int count, uint64_t hash) {
    if (count <= 0) return 0;
    const struct recent_table *table = __atomic_load_n(&recent_current, __ATOMIC_ACQUIRE);
    const struct recent *entry = &table->entries[hash & table->mask];
    uint64_t id = __atomic_load_n(&entry->id, __ATOMIC_RELAXED);
    if (ZG_LIKELY((__atomic_load_n(&entry->key, __ATOMIC_RELAXED) ^ id) == hash)) return (uint32_t)id;
    return put_slow(frames, count, hash);
}

int zg_depot_get(uint32_t stack, uint64_t *frames, int depth) {
    int count = 0;
    uint64_t known = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    for (; stack && stack < known && count < depth; stack = nodes[stack].parent) frames[count++] = node_pc(&nodes[stack]);
    return count;
}
