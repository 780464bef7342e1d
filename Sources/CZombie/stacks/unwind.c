// The stack unwinder, and the code that fills the cache of compact rules.

#include "stacks/unwind.h"

#include <link.h>
#include <sys/auxv.h>

#include "images/module.h"
#include "platform/libc.h"
#include "platform/os.h"
#include "stacks/unwind_cfi.h"

static uint64_t first_entries[1 << ZG_RULES_FIRST_BITS];
static struct zg_unwind_rules tables[ZG_RULES_LAST_BITS - ZG_RULES_FIRST_BITS + 1] = {
    {first_entries, 64 - ZG_RULES_FIRST_BITS}};
struct zg_unwind_rules *zg_unwind_rules = tables;
static uint32_t misses_in_table;

uint64_t zg_unwind_epoch;

static void clear(const struct zg_unwind_rules *table) {
    for (uint64_t i = 0; i < UINT64_C(1) << (64 - table->shift); i++)
        __atomic_store_n(&table->entries[i], 0, __ATOMIC_RELAXED);
}

// Copies the rules to a table of twice the size. The highest bits of the scrambled pc are the index of an entry, and
// the other bits are the entry's tag. So the highest bit of the tag becomes the lowest bit of the new index.
static void copy_rules(const struct zg_unwind_rules *table, uint64_t *larger) {
    uint64_t bits = 64 - table->shift;
    for (uint64_t i = 0; i < UINT64_C(1) << bits; i++) {
        uint64_t entry = __atomic_load_n(&table->entries[i], __ATOMIC_RELAXED);
        if (entry) larger[2 * i + (entry >> (ZG_RULE_BITS + ZG_RULE_PC_BITS - 1 - bits) & 1)] = entry;
    }
}

// Replaces the table by a larger one when the number of misses has reached half the number of entries, because each
// miss runs a function's CFI program (2,000 instructions, measured in a compiler). A thread that loses the race unmaps
// its table.
static ZG_COLD void grow(void) {
    struct zg_unwind_rules *table = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    __atomic_store_n(&misses_in_table, 0, __ATOMIC_RELAXED);
    if (table == &tables[ZG_RULES_LAST_BITS - ZG_RULES_FIRST_BITS]) return;
    uint64_t bits = 64 - table->shift + 1, *entries = zg_os_map(sizeof *entries << bits), *none = NULL;
    if (!entries) return;
    uint64_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_SEQ_CST);
    copy_rules(table, entries);
    if (!__atomic_compare_exchange_n(&table[1].entries, &none, entries, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        zg_os_release(entries, sizeof *entries << bits);
        return;
    }
    __atomic_store_n(&table[1].shift, 64 - bits, __ATOMIC_RELEASE);
    __atomic_store_n(&zg_unwind_rules, table + 1, __ATOMIC_SEQ_CST);
    // Another thread may have dropped all rules after they were copied, and from the old table only.
    if (__atomic_load_n(&zg_unwind_epoch, __ATOMIC_SEQ_CST) != epoch) clear(table + 1);
}

void zg_unwind_invalidate_rules(void) {
    __atomic_fetch_add(&zg_unwind_epoch, ZG_UNWIND_EPOCH, __ATOMIC_SEQ_CST);
    clear(__atomic_load_n(&zg_unwind_rules, __ATOMIC_SEQ_CST));
}

