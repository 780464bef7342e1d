// Tests the refcount emulator: it computes what compiled functions return, and finds uses of counts and class pointers.
// link: runtime
// libs: -O2 -fno-vectorize -fno-slp-vectorize

#include <string.h>

#include "check.h"
#include "platform/arch.h"
#include "platform/refcount_emulator.h"
#include "zombies/counting.h"

enum { STACK_WORDS = 512, STEPS = 5000 };
static _Alignas(16) uint64_t stack[STACK_WORDS];

// DWARF numbers of the argument registers, and the index in `stack` of the stack pointer after a call.
#if defined(__x86_64__)
enum { FIRST = 5, SECOND = 4, THIRD = 1, STACK_AT = STACK_WORDS - 9 };
#else
enum { FIRST = 0, SECOND = 1, THIRD = 2, STACK_AT = STACK_WORDS - 8 };
#endif

static struct zg_registers registers_for(const void *function, uint64_t first, uint64_t second, uint64_t third) {
    struct zg_registers registers = {.known = ~UINT64_C(0), .pc = (uint64_t)function};
    registers.value[FIRST] = first;
    registers.value[SECOND] = second;
    registers.value[THIRD] = third;
    registers.value[ZG_ARCH_SP] = (uint64_t)&stack[STACK_AT];
    registers.value[ZG_ARCH_RA] = stack[STACK_AT] = (uint64_t)function;
    return registers;
}

// --- results of functions --------------------------------------------------------------------------------------------

typedef void function(uint64_t a, uint64_t b, uint64_t *result);
static uint64_t result, bytes[8];

#define FUNCTION(name, expression)                                                                                     \
    static __attribute__((noinline)) void name(uint64_t a, uint64_t b, uint64_t *to) { *to = (uint64_t)(expression); }

static __attribute__((noinline)) uint64_t helper(uint64_t a) { return a * 3 + 1; }
static uint64_t loop(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < (b & 15); i++) sum += a >> i & 5;
    return sum;
}
struct __attribute__((packed)) unaligned {
    uint32_t half;
};
static uint64_t words(uint64_t a, uint64_t b) {
    volatile uint64_t *at = bytes;
    at[0] = a, at[1] = b;
    ((volatile struct unaligned *)((char *)bytes + 3))->half = (uint32_t)a;
    return at[0] ^ at[1];
}
static uint64_t overflow(uint64_t a, uint64_t b) {
    int64_t sum;
    return __builtin_add_overflow((int64_t)a, (int64_t)b, &sum);
}
static uint64_t part(uint64_t a, uint64_t b) {
    volatile uint8_t *at = (volatile uint8_t *)bytes;
    at[5] = (uint8_t)a, at[6] = (uint8_t)(b + 1);
    return (uint64_t)(int8_t)at[5] + at[6] + *(volatile uint16_t *)(bytes + 1);
}

FUNCTION(sums, a + b - (a & b))
FUNCTION(bits, (a | b) ^ ~(a >> 7))
FUNCTION(shifts, (a << (b & 63)) + (a >> (b & 31)) + (uint64_t)((int64_t)a >> (b & 15)))
FUNCTION(shifts_of_32, ((uint32_t)a << (b & 31)) ^ (uint32_t)((int32_t)a >> 3))
FUNCTION(rotations, (a << 13 | a >> 51) + ((uint32_t)b << 5 | (uint32_t)b >> 27))
FUNCTION(products, a *b + a * 0x1234567 + (uint64_t)(int64_t)(int32_t)((uint32_t)a * 11))
FUNCTION(wide_sums, (unsigned __int128)a + b > a ? ((unsigned __int128)a * 2 + b) >> 64 : 7)
FUNCTION(wide_differences, (uint64_t)((((unsigned __int128)a << 64 | b) - ((unsigned __int128)b << 64 | a)) >> 64))
FUNCTION(wide_shifts, (uint64_t)((((unsigned __int128)a << 64) | b) >> 9))
FUNCTION(orders, ((int64_t)a < (int64_t)b) + 2 * (a < b) + 4 * (a <= b) + 8 * ((int64_t)a > (int64_t)b) + 16 * (a == b))
FUNCTION(choices, (int64_t)a < 0 ? b : (int64_t)b < 5 ? a : a ^ b)
FUNCTION(signs, (uint64_t)(int8_t)a + (uint64_t)(int16_t)b + (uint8_t)b + (uint16_t)a)
FUNCTION(signs_of_32, (uint64_t)(int32_t)a + (uint32_t)b)
FUNCTION(bit_tests, (a >> (b & 63) & 1) + (a | UINT64_C(1) << (b & 63)))
FUNCTION(negations, -a + ~b + (a ? 1 : 0))
FUNCTION(overflows, overflow(a, b) + 2 * ((int64_t)(a + b) < 0))
FUNCTION(calls, helper(a) + helper(b))
FUNCTION(loops, loop(a, b))
FUNCTION(memory, words(a, b))
FUNCTION(parts_of_words, part(a, b))

