// Finds the verdict on a fault: the kind of bug, and the block it is about. Pure: no state, no lock, no system call.

#include "faults/origin.h"

#include "blocks/fill.h"
#include "blocks/size_class.h"

// Greatest distance from a base pointer at which an access is attributed to that pointer: the size of a large
// structure.
#define FIELD_REACH ((uint64_t)1 << 20)
#define NULL_REACH ((uint64_t)65536)
#define STACK_REACH ((uint64_t)1 << 20)
// A vector load of a block's first bytes may begin this many bytes in front of the block.
#define VECTOR_REACH ((uint64_t)64)
// How many pages in each direction are searched for neighbouring blocks.
enum { NEIGHBOUR_PAGES = 256 };

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

static int operand_registers(const struct zg_fault *fault, uint64_t used[2]) {
    return fault->registers.known ? zg_arch_operand_registers(fault->code, fault->code_count, &fault->registers, used)
                                  : 0;
}

// Looks for a fill in the pc and in the registers that the instruction used.
static enum zg_origin_source source_in_registers(const struct zg_fault *fault, uint64_t *value, bool *certain) {
    enum zg_origin_source source = zg_origin_source_of(fault, fault->pc, certain);
    *value = fault->pc;
    if (source != zg_origin_none && *certain) return source;
    // If the operands are known, ignore other registers: one of them may hold this value as a mask.
    uint64_t used[2];
    int count = operand_registers(fault, used);
    const uint64_t *values = count ? used : fault->pointers;
    if (!count) count = fault->is_non_canonical ? fault->pointer_count : 0;
    for (int i = 0; i < count; i++)
        if ((source = zg_origin_source_of(fault, values[i], certain)) != zg_origin_none &&
            (*certain || !fault->is_non_canonical)) {
            *value = values[i];
            return source;
        }
    return zg_origin_none;
}

// Makes the verdict for a pointer that is a fill. False if the value alone is no proof, and no block is found from
// which it may come.
static bool diagnose_fill(const struct zg_fault *fault, enum zg_origin_source source, uint64_t value, bool certain,
                          struct zg_verdict *verdict) {
    struct zg_origin origin;
    bool has_block = zg_origin_find(fault, source, value, &origin);
    if (!certain && !has_block) return false;
    verdict->confidence = ZG_CONFIDENCE(inferred);
    verdict->evidence = has_block ? origin.evidence : NULL;
    verdict->address = value;
    verdict->has_block = has_block;
    if (has_block) verdict->block = origin.block;
    bool is_call = value == fault->pc;
    switch (source) {
    case zg_origin_freed:
        if (has_block && origin.is_overrun) {
            // The bug is the read that loaded the fill, independent of the faulting instruction's use of it.
            verdict->kind = zg_finding_heap_overflow;
            verdict->overrun = true;
            verdict->access = ZG_ACCESS(read);
            verdict->read_from = "the freed block behind a block";
            break;
        }
        verdict->kind = zg_finding_use_after_free;
        verdict->freed_memory = true;
        if (is_call) verdict->access = ZG_ACCESS(call);
        break;
    case zg_origin_gap:
        // The bug is the read that loaded the fill, independent of the faulting instruction's use of it.
        verdict->kind = zg_finding_heap_overflow;
        verdict->overrun = true;
        verdict->access = ZG_ACCESS(read);
        verdict->read_from = "the gap beside a block";
        break;
    case zg_origin_new:
        verdict->read_from = "memory that was never written";
        if (is_call) verdict->access = ZG_ACCESS(call);
        break;
    case zg_origin_none: break;
    }
    return true;
}

