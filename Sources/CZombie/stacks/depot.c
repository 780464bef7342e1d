// Stores distinct stacks as a tree of frames. Two parts:
//   nodes   The tree, append-only in one reservation: frame, depth, parent, low half of the hash. New frames of a stack
//           are added as one run of nodes, each the parent of the next, so a node's successor is often its only child.
//   stacks  Hash table of {tag, context-done flag, node}: all captured stacks, and the first node of each run. Children
//           that do not follow their parent are found here. An entry's home is the cache line given by the hash of the
//           outer frames, which it shares with its family; if that line is full, a place given by its own hash.
//
// A lookup of a new stack goes frame by frame through its known part. Its new frames cost their nodes and one or two
// entries.
// The table is read without a lock, written under the lock, and replaced by a larger one when it fills up. Old tables
// stay mapped but empty: a reader that still uses one finds nothing and looks again under the lock.
// Lookups compare tags, not frames. A new stack is compared with about three others by 37 bits each, so among 2^26
// stacks one is mistaken for another with a probability below 2^-9 over the process's whole life.
// Hot path. Rank of the lock: see docs/architecture/entry-threads-locks.md.

#include "stacks/depot.h"

#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/unwind.h"

enum { NODE_BITS = 26, FIRST_TABLE_BITS = 12, LINE = 8 };
#define NODE_MOST (UINT64_C(1) << NODE_BITS)
#define COMMIT_NODES (UINT64_C(1) << 14)
_Static_assert(ZG_DEPOT_CONTEXT_DONE == NODE_MOST, "the flag lies above the node's number");
#define TAG_MASK (~UINT64_C(0) << (NODE_BITS + 1))
#define PC_MASK ((UINT64_C(1) << 48) - 1)
// LACKING: hash that stands for the missing outer frames of a shortened stack. SHORTENED: flag in all nodes of a
// shortened stack.
#define LACKING UINT64_C(0x2545f4914f6cdd1d)
#define SHORTENED (UINT64_C(1) << 63)

static struct zg_lock depot_lock;
static struct zg_depot_node *nodes;
static uint64_t node_count = 1; // node 0 means unknown; its hash is 0, the hash of no frames
static uint64_t node_committed, node_limit;

struct table {
    uint64_t *entries; // tag (high bits of the hash), ZG_DEPOT_CONTEXT_DONE, node; 0: empty
    uint64_t mask;
};
// Each table has twice the size of the previous one.
static struct table sizes[NODE_BITS + 2 - FIRST_TABLE_BITS];
static struct table *stacks = sizes;
static uint64_t entry_count;
// The tag and the half of the hash in the node make up the whole hash. The node's half alone gives an entry's place in
// a table.
_Static_assert(NODE_BITS + 1 <= 32, "no bit of the hash is in neither");
_Static_assert(NODE_BITS + 2 + 3 <= 32, "a place that the hash names is made of its low half");

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
    node_limit = zg_min(bytes / sizeof *nodes, NODE_MOST) / COMMIT_NODES * COMMIT_NODES;
    nodes = zg_os_reserve(node_limit * sizeof *nodes);
    return nodes && make_table(&sizes[0], FIRST_TABLE_BITS);
}

const struct zg_depot_node *zg_depot_nodes(uint64_t *count) {
    *count = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    return nodes;
}

ZG_INLINE uint32_t node_of(uint64_t entry) { return (uint32_t)(entry & (NODE_MOST - 1)); }

ZG_INLINE uint64_t *line_of(const struct table *table, uint64_t outer) {
    return &table->entries[outer & table->mask & ~(uint64_t)(LINE - 1)];
}

// Returns an entry that is empty or matches `looked_for` in the bits of `mask`. The search in a family's line begins at
// a place that depends on the stack's own hash. Stacks of one frame (`outer` 0) have no family: they would share one
// line, which has room for only a few.
ZG_INLINE uint64_t *entry_of(const struct table *table, uint64_t hash, uint64_t outer, uint64_t looked_for,
                             uint64_t mask) {
    uint64_t *line = line_of(table, outer);
    for (uint64_t i = 0; outer && i < LINE; i++) {
        uint64_t *at = &line[(hash + i) % LINE], entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (!entry || !((entry ^ looked_for) & mask)) return at;
    }
    for (uint64_t i = hash / LINE;; i++) {
        uint64_t *at = &table->entries[i & table->mask], entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (!entry || !((entry ^ looked_for) & mask)) return at;
    }
}

