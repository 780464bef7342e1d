// Decides which calls of libc's memory and string functions are checked, and checks them.
// Any context. No lock; findings take the report lock.

#include "entry/witness.h"

#include <errno.h>
#include <string.h>
#include <wchar.h>

#include "blocks/lookup.h"
#include "entry/calls.h"
#include "pages/exact_ends.h"
#include "pages/retire.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "process/runtime.h"
#include "settings/config.h"

enum {
    // Number of calls of each site that are checked at any cost: about 10 ns each (docs/design/030-libc-witnesses.md).
    WITNESS_FIRST = 64,
    // Number of calls of each site up to which further calls are checked if the thread's time allows.
    WITNESS_MOST = 8192,
    // Share of the thread's time that the checks between the two limits may take: 1/128.
    WITNESS_SHARE_SHIFT = 7,
    // Time, in nanoseconds, for which a thread can save up its share. A thread that waited for longer gets no more.
    WITNESS_SAVED_NS = 10000000,
    // Each renewal lets this many sites have this many more checks. A renewal follows 64 frees, so all sites have their
    // turn in 65,536 frees.
    RENEWED_SITES = 4,
    RENEWED_CALLS = 4,
    // Maximum number of bytes that are read behind a block to find the end of a string, for the finding.
    AHEAD_MOST = 65536,
    // Step, in bytes, of a search for two things at once, so that the search ends near the first of them.
    STRIDE = 256,
    // Maximum number of bytes that one search for a string compares. Each occurrence of the string's first byte costs a
    // comparison, whereas libc's strstr takes time in proportion to the two strings.
    COMPARED_MOST = 1 << 20
};

// In a cache line of its own, because every call reads it. `used` keeps the compiler from splitting it into two
// variables.
struct zg_witness_range zg_witness_range __attribute__((aligned(64), used)) = {0, UINT64_MAX};
uint16_t zg_witness_sites[1 << ZG_WITNESS_SITE_BITS] __attribute__((aligned(64)));
static uint64_t saved_ticks;

void zg_witness_start(void) {
    bool is_on = zg_config.witnesses && zg_runtime_is_started();
    if (is_on) saved_ticks = zg_clock_ticks(WITNESS_SAVED_NS);
    zg_store(&zg_witness_range.low, is_on ? zg_lookup_low : 0);
    zg_store(&zg_witness_range.bytes, is_on ? zg_lookup_bytes : 0);
}

// --- which calls -----------------------------------------------------------------------------------------------------

void zg_witness_renew(void) {
    static uint32_t next; // not synchronized: two threads may renew the same sites, which is harmless
    uint32_t first = __atomic_load_n(&next, __ATOMIC_RELAXED);
    __atomic_store_n(&next, (first + RENEWED_SITES) % ZG_ARRAY_COUNT(zg_witness_sites), __ATOMIC_RELAXED);
    for (uint32_t i = first; i < first + RENEWED_SITES; i++)
        if (__atomic_load_n(&zg_witness_sites[i], __ATOMIC_RELAXED) >= ZG_WITNESS_DONE)
            __atomic_store_n(&zg_witness_sites[i], ZG_WITNESS_DONE - RENEWED_CALLS, __ATOMIC_RELAXED);
}

static bool has_credit(struct zg_thread *thread, uint64_t now) {
    uint64_t passed = zg_min(now - thread->witness_looked, saved_ticks);
    int64_t most = (int64_t)(saved_ticks >> WITNESS_SHARE_SHIFT);
    int64_t credit = thread->witness_credit + (int64_t)(passed >> WITNESS_SHARE_SHIFT);
    thread->witness_looked = now;
    thread->witness_credit = credit < most ? credit : most;
    return credit > 0;
}

bool zg_witness_begin(struct zg_witness *witness, const char *name, const uint64_t *frame, const void *caller) {
    struct zg_thread *thread = saved_ticks ? zg_thread_self : NULL; // before the start, nothing is checked
    if (ZG_UNLIKELY(!thread || thread->in_runtime)) return false;
    *witness = (struct zg_witness){name, frame, thread, 0, false};
    uint16_t *site = zg_witness_site(caller);
    uint32_t calls = __atomic_load_n(site, __ATOMIC_RELAXED);
    if (calls >= WITNESS_FIRST && calls < WITNESS_MOST) {
        witness->began = zg_arch_ticks();
        if (!has_credit(thread, witness->began)) calls = WITNESS_MOST;
    }
    bool is_checked = calls != WITNESS_MOST;
    __atomic_store_n(site, is_checked ? (uint16_t)(calls + 1) : ZG_WITNESS_DONE, __ATOMIC_RELAXED);
    return is_checked;
}

