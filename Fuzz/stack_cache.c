// Fuzzes the conversion of a stack into an id: unwind rules, the fast unwinder, the stack cache, the stack diff cache
// and the depot. The input is a program's code with its call frame information, and its stack at successive captures.
//
//   walk   the fast unwinder agrees with an unwinder with the full CFI rules, which reads every word through the kernel
//   cache  the stack cache and the stack diff cache return what the unwinder would
//   depot  returns exactly the frames that were put; equal stacks have equal ids, different stacks different ids
//
// The pages around the stack and the stack's pages below the stack pointer are inaccessible; the tables end at an
// inaccessible page. All addresses are below 2^32: by design, the cache compares only the low halves of words.

#include <sys/mman.h>

#include "fuzz.h"
#include "platform/os.h"

// Redirect the unwinder to the fuzzer's images. Unwinder and depot are included, so that each input can reset them.
#define zg_module_find_unwind fuzz_find_image
#include "stacks/unwind.c"
#undef zg_module_find_unwind
#include "stacks/depot.c"

#include "stacks/stack_cache.h"
#include "stacks/stack_diff.h"

#define STACK_LOW UINT64_C(0x20000000)
#define STACK_BYTES UINT64_C(16384)
#define STACK_HIGH (STACK_LOW + STACK_BYTES)
#define TABLES_LOW UINT64_C(0x30000000)
#define TABLES_BYTES UINT64_C(16384)
#define CODE UINT64_C(0x40000000)
#define FUNCTION_BYTES UINT64_C(64)
enum { FUNCTIONS_MOST = 12, CAPTURES_MOST = 48, WORDS = STACK_BYTES / 8 };

static const uint8_t *image_tables;
static int function_count;
static uint64_t *const stack_words = (uint64_t *)STACK_LOW;
static struct zg_stack_cache cache;
static struct zg_stack_diff_cache stack_diff;
static struct zg_caller caller;
static const struct zg_stack_bounds bounds = {STACK_LOW, STACK_HIGH};
static int depth;

bool fuzz_find_image(uint64_t pc, struct zg_module *module) {
    if (pc - CODE >= (uint64_t)function_count * FUNCTION_BYTES) return false;
    *module = (struct zg_module){
        .start = CODE, .end = CODE + (uint64_t)function_count * FUNCTION_BYTES, .eh_frame_hdr = image_tables};
    return true;
}

// --- call frame information ------------------------------------------------------------------------------------------

struct output {
    uint8_t *base;
    uint64_t count;
    bool dry; // counts bytes without writing them
};

static void put8(struct output *output, uint64_t value) {
    if (!output->dry) output->base[output->count] = (uint8_t)value;
    output->count++;
}
static void put32(struct output *output, uint64_t value) {
    for (int i = 0; i < 32; i += 8) put8(output, value >> i & 0xff);
}
static void put_leb(struct output *output, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put8(output, value | 0x80);
    put8(output, value);
}
static void set32(struct output *output, uint64_t at, uint64_t value) {
    struct output there = {output->base, at, output->dry};
    put32(&there, value);
}

static void put_expression(struct output *output, struct input *input) {
    uint8_t bytes[24];
    int count = 0;
    bytes[count++] = (uint8_t)(0x70 + (take8(input) & 1 ? 7 : 6)); // relative to sp or fp
    bytes[count++] = take8(input) & 0x3f;
    for (int i = take8(input) % 4; i > 0; i--) {
        static const uint8_t operations[] = {0x06, 0x12, 0x13, 0x1a, 0x1c, 0x21, 0x22, 0x2a, 0x31, 0x38, 0x96, 0x24};
        uint8_t operation = take8(input);
        bytes[count++] = operation < 240 ? operations[operation % sizeof operations] : take8(input);
        if (operation & 1) bytes[count++] = 0x23, bytes[count++] = 8; // plus_uconst
    }
    put_leb(output, (uint64_t)count);
    for (int i = 0; i < count; i++) put8(output, bytes[i]);
}