ZG_INLINE uint64_t *entry_with(const struct table *table, uint64_t hash, uint64_t outer) {
    return entry_of(table, hash, outer, hash, TAG_MASK);
}

uint32_t zg_depot_find(uint64_t hash, uint64_t outer) {
    const struct table *table = __atomic_load_n(&stacks, __ATOMIC_ACQUIRE);
    // Check the tag: an entry that was empty a moment ago may hold another stack now.
    uint64_t entry = __atomic_load_n(entry_with(table, hash, outer), __ATOMIC_ACQUIRE);
    return (entry ^ hash) & TAG_MASK ? 0 : (uint32_t)(entry & ~TAG_MASK);
}

void zg_depot_expect(uint64_t outer) { __builtin_prefetch(line_of(__atomic_load_n(&stacks, __ATOMIC_ACQUIRE), outer)); }

static uint64_t outer_half_of(uint32_t node) { return nodes[nodes[node].parent].hash; }

// Upper limit of the depot's size.
static uint64_t most_bytes(void) {
    return zg_max(zg_config.stack_bytes, zg_stats_get(zg_counter_live_bytes_peak) / 10);
}

static uint64_t bytes_with(uint64_t count, uint64_t more_entries) {
    return count * sizeof *nodes + (stacks->mask + 1 + more_entries) * sizeof *stacks->entries;
}

// Limits new nodes in proportion to the captures. Every program may fill an eighth of stack_bytes at once. From then
// on, one more node is allowed for every CAPTURES_PER_NODE captures. Whole stacks take at most half of the depot's
// limit, and shortened stacks the other half. If shortened stacks do not repeat either, they are shortened further.
bool zg_depot_is_scarce;
enum { FREE_SHARE = 8, CAPTURES_PER_NODE = 64, BYTES_PER_NODE = 64, HYSTERESIS = 1 << 13 };

static uint64_t free_nodes(void) { return zg_config.stack_bytes / BYTES_PER_NODE / FREE_SHARE; }

int zg_depot_depth(uint64_t captures, int depth) {
    static bool shortens;
    uint64_t used = __atomic_load_n(&node_count, __ATOMIC_RELAXED), most = most_bytes() / BYTES_PER_NODE;
    uint64_t allowed = zg_min(free_nodes() + captures / CAPTURES_PER_NODE, most / 2);
    bool before = __atomic_load_n(&shortens, __ATOMIC_RELAXED);
    // Hysteresis: otherwise one stack would be recorded in many different lengths.
    bool now = used + (before ? HYSTERESIS : 0) > allowed;
    if (ZG_UNLIKELY(now != before)) __atomic_store_n(&shortens, now, __ATOMIC_RELAXED);
    if (ZG_LIKELY(!now)) return depth;
    if (!before) zg_stats_degrade(zg_degradation_stacks_shortened);
    int frames = used < allowed / 2 * 3 ? 6 : used < allowed / 4 * 7 ? 4 : used < allowed * 2 ? 2 : 1;
    return frames < depth ? frames : depth;
}

// Makes room for `more` entries, under the lock. The table is kept half empty, so that most stacks fit in their
// family's line. It becomes fuller only if the depot's limit forbids a larger table.
static bool grow_table(uint64_t more) {
    struct table *old = stacks, *larger = old + 1;
    uint64_t size = old->mask + 1, count = entry_count + more;
    if (ZG_LIKELY(count <= size / 2)) return true;
    if (bytes_with(node_count, size) > most_bytes()) return count < size / 8 * 7;
    if (!make_table(larger, (uint32_t)__builtin_ctzll(size) + 1)) return count < size;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t entry = old->entries[i];
        if (!entry) continue;
        uint64_t hash = (entry & TAG_MASK) | nodes[node_of(entry)].hash;
        __atomic_store_n(entry_with(larger, hash, outer_half_of(node_of(entry))), entry, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&stacks, larger, __ATOMIC_RELEASE);
    zg_os_discard(old->entries, size * sizeof *old->entries);
    return true;
}

