// The quarantine. Slow path: runs once for every 64 frees of a thread. Verification reads memory that has gone cold, so
// blocks are taken in batches and prefetched.

#include "heap/quarantine.h"

#include "heap/watchpoints.h"

#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "findings/found.h"
#include "pages/locked.h"
#include "pages/retire.h"
#include "platform/arch.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "zombies/zombie.h"

#define NOT_VERIFIED (ZG_HEADER_CONTENTS_RESTORED | ZG_HEADER_CHANGED)
// Blocks with these bits may have other contents than the plain fill.
#define NEEDS_FULL_CHECK (NOT_VERIFIED | ZG_HEADER_SPARSE | ZG_HEADER_SWIFT | ZG_HEADER_CXX)

enum {
    SHARDS = 8,
    CONTEXTS = 2048,
    CHUNK_SLOTS = 510,
    BATCH = ZG_EVICTED_BLOCKS,
    PREFETCH_DISTANCE = 8,
    STEADY_FLUSHES = 16
};

// A piece of a queue; 4 KiB.
struct chunk {
    struct chunk *next;
    uint32_t first, count; // slots[first] is the oldest slot; the next one is appended at slots[count]
    zg_slot slots[CHUNK_SLOTS];
};

// Invariants: 1. `bytes` is the size of all slots in `newest` and in the queue; total_bytes includes these bytes
// without the owed_bytes. 2. The queue is empty if and only if `head` is NULL. 3. held[row] is the number of entries in
// the row; they lie directly in front of index next[row], modulo newest_count. Bit `row` of `occupied` is set if the
// row has entries.
struct shard {
    struct zg_lock lock __attribute__((aligned(64)));
    uint64_t bytes; // also read without the lock
    // Changes of this shard that the counts over all shards do not include yet.
    int64_t owed_bytes, owed_blocks, owed_evictions;
    // Number of further flushes that leave the owed counts unsettled (take_owed). Each of these flushes evicts as many
    // bytes from this shard as it adds.
    uint32_t steady_flushes;
    struct chunk *head, *tail, *spare;
    zg_slot *newest; // CONTEXTS rows of newest_count entries; an entry is a slot number plus 1, or 0: empty
    // Next index to fill in each row. In a full row, the oldest entry has this index.
    uint8_t next[CONTEXTS], held[CONTEXTS];
    uint64_t occupied[CONTEXTS / 64];
    // Next row to evict from, if evicting the whole queue does not free enough.
    uint32_t next_row_to_evict;
};

static struct shard shards[SHARDS];
static uint64_t total_bytes; // bytes of all shards and of large blocks, without the shards' owed_bytes
static uint64_t cap;         // quarantine_bytes, or less while memory is short
static bool follows_live;    // quarantine_bytes is at its default, so the peak of live bytes is a limit, too (find_cap)
static uint32_t newest_count;

static struct zg_lock large_lock;
// Queue of large blocks: span numbers of the oldest and the newest. The head is also read without the lock.
static uint32_t large_head, large_tail;
static uint64_t large_bytes;

static struct shard *own_shard(const struct zg_thread *thread) { return &shards[thread->number % SHARDS]; }

void zg_quarantine_set_cap(uint64_t bytes) {
    zg_store(&cap, bytes);
    zg_stats_set(zg_counter_quarantine_cap, bytes);
}

void zg_quarantine_init(void) {
    newest_count = zg_config.quarantine_bytes ? zg_config.quarantine_per_context : 0;
    follows_live = ZG_IS_DEFAULT(quarantine_bytes);
    zg_quarantine_set_cap(zg_config.quarantine_bytes);
}

uint64_t zg_quarantine_bytes(void) { return zg_load(&total_bytes); }

// Returns how many bytes the quarantine may hold now. By default this is at most a 16th of the peak of live memory, or
// 256 KiB if that is more: 1 MiB of quarantined blocks takes up to 3 MiB of memory, too much for a small program
// (docs/design/001-quarantine-cap.md).
static uint64_t find_cap(void) {
    enum { LEAST_BYTES = 256 << 10, LIVE_SHIFT = 4 };
    uint64_t most = zg_load(&cap);
    if (__atomic_load_n(&follows_live, __ATOMIC_RELAXED))
        most = zg_min(most, zg_max(LEAST_BYTES, zg_stats_get(zg_counter_live_bytes_peak) >> LIVE_SHIFT));
    // All threads share the counter's cache line: write to it only if the limit has changed.
    if (ZG_UNLIKELY(zg_stats_get(zg_counter_quarantine_cap) != most)) zg_stats_set(zg_counter_quarantine_cap, most);
    return most;
}

