// Compact unwind rules, by which nearly every frame finds its caller, and their cache. Inline: a walk spends its time
// here. A compact rule: CFA = stack or frame pointer + offset; return address and saved frame pointer are at fixed
// distances below the CFA. Hot path and signal context, no lock.

#ifndef ZG_UNWIND_RULE_H
#define ZG_UNWIND_RULE_H

#include "platform/arch.h"
#include "platform/base.h"

enum zg_rule_kind { zg_rule_none, zg_rule_simple, zg_rule_complex, zg_rule_end };

// Bits 0-1: zg_rule_kind. Bit 2: the CFA is computed from the frame pointer. Bits 3-16: CFA offset / 8. Bits 17-24:
// distance of the saved frame pointer below the CFA / 8 (0: unchanged). The place of the return address follows
// (zg_arch_return_place). A simple rule reads only words between its base register and the CFA.
typedef uint32_t zg_rule;
enum { ZG_RULE_BITS = 25, ZG_RULE_CFA_BITS = 14, ZG_RULE_FP_BITS = 8, ZG_RULE_PC_BITS = 48 };
#define ZG_RULE_FROM_FP UINT32_C(4)

ZG_INLINE uint64_t zg_rule_cfa(zg_rule rule) { return (uint64_t)(rule >> 3 & ((1 << ZG_RULE_CFA_BITS) - 1)) * 8; }
ZG_INLINE uint64_t zg_rule_fp(zg_rule rule) {
    return (uint64_t)(rule >> (3 + ZG_RULE_CFA_BITS) & ((1 << ZG_RULE_FP_BITS) - 1)) * 8;
}

// An entry is one word, so it needs no lock: the rule, and above it a tag. A bijection scrambles the low 48 bits of the
// pc. The highest of the scrambled bits select the entry, the other bits are the tag, so an entry identifies its pc
// exactly. The table grows with the program, because a small program would touch pages of a large table at random.
enum { ZG_RULES_FIRST_BITS = 9, ZG_RULES_LAST_BITS = 16 };
_Static_assert(ZG_RULE_PC_BITS - ZG_RULES_FIRST_BITS + ZG_RULE_BITS == 64, "rule and tag share a word");
struct zg_unwind_rules {
    uint64_t *entries;
    uint64_t shift; // 64 minus the number of bits of an index in the table
};
// Current table. Older tables stay valid until the process ends.
extern struct zg_unwind_rules *zg_unwind_rules;

ZG_INLINE uint64_t zg_rules_scramble(uint64_t pc) { return pc * UINT64_C(0x9e3779b97f4b); }
ZG_INLINE uint64_t *zg_rules_entry(const struct zg_unwind_rules *table, uint64_t scrambled) {
    return &table->entries[scrambled << (64 - ZG_RULE_PC_BITS) >> table->shift];
}
// Returns the rule if the table has one for this pc. Otherwise returns a value with bits above those of a rule, or
// zg_rule_none.
ZG_INLINE uint64_t zg_rules_lookup(const struct zg_unwind_rules *table, uint64_t pc) {
    uint64_t scrambled = zg_rules_scramble(pc);
    return __atomic_load_n(zg_rules_entry(table, scrambled), __ATOMIC_RELAXED) ^ scrambled << ZG_RULE_BITS;
}
ZG_INLINE bool zg_rule_is_simple(uint64_t looked) {
    return (looked & ~((UINT64_C(1) << ZG_RULE_BITS) - 4)) == zg_rule_simple;
}

// A frame's registers, and the addresses from which pc and fp were read. fp_place changes only together with fp.
struct zg_rule_frame {
    uint64_t pc, sp, fp;
    uint64_t place, fp_place;
};
// Whether the step starts at the frame pointer. If the stack pointer is only a bound (AArch64), a step by a rule that
// starts at the stack pointer starts at the frame pointer, too: the frame record is used instead.
ZG_INLINE bool zg_rule_uses_fp(zg_rule rule, uint64_t sp) {
    return (rule & ZG_RULE_FROM_FP) || !zg_arch_is_sp_exact(sp);
}
// Distance from the register where the step starts to the CFA.
ZG_INLINE uint64_t zg_rule_distance(zg_rule rule, uint64_t sp) {
    return (rule & ZG_RULE_FROM_FP) || zg_arch_is_sp_exact(sp) ? zg_rule_cfa(rule) : zg_rule_fp(rule);
}
// Steps to the caller's frame by a simple rule. The stack ends at `high` and is readable from sp on; sp is a multiple
// of 8. False if the rule reads a word outside of this range.
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
