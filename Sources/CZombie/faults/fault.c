// Faults. The handler may have been entered on a small alternate stack of the program's, so the work is done on a stack
// of our own, one fault at a time.
// Signal context. Locks: the fault lock, then (through the report) the report lock.

#define _GNU_SOURCE
#include "faults/fault.h"

#include <ucontext.h>

#include "blocks/tags.h"
#include "faults/ahead.h"
#include "faults/crash.h"
#include "faults/diagnose.h"
#include "faults/handled.h"
#include "faults/namer.h"
#include "faults/signals.h"
#include "faults/swift_abort.h"
#include "findings/describe.h"
#include "findings/found.h"
#include "findings/last_text.h"
#include "findings/report.h"
#include "findings/crash.h"
#include "findings/report_forms.h"
#include "images/module.h"
#include "pages/retire.h"
#include "pages/revive.h"
#include "pages/window.h"
#include "platform/arch.h"
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
static bool is_broken; // a fault inside the work: nothing is diagnosed any more

// Written by one fault at a time.
static struct zg_fault fault;
static struct zg_verdict verdict;
static struct zg_finding finding;

struct work {
    int tid; // of the calling thread
    int signal;
    siginfo_t *info;
    void *context;
    uint64_t pointer;  // with its tag, where it has one (blocks/tags.h); 0: it has none
    bool is_tag_fault; // the memory is there, and has another tag
    bool resolved;     // the instruction can go on
    bool reported;     // a finding says what has happened
    bool was_reported; // with names, by somebody in this process
    bool is_nested;    // the thread is in a handler of the program's for an earlier fault
    bool ends_go;      // the fault ends a program of Go
    bool in_abort;     // the program has raised it in libc's abort
    struct zg_handled *handled;
    const char *ended_by; // of a fault whose handler has ended the program
};

static void strip_all_tags(const struct zg_registers *registers) {
    fault.operand_count = zg_arch_operand_registers(fault.code, fault.code_count, registers, fault.operands);
    zg_lookup_strip(fault.registers.value, ZG_ARCH_REGISTER_COUNT);
    zg_lookup_strip(fault.pointers, fault.pointer_count);
    zg_lookup_strip(fault.stack, fault.stack_count);
}

static void gather(const struct work *work) {
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, work->context);
    fault = (struct zg_fault){.address = (uint64_t)work->info->si_addr,
                              .pointer = work->pointer,
                              .find_by_tag = zg_lookup_by_tag,
                              .without_address = zg_arch_fault_without_address(work->context),
                              .access = zg_arch_fault_access(work->context),
                              .pc = registers.pc,
                              .sp = registers.value[ZG_ARCH_SP],
                              .registers = registers,
                              .bounds = zg_thread_stack_bounds(),
                              .fills_new = zg_config.fill_new,
                              .lookup = zg_lookup_block,
                              .is_ours = zg_lookup_is_ours,
                              .is_forgotten = zg_retire_is_forgotten,
                              .is_fenced = zg_lookup_is_fenced,
                              .find_zombie = zg_zombie_find};
    fault.pointer_count = zg_arch_pointer_registers(work->context, fault.pointers, ZG_FAULT_POINTERS);
    fault.code_count = (int)zg_os_read_memory(fault.code, fault.pc, sizeof fault.code);
    fault.stack_count = (int)(zg_os_read_memory(fault.stack, fault.sp, sizeof fault.stack) / sizeof fault.stack[0]);
    if (zg_tags_are_on()) strip_all_tags(&registers);
}

// A stack that runs over inside the runtime is the caller's: our own frames on top say nothing to the reader.
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

// Writes the finding, with what only somebody else can say left to them. False: an equal one was written.
static bool write_finding(struct work *work) {
    bool may_go_on = zg_config.on_finding == zg_on_finding_continue && work->signal != SIGABRT &&
                     (verdict.freed_memory || verdict.overrun);
    if (work->ends_go) zg_signals_note_explained();
    if (zg_crash_is_wanted() && !may_go_on &&
        (work->ends_go || zg_signals_is_crash(work->signal, work->info, work->context)))
        zg_crash_describe(&finding, work->signal, work->info, work->context, zg_crash_asks);
    finding.is_reported_later = !zg_config.report_path[0] && zg_namer_is_waiting();
    work->reported = true;
    return zg_found_report(&finding);
}