// Whether delete[] of this single object computed the value. delete[] reads the word in front of the object as the
// number of objects (array cookie), and begins with the last object, at that number times the object's size. If the
// word is a fill, the result is recognizable.
static bool is_delete_array_address(const struct zg_block_view *view, uint64_t value) {
    static const uint8_t bytes[] = {ZG_FILL_GAP, ZG_FILL_FREED};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(bytes); i++) {
        uint64_t end = view->start + UINT64_C(0x0101010101010101) * bytes[i] * view->size;
        if (value - (end - view->size) < 2 * view->size) return true;
    }
    return false;
}

static bool is_single_object(const struct zg_block_view *view) {
    return view->state == zg_state_live && view->size &&
           (view->family == zg_family_new || view->family == zg_family_new_aligned);
}

static void report_delete_mismatch(const struct zg_block_view *view, struct zg_verdict *verdict) {
    verdict->kind = zg_finding_dealloc_mismatch;
    verdict->access = ZG_ACCESS(free);
    verdict->confidence = ZG_CONFIDENCE(inferred);
    verdict->evidence = "delete[] reads the number of objects in front of the first";
    verdict->address = view->start;
    verdict->has_block = true;
    verdict->block = *view;
    verdict->block.offset = 0;
    verdict->freed_with = "delete[]";
}

static bool diagnose_delete_array(const struct zg_fault *fault, struct zg_verdict *verdict) {
    uint64_t used[2];
    int count = operand_registers(fault, used);
    for (int i = 0; i < fault->pointer_count + fault->stack_count; i++) {
        uint64_t value = i < fault->pointer_count ? fault->pointers[i] : fault->stack[i - fault->pointer_count];
        struct zg_block_view view;
        if (!fault->is_ours(value) || !fault->lookup(value, &view) || view.offset || !is_single_object(&view)) continue;
        bool is_counted = !fault->is_non_canonical && is_delete_array_address(&view, fault->address);
        for (int j = 0; j < count; j++) is_counted = is_counted || is_delete_array_address(&view, used[j]);
        if (!is_counted) continue;
        report_delete_mismatch(&view, verdict);
        return true;
    }
    return false;
}

