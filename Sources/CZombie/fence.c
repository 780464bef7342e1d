// Fenced blocks. No lock of its own.

#include "fence.h"

#include "classes.h"
#include "config.h"
#include "fill.h"
#include "os.h"
#include "span.h"
#include "zombie.h"

enum { CONTEXTS = 1 << 21 };

// Fenced so far, by context: their numbers are dense, and untouched pages cost nothing. Beyond these many contexts some
// share a count.
static uint16_t counts[CONTEXTS];
static uint64_t fenced;

bool zg_fence_wants(uint32_t context) {
    uint16_t *count = &counts[context % CONTEXTS];
    if (__atomic_load_n(count, __ATOMIC_RELAXED) >= zg_config.fence_per_context) return false;
    if (__atomic_fetch_add(&fenced, 1, __ATOMIC_RELAXED) >= 8192) {
        __atomic_fetch_sub(&fenced, 1, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    return true;
}

static uint64_t page_bytes(const struct zg_span *span) { return zg_round_up(zg_max(span->size, 1), ZG_PAGE_BYTES); }

static bool open_pages(const struct zg_block_view *view, struct zg_span **span) {
    *span = zg_span_find(view->start);
    return *span && (*span)->fenced && view->state == zg_state_retired &&
           zg_os_commit((void *)view->start, page_bytes(*span)) == 0;
}

bool zg_fence_open_header(const struct zg_block_view *view) {
    struct zg_span *span;
    uint64_t header = view->zombie == ZG_HEADER_SWIFT ? 16 : view->zombie == ZG_HEADER_CXX ? 8 : 0;
    if ((uint64_t)view->offset >= header || !open_pages(view, &span)) return false;
    struct zg_zombie_pattern pattern = zg_zombie_span_pattern(view->zombie, zg_span_number(span));
    uint64_t *words = (uint64_t *)view->start;
    words[0] = pattern.head[0];
    if (view->zombie == ZG_HEADER_SWIFT) words[1] = pattern.head[1];
    return true;
}

bool zg_fence_open(const struct zg_block_view *view) {
    struct zg_span *span;
    if (!open_pages(view, &span)) return false;
    struct zg_class class = zg_class_get(view->zombie ? view->death.class_number : 0);
    uint64_t *words = (uint64_t *)view->start;
    if (class.language == zg_language_unknown) return true;
    words[0] = class.pointer;
    if (class.language == zg_language_swift) words[1] = ZG_SWIFT_IMMORTAL_BITS;
    __atomic_fetch_or(&span->block.header, ZG_HEADER_OPENED, __ATOMIC_RELAXED);
    return true;
}
