// Keeps the executable replacements of unaligned vector instructions. One page holds them; it is writable only while a
// replacement is added.
// Signal context, except zg_unaligned_prepare; no lock.

#include "platform/unaligned.h"

#include "platform/os.h"

enum { PLACES = ZG_PAGE_BYTES / 32, PLACE_BYTES = 32 };

static enum { is_untried, is_tried, is_ready, is_refused } state;
static uint8_t (*places)[PLACE_BYTES];
static uint32_t used;

bool zg_unaligned_prepare(void) {
    uint32_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE), untried = is_untried;
    if (ZG_LIKELY(now != is_untried)) return now == is_ready;
    if (!__atomic_compare_exchange_n((uint32_t *)&state, &untried, is_tried, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    bool done = !zg_arch_has_unaligned();
    uint8_t(*page)[PLACE_BYTES] = done ? NULL : zg_os_map_for_good(ZG_PAGE_BYTES);
    if (page) {
        while (zg_arch_unaligned_common(used, page[used])) used++;
        done = zg_os_close_code(page, ZG_PAGE_BYTES) == 0;
        places = page;
    }
    __atomic_store_n(&state, done ? is_ready : is_refused, __ATOMIC_RELEASE);
    return done;
}

// Returns the executable replacement, and adds it to the page if it is missing; NULL if it cannot be added.
static const void *find_place(const uint8_t code[ZG_UNALIGNED_CODE]) {
    for (uint32_t i = 0; i < used && i < PLACES; i++)
        if (__builtin_memcmp(places[i], code, ZG_UNALIGNED_CODE) == 0) return places[i];
    uint8_t *place = places[used % PLACES];
    if (zg_os_open_code(places, ZG_PAGE_BYTES) != 0) return NULL;
    __builtin_memcpy(place, code, ZG_UNALIGNED_CODE);
    used++;
    // If this call fails, the page stays writable and executable.
    zg_os_close_code(places, ZG_PAGE_BYTES);
    return place;
}

bool zg_unaligned_read(struct zg_unaligned *it, const uint8_t *code, int count, const void *ucontext) {
    *it = (struct zg_unaligned){.code = {0}};
    return zg_arch_unaligned_read(it, code, count, ucontext);
}

bool zg_unaligned_execute(const struct zg_unaligned *it, void *ucontext) {
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != is_ready || !places) return false;
    const void *code = find_place(it->code);
    if (code) zg_arch_unaligned_run(it, code, ucontext);
    return code != NULL;
}
