// Findings of the heap, and what is done with every finding: once only, written, counted.
// Cold; takes the report lock.

#include "findings/finding.h"

#include "findings/report.h"
#include "platform/os.h"
#include "process/thread.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"

static const struct {
    const char *name;
    bool fatal;
} kinds[zg_finding_kind_count] = {
#define ZG_X(name, text, fatal, ...) {text, fatal},
    ZG_FINDING_KINDS(ZG_X)
#undef ZG_X
};

static bool never_abort;

const char *zg_finding_kind_name(enum zg_finding_kind kind) { return kinds[kind].name; }
void zg_finding_never_abort(bool never) { never_abort = never; }

void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text) {
    if (finding->detail_count == ZG_FINDING_DETAILS) return;
    finding->details[finding->detail_count].name = name;
    finding->details[finding->detail_count++].text = text;
}

void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex) {
    if (finding->detail_count == ZG_FINDING_DETAILS) return;
    finding->details[finding->detail_count].name = name;
    finding->details[finding->detail_count].text = NULL;
    finding->details[finding->detail_count].number = number;
    finding->details[finding->detail_count++].hex = hex;
}

// Keys of the findings that were written. Under the report lock, or by its owner; full means that later ones are repeated, which does no harm.
static bool first_of_its_kind(const struct zg_finding *finding) {
    static uint64_t seen[1024];
    uint64_t key = zg_mix((uint64_t)finding->kind + 1);
    if (finding->has_block)
        key = zg_mix(key ^ finding->block.alloc_stack ^ (uint64_t)finding->block.free_stack << 32);
    for (int i = 0; i < finding->access_count; i++) key = zg_mix(key ^ finding->access_stack[i]);
    if (!key) key = 1;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(seen); i++) {
        uint64_t *slot = &seen[(key + i) % ZG_ARRAY_COUNT(seen)], empty = 0;
        if (__atomic_compare_exchange_n(slot, &empty, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return true;
        if (empty == key) return false;
    }
    return true;
}

void zg_finding_report(struct zg_finding *finding) {
    if (zg_report_write(finding, first_of_its_kind)) {
        zg_stats_add(zg_counter_findings, 1);
    } else {
        zg_stats_add(zg_counter_findings_suppressed, 1);
    }
    struct zg_thread *thread = zg_thread_current_or_null();
    if (thread && finding->fatal && zg_config.on_finding == zg_on_finding_abort && !never_abort)
        thread->errands |= zg_errand_abort;
}

void zg_finding_capture_access(struct zg_finding *finding) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->frame) return;
    struct zg_caller caller = {thread->frame[1], zg_arch_caller_sp(thread->frame), thread->frame[0]};
    struct zg_walk walk;
    zg_unwind_fast(caller, &thread->stack, zg_config.stack_depth ? zg_config.stack_depth : 32, &walk);
    finding->access_count = walk.count;
    for (int i = 0; i < walk.count; i++) finding->access_stack[i] = walk.frames[i];
}

void zg_finding_init(struct zg_finding *finding, enum zg_finding_kind kind, const char *access, uint64_t address,
                     const struct zg_block_view *view) {
    finding->kind = kind;
    finding->access = access;
    finding->confidence = "exact";
    finding->fatal = kinds[kind].fatal;
    finding->address = address;
    finding->has_block = view != NULL;
    if (view) finding->block = *view;
    finding->member_code = finding->member_class = 0;
    finding->member_byte = -1;
    finding->member_field = 0;
    finding->access_count = 0;
    finding->detail_count = 0;
}

static struct zg_finding make(enum zg_finding_kind kind, const char *access, uint64_t address,
                              const struct zg_block_view *view) {
    struct zg_finding finding;
    zg_finding_init(&finding, kind, access, address, view);
    zg_finding_capture_access(&finding);
    return finding;
}

void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with) {
    struct zg_finding finding = make(zg_finding_double_free, "free", address, view);
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    zg_finding_report(&finding);
}

void zg_found_invalid_free(uint64_t address, const char *what, const char *freed_with) {
    struct zg_block_view view;
    bool known = zg_lookup_block(address, &view);
    struct zg_finding finding = make(zg_finding_invalid_free, "free", address, known ? &view : NULL);
    zg_finding_detail_text(&finding, "what", what);
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    zg_finding_report(&finding);
}

void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                               uint64_t freed_size) {
    struct zg_finding finding = make(zg_finding_dealloc_mismatch, "free", address, view);
    zg_finding_detail_text(&finding, "allocated_with", zg_lookup_kind_name(view->kind));
    zg_finding_detail_text(&finding, "freed_with", freed_with);
    if (freed_size != UINT64_MAX) {
        zg_finding_detail_number(&finding, "allocated_size", view->size, false);
        zg_finding_detail_number(&finding, "freed_size", freed_size, false);
    }
    zg_finding_report(&finding);
}

static void found_change(enum zg_finding_kind kind, struct zg_block_view *view, const struct zg_change *change,
                         const char *found_by) {
    struct zg_finding finding = make(kind, "write", view->start + change->offset, view);
    if (kind == zg_finding_write_after_free) finding.member_byte = (int64_t)change->offset;
    // In front of the block there is no offset but the address.
    if ((int64_t)change->offset >= 0) zg_finding_detail_number(&finding, "offset", change->offset, false);
    zg_finding_detail_number(&finding, "length", change->length, false);
    zg_finding_detail_number(&finding, "old", change->old, true);
    zg_finding_detail_number(&finding, "new", change->now, true);
    zg_finding_detail_text(&finding, "found_by", found_by);
    zg_finding_report(&finding);
}

void zg_found_write_after_free(uint64_t start, const struct zg_change *change, const char *found_by) {
    struct zg_block_view view;
    if (zg_lookup_block(start + change->offset, &view)) found_change(zg_finding_write_after_free, &view, change, found_by);
}

void zg_found_overrun(uint64_t start, const struct zg_change *change) {
    struct zg_block_view view;
    if (!zg_lookup_block(start + change->offset, &view)) return;
    view.state = zg_state_live; // until now: the stack of this free is the finding's own
    view.free_stack = view.free_thread = 0;
    found_change(zg_finding_heap_overflow, &view, change, "free");
}