void zg_quarantine_begin_test(void) { __atomic_store_n(&follows_live, false, __ATOMIC_RELAXED); }

static void account(int64_t bytes, int64_t blocks) {
    uint64_t now = __atomic_add_fetch(&total_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    zg_stats_set(zg_counter_quarantined_bytes, now);
    zg_stats_add(zg_counter_quarantined_blocks, (uint64_t)blocks);
    zg_stats_raise_peak(zg_counter_quarantined_bytes_peak, now);
}

// Adds the owed counts of a shard to the counts over all shards. The caller holds the shard's lock. Without it, another
// thread could evict the blocks and subtract their bytes first; the total would then drop below 0, and as an unsigned
// number exceed any cap.
static void settle(struct shard *shard) {
    account(shard->owed_bytes, shard->owed_blocks);
    zg_stats_add(zg_counter_evictions, (uint64_t)shard->owed_evictions);
    shard->owed_bytes = shard->owed_blocks = shard->owed_evictions = 0;
}

// Returns the chunk to which the next slots are appended, a new one if the last one is full. NULL if memory does not
// suffice.
static struct chunk *find_tail(struct shard *shard) {
    struct chunk *tail = shard->tail, *chunk = shard->spare;
    if (ZG_LIKELY(tail && tail->count < CHUNK_SLOTS)) return tail;
    if (chunk) shard->spare = chunk->next;
    else chunk = zg_os_map(sizeof *chunk);
    if (!chunk) {
        zg_stats_degrade(zg_degradation_no_table_memory);
        return NULL;
    }
    chunk->next = NULL;
    chunk->first = chunk->count = 0;
    if (tail) tail->next = chunk;
    else shard->head = chunk;
    return shard->tail = chunk;
}

// Appends slots to the queue. Returns the number of appended slots, which is less than `count` if there is no memory
// for the queue.
static uint32_t queue_push(struct shard *shard, const zg_slot *slots, uint32_t count) {
    uint32_t pushed = 0;
    for (struct chunk *tail; pushed < count && (tail = find_tail(shard)) != NULL;) {
        uint32_t now = (uint32_t)zg_min(count - pushed, CHUNK_SLOTS - tail->count);
        __builtin_memcpy(&tail->slots[tail->count], slots + pushed, now * sizeof *slots);
        tail->count += now;
        pushed += now;
    }
    return pushed;
}

// Removes the head chunk, which is empty.
static void queue_drop_head(struct shard *shard) {
    struct chunk *head = shard->head;
    shard->head = head->next;
    if (!shard->head) shard->tail = NULL;
    head->next = shard->spare;
    shard->spare = head;
}

// Removes the oldest block of a row that is not empty. Returns its entry (slot number plus 1).
ZG_INLINE zg_slot row_remove(struct shard *shard, uint32_t row) {
    uint32_t count = shard->held[row], next = shard->next[row];
    zg_slot *at = &shard->newest[row * newest_count + (next >= count ? next : next + newest_count) - count], out = *at;
    *at = 0;
    shard->held[row] = (uint8_t)(count - 1);
    if (count == 1) shard->occupied[row / 64] &= ~(UINT64_C(1) << row % 64);
    return out;
}

// Removes the oldest block of the next row that is not empty, and returns its entry (slot number plus 1); 0 if all rows
// are empty.
ZG_INLINE zg_slot rows_remove(struct shard *shard) {
    uint32_t row = shard->next_row_to_evict & (CONTEXTS - 1);
    for (uint32_t words = 0; words <= CONTEXTS / 64; words++) {
        uint64_t ahead = shard->occupied[row / 64] >> row % 64;
        if (ahead) {
            row += (uint32_t)__builtin_ctzll(ahead);
            shard->next_row_to_evict = row + 1;
            return row_remove(shard, row);
        }
        row = (row / 64 + 1) * 64 & (CONTEXTS - 1);
    }
    return 0;
}

ZG_INLINE uint32_t row_of(uint32_t context) { return (uint32_t)zg_mix(context) & (CONTEXTS - 1); }

// Puts the thread's pending blocks into the rows of their contexts. Full rows displace their oldest blocks, which
// replace the pending blocks in the thread's list. Returns the number of displaced blocks.
static uint32_t rotate_rows(struct shard *shard, struct zg_thread *thread, uint32_t count) {
    zg_slot *newest = shard->newest, *pending = thread->pending;
    uint32_t per_row = newest_count, displaced = 0, rows[ZG_PENDING_BLOCKS];
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = row_of(thread->pending_contexts[i]);
        zg_arch_prefetch_for_write(newest + rows[i] * per_row);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = rows[i], place = shard->next[row];
        zg_slot *at = &newest[row * per_row + place], out = *at;
        shard->next[row] = (uint8_t)(place + 1 == per_row ? 0 : place + 1);
        shard->occupied[row / 64] |= UINT64_C(1) << row % 64;
        *at = pending[i] + 1;
        shard->held[row] = (uint8_t)(shard->held[row] + (out == 0));
        pending[displaced] = out - 1;
        displaced += out != 0; // added without a branch, which would be mispredicted if only some rows are full
    }
    return displaced;
}

