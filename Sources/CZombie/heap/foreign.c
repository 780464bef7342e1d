// Distinguishes libc's blocks from invalid pointers, by the layout of glibc's chunks (malloc/malloc.c, "malloc_chunk";
// stable since glibc 2.3): the word before a block holds its size and three flags.
// Slow path; no lock.

#define _GNU_SOURCE
#include "heap/foreign.h"

#include <errno.h>
#include <link.h>
#include <sys/auxv.h>

#include "images/loader.h"
#include "images/module.h"
#include "platform/libc.h"
#include "platform/os.h"
#include "platform/text.h"
#include "threads/thread.h"
#include "settings/bypass.h"
#include "settings/coverage.h"
#include "settings/stats.h"

enum { CHUNK_MMAPPED = 2, CHUNK_NON_MAIN_ARENA = 4, CHUNK_FLAGS = 7 };
#define ARENA_BYTES (UINT64_C(64) << 20)

static uint64_t break_start;
// Functions of the next allocator behind the runtime in the symbol search order. All are NULL if that allocator is
// libc, or if its functions would call the runtime again.
static struct zg_next behind;

static void *libc_function(const char *name) {
    return zg_loader_is_static ? zg_loader_next(name) : zg_module_function_in(zg_libc_address(), name);
}

static void find_in_libc(void) {
    zg_libc = (struct zg_next){(void *(*)(size_t))libc_function("malloc"),
                               (void *(*)(size_t, size_t))libc_function("calloc"),
                               (void *(*)(void *, size_t))libc_function("realloc"),
                               (void *(*)(size_t, size_t))libc_function("memalign"),
                               (void (*)(void *))libc_function("free"),
                               (size_t(*)(void *))libc_function("malloc_usable_size")};
    zg_next = zg_libc;
}

// These functions serve calls until libc's functions are known, including calls while the loader looks them up.
static void *first_malloc(size_t size) { return find_in_libc(), zg_libc.malloc(size); }
static void *first_calloc(size_t count, size_t size) { return find_in_libc(), zg_libc.calloc(count, size); }
static void *first_realloc(void *block, size_t size) { return find_in_libc(), zg_libc.realloc(block, size); }
static void *first_memalign(size_t alignment, size_t size) { return find_in_libc(), zg_libc.memalign(alignment, size); }
static void first_free(void *block) { find_in_libc(), zg_libc.free(block); }
static size_t first_usable_size(void *block) { return find_in_libc(), zg_libc.usable_size(block); }

struct zg_next zg_libc;
struct zg_next zg_next = {first_malloc, first_calloc, first_realloc, first_memalign, first_free, first_usable_size};

// Functions of other images that precede the runtime's in the search order.
static struct {
    uint32_t functions; // bit mask of enum zg_foreign_function
    // The image that defines a function imports dlsym, so the function may be a wrapper that forwards to the runtime.
    bool may_forward;
    bool is_reached, is_reported;
    const char *name;
    void *function;
} front;

void zg_foreign_init_libc_heap(void) { zg_libc.free(zg_libc.malloc(1)); }

static struct zg_next functions_behind(void) {
    return (struct zg_next){(void *(*)(size_t))zg_loader_next("malloc"),
                            (void *(*)(size_t, size_t))zg_loader_next("calloc"),
                            (void *(*)(void *, size_t))zg_loader_next("realloc"),
                            (void *(*)(size_t, size_t))zg_loader_next("memalign"),
                            (void (*)(void *))zg_loader_next("free"),
                            (size_t(*)(void *))zg_loader_next("malloc_usable_size")};
}

static bool is_within(const struct zg_module *module, uint64_t function) {
    return function >= module->start && function < module->end;
}

// Checks all functions: a library that defines malloc alone allocates from its own memory, although the next `free` is
// libc's.
static bool are_all_within(const struct zg_module *module, const struct zg_next *functions) {
    return is_within(module, (uint64_t)functions->malloc) && is_within(module, (uint64_t)functions->calloc) &&
           is_within(module, (uint64_t)functions->realloc) && is_within(module, (uint64_t)functions->memalign) &&
           is_within(module, (uint64_t)functions->free) && is_within(module, (uint64_t)functions->usable_size);
}