// Finds the trap word that was loaded from a freed object and dereferenced. The accessed address may lie outside of the
// trap word's window, so a register that still holds the trap word decides.
static struct zg_zombie_hit find_reference(const struct zg_fault *fault, struct zg_zombie_hit hit) {
    // The access may be in front of the reference: a value witness table precedes the metadata.
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

static bool diagnose_trap(const struct zg_fault *fault, struct zg_verdict *verdict) {
    struct zg_zombie_hit hit = fault->find_zombie(fault->address, fault->pointers, fault->pointer_count);
    if (hit.part == zg_trap_none) return false;
    if (hit.part == zg_trap_word) hit = find_reference(fault, hit);
    verdict->kind = zg_finding_use_after_free;
    verdict->freed_memory = true;
    verdict->trap = hit;
    verdict->has_block = hit.has_block;
    if (!hit.has_block || hit.ambiguous) {
        verdict->confidence = ZG_CONFIDENCE(inferred);
        verdict->evidence = "the trap address may come from other freed objects, too";
    }
    if (!hit.has_block) return true;
    verdict->block = hit.block;
    // Report an address in the object: the trap address has no meaning for the reader.
    uint64_t byte = hit.part == zg_trap_word ? hit.byte : hit.part == zg_trap_side ? 8 : 0;
    verdict->block.offset = (int64_t)byte;
    verdict->address = hit.block.start + byte;
    return true;
}

static bool is_stack_overflow(const struct zg_fault *fault) {
    // The address is near the stack pointer, and below the known stack or among its lowest NULL_REACH bytes.
    return fault->sp < fault->bounds.high && fault->address < fault->bounds.low + NULL_REACH &&
           fault->address < fault->bounds.high && fault->address - fault->sp + STACK_REACH < 2 * STACK_REACH;
}

// Returns the end of the unused bytes behind a block: the end of the block's last page if the block is isolated or
// large. Otherwise an estimated end of its slot, but at least the end of that page.
static uint64_t end_of_slack(const struct zg_fault *fault, const struct zg_block_view *view) {
    uint64_t end = view->start + view->size, page_end = zg_round_up(end, ZG_PAGE_BYTES);
    if (fault->is_isolated(view) || view->size > ZG_LARGEST_SLOT) return page_end;
    return zg_max(page_end, end + view->size / 4 + 16);
}

static bool is_inside(const struct zg_fault *fault, const struct zg_block_view *view, uint64_t address) {
    uint64_t first = view->start - VECTOR_REACH;
    return address - first < end_of_slack(fault, view) - first;
}

// Whether a pointer points into the block, into the unused bytes behind it, or to their end.
static bool reaches(const struct zg_fault *fault, const struct zg_block_view *view, uint64_t pointer) {
    return pointer - view->start <= end_of_slack(fault, view) - view->start;
}

static bool any_reaches(const struct zg_fault *fault, const struct zg_block_view *view, const uint64_t *values,
                        int count) {
    for (int i = 0; i < count; i++)
        if (reaches(fault, view, values[i])) return true;
    return false;
}

static bool same(const struct zg_block_view *one, const struct zg_block_view *other) {
    return one->start == other->start;
}

// Blocks around the faulting address.
struct place {
    // `owner`: block to which the page of the address belongs. `next`: isolated block that begins in the next page.
    struct zg_block_view owner, next;
    bool has_owner, has_next, is_inside;
    bool is_protected; // only the runtime protects the page: the program's handlers do not expect the fault
};

static struct place find_place(const struct zg_fault *fault) {
    struct place place;
    place.has_owner = fault->lookup(fault->address, &place.owner);
    place.is_inside = place.has_owner && is_inside(fault, &place.owner, fault->address);
    uint64_t next_page = (fault->address & ~(ZG_PAGE_BYTES - 1)) + ZG_PAGE_BYTES;
    place.has_next = fault->lookup(next_page, &place.next) && fault->is_isolated(&place.next) &&
                     !(place.has_owner && same(&place.owner, &place.next));
    place.is_protected =
        (place.has_owner && (place.owner.state != zg_state_live || fault->is_isolated(&place.owner))) || place.has_next;
    return place;
}

// Returns the address that the program asked for. libc's string functions load whole aligned vectors: such a load of a
// block's first bytes begins in front of the block, while a register still holds the pointer.
static uint64_t requested_address(const struct zg_fault *fault, const struct zg_block_view *block) {
    uint64_t address = fault->address, best = address;
    if (address >= block->start || block->start - address > VECTOR_REACH || address % 16) return address;
    for (int i = 0; i < fault->pointer_count; i++) {
        uint64_t value = fault->pointers[i];
        if (value - address >= VECTOR_REACH || value / ZG_PAGE_BYTES != address / ZG_PAGE_BYTES) continue;
        if (value - block->start <= block->size) return value;
        if (value < block->start) best = zg_max(best, value);
    }
    return best;
}

// Makes the verdict for an access that belongs to this block. `evidence`: reason for an inferred block; NULL if the
// block is exact.
static void attribute_to_block(const struct zg_fault *fault, const struct place *place,
                               const struct zg_block_view *block, const char *evidence, struct zg_verdict *verdict) {
    verdict->has_block = true;
    verdict->block = *block;
    verdict->address = requested_address(fault, block);
    verdict->block.offset = (int64_t)(verdict->address - block->start);
    verdict->confidence = evidence ? ZG_CONFIDENCE(inferred) : ZG_CONFIDENCE(exact);
    verdict->evidence = evidence;
    if (block->state != zg_state_live) {
        verdict->kind = zg_finding_use_after_free;
        verdict->freed_memory = true;
    } else {
        verdict->kind = zg_finding_heap_overflow;
        verdict->overrun = place->is_protected;
    }
}

// Finds the block that a register of the instruction's memory operand points into. Prefers the owner of the page.
static bool find_crossed(const struct zg_fault *fault, const struct place *place, struct zg_block_view *crossed,
                         uint64_t *pointer) {
    uint64_t used[2];
    int count = operand_registers(fault, used);
    bool found = false;
    for (int i = 0; i < count; i++) {
        struct zg_block_view view;
        if (!fault->lookup(used[i], &view) || !(view.state == zg_state_live || zg_origin_is_freed(&view))) continue;
        if (!reaches(fault, &view, used[i])) continue;
        bool is_owner = place->has_owner && same(&view, &place->owner);
        if (found && !is_owner) continue;
        *crossed = view;
        *pointer = used[i];
        found = true;
    }
    return found;
}

// Whether a register holds the distance, or an index that yields the distance with a scale of 1, 2, 4 or 8.
static bool is_in_registers(const struct zg_fault *fault, int64_t distance) {
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) {
        int64_t value = (int64_t)fault->registers.value[i];
        if (!(fault->registers.known >> i & 1) || !value) continue;
        for (int64_t scale = 1; scale <= 8; scale *= 2)
            if ((distance % scale == 0 && distance / scale == value) || distance == (int32_t)value * scale) return true;
    }
    return false;
}