// Takes the oldest blocks out of a shard until `wanted` bytes or BATCH blocks are taken, or the shard is empty. Returns
// the number of taken blocks.
static uint32_t take_oldest(struct shard *shard, uint64_t wanted, zg_slot *slots) {
    uint32_t count = 0;
    uint64_t bytes = 0;
    for (struct chunk *head; count < BATCH && bytes < wanted && (head = shard->head) != NULL;) {
        uint32_t from = head->first, to = (uint32_t)zg_min(head->count, from + BATCH - count);
        while (from < to && bytes < wanted) bytes += zg_slot_bytes(slots[count++] = head->slots[from++]);
        head->first = from;
        if (from == head->count) queue_drop_head(shard);
    }
    // If the queue is empty now and more bytes are wanted, take the oldest block of each row in turn.
    for (zg_slot oldest; shard->newest && count < BATCH && bytes < wanted && (oldest = rows_remove(shard)) != 0;)
        bytes += zg_slot_bytes(slots[count++] = oldest - 1);
    zg_store(&shard->bytes, shard->bytes - bytes);
    shard->owed_bytes -= (int64_t)bytes;
    shard->owed_blocks -= count;
    shard->owed_evictions += count;
    return count;
}

// In the quarantine's steady state, takes as many bytes out of the shard as were added to it. Then the counts over all
// shards, whose cache lines all threads share, need no update. If one batch is not enough, the next flush settles the
// owed counts.
static uint32_t take_owed(struct shard *shard, zg_slot *slots) {
    uint32_t count = shard->owed_bytes > 0 ? take_oldest(shard, (uint64_t)shard->owed_bytes, slots) : 0;
    shard->steady_flushes = shard->owed_bytes > 0 ? 0 : shard->steady_flushes - 1;
    return count;
}

// Returns true if a page of a sparse block still reads as zeros: free() does not fill pages that the program never
// touched.
static bool is_untouched(uint64_t page, uint64_t end) {
    end = zg_min(end, page + ZG_PAGE_BYTES);
    for (uint64_t at = page; at < end; at += sizeof(uint64_t))
        if (*(const uint64_t *)at) return false;
    return true;
}

// Returns true if a sparse block still has the contents that free() left. Skips pages without memory, because reading
// them would take page faults.
static ZG_COLD bool is_sparse_intact(uint64_t start, uint64_t bytes) {
    enum { PAGES = 32 };
    unsigned char present[PAGES];
    for (uint64_t from = start, end = start + bytes; from < end; from += PAGES * ZG_PAGE_BYTES) {
        uint64_t to = zg_min(end, from + PAGES * ZG_PAGE_BYTES);
        bool known = zg_os_find_present((void *)from, zg_round_up(to - from, ZG_PAGE_BYTES), present) == 0;
        for (uint64_t page = from; page < to; page += ZG_PAGE_BYTES) {
            if (known && !(present[(page - from) / ZG_PAGE_BYTES] & 1)) continue;
            if (zg_fill_is_intact((const void *)page, zg_min(to - page, ZG_PAGE_BYTES))) continue;
            if (!is_untouched(page, to)) return false;
        }
    }
    return true;
}