static const struct {
    const char *name;
    function *function;
} functions[] = {{"sums", sums},
                 {"bits", bits},
                 {"shifts", shifts},
                 {"shifts of 32 bits", shifts_of_32},
                 {"rotations", rotations},
                 {"products", products},
                 {"wide sums", wide_sums},
                 {"wide differences", wide_differences},
                 {"wide shifts", wide_shifts},
                 {"orders", orders},
                 {"choices", choices},
                 {"signs", signs},
                 {"signs of 32 bits", signs_of_32},
                 {"bit tests", bit_tests},
                 {"negations", negations},
                 {"overflows", overflows},
                 {"calls", calls},
                 {"loops", loops},
                 {"memory", memory},
                 {"parts of words", parts_of_words}};

static bool read_here(void *context, uint64_t address, uint64_t *word) {
    (void)context;
    memcpy(word, (const void *)address, sizeof *word); // the test's own memory
    return true;
}
static bool write_here(void *context, uint64_t address, uint64_t word) {
    (void)context;
    memcpy((void *)address, &word, sizeof word);
    return address != (uint64_t)&result;
}

static void check_functions(void) {
    const struct zg_refcount_memory memory_here = {read_here, write_here, NULL};
    uint64_t state = 7;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int round = 0; round < 300; round++) {
            uint64_t a = work_random(&state), b = work_random(&state), wanted;
            if (round % 3 == 1) a >>= 40, b >>= 56;
            if (round % 7 == 2) b = a;
            if (round % 11 == 3) a = (uint64_t) - (int64_t)(a & 3);
            functions[i].function(a, b, &wanted);
            struct zg_registers registers = registers_for((const void *)functions[i].function, a, b, (uint64_t)&result);
            result = ~wanted;
            if (!CHECK_EQUAL(zg_refcount_emulate(&registers, &memory_here, STEPS), zg_refcount_stopped,
                             functions[i].name))
                break;
            if (!CHECK_EQUAL(result, wanted, functions[i].name)) break;
        }
}

// --- counts ----------------------------------------------------------------------------------------------------------

struct counts {
    uint64_t bits, weak;
};
struct side {
    uint64_t object, reserved;
    struct counts counts;
};

static inline __attribute__((always_inline)) bool exchange(struct side *side, struct counts *expected,
                                                           struct counts wanted) {
    bool done;
#if defined(__x86_64__)
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(side->counts), "+a"(expected->bits), "+d"(expected->weak)
                     : "b"(wanted.bits), "c"(wanted.weak)
                     : "memory");
#else
    struct counts old;
    uint32_t failed;
    do {
        __asm__ volatile("ldaxp %0, %1, [%2]" : "=&r"(old.bits), "=&r"(old.weak) : "r"(&side->counts) : "memory");
        done = old.bits == expected->bits && old.weak == expected->weak;
        struct counts next = done ? wanted : old;
        __asm__ volatile("stlxp %w0, %1, %2, [%3]"
                         : "=&r"(failed)
                         : "r"(next.bits), "r"(next.weak), "r"(&side->counts)
                         : "memory");
    } while (failed);
    *expected = old;