// Finds the block if an earlier instruction computed the address: a register or stack word still points into the block,
// and a register holds the distance from there to the address.
static bool find_base_of_computed_address(const struct zg_fault *fault, const struct place *place,
                                          struct zg_block_view *crossed, uint64_t *pointer) {
    for (int i = 0; i < fault->pointer_count + fault->stack_count; i++) {
        uint64_t value = i < fault->pointer_count ? fault->pointers[i] : fault->stack[i - fault->pointer_count];
        int64_t distance = (int64_t)(fault->address - value);
        if (!distance || !fault->is_ours(value) || !fault->lookup(value, crossed)) continue;
        if (!(crossed->state == zg_state_live || zg_origin_is_freed(crossed)) || !reaches(fault, crossed, value))
            continue;
        if (place->has_owner && same(crossed, &place->owner) && place->is_inside) continue;
        *pointer = value;
        if (is_in_registers(fault, distance)) return true;
    }
    return false;
}

// Whether a loop ran over the end of a live block, into the protected pages of the freed block behind. The address must
// lie in the first word of the freed block, and a register or stack word must point into the live block. Evidence: a
// register holds the distance from that pointer to the address, or no word but the instruction's operand points to the
// start of the freed block. Sets `*live`.
static bool ran_over(const struct zg_fault *fault, const struct place *place, struct zg_block_view *live,
                     const char **evidence) {
    const struct zg_block_view *dead = &place->owner;
    uint64_t used[2];
    bool points_there = false, is_at_hand = false;
    if (!place->is_inside || !zg_origin_is_freed(dead) || fault->address - dead->start >= sizeof(uint64_t))
        return false;
    if (!fault->lookup(dead->start - 1, live) || live->state != zg_state_live || fault->is_isolated(live)) return false;
    int count = operand_registers(fault, used);
    for (int i = 0; i < fault->pointer_count + fault->stack_count; i++) {
        bool is_register = i < fault->pointer_count;
        uint64_t value = is_register ? fault->pointers[i] : fault->stack[i - fault->pointer_count];
        bool is_operand = is_register && ((count > 0 && value == used[0]) || (count > 1 && value == used[1]));
        if (value == dead->start && !is_operand) points_there = true;
        if (value - live->start > live->size) continue;
        is_at_hand = true;
        if (!is_in_registers(fault, (int64_t)(fault->address - value))) continue;
        *evidence = "a register holds the distance from this block to the address";
        return true;
    }
    *evidence = "the freed block behind this block begins at the address, and no other pointer leads there";
    // With a watchpoint, the block was freed only a moment ago. A pointer to its start is then more likely stale than
    // the end of a loop.
    return count > 0 && is_at_hand && !points_there && !fault->is_watched;
}

