// Computes how much more the program may allocate within its own limits. Slow path; takes only the lock of
// maintenance.h, to read the cached /proc status.

#define _GNU_SOURCE
#include "limits/allowance.h"

#include <sys/resource.h>

#include "blocks/slab.h"
#include "images/module.h"
#include "limits/maintenance.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "threads/single.h"

enum {
    SAMPLES = 64, // block records examined per size class
    CHUNK_LEAST = 32,
    CHUNK_MORE = 8, // glibc's chunk header; glibc rounds up, which adds half of this again on average
    // While the heap uses less than the limit divided by this, only the kernel limits bypassed blocks.
    SHARE_LEAST = 16,
    // With several threads, /proc is read at most once in this time, except before a refusal.
    AGED_NS = 100000,
    // With one thread, the size of the stacks is read at most once in this time.
    STALE_NS = 10000000,
    // After a refusal, further calls within AT_ONCE_NS are refused without a new check, at most REFUSED_AT_ONCE times:
    // no other thread can unmap memory in less than AT_ONCE_NS.
    AT_ONCE_NS = 250,
    REFUSED_AT_ONCE = 32,
};
// Largest grant: bytes that the heap may take without another check. A grant is a quarter of the room left, but at most
// this, because until a grant is used up the runtime does not notice what the rest of the process maps.
#define GRANT_MOST ((uint64_t)8 << 20)
// Size classes are sampled again after the live bytes have changed by this much, or by a 32nd if that is more.
#define DRIFT_LEAST ((uint64_t)256 << 10)

bool zg_allowance_is_limited;

static uint64_t space_limit = RLIM_INFINITY, data_limit = RLIM_INFINITY;
static uint64_t allowance;
static uint64_t frees_at_failed_relief = UINT64_MAX;

void zg_allowance_before_limit(uint64_t limit) {
    if (limit < zg_os_reserved_bytes()) zg_os_grow_stack();
}

void zg_allowance_reread(void) {
    uint64_t space = zg_os_limit(RLIMIT_AS), data = zg_os_limit(RLIMIT_DATA);
    // If RLIMIT_AS exceeds the reserved bytes, the kernel enforces it, because the kernel counts the reservations, too.
    // If it is lower, the kernel refuses every mapping, and the heap must enforce the limit.
    if (space >= zg_os_reserved_bytes()) space = RLIM_INFINITY;
    if (!zg_os_uncounted_bytes()) data = RLIM_INFINITY;
    if (space == zg_load(&space_limit) && data == zg_load(&data_limit)) return;
    zg_store(&space_limit, space);
    zg_store(&data_limit, data);
    zg_store(&allowance, 0);
    bool is_limited = space != RLIM_INFINITY || data != RLIM_INFINITY;
    __atomic_store_n(&zg_bypass_may_fail, is_limited, __ATOMIC_RELAXED);
    __atomic_store_n(&zg_allowance_is_limited, is_limited, __ATOMIC_RELEASE);
}

// The limits may have changed without a call that the runtime sees: by syscall(2), or by another process with prlimit.
void zg_allowance_reread_after_growth(void) {
    static uint64_t looked;
    uint64_t taken = zg_load(&zg_pressure_taken);
    if (ZG_LIKELY(taken - zg_load(&looked) < GRANT_MOST)) return;
    zg_store(&looked, taken);
    zg_allowance_reread();
}

// --- the heap's part -------------------------------------------------------------------------------------------------

static uint64_t chunk_bytes(uint64_t requested) { return zg_max(CHUNK_LEAST, zg_round_up(requested + CHUNK_MORE, 16)); }

// Estimates from a sample of block records how many slots of a class are live, and the bytes of the glibc chunks their
// blocks would need. In a program that repeats the same sizes, every sample contains them.
static void sample_class(const struct zg_slab *slab, uint64_t *live, uint64_t *chunks) {
    uint64_t used = zg_load(&slab->used), count = zg_min(used, SAMPLES), found = 0, bytes = 0;
    *live = *chunks = 0;
    if (!count) return;
    uint64_t step = used / count, state = used;
    for (uint64_t i = 0; i < count; i++) {
        // Pick a random slot in each part: blocks of several sizes may alternate.
        uint64_t index = i * step + (step > 1 ? zg_random(&state) % step : 0);
        uint32_t header = __atomic_load_n(&slab->blocks[index].header, __ATOMIC_RELAXED);
        if (zg_header_state(header) != zg_state_live) continue;
        found++;
        bytes += chunk_bytes(zg_slab_requested(slab, header));
    }
    *live = used * found / count;
    *chunks = used / count * bytes + used % count * bytes / count;
}

