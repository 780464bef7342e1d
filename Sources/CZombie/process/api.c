// Implements the function table for code in the same process (zg_api.h). Any thread, not from a signal handler.

#include "include/zg_api.h"

#include "faults/namer.h"
#include "findings/annotations.h"
#include "findings/journal.h"
#include "findings/report.h"
#include "blocks/lookup.h"
#include "heap/free.h"
#include "heap/quarantine.h"
#include "pages/isolation.h"
#include "blocks/slab.h"
#include "blocks/span_table.h"
#include "platform/os.h"
#include "process/ready.h"
#include "process/runtime.h"
#include "process/thread_entry.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "threads/capture.h"
#include "zombies/classes.h"

static uint64_t finding(uint64_t index, char *text, uint64_t capacity) {
    zg_report_lock();
    uint64_t length = zg_journal_get(index, text, capacity);
    zg_report_unlock(false);
    return length;
}

static uint64_t finding_count(uint64_t *first_kept) {
    uint64_t ignored;
    zg_report_lock();
    uint64_t count = zg_journal_count(first_kept ? first_kept : &ignored);
    zg_report_unlock(false);
    return count;
}

static uint64_t describe(uint64_t address, char *text, uint64_t capacity) {
    char bytes[32 << 10];
    struct zg_text description;
    zg_text_init(&description, bytes, sizeof bytes);
    if (!zg_report_describe(address, &description) || description.truncated) return 0;
    if (description.count <= capacity) __builtin_memcpy(text, bytes, description.count);
    return description.count;
}

// Iterates over all blocks: slots class by class, then spans. A cursor holds the class (upper 16 bits) and the number
// of the next slot in that class; or ZG_CLASS_COUNT and the number of the next span.
static bool next_block(uint64_t *cursor, struct zg_block_view *view) {
    for (;;) {
        uint64_t class = *cursor >> 48, number = *cursor & ((UINT64_C(1) << 48) - 1);
        if (class < ZG_CLASS_COUNT) {
            const struct zg_slab *slab = &zg_slabs.slab[class];
            if (number >= __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE)) {
                *cursor = (class + 1) << 48;
                continue;
            }
            ++*cursor;
            if (zg_lookup_block(zg_slab_slot_address(slab, number), view)) return true;
            continue;
        }
        if (!number) number = 1; // span numbers start at 1
        if (!zg_span_exists((uint32_t)number)) return false;
        *cursor = class << 48 | (number + 1);
        uint64_t start = zg_span_by_number((uint32_t)number)->start;
        if (start && zg_lookup_block(start, view)) return true;
    }
}

static uint64_t next_zombie(uint64_t *cursor, uint64_t metadata) {
    if (!zg_ready()) return 0;
    uint32_t wanted = metadata ? zg_class_find(metadata) : 0;
    if (metadata && !wanted) return 0;
    struct zg_block_view view;
    while (next_block(cursor, &view)) {
        if (!view.zombie || view.state == zg_state_reusable) continue;
        if (!metadata || view.death.class_number == wanted) return view.start;
    }
    return 0;
}

static uint64_t next_referrer(uint64_t *cursor, uint64_t address, uint64_t bytes, uint64_t *place) {
    if (!zg_ready()) return 0;
    struct zg_block_view view;
    while (next_block(cursor, &view)) {
        if (view.state != zg_state_live) continue;
        // Another thread may free the block meanwhile. Its memory stays readable unless the block is large and its
        // pages are returned at once.
        uint64_t words[64];
        for (uint64_t done = 0; done < view.size;) {
            uint64_t got = zg_os_read_memory(words, view.start + done, zg_min(sizeof words, view.size - done));
            for (uint64_t i = 0; i < got / 8; i++) {
                if (zg_arch_address(words[i]) - zg_arch_address(address) >= bytes) continue;
                *place = view.start + done + 8 * i;
                return view.start;
            }
            if (!got) break;
            done += got;
        }
    }
    return 0;
}

static int is_live(uint64_t address) {
    struct zg_block_view view;
    return zg_lookup_block(address, &view) && view.state == zg_state_live;
}

static uint64_t verify(void) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (!thread) return 0;
    uint64_t before = zg_stats_get(zg_counter_findings);
    zg_isolation_guard_pending();
    uint64_t in_windows = zg_stats_get(zg_counter_findings) - before;
    // The functions below walk the block records, so they also verify freed blocks that are still pending in a thread.
    uint64_t findings = in_windows + zg_quarantine_verify_all("check") + zg_free_verify_live("check") +
                        zg_isolation_verify_live(thread, "check");
    zg_thread_leave(thread);
    return findings;
}

static void begin_test(void) {
    zg_isolation_begin_test();
    zg_quarantine_begin_test();
    zg_capture_renew_isolation();
}

static void step_aside(void) { zg_thread_begin_bypass(ZG_ARCH_FRAME()); }

static uint64_t unwind(const uint64_t *values, uint64_t pc, uint64_t *frames, uint64_t most) {
    struct zg_registers registers = {.known = (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1, .pc = pc};
    __builtin_memcpy(registers.value, values, sizeof registers.value);
    return (uint64_t)zg_unwind_full(&registers, true, frames, (int)zg_min(most, ZG_STACK_MAX_DEPTH));
}

static uint64_t describe_stack(const uint64_t *frames, uint64_t count, char *text, uint64_t capacity) {
    char bytes[64 << 10];
    struct zg_text description;
    zg_text_init(&description, bytes, sizeof bytes);
    zg_report_describe_stack(frames, (int)zg_min(count, ZG_STACK_MAX_DEPTH), &description);
    if (description.truncated) return 0;
    if (description.count <= capacity) __builtin_memcpy(text, bytes, description.count);
    return description.count;
}

static int annotate(const char *key, const char *value) { return zg_annotations_set(key, value); }

static struct zg_api table = {
    .version = ZG_API_VERSION,
    .bytes = sizeof(struct zg_api),
    .finding = finding,
    .finding_count = finding_count,
    .finding_word = &zg_journal_word,
    .describe = describe,
    .next_zombie = next_zombie,
    .next_referrer = next_referrer,
    .is_live = is_live,
    .verify = verify,
    .begin_test = begin_test,
    .await_finding = zg_namer_await,
    .finding_is_said = zg_namer_done,
    .step_aside = step_aside,
    .step_back = zg_thread_end_bypass,
    .annotate = annotate,
    .unwind = unwind,
    .describe_stack = describe_stack,
};

const struct zg_api *zg_api_own(void) {
    table.statistics = zg_stats;
    return zg_runtime_is_started() ? &table : NULL;
}
