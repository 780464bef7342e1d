// Writes reports: one finding at a time, each new one exactly once. A finding that cannot be written to the report file
// is written as text to standard error, or else counted as lost. Cold and signal context; one lock, which is the
// innermost.

#include "findings/report.h"

#include "findings/journal.h"
#include "findings/repeats.h"
#include "findings/report_forms.h"
#include "platform/arch.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/run_directory.h"
#include "settings/stats.h"
#include "zombies/zombie.h"

static struct zg_lock report_lock;
static int lock_owner; // tid: a thread that faults while it writes must not wait for itself
#define LONGEST_WAIT_NS INT64_C(10000000000)

static bool take_lock_or_time_out(void) {
    if (!zg_lock_take_within(&report_lock, LONGEST_WAIT_NS)) return false;
    lock_owner = zg_os_tid();
    return true;
}

void zg_report_lock(void) {
    zg_lock_take(&report_lock);
    lock_owner = zg_os_tid();
}

void zg_report_unlock(bool reset) {
    if (lock_owner) lock_owner = 0;
    if (reset) zg_repeats_drop();
    if (reset) zg_lock_reset(&report_lock);
    else zg_lock_drop(&report_lock);
}

bool zg_report_is_mine(void) {
    int owner = __atomic_load_n(&lock_owner, __ATOMIC_RELAXED);
    return owner && owner == zg_os_tid();
}

// Under the lock. Repeats that cannot be written to the report file go to standard error. Without a report file,
// repeats are written only at the end.
static void write_repeats(bool all) {
    struct zg_text text;
    uint32_t cursor = 0;
    for (const struct zg_finding *finding; (finding = zg_repeats_take(&cursor, all)) != NULL;) {
        bool written = false;
        if (zg_config.report_path[0]) {
            zg_report_begin_line(&text);
            zg_report_put_json(&text, finding);
            written = !text.truncated && zg_report_write_to_path(&text);
        }
        if (written) continue;
        zg_report_begin_line(&text);
        zg_report_put_repeats(&text, finding);
        zg_report_write_to_standard_error(&text);
    }
}

void zg_report_write_repeats(void) {
    if (!zg_config.report_path[0] || zg_report_is_mine() || !take_lock_or_time_out()) return;
    write_repeats(false);
    zg_report_unlock(false);
}

static void write_all_repeats(void *unused_1, void *unused_2, void *unused_3) {
    (void)unused_1, (void)unused_2, (void)unused_3;
    write_repeats(true);
}

// Writes repeats on a static stack: the thread may be on a small alternate stack of the program.
void zg_report_close_for_good(void) {
    static char stack[32 << 10] __attribute__((aligned(64)));
    if (zg_report_is_mine() || !take_lock_or_time_out() || !zg_repeats_have_unwritten()) return;
    zg_arch_call_on_stack(write_all_repeats, NULL, NULL, NULL, stack + sizeof stack);
}

void zg_report_abandon(void) {
    if (zg_report_is_mine()) zg_report_unlock(false);
}

void zg_report_end(void) {
    if (zg_repeats_have_unwritten()) {
        zg_report_lock();
        write_repeats(true);
        zg_report_unlock(false);
    }
    uint64_t lost = zg_stats_get(zg_counter_findings_lost);
    if (!lost) return;
    zg_report_lock();
    struct zg_text text;
    zg_report_begin_line(&text);
    zg_text_string(&text, "zguard: warning: ");
    zg_text_decimal(&text, lost);
    zg_text_string(&text, lost == 1 ? " finding could not be written\n" : " findings could not be written\n");
    zg_report_write_to_standard_error(&text);
    zg_report_unlock(false);
}

void zg_report_complete(const struct zg_finding *finding, bool ends) {
    bool has_rest = ends && zg_report_is_shortened(finding);
    if (zg_config.report_path[0] || (!finding->is_reported_later && !has_rest)) return;
    if (zg_report_is_mine() || !take_lock_or_time_out()) return;
    struct zg_text text;
    zg_report_begin_line(&text);
    if (finding->is_reported_later) zg_report_put_text(&text, finding);
    if (has_rest) zg_report_put_stacks(&text, finding);
    zg_report_write_to_standard_error(&text);
    zg_report_unlock(false);
}

void zg_report_after_user_change(void) {
    if (!zg_run_is_named() || !zg_os_is_own_process() || zg_os_may_become_root()) return;
    if (zg_report_is_mine() || !take_lock_or_time_out()) return;
    zg_report_change_file();
    zg_report_unlock(false);
}

static void count_lost(void) {
    zg_stats_add(zg_counter_findings_lost, 1);
    zg_stats_degrade(zg_degradation_no_report);
}

static bool lose_finding(struct zg_finding *finding, bool (*is_new)(struct zg_finding *)) {
    if (!is_new(finding)) return false;
    zg_run_count_unwritten();
    count_lost();
    return true;
}

bool zg_report_write(struct zg_finding *finding, bool (*is_new)(struct zg_finding *)) {
    if (zg_report_is_mine()) return lose_finding(finding, is_new); // the report writer itself has faulted
    // A thread may fault after it took the lock and before it is recorded as owner. It would then wait for itself, so
    // the wait has a limit.
    if (!take_lock_or_time_out()) return lose_finding(finding, is_new);
    if (!is_new(finding)) {
        zg_report_unlock(false);
        return false;
    }
    struct zg_text text;
    bool written = finding->is_reported_later;
    zg_zombie_note_time();
    zg_report_begin_line(&text);
    zg_report_put_json(&text, finding);
    if (!text.truncated) zg_journal_add(text.bytes, text.count - 1);
    // If zguard was killed, only the next zguard reads the file; write the text to standard error as well.
    bool is_told = written;
    if (zg_config.report_path[0]) {
        written = !text.truncated && zg_report_write_to_path(&text);
        if (!written) {
            zg_stats_degrade(zg_degradation_no_report);
            zg_run_count_unwritten();
        }
        is_told = written && zg_report_is_read();
    }
    if (!is_told) {
        zg_report_begin_line(&text);
        zg_report_put_text(&text, finding);
        written |= zg_report_write_to_standard_error(&text);
    }
    if (!written) count_lost();
    zg_stats_note_refusals();
    zg_report_unlock(false);
    return true;
}