#endif
    return done;
}

#define CHANGES(name, statement)                                                                                       \
    static __attribute__((noinline)) void name(struct side *side, uint32_t n) {                                        \
        struct counts old = {0, 0}, counts;                                                                            \
        exchange(side, &old, old);                                                                                     \
        (void)n;                                                                                                       \
        do {                                                                                                           \
            counts = old;                                                                                              \
            statement;                                                                                                 \
        } while (!exchange(side, &old, counts));                                                                       \
    }
CHANGES(retain, if ((int64_t)(counts.bits += UINT64_C(1) << 33) < 0) abort())
CHANGES(retain_many, counts.bits += (uint64_t)n << 33)
CHANGES(release, if ((int64_t)(counts.bits -= UINT64_C(1) << 33) < 0) counts.bits |= UINT64_C(1) << 32)
CHANGES(release_many, counts.bits -= (uint64_t)n << 33)
CHANGES(end, counts.bits |= UINT64_C(1) << 32)
CHANGES(unowned_retain, counts.bits = (counts.bits & ~UINT64_C(0xfffffffe)) | ((counts.bits & 0xfffffffe) + 2 * n))
CHANGES(unowned_release, counts.bits = (counts.bits & ~UINT64_C(0xfffffffe)) | ((counts.bits & 0xfffffffe) - 2 * n))
CHANGES(weak_retain, counts.weak = (uint32_t)(counts.weak + 1))
CHANGES(weak_release, counts.weak = (uint32_t)(counts.weak - 1))

static volatile uint64_t seen;
static __attribute__((noinline)) void look(struct side *side, uint32_t n) {
    struct counts counts = {0, 0};
    exchange(side, &counts, counts);
    seen = counts.bits + n;
}
static __attribute__((noinline)) void look_longer(struct side *side, uint32_t n) {
    look(side, n);
    look(side, 1);
}
static __attribute__((noinline)) void retain_object(struct side *side, uint32_t n) {
    if (side->object) retain(side, n);
}
static __attribute__((noinline)) void call_the_system(struct side *side, uint32_t n) {
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(-1L) : "rcx", "r11", "memory");
#else
    __asm__ volatile("mov x8, #-1\n svc #0" : : : "x0", "x8", "memory");
#endif
    retain(side, n);
}
static __attribute__((noinline)) void never_end(struct side *side, uint32_t n) {
    while (!*(volatile uint64_t *)&side->reserved) seen += n;
}
static __attribute__((noinline)) void read_nothing(struct side *side, uint32_t n) {
    seen = *(volatile uint64_t *)(uint64_t)n;
    retain(side, n);
}

#if defined(__aarch64__)
// Functions with the atomic instructions of armv8.1-a, and with an exclusive load and store of one word.
static __attribute__((noinline)) bool exchange_at_once(struct side *side, struct counts *expected,
                                                       struct counts wanted) {
    register uint64_t x0 __asm__("x0") = expected->bits, x1 __asm__("x1") = expected->weak;
    register uint64_t x2 __asm__("x2") = wanted.bits, x3 __asm__("x3") = wanted.weak;
    __asm__ volatile(".arch_extension lse\n caspal x0, x1, x2, x3, [%4]"
                     : "+r"(x0), "+r"(x1)
                     : "r"(x2), "r"(x3), "r"(&side->counts)
                     : "memory");
    bool done = x0 == expected->bits && x1 == expected->weak;
    *expected = (struct counts){x0, x1};
    return done;
}
static __attribute__((noinline)) void retain_at_once(struct side *side, uint32_t n) {
    struct counts old = {0, 0}, counts;
    exchange_at_once(side, &old, old);
    (void)n;
    do {
        counts = old;
        counts.bits += UINT64_C(1) << 33;
    } while (!exchange_at_once(side, &old, counts));
}
static __attribute__((noinline)) void add_at_once(struct side *side, uint32_t n) {
    __asm__ volatile(".arch_extension lse\n ldaddal %0, xzr, [%1]"
                     :
                     : "r"((uint64_t)n << 33), "r"(&side->counts)
                     : "memory");
}
static __attribute__((noinline)) void release_alone(struct side *side, uint32_t n) {
    uint64_t old, counts = n;
    uint32_t failed;
    do {
        __asm__ volatile("ldxr %0, [%1]" : "=r"(old) : "r"(&side->counts.bits) : "memory");
        counts = old - (UINT64_C(1) << 33);
        __asm__ volatile("stlxr %w0, %1, [%2]" : "=&r"(failed) : "r"(counts), "r"(&side->counts.bits) : "memory");
    } while (failed);
}
#define OF_PROCESSOR                                                                                                   \
    {"retain, at once", retain_at_once, "retain", NULL}, {"several, at once", add_at_once, "retain", NULL},            \
        {"release of one word", release_alone, "release", NULL},