// Adds an entry, under the lock. There must be room. Does nothing if the stack has an entry.
static void insert(uint32_t node, uint64_t hash, uint64_t outer_hash) {
    uint64_t *entry = entry_with(stacks, hash, outer_hash);
    if (*entry) return;
    __atomic_store_n(entry, (hash & TAG_MASK) | node, __ATOMIC_RELEASE);
    entry_count++;
}

static bool commit_nodes(uint64_t count) {
    while (count > node_committed) {
        if (node_committed == node_limit) return false;
        if (zg_os_commit(nodes + node_committed, COMMIT_NODES * sizeof *nodes) != 0) return false;
        node_committed += COMMIT_NODES;
    }
    return true;
}

// Returns SHORTENED for the outermost frame of a shortened stack, otherwise 0.
ZG_INLINE uint64_t flag_of(uint64_t outer_hash) { return outer_hash == LACKING ? SHORTENED : 0; }

// Returns the hash that selects the cache line of the stack's family. Outermost frames have no family.
ZG_INLINE uint64_t home_of(uint32_t parent, uint64_t outer_hash) { return parent ? outer_hash : 0; }

// Returns the node's child with this frame, 0 if there is none. Under the lock.
ZG_INLINE uint32_t child_of(uint32_t parent, uint64_t pc, uint64_t hash, uint64_t outer_hash) {
    // The node behind the last node is committed and zero.
    const struct zg_depot_node *next = &nodes[parent + 1];
    if (next->parent == parent && parent && !((next->pc_and_depth ^ pc) << 16)) return parent + 1;
    return node_of(*entry_with(stacks, hash, home_of(parent, outer_hash)));
}

// Publishes the size before any thread has the id of a new node. Under the lock.
static void publish_size(void) {
    zg_stats_set(zg_counter_stack_nodes, node_count - 1);
    zg_stats_set(zg_counter_stack_bytes, bytes_with(node_count, 0));
    zg_store(&zg_stats->layout.nodes_used, node_count);
}

// Returns the hash of the stack that ends with the next inner frame.
ZG_INLINE uint64_t hash_of(const struct zg_depot_frames *frames, uint64_t outer_hash, bool knows_hashes) {
    return knows_hashes ? *frames->hashes : zg_depot_hash(outer_hash, *frames->pcs);
}
ZG_INLINE void next_frame(struct zg_depot_frames *frames, bool knows_hashes) {
    frames->pcs += frames->pc_step;
    if (knows_hashes) frames->hashes += frames->hash_step;
}

// Adds a run of nodes as descendants of `parent`, which has no child with the first frame. Returns the id of the last
// node; 0 if the depot is full. Under the lock.
ZG_INLINE uint32_t append(uint32_t parent, uint64_t outer_hash, struct zg_depot_frames frames, bool knows_hashes) {
    uint64_t end = node_count + frames.count;
    // Beyond the limit only stacks of one frame are added.
    if (bytes_with(end, 0) > most_bytes() && (parent || frames.count != 1)) return 0;
    if (!commit_nodes(end + 1) || !grow_table(2)) return 0;
    uint64_t depth = parent ? nodes[parent].pc_and_depth & ~PC_MASK : flag_of(outer_hash), hash = outer_hash;
    uint64_t last_outer = 0;
    uint64_t first_hash = hash_of(&frames, outer_hash, knows_hashes);
    uint32_t first = (uint32_t)node_count, id = first, before = parent;
    do {
        last_outer = home_of(before, hash);
        hash = hash_of(&frames, hash, knows_hashes);
        depth += PC_MASK + 1;
        nodes[id] = (struct zg_depot_node){(*frames.pcs & PC_MASK) | depth, before, (uint32_t)hash};
        if (frames.ids) *frames.ids++ = id;
        before = id++;
        next_frame(&frames, knows_hashes);
    } while (id < end);
    __atomic_store_n(&node_count, end, __ATOMIC_RELEASE);
    if (end >= free_nodes()) __atomic_store_n(&zg_depot_is_scarce, true, __ATOMIC_RELAXED);
    publish_size();
    if ((first != parent + 1 || !parent) && before != first) insert(first, first_hash, home_of(parent, outer_hash));
    insert(before, hash, last_outer);
    return before;
}