static bool imports_any(void *function, const char *const *symbols, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (zg_module_imports((uint64_t)function, symbols[i])) return true;
    return false;
}

static const char *const entry_points[] = {"__libc_free", "__libc_realloc", "__libc_malloc"};

// The next functions in the search order are libc's unless another allocator is loaded. Other libraries, like the
// runtime, may export __libc_free and similar functions, so libc is identified by another function.
void zg_foreign_find_libc(void) {
    struct zg_next found = functions_behind();
    struct zg_module theirs, libc;
    bool known = found.free && zg_module_find_unwind((uint64_t)found.free, &theirs) &&
                 zg_module_find_unwind(zg_libc_address(), &libc);
    if (known && are_all_within(&libc, &found)) {
        zg_next = zg_libc = found;
        return;
    }
    find_in_libc();
    // A library that imports libc's entry points is bound to those of the runtime (publish.c): a bypassed allocation
    // would come back to the runtime.
    bool comes_back = known && imports_any((void *)found.free, entry_points, ZG_ARRAY_COUNT(entry_points));
    if (known && theirs.start != libc.start && !comes_back) behind = found;
}

// In an executable that is not position-independent, a function whose address is taken gets the address of the
// executable's PLT entry in all images, although the executable does not define the symbol.
static bool is_defined_at(void *function, const char *name) {
    return zg_module_function_in((uint64_t)function, name) == function;
}

// Number of functions at the start of ZG_FOREIGN_FUNCTIONS that reveal an allocator: an allocator that defines any
// function of that list defines one of these.
enum { MARKER_FUNCTIONS = zg_foreign_function_malloc_usable_size + 1 };
// Functions that receive blocks.
#define RECEIVES_BLOCKS                                                                                                \
    (1u << zg_foreign_function_free | 1u << zg_foreign_function_realloc | 1u << zg_foreign_function_malloc_usable_size)

// Looks for allocation functions in front of the runtime. A function that receives blocks may forward them to libc past
// the runtime. A wrapper that calls libc's entry points by name reaches the runtime (publish.c). A wrapper that looks
// up the next definition by dlsym reaches the runtime, too, but the name that it looks up is unknown here. An
// independent allocator does neither.
static void look_in_front(void) {
    static const char *const names[zg_foreign_function_count] = {
#define ZG_X(name) #name,
        ZG_FOREIGN_FUNCTIONS(ZG_X)
#undef ZG_X
    };
    static const char *const searches[] = {"dlsym", "dlvsym"};
    struct zg_module ours, libc, module;
    if (!zg_module_find_unwind((uint64_t)look_in_front, &ours) || !zg_module_find_unwind(zg_libc_address(), &libc))
        return;
    bool all_hand_on = true;
    for (uint32_t i = 0; i < (front.functions ? zg_foreign_function_count : MARKER_FUNCTIONS); i++) {
        void *first = zg_loader_first(names[i]);
        if (!first || !zg_module_find_unwind((uint64_t)first, &module) || module.start == ours.start ||
            module.start == libc.start || !is_defined_at(first, names[i]))
            continue;
        if (!front.functions) front.name = names[i], front.function = first;
        front.functions |= 1u << i;
        front.may_forward = front.may_forward || imports_any(first, searches, ZG_ARRAY_COUNT(searches));
        all_hand_on = all_hand_on && imports_any(first, entry_points, ZG_ARRAY_COUNT(entry_points));
    }
    front.is_reached = front.functions && all_hand_on;
    if (front.functions & RECEIVES_BLOCKS && !front.is_reached && zg_foreign_find_next())
        zg_bypass_mode = zg_bypass_all;
}

void zg_foreign_init(void) {
    break_start = zg_os_break();
    zg_bypass_mode = zg_bypass_none;
    look_in_front();
}

