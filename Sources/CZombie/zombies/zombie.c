// Implements the part of zombie.h that is not inline. Cold and signal context; no lock.

#define _GNU_SOURCE
#include "zombies/zombie.h"

#include <time.h>

#include "blocks/alias.h"
#include "blocks/span_table.h"
#include "platform/os.h"
#include "platform/ratio.h"
#include "settings/stats.h"

uint64_t zg_zombie_saved_contents;

static void describe_layout(void) {
    struct zg_layout *layout = &zg_stats->layout;
    layout->trap_isa_shift = ZG_TRAP_ISA_SHIFT;
    layout->trap_side_shift = ZG_TRAP_SIDE_SHIFT - 3;
    layout->trap_word_shift = ZG_TRAP_WORD_SHIFT;
    layout->trap_slots_shift = zg_traps.slots_shift;
    layout->trap_words_shift = zg_traps.words_shift;
    layout->traps = zg_traps;
    layout->class_table = (uint64_t)zg_classes;
    layout->class_table_count = ZG_CLASSES_ALL;
    layout->span_trap_isa = zg_trap_first_isa(ZG_CLASS_COUNT);
    layout->span_trap_side = zg_trap_first_side(ZG_CLASS_COUNT);
    layout->windows.trap_isa = zg_trap_first_isa(ZG_TRAP_ALIASES);
    layout->windows.trap_side = zg_trap_first_side(ZG_TRAP_ALIASES);
}

struct zg_layout_time zg_layout_time_now(void) {
    return (struct zg_layout_time){zg_arch_ticks(), zg_os_clock_ns(CLOCK_REALTIME)};
}

void zg_zombie_note_time(void) { zg_stats->layout.last_time = zg_layout_time_now(); }

void zg_zombie_init(bool on, bool keep_contents) {
    if (on && !zg_trap_init()) {
        zg_stats_degrade(zg_degradation_no_trap_space);
        on = false;
    }
    zg_classes_init(on);
    on = on && zg_classes_on;
    for (uint32_t class = 0; on && class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        slab->trap_isa = zg_trap_first_isa(class);
        slab->trap_side = zg_trap_first_side(class);
        slab->trap_word = zg_trap_first_word(class);
        struct zg_layout_class *layout = &zg_stats->layout.classes[class];
        layout->trap_isa = slab->trap_isa;
        layout->trap_side = slab->trap_side;
        layout->trap_word = slab->trap_word;
    }
    if (on) describe_layout();
    zg_stats->layout.death_bytes = sizeof(struct zg_death);
    zg_stats->layout.first_time = zg_layout_time_now();
    if (on && keep_contents) zg_zombie_saved_contents = (uint64_t)zg_os_map_for_good(zg_slabs.bytes);
    if (on && keep_contents && !zg_zombie_saved_contents) zg_stats_degrade(zg_degradation_no_contents);
    // The saved contents can be as large as all slabs, and are useless in a core file.
    if (zg_zombie_saved_contents) zg_os_leave_out_of_core((void *)zg_zombie_saved_contents, zg_slabs.bytes);
}

uint64_t zg_zombie_time_ns(const struct zg_death *death) {
    struct zg_layout_time first = zg_stats->layout.first_time, last = zg_layout_time_now();
    uint64_t elapsed = last.ticks - first.ticks;
    if (!elapsed || !death->time) return 0;
    // `death->time` has the low 32 bits of a time in the past.
    uint64_t now = last.ticks >> ZG_TIME_SHIFT, age = (uint32_t)((uint32_t)now - death->time);
    uint64_t age_ns = zg_scaled(age << ZG_TIME_SHIFT, last.ns - first.ns, elapsed);
    return age_ns < last.ns ? last.ns - age_ns : 0;
}

static struct zg_zombie_pattern pattern_of(uint32_t class, uint32_t bits, uint64_t number) {
    struct zg_zombie_pattern pattern = {
        {zg_trap_first_isa(class) + zg_trap_isa_distance(number), ZG_FILL_WORD}, ZG_FILL_WORD, 0};
    if (bits == ZG_HEADER_SWIFT) pattern.head[1] = zg_trap_first_side(class) + zg_trap_side_distance(number);
    return pattern;
}