static zg_rule compact(const struct zg_cfi_row *row) {
    const struct zg_cfi_rule *ra = &row->registers[row->return_register], *fp = &row->registers[ZG_ARCH_FP];
    if (ra->how == zg_cfi_undefined) return zg_rule_end;
    if (row->signal_frame || row->cfa.how != zg_cfi_in_register || ra->how != zg_cfi_at_offset) return zg_rule_complex;
    if (row->cfa_register != ZG_ARCH_SP && row->cfa_register != ZG_ARCH_FP) return zg_rule_complex;
    if (row->registers[ZG_ARCH_SP].how != zg_cfi_same) return zg_rule_complex;
    int64_t cfa = row->cfa.value, back = -ra->value, fp_back = 0;
    if (fp->how == zg_cfi_at_offset) fp_back = -fp->value;
    else if (fp->how != zg_cfi_same) return zg_rule_complex;
    if ((cfa | back | fp_back) & 7 || cfa < 0 || cfa >= 8 << ZG_RULE_CFA_BITS || fp_back < 0 ||
        fp_back >= 8 << ZG_RULE_FP_BITS)
        return zg_rule_complex;
    if ((uint64_t)back != zg_arch_return_place((uint64_t)fp_back)) return zg_rule_complex;
    if (back > cfa || fp_back > cfa) return zg_rule_complex; // the word lies below the base register
    return zg_rule_simple | (zg_rule)(row->cfa_register == ZG_ARCH_FP) << 2 | (zg_rule)(cfa / 8) << 3 |
           (zg_rule)(fp_back / 8) << (3 + ZG_RULE_CFA_BITS);
}

// A third of the functions in Swift's libraries have no unwind information. Most of them have a frame pointer: the CFA
// is then GUESSED_CFA (x86-64: two words) above the address in the frame pointer. If the frame pointer points to no
// frame record, the walk ends.
enum { rule_guess = zg_rule_end | 1 << 2, GUESSED_CFA = ZG_ARCH_GUESSED_CFA };
static const zg_rule guessed_rule =
    zg_rule_simple | 1 << 2 | (GUESSED_CFA / 8) << 3 | (zg_rule)(GUESSED_CFA / 8) << (3 + ZG_RULE_CFA_BITS);

// Whether signal handlers return to this address (signal trampoline).
static bool is_signal_return(uint64_t pc) {
    uint8_t code[ZG_ARCH_SIGNAL_RETURN_BYTES + 1];
    return ZG_ARCH_SIGNAL_RETURN_BYTES && !(pc & 3) &&
           zg_os_read_memory(code, pc, ZG_ARCH_SIGNAL_RETURN_BYTES) == ZG_ARCH_SIGNAL_RETURN_BYTES &&
           zg_arch_is_signal_return(code);
}

// Finds the readable code around `pc`: a segment of the static executable. False if there is none.
static bool find_code(uint64_t pc, const struct zg_module *module, uint64_t *low, uint64_t *high) {
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    uint64_t count = headers ? getauxval(AT_PHNUM) : 0;
    for (uint64_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & (PF_R | PF_X)) != (PF_R | PF_X)) continue;
        *low = module->bias + headers[i].p_vaddr;
        *high = *low + headers[i].p_filesz;
        if (pc >= *low && pc < *high) return true;
    }
    return false;
}

static bool find_way_back(uint64_t pc, const struct zg_module *module, struct zg_arch_return *way) {
    uint64_t low, high;
    if (zg_libc_has_cfi || !find_code(pc, module, &low, &high)) return false;
    uint64_t start = zg_libc_function_without_return(pc);
    if (start) return zg_arch_find_return_from(start, pc, low, high, way);
    return zg_arch_find_return(pc, low, high, way);
}

// Returns the rule of a function without unwind information. musl, which is linked statically, has none for its
// functions, so their rules are derived from the instructions. For all other functions, the frame pointer is tried.
static zg_rule rule_without_row(uint64_t pc, const struct zg_module *module) {
    struct zg_arch_return way;
    if (is_signal_return(pc + 1)) return zg_rule_complex;
    if (!find_way_back(pc, module, &way) || way.cfa >= 8 << ZG_RULE_CFA_BITS || way.fp_back >= 8 << ZG_RULE_FP_BITS)
        return rule_guess;
    return zg_rule_simple | (zg_rule)(way.cfa / 8) << 3 | (zg_rule)(way.fp_back / 8) << (3 + ZG_RULE_CFA_BITS);
}

