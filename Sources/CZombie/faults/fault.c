// Handles faults. The kernel may have entered the handler on a small alternate stack of the program, so the diagnosis
// runs on a stack of the runtime, one fault at a time. Signal context. Locks: the fault lock, then (through the report)
// the report lock.

#define _GNU_SOURCE
#include "faults/fault.h"

#include <ucontext.h>

#include "blocks/tags.h"
#include "faults/collector.h"
#include "faults/lookahead.h"
#include "faults/crash.h"
#include "faults/diagnose.h"
#include "faults/handled.h"
#include "faults/namer.h"
#include "faults/signals.h"
#include "faults/swift_abort.h"
#include "faults/unaligned.h"
#include "findings/describe.h"
#include "findings/found.h"
#include "findings/last_text.h"
#include "findings/report.h"
#include "findings/crash.h"
#include "findings/report_forms.h"
#include "heap/watchpoints.h"
#include "images/module.h"
#include "pages/retire.h"
#include "pages/revive.h"
#include "pages/window.h"
#include "platform/arch.h"
#include "platform/libc.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "threads/thread.h"
#include "zombies/counting.h"
#include "zombies/zombie.h"

static char fault_stack[128 << 10] __attribute__((aligned(64)));
static struct zg_lock fault_lock;
static int fault_owner;
static bool diagnosis_failed; // the diagnosis itself has faulted: no later fault is diagnosed

// Used by one fault at a time.
static struct zg_fault fault;
static struct zg_verdict verdict;
static struct zg_finding finding;
// The use for which the instruction loads a header word of a zombie. Part zg_trap_none: the instruction loads no such
// word, or no use was found. `is_class_load`: the instruction loads the class pointer, and no use of the pointer was
// found.
static struct zg_header_use header_use;
static bool is_class_load;

struct work {
    int tid; // tid of the calling thread
    int signal;
    siginfo_t *info;
    void *context;
    // Faulting address with its memory tag (blocks/tags.h); 0 if it has no tag.
    uint64_t pointer;
    bool is_tag_fault; // the memory is accessible, but its tag differs from the pointer's
    bool resolved;     // the instruction can be executed again
    bool reported;     // a finding describes the fault
    bool was_reported; // the naming thread (namer.h) has reported the fault with symbol names
    bool is_nested;    // the thread is in the program's handler for an earlier fault
    bool ends_go;      // the fault ends a Go program
    bool in_abort;     // the signal was raised in libc's abort
    bool is_watched;   // a watchpoint has noticed the access, which did not fault
    struct zg_handled *handled;
    const char *ended_by; // signal or exit status by which the fault's handler ended the program
};

static void strip_all_tags(const struct zg_registers *registers) {
    fault.operand_count = zg_arch_operand_registers(fault.code, fault.code_count, registers, fault.operands);
    zg_lookup_strip(fault.registers.value, ZG_ARCH_REGISTER_COUNT);
    zg_lookup_strip(fault.pointers, fault.pointer_count);
    zg_lookup_strip(fault.stack, fault.stack_count);
}

static bool read_word(uint64_t address, uint64_t *word) {
    return zg_os_read_memory(word, address, sizeof *word) == sizeof *word;
}

static void gather_fault_state(const struct work *work) {
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, work->context);
    header_use.part = zg_trap_none;
    is_class_load = false;
    fault = (struct zg_fault){.address = (uint64_t)work->info->si_addr,
                              .pointer = work->pointer,
                              .find_by_tag = zg_lookup_by_tag,
                              .is_non_canonical = zg_arch_fault_without_address(work->context),
                              .access = zg_arch_fault_access(work->context),
                              .pc = registers.pc,
                              .sp = registers.value[ZG_ARCH_SP],
                              .registers = registers,
                              .bounds = zg_thread_stack_bounds(),
                              .fills_new = zg_config.fill_new,
                              .lookup = zg_lookup_block,
                              .read_word = read_word,
                              .is_ours = zg_lookup_is_in_heap,
                              .is_forgotten = zg_retire_is_forgotten,
                              .is_isolated = zg_lookup_is_isolated,
                              .find_zombie = zg_zombie_find};
    fault.pointer_count = zg_arch_pointer_registers(work->context, fault.pointers, ZG_FAULT_POINTERS);
    fault.code_count = (int)zg_os_read_memory(fault.code, fault.pc, sizeof fault.code);
    fault.before_count =
        zg_os_read_memory(fault.before, fault.pc - sizeof fault.before, sizeof fault.before) == sizeof fault.before
            ? ZG_FAULT_CODE_BEFORE
            : 0;
    uint64_t below[ZG_FAULT_WORDS_BELOW];
    if (zg_os_read_memory(below, fault.sp - sizeof below, sizeof below) == sizeof below)
        for (; fault.below_count < ZG_FAULT_WORDS_BELOW; fault.below_count++)
            fault.below[fault.below_count] = below[ZG_FAULT_WORDS_BELOW - 1 - fault.below_count];
    fault.stack_count = (int)(zg_os_read_memory(fault.stack, fault.sp, sizeof fault.stack) / sizeof fault.stack[0]);
    if (zg_tags_are_on()) strip_all_tags(&registers);
}