// Returns true if the block still has the contents that free() left. `bytes` is a multiple of 16.
static bool is_intact(uint32_t header, uint64_t start, uint64_t bytes) {
    if (ZG_UNLIKELY(header & ZG_HEADER_SPARSE)) return is_sparse_intact(start, bytes);
    if (ZG_LIKELY(!zg_header_zombie(header))) return zg_fill_is_intact((const void *)start, bytes);
    return zg_zombie_is_written((const void *)start, bytes, zg_zombie_pattern_at(start, header));
}

static uint8_t expected_byte(uint32_t header, uint64_t start, uint64_t offset) {
    if (!zg_header_zombie(header)) return ZG_FILL_FREED;
    uint64_t word = zg_zombie_word(zg_zombie_pattern_at(start, header), offset / 8);
    return (uint8_t)(word >> offset % 8 * 8);
}

// Guesses whether free() filled a page whose contents have changed since then: true if the page has at least as many
// fill bytes as zeros. Otherwise the program had never touched the page, so free() did not fill it.
static bool is_mostly_filled(uint64_t page, uint64_t end) {
    uint64_t filled = 0, zero = 0;
    end = zg_min(end, page + ZG_PAGE_BYTES);
    for (const uint8_t *at = (const uint8_t *)page; at < (const uint8_t *)end; at++) {
        filled += *at == ZG_FILL_FREED;
        zero += *at == 0;
    }
    return filled >= zero;
}

// Whether `count` bytes are printable ASCII.
static bool is_text(const uint8_t *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] < ' ' || bytes[i] > '~') return false;
    return true;
}

// Returns evidence that one write changed both the last bytes of a live block and the first `count` bytes of the freed
// block that begins at `end`; NULL if there is none.
static const char *find_continuation(const uint8_t *end, uint64_t count) {
    enum { LEAST = 4 };
    uint64_t same = 0, zeros = 0;
    if (count < LEAST) return NULL;
    for (uint64_t i = 0; i < count; i++) {
        same += end[i] == *(end - count + i);
        zeros += !end[i];
    }
    if (same == count && zeros < count) return "the changed bytes are the same as the last bytes of this block";
    return is_text(end - LEAST, 2 * LEAST) ? "text runs on from the last bytes of this block" : NULL;
}

// Returns evidence that a write past the end of the live block in front of `start` changed the freed block at `start`,
// from its first byte on; NULL if there is none. Such a write would also have changed the bytes between the two blocks,
// which held zeros or the fill. Sets `*live` to the live block if such a write is possible; otherwise sets
// `live->block` to NULL.
static ZG_COLD const char *find_run_over(uint64_t start, const struct zg_change *change, struct zg_block_view *live) {
    enum { MOST_SLACK = 256, MOST_COMPARED = 16 };
    bool is_found = !change->offset && zg_lookup_block(start - 1, live) && live->state == zg_state_live && live->size &&
                    !zg_lookup_is_isolated(live);
    uint64_t end = is_found ? live->start + live->size : 0, zeros = 0;
    if (!is_found || start - end > MOST_SLACK) {
        live->block = NULL;
        return NULL;
    }
    for (const uint8_t *at = (const uint8_t *)end; at < (const uint8_t *)start; at++) {
        zeros += !*at;
        if (*at == ZG_FILL_FREED) live->block = NULL;
    }
    if (end < start && zeros == start - end) live->block = NULL;
    if (!live->block) return NULL;
    if (end < start) return "the bytes between the end of this block and the freed block behind it changed, too";
    return find_continuation((const uint8_t *)end, zg_min(zg_min(change->length, live->size), MOST_COMPARED));
}

static ZG_COLD void report_changed_bytes(uint64_t start, struct zg_change *change, const char *found_by) {
    struct zg_block_view view, live;
    const char *evidence = find_run_over(start, change, &live);
    if (evidence) {
        change->evidence = evidence;
        change->offset = start - live.start;
        zg_found_overrun(&live, change, found_by);
    } else if (zg_lookup_block(start, &view)) {
        change->in_front = live.block ? &live : NULL;
        zg_found_write_after_free(&view, change, found_by);
    }
}