static ZG_NOINLINE zg_rule find_rule(uint64_t pc) {
    struct zg_module module;
    struct zg_cfi_row row;
    zg_rule rule;
    // Rules of generated code are not cached: the code may change.
    if (!zg_module_find_unwind(pc, &module)) return is_signal_return(pc + 1) ? zg_rule_complex : zg_rule_none;
    if (zg_cfi_find_row(&module, pc, &row)) rule = compact(&row);
    else rule = rule_without_row(pc, &module);
    struct zg_unwind_rules *table = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    uint64_t scrambled = zg_rules_scramble(pc);
    __atomic_store_n(zg_rules_entry(table, scrambled), scrambled << ZG_RULE_BITS | rule, __ATOMIC_RELAXED);
    uint32_t misses = __atomic_add_fetch(&misses_in_table, 1, __ATOMIC_RELAXED);
    if (misses == UINT32_C(1) << (63 - table->shift)) grow();
    return rule;
}

ZG_INLINE zg_rule rule_for(const struct zg_unwind_rules *table, uint64_t pc) {
    uint64_t rule = zg_rules_lookup(table, pc);
    if (ZG_LIKELY(rule >> ZG_RULE_BITS == 0 && (rule & 3))) return (zg_rule)rule;
    return find_rule(pc);
}

// Whether the frame pointer points to a frame: within [low, high), with a return address in an image. `*place`: address
// from which the return address was read; 0 if the value of the frame pointer alone decided.
ZG_INLINE bool is_frame(const struct zg_unwind_rules *table, uint64_t fp, uint64_t low, uint64_t high,
                        uint64_t *place) {
    *place = 0;
    if (fp < zg_arch_sp_bound(low) || fp >= high || high - fp < GUESSED_CFA || fp & 7) return false;
    *place = fp + GUESSED_CFA - zg_arch_return_place(GUESSED_CFA);
    uint64_t pc = zg_arch_strip(*(const uint64_t *)*place);
    return pc && rule_for(table, pc - 1) != zg_rule_none; // every pc in an image has a rule
}

// Cache of pages outside of the threads' own stacks that walks have read. An entry describes 16 pages: it holds the
// address of the first page, and a bit for each page. Without the cache, a program with thousands of coroutines would
// probe the same pages at every call. A page may have been unmapped since, so reads of these pages must be recoverable.
// Written without a lock; a lost bit costs one probe.
enum { OTHER_BITS = 14, OTHER_PAGES = 16 };
#define OTHER_BYTES (OTHER_PAGES * ZG_PAGE_BYTES)
static uint64_t other_stacks[1 << OTHER_BITS];
bool zg_unwind_recovers;

// Finds the cache entry for an address. `*entry`: the entry's value; if the entry describes other pages, the address of
// the first page without page bits. `*bit`: the bit of the address's page.
ZG_INLINE uint64_t *other_stack(uint64_t address, uint64_t *entry, uint64_t *bit) {
    uint64_t first = address & ~(OTHER_BYTES - 1);
    uint64_t *place = &other_stacks[(first * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - OTHER_BITS)];
    *entry = __atomic_load_n(place, __ATOMIC_RELAXED);
    if ((*entry & ~(OTHER_BYTES - 1)) != first) *entry = first;
    *bit = UINT64_C(1) << (address - first) / ZG_PAGE_BYTES;
    return place;
}

bool zg_unwind_has_read(uint64_t address) {
    uint64_t entry, bit;
    other_stack(address, &entry, &bit);
    return entry & bit;
}

static void note_page(uint64_t address, bool readable) {
    uint64_t entry, bit, *place = other_stack(address, &entry, &bit);
    __atomic_store_n(place, readable ? entry | bit : entry & ~bit, __ATOMIC_RELAXED);
}

struct reader {
    uint64_t low, high; // range that can be read directly
    bool other_stack;   // zg_unwind_fast is on a stack that is not the thread's own
};

