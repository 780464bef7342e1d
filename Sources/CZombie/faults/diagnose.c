// The verdict on a fault. Pure: no state, no lock, no system call.

#include "faults/diagnose.h"

#include "blocks/fill.h"

// Distances from a pointer that still count as "through it": fields of a large structure.
#define FIELD_REACH ((uint64_t)1 << 20)
#define NULL_REACH ((uint64_t)65536)
#define STACK_REACH ((uint64_t)1 << 20)

static bool near(uint64_t value, uint64_t base) { return value - base + FIELD_REACH < 2 * FIELD_REACH; }

// The same without its top byte, which the Swift runtime takes away from references that may carry bits there.
#define BARE_FILL (ZG_FILL_WORD & UINT64_C(0x00ffffffffffffff))

static bool is_fill_value(uint64_t value) { return near(value, ZG_FILL_WORD) || near(value, BARE_FILL); }

// A pointer read from filled memory, perhaps with a field's offset added; also one cut to 32 bits.
static bool is_fill_pointer(uint64_t value) {
    return is_fill_value(value) || (value >= 0x55555555u - 4096 && value < 0x55555555u + FIELD_REACH);
}

static const char *access_name(enum zg_fault_access access, const struct zg_fault *fault) {
    switch (access) {
    case zg_fault_read: return ZG_ACCESS(read);
    case zg_fault_write: return ZG_ACCESS(write);
    case zg_fault_execute: return ZG_ACCESS(call);
    case zg_fault_unknown: break;
    }
    switch (zg_arch_decode_access(fault->code, fault->code_count)) {
    case zg_fault_read: return ZG_ACCESS(read);
    case zg_fault_write: return ZG_ACCESS(write);
    case zg_fault_execute: return ZG_ACCESS(call);
    case zg_fault_unknown: break;
    }
    return ZG_ACCESS(unknown);
}

static bool is_dead(const struct zg_block_view *view) {
    return view->state == zg_state_quarantined || view->state == zg_state_freeing || view->state == zg_state_retired ||
           view->state == zg_state_held;
}

// The dead block that the stale pointer was probably read from: something still points into it.
static bool find_source(const struct zg_fault *fault, struct zg_block_view *view) {
    for (int i = 0; i < fault->pointer_count; i++)
        if (fault->lookup(fault->pointers[i], view) && is_dead(view)) return true;
    for (int i = 0; i < fault->stack_count; i++)
        if (fault->lookup(fault->stack[i], view) && is_dead(view)) return true;
    return false;
}

static bool fill_value_in_registers(const struct zg_fault *fault, uint64_t *value) {
    if (is_fill_pointer(fault->pc)) {
        *value = fault->pc;
        return true;
    }
    // A register that the instruction does not use may hold a mask of this value.
    uint64_t used[2];
    int count =
        fault->registers.known ? zg_arch_operand_registers(fault->code, fault->code_count, &fault->registers, used) : 0;
    const uint64_t *values = count ? used : fault->pointers;
    if (!count) count = fault->pointer_count;
    for (int i = 0; i < count; i++)
        if (is_fill_value(values[i])) {
            *value = values[i];
            return true;
        }
    return false;
}

static void through_fill(const struct zg_fault *fault, uint64_t value, struct zg_verdict *verdict) {
    verdict->kind = zg_finding_use_after_free;
    verdict->freed_memory = true;
    verdict->confidence = ZG_CONFIDENCE(inferred);
    verdict->address = value;
    verdict->access = is_fill_pointer(fault->pc) ? ZG_ACCESS(call) : access_name(fault->access, fault);
    verdict->has_block = find_source(fault, &verdict->block);
}

// A stored reference of a dead object, followed: the distance may be more than its window, so a register that still holds the
// reference itself decides.
static struct zg_zombie_hit find_reference(const struct zg_fault *fault, struct zg_zombie_hit hit) {
    // In front of the reference, too: a value witness table stands before the metadata.
    for (int i = 0; i < fault->pointer_count; i++)
        if (fault->pointers[i] == fault->address - (uint64_t)hit.offset) return hit;
    uint64_t best = 0;
    for (int i = 0; i < fault->pointer_count; i++) {
        uint64_t value = fault->pointers[i];
        if (value > fault->address || fault->address - value > FIELD_REACH || value <= best) continue;
        struct zg_zombie_hit other = fault->find_zombie(value, fault->pointers, fault->pointer_count);
        if (other.part == zg_trap_word && other.offset == 0 && other.has_block && other.byte >= 16)
            best = value, hit = other;
    }
    if (best) hit.offset = (int64_t)(fault->address - best);
    return hit;
}

static bool through_trap(const struct zg_fault *fault, struct zg_verdict *verdict) {
    struct zg_zombie_hit hit = fault->find_zombie(fault->address, fault->pointers, fault->pointer_count);
    if (hit.part == zg_trap_none) return false;
    if (hit.part == zg_trap_word) hit = find_reference(fault, hit);
    verdict->kind = zg_finding_use_after_free;
    verdict->freed_memory = true;
    verdict->trap = hit;
    verdict->has_block = hit.has_block;
    if (!hit.has_block || hit.ambiguous) verdict->confidence = ZG_CONFIDENCE(inferred);
    if (!hit.has_block) return true;
    verdict->block = hit.block;
    // What was touched is the object; the trap address would mean nothing to the reader.
    uint64_t byte = hit.part == zg_trap_word ? hit.byte : hit.part == zg_trap_side ? 8 : 0;
    verdict->block.offset = (int64_t)byte;
    verdict->address = hit.block.start + byte;
    return true;
}