// Reports a changed block. Checks the block twice, because another thread may evict and reuse it during the first
// check: the change counts only if the block is still quarantined and differs again.
static ZG_COLD void report_change(struct zg_block *block, uint64_t start, uint64_t bytes, const char *found_by) {
    uint32_t header;
    for (int looked = 0; looked < 2; looked++) {
        header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE);
        if (zg_header_state(header) != zg_state_quarantined || header & NOT_VERIFIED) return;
        if (is_intact(header, start, bytes)) return;
    }
    // The thread that sets the bit reports the change.
    if (!__atomic_compare_exchange_n(&block->header, &header, header | ZG_HEADER_CHANGED, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    struct zg_change change = {.offset = bytes};
    bool was_filled = true;
    for (uint64_t i = 0; i < bytes; i++) {
        if (header & ZG_HEADER_SPARSE && i % ZG_PAGE_BYTES == 0)
            was_filled = is_mostly_filled(start + i, start + bytes);
        uint8_t now = *(const uint8_t *)(start + i), expected = was_filled ? expected_byte(header, start, i) : 0;
        if (now == expected) continue;
        if (change.offset == bytes) change = (struct zg_change){.offset = i, .old = expected, .now = now};
        change.length = i - change.offset + 1;
    }
    if (change.offset < bytes) report_changed_bytes(start, &change, found_by);
}

// Does the same as `verify` for a slot whose class and index are known.
ZG_INLINE void verify_slot(const struct zg_slab *slab, uint64_t index, const char *found_by) {
    uint64_t start = zg_slab_slot_address(slab, index), bytes = slab->filled;
    struct zg_block *block = &slab->blocks[index];
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED), zombie = zg_header_zombie(header);
    bool intact;
    if (!bytes || ZG_UNLIKELY(header & NOT_VERIFIED)) return;
    if (ZG_UNLIKELY(header & ZG_HEADER_SPARSE)) intact = is_sparse_intact(start, bytes);
    else if (ZG_LIKELY(!zombie)) intact = zg_fill_is_intact((const void *)start, bytes);
    else if (zombie == ZG_HEADER_SWIFT)
        intact =
            zg_zombie_is_written((const void *)start, bytes, zg_zombie_swift_pattern(slab, index, start - slab->base));
    else intact = zg_zombie_is_written((const void *)start, bytes, zg_zombie_cxx_pattern(slab, index));
    if (ZG_UNLIKELY(!intact)) report_change(block, start, bytes, found_by);
}

ZG_INLINE void verify(struct zg_block *block, uint64_t start, uint64_t bytes, const char *found_by) {
    bytes = zg_fill_bytes(bytes);
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED);
    if (!bytes || ZG_UNLIKELY(header & NOT_VERIFIED)) return;
    if (ZG_UNLIKELY(!is_intact(header, start, bytes))) report_change(block, start, bytes, found_by);
}

static void give_slot(struct zg_thread *thread, uint32_t class, uint32_t index) {
    struct zg_magazine *magazine = &thread->magazines[class];
    uint32_t capacity = zg_slabs.slab[class].magazine;
    if (ZG_UNLIKELY(magazine->count == capacity)) {
        // Release the older half of the magazine, because the newer half is more likely cached.
        uint32_t half = capacity / 2;
        zg_slab_release(class, magazine->slots, half);
        magazine->count -= half;
        for (uint32_t i = 0; i < magazine->count; i++) magazine->slots[i] = magazine->slots[i + half];
    }
    magazine->slots[magazine->count++] = index;
}

// Record and address of a block that is being evicted.
struct evicted_block {
    struct zg_block *block;
    uint64_t start;
};

ZG_INLINE void prefetch_records(const zg_slot *slots, uint32_t count, struct evicted_block *evicted_block) {
    for (uint32_t i = 0; i < count; i++) {
        const struct zg_slab *slab = &zg_slabs.slab[zg_slot_class(slots[i])];
        evicted_block[i].block = &slab->blocks[zg_slot_index(slots[i])];
        evicted_block[i].start = zg_slab_slot_address(slab, zg_slot_index(slots[i]));
        zg_arch_prefetch_for_write(evicted_block[i].block);
        zg_arch_prefetch_for_write((void *)evicted_block[i].start);
        if (slab->slot_bytes > 64) zg_arch_prefetch_for_write((void *)(evicted_block[i].start + 64));
    }
}