static bool probe(const struct reader *reader, uint64_t address, uint64_t *word) {
    bool known = reader->other_stack && zg_unwind_has_read(address);
    bool done =
        known && zg_unwind_recovers ? zg_arch_try_read(address, word) : zg_os_read_memory(word, address, 8) == 8;
    if (reader->other_stack && done != known) note_page(address, done);
    return done;
}

// Reads any readable word, also one that AddressSanitizer has poisoned in a fuzzer.
__attribute__((no_sanitize("address"))) static bool read_word(void *context, uint64_t address, uint64_t *word) {
    struct reader *reader = context;
    if (address & 7) return false;
    // Do not add to the address before the comparison: a frame pointer may hold anything, and the sum could wrap
    // around.
    if (address < reader->low || address >= reader->high) {
        if (!probe(reader, address, word)) return false;
        uint64_t page = address & ~(ZG_PAGE_BYTES - 1);
        // The walk goes upwards: join the probed page with the readable range if they touch.
        if (page == reader->high) reader->high = page + ZG_PAGE_BYTES;
        else reader->low = page, reader->high = page + ZG_PAGE_BYTES;
        return true;
    }
    *word = *(const uint64_t *)address;
    return true;
}

static struct reader reader_for(uint64_t sp, const struct zg_stack_bounds *bounds) {
    if (sp >= bounds->low && sp < bounds->high) return (struct reader){sp, bounds->high, false};
    uint64_t page = sp & ~(ZG_PAGE_BYTES - 1); // the page that the thread runs on
    if (!zg_unwind_has_read(page)) note_page(page, true);
    return (struct reader){page, page + ZG_PAGE_BYTES, true};
}

// Steps by the frame pointer in a function without unwind information, like rule_guess.
static bool step_by_frame_pointer(struct zg_registers *registers, struct reader *reader, bool *exact) {
    uint64_t fp = registers->value[ZG_ARCH_FP], pc, next;
    uint64_t return_at = fp + GUESSED_CFA - zg_arch_return_place(GUESSED_CFA);
    if (!(registers->known >> ZG_ARCH_FP & 1) || fp < zg_arch_sp_bound(registers->value[ZG_ARCH_SP])) return false;
    if (!read_word(reader, fp, &next) || !read_word(reader, return_at, &pc)) return false;
    pc = zg_arch_strip(pc);
    struct zg_module module;
    if (pc && !zg_module_find_unwind(pc - 1, &module)) return false;
    registers->pc = pc;
    registers->value[ZG_ARCH_SP] = fp + GUESSED_CFA;
    registers->value[ZG_ARCH_FP] = next;
    registers->known = UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP;
    *exact = false;
    return true;
}

// Steps by a rule that was found in the function's instructions.
static bool step_by_instructions(struct zg_registers *registers, uint64_t pc, const struct zg_module *module,
                                 struct reader *reader, bool *exact) {
    struct zg_arch_return way;
    uint64_t sp = registers->value[ZG_ARCH_SP], back;
    if (!(registers->known >> ZG_ARCH_SP & 1) || !find_way_back(pc, module, &way)) return false;
    if (!read_word(reader, sp + way.cfa - zg_arch_return_place(way.fp_back), &back)) return false;
    if (way.fp_back && !read_word(reader, sp + way.cfa - way.fp_back, &registers->value[ZG_ARCH_FP])) return false;
    registers->pc = back;
    registers->value[ZG_ARCH_SP] = sp + way.cfa;
    registers->known &= UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP;
    if (way.fp_back) registers->known |= UINT64_C(1) << ZG_ARCH_FP;
    *exact = false;
    return true;
}

static bool step_full(struct zg_registers *registers, uint64_t pc, struct reader *reader, bool *exact) {
    struct zg_module module;
    struct zg_cfi_row row;
    bool has_module = zg_module_find_unwind(pc, &module), has_row = has_module && zg_cfi_find_row(&module, pc, &row);
    // The trampoline's instructions take precedence over its CFI row: a kernel may describe the trampoline by a row
    // that leads elsewhere.
    if ((!has_row || row.signal_frame) && !*exact && is_signal_return(registers->pc)) {
        *exact = true;
        return zg_arch_return_from_signal(registers, read_word, reader);
    }
    if (!has_row)
        return has_module && (step_by_instructions(registers, pc, &module, reader, exact) ||
                              step_by_frame_pointer(registers, reader, exact));
    *exact = row.signal_frame;
    return zg_cfi_step(&row, registers, read_word, reader);
}

