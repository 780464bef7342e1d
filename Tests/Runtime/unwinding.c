// Captured stacks equal libunwind's, and every capture from a cache equals a walk from scratch.
// link: runtime
// options: isolated_per_context=0:stack_bytes=1g:stack_overhead=100%
// with: unwind_frames.cpp
// libs: -lunwind -lstdc++ -lm
// timeout: 60

#define UNW_LOCAL_ONLY
#include <alloca.h>
#include <libunwind.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "process/ready.h"
#include "process/runtime.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "stacks/depot.h"
#include "stacks/unwind_cfi.h"
#include "threads/capture.h"
#include "threads/thread.h"
#if defined(__aarch64__)
#include "vectors.h"
#endif

enum { MOST = 512 };
static uint64_t compared, captures;

extern void cxx_frames(void (*point)(void *), void *context, int depth);

// Stores libunwind's stack from the caller's caller outwards; returns the number of frames. As the runtime does, stores
// pc plus one for a frame that a signal interrupted.
static __attribute__((noinline)) int walk_with_libunwind(uint64_t *frames) {
    unw_cursor_t cursor;
    unw_context_t context;
    unw_word_t pc;
    bool was_marked = false;
    int count = 0;
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    for (int i = 0; count < MOST; i++) {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || !pc) break;
        // libunwind marks the interrupted frame, to which the step through the signal frame leads. On arm64 libunwind
        // marks the frame before, which is the signal trampoline's.
        bool is_marked = unw_is_signal_frame(&cursor) > 0;
        if (i >= 2) frames[count++] = pc + (ZG_ARCH_SIGNAL_RETURN_BYTES ? was_marked : is_marked);
        was_marked = is_marked;
        if (unw_step(&cursor) <= 0) break;
    }
    return count;
}

// On arm64 appends the outermost frame, whose CFI has no return address: libunwind omits it. Returns the frame count.
static int with_outermost(uint64_t *frames, int count, const uint64_t *ours, int our_count) {
    struct zg_module module;
    struct zg_cfi_row row;
    if (ZG_ARCH_RA != 30 || our_count != count + 1 || !zg_module_find_unwind(ours[count] - 1, &module) ||
        !zg_cfi_find_row(&module, ours[count] - 1, &row) || row.registers[ZG_ARCH_RA].how != zg_cfi_undefined)
        return count;
    frames[count] = ours[count];
    return count + 1;
}

static void show(const char *who, const uint64_t *frames, int count) {
    fprintf(stderr, "  %s:", who);
    for (int i = 0; i < count && i < 24; i++) fprintf(stderr, " %" PRIx64, frames[i]);
    fprintf(stderr, " (%d)\n", count);
}

// Captures the stack here as malloc would, and compares it with libunwind's.
static __attribute__((noinline)) void compare(const char *where) {
    const uint64_t *frame = ZG_ARCH_FRAME();
    uint64_t expected[MOST], captured[MOST];
    int wanted = walk_with_libunwind(expected);
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!CHECK(thread, "the thread is entered")) return;
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    int depth = zg_config.stack_depth;
    for (int round = 0; round < 3; round++) { // the first round fills the caches, later ones use them
        uint32_t stack = zg_capture(thread, true);
        int got = zg_depot_get(stack, captured, ZG_STACK_MAX_DEPTH + 16);
        wanted = with_outermost(expected, wanted, captured, got);
        int least = wanted < depth ? wanted : depth;
        bool equal = got >= least && got <= wanted;
        for (int i = 0; equal && i < got; i++) equal = captured[i] == expected[i];
        if (!CHECK(equal, where)) {
            show("libunwind", expected, wanted);
            show("captured ", captured, got);
            break;
        }
    }
    struct zg_walk walk;
    zg_unwind_fast(caller, &thread->stack, depth, &walk);
    wanted = with_outermost(expected, wanted, walk.frames, walk.count);
    bool equal = walk.count == (wanted < depth ? wanted : depth);
    for (int i = 0; equal && i < walk.count; i++) equal = walk.frames[i] == expected[i];
    if (!CHECK(equal, where)) {
        show("libunwind", expected, wanted);
        show("walked   ", walk.frames, walk.count);
    }
    zg_thread_leave(thread);
    compared++;
}