// Makes the block reusable. Returns false if the program continues to use the object after a finding: the object then
// keeps its slot.
ZG_INLINE bool make_reusable(struct zg_block *block, uint32_t header) {
    if (ZG_LIKELY(!zg_zombie_saved_contents)) {
        __atomic_store_n(&block->header, zg_header_in_state(header, zg_state_reusable), __ATOMIC_RELEASE);
        return true;
    }
    header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE);
    return !(header & ZG_HEADER_CONTENTS_RESTORED) &&
           __atomic_compare_exchange_n(&block->header, &header, zg_header_in_state(header, zg_state_reusable), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

// Verifies a block that leaves the quarantine. Returns true if its slot is free now.
ZG_INLINE bool evict_slot(zg_slot slot, const struct evicted_block *evicted_block, bool hold) {
    struct zg_slab *slab = &zg_slabs.slab[zg_slot_class(slot)];
    uint32_t header = __atomic_load_n(&evicted_block->block->header, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(header & NEEDS_FULL_CHECK || !slab->filled ||
                    !zg_fill_is_intact((void *)evicted_block->start, slab->filled))) {
        verify_slot(slab, zg_slot_index(slot), "eviction");
        header = __atomic_load_n(&evicted_block->block->header, __ATOMIC_ACQUIRE);
    }
    if (ZG_UNLIKELY(hold) && zg_retire_hold(slab, zg_slot_class(slot), zg_slot_index(slot))) return false;
    return ZG_LIKELY(make_reusable(evicted_block->block, header));
}

// Verifies blocks that were taken out of the queues, and gives the slots that become free to the thread.
static void evict(struct zg_thread *thread, const zg_slot *slots, uint32_t count) {
    bool hold = count && zg_retire_enter(thread);
    struct evicted_block groups[2][PREFETCH_DISTANCE], *now = groups[0], *next = groups[1];
    prefetch_records(slots, (uint32_t)zg_min(count, PREFETCH_DISTANCE), now);
    for (const zg_slot *end = slots + count; slots < end;) {
        const zg_slot *until = slots + zg_min((uint64_t)(end - slots), PREFETCH_DISTANCE);
        prefetch_records(until, (uint32_t)zg_min((uint64_t)(end - until), PREFETCH_DISTANCE), next);
        for (const struct evicted_block *evicted_block = now; slots < until; evicted_block++) {
            zg_slot slot = *slots++;
            if (evict_slot(slot, evicted_block, hold)) give_slot(thread, zg_slot_class(slot), zg_slot_index(slot));
        }
        struct evicted_block *former = now;
        now = next, next = former;
    }
    if (hold) zg_retire_leave(thread);
}

// Evicts the oldest large block; returns false if there is none. Adds the block's size to `*evicted`. The size may be
// 0, because small blocks with a large alignment are spans, too.
static bool evict_large(uint64_t *evicted) {
    zg_lock_take(&large_lock);
    uint32_t number = large_head;
    if (number) {
        __atomic_store_n(&large_head, zg_span_by_number(number)->next, __ATOMIC_RELAXED);
        if (!large_head) large_tail = 0;
        large_bytes -= zg_span_by_number(number)->size;
    }
    zg_lock_drop(&large_lock);
    if (!number) return false;
    struct zg_span *span = zg_span_by_number(number);
    uint64_t bytes = span->size;
    verify(&span->block, span->start, bytes, "eviction");
    account(-(int64_t)bytes, -1);
    zg_stats_add(zg_counter_evictions, 1);
    *evicted += bytes;
    if (zg_retire_wants_span(bytes)) {
        zg_span_retire(span, false);
        return true;
    }
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable), __ATOMIC_RELEASE);
    zg_span_release(span);
    return true;
}

static uint64_t evict_from_shard(struct zg_thread *thread, struct shard *shard, uint64_t wanted) {
    zg_slot *slots = thread->evicted;
    zg_lock_take(&shard->lock);
    uint64_t before = shard->bytes;
    uint32_t count = take_oldest(shard, wanted, slots);
    uint64_t bytes = before - shard->bytes;
    settle(shard);
    shard->steady_flushes = shard == own_shard(thread) ? STEADY_FLUSHES : 0;
    zg_lock_drop(&shard->lock);
    if (!count) return 0;
    evict(thread, slots, count);
    return bytes;
}