static uint64_t register_from(struct input *input) {
    static const uint8_t registers[] = {6, 6, 7, 16, 3, 12};
    uint8_t which = take8(input);
    return which < 250 ? registers[which % sizeof registers] : which & 31;
}

// Writes mostly rules that compilers emit, and sometimes random rules.
static void put_program(struct output *output, struct input *input) {
    uint8_t form = take8(input);
    switch (form % 8) {
    case 0:
    case 1: // with a frame pointer
        put8(output, 0x41), put8(output, 0x0e), put_leb(output, 16), put8(output, 0x86), put_leb(output, 2);
        put8(output, 0x43), put8(output, 0x0d), put_leb(output, 6);
        return;
    case 2:
    case 3: // without a frame pointer
        put8(output, 0x44), put8(output, 0x0e), put_leb(output, 8 + 8 * (uint64_t)(form >> 3));
        return;
    case 4: // frame pointer saved, but not used
        put8(output, 0x41), put8(output, 0x0e), put_leb(output, 16), put8(output, 0x86), put_leb(output, 2);
        put8(output, 0x41), put8(output, 0x0e), put_leb(output, 16 + 8 * (uint64_t)(form >> 3));
        return;
    default: break;
    }
    for (int i = take8(input) % 8; i > 0; i--) {
        uint8_t what = take8(input);
        switch (what % 20) {
        case 0:
        case 1: put8(output, 0x40 | (what >> 3 & 31)); break; // advance
        case 2:
        case 3: put8(output, 0x0e), put_leb(output, take8(input)); break;
        case 4: put8(output, 0x0e), put_leb(output, 8 * (uint64_t)take8(input)); break;
        case 5: put8(output, 0x0d), put_leb(output, register_from(input)); break;
        case 6:
            put8(output, 0x0c), put_leb(output, register_from(input)),
                put_leb(output, 8 * (uint64_t)(take8(input) & 31));
            break;
        case 7:
        case 8: put8(output, 0x86), put_leb(output, take8(input) & 15); break; // fp
        case 9: put8(output, 0x90), put_leb(output, take8(input) & 3); break;  // return address
        case 10: put8(output, 0x07), put_leb(output, register_from(input)); break;
        case 11: put8(output, 0x08), put_leb(output, register_from(input)); break;
        case 12:
            put8(output, 0x09), put_leb(output, register_from(input)), put_leb(output, register_from(input));
            break;
        case 13: put8(output, 0x0a); break;
        case 14: put8(output, 0x0b); break;
        case 15: put8(output, 0x0f), put_expression(output, input); break;
        case 16: put8(output, 0x10), put_leb(output, register_from(input)), put_expression(output, input); break;
        case 17: put8(output, 0x16), put_leb(output, register_from(input)), put_expression(output, input); break;
        case 18: put8(output, 0x14), put_leb(output, register_from(input)), put_leb(output, take8(input) & 7); break;
        default: // damaged
            for (int j = what >> 5; j > 0; j--) put8(output, take8(input));
        }
    }
}

enum { PLAIN, SIGNAL, WIDE, CIES };

static void put_cie(struct output *output, int which) {
    uint64_t start = output->count;
    put32(output, 0), put32(output, 0), put8(output, 1);
    for (const char *at = which == SIGNAL ? "zRS" : "zR"; *at; at++) put8(output, (uint8_t)*at);
    put8(output, 0), put_leb(output, 1), put8(output, 0x78 /* -8 */), put_leb(output, 16);
    put_leb(output, 1), put8(output, which == WIDE ? 0x1c : 0x1b); // pcrel, 8 or 4 bytes
    put8(output, 0x0c), put_leb(output, 7), put_leb(output, 8), put8(output, 0x90), put_leb(output, 1);
    while (output->count % 8) put8(output, 0);
    set32(output, start, output->count - start - 4);
}

static void put_relative(struct output *output, uint64_t target, bool wide) {
    uint64_t distance = target - ((uint64_t)output->base + output->count);
    put32(output, distance);
    if (wide) put32(output, distance >> 32);
}