// Drops the runtime's frames from the top of the stack: if the stack overflows inside the runtime, these frames mean
// nothing to the reader.
static void drop_own_frames(void) {
    struct zg_module ours;
    if (!zg_module_find((uint64_t)zg_fault_handler, &ours) || zg_string_equal(ours.path, zg_module_program_path()))
        return;
    int own = 0;
    while (own < finding.access_count && finding.access_stack[own] - ours.start < ours.end - ours.start) own++;
    if (own == finding.access_count) return;
    finding.access_count -= own;
    for (int i = 0; i < finding.access_count; i++) finding.access_stack[i] = finding.access_stack[i + own];
}

// Writes the finding. Leaves its text to the naming thread, if one waits. False if an equal finding was written before.
static bool write_finding(struct work *work) {
    bool may_go_on = zg_config.on_finding == zg_on_finding_continue && work->signal != SIGABRT &&
                     (verdict.freed_memory || verdict.overrun);
    if (work->ends_go) zg_signals_note_explained();
    // No fatal signal follows a watched access: the runtime itself aborts the program.
    bool ends = work->is_watched ? zg_found_may_end() && !zg_signals_is_explained()
                                 : work->ends_go || zg_signals_is_crash(work->signal, work->info, work->context);
    if (zg_crash_is_wanted() && !may_go_on && ends)
        zg_crash_describe(&finding, work->is_watched ? SIGABRT : work->signal, work->info, work->context,
                          zg_crash_ask_zguard);
    finding.is_reported_later = !zg_config.report_path[0] && zg_namer_is_waiting();
    work->reported = true;
    return zg_found_report(&finding);
}

// Completes the report, now that it is known whether the fault ends the program.
static void complete(struct work *work) {
    bool ends = !work->resolved && (work->ended_by || zg_signals_is_deadly(work->signal));
    if (work->is_watched) ends = zg_found_may_end();
    work->was_reported = finding.is_reported_later && zg_namer_request(ends);
    if (!work->was_reported) zg_report_complete(&finding, ends);
}

static void describe_counting(void) {
    uint64_t side = fault.address - (uint64_t)verdict.trap.offset;
    struct zg_counting counting = header_use.part == zg_trap_side
                                      ? header_use.counting
                                      : zg_refcount_operation_find(&fault.registers, side, verdict.block.start);
    if (counting.access) finding.access = counting.access;
    if (counting.operation) zg_finding_detail_text(&finding, "operation", counting.operation);
}

// Records where this thread's registers are, for the search for other pointers to the block.
static void note_registers(const struct work *work) {
    const stack_t *stack = &((const ucontext_t *)work->context)->uc_stack;
    finding.registers = &fault.registers;
    if ((uint64_t)work->context - (uint64_t)stack->ss_sp >= stack->ss_size) return;
    finding.signal_stack = (uint64_t)stack->ss_sp;
    finding.signal_stack_bytes = stack->ss_size;
}

// Makes the finding from the gathered state and the verdict.
static void make_finding(const struct work *work) {
    zg_finding_init(&finding, verdict.kind, verdict.access, verdict.address, verdict.has_block ? &verdict.block : NULL);
    finding.confidence = verdict.confidence;
    if (verdict.evidence) zg_finding_detail_text(&finding, "evidence", verdict.evidence);
    note_registers(work);
    finding.fatal = false; // the signal itself ends the program, unless the program's handler continues
    if (work->is_watched) zg_finding_detail_text(&finding, "found_by", "watchpoint");
    else zg_finding_detail_text(&finding, "signal", work->signal == SIGBUS ? "SIGBUS" : "SIGSEGV");
    if (!fault.is_non_canonical && !work->is_watched)
        zg_finding_detail_number(&finding, "fault_address", fault.address, true);
    if (verdict.freed_with) {
        zg_finding_detail_text(&finding, "allocated_with", zg_lookup_family_name(verdict.block.family));
        zg_finding_detail_text(&finding, "freed_with", verdict.freed_with);
    }
    if (verdict.is_forgotten) zg_finding_detail_text(&finding, "what", ZG_FREE_MEMORY);
    if (verdict.read_from) zg_finding_detail_text(&finding, "read_from", verdict.read_from);
    zg_describe_neighbours(&finding, verdict.has_before ? &verdict.before : NULL,
                           verdict.has_after ? &verdict.after : NULL);
    if (verdict.trap.part != zg_trap_none) zg_describe_trap(&finding, &verdict.trap);
    else if (verdict.has_block && verdict.freed_memory) finding.member_byte = verdict.block.offset;
    if (verdict.trap.part == zg_trap_side && verdict.trap.has_block) describe_counting();
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, work->context);
    if (is_class_load) zg_lookahead_find_uses_of_load(&finding, &verdict.block, &registers);
    else zg_lookahead_find_uses(&finding, &verdict.trap, &registers);
    bool exact = true;
    // A call through a wild pointer: show the caller's frame, whose return address is on top of the stack.
    // The address that could not be executed may still be readable.
    bool is_no_code = fault.access == zg_fault_execute && fault.address == fault.pc;
    if ((fault.code_count <= 0 || is_no_code) && fault.stack_count > 0 &&
        zg_arch_undo_call(&registers, fault.stack[0])) {
        exact = false;
        if (fault.pc && zg_arch_is_canonical(fault.pc)) finding.access_stack[finding.access_count++] = fault.pc + 1;
    }
    finding.access_count += zg_unwind_full(&registers, exact, finding.access_stack + finding.access_count,
                                           ZG_STACK_MAX_DEPTH - finding.access_count);
    drop_own_frames();
}