// Evicts until at most `cap` bytes are left: first large blocks, then blocks of the thread's shard, or of a shard with
// more than twice as many bytes.
static uint64_t evict_down_to(struct zg_thread *thread, uint64_t cap) {
    uint64_t evicted = 0;
    while (zg_quarantine_bytes() > cap) {
        uint64_t over = zg_quarantine_bytes() - cap, bytes;
        if (__atomic_load_n(&large_head, __ATOMIC_RELAXED) && evict_large(&evicted)) continue;
        struct shard *shard = own_shard(thread);
        for (int i = 0; i < SHARDS; i++)
            if (zg_load(&shards[i].bytes) / 2 > zg_load(&shard->bytes)) shard = &shards[i];
        bytes = evict_from_shard(thread, shard, over);
        if (!bytes) break; // other threads evicted the blocks meanwhile
        evicted += bytes;
    }
    return evicted;
}

static bool ensure_rows(struct shard *shard) {
    if (!newest_count) return false;
    if (!shard->newest) shard->newest = zg_os_map_for_good(sizeof(zg_slot) * CONTEXTS * newest_count);
    if (!shard->newest) zg_stats_degrade(zg_degradation_no_table_memory);
    return shard->newest != NULL;
}

static ZG_COLD void unlock_pending(const zg_slot *slots, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address = zg_slab_slot_address(&zg_slabs.slab[zg_slot_class(slots[i])], zg_slot_index(slots[i]));
        zg_locked_died(address, address + zg_slot_bytes(slots[i]));
    }
}

void zg_quarantine_flush(struct zg_thread *thread) {
    uint32_t count = thread->pending_count;
    if (ZG_UNLIKELY(zg_locked_any())) unlock_pending(thread->pending, count);
    // Count one of the blocks for its allocation stack (watchpoints.h), at a varying index: at a fixed index, a loop
    // that repeats its frees every 64 blocks would always count for the same stack.
    uint64_t ticks = zg_arch_ticks();
    if (ZG_LIKELY(count)) zg_watchpoints_note_free(thread->pending_contexts[(uint32_t)(ticks >> 6) % count], ticks);
    zg_thread_count_pending(thread);
    thread->pending_count = thread->pending_counted = 0;
    struct shard *shard = own_shard(thread);
    zg_slot *pending = thread->pending;
    if (ZG_UNLIKELY(!zg_load(&cap))) {
        // Memory is short: evict everything without using the rows.
        zg_stats_add(zg_counter_evictions, count);
        evict(thread, pending, count);
        evict_down_to(thread, 0);
        return;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += zg_slot_bytes(pending[i]);
    zg_lock_take(&shard->lock);
    uint32_t displaced = ensure_rows(shard) ? rotate_rows(shard, thread, count) : count;
    uint32_t pushed = queue_push(shard, pending, displaced), rejected = displaced - pushed;
    // The queue has no memory for these blocks; they are evicted below.
    for (uint32_t i = pushed; i < displaced; i++) bytes -= zg_slot_bytes(pending[i]);
    zg_store(&shard->bytes, shard->bytes + bytes);
    shard->owed_bytes += (int64_t)bytes;
    shard->owed_blocks += (int64_t)count - rejected;
    shard->owed_evictions += rejected;
    if (ZG_LIKELY(shard->steady_flushes && !rejected)) {
        uint32_t evicted = take_owed(shard, thread->evicted);
        zg_lock_drop(&shard->lock);
        evict(thread, thread->evicted, evicted);
        return;
    }
    settle(shard);
    zg_lock_drop(&shard->lock);
    evict(thread, pending + pushed, rejected);
    evict_down_to(thread, find_cap());
}

void zg_quarantine_add_span(struct zg_thread *thread, struct zg_span *span) {
    uint32_t number = zg_span_number(span);
    zg_lock_take(&large_lock);
    span->next = 0;
    if (large_tail) zg_span_by_number(large_tail)->next = number;
    else __atomic_store_n(&large_head, number, __ATOMIC_RELAXED);
    large_tail = number;
    large_bytes += span->size;
    // Count the block before another thread can evict it and reuse the span with another size.
    account((int64_t)span->size, 1);
    zg_lock_drop(&large_lock);
    evict_down_to(thread, find_cap());
}

// Unmaps the shards' spare chunks.
static void release_spares(void) {
    for (int i = 0; i < SHARDS; i++) {
        zg_lock_take(&shards[i].lock);
        struct chunk *spare = shards[i].spare;
        shards[i].spare = NULL;
        zg_lock_drop(&shards[i].lock);
        for (struct chunk *next; spare; spare = next) {
            next = spare->next;
            zg_os_release(spare, sizeof *spare);
        }
    }
}

static void settle_all(void) {
    for (int i = 0; i < SHARDS; i++) {
        zg_lock_take(&shards[i].lock);
        settle(&shards[i]);
        shards[i].steady_flushes = 0;
        zg_lock_drop(&shards[i].lock);
    }
}

uint64_t zg_quarantine_trim(struct zg_thread *thread, uint64_t keep_bytes) {
    zg_quarantine_flush(thread);
    settle_all();
    uint64_t evicted = evict_down_to(thread, keep_bytes);
    settle_all(); // the quarantine is below its limit now, so not in the steady state
    // With a memory limit, keep the spare chunks, because mapping new ones could fail.
    if (!keep_bytes && !zg_bypass_may_fail) release_spares();
    return evicted;
}

uint64_t zg_quarantine_verify_all(const char *found_by) {
    uint64_t before = zg_stats_get(zg_counter_findings);
    // While the lock is held, pages of blocks evicted meanwhile stay accessible.
    zg_retire_lock();
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        const struct zg_slab *slab = &zg_slabs.slab[class];
        uint64_t used = __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE);
        for (uint64_t i = 0; i < used; i++)
            if (zg_header_state(__atomic_load_n(&slab->blocks[i].header, __ATOMIC_ACQUIRE)) == zg_state_quarantined)
                verify_slot(slab, i, found_by);
    }
    zg_retire_unlock(false);
    zg_lock_take(&large_lock);
    for (uint32_t number = large_head; number; number = zg_span_by_number(number)->next) {
        struct zg_span *span = zg_span_by_number(number);
        verify(&span->block, span->start, span->size, found_by);
    }
    zg_lock_drop(&large_lock);
    return zg_stats_get(zg_counter_findings) - before;
}