// Writes .eh_frame_hdr (header and sorted table) and .eh_frame (its entries), as the linker would.
static void put_tables(struct output *output, struct input input) {
    uint8_t missing = take8(&input), signals = take8(&input);
    int with_entry = 0;
    for (int i = 0; i < function_count; i++) with_entry += (missing >> i % 8 & 1) == 0 || i % 3 == 0;
    put8(output, 1), put8(output, 0x1b), put8(output, 0x03), put8(output, 0x3b);
    uint64_t entries = 12, frames = entries + 8 * (uint64_t)with_entry;
    put_relative(output, (uint64_t)output->base + frames, false);
    put32(output, (uint64_t)with_entry);
    for (int i = 0; i < 8 * with_entry; i++) put8(output, 0);
    while (output->count % 8) put8(output, 0);
    uint64_t cies[CIES];
    for (int i = 0; i < CIES; i++) cies[i] = output->count, put_cie(output, i);
    for (int i = 0; i < function_count; i++) {
        if (!((missing >> i % 8 & 1) == 0 || i % 3 == 0)) continue;
        int cie = (signals >> i % 8 & 1) && i % 4 == 3 ? SIGNAL : i % 5 == 4 ? WIDE : PLAIN;
        uint64_t start = output->count, code = CODE + (uint64_t)i * FUNCTION_BYTES;
        put32(output, 0), put32(output, output->count - cies[cie]);
        put_relative(output, code, cie == WIDE);
        put32(output, FUNCTION_BYTES - (uint64_t)(missing >> 7)); // for some inputs, the last byte has no entry
        if (cie == WIDE) put32(output, 0);
        put_leb(output, 0);
        put_program(output, &input);
        while (output->count % 8) put8(output, 0);
        set32(output, start, output->count - start - 4);
        set32(output, entries, code - (uint64_t)output->base), set32(output, entries + 4, start);
        entries += 8;
    }
    for (int i = 0; i < 16; i++) put8(output, 0); // the end of .eh_frame
}

// --- walks -----------------------------------------------------------------------------------------------------------

// Makes only the pages from this address on accessible.
static void open_stack(uint64_t from) {
    static uint64_t opened = STACK_LOW;
    from &= ~UINT64_C(4095);
    if (from > opened) CHECK(mprotect((void *)opened, from - opened, PROT_NONE) == 0);
    if (from < opened) CHECK(mprotect((void *)from, opened - from, PROT_READ | PROT_WRITE) == 0);
    opened = from;
}

static bool read_by_kernel(void *context, uint64_t address, uint64_t *word) {
    (void)context;
    return !(address & 7) && zg_os_read_memory(word, address, 8) == 8;
}