void zg_witness_end(const struct zg_witness *witness) {
    if (witness->began) witness->thread->witness_credit -= (int64_t)(zg_arch_ticks() - witness->began);
}

// --- findings --------------------------------------------------------------------------------------------------------

static ZG_COLD void found(struct zg_witness *witness, const struct zg_call_discovery *what) {
    const struct zg_call call = {witness->name, what->written};
    zg_call_found(&call, what, witness->frame);
    witness->has_found = true;
}

// Reports an access to a freed block. `bytes`: 0 if unknown.
static ZG_COLD void found_dead(struct zg_witness *witness, const struct zg_block_view *view, uint64_t pointer,
                               uint64_t bytes, bool written) {
    struct zg_call_discovery dead = {zg_finding_use_after_free, written,        view,
                                     .address = pointer,        .bytes = bytes, .is_ahead = true};
    found(witness, &dead);
}

// Reports that the function accesses memory behind the end of a live block. `room` bytes of the block follow the
// pointer. `bytes`: number of bytes that the function accesses; 0: unknown.
static ZG_COLD void found_over(struct zg_witness *witness, const void *pointer, uint64_t room, uint64_t bytes,
                               bool written) {
    struct zg_block_view view;
    if (!zg_lookup_block((uint64_t)pointer, &view)) return;
    struct zg_call_discovery over = {
        zg_finding_heap_overflow, written,         &view, .address = (uint64_t)pointer + room,
        .bytes = bytes,           .is_ahead = true};
    if (bytes) over.excess = bytes - room;
    found(witness, &over);
}

// Returns how many bytes follow `start` up to and including the first zero character of `width` bytes, but at most
// `most`. 0 if the readable memory up to AHEAD_MOST has none. For a finding only: makes system calls.
static ZG_COLD uint64_t measure_ahead(uint64_t start, uint64_t most, uint64_t width) {
    char bytes[STRIDE];
    int saved = errno;
    for (uint64_t at = 0; at < AHEAD_MOST && at < most; at += sizeof bytes) {
        uint64_t got = zg_os_read_memory(bytes, start + at, zg_min(sizeof bytes, most - at));
        errno = saved;
        for (uint64_t i = 0; i + width <= got; i += width) {
            uint64_t j = 0;
            while (j < width && !bytes[i + j]) j++;
            if (j == width) return at + i + width;
        }
        if (at + got == most) return most;
        if (got < sizeof bytes) return 0;
    }
    return 0;
}

static ZG_COLD void found_unterminated(struct zg_witness *witness, const void *string, uint64_t room, uint64_t most,
                                       uint64_t width) {
    uint64_t left = most == ZG_WITNESS_ANY ? most : most - room;
    uint64_t ahead = measure_ahead((uint64_t)string + room, left, width);
    found_over(witness, string, room, ahead ? room + ahead : 0, false);
}

// --- blocks ----------------------------------------------------------------------------------------------------------

static ZG_NOINLINE uint64_t find_room_slowly(struct zg_witness *witness, uint64_t pointer, uint64_t bytes,
                                             bool written) {
    struct zg_block_view view;
    bool is_known = zg_lookup_block(pointer, &view);
    if (zg_retire_is_forgotten(pointer)) found_dead(witness, NULL, pointer, bytes, written);
    else if (is_known && view.state >= zg_state_quarantined) found_dead(witness, &view, pointer, bytes, written);
    else if (is_known && view.state == zg_state_live)
        return (uint64_t)view.offset < view.size ? view.size - (uint64_t)view.offset : 0;
    return ZG_WITNESS_ANY;
}

// Returns the number of bytes from the pointer to the end of its live block; ZG_WITNESS_ANY if it points into no live
// block. Reports a pointer into a freed block. `bytes`: how many are accessed, not 0; ZG_WITNESS_ANY: unknown.
static ZG_NOINLINE uint64_t find_room(struct zg_witness *witness, const void *pointer, uint64_t bytes, bool written) {
    uint64_t address = (uint64_t)pointer, index, interior;
    if (!zg_witness_concerns(pointer)) return ZG_WITNESS_ANY;
    if (ZG_LIKELY(zg_slab_contains(address))) {
        const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
        uint32_t header = index < __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE)
                              ? __atomic_load_n(&slab->blocks[index].header, __ATOMIC_ACQUIRE)
                              : 0;
        uint64_t size = zg_slab_requested(slab, header);
        if (ZG_LIKELY(zg_header_state(header) == zg_state_live)) return interior < size ? size - interior : 0;
    }
    return find_room_slowly(witness, address, bytes == ZG_WITNESS_ANY ? 0 : bytes, written);
}