// Whether a register points into a block other than `owner` and `next`.
static bool reaches_others(const struct zg_fault *fault, const struct place *place) {
    struct zg_block_view view;
    for (int i = 0; i < fault->pointer_count; i++)
        if (fault->lookup(fault->pointers[i], &view) && (view.state == zg_state_live || zg_origin_is_freed(&view)) &&
            reaches(fault, &view, fault->pointers[i]) && !(place->has_owner && same(&view, &place->owner)) &&
            !(place->has_next && same(&view, &place->next)))
            return true;
    return false;
}

// Whether the access reads the word in front of a single object that begins at the start of its pages: delete[] reads
// the number of objects from that word.
static bool is_read_of_count(const struct zg_fault *fault, const struct place *place) {
    return place->has_next && is_single_object(&place->next) &&
           fault->address == place->next.start - sizeof(uint64_t) &&
           access_name(fault->access, fault) == ZG_ACCESS(read);
}

// Returns the nearer of two blocks: the block in whose guard page the address lies, and a live block that begins behind
// that page. NULL if there is neither.
static const struct zg_block_view *find_near(const struct zg_fault *fault, const struct place *place) {
    if (!place->has_next || place->next.state != zg_state_live) return place->has_owner ? &place->owner : NULL;
    if (!place->has_owner) return &place->next;
    uint64_t end = place->owner.start + place->owner.size;
    bool is_behind = fault->address >= end;
    return is_behind && place->next.start - fault->address < fault->address - end ? &place->next : &place->owner;
}

// Whether the block is a freed block of 0 bytes. Its only memory is the inaccessible page at its start, which is not
// the guard page of another block.
static bool is_freed_empty_block(const struct zg_block_view *view) { return !view->size && zg_origin_is_freed(view); }

// Returns the reason why the address may have been computed from a pointer into the block; NULL if nothing points into
// the block.
static const char *find_pointer_to(const struct zg_fault *fault, const struct zg_block_view *block) {
    if (any_reaches(fault, block, fault->pointers, fault->pointer_count)) return "a register points into this block";
    bool is_on_stack = any_reaches(fault, block, fault->stack, fault->stack_count);
    return is_on_stack ? "a word on the stack points into this block" : NULL;
}

// Finds the nearest blocks in front of and behind the address.
static void find_neighbours(const struct zg_fault *fault, const struct place *place, struct zg_verdict *verdict) {
    uint64_t page = fault->address & ~(ZG_PAGE_BYTES - 1);
    struct zg_block_view view;
    if (place->has_owner) {
        bool is_before = place->owner.start <= fault->address;
        *(is_before ? &verdict->before : &verdict->after) = place->owner;
        *(is_before ? &verdict->has_before : &verdict->has_after) = true;
    }
    for (uint64_t i = 1; i <= NEIGHBOUR_PAGES && !(verdict->has_before && verdict->has_after); i++) {
        if (!verdict->has_before && fault->lookup(page - i * ZG_PAGE_BYTES, &view) && view.start <= fault->address) {
            verdict->before = view;
            verdict->has_before = true;
        }
        if (!verdict->has_after && fault->lookup(page + i * ZG_PAGE_BYTES, &view) && view.start > fault->address) {
            verdict->after = view;
            verdict->has_after = true;
        }
    }
}