static int walk_by_full_rules(int most, uint64_t *frames, bool *left) {
    uint64_t pc = caller.pc, sp = caller.sp, fp = caller.fp;
    bool exact = false;
    int count = 0;
    *left = false;
    while (count < most && pc) {
        struct zg_module module;
        struct zg_cfi_row row;
        uint64_t look = exact ? pc : pc - 1, cfa, at, fp_at = 0;
        frames[count++] = pc + exact;
        if (!fuzz_find_image(look, &module)) break;
        zg_rule rule = zg_cfi_find_row(&module, look, &row) ? compact(&row) : rule_guess;
        if (rule == zg_rule_end) break;
        if (rule == zg_rule_complex) {
            struct zg_registers registers = {.known = UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP, .pc = pc};
            registers.value[ZG_ARCH_SP] = sp, registers.value[ZG_ARCH_FP] = fp;
            if (!zg_cfi_step(&row, &registers, read_by_kernel, NULL)) break;
            // If the stack pointer moves down or off the stack, the fast unwinder and this unwinder consider different
            // pages readable.
            if (registers.value[ZG_ARCH_SP] < sp || registers.value[ZG_ARCH_SP] >= STACK_HIGH) {
                *left = true;
                return count;
            }
            exact = row.signal_frame;
            pc = registers.pc, sp = registers.value[ZG_ARCH_SP];
            fp = registers.known >> ZG_ARCH_FP & 1 ? registers.value[ZG_ARCH_FP] : 0;
            continue;
        }
        exact = false;
        if (rule == rule_guess) {
            uint64_t word;
            if (fp < sp || fp >= STACK_HIGH || STACK_HIGH - fp < 16 || fp & 7) break;
            CHECK(zg_os_read_memory(&word, fp + 8, 8) == 8);
            if (!word || !fuzz_find_image(word - 1, &module)) break;
            cfa = fp + 16, at = fp + 8, fp_at = fp;
        } else {
            cfa = (row.cfa_register == ZG_ARCH_FP ? fp : sp) + (uint64_t)row.cfa.value;
            at = cfa - 8;
            if (row.registers[ZG_ARCH_FP].how == zg_cfi_at_offset && row.registers[ZG_ARCH_FP].value)
                fp_at = cfa + (uint64_t)row.registers[ZG_ARCH_FP].value;
        }
        if (cfa <= sp) break;
        if (cfa > STACK_HIGH || at < sp || (fp_at && fp_at < sp) || cfa & 7) {
            *left = true; // the words lie outside of the stack
            return count;
        }
        CHECK(zg_os_read_memory(&pc, at, 8) == 8);
        if (fp_at) CHECK(zg_os_read_memory(&fp, fp_at, 8) == 8);
        sp = cfa;
    }
    return count;
}

static void show(const char *who, const uint64_t *frames, int count) {
    fprintf(stderr, "%s:", who);
    for (int i = 0; i < count; i++) fprintf(stderr, " %" PRIx64, frames[i]);
    fprintf(stderr, " (%d)\n", count);
}

// A stack from a cache must have at least `depth` frames, or all frames if there are fewer.
static void check_known(const char *who, uint32_t stack, const uint64_t *wanted, int count, bool left) {
    uint64_t frames[ZG_STACK_MAX_DEPTH + ZG_STACK_DIFF_STEP];
    int got = zg_depot_get(stack & ~ZG_DEPOT_CONTEXT_DONE, frames, ZG_STACK_MAX_DEPTH + ZG_STACK_DIFF_STEP);
    int least = count < depth ? count : depth;
    bool equal = got >= least && (left || got <= count);
    for (int i = 0; equal && i < got && i < count; i++) equal = frames[i] == wanted[i];
    if (equal) return;
    show("full rules", wanted, count);
    show(who, frames, got);
    CHECK(false, "%s differs", who);
}

static void capture(void) {
    uint64_t wanted[ZG_STACK_MAX_DEPTH + ZG_STACK_DIFF_STEP];
    bool left;
    open_stack(caller.sp);
    int count = walk_by_full_rules(ZG_STACK_MAX_DEPTH + ZG_STACK_DIFF_STEP, wanted, &left);
    struct zg_walk walk;
    memset(&walk, 0x77, sizeof walk);
    zg_unwind_fast(caller, &bounds, depth, &walk);
    int least = count < depth ? count : depth;
    bool equal = left && count < depth ? walk.count >= count : walk.count == least;
    for (int i = 0; equal && i < least; i++) equal = walk.frames[i] == wanted[i];
    if (!equal) {
        show("full rules", wanted, count);
        show("walk", walk.frames, walk.count);
        CHECK(false, "the walk differs");
    }
    CHECK(walk.word_count <= ZG_WALK_WORDS || !walk.repeatable);

    uint32_t known = zg_stack_cache_find(&cache, caller, zg_stack_cache_key(&cache, caller));
    if (known) check_known("cache", known, wanted, count, left);
    uint32_t found = zg_stack_diff_capture(&stack_diff, caller, &bounds, depth, true);
    if (found) check_known("trail", found, wanted, count, left);
    if (known) return;
    // On a cache miss, fill the cache as the runtime does.
    if (!found) {
        found = zg_depot_put(walk.frames, walk.count);
        CHECK(found);
        zg_stack_cache_add(&cache, caller, &walk, found & ~ZG_DEPOT_CONTEXT_DONE);
    } else if (zg_stack_cache_wants(&cache, caller, found & ~ZG_DEPOT_CONTEXT_DONE)) {
        zg_stack_diff_describe(&stack_diff, caller.sp, &walk);
        zg_stack_cache_add(&cache, caller, &walk, found & ~ZG_DEPOT_CONTEXT_DONE);
    }
    known = zg_stack_cache_find(&cache, caller, zg_stack_cache_key(&cache, caller));
    if (known) check_known("what was just added", known, wanted, count, left);
}