// For on_finding=continue: restores the object's saved contents. A register that holds the trap word gets the object's
// former word instead.
static bool revive(const struct work *work) {
    const struct zg_zombie_hit *hit = &verdict.trap;
    uint64_t former;
    if (hit->part == zg_trap_word) {
        uint64_t reference = fault.address - (uint64_t)hit->offset;
        if (!zg_zombie_former_word(hit, &former)) return false;
        if (!zg_arch_replace_registers(work->context, reference, former)) return false;
    }
    return zg_revive_zombie(hit);
}

// Whether an instruction that was executed again keeps faulting in the same way, so that executing it once more would
// hang the program.
static bool faults_repeatedly(void) {
    enum { MOST = 8 };
    static uint64_t pc, address;
    static int times, tid;
    if (fault.pc != pc || fault.address != address || zg_os_tid() != tid) times = 0;
    pc = fault.pc, address = fault.address, tid = zg_os_tid();
    return ++times > MOST;
}

// Whether the block is freed and its slot has not been reused.
static bool is_current(const struct zg_block_view *view) {
    struct zg_block_view now;
    return view->state != zg_state_live && zg_lookup_block(view->start, &now) && now.block == view->block;
}

// For on_finding=continue with memory tags: makes a reported freed block usable. If its memory belongs to another block
// by now, turns off the thread's tag checks until the thread allocates or frees.
static bool resume_tagged_access(const struct work *work, bool is_tagged) {
    uint32_t header = is_tagged ? __atomic_load_n(&verdict.block.block->header, __ATOMIC_ACQUIRE) : 0;
    bool is_there = is_tagged && (uint64_t)work->info->si_addr - verdict.block.start < verdict.block.size;
    if (is_there && zg_header_state(header) == zg_state_quarantined) {
        __atomic_compare_exchange_n(&verdict.block.block->header, &header, header | ZG_HEADER_CHANGED, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (zg_tags_open(work->pointer)) {
            // Restore the object's contents: otherwise the instruction would load a trap word, whose use would be a
            // second finding.
            const struct zg_zombie_hit object = {.has_block = true, .block = verdict.block};
            zg_revive_zombie(&object);
            return true;
        }
    }
    zg_arch_leave_unchecked(work->context);
    uint64_t page = (uint64_t)work->info->si_addr & ~(ZG_PAGE_BYTES - 1);
    if (!work->is_tag_fault && !zg_revive_page(page))
        return zg_lookup_is_in_front(page) && zg_os_commit((void *)page, ZG_PAGE_BYTES) == 0;
    return true;
}

// The program's handler is about to be called for a fault or crash. Records the fault or crash, and describes it on the
// run's page: zguard reports it if the process ends and the runtime cannot see the end.
static void hold_fault(struct work *work, enum zg_handled_kind kind) {
    enum { FRAMES_LEAST = 8 };
    // Manage SIGABRT from now on, because the program's handler may call abort. Without collect=crashes it was left to
    // the program.
    zg_signals_watch_aborts(zg_fault_handler);
    work->handled = zg_handled_begin(kind, work->signal, work->info, work->context, work);
    if (!work->handled) return;
    work->handled->verdict = verdict;
    work->handled->text_before = zg_load(&zg_last_text.ends);
    struct zg_handled_fault *page = zg_handled_claim_page(work->handled);
    if (!page) return;
    if (kind == zg_handled_crash) zg_crash_make(&finding, work->signal, work->info, work->context, 0);
    else make_finding(work);
    if (kind == zg_handled_fault && zg_crash_is_wanted())
        zg_crash_describe(&finding, work->signal, work->info, work->context, 0);
    struct zg_text text;
    for (;; finding.access_count /= 2) {
        zg_text_init(&text, page->text, ZG_HANDLED_FAULT_BYTES - sizeof *page);
        zg_report_put_json(&text, &finding);
        if (!text.truncated || finding.access_count <= FRAMES_LEAST) break;
    }
    zg_handled_publish(work->handled, text.truncated ? 0 : text.count);
}

// Whether the instruction loads a header word of a freed object, so that only the use of the word tells the kind of
// access. A write, a comparison, or a load of a part of the word is an access of its own.
static bool loads_header(void) {
    return verdict.has_block && verdict.trap.part == zg_trap_none && zg_zombie_is_header(&verdict.block) &&
           !fault.is_non_canonical && fault.address == verdict.block.start + (uint64_t)verdict.block.offset &&
           fault.access != zg_fault_write && zg_arch_may_load_pointer(fault.code, fault.code_count);
}

// Makes the verdict on a load of a freed object's header more exact: finds the use that follows, and says that this use
// has faulted. If no use is found, the load itself is what the program did with the object. The program is never
// resumed to reach the use: if the prediction were wrong, its next access would not be reported.
static void follow_header(void) {
    struct zg_zombie_pattern pattern = zg_zombie_pattern_at(verdict.block.start, verdict.block.zombie);
    header_use = zg_header_use_find(&fault.registers, verdict.block.start, &pattern);
    is_class_load = verdict.block.offset == 0 && header_use.part != zg_trap_isa;
    if (header_use.part == zg_trap_none) {
        if (is_class_load) verdict.access = ZG_ACCESS(cast);
        return;
    }
    verdict.trap = (struct zg_zombie_hit){
        .part = header_use.part, .has_block = true, .block = verdict.block, .offset = header_use.offset};
    verdict.block.offset = header_use.part == zg_trap_side ? 8 : 0;
    verdict.address = verdict.block.start + (uint64_t)verdict.block.offset;
}

// For on_finding=continue: makes the memory accessible, so that the instruction can be executed again.
static bool resume_access(const struct work *work, bool is_tagged) {
    if (verdict.trap.part != zg_trap_none && header_use.part == zg_trap_none) return revive(work);
    if (work->pointer) return resume_tagged_access(work, is_tagged);
    return !fault.is_non_canonical && (zg_revive_isolated_at(fault.address) || zg_revive_page(fault.address));
}

static void work_on_fault(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    gather_fault_state(work);
    zg_diagnose(&fault, &verdict);
    // Go's handler returns to Go code that ends the program by a system call.
    work->ends_go = !work->is_nested && zg_signals_ends_go(work->signal, fault.pc);
    bool ends =
        zg_signals_is_deadly(work->signal) || zg_signals_is_blocked(work->signal, work->context) || work->ends_go;
    // A crash handler that inspects memory and dies of a fault of its own reveals nothing about the fault that it
    // handles.
    if (work->is_nested && ends) return;
    if (!verdict.freed_memory && !verdict.overrun && !ends) {
        if (!work->is_nested) hold_fault(work, zg_handled_fault);
        return;
    }
    bool is_tagged = verdict.has_block && work->is_tag_fault && verdict.freed_memory && is_current(&verdict.block);
    if (loads_header()) follow_header();
    make_finding(work);
    bool is_new = write_finding(work);
    if (zg_config.on_finding == zg_on_finding_continue && (verdict.freed_memory || verdict.overrun))
        work->resolved = resume_access(work, is_tagged) && !faults_repeatedly();
    if (is_new) complete(work);
}

// Whether the address lies in the image of libc or of the loader.
static bool is_in_libc(uint64_t pc) {
    struct zg_module module;
    const uint64_t known[] = {zg_libc_address(), zg_libc_loader_address()};
    if (!zg_module_find_unwind(pc, &module)) return false;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(known); i++)
        if (known[i] >= module.start && known[i] < module.end) return true;
    return false;
}