static ZG_NOINLINE void access_bytes(struct zg_witness *witness, const void *pointer, uint64_t bytes, bool written) {
    if (!bytes || witness->has_found) return;
    uint64_t room = find_room(witness, pointer, bytes, written);
    if (ZG_UNLIKELY(bytes > room)) found_over(witness, pointer, room, bytes, written);
}

// --- memory ----------------------------------------------------------------------------------------------------------

void zg_witness_copy(struct zg_witness *witness, void *to, const void *from, uint64_t bytes) {
    access_bytes(witness, from, bytes, false);
    access_bytes(witness, to, bytes, true);
}

void zg_witness_fill(struct zg_witness *witness, void *to, uint64_t bytes) { access_bytes(witness, to, bytes, true); }

// Reports a read beyond a block: both arguments are equal up to the end of the block that ends first, so the function
// reads on.
static ZG_COLD void found_equal(struct zg_witness *witness, const void *const pointers[2], const uint64_t rooms[2]) {
    int shorter = rooms[1] < rooms[0];
    found_over(witness, pointers[shorter], rooms[shorter], 0, false);
}

// Finds how many bytes follow each of two read arguments up to its block's end. Returns the smaller number;
// ZG_WITNESS_ANY after a finding, or if neither argument points into a live block.
static uint64_t find_rooms(struct zg_witness *witness, const void *const pointers[2], uint64_t most,
                           uint64_t rooms[2]) {
    for (int i = 0; i < 2; i++) {
        rooms[i] = find_room(witness, pointers[i], most, false);
        if (witness->has_found) return ZG_WITNESS_ANY;
    }
    return zg_min(rooms[0], rooms[1]);
}

void zg_witness_compare(struct zg_witness *witness, const void *a, const void *b, uint64_t bytes) {
    const void *const pointers[2] = {a, b};
    uint64_t rooms[2], least = bytes ? find_rooms(witness, pointers, bytes, rooms) : ZG_WITNESS_ANY;
    if (ZG_LIKELY(bytes <= least) || memcmp(a, b, least) != 0) return;
    found_equal(witness, pointers, rooms);
}

void zg_witness_search(struct zg_witness *witness, const void *start, int byte, uint64_t bytes) {
    uint64_t room = bytes ? find_room(witness, start, bytes, false) : ZG_WITNESS_ANY;
    if (ZG_LIKELY(bytes <= room) || memchr(start, byte, room)) return;
    found_over(witness, start, room, 0, false);
}

void zg_witness_search_back(struct zg_witness *witness, const void *start, int byte, uint64_t bytes) {
    (void)byte;
    access_bytes(witness, start, bytes, false);
}

// --- strings ---------------------------------------------------------------------------------------------------------

// Notes that the allocation stack of a block that begins with a string allocates strings: the stack's next isolated
// blocks end exactly at their guard page.
static ZG_NOINLINE void note_string(const char *string) {
    uint64_t address = (uint64_t)string, index, interior;
    struct zg_block_view view;
    if (!zg_witness_concerns(string)) return;
    if (ZG_LIKELY(zg_slab_contains(address))) {
        const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
        if (!interior && index < __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE))
            zg_exact_end_note_string(slab->blocks[index].alloc_stack);
    } else if (zg_lookup_block(address, &view) && !view.offset) {
        zg_exact_end_note_string(view.alloc_stack);
    }
}

// Measures a string that the function reads, up to `most` bytes. `written`: the function then appends to the string.
// False after a finding.
static ZG_NOINLINE bool measure(struct zg_witness *witness, const char *string, uint64_t most, bool written,
                                uint64_t *length) {
    *length = 0;
    if (!most) return true;
    note_string(string);
    uint64_t room = find_room(witness, string, ZG_WITNESS_ANY, written), limit = zg_min(room, most);
    if (witness->has_found) return false;
    if (limit == ZG_WITNESS_ANY) {
        *length = strlen(string);
        return true;
    }
    const char *end = memchr(string, 0, limit);
    *length = end ? (uint64_t)(end - string) : limit;
    if (ZG_LIKELY(end || most <= room)) return true;
    found_unterminated(witness, string, room, most, 1);
    return false;
}

void zg_witness_string(struct zg_witness *witness, const char *string, uint64_t most) {
    uint64_t length;
    measure(witness, string, most, false, &length);
}