void zg_quarantine_lock_all(void) {
    for (int i = 0; i < SHARDS; i++) zg_lock_take(&shards[i].lock);
    zg_lock_take(&large_lock);
}

void zg_quarantine_unlock_all(bool reset) {
    if (reset) {
        for (int i = 0; i < SHARDS; i++) zg_lock_reset(&shards[i].lock);
        zg_lock_reset(&large_lock);
        return;
    }
    zg_lock_drop(&large_lock);
    for (int i = SHARDS; i > 0; i--) zg_lock_drop(&shards[i - 1].lock);
}

#ifdef ZG_CHECK_INVARIANTS
const char *zg_quarantine_broken(void (*slot)(zg_slot slot), void (*span)(uint32_t number)) {
    uint64_t total = 0, large = 0;
    for (int i = 0; i < SHARDS; i++) {
        const struct shard *shard = &shards[i];
        uint64_t bytes = 0;
        if (!shard->head != !shard->tail) return "head and tail of a shard's queue disagree";
        for (const struct chunk *chunk = shard->head; chunk; chunk = chunk->next) {
            if (chunk->first >= chunk->count || chunk->count > CHUNK_SLOTS)
                return "a chunk of a shard's queue is empty or overfull";
            if (!chunk->next && chunk != shard->tail) return "a shard's queue does not end where it should";
            for (uint32_t j = chunk->first; j < chunk->count; j++)
                bytes += zg_slot_bytes(chunk->slots[j]), slot(chunk->slots[j]);
        }
        for (uint32_t j = 0; shard->newest && j < CONTEXTS * newest_count; j++) {
            uint32_t row = j / newest_count,
                     before = (shard->next[row] + newest_count - 1 - j % newest_count) % newest_count;
            if ((before < shard->held[row]) != (shard->newest[j] != 0)) return "a row's blocks are not as it counts";
            if ((shard->held[row] != 0) != (shard->occupied[row / 64] >> row % 64 & 1))
                return "the bit of a row does not say whether it has blocks";
            if (shard->newest[j]) bytes += zg_slot_bytes(shard->newest[j] - 1), slot(shard->newest[j] - 1);
        }
        if (bytes != shard->bytes) return "a shard's byte count is wrong";
        total += bytes - (uint64_t)shard->owed_bytes;
    }
    uint32_t last = 0;
    for (uint32_t number = large_head; number; number = zg_span_by_number(number)->next)
        large += zg_span_by_number(number)->size, span(number), last = number;
    if (last != large_tail || large != large_bytes)
        return "the tail or the byte count of the queue of large blocks is wrong";
    return total + large == zg_load(&total_bytes) ? NULL : "the quarantine's byte count is wrong";
}
#endif