static bool is_stack_overflow(const struct zg_fault *fault) {
    // Just around the stack pointer, and below all that is known to be stack.
    return fault->sp < fault->bounds.high && fault->address < fault->bounds.low + NULL_REACH &&
           fault->address < fault->bounds.high && fault->address - fault->sp + STACK_REACH < 2 * STACK_REACH;
}

static bool reaches(const struct zg_block_view *view, uint64_t pointer) { return pointer - view->start <= view->size; }

// Between two blocks with pages of their own lies one guard: it belongs to the one in front. Whose pointer the instruction
// used decides; where none of the registers tells, the nearer end.
static void choose_neighbour(const struct zg_fault *fault, struct zg_block_view *view) {
    uint64_t next_page = (fault->address & ~(ZG_PAGE_BYTES - 1)) + ZG_PAGE_BYTES;
    struct zg_block_view next;
    if (view->offset >= 0 && fault->address - view->start < view->size) return;
    if (!fault->lookup(next_page, &next) || next.start == view->start || !fault->is_fenced(&next)) return;
    next.offset = (int64_t)(fault->address - next.start);
    uint64_t used[2];
    int count =
        fault->registers.known ? zg_arch_operand_registers(fault->code, fault->code_count, &fault->registers, used) : 0;
    for (int pass = 0; pass < 2; pass++) {
        const uint64_t *values = pass ? fault->pointers : used;
        bool ours = false, theirs = false;
        for (int i = 0; i < (pass ? fault->pointer_count : count); i++) {
            ours = ours || reaches(view, values[i]);
            theirs = theirs || reaches(&next, values[i]);
        }
        if (ours != theirs) {
            if (theirs) *view = next;
            return;
        }
    }
    if (next.start - fault->address < fault->address - (view->start + view->size)) *view = next;
}

static void within_heap(const struct zg_fault *fault, struct zg_verdict *verdict) {
    struct zg_block_view *view = &verdict->block;
    verdict->has_block = fault->lookup(fault->address, view);
    if (verdict->has_block && fault->is_fenced(view)) {
        choose_neighbour(fault, view);
    } else if (!verdict->has_block) {
        // The guard in front of the first block, or of one whose alignment left pages out.
        uint64_t next_page = (fault->address & ~(ZG_PAGE_BYTES - 1)) + ZG_PAGE_BYTES;
        verdict->has_block = fault->lookup(next_page, view) && fault->is_fenced(view);
        view->offset = (int64_t)(fault->address - view->start);
    }
    if (!verdict->has_block) return;
    if (view->state != zg_state_live) {
        verdict->kind = zg_finding_use_after_free;
        verdict->freed_memory = true;
    } else if (fault->is_fenced(view) && !(view->offset >= 0 && (uint64_t)view->offset < view->size)) {
        verdict->kind = zg_finding_heap_overflow;
        verdict->overrun = true;
    }
}

void zg_diagnose(const struct zg_fault *fault, struct zg_verdict *verdict) {
    uint64_t value;
    *verdict = (struct zg_verdict){.kind = zg_finding_wild_access,
                                   .access = access_name(fault->access, fault),
                                   .confidence = ZG_CONFIDENCE(exact),
                                   .address = fault->address};
    if (fault->without_address) {
        if (fill_value_in_registers(fault, &value)) {
            through_fill(fault, value, verdict);
            return;
        }
        // A call that takes its target from a dead block: the target never was in a register, but the place is known.
        if (zg_arch_call_target_place(fault->code, fault->code_count, &fault->registers, &value) &&
            fault->lookup(value, &verdict->block) && is_dead(&verdict->block)) {
            verdict->kind = zg_finding_use_after_free;
            verdict->freed_memory = verdict->has_block = true;
            verdict->confidence = ZG_CONFIDENCE(inferred);
            verdict->address = value;
            verdict->access = ZG_ACCESS(call);
            return;
        }
        for (int i = 0; i < fault->pointer_count; i++)
            if (!zg_arch_is_canonical(fault->pointers[i])) verdict->address = fault->pointers[i];
        verdict->confidence = ZG_CONFIDENCE(inferred);
        return;
    }
    if (through_trap(fault, verdict)) return;
    if (fault->is_ours(fault->address)) {
        within_heap(fault, verdict);
        return;
    }
    if (is_stack_overflow(fault)) {
        verdict->kind = zg_finding_stack_overflow;
        return;
    }
    if (fault->address < NULL_REACH) {
        verdict->kind = zg_finding_null_access;
        return;
    }
    // A pointer cut to 32 bits: only with a dead block at hand, an ordinary wild pointer may have this value, too.
    if (is_fill_pointer(fault->address)) {
        struct zg_verdict inferred = *verdict;
        through_fill(fault, fault->address, &inferred);
        if (inferred.has_block) *verdict = inferred;
    }
}
