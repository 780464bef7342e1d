// Allocates isolated blocks, and makes their pages inaccessible when they are freed.
// Slow path; takes no lock itself, but calls functions that take the locks of private pages and of windows.

#include "pages/isolation.h"

#include "blocks/alias.h"
#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "findings/found.h"
#include "pages/choice.h"
#include "pages/overread.h"
#include "pages/page_time.h"
#include "pages/private_pages.h"
#include "pages/window.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/stats.h"
#include "zombies/zombie.h"

// --- allocation -----------------------------------------------------------------------------------------------------

// Returns the allocation's return address if the block can lie in a window, else 0. A slot of a window has space behind
// the block, so isolated_align=8 and 1 exclude windows. A block of 0 bytes consists of a guard page alone, so it never
// lies in a window.
static uint64_t window_caller(const struct zg_thread *thread, const struct zg_isolation_order *order) {
    bool can_lie_in_window = order->size && order->size <= ZG_POLICY_WINDOW_BLOCK_BYTES_MOST &&
                             zg_config.isolated_align <= zg_isolated_align_16;
    return can_lie_in_window ? thread->frame[1] : 0;
}

enum zg_isolation zg_isolation_want(struct zg_thread *thread, struct zg_isolation_order *order) {
    order->since = zg_page_time_start();
    if (zg_policy_is_too_large(order->size))
        return zg_coverage_declined(zg_coverage_reason_block_size), zg_isolation_none;
    enum zg_isolation way =
        zg_choice_decide(order->context, order->size, order->is_later, window_caller(thread, order));
    order->focus = zg_choice_focus(order->context);
    return way;
}

// Makes the block live. Other threads may read the record meanwhile (lookup.h).
static void publish(const struct zg_thread *thread, const struct zg_isolation_order *order, struct zg_block *block,
                    uint64_t slack) {
    zg_thread_record_allocation(thread, block, order->context);
    __atomic_store_n(&block->header, zg_block_header(zg_state_live, order->family, (uint32_t)slack), __ATOMIC_RELEASE);
}

static void fill_new(const struct zg_isolation_order *order, void *block) {
    if (zg_config.fill_new && !order->zero) __builtin_memset(block, ZG_FILL_NEW, order->size);
}

static void *make_in_window(struct zg_thread *thread, const struct zg_isolation_order *order) {
    uint64_t ticks = zg_page_time_start();
    struct zg_alias *alias = zg_window_allocate(order->size, order->alignment, order->zero, order->context);
    if (!alias) return NULL;
    zg_choice_note_isolated(order->context, thread->frame[1]);
    void *block = (void *)zg_alias_start(alias);
    fill_new(order, block);
    publish(thread, order, &alias->block, alias->slot_bytes - order->size);
    zg_page_time_spent(ticks, 1);
    zg_page_time_charge_window();
    return block;
}

static void *make_private(struct zg_thread *thread, const struct zg_isolation_order *order) {
    struct zg_span *span =
        zg_private_allocate(order->size, order->alignment, order->family, order->context, order->focus);
    if (!span) {
        zg_stats_add(zg_counter_fence_declined, 1);
        if (zg_config.isolated_per_context == ZG_FENCE_ALL) zg_stats_degrade(zg_degradation_fence_exhausted);
        return NULL;
    }
    zg_choice_note_isolated(order->context, window_caller(thread, order));
    publish(thread, order, &span->block, 0);
    fill_new(order, (void *)span->start);
    // The guard page behind a block of a focused context stays inaccessible (overread.h), and the block's cost is not
    // charged to the budget, which is left to other blocks.
    if (order->focus != zg_focus_none) return (void *)span->start;
    zg_overread_note(span);
    zg_page_time_spent(order->since, span->units);
    zg_page_time_charge(zg_budget_charged_pages(span->units - UINT64_C(1)));
    return (void *)span->start;
}

void *zg_isolation_make(struct zg_thread *thread, const struct zg_isolation_order *order, enum zg_isolation *way) {
    if (*way == zg_isolation_window) {
        void *block = make_in_window(thread, order);
        if (block || zg_config.isolated_per_context != ZG_FENCE_ALL) return block;
        *way = zg_isolation_private;
    }
    void *block = make_private(thread, order);
    uint64_t caller = window_caller(thread, order);
    if (block || order->focus == zg_focus_none || !caller || !zg_window_is_for(caller)) return block;
    *way = zg_isolation_window;
    return make_in_window(thread, order);
}