// It is known now whether the program ends by it.
static void complete(struct work *work) {
    bool ends = !work->resolved && (work->ended_by || zg_signals_is_deadly(work->signal));
    work->was_reported = ends && finding.is_reported_later && zg_namer_request();
    if (!work->was_reported) zg_report_complete(&finding, ends);
}

static void describe_counting(void) {
    uint64_t side = fault.address - (uint64_t)verdict.trap.offset;
    struct zg_counting counting = zg_counting_find(&fault.registers, side, verdict.block.start);
    if (counting.access) finding.access = counting.access;
    if (counting.operation) zg_finding_detail_text(&finding, "operation", counting.operation);
}

// Makes the finding of what was gathered and of the verdict.
static void describe(const struct work *work) {
    zg_finding_init(&finding, verdict.kind, verdict.access, verdict.address, verdict.has_block ? &verdict.block : NULL);
    finding.confidence = verdict.confidence;
    finding.fatal = false; // the fault ends the program, unless its handler goes on
    zg_finding_detail_text(&finding, "signal", work->signal == SIGBUS ? "SIGBUS" : "SIGSEGV");
    if (!fault.without_address) zg_finding_detail_number(&finding, "fault_address", fault.address, true);
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
    zg_ahead_look(&finding, &verdict.trap, &registers);
    bool exact = true;
    // A call through a wild pointer: the frame to show is the caller's, its return address is on top of the stack.
    bool is_no_code = fault.access == zg_fault_execute && fault.address == fault.pc; // memory may be there
    if ((fault.code_count <= 0 || is_no_code) && fault.stack_count > 0 &&
        zg_arch_undo_call(&registers, fault.stack[0])) {
        exact = false;
        if (fault.pc && zg_arch_is_canonical(fault.pc)) finding.access_stack[finding.access_count++] = fault.pc + 1;
    }
    finding.access_count += zg_unwind_full(&registers, exact, finding.access_stack + finding.access_count,
                                           ZG_STACK_MAX_DEPTH - finding.access_count);
    drop_own_frames();
}

// on_finding=continue: the object gets its contents back, and the instruction what it had read from it.
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

// An instruction that was let go on and faults again in the same way, and again: letting it go on does not help, and would
// hang the program.
static bool goes_in_circles(void) {
    enum { MOST = 8 };
    static uint64_t pc, address;
    static int times, tid;
    if (fault.pc != pc || fault.address != address || zg_os_tid() != tid) times = 0;
    pc = fault.pc, address = fault.address, tid = zg_os_tid();
    return ++times > MOST;
}

// It is dead, and nobody has its slot yet.
static bool is_current(const struct zg_block_view *view) {
    struct zg_block_view now;
    return view->state != zg_state_live && zg_lookup_block(view->start, &now) && now.block == view->block;
}