static void point(void *where) { compare(where); }

// --- the program's own frames ---

static __attribute__((noinline)) int recurse(int depth, const char *where) {
    volatile char room[100];
    room[depth % 100] = 1;
    if (depth % 7 == 0) compare(where);
    return depth ? recurse(depth - 1, where) + room[depth % 100] : 0;
}

static __attribute__((noinline)) int recurse_with_alloca(int depth) {
    char *room = alloca((size_t)depth * 24 + 8);
    memset(room, 1, (size_t)depth * 24 + 8);
    compare("recursion with alloca");
    return depth ? recurse_with_alloca(depth - 1) + room[depth] : 0;
}

// Two stacks with the same return addresses at the same places. One frame begins at another address in each stack, and
// only the frame pointer saved below that frame tells the stacks apart.
static uint64_t shifted_at, shifted_wanted;
static volatile int shifted_bytes = 16;
static void (*volatile shifted_entry)(size_t);

static __attribute__((noinline)) void shifted_innermost(void) {
    char *here = alloca((size_t)shifted_bytes); // alloca needs a frame pointer, so this function saves the caller's
    shifted_at = (uint64_t)here;
    if (shifted_at == shifted_wanted) compare("a frame that begins elsewhere");
    __asm__ volatile("" ::"r"(here) : "memory");
}

static __attribute__((noinline)) void shifted_room(size_t bytes) {
    char *room = alloca(bytes);
    __asm__ volatile("" ::"r"(room) : "memory");
    shifted_innermost();
    __asm__ volatile("" ::"r"(room) : "memory");
}

static __attribute__((noinline)) void shifted_wrapper(size_t bytes) {
    shifted_room(bytes);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void shifted_call(void (*entry)(size_t), size_t bytes) {
    shifted_entry = entry;
    shifted_entry(bytes);
    __asm__ volatile("" ::: "memory");
}

static void shifted_frames(void) {
    enum { BYTES = 2048 };
    size_t less = BYTES;
    shifted_wanted = 0;
    shifted_call(shifted_room, BYTES);
    uint64_t at = shifted_at;
    while (less > 16 && (shifted_call(shifted_wrapper, less), shifted_at != at)) less -= 16;
    if (!CHECK(shifted_at == at, "both stacks end at the same place")) return;
    shifted_wanted = at;
    for (int i = 0; i < 16; i++)
        // Calls both functions from one call site.
        shifted_call(i % 2 ? shifted_wrapper : shifted_room, i % 2 ? less : BYTES);
}

static int order(const void *a, const void *b) {
    compare("a callback from libc");
    return *(const int *)a - *(const int *)b;
}

static void visit(const void *node, VISIT which, int depth) {
    (void)node, (void)which, (void)depth;
    compare("a callback from twalk");
}

static void callbacks(void) {
    int numbers[20];
    for (int i = 0; i < 20; i++) numbers[i] = (i * 7) % 20;
    qsort(numbers, 20, sizeof *numbers, order);
    int key = 13;
    CHECK(bsearch(&key, numbers, 20, sizeof *numbers, order) == &numbers[13], "bsearch finds");
    void *root = NULL;
    for (int i = 0; i < 6; i++) tsearch(&numbers[(i * 5) % 20], &root, order);
    twalk(root, visit);
    for (int i = 0; i < 6; i++) tdelete(&numbers[(i * 5) % 20], &root, order);
}

static void on_signal(int number) {
    (void)number;
    compare("a signal handler's frame");
    recurse(8, "below a signal handler");
}

static __attribute__((noinline)) void raise_in_depth(int depth) {
    volatile int room[10];
    room[0] = depth;
    if (depth) raise_in_depth(depth - 1);
    else raise(SIGUSR1);
    (void)room[0];
}

static void signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    raise_in_depth(0);
    raise_in_depth(3);
}