// Returns the difference between the bytes that glibc would need and live_bytes; may be negative.
static int64_t measure_difference(uint64_t blocks) {
    int64_t difference = 0;
    uint64_t in_slabs = 0;
    for (const struct zg_slab *slab = zg_slabs.slab; slab < zg_slabs.slab + ZG_CLASS_COUNT; slab++) {
        uint64_t live, chunks;
        sample_class(slab, &live, &chunks);
        in_slabs += live;
        difference += (int64_t)chunks - (int64_t)(live * slab->slot_bytes);
    }
    // Blocks outside the slabs are counted in live_bytes with their requested size, so glibc would need only its
    // overhead in addition.
    return difference + (int64_t)((blocks - zg_min(blocks, in_slabs)) * (CHUNK_MORE + CHUNK_MORE / 2));
}

static uint64_t at_least_zero(uint64_t counter) { return (int64_t)counter < 0 ? 0 : counter; }

static uint64_t heap_bytes(void) {
    static int64_t difference;
    static uint64_t measured = UINT64_MAX; // live bytes at the last measurement
    uint64_t live = zg_stats_live_bytes(), at = zg_load(&measured);
    uint64_t drift = live > at ? live - at : at - live;
    if (drift > zg_max(DRIFT_LEAST, live / 32)) {
        __atomic_store_n(&difference, measure_difference(at_least_zero(zg_stats_get(zg_counter_live_blocks))),
                         __ATOMIC_RELAXED);
        zg_store(&measured, live);
    }
    int64_t sum = (int64_t)live + __atomic_load_n(&difference, __ATOMIC_RELAXED);
    return sum < 0 ? 0 : (uint64_t)sum;
}

// --- the rest of the process ----------------------------------------------------------------------------------------

// Values as last read. If /proc cannot be read (not mounted, a seccomp filter), the previous values stay. At first they
// are 0, so that only the heap counts against the limits.
static uint64_t space_mapped, data_mapped, stack_mapped, read_ticks;

// Reads /proc/self/statm, counts of pages: all, resident, shared, text, 0, data and stacks (proc(5)).
static bool read_quickly(void) {
    if (!zg_is_single_threaded()) return false; // another thread may rely on the lowest free descriptor number
    char text[128];
    int file = zg_os_open_system("/proc/self/statm");
    if (file < 0) return false;
    int got = zg_os_read(file, text, sizeof text);
    zg_os_close(file);
    uint64_t fields[6] = {0}, field = 0;
    for (int i = 0; i < got && field < ZG_ARRAY_COUNT(fields); i++) {
        if (text[i] >= '0' && text[i] <= '9') fields[field] = fields[field] * 10 + (uint64_t)(text[i] - '0');
        else field++;
    }
    if (field < ZG_ARRAY_COUNT(fields)) return false;
    uint64_t stacks = zg_os_uncounted_bytes() + zg_load(&stack_mapped), data = fields[5] << ZG_PAGE_SHIFT;
    zg_store(&space_mapped, fields[0] << ZG_PAGE_SHIFT);
    zg_store(&data_mapped, data - zg_min(data, stacks));
    return true;
}

static void read_thoroughly(void) {
    uint64_t space, data, stacks, own = zg_os_uncounted_bytes();
    if (!zg_maintenance_begin()) return;
    if (zg_pressure_mapped(&space, &data, &stacks)) {
        zg_store(&space_mapped, space);
        zg_store(&data_mapped, data);
        zg_store(&stack_mapped, stacks - zg_min(stacks, own));
    }
    zg_maintenance_end();
}

static void read_mapped(bool is_refusal) {
    uint64_t ticks = zg_arch_ticks(), last = zg_load(&read_ticks), age = zg_clock_ns(ticks - last);
    // statm counts stacks as data; the size of the stacks is known from the last full read.
    if (last && age < STALE_NS && (read_quickly() || (age < AGED_NS && !is_refusal))) return;
    zg_store(&read_ticks, ticks);
    read_thoroughly();
}

// --- what is left ---------------------------------------------------------------------------------------------------

// Returns the size of the runtime library's image, or 0 for an image over IMAGE_MOST, which is a program that contains
// the runtime.
static uint64_t own_image(void) {
    enum { IMAGE_MOST = 4 << 20 };
    static uint64_t known = UINT64_MAX;
    uint64_t bytes = zg_load(&known);
    if (bytes != UINT64_MAX) return bytes;
    struct zg_module module;
    bytes = zg_module_find_unwind((uint64_t)&zg_allowance_reread, &module) ? module.end - module.start : 0;
    zg_store(&known, bytes = bytes > IMAGE_MOST ? 0 : bytes);
    return bytes;
}