// What is dead can be used from now on, and was reported; where others have what is used, the thread is not
// checked until it allocates or frees.
static bool let_go_on(const struct work *work, bool is_tagged) {
    uint32_t header = is_tagged ? __atomic_load_n(&verdict.block.block->header, __ATOMIC_ACQUIRE) : 0;
    bool is_there = is_tagged && (uint64_t)work->info->si_addr - verdict.block.start < verdict.block.size;
    if (is_there && zg_header_state(header) == zg_state_quarantined) {
        __atomic_compare_exchange_n(&verdict.block.block->header, &header, header | ZG_HEADER_CHANGED, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (zg_tags_open(work->pointer)) return true;
    }
    zg_arch_leave_unchecked(work->context);
    uint64_t page = (uint64_t)work->info->si_addr & ~(ZG_PAGE_BYTES - 1);
    if (!work->is_tag_fault && !zg_revive_page(page))
        return zg_lookup_is_in_front(page) && zg_os_commit((void *)page, ZG_PAGE_BYTES) == 0;
    return true;
}

// The program's own handler is about to be called: what it was called for is kept, and described for whoever sees the process end where nobody in it
// does.
static void hold(struct work *work, enum zg_handled_kind kind) {
    enum { FRAMES_LEAST = 8 };
    // Without crashes collected SIGABRT is the program's own; here it may be how the handler ends the program.
    zg_signals_watch_aborts(zg_fault_handler);
    work->handled = zg_handled_begin(kind, work->signal, work->info, work->context, work);
    if (!work->handled) return;
    work->handled->verdict = verdict;
    work->handled->text_before = zg_load(&zg_last_text.ends);
    struct zg_handled_fault *page = zg_handled_claim_page(work->handled);
    if (!page) return;
    if (kind == zg_handled_crash) zg_crash_make(&finding, work->signal, work->info, work->context, 0);
    else describe(work);
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

// The instruction loads the header word of a freed object, so that what it does with the word faults a second time and says more.
// A write, a comparison or a load of a part of the word leads to no second fault: it is reported now.
static bool reads_header(void) {
    return verdict.has_block && verdict.trap.part == zg_trap_none && !fault.without_address &&
           fault.address == verdict.block.start + (uint64_t)verdict.block.offset && fault.access != zg_fault_write &&
           zg_arch_may_load_pointer(fault.code, fault.code_count);
}

static bool reveal_header(const struct work *work, bool is_tagged) {
    return is_tagged ? zg_zombie_is_header(&verdict.block) && zg_tags_open(work->pointer)
                     : zg_revive_header(&verdict.block);
}

// on_finding=continue: makes the memory accessible, so that the instruction can be executed again.
static bool let_access_go_on(const struct work *work, bool is_tagged) {
    if (verdict.trap.part != zg_trap_none) return revive(work);
    if (work->pointer) return let_go_on(work, is_tagged);
    return !fault.without_address && (zg_revive_fenced_at(fault.address) || zg_revive_page(fault.address));
}

static void work_on_fault(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    gather(work);
    zg_diagnose(&fault, &verdict);
    // Go's handler returns to code of its own that ends the program by a system call.
    work->ends_go = !work->is_nested && zg_signals_ends_go(work->signal, fault.pc);
    bool ends = zg_signals_is_deadly(work->signal) || zg_signals_holds(work->signal, work->context) || work->ends_go;
    // What a crash handler's own look at memory runs into, and dies of, says nothing of what it was called for.
    if (work->is_nested && ends) return;
    if (!verdict.freed_memory && !verdict.overrun && !ends) {
        if (!work->is_nested) hold(work, zg_handled_fault);
        return;
    }
    bool is_tagged = verdict.has_block && work->is_tag_fault && verdict.freed_memory && is_current(&verdict.block);
    if (reads_header() && !goes_in_circles() && reveal_header(work, is_tagged)) {
        work->resolved = true;
        return;
    }
    describe(work);
    bool is_new = write_finding(work);
    if (zg_config.on_finding == zg_on_finding_continue && (verdict.freed_memory || verdict.overrun))
        work->resolved = let_access_go_on(work, is_tagged) && !goes_in_circles();
    if (is_new) complete(work);
}

// The Swift runtime has noticed a dead object and ends the program: what it says is completed.
static void work_on_abort(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, work->context);
    if (!zg_swift_abort_find(registers.value[ZG_ARCH_SP], &finding)) return;
    zg_finding_detail_text(&finding, "signal", "SIGABRT");
    finding.access_count = zg_unwind_full(&registers, true, finding.access_stack, ZG_STACK_MAX_DEPTH);
    if (write_finding(work)) complete(work);
}

static void work_on_crash(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    zg_crash_make(&finding, work->signal, work->info, work->context, zg_crash_asks);
    finding.is_reported_later = !zg_config.report_path[0] && zg_namer_is_waiting();
    work->reported = true;
    // Of a limit on files it would not be said that it was met; a core file is within it as before.
    uint64_t limit[2];
    bool is_lifted = work->signal == SIGXFSZ && zg_os_lift_file_limit(limit);
    if (zg_found_report(&finding)) complete(work);
    if (is_lifted) zg_os_limit_files(limit);
}

static void hold_crash(void *work_pointer, void *unused_1, void *unused_2) {
    (void)unused_1, (void)unused_2;
    hold(work_pointer, zg_handled_crash);
}

// The program ends in the handler that it was in for this fault, of this thread or of another.
static void work_on_handled(void *work_pointer, void *unused_1, void *unused_2) {
    static siginfo_t info;
    static ucontext_t context; // of another thread, which may go on
    (void)unused_1, (void)unused_2;
    struct work *work = work_pointer;
    struct zg_handled *handled = work->handled;
    if (handled->is_reported || zg_os_read_memory(&info, handled->info, sizeof info) != sizeof info ||
        zg_os_read_memory(&context, handled->context, sizeof context) < ZG_ARCH_CONTEXT_BYTES)
        return;
    bool is_own = handled->tid == zg_os_tid();
    enum zg_crash_how how = is_own ? zg_crash_asks : 0;
    // What the handler has said, if anything, is about the fault.
    if (is_own && zg_load(&zg_last_text.ends) != handled->text_before) how |= zg_crash_has_words;
    work->signal = handled->signal, work->info = &info, work->context = &context;
    if (handled->kind == zg_handled_fault) {
        gather(work);
        verdict = handled->verdict;
        describe(work);
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

// The program's handler for SIGABRT has returned, or it ignores the signal: where abort raised it, that has the kernel end the program.
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

// The program protected pages of a block and freed it: they are opened again and the fill goes on.
static bool is_own_fill(const siginfo_t *info) {
    struct zg_thread *thread = zg_thread_current_or_null();
    uint64_t address = (uint64_t)info->si_addr;
    if (!thread || !thread->in_runtime || address < thread->filling_start || address >= thread->filling_end)
        return false;
    void *page = (void *)(address & ~(ZG_PAGE_BYTES - 1));
    // A guard of the program's own would make the page fault for ever.
    zg_os_unguard(page, ZG_PAGE_BYTES);
    return zg_os_commit(page, ZG_PAGE_BYTES) == 0;
}

// The work itself has faulted. The program's handler may jump away: what this thread holds is given up.
static void abandon_report(void) {
    __atomic_store_n(&is_broken, true, __ATOMIC_RELAXED);
    zg_report_abandon();
    __atomic_store_n(&fault_owner, 0, __ATOMIC_RELAXED);
    zg_lock_drop(&fault_lock);
}

// One at a time, on a stack that is large enough. False: nothing was done. A thread that faults while it writes a report of
// its own does not wait: one whose fault is being reported waits for that report. Where the process dies of what was reported, others that fault
// meanwhile wait until it is dead: they would ask zguard for the stacks of threads that are going.
static bool work_alone(void (*function)(void *, void *, void *), struct work *work) {
    int tid = work->tid;
    if (__atomic_load_n(&fault_owner, __ATOMIC_RELAXED) == tid) {
        abandon_report();
        return false;
    }
    if (zg_report_is_mine() || __atomic_load_n(&is_broken, __ATOMIC_RELAXED)) return false;
    zg_lock_take(&fault_lock);
    __atomic_store_n(&fault_owner, tid, __ATOMIC_RELAXED);
    // What faults in the handler ends the process at once: it would fault again and again. What faults in the work comes back
    // here, for the program may have a handler.
    zg_signals_unblock_faults();
    zg_arch_call_on_stack(function, work, NULL, NULL, fault_stack + sizeof fault_stack);
    zg_signals_block_faults();
    if (__atomic_load_n(&fault_owner, __ATOMIC_RELAXED) != tid) return false;
    if (work->reported && !work->resolved && !work->ended_by && zg_signals_is_default(work->signal)) return true;
    __atomic_store_n(&fault_owner, 0, __ATOMIC_RELAXED);
    zg_lock_drop(&fault_lock);
    return true;
}

// A thread made by a bare clone() that borrows another's thread-local storage: so the Swift runtime's crash handler reads a
// dying program's memory for its backtrace, faults of its own included. What it touches the program did not touch.
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
    zg_handled_after_fork_in_child();
}

// Handlers see no tags unless they ask for them, and ours reads and writes what it wants. True: the instruction goes on.
enum { TAG_FAULT = 9 }; // SEGV_MTESERR

// A kernel before Linux 5.11, and qemu's user mode, do not say the tag: it is the register's.
static uint32_t tag_in_registers(const void *context) {
    struct zg_registers registers;
    uint64_t operands[2];
    uint8_t code[16];
    uint32_t tag = 0;
    zg_arch_registers_from_context(&registers, context);
    int code_count = (int)zg_os_read_memory(code, registers.pc, sizeof code);
    int count = zg_arch_operand_registers(code, code_count, &registers, operands);
    for (int i = 0; i < count && !tag; i++)
        if (zg_lookup_is_ours(operands[i])) tag = zg_arch_tag(operands[i]);
    return tag;
}

static bool look_at_tags(struct work *work) {
    zg_arch_check_tags(false);
    if ((work->signal != SIGSEGV && work->signal != SIGBUS) || work->info->si_code <= 0) return false;
    uint64_t pointer = (uint64_t)work->info->si_addr;
    work->info->si_addr = (void *)zg_arch_untag(pointer);
    work->is_tag_fault = work->signal == SIGSEGV && work->info->si_code == TAG_FAULT;
    if (zg_arch_recover_read(work->context)) return true;
    const struct zg_thread *thread = zg_thread_current_or_null();
    // Of our own, while the thread is inside: what we touch is ours to touch.
    if (work->is_tag_fault && thread && thread->in_runtime) {
        zg_arch_leave_unchecked(work->context);
        return true;
    }
    uint64_t address = (uint64_t)work->info->si_addr;
    if (!zg_lookup_is_ours(address)) return false; // or what the program tags by itself
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

// The process ends: reports the fault whose handler ends it, and those of other threads that are in their handlers. Some of these may be about to
// go on: they are waited for.
static bool report_handled(struct zg_handled *own, const char *ended_by) {
    const int64_t longest = INT64_C(50000000), step = 5000000;
    static uint32_t nobody; // wakes who waits for it
    struct work work = {.tid = zg_os_tid(), .handled = own, .ended_by = ended_by};
    if (own && own->kind != zg_handled_signal && !own->is_reported) work_alone(work_on_handled, &work);
    bool is_reported = work.reported || (own && own->is_reported);
    if (is_reported) zg_signals_note_explained();
    int64_t waited = 0;
    for (struct zg_handled *other = NULL; (other = zg_handled_of_other_thread(other)) != NULL;) {
        uint64_t context = other->context;
        for (; waited < longest && is_in_place(other, context); waited += step)
            zg_os_futex_wait(&nobody, 0, true, step);
        if (!is_in_place(other, context)) continue;
        work = (struct work){.tid = work.tid, .handled = other, .ended_by = ended_by};
        work_alone(work_on_handled, &work);
    }
    return is_reported;
}

static void look_around(void *work_pointer, void *unused_1, void *unused_2) {
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
    // Who exits elsewhere has ended the program in the ordinary way.
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
    if (own_handled()) work_alone(look_around, work);
}

// A signal for which the program has a handler of its own, which is about to be called.
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

// Diagnoses what the signal stands for. True: the signal is dealt with, and the program goes on.
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
            zg_signals_hand_on(work->signal, work->info, work->context);
            return true;
        }
        note_nested(work);
        return !is_borrowed_thread(work->tid) && work_alone(work_on_fault, work) && work->resolved;
    }
    if (work->info->si_code <= 0 && zg_signals_hold(work->signal, work->info, work->context)) return true;
    note_nested(work);
    return false;
}