#if defined(__aarch64__)
// Signal frames with full vector state. A system call discards that state, so the signals of this test have to be
// faults.
enum { BREAK_BYTES = 4, PAGE = 4096, VECTORS = 32 };
static char *closed;
static uint64_t vector_bytes, vector_frames;

static void on_fault(int number, siginfo_t *info, void *context) {
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    compare("a frame with vectors");
    recurse(8, "below a frame with vectors");
    if (number == SIGTRAP) machine->pc += BREAK_BYTES;
    else mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
    // The end of the signal frame is known if the handler runs on the interrupted stack.
    if (number == SIGTRAP) vector_frames += machine->sp - (uint64_t)info >= VECTORS * vector_bytes;
}

static __attribute__((noinline)) void fault_in_depth(int depth) {
    volatile int room[10];
    room[0] = depth;
    if (depth) fault_in_depth(depth - 1);
    else if (vector_bytes)
        __asm__ volatile(
            ".arch_extension sve\n ptrue p0.b\n dup z0.b, #3\n setffr\n brk #1\n ldrb w9, [%0]" ::"r"(closed)
            : "memory", "x9", "v0");
    else __asm__ volatile("brk #1\n ldrb w9, [%0]" ::"r"(closed) : "memory", "x9");
    (void)room[0];
}

static void vectors_in_frames(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, trap, fault;
    vector_bytes = longest_vectors();
    sigaction(SIGTRAP, &action, &trap);
    sigaction(SIGSEGV, &action, &fault);
    for (int depth = 0; depth < 4; depth++) {
        closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fault_in_depth(depth);
        munmap(closed, PAGE);
    }
    sigaction(SIGTRAP, &trap, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    CHECK_EQUAL(vector_frames, 4, "frames hold all of the vectors");
}
#endif

static void *in_thread(void *argument) {
    recurse(20, "a thread");
    callbacks();
    cxx_frames(point, "C++ frames in a thread", 10);
    return argument;
}

// --- random shapes: every capture against a walk from scratch ---

static uint64_t shape_state = 42;
static uint64_t shape_wrong;

static __attribute__((noinline)) void capture_and_walk(void) {
    const uint64_t *frame = ZG_ARCH_FRAME();
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    uint64_t captured[ZG_STACK_MAX_DEPTH + 32];
    struct zg_walk walk;
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    int got = zg_depot_get(zg_capture(thread, true), captured, ZG_STACK_MAX_DEPTH);
    zg_unwind_fast(caller, &thread->stack, zg_config.stack_depth, &walk);
    bool equal = got >= walk.count;
    for (int i = 0; equal && i < walk.count; i++) equal = captured[i] == walk.frames[i];
    if (!equal && shape_wrong++ < 3) {
        show("walked  ", walk.frames, walk.count);
        show("captured", captured, got);
    }
    captures++;
    zg_thread_leave(thread);
    __asm__ volatile("" ::: "memory");
}

static void shape(int budget);

static __attribute__((noinline)) void shape_small(int budget) {
    shape(budget - 1);
    __asm__ volatile("" ::: "memory");
}
static __attribute__((noinline)) void shape_wide(int budget) {
    volatile char room[300];
    room[0] = 1;
    shape(budget - 1);
    shape(budget - 2);
    (void)room[0];
}
static __attribute__((noinline)) void shape_alloca(int budget) {
    volatile char *room = alloca((size_t)(budget & 7) * 32 + 16);
    room[0] = 1;
    shape(budget - 1);
    (void)room[0];
}
static __attribute__((noinline, optnone)) void shape_framed(int budget) {
    shape(budget - 1);
    capture_and_walk();
}

static __attribute__((noinline)) void shape(int budget) {
    uint64_t r = work_random(&shape_state);
    if (budget <= 0) {
        for (uint64_t i = 0; i <= r % 4; i++) capture_and_walk();
        return;
    }
    if (r % 11 == 0) capture_and_walk();
    switch (r >> 20 & 3) {
    case 0: shape_small(budget); break;
    case 1: shape_wide(budget); break;
    case 2: shape_alloca(budget); break;
    default: shape_framed(budget); break;
    }
    if ((r >> 30) % 5 == 0) capture_and_walk();
}

// --- other stacks ---

static ucontext_t main_context, coroutine_contexts[4];
static int coroutine_steps;

static __attribute__((noinline)) void coroutine_depth(int depth) {
    volatile char room[64];
    room[0] = 1;
    if (depth) coroutine_depth(depth - 1);
    else {
        const uint64_t *frame = ZG_ARCH_FRAME();
        struct zg_thread *thread = zg_thread_enter(frame);
        uint64_t frames[ZG_STACK_MAX_DEPTH + 32];
        int count = zg_depot_get(zg_capture(thread, true), frames, ZG_STACK_MAX_DEPTH);
        CHECK(count >= 1 && frames[0] == frame[1], "a capture in a coroutine begins with its caller");
        zg_thread_leave(thread);
        coroutine_steps++;
    }
    (void)room[0];
}

static void coroutine(int number) {
    for (int i = 0; i < 50; i++) {
        coroutine_depth(i % 9);
        swapcontext(&coroutine_contexts[number], &main_context);
    }
}

static void coroutines(void) {
    for (int i = 0; i < 4; i++) {
        char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&coroutine_contexts[i]);
        coroutine_contexts[i].uc_stack.ss_sp = stack;
        coroutine_contexts[i].uc_stack.ss_size = 65536;
        coroutine_contexts[i].uc_link = &main_context;
        makecontext(&coroutine_contexts[i], (void (*)(void))coroutine, 1, i);
    }
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 4; j++) {
            swapcontext(&main_context, &coroutine_contexts[j]);
            compare("between coroutines");
        }
    CHECK_EQUAL(coroutine_steps, 200, "coroutines ran");
}