// Steps by the full rules. Only the stack and frame pointers are known, and in a function that a signal interrupted
// (`*exact`), also the link register unless it is 0. A rule that needs another register ends the walk.
static ZG_NOINLINE bool step_complex(uint64_t *pc, uint64_t *sp, uint64_t *fp, uint64_t *link, struct reader *reader,
                                     bool *exact) {
    struct zg_registers registers;
    registers.pc = *pc;
    registers.value[ZG_ARCH_SP] = *sp;
    registers.value[ZG_ARCH_FP] = *fp;
    registers.known = UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP;
    if (*exact && *link) registers.value[ZG_ARCH_RA] = *link, registers.known |= UINT64_C(1) << ZG_ARCH_RA;
    if (!step_full(&registers, *exact ? *pc : *pc - 1, reader, exact)) return false;
    *link = registers.known >> ZG_ARCH_RA & 1 ? registers.value[ZG_ARCH_RA] : 0;
    uint64_t next = registers.value[ZG_ARCH_SP];
    // A signal frame may lead to another stack: from an alternate stack back to the interrupted one.
    if (next < *sp || next >= reader->high) *reader = (struct reader){1, 1, false};
    *pc = registers.pc;
    *sp = next;
    *fp = registers.known >> ZG_ARCH_FP & 1 ? registers.value[ZG_ARCH_FP] : 0;
    return true;
}

enum zg_step_result zg_unwind_step(struct zg_rule_frame *frame, uint64_t high, bool *used_fp, uint64_t *end_place) {
    const struct zg_unwind_rules *table = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    zg_rule rule = rule_for(table, frame->pc - 1);
    *used_fp = rule == rule_guess;
    *end_place = 0;
    if (rule == rule_guess) {
        if (!is_frame(table, frame->fp, frame->sp, high, end_place)) return zg_step_outermost;
        rule = guessed_rule;
    }
    if ((rule & 3) != zg_rule_simple) return (rule & 3) == zg_rule_complex ? zg_step_lost : zg_step_outermost;
    *used_fp = zg_rule_uses_fp(rule, frame->sp);
    if (!zg_rule_step(rule, frame, high)) return zg_step_lost;
    *end_place = frame->place;
    return frame->pc ? zg_step_done : zg_step_outermost;
}

int zg_unwind_innermost(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, uint64_t *frames) {
    const struct zg_unwind_rules *table = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    struct zg_rule_frame frame = {.pc = caller.pc, .sp = caller.sp, .fp = caller.fp};
    uint64_t high = bounds->high, end_place;
    bool used_fp;
    if (ZG_UNLIKELY(caller.sp & 7)) return 0;
    for (int count = 0;;) {
        frames[count++] = frame.pc;
        if (count == depth) return count;
        uint64_t looked = zg_rules_lookup(table, frame.pc - 1);
        if (ZG_LIKELY(zg_rule_is_simple(looked))) {
            if (!zg_rule_step((zg_rule)looked, &frame, high)) return 0;
            if (!frame.pc) return count;
            continue;
        }
        switch (zg_unwind_step(&frame, high, &used_fp, &end_place)) {
        case zg_step_done: break;
        case zg_step_outermost: return count;
        case zg_step_lost: return 0;
        }
    }
}

// Records that the walk depends on this word.
ZG_INLINE void depend_on(struct zg_walk *walk, uint64_t sp, uint64_t address, uint64_t word) {
    uint64_t distance = (address - sp) / 8;
    if (ZG_UNLIKELY(distance >> 16 || walk->word_count == ZG_WALK_WORDS)) {
        walk->repeatable = false;
        return;
    }
    walk->words[walk->word_count++] = (word & ((UINT64_C(1) << 48) - 1)) | distance << 48;
}