// The program's own handler has returned, or there was none.
static void look_after_handler(struct work *work) {
    int signal = work->signal;
    // The handler has reset the action and raised the signal, which is pending until this handler returns; or the instruction
    // faults again.
    if (work->handled && !work->reported && zg_signals_is_deadly(signal) &&
        zg_signals_is_pending(UINT64_C(1) << (signal - 1)))
        work->reported = report_handled(work->handled, zg_crash_signal_name(signal));
    if (!work->handled || !work->handled->is_reported) zg_handled_end(work->handled);
    if (signal != SIGABRT || work->reported || !zg_signals_goes_on(signal, work->info)) return;
    if (zg_crash_is_wanted() || work->is_nested) work_alone(work_on_ended_abort, work);
    if (work->in_abort && work->is_nested) report_handled(own_handled(), zg_crash_signal_name(SIGABRT));
}

void zg_fault_handler(int signal, siginfo_t *info, void *context) {
    struct work work = {.tid = zg_os_tid(), .signal = signal, .info = info, .context = context};
    zg_signals_came_from(context);
    if (zg_tags_are_on() && look_at_tags(&work)) return;
    if (is_memory_fault(&work) && (zg_arch_recover_read(context) || is_own_fill(info))) return;
    // A signal that was sent while this thread works on a fault is no fault of that work.
    if (info->si_code <= 0 && __atomic_load_n(&fault_owner, __ATOMIC_RELAXED) == work.tid) {
        zg_signals_postpone(signal, info, context);
        return;
    }
    if (diagnose_signal(&work)) return;
    look_at_signal(&work);
    note_call(&work);
    if (zg_tags_are_on()) zg_arch_check_tags(true);
    if (work.reported) zg_signals_hand_on_reported(signal, info, context, work.was_reported);
    else zg_signals_hand_on(signal, info, context);
    look_after_handler(&work);
}
