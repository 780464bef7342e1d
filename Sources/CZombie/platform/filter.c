// Runs the classic BPF of seccomp as the kernel does (seccomp_check_filter in kernel/seccomp.c lists its instructions;
// Documentation/userspace-api/seccomp_filter.rst). Any context; no lock, no system call.

#define _GNU_SOURCE
#include "platform/filter.h"

#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "platform/arch.h"
#include "platform/libc.h"

uint32_t zg_filter_in_effect;

static struct {
    const struct zg_filter_instruction *instructions;
    uint32_t count; // 0: no filter
} filters[ZG_FILTERS_MOST];
static uint32_t filter_count;

static void raise_to(uint32_t kind) {
    uint32_t now = __atomic_load_n(&zg_filter_in_effect, __ATOMIC_RELAXED);
    while (now < kind &&
           !__atomic_compare_exchange_n(&zg_filter_in_effect, &now, kind, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

int zg_filter_add(const struct zg_filter_instruction *instructions, uint32_t count) {
    uint32_t at = __atomic_load_n(&filter_count, __ATOMIC_RELAXED);
    do
        if (at == ZG_FILTERS_MOST) return -1;
    while (!__atomic_compare_exchange_n(&filter_count, &at, at + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    filters[at].instructions = instructions;
    __atomic_store_n(&filters[at].count, count, __ATOMIC_RELEASE);
    raise_to(zg_filter_known);
    return (int)at;
}

void zg_filter_drop(int number) {
    __atomic_store_n(&filters[number].count, 0, __ATOMIC_RELEASE);
    uint32_t last = (uint32_t)number + 1;
    __atomic_compare_exchange_n(&filter_count, &last, (uint32_t)number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void zg_filter_add_unknown(void) { raise_to(zg_filter_unknown); }
void zg_filter_add_strict(void) { raise_to(zg_filter_strict); }

const struct zg_filtered_call zg_filtered_calls[zg_filtered_count] = {
#define ZG_X(name) {#name, SYS_##name},
    ZG_FILTERED(ZG_X)
#undef ZG_X
};

// Filters in effect at the start, as described by the parent.
static uint32_t inherited;
static uint64_t inherited_passing = ZG_FILTERED_ALL;

void zg_filter_note_inherited(uint32_t count, uint64_t passing) {
    inherited = count;
    inherited_passing = passing & ZG_FILTERED_ALL;
}

// Returns true if, according to the parent, every filter in effect at the start allows this call or makes it fail with
// an error (SECCOMP_RET_ERRNO).
static bool is_declared_allowed(long number) {
    for (uint64_t i = 0; i < zg_filtered_count; i++)
        if (zg_filtered_calls[i].number == number) return inherited && (inherited_passing >> i & 1);
    return false;
}

enum { FILTER_WORDS = sizeof(struct seccomp_data) / sizeof(uint64_t) };

struct machine {
    uint32_t accumulator, index, memory[BPF_MEMWORDS];
    const uint64_t *words; // struct seccomp_data
};

// Loads a word of struct seccomp_data: number, architecture, instruction pointer, arguments. The address of the future
// call is unknown, so the result of a filter that reads the instruction pointer is unknown, too.
static bool load(struct machine *machine, uint32_t offset) {
    enum { INSTRUCTION_POINTER = 8, ARGUMENTS = 16, END = 64 };
    if (offset % 4 || offset >= END || (offset >= INSTRUCTION_POINTER && offset < ARGUMENTS)) return false;
    machine->accumulator = (uint32_t)(machine->words[offset / 8] >> offset % 8 * 8);
    return true;
}

static bool compute(struct machine *machine, uint16_t code, uint32_t operand) {
    uint32_t *a = &machine->accumulator;
    switch (BPF_OP(code)) {
    case BPF_ADD: *a += operand; return true;
    case BPF_SUB: *a -= operand; return true;
    case BPF_MUL: *a *= operand; return true;
    case BPF_DIV: *a = operand ? *a / operand : 0; return operand != 0;
    case BPF_AND: *a &= operand; return true;
    case BPF_OR: *a |= operand; return true;
    case BPF_XOR: *a ^= operand; return true;
    case BPF_LSH: *a = operand < 32 ? *a << operand : 0; return true;
    case BPF_RSH: *a = operand < 32 ? *a >> operand : 0; return true;
    case BPF_NEG: *a = -*a; return true;
    default: return false;
    }
}

static bool condition_holds(uint16_t code, uint32_t a, uint32_t operand) {
    switch (BPF_OP(code)) {
    case BPF_JEQ: return a == operand;
    case BPF_JGT: return a > operand;
    case BPF_JGE: return a >= operand;
    default: return (a & operand) != 0; // BPF_JSET
    }
}

// Loads the accumulator or the index register `to` by the instruction's addressing mode.
static bool load_register(struct machine *machine, const struct zg_filter_instruction *now, uint32_t *to) {
    switch (BPF_MODE(now->code)) {
    case BPF_ABS: return BPF_CLASS(now->code) == BPF_LD && load(machine, now->constant);
    case BPF_IMM: *to = now->constant; return true;
    case BPF_LEN: *to = FILTER_WORDS * sizeof(uint64_t); return true;
    case BPF_MEM:
        if (now->constant >= BPF_MEMWORDS) return false;
        *to = machine->memory[now->constant];
        return true;
    default: return false;
    }
}

uint32_t zg_filter_run(const struct zg_filter_instruction *instructions, uint32_t count, long number,
                       const uint64_t arguments[6]) {
    uint64_t words[FILTER_WORDS] = {(uint32_t)number | (uint64_t)ZG_ARCH_AUDIT << 32, 0};
    for (int i = 0; i < 6; i++) words[2 + i] = arguments[i];
    struct machine machine = {.words = words};
    // Jumps only lead forward, so the loop ends.
    for (uint64_t at = 0; at < count; at++) {
        const struct zg_filter_instruction *now = &instructions[at];
        uint16_t code = now->code;
        uint32_t operand = BPF_SRC(code) == BPF_X ? machine.index : now->constant;
        bool known = true;
        switch (BPF_CLASS(code)) {
        case BPF_LD: known = load_register(&machine, now, &machine.accumulator); break;
        case BPF_LDX: known = load_register(&machine, now, &machine.index); break;
        case BPF_ST:
        case BPF_STX:
            known = now->constant < BPF_MEMWORDS;
            if (known) machine.memory[now->constant] = BPF_CLASS(code) == BPF_ST ? machine.accumulator : machine.index;
            break;
        case BPF_ALU: known = compute(&machine, code, operand); break;
        case BPF_JMP:
            if (BPF_OP(code) == BPF_JA) at += now->constant;
            else at += condition_holds(code, machine.accumulator, operand) ? now->if_true : now->if_false;
            break;
        case BPF_RET: return BPF_RVAL(code) == BPF_A ? machine.accumulator : now->constant;
        case BPF_MISC:
            if (BPF_MISCOP(code) == BPF_TAX) machine.index = machine.accumulator;
            else machine.accumulator = machine.index;
            break;
        }
        if (!known) return 0;
    }
    return 0;
}

// Returns true for calls that malloc makes, or that the loader and libc's start-up have just made in any process after
// an exec.
static bool is_libc_startup_call(long number) {
    static const long calls[] = {SYS_mmap,   SYS_munmap,    SYS_mprotect,   SYS_brk,  SYS_futex,
                                 SYS_write,  SYS_prlimit64, SYS_exit_group,
#ifndef ZG_STATIC // a static executable has no loader, which opens files
                                 SYS_openat, SYS_pread64,   SYS_read,       SYS_close
#endif
    };
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(calls); i++)
        if (calls[i] == number) return true;
#ifdef ZG_STATIC
    return false;
#else
    // The loader reads the status of each library's file: by newfstatat from glibc 2.33 to 2.38, otherwise by fstat.
    int minor = zg_libc_minor();
    return number == (minor >= 33 && minor <= 38 ? SYS_newfstatat : SYS_fstat);
#endif
}

bool zg_filter_allows(long number, const uint64_t arguments[6]) {
    uint32_t stands = __atomic_load_n(&zg_filter_in_effect, __ATOMIC_ACQUIRE);
    if (stands == zg_filter_strict) return number == SYS_read || number == SYS_write;
    if (stands == zg_filter_unknown && !is_libc_startup_call(number) && !is_declared_allowed(number)) return false;
    uint32_t all = __atomic_load_n(&filter_count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < all; i++) {
        uint32_t count = __atomic_load_n(&filters[i].count, __ATOMIC_ACQUIRE);
        if (count && (zg_filter_run(filters[i].instructions, count, number, arguments) & SECCOMP_RET_ACTION_FULL) !=
                         SECCOMP_RET_ALLOW)
            return false;
    }
    return true;
}

// Returns the bits (zg_filtered.h) of the calls that the filter allows or makes fail with an error. Runs the filter
// with the calls' numbers only, because the arguments of future calls are unknown.
static uint64_t passing_through(const struct zg_filter_instruction *instructions, uint32_t count) {
    static const uint64_t none[6] = {0};
    uint64_t passing = 0;
    for (uint64_t i = 0; i < zg_filtered_count; i++) {
        uint32_t answer =
            zg_filter_run(instructions, count, zg_filtered_calls[i].number, none) & SECCOMP_RET_ACTION_FULL;
        if (answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_ERRNO) passing |= UINT64_C(1) << i;
    }
    return passing;
}

uint32_t zg_filter_describe(uint64_t *passing) {
    uint32_t stands = __atomic_load_n(&zg_filter_in_effect, __ATOMIC_ACQUIRE), found = 0;
    uint32_t all = __atomic_load_n(&filter_count, __ATOMIC_RELAXED);
    *passing = inherited_passing;
    // Unseen filters count as known if the parent described them.
    if (stands != zg_filter_known && !(stands == zg_filter_unknown && inherited)) return 0;
    for (uint32_t i = 0; i < all; i++) {
        uint32_t count = __atomic_load_n(&filters[i].count, __ATOMIC_ACQUIRE);
        if (!count) continue;
        *passing &= passing_through(filters[i].instructions, count);
        found++;
    }
    return *passing ? found + inherited : 0;
}

bool zg_filter_is_inherited(void) { return inherited != 0; }

bool zg_filter_is_undescribed(void) {
    return __atomic_load_n(&zg_filter_in_effect, __ATOMIC_ACQUIRE) == zg_filter_unknown && !inherited;
}