// The frame that a walk has reached.
struct walked {
    uint64_t pc, sp, fp;
    // Address from which fp was read; 1: fp is still the caller's; 0: the dependency is recorded already
    uint64_t fp_place;
    bool exact; // pc is an instruction, not a return address
};

// Records that the walk depends on this frame's frame pointer.
ZG_INLINE void depend_on_fp(struct zg_walk *walk, uint64_t sp, struct walked *frame) {
    if (frame->fp_place == 1) walk->uses_fp = true;
    else if (frame->fp_place) depend_on(walk, sp, frame->fp_place, frame->fp);
    frame->fp_place = frame->fp_place == 1;
}

// Steps by a simple rule. False at the end of the stack, or if a word cannot be read. `*at`: address from which the
// return address was read.
ZG_INLINE bool step_simple(zg_rule rule, struct walked *frame, struct reader *reader, struct zg_walk *walk,
                           uint64_t *at) {
    uint64_t base = zg_rule_uses_fp(rule, frame->sp) ? frame->fp : frame->sp;
    uint64_t cfa = base + zg_rule_distance(rule, frame->sp), fp_at = cfa - zg_rule_fp(rule);
    *at = cfa - zg_arch_return_place(zg_rule_fp(rule));
    frame->exact = false;
    if (ZG_LIKELY(cfa > frame->sp && cfa <= reader->high && *at >= reader->low && fp_at >= reader->low && !(cfa & 7))) {
        frame->pc = zg_arch_strip(*(const uint64_t *)*at);
        if (fp_at != cfa) frame->fp = *(const uint64_t *)fp_at;
    } else {
        walk->repeatable = false;
        if (cfa <= frame->sp || !read_word(reader, *at, &frame->pc)) return false;
        frame->pc = zg_arch_strip(frame->pc);
        if (fp_at != cfa && !read_word(reader, fp_at, &frame->fp)) return false;
    }
    if (fp_at != cfa) frame->fp_place = fp_at;
    frame->sp = cfa;
    return true;
}

void zg_unwind_fast(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, struct zg_walk *walk) {
    const struct zg_unwind_rules *table = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    struct walked frame = {caller.pc, caller.sp, caller.fp, 1, false};
    uint64_t link, place;
    struct reader reader = reader_for(caller.sp, bounds);
    int count = 0;
    walk->repeatable = reader.high == bounds->high;
    walk->uses_fp = false;
    walk->word_count = 0;
    while (count < depth && frame.pc) {
        walk->frames[count++] = frame.pc + frame.exact;
        zg_rule rule = rule_for(table, frame.exact ? frame.pc : frame.pc - 1);
        bool guessed = ZG_UNLIKELY(rule == rule_guess);
        if (guessed) rule = guessed_rule;
        if (ZG_LIKELY((rule & 3) == zg_rule_simple)) {
            if (zg_rule_uses_fp(rule, frame.sp)) depend_on_fp(walk, caller.sp, &frame);
            if (guessed && !is_frame(table, frame.fp, zg_max(frame.sp, reader.low), reader.high, &place)) {
                if (place) depend_on(walk, caller.sp, place, *(const uint64_t *)place);
                break;
            }
            if (!step_simple(rule, &frame, &reader, walk, &place)) break;
            if (count < depth) depend_on(walk, caller.sp, place, frame.pc);
        } else if ((rule & 3) == zg_rule_complex) {
            walk->repeatable = false;
            if (!step_complex(&frame.pc, &frame.sp, &frame.fp, &link, &reader, &frame.exact)) break;
            // Probe the part of the stack below the caller: it may be protected, or not mapped yet.
            bool below = frame.sp < caller.sp && caller.sp >= bounds->low && caller.sp < bounds->high;
            if (frame.sp >= bounds->low && frame.sp < bounds->high && !below)
                reader = (struct reader){frame.sp, bounds->high, false};
        } else {
            break;
        }
    }
    walk->count = count;
}

