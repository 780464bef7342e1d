// Faults of threads that use scalable vectors or matrices: the findings, and that all registers keep their contents.
// processor: aarch64
// preload
// options: profile=fence:on_finding=continue:report_path=findings-%p.jsonl
// warning: zguard

#include <asm/sigcontext.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "findings.h"
#include "vectors.h"

enum { SIZE = 4096, PAGE = 4096, VECTORS = 32, MOST_STATE = VECTORS * VECTOR_MOST + 17 * VECTOR_MOST / 8 };

static char *block;
static bool has_kernels_frames; // false in qemu's user mode: no ESR record, and no AT_MINSIGSTKSZ

// --- findings --------------------------------------------------------------------------------------------------------

#define SVE ".arch_extension sve\n ptrue p0.b\n "
#define SME ".arch_extension sme\n smstart sm\n " SVE
#define ON(address) ::"r"(address) : "memory", "x9", "v0", "v1", "v2", "v3"
#define ON_STREAMING(address) ON(address), "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15"

static void load(void) { __asm__ volatile(SVE "ld1b { z0.b }, p0/z, [%0]" ON(block + 8)); }
static void store(void) { __asm__ volatile(SVE "st1b { z0.b }, p0, [%0]" ON(block + 8)); }
static void load_whole(void) { __asm__ volatile(SVE "ldr z0, [%0]" ON(block + 16)); }
static void store_whole(void) { __asm__ volatile(SVE "str z0, [%0]" ON(block + 16)); }
static void load_predicate(void) { __asm__ volatile(SVE "ldr p1, [%0]" ON(block + 32)); }
static void store_predicate(void) { __asm__ volatile(SVE "str p1, [%0]" ON(block + 32)); }
static void load_four(void) { __asm__ volatile(SVE "ld4b { z0.b, z1.b, z2.b, z3.b }, p0/z, [%0]" ON(block)); }
static void store_four(void) { __asm__ volatile(SVE "st4b { z0.b, z1.b, z2.b, z3.b }, p0, [%0]" ON(block)); }
static void load_repeated(void) { __asm__ volatile(SVE "ld1rqb { z0.b }, p0/z, [%0]" ON(block + 64)); }
static void load_first(void) { __asm__ volatile(SVE "setffr\n ldff1b { z0.b }, p0/z, [%0]" ON(block + 8)); }
static void load_past_caches(void) { __asm__ volatile(SVE "ldnt1b { z0.b }, p0/z, [%0]" ON(block + 8)); }
static void gather(void) { __asm__ volatile(SVE "dup z1.d, %0\n ld1d { z0.d }, p0/z, [z1.d]" ON(block + 24)); }
static void scatter(void) { __asm__ volatile(SVE "dup z1.d, %0\n st1d { z0.d }, p0, [z1.d]" ON(block + 24)); }
static void gather_from(void) {
    __asm__ volatile(SVE "mov x9, #40\n dup z1.d, x9\n ld1d { z0.d }, p0/z, [%0, z1.d]" ON(block));
}
static void scatter_from(void) {
    __asm__ volatile(SVE "mov x9, #40\n dup z1.d, x9\n st1d { z0.d }, p0, [%0, z1.d]" ON(block));
}
static void add_at_once(void) { __asm__ volatile(".arch_extension lse\n ldadd %0, x9, [%0]" ON(block)); }
static void zero_line(void) { __asm__ volatile("dc zva, %0" ON(block)); }
static void load_over_the_end(void) { __asm__ volatile(SVE "ld1b { z0.b }, p0/z, [%0]" ON(block + SIZE - 1)); }
static void store_over_the_end(void) { __asm__ volatile(SVE "st1b { z0.b }, p0, [%0]" ON(block + SIZE - 1)); }
static void load_streaming(void) {
    __asm__ volatile(SME "ld1b { z0.b }, p0/z, [%0]\n smstop sm" ON_STREAMING(block + 8));
}
static void store_streaming(void) {
    __asm__ volatile(SME "st1b { z0.b }, p0, [%0]\n smstop sm" ON_STREAMING(block + 8));
}
static void load_array(void) {
    __asm__ volatile(".arch_extension sme\n smstart za\n mov w12, #0\n ldr za[w12, 0], [%0]\n smstop za" ON(block),
                     "x12");
}
static void store_array(void) {
    __asm__ volatile(".arch_extension sme\n smstart za\n mov w12, #0\n str za[w12, 0], [%0]\n smstop za" ON(block),
                     "x12");
}

#define DEAD(access, offset) "use-after-free", access, "exact", "retired", SIZE, offset, 0
#define BEHIND(access) "heap-overflow", access, "exact", "live", SIZE, SIZE, 0