static uint64_t room_below(uint64_t limit, uint64_t mapped, uint64_t own, uint64_t heap) {
    if (limit == RLIM_INFINITY) return UINT64_MAX;
    uint64_t used = mapped - zg_min(mapped, own) + heap;
    return limit - zg_min(limit, used);
}

static uint64_t find_room(bool is_refusal) {
    read_mapped(is_refusal);
    uint64_t heap = heap_bytes(), mapped = zg_os_mapped_bytes(), image = own_image();
    uint64_t space =
        room_below(zg_load(&space_limit), zg_load(&space_mapped), zg_os_reserved_bytes() + mapped + image, heap);
    uint64_t data = room_below(zg_load(&data_limit), zg_load(&data_mapped), mapped + image, heap);
    return zg_min(space, data);
}

// The last refusal. Approximate with several threads: what another thread frees or unmaps is noticed after at most
// REFUSED_AT_ONCE calls.
static uint64_t refused_ticks, refused_bytes = UINT64_MAX, refused_frees, repeated_refusals;

static uint64_t frees_so_far(const struct zg_thread *thread) {
    uint64_t flushed = zg_stats_get(zg_counter_frees);
    return thread ? flushed + thread->frees + thread->pending_count - thread->pending_counted : flushed;
}

static bool is_refused_at_once(const struct zg_thread *thread, uint64_t bytes) {
    uint64_t ticks = zg_arch_ticks(), since = zg_load(&repeated_refusals);
    if (bytes < zg_load(&refused_bytes) || since >= REFUSED_AT_ONCE) return false;
    if (zg_clock_ns(ticks - zg_load(&refused_ticks)) >= AT_ONCE_NS || frees_so_far(thread) != zg_load(&refused_frees))
        return false;
    zg_store(&repeated_refusals, since + 1);
    zg_store(&refused_ticks, zg_arch_ticks());
    return true;
}

void zg_allowance_discount(uint64_t since) {
    zg_store(&refused_ticks, zg_load(&refused_ticks) + (zg_arch_ticks() - since));
}

static bool refuse(const struct zg_thread *thread, uint64_t bytes) {
    zg_store(&allowance, 0);
    zg_store(&refused_bytes, bytes);
    zg_store(&refused_frees, frees_so_far(thread));
    zg_store(&repeated_refusals, 0);
    zg_store(&refused_ticks, zg_arch_ticks());
    return false;
}

static ZG_NOINLINE bool take_anew(struct zg_thread *thread, uint64_t bytes) {
    if (is_refused_at_once(thread, bytes)) return false;
    if (thread) zg_thread_flush_counters(thread);
    uint64_t room = find_room(false);
    if (room < bytes) {
        zg_allowance_reread();
        room = find_room(true);
    }
    if (room < bytes) return refuse(thread, bytes);
    uint64_t grant = zg_max(bytes, zg_min(room / 4, GRANT_MOST));
    zg_store(&allowance, grant - bytes);
    return true;
}

bool zg_allowance_take(struct zg_thread *thread, uint64_t bytes) {
    uint64_t left = zg_load(&allowance);
    while (left >= bytes)
        if (__atomic_compare_exchange_n(&allowance, &left, left - bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    return take_anew(thread, bytes);
}

bool zg_allowance_take_block(struct zg_thread *thread, uint64_t size) {
    uint64_t bytes = chunk_bytes(size);
    if (size <= ZG_LARGEST_SLOT) bytes *= zg_magazine_slots(zg_class_bytes(zg_size_class(size))) / 2;
    return zg_allowance_take(thread, bytes);
}

bool zg_allowance_charge_bypassed(uint64_t size) {
    uint64_t limit = zg_load(&data_limit);
    if (limit == RLIM_INFINITY || heap_bytes() < limit / SHARE_LEAST) return true;
    return zg_allowance_take(NULL, chunk_bytes(size));
}

// --- relief ---------------------------------------------------------------------------------------------------------

bool zg_allowance_is_relief_vain(const struct zg_thread *thread) {
    return frees_so_far(thread) == zg_load(&frees_at_failed_relief);
}
void zg_allowance_note_vain(const struct zg_thread *thread) { zg_store(&frees_at_failed_relief, frees_so_far(thread)); }