// Finds the access that a watchpoint has noticed. False if it is not found, or if the program does not use the freed
// bytes: vector loads of libc's string functions, and of similar code, reach over the end of the block in front and
// ignore what follows.
static bool find_watched_access(const struct work *work, struct zg_past_access *access) {
    enum { AHEAD = 4 };
    uint8_t code[ZG_ARCH_CODE_BEHIND + AHEAD];
    struct zg_registers registers;
    struct zg_block_view block;
    uint64_t word = (uint64_t)work->info->si_addr & ~UINT64_C(7);
    zg_arch_registers_from_context(&registers, work->context);
    if (!zg_lookup_block(word, &block) || block.state != zg_state_quarantined) return false;
    int behind = (int)zg_min(ZG_ARCH_CODE_BEHIND, registers.pc & (ZG_PAGE_BYTES - 1));
    if (zg_os_is_readable(registers.pc - ZG_ARCH_CODE_BEHIND, registers.pc)) behind = ZG_ARCH_CODE_BEHIND;
    int count = (int)zg_os_read_memory(code, registers.pc - (uint64_t)behind, (uint64_t)behind + AHEAD);
    if (count < behind || !zg_arch_find_past_access(code, behind, count - behind, &registers, word, access))
        return false;
    // The instruction has overwritten its address register: assume that it accessed the start of the watched word.
    if (!access->address) access->address = word;
    if (access->access == zg_fault_write || !access->is_vector) return true;
    return access->address >= block.start && !is_in_libc(access->pc);
}