static uint64_t code_from(struct input *input) {
    return CODE + take(input, 2) % ((uint64_t)function_count * FUNCTION_BYTES + 2);
}
static uint64_t stack_from(struct input *input) { return STACK_HIGH - 8 * (take(input, 2) % 600); }

static uint64_t word_from(struct input *input) {
    switch (take8(input) % 6) {
    case 0: return 0;
    case 1:
    case 2: return code_from(input);
    case 3:
    case 4: return stack_from(input);
    default: return take(input, 2);
    }
}

// Writes frames as calls would leave them, outwards from this pc, stack pointer and frame pointer.
static void build_frames(struct input *input, uint64_t pc, uint64_t sp, uint64_t fp) {
    for (int i = take8(input) % 60; i > 0; i--) {
        struct zg_module module;
        struct zg_cfi_row row;
        uint64_t cfa;
        if (!fuzz_find_image(pc - 1, &module)) return;
        if (!zg_cfi_find_row(&module, pc - 1, &row)) {
            cfa = fp + 16;
        } else {
            if (row.cfa.how != zg_cfi_in_register || (row.cfa_register != ZG_ARCH_SP && row.cfa_register != ZG_ARCH_FP))
                return;
            cfa = (row.cfa_register == ZG_ARCH_FP ? fp : sp) + (uint64_t)row.cfa.value;
        }
        if (cfa <= sp || cfa > STACK_HIGH || cfa & 7) return;
        pc = code_from(input);
        stack_words[(cfa - 8 - STACK_LOW) / 8] = pc;
        uint64_t next = cfa + 8 * (uint64_t)(take8(input) & 15);
        if (cfa - 16 >= sp) stack_words[(cfa - 16 - STACK_LOW) / 8] = next, fp = next;
        sp = cfa;
    }
}

// Writes unwind tables (.eh_frame_hdr, .eh_frame) for the generated functions. Reads a copy of the input, so the
// caller's position in the input does not move.
static void make_tables(struct input input) {
    struct output output = {(uint8_t *)TABLES_LOW, 0, true};
    put_tables(&output, input);
    CHECK(output.count <= TABLES_BYTES);
    output = (struct output){(uint8_t *)(TABLES_LOW + ((TABLES_BYTES - output.count) & ~UINT64_C(7))), 0, false};
    memset((void *)TABLES_LOW, 0, TABLES_BYTES);
    put_tables(&output, input);
    image_tables = output.base;
}

