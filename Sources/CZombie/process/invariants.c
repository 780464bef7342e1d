// Checks the invariants of the whole heap. Test builds only; see the header.

#include "process/invariants.h"

#ifndef ZG_CHECK_INVARIANTS
typedef int zg_no_invariants; // ISO C forbids an empty translation unit
#else

#include "blocks/lookup.h"
#include "heap/quarantine.h"
#include "heap/watchpoints.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "pages/private_pages.h"
#include "pages/retire.h"
#include "pages/window.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "settings/stats.h"

// The place where each slot and span was found; each may be found only once.
enum { nowhere, in_magazine, is_free_slot, is_pending, in_quarantine, in_bin, in_retired_list };
static uint8_t *slot_places[ZG_CLASS_COUNT], *span_places;
static const char *broken;

static void breaks(const char *what) {
    if (!broken) broken = what;
}

static void see_slot(uint32_t class, uint64_t index, uint8_t place) {
    if (class >= ZG_CLASS_COUNT || index >= zg_slabs.slab[class].used)
        breaks("a slot that was never handed out is kept");
    else if (slot_places[class][index] != nowhere) breaks("a slot is in two places");
    else slot_places[class][index] = place;
}

static void see_span(uint32_t number, uint8_t place) {
    if (!zg_span_exists(number)) breaks("a span that does not exist is kept");
    else if (span_places[number] != nowhere) breaks("a span is in two places");
    else span_places[number] = place;
}

static void see_quarantined_slot(zg_slot slot) { see_slot(zg_slot_class(slot), zg_slot_index(slot), in_quarantine); }
static void see_quarantined_span(uint32_t number) { see_span(number, in_quarantine); }
static void see_empty_slot(uint32_t class, uint64_t index) { see_slot(class, index, is_free_slot); }
static void see_free_span(uint32_t number, bool retired) { see_span(number, retired ? in_retired_list : in_bin); }

static void see_free_slots(uint32_t class) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t seen = 0;
    for (uint64_t i = 0; i < slab->committed && !broken; i++)
        if (zg_free_slots_has(&slab->free, i)) see_slot(class, i, is_free_slot), seen++;
    if (!broken && seen != slab->free.count) breaks("a class counts more or fewer free slots than it has");
}

static void see_thread(const struct zg_thread *thread) {
    if (thread->pending_count > ZG_PENDING_BLOCKS) breaks("a thread has more pending blocks than there is room for");
    for (uint32_t i = 0; i < thread->pending_count && !broken; i++)
        see_slot(zg_slot_class(thread->pending[i]), zg_slot_index(thread->pending[i]), is_pending);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        const struct zg_magazine *magazine = &thread->magazines[class];
        if (magazine->count > zg_slabs.slab[class].magazine) breaks("a magazine is overfull");
        for (uint32_t i = 0; i < magazine->count && !broken; i++) see_slot(class, magazine->slots[i], in_magazine);
    }
}

static void check_slot(const struct zg_slab *slab, uint32_t class, uint64_t index) {
    const struct zg_block *block = &slab->blocks[index];
    uint8_t place = slot_places[class][index];
    enum zg_state state = zg_header_state(block->header);
    if (zg_header_slack(block->header) > slab->slot_bytes) breaks("a slot's slack is larger than the slot");
    if (state != zg_state_fresh && zg_header_family(block->header) >= zg_family_count) breaks("a slot is of no kind");
    // A free slot that was never allocated may be held and retired together with its neighbors.
    if (state > zg_state_live && block->alloc_thread && !block->free_thread) breaks("a dead slot was freed by nobody");
    switch (state) {
    case zg_state_fresh:
    case zg_state_reusable:
        if (place != in_magazine && place != is_free_slot) breaks("a free slot is not where free slots are");
        return;
    case zg_state_live:
        if (place != nowhere) breaks("a slot in use is in a list");
        return;
    case zg_state_freeing: breaks("a slot is still being freed"); return;
    case zg_state_quarantined:
        if (place != is_pending && place != in_quarantine && !(block->header & ZG_HEADER_CONTENTS_RESTORED))
            breaks("a quarantined slot is not in the quarantine");
        return;
    case zg_state_held:
    case zg_state_retired:
        if (place != nowhere) breaks("a held or retired slot is in a list");
        return;
    }
    breaks("a slot is in no known state");
}

static void check_span(uint32_t number) {
    const struct zg_span *span = zg_span_by_number(number);
    uint8_t place = span_places[number];
    enum zg_state state = zg_header_state(span->block.header);
    if (state != zg_state_fresh && zg_span_find(span->start) != span) breaks("a span is not found by its address");
    if (state == zg_state_live && !span->protection && zg_span_capacity(span) < span->size)
        breaks("a span is smaller than its block");
    switch (state) {
    case zg_state_fresh: // created, but the kernel refused its memory
    case zg_state_live:
        if (place != nowhere) breaks("a span in use is in a list");
        return;
    case zg_state_quarantined:
        if (place != in_quarantine) breaks("a quarantined span is not in the quarantine");
        return;
    case zg_state_retired:
        if (place != in_retired_list && !(span->block.header & ZG_HEADER_CONTENTS_RESTORED))
            breaks("a retired span is not in the list of those");
        return;
    case zg_state_reusable:
        if (place != in_bin && !(span->protection && span->units > ZG_PRIVATE_REUSED_PAGES_MOST))
            breaks("a free span is in no bin");
        return;
    case zg_state_freeing:
    case zg_state_held: break;
    }
    breaks("a span is in a state that spans do not have");
}

static void *map(uint64_t bytes) { return zg_os_map(zg_round_up(zg_max(bytes, 1), ZG_PAGE_BYTES)); }
static void unmap(void *start, uint64_t bytes) { zg_os_release(start, zg_round_up(zg_max(bytes, 1), ZG_PAGE_BYTES)); }

const char *zg_invariants_check(void) {
    uint64_t used[ZG_CLASS_COUNT], span_count = zg_span_count();
    const char *of_part;
    broken = NULL;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        used[class] = zg_slabs.slab[class].used;
        slot_places[class] = map(used[class]);
        if (!zg_slab_is_valid(&zg_slabs.slab[class])) breaks("a slab has more slots than it can have");
    }
    span_places = map(span_count);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) see_free_slots(class);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++)
        for (uint64_t i = zg_slabs.slab[class].opened; i < zg_slabs.slab[class].opened_end && !broken; i++)
            see_slot(class, i, is_free_slot);
    if (!broken) zg_thread_visit(see_thread);
    if (!broken && (of_part = zg_quarantine_broken(see_quarantined_slot, see_quarantined_span)) != NULL)
        breaks(of_part);
    if (!broken && zg_watchpoints_held()) see_quarantined_slot(zg_watchpoints_held() - 1);
    if (!broken && (of_part = zg_span_broken(see_free_span)) != NULL) breaks(of_part);
    if (!broken && (of_part = zg_private_broken(see_free_span)) != NULL) breaks(of_part);
    if (!broken && (of_part = zg_window_broken()) != NULL) breaks(of_part);
    if (!broken && (of_part = zg_retire_broken(see_empty_slot)) != NULL) breaks(of_part);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++)
        for (uint64_t i = 0; i < used[class] && !broken; i++) check_slot(&zg_slabs.slab[class], class, i);
    for (uint32_t number = 1; number < span_count && !broken; number++) check_span(number);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) unmap(slot_places[class], used[class]);
    unmap(span_places, span_count);
    return broken;
}

#endif