// Restores for the diagnosis the pointer that the instruction has overwritten with the loaded value.
static void restore_lost_register(const struct zg_past_access *access) {
    if (access->lost_register < 0) return;
    uint64_t pointer = access->address - access->lost_offset;
    fault.registers.value[access->lost_register] = pointer;
    fault.pointers[fault.pointer_count < ZG_FAULT_POINTERS ? fault.pointer_count++ : 0] = pointer;
}

static void work_on_watched(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    struct zg_past_access access;
    struct zg_registers registers;
    if (!find_watched_access(work, &access)) return;
    zg_arch_registers_from_context(&registers, work->context);
    // The following code needs the context as it was at the access.
    zg_arch_set_pc(work->context, access.pc);
    gather_fault_state(work);
    fault.address = access.address;
    fault.access = access.access;
    fault.is_non_canonical = false;
    fault.is_watched = true;
    restore_lost_register(&access);
    zg_diagnose(&fault, &verdict);
    bool is_bug = verdict.has_block && (verdict.freed_memory || verdict.overrun);
    if (is_bug) {
        make_finding(work);
        bool is_new = write_finding(work);
        if (is_new) complete(work);
        if (access.access == zg_fault_write) {
            // Do not report the changed contents once more when the block leaves the quarantine.
            struct zg_block_view block;
            if (zg_lookup_block(access.address, &block))
                __atomic_fetch_or(&block.block->header, ZG_HEADER_CHANGED, __ATOMIC_RELAXED);
        }
    }
    zg_arch_set_pc(work->context, registers.pc);
}

// Reports a fatal error of the Swift runtime, which has detected a use of a freed object and ends the program.
static void work_on_abort(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, work->context);
    if (!zg_swift_abort_find(registers.value[ZG_ARCH_SP], &finding)) return;
    zg_finding_detail_text(&finding, "signal", "SIGABRT");
    finding.access_count = zg_unwind_full(&registers, true, finding.access_stack, ZG_STACK_MAX_DEPTH);
    fault.registers = registers;
    note_registers(work);
    if (write_finding(work)) complete(work);
}

static void work_on_crash(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    zg_crash_make(&finding, work->signal, work->info, work->context, zg_crash_ask_zguard);
    finding.is_reported_later = !zg_config.report_path[0] && zg_namer_is_waiting();
    work->reported = true;
    // Lift the file size limit, so that the report of SIGXFSZ can be written. Restore it for the core file.
    uint64_t limit[2];
    bool is_lifted = work->signal == SIGXFSZ && zg_os_lift_file_limit(limit);
    if (zg_found_report(&finding)) complete(work);
    if (is_lifted) zg_os_limit_files(limit);
}

static void hold_crash(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    hold_fault(work_pointer, zg_handled_crash);
}

// Reports a fault, of this thread or another thread, whose handler still runs when the program ends.
static void work_on_handled(void *work_pointer, void *unused_1, void *unused_2) {
    static siginfo_t info;
    static ucontext_t context; // copied: another thread may continue meanwhile
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    struct zg_handled *handled = work->handled;
    if (handled->is_reported || zg_os_read_memory(&info, handled->info, sizeof info) != sizeof info ||
        zg_os_read_memory(&context, handled->context, sizeof context) < ZG_ARCH_CONTEXT_BYTES)
        return;
    bool is_own = handled->tid == zg_os_tid();
    enum zg_crash_how how = is_own ? zg_crash_ask_zguard : 0;
    // Text that the handler has written is about the fault.
    if (is_own && zg_load(&zg_last_text.ends) != handled->text_before) how |= zg_crash_has_message;
    work->signal = handled->signal, work->info = &info, work->context = &context;
    if (handled->kind == zg_handled_fault) {
        gather_fault_state(work);
        verdict = handled->verdict;
        make_finding(work);
        if (zg_crash_is_wanted()) zg_crash_describe(&finding, work->signal, &info, &context, how);
    } else {
        zg_crash_make(&finding, work->signal, &info, &context, how);
    }
    finding.thread_number = handled->thread_number;
    finding.thread_tid = handled->tid;
    zg_finding_detail_text(&finding, "ended_by", work->ended_by);
    finding.is_reported_later = !zg_config.report_path[0] && zg_namer_is_waiting();
    work->reported = handled->is_reported = true;
    if (zg_found_report(&finding)) complete(work);
    zg_handled_leave_page(handled);
}