static void fuzz_captures(struct input *input) {
    function_count = 1 + take8(input) % FUNCTIONS_MOST;
    make_tables(*input);
    // make_tables read a copy of the input, so the stacks are made from the whole input, too.
    depth = 1 + take8(input) % (take8(input) & 1 ? 127 : 32);
    open_stack(STACK_LOW);
    memset(stack_words, 0, STACK_BYTES);
    caller = (struct zg_caller){code_from(input), stack_from(input) - 8, stack_from(input)};
    for (int i = 0; i < CAPTURES_MOST && input->at < input->end; i++) {
        open_stack(STACK_LOW);
        uint8_t what = take8(input);
        switch (what % 10) {
        case 0: caller.pc = code_from(input); break;
        case 1: caller.sp = stack_from(input) - 8; break;
        case 2: caller.fp = what & 16 ? word_from(input) : stack_from(input); break;
        case 3: // change a word
            stack_words[(STACK_HIGH - 8 - 8 * (take(input, 2) % 600) - STACK_LOW) / 8] = word_from(input);
            break;
        case 4: // change a word near the stack pointer
            stack_words[zg_min((caller.sp - STACK_LOW) / 8 + take8(input) % 24, WORDS - 1)] = word_from(input);
            break;
        case 5:
        case 6: build_frames(input, caller.pc, caller.sp, caller.fp); break;
        case 7: // one call deeper
            if (caller.sp < STACK_LOW + 4096) break;
            stack_words[(caller.sp - 8 - STACK_LOW) / 8] = caller.pc;
            stack_words[(caller.sp - 16 - STACK_LOW) / 8] = caller.fp;
            caller.fp = caller.sp - 16, caller.sp -= 16 + 8 * (uint64_t)(what >> 5);
            caller.pc = code_from(input);
            break;
        case 8:
            if (what <= 200) break;
            if (what > 230) make_tables(*input); // other code at the same addresses
            zg_unwind_invalidate_rules();
            break;
        default: break; // capture the same stack again
        }
        capture();
    }
}

// --- the depot alone -------------------------------------------------------------------------------------------------

enum { STACKS = 64, FRAMES = 20 };
struct stack {
    int count;
    uint64_t frames[FRAMES]; // innermost first
    uint32_t id;
    bool settled;
};

static void check_stack(const struct stack *stack) {
    uint64_t frames[FRAMES + 1], hash = 0, outer = 0;
    for (int i = stack->count; i-- > 0;) outer = hash, hash = zg_depot_hash(hash, stack->frames[i]);
    CHECK(zg_depot_get(stack->id, frames, FRAMES + 1) == stack->count &&
          !memcmp(frames, stack->frames, sizeof *frames * (size_t)stack->count));
    CHECK(zg_depot_find(hash, outer) == (stack->id | (stack->settled ? ZG_DEPOT_CONTEXT_DONE : 0)));
    CHECK((zg_depot_put(stack->frames, stack->count) & ~ZG_DEPOT_CONTEXT_DONE) == stack->id);
}

// Puts the frames by which `stack` is longer than `outer`, as the stack diff cache does.
static uint32_t add_inside(const struct stack *outer, const struct stack *stack, bool knows_hashes, bool wants_ids) {
    int fresh = stack->count - outer->count;
    uint64_t outer_hash = 0, hashes[2 * FRAMES], frames[FRAMES];
    uint32_t ids[FRAMES];
    for (int i = outer->count; i-- > 0;) outer_hash = zg_depot_hash(outer_hash, outer->frames[i]);
    for (int i = 0; i < fresh; i++)
        hashes[2 * i] = zg_depot_hash(i ? hashes[2 * i - 2] : outer_hash, stack->frames[fresh - 1 - i]);
    struct zg_depot_frames inwards = {
        stack->frames + fresh - 1, knows_hashes ? hashes : NULL, wants_ids ? ids : NULL, .pc_step = -1, .hash_step = 2,
        .count = (uint32_t)fresh};
    uint32_t id = zg_depot_add(outer->id, outer_hash, &inwards);
    for (int i = 0; wants_ids && i < fresh; i++) {
        int count = outer->count + i + 1;
        CHECK(zg_depot_get(ids[i], frames, FRAMES) == count &&
              !memcmp(frames, stack->frames + stack->count - count, sizeof *frames * (size_t)count));
    }
    CHECK(!wants_ids || ids[fresh - 1] == id);
    return id;
}