ZG_INLINE uint32_t add(uint32_t outer, uint64_t outer_hash, struct zg_depot_frames frames, bool knows_hashes) {
    uint64_t hash = outer_hash;
    uint32_t id = outer;
    zg_lock_take(&depot_lock);
    for (bool has_nodes = commit_nodes(2) || (id = 0); has_nodes; next_frame(&frames, knows_hashes)) {
        uint64_t inner_hash = hash_of(&frames, hash, knows_hashes);
        uint32_t child = child_of(id, *frames.pcs, inner_hash, hash);
        if (!child) {
            id = append(id, hash, frames, knows_hashes);
            break;
        }
        if (frames.ids) *frames.ids++ = child;
        if (!--frames.count) {
            // All frames are known: mark the last node as a captured stack, unless another thread has done so
            // meanwhile.
            uint64_t home = home_of(id, hash);
            id = grow_table(1) ? child : 0;
            if (id) insert(id, inner_hash, home);
            break;
        }
        id = child;
        hash = inner_hash;
    }
    zg_lock_drop(&depot_lock);
    if (!id) zg_stats_degrade(zg_degradation_depot_full);
    return id;
}

uint32_t zg_depot_add(uint32_t outer, uint64_t outer_hash, const struct zg_depot_frames *frames) {
    return frames->hashes ? add(outer, outer_hash, *frames, true) : add(outer, outer_hash, *frames, false);
}

// Reads the frames backwards instead of reversing a copy: the program's stack may be small.
static uint32_t put(const uint64_t *frames, int count, uint64_t lacking) {
    uint64_t hash = lacking, outer = 0;
    if (count <= 0) return 0;
    for (int i = count - 1; i >= 0; i--) {
        outer = i == count - 1 ? 0 : hash;
        hash = zg_depot_hash(hash, frames[i]);
    }
    uint32_t id = zg_depot_find(hash, outer);
    if (id) return id;
    return zg_depot_add(0, lacking,
                        &(struct zg_depot_frames){frames + count - 1, .pc_step = -1, .count = (uint32_t)count});
}

uint32_t zg_depot_put(const uint64_t *frames, int count) { return put(frames, count, 0); }
uint32_t zg_depot_put_shortened(const uint64_t *frames, int count) { return put(frames, count, LACKING); }

bool zg_depot_is_shortened(uint32_t stack) {
    return stack && stack < __atomic_load_n(&node_count, __ATOMIC_ACQUIRE) && nodes[stack].pc_and_depth & SHORTENED;
}

void zg_depot_mark_context_done(uint32_t stack) {
    if (!stack) return;
    zg_lock_take(&depot_lock);
    uint64_t *entry = entry_of(stacks, nodes[stack].hash, outer_half_of(stack), stack, NODE_MOST - 1);
    if (*entry) __atomic_store_n(entry, *entry | ZG_DEPOT_CONTEXT_DONE, __ATOMIC_RELEASE);
    zg_lock_drop(&depot_lock);
}

int zg_depot_get(uint32_t stack, uint64_t *frames, int depth) {
    int count = 0;
    uint64_t known = __atomic_load_n(&node_count, __ATOMIC_ACQUIRE);
    for (; stack && stack < known && count < depth; stack = nodes[stack].parent)
        frames[count++] = nodes[stack].pc_and_depth & PC_MASK;
    return count;
}

uint64_t zg_depot_hash_inner(uint32_t stack, int depth) {
    uint64_t frames[ZG_DEPOT_INNER], hash = 0;
    for (int i = zg_depot_get(stack, frames, depth); i > 0; i--) hash = zg_depot_hash(hash, frames[i - 1]);
    return hash;
}