void zg_witness_search_string(struct zg_witness *witness, const char *string, int byte) {
    uint64_t room = find_room(witness, string, ZG_WITNESS_ANY, false);
    if (room == ZG_WITNESS_ANY) return;
    note_string(string);
    for (uint64_t at = 0; at < room; at += STRIDE) {
        uint64_t count = zg_min(STRIDE, room - at);
        if (memchr(string + at, byte, count) || memchr(string + at, 0, count)) return;
    }
    found_over(witness, string, room, 0, false);
}

static uint8_t fold(uint8_t byte, bool folds) { return folds && byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte; }

void zg_witness_compare_strings(struct zg_witness *witness, const char *a, const char *b, uint64_t most, bool folds) {
    const void *const pointers[2] = {a, b};
    if (!most) return;
    uint64_t rooms[2], least = find_rooms(witness, pointers, ZG_WITNESS_ANY, rooms);
    if (least == ZG_WITNESS_ANY) return;
    note_string(a);
    note_string(b);
    if (most <= least) return;
    // Stop at bytes that differ by more than the case of an ASCII letter: in the program's locale, they may end the
    // comparison.
    for (uint64_t i = 0; i < least; i++) {
        if (ZG_LIKELY(a[i] == b[i] && a[i])) continue; // fast path: equal bytes need no case folding
        if (!a[i] || !b[i] || fold((uint8_t)a[i], folds) != fold((uint8_t)b[i], folds)) return;
    }
    found_equal(witness, pointers, rooms);
}

void zg_witness_find_string(struct zg_witness *witness, const char *start, const char *wanted) {
    const char *string = start;
    find_room(witness, wanted, ZG_WITNESS_ANY, false);
    if (witness->has_found || !*wanted) return;
    uint64_t room = find_room(witness, string, ZG_WITNESS_ANY, false), length = strlen(wanted);
    if (room == ZG_WITNESS_ANY) return;
    note_string(start);
    const char *end = string + room;
    for (uint64_t compared = 0; string < end; string += STRIDE) {
        uint64_t count = zg_min(STRIDE, (uint64_t)(end - string));
        const char *null = memchr(string, 0, count), *stop = null ? null : string + count;
        for (const char *at = string; at < stop && (at = memchr(at, *wanted, (uint64_t)(stop - at))); at++) {
            if (length > (uint64_t)(end - at)) break;
            if (memcmp(at, wanted, length) == 0) return;
            compared += length;
        }
        if (null || compared > COMPARED_MOST) return;
    }
    found_over(witness, start, room, 0, false);
}

// Whether a byte continues a number of this base. Every byte that does so in the C locale does so in all others.
static bool is_digit(uint8_t byte, int base) {
    int value = byte >= '0' && byte <= '9' ? byte - '0' : (byte | 0x20) - 'a' + 10;
    return (byte < 0x80 && value >= 0 && value < base) && (byte <= '9' || value >= 10);
}

void zg_witness_number(struct zg_witness *witness, const char *string, int base) {
    uint64_t room = find_room(witness, string, ZG_WITNESS_ANY, false), at = 0;
    if (room == ZG_WITNESS_ANY || base == 1 || base < 0 || base > 36) return; // without a valid base nothing is read
    note_string(string);
    while (at < room && (string[at] == ' ' || (string[at] >= '\t' && string[at] <= '\r'))) at++;
    if (at < room && (string[at] == '-' || string[at] == '+')) at++;
    if (!base) base = at < room && string[at] == '0' ? 8 : 10;
    // A prefix (0x, 0b) ends the loop, and so does an exponent: the number may end in front of it.
    while (at < room && is_digit((uint8_t)string[at], base)) at++;
    if (at == room) found_over(witness, string, room, 0, false);
}

void zg_witness_copy_string(struct zg_witness *witness, char *to, const char *from, uint64_t most, bool appends) {
    uint64_t length, before = 0;
    if (appends && !measure(witness, to, ZG_WITNESS_ANY, true, &before)) return;
    if (!measure(witness, from, most, false, &length)) return;
    note_string(to);
    access_bytes(witness, to, before + length + 1, true);
}

void zg_witness_copy_padded(struct zg_witness *witness, char *to, const char *from, uint64_t bytes) {
    uint64_t length;
    if (measure(witness, from, bytes, false, &length)) access_bytes(witness, to, bytes, true);
}

void zg_witness_wide_string(struct zg_witness *witness, wchar_t *to, const wchar_t *from) {
    uint64_t room = find_room(witness, from, ZG_WITNESS_ANY, false), most = room / sizeof *from, length = 0;
    if (witness->has_found) return;
    while (length < most && from[length]) length++;
    if (length == most) return found_unterminated(witness, from, room, ZG_WITNESS_ANY, sizeof *from);
    if (to) access_bytes(witness, to, (length + 1) * sizeof *from, true);
}