static void fuzz_depot(struct input *input) {
    static struct stack stacks_put[STACKS];
    int count = 0;
    while (input->at < input->end && count < STACKS) {
        struct stack *stack = &stacks_put[count];
        uint8_t what = take8(input);
        *stack = (struct stack){.count = 0};
        if (what % 8 == 0 && count) { // many other stacks, so that the tables grow
            uint64_t from = take(input, 2), frames[4];
            for (uint64_t i = 0; i < 700; i++) {
                for (int j = 0; j < 4; j++) frames[j] = 0x100000 + (zg_mix(from + i) >> 16 * j & 0xffff);
                CHECK(zg_depot_put(frames, 4));
            }
            continue;
        }
        if (what % 8 == 1 && count) {
            struct stack *other = &stacks_put[what / 8 % count];
            zg_depot_mark_context_done(other->id);
            for (int i = 0; i < count; i++) stacks_put[i].settled |= stacks_put[i].id == other->id;
            continue;
        }
        const struct stack *outer = what & 128 && count ? &stacks_put[take8(input) % count] : NULL;
        int fresh = 1 + take8(input) % 8;
        if (outer && outer->count + fresh > FRAMES) continue;
        for (int i = 0; i < fresh; i++) {
            // A frame of 0 ends a walk, and is never put.
            stack->frames[stack->count++] = (what & 64 ? take(input, 6) : take8(input) & 7) | (UINT64_C(1) << 47);
        }
        for (int i = 0; outer && i < outer->count; i++) stack->frames[stack->count++] = outer->frames[i];
        if (outer && what & 32) { // inside a known stack
            stack->id = add_inside(outer, stack, what & 16, what & 8);
        } else {
            stack->id = zg_depot_put(stack->frames, stack->count) & ~ZG_DEPOT_CONTEXT_DONE;
        }
        CHECK(stack->id);
        for (int i = 0; i < count; i++) {
            bool equal = stacks_put[i].count == stack->count &&
                         !memcmp(stacks_put[i].frames, stack->frames, sizeof *stack->frames * (size_t)stack->count);
            CHECK(equal == (stacks_put[i].id == stack->id), "stacks %d and %d", i, count);
            if (equal) stack->settled = stacks_put[i].settled;
        }
        check_stack(stack);
        count++;
    }
    for (int i = 0; i < count; i++) check_stack(&stacks_put[i]);
}

// --- start -----------------------------------------------------------------------------------------------------------

static void *map_at(uint64_t start, uint64_t bytes) {
    // Map the stack between two inaccessible pages.
    char *mapped =
        mmap((void *)(start - 4096), bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(mapped == (char *)(start - 4096) && mprotect((void *)start, bytes, PROT_READ | PROT_WRITE) == 0);
    return (void *)start;
}

int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    map_at(STACK_LOW, STACK_BYTES);
    map_at(TABLES_LOW, TABLES_BYTES);
    zg_config.stack_bytes = UINT64_C(1) << 34;
    CHECK(zg_depot_init(zg_config.stack_bytes));
    return 0;
}

static void forget_stacks(void) {
    for (; stacks > sizes; stacks--) zg_os_release(stacks->entries, (stacks->mask + 1) * sizeof *stacks->entries);
    memset(stacks->entries, 0, (stacks->mask + 1) * sizeof *stacks->entries);
    entry_count = 0;
    memset(nodes + 1, 0, (node_count - 1) * sizeof *nodes); // entries behind the last one are always 0
    node_count = 1;
    zg_depot_is_scarce = false;
}

static void forget_rules(void) {
    for (; zg_unwind_rules > tables; zg_unwind_rules--) {
        zg_os_release(zg_unwind_rules->entries, sizeof(uint64_t) << (64 - zg_unwind_rules->shift));
        zg_unwind_rules->entries = NULL;
    }
    misses_in_table = 0;
    zg_unwind_invalidate_rules();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    struct input input = {data, data + count};
    forget_stacks();
    forget_rules();
    cache.missed = 0;
    cache.used = 0;
    memset(cache.sets, 0, sizeof cache.sets);
    memset(cache.seen, 0, sizeof cache.seen);
    memset(&stack_diff, 0, sizeof stack_diff);
    if (take8(&input) & 3) fuzz_captures(&input);
    else fuzz_depot(&input);
    return 0;
}