struct zg_zombie_pattern zg_zombie_span_pattern(uint32_t bits, uint32_t number) {
    return pattern_of(ZG_TRAP_SPANS, bits, number);
}

struct zg_zombie_pattern zg_zombie_pattern_at(uint64_t start, uint32_t header) {
    uint32_t bits = zg_header_zombie(header);
    if (zg_alias_contains(start))
        return pattern_of(ZG_TRAP_ALIASES, bits, (start - zg_alias_area.base) / ZG_PAGE_BYTES);
    if (!zg_slab_contains(start)) return zg_zombie_span_pattern(bits, zg_span_number(zg_span_find(start)));
    uint64_t number, interior;
    struct zg_slab *slab = zg_slab_find(start, &number, &interior);
    if (bits == ZG_HEADER_CXX) return zg_zombie_cxx_pattern(slab, number);
    return zg_zombie_swift_pattern(slab, number, start - slab->base);
}

bool zg_zombie_is_header(const struct zg_block_view *view) {
    return (uint64_t)view->offset < (view->zombie == ZG_HEADER_SWIFT ? 16 : view->zombie == ZG_HEADER_CXX ? 8 : 0);
}

static bool is_zombie(const struct zg_block_view *view) {
    return view->zombie && view->state >= zg_state_quarantined && view->state != zg_state_reusable;
}

static bool is_likely(const struct zg_block_view *view, const uint64_t *likely, int count) {
    for (int i = 0; i < count; i++)
        if (likely[i] - view->start < zg_max(view->size, 1)) return true;
    return false;
}

// Checks one object that shares this trap window. Returns true if it is the best candidate for the report so far.
static bool consider(uint64_t start, struct zg_zombie_hit *hit, const uint64_t *likely, int count) {
    struct zg_block_view view;
    if (!zg_lookup_block(start, &view) || !is_zombie(&view)) return false;
    if (hit->has_block) {
        hit->ambiguous = true;
        if (!is_likely(&view, likely, count)) return false;
    }
    hit->block = view;
    hit->has_block = true;
    return true;
}

struct zg_zombie_hit zg_zombie_find(uint64_t address, const uint64_t *likely, int likely_count) {
    struct zg_trap_place place = zg_trap_decode(address);
    struct zg_zombie_hit hit = {.part = place.part, .offset = place.offset};
    if (place.part == zg_trap_none) return hit;
    if (place.class_number == ZG_TRAP_SPANS) {
        uint32_t number = (uint32_t)place.number;
        if (place.part != zg_trap_word && zg_span_exists(number))
            consider(zg_span_by_number(number)->start, &hit, likely, likely_count);
        return hit;
    }
    if (place.class_number == ZG_TRAP_ALIASES) {
        uint64_t end = __atomic_load_n(&zg_alias_area.covered, __ATOMIC_ACQUIRE);
        for (uint64_t page = place.number; page < end && place.part != zg_trap_word;
             page += UINT64_C(1) << zg_traps.slots_shift) {
            const struct zg_alias *alias = zg_alias_find(zg_alias_area.base + page * ZG_PAGE_BYTES);
            if (alias) consider(zg_alias_start(alias), &hit, likely, likely_count);
        }
        return hit;
    }
    const struct zg_slab *slab = &zg_slabs.slab[place.class_number];
    uint64_t used = __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE);
    uint64_t slots = UINT64_C(1) << zg_traps.slots_shift, region = UINT64_C(1) << zg_traps.words_shift;
    if (place.part == zg_trap_word) {
        for (uint64_t byte = place.byte; byte < used * slab->slot_bytes; byte += region)
            if (consider(slab->base + byte, &hit, likely, likely_count)) hit.byte = slab->base + byte - hit.block.start;
        return hit;
    }
    for (uint64_t number = place.number; number < used; number += slots)
        consider(zg_slab_slot_address(slab, number), &hit, likely, likely_count);
    return hit;
}

bool zg_zombie_former_word(const struct zg_zombie_hit *hit, uint64_t *word) {
    if (!zg_zombie_saved_contents || !hit->has_block || hit->part != zg_trap_word) return false;
    *word = *(const uint64_t *)(zg_zombie_saved_contents + (hit->block.start + hit->byte - zg_slabs.base));
    return true;
}