// The program ignores SIGABRT, or its handler has returned. If abort raised the signal, abort ends the program now.
static void work_on_ended_abort(void *work_pointer, void *unused_1, void *unused_2) {
    enum { INNERMOST = 8 };
    struct work *work = work_pointer;
    struct zg_registers registers;
    uint64_t frames[INNERMOST];
    zg_arch_registers_from_context(&registers, work->context);
    int count = zg_unwind_full(&registers, true, frames, INNERMOST);
    for (int i = 0; i < count; i++)
        if (zg_crash_is_in_abort(frames[i])) {
            work->in_abort = true;
            if (!work->is_nested && zg_crash_is_wanted()) work_on_crash(work, unused_1, unused_2);
            return;
        }
}

// Whether the runtime faulted in a block that it accesses (zg_thread_begin_access), because the program has protected
// pages of the block. Makes the page accessible, so that the access succeeds.
static bool is_own_access(const siginfo_t *info) {
    struct zg_thread *thread = zg_thread_current_or_null();
    uint64_t address = (uint64_t)info->si_addr;
    if (!thread || !thread->in_runtime || address < thread->accessed_start || address >= thread->accessed_end)
        return false;
    void *page = (void *)(address & ~(ZG_PAGE_BYTES - 1));
    // Remove a guard that the program installed (MADV_GUARD_INSTALL): the page would fault forever.
    zg_os_unguard(page, ZG_PAGE_BYTES);
    return zg_os_commit(page, ZG_PAGE_BYTES) == 0;
}

// Releases the locks of a diagnosis that has itself faulted, because the program's handler may jump away.
static void abandon_report(void) {
    __atomic_store_n(&diagnosis_failed, true, __ATOMIC_RELAXED);
    zg_report_abandon();
    __atomic_store_n(&fault_owner, 0, __ATOMIC_RELAXED);
    zg_lock_drop(&fault_lock);
}

// Calls `function` on the fault stack, one thread at a time. False if it was not called or has faulted. A thread that
// faults while it writes a report does not wait for the fault lock, because the lock's owner may wait for that report.
// If the process dies of the reported fault, keeps the lock, so that other faulting threads wait until the process is
// dead. Otherwise they would ask zguard for the stacks of threads that are exiting.
static bool work_alone(void (*function)(void *, void *, void *), struct work *work) {
    int tid = work->tid;
    if (__atomic_load_n(&fault_owner, __ATOMIC_RELAXED) == tid) {
        abandon_report();
        return false;
    }
    if (zg_report_is_mine() || __atomic_load_n(&diagnosis_failed, __ATOMIC_RELAXED)) return false;
    zg_lock_take(&fault_lock);
    __atomic_store_n(&fault_owner, tid, __ATOMIC_RELAXED);
    // A fault elsewhere in the runtime's handler ends the process at once, because it would repeat forever. A fault in
    // `function` enters the handler again, because the program may have a handler.
    zg_signals_unblock_faults();
    zg_arch_call_on_stack(function, work, NULL, NULL, fault_stack + sizeof fault_stack);
    zg_signals_block_faults();
    if (__atomic_load_n(&fault_owner, __ATOMIC_RELAXED) != tid) return false;
    if (work->reported && !work->resolved && !work->ended_by && zg_signals_is_default(work->signal)) return true;
    __atomic_store_n(&fault_owner, 0, __ATOMIC_RELAXED);
    zg_lock_drop(&fault_lock);
    return true;
}

// Whether the calling thread was made by a bare clone() and uses another thread's thread-local storage. The Swift
// runtime's crash handler reads a dying program's memory in such a thread, and recovers from its faults there. Those
// accesses are not the program's.
static bool is_borrowed_thread(int tid) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread && zg_os_tid_is_from_kernel(thread->tid) && zg_os_tid_is_from_kernel(tid) && thread->tid != tid;
}

void zg_fault_fork_prepare(void) { zg_lock_take(&fault_lock); }
void zg_fault_fork_done(bool child) {
    if (!child) {
        zg_lock_drop(&fault_lock);
        return;
    }
    if (fault_owner) fault_owner = 0;
    zg_lock_reset(&fault_lock);
    zg_collector_after_fork_in_child();
    zg_handled_after_fork_in_child();
}

// SEGV_MTESERR
enum { TAG_FAULT = 9 };

// Takes the tag from the operand registers: Linux before 5.11 and qemu's user mode do not report it.
static uint32_t tag_in_registers(const void *context) {
    struct zg_registers registers;
    uint64_t operands[2];
    uint8_t code[16];
    uint32_t tag = 0;
    zg_arch_registers_from_context(&registers, context);
    int code_count = (int)zg_os_read_memory(code, registers.pc, sizeof code);
    int count = zg_arch_operand_registers(code, code_count, &registers, operands);
    for (int i = 0; i < count && !tag; i++)
        if (zg_lookup_is_in_heap(operands[i])) tag = zg_arch_tag(operands[i]);
    return tag;
}

