// Compact rules: what nearly every frame needs to find its caller, and their cache. Inline: a walk spends its time here.
// A compact rule says: CFA = stack or frame pointer + offset, the return address and the saved frame pointer at fixed distances
// below the CFA. Hot path and signal context, no lock.

#ifndef ZG_UNWIND_RULE_H
#define ZG_UNWIND_RULE_H

#include "platform/arch.h"
#include "platform/base.h"

enum zg_rule_kind { zg_rule_none, zg_rule_simple, zg_rule_complex, zg_rule_end };

// bits 0-1 what, 2 the CFA counts from the frame pointer, 3-16 CFA offset / 8, 17-24 frame pointer's place below the CFA
// / 8 (0: unchanged). The return address's place below the CFA follows (zg_arch_return_place). What a simple rule reads
// lies between what the CFA counts from and the CFA.
typedef uint32_t zg_rule;
enum { ZG_RULE_BITS = 25, ZG_RULE_CFA_BITS = 14, ZG_RULE_FP_BITS = 8, ZG_RULE_PC_BITS = 48 };
#define ZG_RULE_FROM_FP UINT32_C(4)

ZG_INLINE uint64_t zg_rule_cfa(zg_rule rule) { return (uint64_t)(rule >> 3 & ((1 << ZG_RULE_CFA_BITS) - 1)) * 8; }
ZG_INLINE uint64_t zg_rule_fp(zg_rule rule) {
    return (uint64_t)(rule >> (3 + ZG_RULE_CFA_BITS) & ((1 << ZG_RULE_FP_BITS) - 1)) * 8;
}

// An entry is one word: the rule, and above it what its place in the table does not say already of the scrambled pc. The
// scrambling is a bijection of the low 48 bits. The highest of these are the place, all others are in the entry, which so
// names its pc exactly; and one word needs no lock.
// Grows with the program: a small one must not touch a large table's pages at random.
enum { ZG_RULES_FIRST_BITS = 9, ZG_RULES_LAST_BITS = 16 };
_Static_assert(ZG_RULE_PC_BITS - ZG_RULES_FIRST_BITS + ZG_RULE_BITS == 64, "rule and tag share a word");
struct zg_unwind_rules {
    uint64_t *entries;
    uint64_t shift; // 64 - the table's bits
};
// The table that is filled now; each is valid until the process ends.
extern struct zg_unwind_rules *zg_unwind_rules;

ZG_INLINE uint64_t zg_rules_scramble(uint64_t pc) { return pc * UINT64_C(0x9e3779b97f4b); }
ZG_INLINE uint64_t *zg_rules_entry(const struct zg_unwind_rules *table, uint64_t scrambled) {
    return &table->entries[scrambled << (64 - ZG_RULE_PC_BITS) >> table->shift];
}
// With the rule that the table has for this pc it is the rule; with another or none it differs from it in other bits, too, or is
// zg_rule_none.
ZG_INLINE uint64_t zg_rules_look(const struct zg_unwind_rules *table, uint64_t pc) {
    uint64_t scrambled = zg_rules_scramble(pc);
    return __atomic_load_n(zg_rules_entry(table, scrambled), __ATOMIC_RELAXED) ^ scrambled << ZG_RULE_BITS;
}
ZG_INLINE bool zg_rule_is_simple(uint64_t looked) {
    return (looked & ~((UINT64_C(1) << ZG_RULE_BITS) - 4)) == zg_rule_simple;
}

// A frame's registers, and the words of the stack that pc and fp were read from. fp_place stays as it is where fp does.
struct zg_rule_frame {
    uint64_t pc, sp, fp;
    uint64_t place, fp_place;
};
// The step counts from the frame pointer. / What it counts from is so far below the CFA. Where the stack pointer is only a bound, a frame
// whose CFA counts from it is found by its frame record.
ZG_INLINE bool zg_rule_uses_fp(zg_rule rule, uint64_t sp) {
    return (rule & ZG_RULE_FROM_FP) || !zg_arch_is_sp_exact(sp);
}
ZG_INLINE uint64_t zg_rule_distance(zg_rule rule, uint64_t sp) {
    return (rule & ZG_RULE_FROM_FP) || zg_arch_is_sp_exact(sp) ? zg_rule_cfa(rule) : zg_rule_fp(rule);
}
// By a simple rule to the caller's frame, on a stack that ends at `high` and can be read from sp on, a multiple of 8. False: what
// would be read lies elsewhere.
ZG_INLINE bool zg_rule_step(zg_rule rule, struct zg_rule_frame *frame, uint64_t high) {
    uint64_t base = frame->sp;
    if (ZG_UNLIKELY(zg_rule_uses_fp(rule, frame->sp))) {
        uint64_t least = zg_arch_sp_bound(frame->sp);
        base = frame->fp;
        if (ZG_UNLIKELY(base - least > high - least || base & 7)) return false;
    }
    uint64_t cfa = base + zg_rule_distance(rule, frame->sp), back = zg_rule_fp(rule);
    if (ZG_UNLIKELY(cfa > high)) return false;
    frame->place = cfa - zg_arch_return_place(back);
    frame->pc = zg_arch_strip(*(const uint64_t *)frame->place);
    if (back) {
        frame->fp_place = cfa - back;
        frame->fp = *(const uint64_t *)frame->fp_place;
    }
    frame->sp = cfa;
    return true;
}

#endif