#else
#define OF_PROCESSOR
#endif

static const struct {
    const char *name;
    void (*function)(struct side *, uint32_t);
    const char *access, *operation;
} changes[] = {OF_PROCESSOR{"retain", retain, "retain", NULL},
               {"several", retain_many, "retain", NULL},
               {"through the object", retain_object, "retain", NULL},
               {"release", release, "release", NULL},
               {"release of several", release_many, "release", NULL},
               {"the object ends", end, "release", NULL},
               {"an unowned reference", unowned_retain, "retain", "unowned reference"},
               {"an unowned reference goes", unowned_release, "release", "unowned reference"},
               {"a weak reference", weak_retain, "retain", "weak reference"},
               {"a weak reference goes", weak_release, "release", "weak reference"},
               {"a look", look, "read", NULL},
               {"two looks", look_longer, "read", NULL},
               {"a system call", call_the_system, NULL, NULL},
               {"an endless loop", never_end, NULL, NULL},
               {"memory that is not there", read_nothing, NULL, NULL}};

static bool same(const char *one, const char *other) { return one && other ? !strcmp(one, other) : one == other; }

static void check_counts(void) {
    // No memory is mapped at `side`: zg_refcount_operation_find must make up its contents.
    uint64_t side = UINT64_C(0x123456789000), object = (uint64_t)bytes;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct zg_registers registers = registers_for((const void *)changes[i].function, side, 3, 0);
        struct zg_counting counting = zg_refcount_operation_find(&registers, side, object);
        CHECK(same(counting.access, changes[i].access), changes[i].name);
        CHECK(same(counting.operation, changes[i].operation), changes[i].name);
    }
}

// --- uses of an object's header --------------------------------------------------------------------------------------

// No memory is mapped at these addresses, as at an object on a protected page, and in the trap regions.
#define DEAD UINT64_C(0x123456780000)
#define TRAP_CLASS (UINT64_C(0x234567800000) + ZG_TRAP_ISA_OFFSET)
#define TRAP_SIDE UINT64_C(0x345678900000)

#define HEADER_USE(name, body)                                                                                         \
    static __attribute__((noinline)) void name(volatile uint64_t *object, uint64_t n) {                                \
        (void)n;                                                                                                       \
        body                                                                                                           \
    }

static __attribute__((noinline)) void use_class(const volatile uint64_t *class) { seen = class[3]; }
HEADER_USE(call_virtually, ((void (*)(uint64_t))((volatile uint64_t *)object[0])[5])(n);)
HEADER_USE(read_in_front, seen = ((volatile uint64_t *)object[0])[-2];)
HEADER_USE(pass_class, seen = n; use_class((volatile uint64_t *)object[0]);)
HEADER_USE(compare_class, seen = object[0] == n;)
HEADER_USE(compare_counts, seen = object[1] == n;)
HEADER_USE(load_and_read, uint64_t class = object[0]; seen = object[2]; seen = *(volatile uint64_t *)class;)
HEADER_USE(load_and_write, uint64_t class = object[0]; object[2] = n; seen = *(volatile uint64_t *)class;)
HEADER_USE(load_and_loop, if (object[0]) for (;;) seen++;)
HEADER_USE(load_and_ask, if (object[0]) call_the_system(0, 0);)
HEADER_USE(count_up, if (object[1] >> 62 == 3) retain((struct side *)(object[1] << 3 & 0xffffffffffff), (uint32_t)n);)
HEADER_USE(count_down,
           if (object[1] >> 62 == 3) release((struct side *)(object[1] << 3 & 0xffffffffffff), (uint32_t)n);)