static const struct row of_dead[] = {
    {load, DEAD("read", 8)},          {store, DEAD("write", 8)},           {load_whole, DEAD("read", 16)},
    {store_whole, DEAD("write", 16)}, {load_predicate, DEAD("read", 32)},  {store_predicate, DEAD("write", 32)},
    {load_four, DEAD("read", 0)},     {store_four, DEAD("write", 0)},      {load_repeated, DEAD("read", 64)},
    {load_first, DEAD("read", 8)},    {load_past_caches, DEAD("read", 8)}, {gather, DEAD("read", 24)},
    {scatter, DEAD("write", 24)},     {gather_from, DEAD("read", 40)},     {scatter_from, DEAD("write", 40)},
    {add_at_once, DEAD("write", 0)},  {zero_line, DEAD("write", 0)},
};
static const struct row of_live[] = {{load_over_the_end, BEHIND("read")}, {store_over_the_end, BEHIND("write")}};

static void make_live(void) {
    longest_vectors();
    longest_matrices();
    block = malloc(SIZE);
    memset(block, 1, SIZE);
}

static void make_dead(void) {
    make_live();
    free(block);
}

// --- register contents -----------------------------------------------------------------------------------------------

#define FOR_REGISTERS ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
#define FOR_PREDICATES ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
#define KEEP                                                                                                           \
    "  stp d8, d9, [sp, #-64]!\n  stp d10, d11, [sp, #16]\n  stp d12, d13, [sp, #32]\n  stp d14, d15, [sp, #48]\n"
#define GIVE_BACK                                                                                                      \
    "  ldp d10, d11, [sp, #16]\n  ldp d12, d13, [sp, #32]\n  ldp d14, d15, [sp, #48]\n  ldp d8, d9, [sp], #64\n  ret\n"
#define SAVE(to)                                                                                                       \
    FOR_REGISTERS "  str z\\n, [" to ", #\\n, mul vl]\n.endr\n  addvl x9, " to                                         \
                  ", #31\n  addvl x9, x9, #1\n" FOR_PREDICATES                                                         \
                  "  str p\\n, [x9, #\\n, mul vl]\n.endr\n  rdffr p0.b\n  str p0, [x9, #16, mul vl]\n  ldr p0, [x9]\n"

// Fills all vector registers, saves them, reads a byte, and saves them again. array_around does the same with the
// matrix array ZA, whose rows come from `before`; streaming_around does it with a vector in streaming mode.
extern void vectors_around(const char *byte, char *before, char *after);
extern void array_around(const char *byte, const char *before, char *after, uint64_t rows);
extern void streaming_around(const char *byte, char *before, char *after);
__asm__(".text\n.arch_extension sve\n.arch_extension sme\n"
        "vectors_around:\n" KEEP FOR_REGISTERS "  index z\\n\\().b, #(\\n - 16), #3\n.endr\n" FOR_PREDICATES
        "  mov x9, #(5 * \\n + 1)\n  whilelo p\\n\\().b, xzr, x9\n.endr\n  wrffr p7.b\n" SAVE(
            "x1") "  ldrb w9, [x0]\n" SAVE("x2") GIVE_BACK
        "array_around:\n  smstart za\n  mov w12, #0\n"
        "1: ldr za[w12, 0], [x1]\n  addsvl x1, x1, #1\n  add w12, w12, #1\n  cmp w12, w3\n  b.lo 1b\n"
        "  ldrb w9, [x0]\n  mov w12, #0\n"
        "2: str za[w12, 0], [x2]\n  addsvl x2, x2, #1\n  add w12, w12, #1\n  cmp w12, w3\n  b.lo 2b\n"
        "  smstop za\n  ret\n"
        "streaming_around:\n" KEEP
        "  smstart sm\n  index z17.b, #3, #5\n  str z17, [x1]\n  ldrb w9, [x0]\n  str z17, [x2]\n"
        "  smstop sm\n" GIVE_BACK);

static char state_before[MOST_STATE], state_after[MOST_STATE];
static char array_before[VECTOR_MOST * VECTOR_MOST], array_after[VECTOR_MOST * VECTOR_MOST];

// Returns 1 if a byte differs. The child exits with this status.
static int differs(const char *before, const char *after, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (before[i] != after[i]) {
            fprintf(stderr, "byte %d: %d before, %d after\n", (int)i, before[i], after[i]);
            return 1;
        }
    return 0;
}

static void keep_vectors(void) {
    uint64_t bytes = longest_vectors();
    vectors_around(block + 4, state_before, state_after);
    if (differs(state_before, state_after, VECTORS * bytes + 17 * bytes / 8)) _exit(1);
}

static void keep_array(void) {
    uint64_t bytes = longest_matrices();
    for (uint64_t i = 0; i < bytes * bytes; i++) array_before[i] = (char)(i * 7 + i / bytes);
    array_around(block + 4, array_before, array_after, bytes);
    if (differs(array_before, array_after, bytes * bytes)) _exit(1);
}

static void keep_streaming(void) {
    uint64_t bytes = longest_matrices();
    streaming_around(block + 4, state_before, state_after);
    if (differs(state_before, state_after, bytes) || state_before[1] != 8) _exit(1);
}