static void on_other_stack(int number) {
    (void)number;
    compare("a handler on an alternate stack");
}

static void alternate_stack(void) {
    stack_t stack = {.ss_sp = malloc(262144), .ss_size = 262144}, old;
    struct sigaction action = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, &old);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    raise(SIGUSR2);
    sigaltstack(&old, NULL);
}

// Registers of a crashed program may have any values: the unwinder probes memory before it reads.
static void wild_registers(void) {
    int ended = 0;
    for (uint64_t distance = 0; distance < 64; distance++)
        for (int frame = 0; frame < 2; frame++) {
            uint64_t wild = distance * 8 - 256, frames[8]; // addresses around 0
            struct zg_registers registers = {.pc = frame ? (uint64_t)recurse : (uint64_t)shifted_innermost + 8,
                                             .known = ~UINT64_C(0)};
            for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) registers.value[i] = wild;
            ended += zg_unwind_full(&registers, true, frames, 8) >= 1;
        }
    CHECK_EQUAL(ended, 128, "a walk from wild registers ends");
}

int main(void) {
    zg_runtime_start();
    CHECK(zg_ready(), "the runtime starts");
    compare("main");
    recurse(25, "recursion");
    recurse(300, "recursion beyond the depth limit");
    recurse(25, "recursion again");
    recurse_with_alloca(20);
    shifted_frames();
    callbacks();
    cxx_frames(point, "C++ frames", 30);
    cxx_frames(point, "C++ frames again", 30);
    signals();
#if defined(__aarch64__)
    vectors_in_frames();
#endif
    alternate_stack();
    coroutines();
    wild_registers();
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, in_thread, NULL);
        if (i % 2) pthread_join(threads[i - 1], NULL), pthread_join(threads[i], NULL);
    }
    zg_config.stack_depth = 5;
    recurse(40, "a small depth limit");
    callbacks();
    zg_config.stack_depth = 128;
    recurse(100, "the largest depth limit");
    zg_config.stack_depth = 32;
    while (captures < 1000000) shape(3 + (int)(work_random(&shape_state) % 40) / 2);
    CHECK_EQUAL(shape_wrong, 0, "every one of a million captures is the walk from scratch");
    zg_unwind_invalidate_rules();
    recurse(20, "after the rules were forgotten");
    CHECK(compared > 500, "many points were compared");
    return check_end();
}