HEADER_USE(ask_count, if (object[1] >> 62 == 3) look((struct side *)(object[1] << 3 & 0xffffffffffff), (uint32_t)n);)

static const struct {
    const char *name;
    void (*function)(volatile uint64_t *object, uint64_t n);
    enum zg_trap_part part;
    int64_t offset;
    const char *access; // of a count
} header_uses[] = {{"a call", call_virtually, zg_trap_isa, 40, NULL},
                   {"a word in front", read_in_front, zg_trap_isa, -16, NULL},
                   {"a class that is passed on", pass_class, zg_trap_isa, 24, NULL},
                   {"a class that is compared", compare_class, zg_trap_none, 0, NULL},
                   {"a count that is compared", compare_counts, zg_trap_none, 0, NULL},
                   {"contents are read first", load_and_read, zg_trap_none, 0, NULL},
                   {"contents are written first", load_and_write, zg_trap_none, 0, NULL},
                   {"an endless loop", load_and_loop, zg_trap_none, 0, NULL},
                   {"a system call", load_and_ask, zg_trap_none, 0, NULL},
                   {"a retain", count_up, zg_trap_side, 16, "retain"},
                   {"a release", count_down, zg_trap_side, 16, "release"},
                   {"a uniqueness check", ask_count, zg_trap_side, 16, "read"}};

// Without a side table, as in C++ objects, only the class is a header word.
static void check_header_uses(void) {
    const struct zg_zombie_pattern swift = {.head = {TRAP_CLASS, ZG_TRAP_SIDE_BITS(TRAP_SIDE)}};
    const struct zg_zombie_pattern cxx = {.head = {TRAP_CLASS, UINT64_C(0x5555555555555555)}};
    for (size_t i = 0; i < sizeof header_uses / sizeof *header_uses; i++) {
        struct zg_registers registers = registers_for((const void *)header_uses[i].function, DEAD, 3, 0);
        struct zg_header_use use = zg_header_use_find(&registers, DEAD, &swift);
        CHECK_EQUAL(use.part, header_uses[i].part, header_uses[i].name);
        CHECK(use.part == zg_trap_none || use.offset == header_uses[i].offset, header_uses[i].name);
        CHECK(same(use.counting.access, header_uses[i].access), header_uses[i].name);
        enum zg_trap_part expected = header_uses[i].part == zg_trap_side ? zg_trap_none : header_uses[i].part;
        CHECK_EQUAL(zg_header_use_find(&registers, DEAD, &cxx).part, expected, header_uses[i].name);
    }
}

// For any bytes, the emulator returns a result, and reads memory only through these functions.
static bool read_nowhere(void *context, uint64_t address, uint64_t *word) {
    uint64_t *code = context;
    *word = address - 0x1000 < 512 ? code[(address - 0x1000) / 8] : address;
    return address < 0x100000 || address & 64;
}
static bool write_nowhere(void *context, uint64_t address, uint64_t word) {
    (void)context, (void)word;
    return address & 128;
}

static void check_random(void) {
    uint64_t state = 99, code[64];
    const struct zg_refcount_memory nowhere = {read_nowhere, write_nowhere, code};
    for (int round = 0; round < 100000; round++) {
        for (size_t i = 0; i < 64; i++) code[i] = work_random(&state);
        struct zg_registers registers = {.known = ~UINT64_C(0), .pc = 0x1000};
        for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) registers.value[i] = work_random(&state) >> i * 3 % 51;
        if (!CHECK(zg_refcount_emulate(&registers, &nowhere, 100) <= zg_refcount_stopped, "any code")) return;
    }
}

int main(void) {
    check_functions();
    check_counts();
    check_header_uses();
    check_random();
    return check_end();
}