// Makes the verdict if no register explains the access. `is_clear`: no register points to another block.
static void attribute_by_place(const struct zg_fault *fault, const struct place *place, bool is_clear,
                               struct zg_verdict *verdict) {
    // The guard page lies between two blocks. Attribute the access to the nearer block if it is live, or if something
    // still points into it: registers that point elsewhere do not explain the address.
    const struct zg_block_view *near = find_near(fault, place);
    if (near && fault->is_isolated(near)) {
        const char *evidence = find_pointer_to(fault, near);
        if (!evidence && (near->state == zg_state_live || (is_clear && is_freed_empty_block(near))))
            evidence = "this block is the nearest to the address";
        if (evidence) {
            attribute_to_block(fault, place, near, evidence, verdict);
            return;
        }
    }
    if (!place->has_owner && fault->is_forgotten(fault->address)) {
        verdict->kind = zg_finding_use_after_free;
        verdict->confidence = ZG_CONFIDENCE(inferred);
        verdict->evidence = "the address belonged to blocks whose records no longer exist";
        verdict->freed_memory = verdict->is_forgotten = true;
        return;
    }
    find_neighbours(fault, place, verdict);
    // The address lies directly in front of the first block of a slab, on a page without memory.
    if (verdict->has_after && verdict->after.state == zg_state_live &&
        verdict->after.start - fault->address <= VECTOR_REACH) {
        verdict->has_before = verdict->has_after = false;
        attribute_to_block(fault, place, &verdict->after, "this block is the nearest to the address", verdict);
        return;
    }
    if (verdict->has_before || verdict->has_after) {
        verdict->confidence = ZG_CONFIDENCE(inferred);
        verdict->evidence = "the address lies between blocks, and no pointer that leads there is left";
    }
    verdict->overrun = place->is_protected;
}

// Makes the verdict for an address in the guarded heap. Attributes the access to the block into which a register of the
// instruction's memory operand points, even if the address lies elsewhere. If no register does, attributes the access
// to the block that contains the address, or to a live block whose guard page contains it, or to no block. The verdict
// is exact only within a block, or if no register points into another block.
static void within_heap(const struct zg_fault *fault, struct zg_verdict *verdict) {
    struct place place = find_place(fault);
    if (place.is_inside && place.owner.state == zg_state_live) {
        verdict->has_block = true; // the program itself has protected the page
        verdict->block = place.owner;
        return;
    }
    struct zg_block_view crossed;
    uint64_t pointer = 0;
    bool is_crossed = find_crossed(fault, &place, &crossed, &pointer);
    if (is_read_of_count(fault, &place) && (!is_crossed || same(&crossed, &place.next))) {
        report_delete_mismatch(&place.next, verdict);
        verdict->overrun = true;
        return;
    }
    struct zg_block_view live;
    const char *evidence;
    if (ran_over(fault, &place, &live, &evidence)) {
        attribute_to_block(fault, &place, &live, evidence, verdict);
        return;
    }
    evidence = NULL;
    bool owner = place.has_owner && any_reaches(fault, &place.owner, fault->pointers, fault->pointer_count);
    if (is_crossed) {
        bool is_owner = place.has_owner && same(&crossed, &place.owner);
        // A loop over two blocks may address one block relative to the other: the distance is then the same in both
        // blocks.
        bool in_step = place.is_inside && fault->address - place.owner.start == pointer - crossed.start;
        if (place.is_inside && !is_owner)
            evidence = in_step ? "the address lies in this block, as far from its start as a pointer in another block"
                               : "a register of the instruction's operand points into this block";
        attribute_to_block(fault, &place, in_step ? &place.owner : &crossed, evidence, verdict);
        return;
    }
    if (place.is_inside && (owner || !find_base_of_computed_address(fault, &place, &crossed, &pointer))) {
        attribute_to_block(fault, &place, &place.owner, NULL, verdict);
        return;
    }
    bool next = place.has_next && any_reaches(fault, &place.next, fault->pointers, fault->pointer_count);
    bool is_clear = !reaches_others(fault, &place);
    if (!place.is_inside && owner != next && is_clear) {
        attribute_to_block(fault, &place, owner ? &place.owner : &place.next, NULL, verdict);
        return;
    }
    if (place.is_inside || find_base_of_computed_address(fault, &place, &crossed, &pointer)) {
        evidence = "a register holds the distance from this block to the address";
        attribute_to_block(fault, &place, &crossed, evidence, verdict);
        return;
    }
    attribute_by_place(fault, &place, is_clear, verdict);
}