// Turns off tag checks, so that the handler can access everything, and removes the tag from si_addr, as the kernel does
// for handlers that do not ask for tags. True if the instruction can be executed again.
static bool strip_fault_tag(struct work *work) {
    zg_arch_check_tags(false);
    if ((work->signal != SIGSEGV && work->signal != SIGBUS) || work->info->si_code <= 0) return false;
    uint64_t pointer = (uint64_t)work->info->si_addr;
    work->info->si_addr = (void *)zg_arch_untag(pointer);
    work->is_tag_fault = work->signal == SIGSEGV && work->info->si_code == TAG_FAULT;
    if (zg_arch_recover_read(work->context)) return true;
    const struct zg_thread *thread = zg_thread_current_or_null();
    // The runtime itself has faulted. It may access the whole heap.
    if (work->is_tag_fault && thread && thread->in_runtime) {
        zg_arch_leave_unchecked(work->context);
        return true;
    }
    uint64_t address = (uint64_t)work->info->si_addr;
    if (!zg_lookup_is_in_heap(address)) return false; // the program may tag this memory itself
    uint32_t tag = zg_arch_tag(pointer) ? zg_arch_tag(pointer) : tag_in_registers(work->context);
    if (tag) work->pointer = zg_arch_with_tag(address, tag);
    if (tag || !work->is_tag_fault) return false;
    zg_tags_disable();
    zg_arch_leave_unchecked(work->context);
    return true;
}

static bool is_in_place(const struct zg_handled *handled, uint64_t context) {
    return __atomic_load_n(&handled->is_taken, __ATOMIC_ACQUIRE) && handled->context == context;
}

// Called when the process ends. Reports the fault whose handler ends the process, and faults of other threads that are
// in their handlers. Waits up to 50 ms for handlers that are about to return.
static bool report_handled(struct zg_handled *own, const char *ended_by) {
    const int64_t longest = INT64_C(50000000), step = 5000000;
    static uint32_t never_woken; // futex that is never woken
    struct work work = {.tid = zg_os_tid(), .handled = own, .ended_by = ended_by};
    if (own && own->kind != zg_handled_signal && !own->is_reported) work_alone(work_on_handled, &work);
    bool is_reported = work.reported || (own && own->is_reported);
    if (is_reported) zg_signals_note_explained();
    int64_t waited = 0;
    for (struct zg_handled *other = NULL; (other = zg_handled_of_other_thread(other)) != NULL;) {
        uint64_t context = other->context;
        for (; waited < longest && is_in_place(other, context); waited += step)
            zg_os_futex_wait(&never_woken, 0, true, step);
        if (!is_in_place(other, context)) continue;
        work = (struct work){.tid = work.tid, .handled = other, .ended_by = ended_by};
        work_alone(work_on_handled, &work);
    }
    return is_reported;
}

static void note_nesting(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    const struct zg_handled *around = zg_handled_around_context(work->context);
    work->is_nested = around && around->kind != zg_handled_signal;
}

static struct zg_handled *own_handled(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread ? thread->handled : NULL;
}

void zg_fault_before_exit(const uint64_t *frame, int status) {
    enum { STATUS_BITS = 0xff };
    char text[16];
    struct zg_text ended_by;
    uint64_t before;
    if (!zg_handled_is_any() || !zg_os_is_own_process()) return;
    struct zg_handled *own = own_handled() ? zg_handled_around_frame(frame) : NULL;
    status &= STATUS_BITS;
    // Other threads' handlers do not end the program: zguard must not attribute the exit to them.
    zg_handled_leave_all(own, !status);
    if (!status) return;
    zg_text_init(&ended_by, text, sizeof text);
    zg_text_string(&ended_by, "status ");
    zg_text_decimal(&ended_by, (uint64_t)status);
    bool is_masked = zg_os_mask_signals(SIG_BLOCK, ~UINT64_C(0), &before);
    report_handled(own, text);
    if (is_masked) zg_os_restore_signals(before);
}

static void note_nested(struct work *work) {
    if (own_handled()) work_alone(note_nesting, work);
}

// Records a signal for which the program's own handler is about to be called.
static void note_call(struct work *work) {
    if (work->handled || work->is_nested || !zg_signals_has_handler(work->signal) || is_borrowed_thread(work->tid))
        return;
    bool is_raised = work->signal == SIGABRT && work->info->si_code <= 0 && work->info->si_pid == zg_os_pid();
    bool is_fault = work->signal != SIGSEGV && work->signal != SIGBUS && work->info->si_code > 0;
    if (zg_crash_is_wanted() && !work->reported && !zg_signals_is_explained() && (is_raised || is_fault))
        work_alone(hold_crash, work);
    if (!work->handled)
        work->handled = zg_handled_begin(zg_handled_signal, work->signal, work->info, work->context, work);
}