static const struct row keeping[] = {{keep_vectors, DEAD("read", 4)}};
static const struct row streaming[] = {
    {load_streaming, DEAD("read", 8)}, {store_streaming, DEAD("write", 8)}, {keep_streaming, DEAD("read", 4)}};
static const struct row with_array[] = {
    {load_array, DEAD("read", 0)}, {store_array, DEAD("write", 0)}, {keep_array, DEAD("read", 4)}};

// --- the program's own handler ---------------------------------------------------------------------------------------

static char *closed; // the handler makes this page accessible
static uint64_t seen_bytes, seen_wrong, seen_syndrome, handled;

static const struct _aarch64_ctx *next_record(const struct _aarch64_ctx *record) {
    if (record->magic != EXTRA_MAGIC) return (const void *)((const char *)record + record->size);
    return (const void *)((const struct extra_context *)record)->datap;
}

// Checks the vectors in the signal frame. Overwrites one, and its first 128 bits in the FPSIMD record, too.
static void on_fault(int signal, siginfo_t *info, void *context) {
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
    const struct sve_context *vectors = NULL;
    struct fpsimd_context *first_bits = NULL;
    (void)signal, (void)info;
    handled++;
    mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
    for (const struct _aarch64_ctx *record = (const void *)machine->__reserved; record->magic;
         record = next_record(record)) {
        if (record->magic == ESR_MAGIC) seen_syndrome = ((const struct esr_context *)record)->esr;
        if (record->magic == FPSIMD_MAGIC) first_bits = (void *)record;
        if (record->magic == SVE_MAGIC) vectors = (const void *)record;
    }
    if (!vectors || !first_bits) return;
    seen_bytes = vectors->vl;
    uint32_t quads = sve_vq_from_vl(vectors->vl);
    if (vectors->head.size < SVE_SIG_CONTEXT_SIZE(quads)) return; // the frame holds no vector contents
    for (int i = 0; i < VECTORS; i++) {
        const unsigned char *lanes = (const unsigned char *)vectors + SVE_SIG_ZREG_OFFSET(quads, i);
        for (uint32_t j = 0; j < vectors->vl; j++) seen_wrong += lanes[j] != (unsigned char)(i - 16 + (int)j * 3);
    }
    memset((char *)vectors + SVE_SIG_ZREG_OFFSET(quads, 20), 99, vectors->vl);
    memset(&first_bits->vregs[20], 99, sizeof first_bits->vregs[20]);
}

static void check_own_handler(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    uint64_t bytes = longest_vectors();
    closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &before);
    vectors_around(closed, state_before, state_after);
    sigaction(SIGSEGV, &before, NULL);
    CHECK_EQUAL(handled, 1, "the program's handler is called");
    if (has_kernels_frames) CHECK_EQUAL(seen_syndrome >> 26, 0x24, "the kernel says that an access to data failed");
    CHECK(!(seen_syndrome & 1 << 6), "one that reads");
    CHECK_EQUAL(seen_bytes, bytes, "and finds vectors as long as they are");
    CHECK_EQUAL(seen_wrong, 0, "with what is in them");
    memset(state_before + 20 * bytes, 99, bytes);
    CHECK(!differs(state_before, state_after, VECTORS * bytes + 17 * bytes / 8),
          "and what it writes is in them afterwards");
    munmap(closed, PAGE);
}

// First-faulting and non-faulting loads report their progress in a register: no finding.
static void check_loads_that_stop(void) {
    uint64_t first, none, bytes = longest_vectors();
    make_live();
    __asm__ volatile(SVE "setffr\n ldff1b { z0.b }, p0/z, [%2]\n rdffr p1.b\n cntp %0, p0, p1.b\n"
                         "setffr\n ldnf1b { z0.b }, p0/z, [%3]\n rdffr p1.b\n cntp %1, p0, p1.b"
                     : "=&r"(first), "=&r"(none)
                     : "r"(block + SIZE - 5), "r"(block + SIZE)
                     : "memory", "v0");
    CHECK(first == 5 && none == 0 && bytes > 5, "they stop at the block's end");
    free(block);
}

#define CHECK_ROWS(rows, prepare) check_rows(rows, sizeof rows / sizeof rows[0], prepare)

int main(void) {
    char path[100];
    if (!has_vectors()) {
        CHECK(!longest_vectors(), "a processor without vectors");
        return check_end();
    }
    has_kernels_frames = getauxval(AT_MINSIGSTKSZ) != 0;
    CHECK_ROWS(of_dead, make_dead);
    CHECK_ROWS(of_live, make_live);
    CHECK_ROWS(keeping, make_dead);
    if (has_matrices()) {
        CHECK_ROWS(streaming, make_dead);
        CHECK_ROWS(with_array, make_dead);
    }
    check_own_handler();
    check_loads_that_stop();
    snprintf(path, sizeof path, "findings-%d.jsonl", (int)getpid());
    CHECK(access(path, F_OK) != 0, "nothing else is found");
    unlink(path);
    return check_end();
}