bool zg_foreign_is_interposed(void) { return front.functions != 0; }

bool zg_foreign_note_forwarded(enum zg_foreign_function function) {
    uint8_t all = zg_bypass_all;
    if (!(front.functions >> function & 1)) return false;
    __atomic_store_n(&front.is_reached, true, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&zg_bypass_mode, &all, zg_bypass_none, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    __atomic_fetch_and(&zg_stats->degradations, ~(UINT64_C(1) << zg_degradation_allocator_in_front), __ATOMIC_RELAXED);
    return true;
}

static void report_in_front(void) {
    char message[sizeof zg_stats->allocator + 128];
    struct zg_text text;
    zg_text_init(&text, message, sizeof message);
    zg_text_string(&text, "zguard: warning: ");
    zg_text_char(&text, '\'');
    zg_text_string(&text, zg_stats->allocator);
    zg_text_string(&text, "' defines ");
    zg_text_string(&text, front.name);
    zg_text_string(&text, zg_bypass_mode == zg_bypass_all
                              ? " and is loaded before the runtime: no block is guarded\n"
                              : " and is loaded before the runtime: its blocks are not guarded\n");
    zg_os_write(2, message, text.count);
    front.is_reported = true;
}

void zg_foreign_report(void) {
    struct zg_module module;
    void *other = front.functions ? front.function : (void *)behind.free;
    if (behind.free) zg_stats_degrade(zg_degradation_other_allocator);
    if (front.is_reached || !other || !zg_module_find((uint64_t)other, &module)) return;
    zg_string_copy(zg_stats->allocator, module.path, sizeof zg_stats->allocator);
    if (!front.functions) return;
    zg_stats_degrade(zg_degradation_allocator_in_front);
    zg_coverage_declined(zg_coverage_reason_other_allocator);
    // A wrapper is recognized by its first call into the runtime. Do not report a possible wrapper before the exit.
    if (!front.may_forward) report_in_front();
}

void zg_foreign_report_at_exit(void) {
    if (front.functions && front.may_forward && !front.is_reached && !front.is_reported) report_in_front();
}

bool zg_foreign_find_next(void) {
    if (zg_loader_is_static) return false; // there is no other allocator
    if (!behind.free) return zg_next.usable_size != NULL;
    struct zg_next other = behind;
    if (!other.memalign) other.memalign = (void *(*)(size_t, size_t))zg_loader_next("aligned_alloc");
    if (!other.malloc || !other.calloc || !other.realloc || !other.memalign || !other.usable_size) return false;
    if (zg_stats_get(zg_counter_unguarded_allocations)) return false;
    zg_next = other;
    return true;
}

// `next` is libc until zg_foreign_find_next has chosen the allocator whose free will get the blocks.
static void *allocate_by(const struct zg_next *next, uint64_t size, uint64_t alignment, bool zero) {
    if (alignment <= 16) return zero ? next->calloc(1, size) : next->malloc(size);
    void *block = next->memalign(alignment, size);
    if (block && zero) __builtin_memset(block, 0, size);
    return block;
}

void *zg_foreign_allocate(uint64_t size, uint64_t alignment, bool zero) {
    zg_stats_add(zg_counter_unguarded_allocations, 1);
    return allocate_by(&zg_next, size, alignment, zero);
}

void *zg_foreign_allocate_bypassed(uint64_t size, uint64_t alignment, bool zero) {
    return allocate_by(&zg_libc, size, alignment, zero);
}

// Returns false if the words cannot be read. Sets `*refused` if that says nothing about the memory, because the kernel
// refused the call.
static bool read_words(uint64_t *words, uint64_t address, uint64_t bytes, bool *refused) {
    int64_t result = zg_os_try_read_memory(words, address, bytes);
    *refused = *refused || (result != (int64_t)bytes && result != -EFAULT);
    return result == (int64_t)bytes;
}

// Checks for the layout of a glibc chunk. The answer is certain unless `*refused` is set.
static bool looks_like_libcs(uint64_t address, bool *refused) {
    // Size of the previous chunk (for a chunk with its own mapping: its offset in the mapping); then size and flags.
    uint64_t chunk[2];
    if (address & 15 || !read_words(chunk, address - 16, sizeof chunk, refused)) return false;
    uint64_t size = chunk[1] & ~(uint64_t)CHUNK_FLAGS;
    if (size < 32 || size & 15) return false;
    if (chunk[1] & CHUNK_MMAPPED)
        return ((address - 16 - chunk[0]) & (ZG_PAGE_BYTES - 1)) == 0 && ((chunk[0] + size) & (ZG_PAGE_BYTES - 1)) == 0;
    if (chunk[1] & CHUNK_NON_MAIN_ARENA) {
        // The arena, the previous heap, and the size, as in struct _heap_info.
        uint64_t heap[3], start = address & ~(ARENA_BYTES - 1), arena;
        if (!read_words(heap, start, sizeof heap, refused)) return false;
        return heap[0] && !(heap[0] & 7) && heap[2] <= ARENA_BYTES && address + size - 16 <= start + heap[2] &&
               read_words(&arena, heap[0], sizeof arena, refused);
    }
    if (address >= break_start && address - 16 + size <= zg_os_break()) return true;
    // If the break cannot move, libc extends its main heap by mmap: the next chunk must then mark this chunk as in use.
    uint64_t behind[2];
    return read_words(behind, address - 16 + size, sizeof behind, refused) && (behind[1] & 1) && !(behind[1] & 8) &&
           behind[1] >> 48 == 0;
}

// If memory cannot be read, for example because seccomp forbids it, assume libc: libc served the blocks that the heap
// could not, and libc's free checks the pointer itself.
static bool made_by_libc(uint64_t address) {
    bool refused = false;
    return looks_like_libcs(address, &refused) || refused;
}

bool zg_foreign_is_libc_alone(void) { return !behind.free && !zg_bypass_mode; }

enum zg_foreign_owner zg_foreign_owner(uint64_t address) {
    struct zg_module module;
    struct zg_stack_bounds stack = zg_thread_stack_bounds();
    if (address >= stack.low && address < stack.high) return zg_foreign_none;
    if (zg_module_find_unwind(address, &module)) return zg_foreign_none;
    if (made_by_libc(address)) return zg_foreign_libc;
    return behind.free ? zg_foreign_other : zg_foreign_none;
}

void zg_foreign_free(void *address, enum zg_foreign_owner owner) {
    zg_stats_add(zg_counter_foreign_frees, 1);
    if (owner == zg_foreign_other) behind.free(address);
    else zg_libc.free(address);
}

void *zg_foreign_reallocate(void *address, uint64_t size, enum zg_foreign_owner owner) {
    zg_stats_add(zg_counter_foreign_frees, 1);
    if (owner == zg_foreign_other && behind.realloc) return behind.realloc(address, size);
    return zg_libc.realloc(address, size);
}

uint64_t zg_foreign_usable_size(void *address, enum zg_foreign_owner owner) {
    size_t (*usable_size)(void *) = owner == zg_foreign_other ? behind.usable_size : zg_libc.usable_size;
    return owner == zg_foreign_none || !usable_size ? 0 : usable_size(address);
}

// The kernel puts arguments and environment above the main thread's first frame, and the program's name last.
static bool is_argument(uint64_t address) {
    uint64_t last = getauxval(AT_EXECFN);
    return last && address >= (uint64_t)zg_libc_stack_end() && address <= last + zg_string_length((const char *)last);
}

const char *zg_foreign_describe(uint64_t address) {
    struct zg_module module;
    struct zg_stack_bounds stack = zg_thread_stack_bounds();
    if ((address >= stack.low && address < stack.high) || is_argument(address)) return "stack address";
    if (zg_module_find_unwind(address, &module)) return "global variable";
    return address & 15 ? "misaligned" : "never allocated";
}