static void look_at_signal(struct work *work) {
    if (work->reported || !zg_signals_ends(work->signal, work->info, work->context) || is_borrowed_thread(work->tid))
        return;
    if (zg_handled_is_any()) work->reported = report_handled(own_handled(), zg_crash_signal_name(work->signal));
    if (!work->reported && zg_crash_is_wanted() && zg_signals_is_crash(work->signal, work->info, work->context))
        work_alone(work_on_crash, work);
}

static bool is_memory_fault(const struct work *work) {
    return work->info->si_code > 0 && (work->signal == SIGSEGV || work->signal == SIGBUS);
}

// Diagnoses the cause of the signal. True if the fault is resolved and the program continues.
static bool diagnose_signal(struct work *work) {
    if (work->signal == SIGABRT) {
        note_nested(work);
        if (work->info->si_code <= 0 && work->info->si_pid == zg_os_pid()) work_alone(work_on_abort, work);
        return false;
    }
    if (is_memory_fault(work)) {
        enum zg_window_fault window = zg_window_fault((uint64_t)work->info->si_addr);
        if (window == zg_window_fault_mended) return true;
        if (window == zg_window_fault_lost) {
            zg_signals_call_program_handler(work->signal, work->info, work->context);
            return true;
        }
        note_nested(work);
        return !is_borrowed_thread(work->tid) && work_alone(work_on_fault, work) && work->resolved;
    }
    if (work->info->si_code <= 0 && zg_signals_defer_blocked(work->signal, work->info, work->context)) return true;
    note_nested(work);
    return false;
}

// Called after the program's own handler has returned, or if there is no such handler.
static void after_program_handler(struct work *work) {
    int signal = work->signal;
    // If the handler has reset the action and raised the signal, the signal stays pending until this handler returns.
    // Otherwise the instruction faults again.
    if (work->handled && !work->reported && zg_signals_is_deadly(signal) &&
        zg_signals_is_pending(UINT64_C(1) << (signal - 1)))
        work->reported = report_handled(work->handled, zg_crash_signal_name(signal));
    if (!work->handled || !work->handled->is_reported) zg_handled_end(work->handled);
    if (signal != SIGABRT || work->reported || !zg_signals_goes_on(signal, work->info)) return;
    if (zg_crash_is_wanted() || work->is_nested) work_alone(work_on_ended_abort, work);
    if (work->in_abort && work->is_nested) report_handled(own_handled(), zg_crash_signal_name(SIGABRT));
}

// Executes a vector instruction that faulted because it needs an aligned block (unaligned.h).
static bool continue_unaligned(const struct work *work) {
    if (work->signal != SIGSEGV || work->info->si_code <= 0 || !zg_arch_fault_without_address(work->context))
        return false;
    // A thread that diagnoses a fault already holds the fault lock, and would wait for itself.
    if (__atomic_load_n(&fault_owner, __ATOMIC_RELAXED) == work->tid || zg_report_is_mine()) return false;
    zg_lock_take(&fault_lock);
    bool done = zg_unaligned_continue(work->info, work->context);
    zg_lock_drop(&fault_lock);
    return done;
}

// Handles an access that a watchpoint has noticed. The instruction was executed before the signal.
static void handle_watched(struct work *work) {
    const struct zg_thread *thread = zg_thread_current_or_null();
    // The runtime reads freed blocks itself. A signal that was blocked comes too late to find the instruction.
    bool is_programs =
        !(thread && thread->in_runtime) && !zg_signals_is_late_watch(work->info) && !is_borrowed_thread(work->tid);
    work->is_watched = work->resolved = true;
    if (is_programs) work_alone(work_on_watched, work);
    if (!work->reported) {
        zg_watchpoints_note_stray();
        return;
    }
    zg_watchpoints_pause();
    if (zg_found_may_end()) zg_signals_abort();
}

void zg_fault_handler(int signal, siginfo_t *info, void *context) {
    struct work work = {.tid = zg_os_tid(), .signal = signal, .info = info, .context = context};
    zg_signals_restore_moved_stack(context);
    if (signal == SIGTRAP && zg_signals_is_watch(info)) {
        handle_watched(&work);
        return;
    }
    if (zg_tags_are_on() && strip_fault_tag(&work)) return;
    if (is_memory_fault(&work) && (zg_arch_recover_read(context) || is_own_access(info))) return;
    if (continue_unaligned(&work)) return;
    // The signal was sent while this thread was diagnosing a fault: deliver it later.
    if (info->si_code <= 0 && __atomic_load_n(&fault_owner, __ATOMIC_RELAXED) == work.tid) {
        zg_signals_defer(signal, info, context);
        return;
    }
    if (diagnose_signal(&work)) return;
    look_at_signal(&work);
    note_call(&work);
    if (zg_tags_are_on()) zg_arch_check_tags(true);
    if (work.reported) zg_signals_end_reported(signal, info, context, work.was_reported);
    else zg_signals_call_program_handler(signal, info, context);
    after_program_handler(&work);
}
