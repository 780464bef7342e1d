// The stack depot. Three parts:
//   nodes   the tree, append-only in one reservation: frame, depth, parent; and beside it each node's hash
//   index   open addressing table of {tag, node} by hash, read without a lock, written under it, replaced by a larger one
//           when half full. Old ones stay mapped, emptied: a reader may still be in them, finds nothing, and looks again
//           under the lock
// The hash stands for the stack: place and tag together compare at least 50 bits of it, so that among 2^26 stacks one is
// taken for another with a probability below 2^-10 over the process's whole life.
// Hot path. Rank of the lock: stands in ARCHITECTURE.md.

#include "depot.h"

#include "lock.h"
#include "os.h"
#include "stats.h"

enum { NODE_BITS = 26, FIRST_INDEX_BITS = 12 };
#define NODE_MOST (UINT64_C(1) << NODE_BITS)
#define COMMIT_NODES (UINT64_C(1) << 14)

static struct zg_lock depot_lock;
static struct zg_depot_node *nodes;
static uint64_t *node_hashes;
static uint64_t node_count = 1; // node 0 means unknown
static uint64_t node_committed, node_limit;

struct index {
    uint64_t *entries; // the hash's high bits, NODE_BITS low bits are the node; 0: empty
    uint64_t mask;
};
static struct index indexes[NODE_BITS + 2 - FIRST_INDEX_BITS];
static struct index *index_current = indexes;

void zg_depot_lock(void) { zg_lock_take(&depot_lock); }
void zg_depot_unlock(void) { zg_lock_drop(&depot_lock); }
void zg_depot_reset_lock(void) { zg_lock_reset(&depot_lock); }

bool zg_depot_init(uint64_t bytes) {
    node_limit = zg_min(bytes / (sizeof *nodes + sizeof *node_hashes), NODE_MOST) / COMMIT_NODES * COMMIT_NODES;
    nodes = zg_os_reserve(node_limit * (sizeof *nodes + sizeof *node_hashes));
    if (!nodes) return false;
    node_hashes = (uint64_t *)(nodes + node_limit);
    indexes[0] = (struct index){zg_os_map(sizeof(uint64_t) << FIRST_INDEX_BITS), (1 << FIRST_INDEX_BITS) - 1};
    return indexes[0].entries != NULL;
}

const struct zg_depot_node *zg_depot_nodes(uint64_t *count) {
    *count = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    return nodes;
}

#define TAG_MASK (~UINT64_C(0) << NODE_BITS)

// The tag is the high end of the hash, so the place is taken from its low end.
ZG_INLINE uint32_t find_in(const struct index *index, uint64_t hash) {
    for (uint64_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        uint64_t entry = __atomic_load_n(&index->entries[at], __ATOMIC_ACQUIRE);
        if (ZG_LIKELY(!((entry ^ hash) & TAG_MASK)) && entry) return (uint32_t)(entry & ~TAG_MASK);
        if (!entry) return 0;
    }
}

uint32_t zg_depot_find(uint64_t hash) { return find_in(__atomic_load_n(&index_current, __ATOMIC_ACQUIRE), hash); }

static void index_insert(struct index *index, uint32_t node) {
    uint64_t hash = node_hashes[node], at = hash & index->mask;
    while (index->entries[at]) at = (at + 1) & index->mask;
    __atomic_store_n(&index->entries[at], (hash & TAG_MASK) | node, __ATOMIC_RELEASE);
}

static bool grow_index(void) {
    struct index *old = index_current, *larger = old + 1;
    uint64_t count = (old->mask + 1) * 2;
    uint64_t *entries = zg_os_map(count * sizeof *entries);
    if (!entries) return false;
    *larger = (struct index){entries, count - 1};
    for (uint32_t node = 1; node < node_count; node++) index_insert(larger, node);
    __atomic_store_n(&index_current, larger, __ATOMIC_RELEASE);
    zg_os_discard(old->entries, (old->mask + 1) * sizeof *entries);
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
static uint32_t add_node(uint32_t parent, uint64_t pc, uint64_t hash) {
    if (node_count * 2 > index_current->mask && !grow_index() && node_count + 1 > index_current->mask) return 0;
    if (node_count >= node_committed && !commit_nodes()) return 0;
    uint64_t depth = (parent ? nodes[parent].pc_and_depth >> 48 : 0) + 1;
    uint32_t id = (uint32_t)node_count;
    nodes[id] = (struct zg_depot_node){pc | depth << 48, parent, (uint32_t)(hash >> 32)};
    node_hashes[id] = hash;
    __atomic_store_n(&node_count, node_count + 1, __ATOMIC_RELEASE);
    zg_stats_set(zg_counter_stack_nodes, node_count - 1);
    zg_store(&zg_stats->layout.nodes_used, node_count);
    index_insert(index_current, id);
    return id;
}

uint32_t zg_depot_put(const uint64_t *frames, int count) {
    uint64_t hash = 0;
    uint32_t id = 0;
    for (int i = count; i-- > 0;) hash = zg_depot_hash(hash, frames[i]);
    if (count <= 0 || (id = zg_depot_find(hash))) return id;
    zg_lock_take(&depot_lock);
    hash = 0;
    for (int i = count; i-- > 0;) {
        hash = zg_depot_hash(hash, frames[i]);
        uint32_t known = find_in(index_current, hash);
        id = known ? known : add_node(id, frames[i] & ((UINT64_C(1) << 48) - 1), hash);
        if (!id) break;
    }
    zg_lock_drop(&depot_lock);
    if (!id) zg_stats_degrade(zg_degradation_depot_full);
    return id;
}

int zg_depot_get(uint32_t stack, uint64_t *frames, int depth) {
    int count = 0;
    uint64_t known = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    for (; stack && stack < known && count < depth; stack = nodes[stack].parent)
        frames[count++] = nodes[stack].pc_and_depth & ((UINT64_C(1) << 48) - 1);
    return count;
}