// --- freeing --------------------------------------------------------------------------------------------------------

// Sets the class bits in the header of a block that held an object, and counts the zombie.
static void note_class(struct zg_thread *thread, struct zg_block *block, struct zg_freed_class dead) {
    __atomic_fetch_or(&block->header, zg_zombie_header_bits(dead), __ATOMIC_RELAXED);
    thread->zombies += dead.class_number != 0;
}

static void report_overrun(uint64_t start, const struct zg_change *change) {
    struct zg_block_view view;
    if (zg_lookup_block(start, &view)) zg_found_overrun(&view, change, "free");
}

// Call before the block is retired: afterwards its record may belong to another block.
static uint64_t pair_of(const struct zg_block *block) { return zg_pair(block->alloc_stack, block->free_stack); }

void zg_isolation_end_private(struct zg_thread *thread, struct zg_span *span, uint32_t header) {
    struct zg_freed_class dead = {0, zg_language_unknown};
    enum zg_alloc_family family = zg_header_family(header);
    uint64_t ticks = zg_page_time_start(), pair = pair_of(&span->block);
    bool is_focused = zg_choice_focus(span->block.alloc_stack) != zg_focus_none;
    struct zg_change change;
    if (zg_private_may_be_remapped(span, family)) {
        if (zg_private_retire(span, zg_private_unmap)) zg_thread_note_guarded(thread, pair);
        zg_thread_flush_counters(thread);
        zg_page_time_spent(ticks, span->units);
        return;
    }
    zg_thread_begin_access(thread, span->base, span->base + zg_private_data_bytes(span));
    // A block that is shorter than an object's header may end at its guard page (isolated_align).
    uint64_t words[2] = {0};
    __builtin_memcpy(words, (const void *)span->start, zg_min(span->size, sizeof words));
    if (span->size >= 8 && zg_classes_on) dead = zg_class_of_freed(words, family, span->size);
    bool is_overrun = !(header & ZG_HEADER_CHANGED) && zg_private_is_overrun(span, &change);
    zg_thread_end_access(thread);
    span->death = zg_zombie_death(dead.class_number);
    note_class(thread, &span->block, dead);
    if (ZG_UNLIKELY(is_overrun)) report_overrun(span->start, &change);
    enum zg_private_end end = zg_config.on_finding == zg_on_finding_continue ? zg_private_keep : zg_private_drop;
    if (zg_private_retire(span, end)) zg_thread_note_guarded(thread, pair);
    zg_thread_flush_counters(thread);
    if (!is_focused) zg_page_time_spent(ticks, span->units);
}

void zg_isolation_end_in_window(struct zg_thread *thread, struct zg_alias *alias, uint32_t header, uint64_t since) {
    struct zg_freed_class dead = {0, zg_language_unknown};
    uint64_t start = zg_alias_start(alias), size = zg_alias_size(alias);
    struct zg_change change;
    zg_thread_begin_access(thread, zg_alias_page(alias), zg_alias_page(alias) + ZG_PAGE_BYTES);
    if (size >= 8 && zg_classes_on) dead = zg_class_of_freed((const uint64_t *)start, zg_header_family(header), size);
    bool is_overrun = !(header & ZG_HEADER_CHANGED) && zg_window_is_overrun(alias, &change);
    alias->death = zg_zombie_death(dead.class_number);
    note_class(thread, &alias->block, dead);
    if (ZG_UNLIKELY(is_overrun)) report_overrun(start, &change);
    uint64_t pair = pair_of(&alias->block);
    bool at_once = zg_pair_is_rare(pair) || zg_choice_focus(alias->block.alloc_stack) != zg_focus_none;
    if (zg_window_retire(alias, at_once)) zg_thread_note_guarded(thread, pair);
    zg_thread_end_access(thread);
    zg_page_time_spent(since, 1);
}

// --- all blocks -----------------------------------------------------------------------------------------------------

void zg_isolation_guard_pending(void) { zg_window_flush(); }

uint64_t zg_isolation_verify_live(struct zg_thread *thread, const char *found_by) {
    uint64_t found = zg_private_verify_live(thread, found_by);
    return found + zg_window_verify_live(found_by);
}

uint64_t zg_isolation_give_back(void) { return zg_window_trim(); }

void zg_isolation_begin_test(void) {
    zg_page_time_grant();
    zg_choice_begin_epoch();
}
