// Describes a crash: signal, message, registers, the place where an error was thrown, and the other threads' stacks.
// Signal context; no lock.

#include "faults/crash.h"

#include "faults/collector.h"
#include "faults/crash_message.h"
#include "faults/uncaught.h"
#include "findings/crash.h"
#include "findings/found.h"
#include "images/loader.h"
#include "platform/os.h"
#include "settings/run_directory.h"
#include "stacks/depot.h"

// Used by one crash at a time.
static struct zg_crash crash;
static char message[2048];

// Whether the access stack ends with all frames of the throw stack. Then nothing was unwound since the throw, and the
// throw stack adds nothing to the report.
static bool contains_throw_stack(const struct zg_finding *finding, uint32_t thrown_stack) {
    uint64_t thrown[ZG_STACK_MAX_DEPTH];
    int count = zg_depot_get(thrown_stack, thrown, ZG_STACK_MAX_DEPTH);
    for (int i = 0; i < finding->access_count && count; i++) {
        int most = (int)zg_min((uint64_t)count, (uint64_t)(finding->access_count - i)), same = 0;
        while (same < most && finding->access_stack[i + same] == thrown[same]) same++;
        if (same == most) return true;
    }
    return false;
}

static void ask_for_threads(struct zg_finding *finding, const struct zg_registers *registers) {
    switch (zg_collector_ask(registers)) {
    case zg_collected_threads: break;
    case zg_collected_no_zguard:
        zg_finding_detail_text(finding, "threads",
                               zg_run_is_named()
                                   ? "only the crashed thread: zguard could not be asked (is /proc mounted?)"
                                   : "only the crashed thread: the program does not run under zguard");
        break;
    case zg_collected_no_answer:
        zg_finding_detail_text(finding, "threads", "only the crashed thread: zguard did not answer");
        break;
    }
}

void zg_crash_describe(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                       enum zg_crash_how how) {
    crash.signal = signal;
    crash.code = info->si_code;
    bool is_own = info->si_code > 0 || info->si_pid == zg_os_pid();
    // A fault has no message, unless its handler wrote one (zg_crash_has_message).
    bool has_words = how & zg_crash_has_message;
    crash.message = zg_crash_message_find(has_words ? SIGABRT : signal, is_own || has_words, message, sizeof message)
                        ? message
                        : NULL;
    zg_arch_registers_from_context(&crash.registers, context);
    crash.thrown_stack = zg_uncaught_thrown_at(signal, is_own);
    if (contains_throw_stack(finding, crash.thrown_stack)) crash.thrown_stack = 0;
    finding->crash = &crash;
    if (!is_own) zg_finding_detail_number(finding, "sender", (uint64_t)info->si_pid, false);
    if (how & zg_crash_ask_zguard) ask_for_threads(finding, &crash.registers);
    else
        zg_finding_detail_text(finding, "threads",
                               "only the faulting thread: the fault was described before its handler ran");
}

// Describes a finding after which the runtime aborts the program. Known registers are those of the published function's
// caller.
static void describe_misuse(struct zg_finding *finding, struct zg_crash *end, const uint64_t *frame) {
    end->signal = SIGABRT;
    end->code = SI_TKILL;
    end->message = NULL;
    end->thrown_stack = 0;
    zg_collector_caller_registers(&end->registers, frame);
    finding->crash = end;
    ask_for_threads(finding, &end->registers);
}

static uint64_t libcs_abort;

void zg_crash_start(void) {
    libcs_abort = (uint64_t)zg_loader_first("abort");
    zg_crash_message_start();
    zg_found_describe_end = describe_misuse;
}

bool zg_crash_is_in_abort(uint64_t frame) {
    enum { BYTES = 1024 }; // glibc's abort uses about half as many bytes
    return libcs_abort && frame - libcs_abort < BYTES;
}

void zg_crash_make(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                   enum zg_crash_how how) {
    // si_addr is the accessed address for SIGSEGV and SIGBUS. For other signals it is unset or the instruction's
    // address.
    uint64_t address = info->si_code > 0 && (signal == SIGSEGV || signal == SIGBUS) ? (uint64_t)info->si_addr : 0;
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, context);
    zg_finding_init(finding, zg_finding_crash, ZG_ACCESS(unknown), address, NULL);
    finding->access_count = zg_unwind_full(&registers, true, finding->access_stack, ZG_STACK_MAX_DEPTH);
    zg_crash_describe(finding, signal, info, context, how);
}