// Makes the verdict for a fault of memory tags. The pointer's tag identifies its block: a current or former block at
// the address, or a nearby block whose bounds the pointer has left.
static void diagnose_tag_fault(const struct zg_fault *fault, struct zg_verdict *verdict) {
    struct zg_block_view view;
    uint32_t distance = 1;
    bool found = fault->find_by_tag(fault->pointer, &view, &distance);
    if (found && view.state == zg_state_live && (uint64_t)view.offset < view.size) {
        within_heap(fault, verdict); // the program itself has protected the page
        return;
    }
    verdict->freed_memory = true;
    // The base register may point into a slot that is farther away than find_by_tag searches.
    for (int i = 0; distance && i < fault->operand_count; i++) {
        uint64_t base = fault->operands[i];
        struct zg_block_view other;
        if (zg_arch_tag(base) != zg_arch_tag(fault->pointer) || !fault->is_ours(base)) continue;
        if (!fault->lookup(base, &other)) continue;
        // The register may hold a computed address instead of a pointer into the block.
        if (!reaches(fault, &other, zg_arch_address(base))) continue;
        view = other;
        found = true;
        distance = 0;
    }
    if (!found) {
        verdict->kind = zg_finding_use_after_free;
        verdict->confidence = ZG_CONFIDENCE(inferred);
        verdict->evidence = "no block has the pointer's memory tag";
        verdict->is_forgotten = true;
        return;
    }
    const struct place place = {.is_protected = true};
    const char *evidence = distance > 1 ? "this block is the nearest with the pointer's memory tag" : NULL;
    attribute_to_block(fault, &place, &view, evidence, verdict);
    verdict->freed_memory = view.state != zg_state_live;
}

void zg_diagnose(const struct zg_fault *fault, struct zg_verdict *verdict) {
    uint64_t value;
    *verdict = (struct zg_verdict){.kind = zg_finding_wild_access,
                                   .access = access_name(fault->access, fault),
                                   .confidence = ZG_CONFIDENCE(exact),
                                   .address = fault->address};
    bool certain;
    enum zg_origin_source source;
    if (fault->is_non_canonical) {
        if (diagnose_delete_array(fault, verdict)) return;
        source = source_in_registers(fault, &value, &certain);
        if (source != zg_origin_none && diagnose_fill(fault, source, value, certain, verdict)) return;
        // A call through a pointer stored in a freed block: the target was never in a register, but the address of the
        // pointer is known.
        if (zg_arch_call_target_place(fault->code, fault->code_count, &fault->registers, &value) &&
            fault->lookup(value, &verdict->block) && zg_origin_is_freed(&verdict->block)) {
            verdict->kind = zg_finding_use_after_free;
            verdict->freed_memory = verdict->has_block = true;
            verdict->confidence = ZG_CONFIDENCE(inferred);
            verdict->evidence = "the called address was read from this block";
            verdict->address = value;
            verdict->access = ZG_ACCESS(call);
            return;
        }
        for (int i = 0; i < fault->pointer_count; i++)
            if (!zg_arch_is_canonical(fault->pointers[i])) verdict->address = fault->pointers[i];
        verdict->confidence = ZG_CONFIDENCE(inferred);
        return;
    }
    if (diagnose_trap(fault, verdict)) return;
    if (fault->pointer && fault->is_ours(fault->address)) {
        diagnose_tag_fault(fault, verdict);
        return;
    }
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
    if (diagnose_delete_array(fault, verdict)) return;
    // A pointer or index truncated to 32 bits. Accept it only if a block is found from which it may come: an ordinary
    // wild pointer may have this value, too.
    value = fault->address;
    source = zg_origin_source_of(fault, value, &certain);
    if (source == zg_origin_none) source = source_in_registers(fault, &value, &certain);
    if (source != zg_origin_none) diagnose_fill(fault, source, value, false, verdict);
}
