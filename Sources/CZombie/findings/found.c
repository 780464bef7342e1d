// Creates findings and passes them to the report, which writes each once and counts repeats. Cold; takes the report
// lock.

#include "findings/found.h"

#include "findings/crash.h"
#include "findings/describe.h"
#include "findings/repeats.h"
#include "findings/report.h"
#include "platform/arch.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "threads/thread.h"

static bool never_abort;
void (*zg_found_describe_end)(struct zg_finding *finding, struct zg_crash *end, const uint64_t *frame);

uint64_t (*zg_found_plan_search)(void);
void (*zg_found_search)(const struct zg_finding *finding);

bool (*zg_found_has_namer)(void);
void (*zg_found_wake_namer)(void);

void zg_found_never_abort(bool never) { never_abort = never; }

// Adds a detail that says which of the block's stacks lack their outer frames.
static void add_shortened_detail(struct zg_finding *finding) {
    bool freed = finding->has_block && zg_depot_is_shortened(finding->block.free_stack);
    bool allocated = finding->has_block && zg_depot_is_shortened(finding->block.alloc_stack);
    if (freed || allocated)
        zg_finding_detail_text(finding, "shortened", !allocated ? "free" : freed ? "free, alloc" : "alloc");
}

bool zg_found_may_end(void) { return zg_config.on_finding == zg_on_finding_abort && !never_abort; }

// Whether the finding is about a freed block to which other pointers may be left.
static bool is_of_freed_block(const struct zg_finding *finding) {
    switch (finding->kind) {
    case zg_finding_use_after_free:
    case zg_finding_double_free:
    case zg_finding_write_after_free:
    case zg_finding_wild_access:
        return finding->has_block && finding->block.state != zg_state_fresh && finding->block.state != zg_state_live;
    default: return false;
    }
}

static bool is_first(struct zg_finding *finding) {
    if (!zg_repeats_is_first(finding)) return false;
    if (zg_found_plan_search && is_of_freed_block(finding)) finding->search = zg_found_plan_search();
    return true;
}

bool zg_found_report(struct zg_finding *finding) {
    struct zg_thread *thread = zg_thread_current_or_null();
    bool ends = thread && finding->fatal && zg_found_may_end();
    struct zg_crash end;
    add_shortened_detail(finding);
    if (ends && !finding->crash && thread->frame && zg_found_describe_end)
        zg_found_describe_end(finding, &end, thread->frame);
    bool is_named =
        !ends && !finding->is_reported_later && !zg_config.report_path[0] && zg_found_has_namer && zg_found_has_namer();
    if (is_named) finding->is_reported_later = true;
    bool is_new = zg_report_write(finding, is_first);
    if (is_new) {
        if (finding->search) zg_found_search(finding);
        zg_stats_add(zg_counter_findings, 1);
        if (is_named) zg_found_wake_namer();
    } else {
        zg_stats_add(zg_counter_findings_suppressed, 1);
        if (zg_repeats_have_due()) zg_report_write_repeats();
    }
    if (ends) zg_thread_request_deferred(thread, zg_deferred_abort);
    if (finding->crash == &end) finding->crash = NULL;
    return is_new;
}

void zg_found_capture(struct zg_finding *finding) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->frame) return;
    struct zg_caller caller = {thread->frame[1], zg_arch_caller_sp(thread->frame), thread->frame[0]};
    struct zg_walk *walk = &thread->walk;
    zg_unwind_fast(caller, &thread->stack, zg_config.stack_depth ? zg_config.stack_depth : 32, walk);
    finding->access_count = walk->count;
    for (int i = 0; i < walk->count; i++) finding->access_stack[i] = walk->frames[i];
}

static struct zg_finding new_finding(enum zg_finding_kind kind, const char *access, uint64_t address,
                                     const struct zg_block_view *view) {
    struct zg_finding finding;
    zg_finding_init(&finding, kind, access, address, view);
    zg_found_capture(&finding);
    return finding;
}

void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with) {
    struct zg_finding finding = new_finding(zg_finding_double_free, ZG_ACCESS(free), address, view);
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    zg_found_report(&finding);
}

void zg_found_invalid_free(const struct zg_block_view *view, uint64_t address, const char *what,
                           const char *freed_with) {
    struct zg_finding finding = new_finding(zg_finding_invalid_free, ZG_ACCESS(free), address, view);
    zg_finding_detail_text(&finding, "what", what);
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    zg_found_report(&finding);
}

void zg_found_misused(const struct zg_block_view *view, uint64_t address, const char *what, const char *call) {
    bool is_dead = view && view->state != zg_state_live;
    struct zg_finding finding =
        new_finding(is_dead ? zg_finding_use_after_free : zg_finding_invalid_free, ZG_ACCESS(read), address, view);
    finding.fatal = false; // querying a block is harmless
    zg_finding_detail_text(&finding, "call", call);
    if (!is_dead) zg_finding_detail_text(&finding, "what", what);
    zg_found_report(&finding);
}

void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                               uint64_t freed_size) {
    struct zg_finding finding = new_finding(zg_finding_dealloc_mismatch, ZG_ACCESS(free), address, view);
    zg_finding_detail_text(&finding, "allocated_with", zg_lookup_family_name(view->family));
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    if (freed_size != UINT64_MAX) {
        zg_finding_detail_number(&finding, "allocated_size", view->size, false);
        zg_finding_detail_number(&finding, "freed_size", freed_size, false);
    }
    zg_found_report(&finding);
}

static void found_change(enum zg_finding_kind kind, const struct zg_block_view *view, const struct zg_change *change,
                         const char *found_by) {
    struct zg_finding finding = new_finding(kind, ZG_ACCESS(write), view->start + change->offset, view);
    finding.block.offset = (int64_t)change->offset;
    if (change->evidence) {
        finding.confidence = ZG_CONFIDENCE(inferred);
        zg_finding_detail_text(&finding, "evidence", change->evidence);
    }
    if (change->in_front) zg_describe_neighbours(&finding, change->in_front, NULL);
    if (kind == zg_finding_write_after_free) finding.member_byte = (int64_t)change->offset;
    // If the change begins in front of the block, the offset is negative: report the address only.
    if ((int64_t)change->offset >= 0) zg_finding_detail_number(&finding, "offset", change->offset, false);
    zg_finding_detail_number(&finding, "length", change->length, false);
    zg_finding_detail_number(&finding, "old", change->old, true);
    zg_finding_detail_number(&finding, "new", change->now, true);
    zg_finding_detail_text(&finding, "found_by", found_by);
    zg_found_report(&finding);
}

void zg_found_write_after_free(const struct zg_block_view *view, const struct zg_change *change, const char *found_by) {
    found_change(zg_finding_write_after_free, view, change, found_by);
}

void zg_found_overrun(const struct zg_block_view *view, const struct zg_change *change, const char *found_by) {
    struct zg_block_view block = *view;
    block.state = zg_state_live; // live until now; if free() finds the change, the access stack is that of the free
    block.free_stack = block.free_thread = 0;
    found_change(zg_finding_heap_overflow, &block, change, found_by);
}