int zg_unwind_full(struct zg_registers *registers, bool exact, uint64_t *frames, int depth) {
    struct reader reader = {1, 1, false}; // empty range: every page is probed
    int count = 0;
    while (count < depth && registers->pc) {
        uint64_t pc = registers->pc;
        frames[count++] = pc + exact;
        if (!step_full(registers, exact ? pc : pc - 1, &reader, &exact)) break;
    }
    return count;
}

// Whether this is the outermost function of a program, a thread or a context: its CFI marks the return address as
// undefined.
static bool is_outermost(uint64_t pc) {
    struct zg_module module;
    struct zg_cfi_row row;
    return zg_module_find_unwind(pc, &module) && zg_cfi_find_row(&module, pc, &row) &&
           row.registers[row.return_register].how == zg_cfi_undefined;
}

void zg_unwind_find_signal(struct zg_caller caller, uint64_t low, uint64_t high, uint64_t wanted,
                           struct zg_interruption *interruption) {
    enum { MOST_FRAMES = 1000, PUSHED = 512 };
    struct reader reader = {1, 1, false};
    struct zg_registers registers = {.known = UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP, .pc = caller.pc};
    registers.value[ZG_ARCH_SP] = caller.sp;
    registers.value[ZG_ARCH_FP] = caller.fp;
    bool exact = false, is_met = false;
    uint64_t inner = 0, pc = 0, context_when_met = 0;
    // The innermost frame may have been larger when the stack pointer was `wanted`.
    uint64_t from = caller.sp - PUSHED;
    *interruption = (struct zg_interruption){0};
    int i = 0;
    for (; i < MOST_FRAMES && registers.pc; i++) {
        inner = pc, pc = registers.pc;
        uint64_t context = registers.value[ZG_ARCH_SP];
        // If the walk has passed [low, high), the stack pointers of the interrupted code, no frame further out belongs
        // to a handler that interrupted this code.
        if (interruption->context && is_met && context >= high && context - high < high - low) break;
        bool was_exact = exact;
        if (!step_full(&registers, exact ? registers.pc : registers.pc - 1, &reader, &exact)) {
            // musl's outermost functions have no unwind information: the caller of this function checks `end` instead.
            interruption->is_complete = !zg_libc_has_cfi || is_outermost(was_exact ? pc : pc - 1);
            break;
        }
        uint64_t sp = registers.value[ZG_ARCH_SP];
        if (!exact && !is_met && wanted >= from && wanted < sp) is_met = true, context_when_met = interruption->context;
        if (exact && sp >= low && sp < high)
            interruption->context = zg_arch_signal_context(context), interruption->handler = inner;
        from = sp;
    }
    interruption->end = registers.value[ZG_ARCH_SP];
    if (is_met) interruption->place = context_when_met == interruption->context ? zg_place_beyond : zg_place_within;
    else if (i == MOST_FRAMES) interruption->place = zg_place_beyond;
}

enum zg_unwind_met zg_unwind_meets(struct zg_registers *registers, bool exact, uint64_t context) {
    enum { MOST_FRAMES = 1000 };
    struct reader reader = {1, 1, false};
    for (int i = 0; i < MOST_FRAMES && registers->pc; i++) {
        uint64_t pc = exact ? registers->pc : registers->pc - 1, sp = registers->value[ZG_ARCH_SP];
        if (!step_full(registers, pc, &reader, &exact)) return is_outermost(pc) ? zg_unwind_not_met : zg_unwind_lost;
        if (exact && zg_arch_signal_context(sp) == context) return zg_unwind_met;
    }
    return registers->pc ? zg_unwind_lost : zg_unwind_not_met;
}

bool zg_unwind_has_rules(uint64_t pc) {
    struct zg_module module;
    struct zg_cfi_row row;
    return zg_module_find_unwind(pc, &module) && zg_cfi_find_row(&module, pc, &row);
}
