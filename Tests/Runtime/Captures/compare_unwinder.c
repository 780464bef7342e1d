// Observer of a test build: compares each captured stack with libunwind's stack, and times both.
//
// ZG_CAPTURES            existing directory; each process writes a file of counters and a log of differing stacks there
// ZG_CAPTURES_MODE       compare: both unwind each chosen event, in random order; the one that goes first is timed
//                        ours, libunwind: only that unwinder runs, as in a product without the other. libunwind's stack
//                        is also put into the depot, timed separately, because our captures include this step
// ZG_CAPTURES_EVERY      chooses every Nth event; other events are unwound without a comparison and without a timer
//
// The counters lie in a shared mapping of the file, so that they survive every kind of process end; a forked child adds
// to its parent's. libunwind is loaded with RTLD_LOCAL, because it defines functions that C++ exceptions use. All code
// here runs while the thread is marked as in the runtime, so libunwind's allocations come from libc.

#define _GNU_SOURCE
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "images/module.h"
#include "pages/private_pages.h"
#include "platform/os.h"
#include "settings/config.h"
#include "stacks/depot.h"
#include "stacks/unwind_cfi.h"
#include "threads/capture.h"
#include "threads/thread.h"
#undef zg_capture

// Counters. The first group exists once for each source of a capture: stack cache, stack diff cache, walk.
#define ANSWER_COUNTS(X)                                                                                               \
    X(captures)                                                                                                        \
    X(compared)                                                                                                        \
    X(frames) /* in compared captures */                                                                               \
    X(equal)                                                                                                           \
    X(equal_to_cursor) /* equal to unw_step's stack, but not to unw_backtrace's */                                     \
    X(longer)          /* libunwind's stack ends earlier */                                                            \
    X(invented)        /* libunwind's first differing frame is not code */                                             \
    X(generated)       /* our last frame or libunwind's next one is in no image */                                     \
    X(shorter)                                                                                                         \
    X(different)                                                                                                       \
    X(timed)                                                                                                           \
    X(ticks)
#define PROCESS_COUNTS(X)                                                                                              \
    X(unreached) /* not compared: libunwind's stack ends inside this library */                                        \
    X(nested)    /* captures while libunwind runs: has to be 0 */                                                      \
    X(unwinder_timed)                                                                                                  \
    X(unwinder_ticks)                                                                                                  \
    X(unwinder_frames) /* in timed walks */                                                                            \
    X(unwinder_own)    /* this library's frames in front of those */                                                   \
    X(put_ticks)       /* time to put the stack into the depot */                                                      \
    X(interrupted)     /* not timed, because implausibly slow */                                                       \
    X(clock_ticks)                                                                                                     \
    X(clock_ns)

#define FIELD(name) uint64_t name;
struct counts {
    struct answer_counts {
        ANSWER_COUNTS(FIELD)
    } answers[3];
    PROCESS_COUNTS(FIELD)
};

enum { DEPTH_MOST = ZG_STACK_MAX_DEPTH, OWN_FRAMES = 12, SUSPECTS_LOGGED = 10, CLOCK_EVERY = 256 };
#define SLOWEST_TICKS (UINT64_C(1) << 20)

static enum mode { mode_idle, mode_compare, mode_ours, mode_libunwind } mode;
static struct counts before_start, *counts = &before_start;
static uint64_t every = 1, timer_ticks, first_ticks, first_ns;
static char log_name[512];

static __thread enum zg_answer answer;
static __thread uint64_t events;
static __thread bool is_inside;

// libunwind's functions are macros: NAME_OF expands such a macro to its symbol name.
#define TEXT(word) #word
#define NAME_OF(macro) TEXT(macro)
static int (*backtrace_of)(void **, int);
#if defined(__aarch64__)
#define GET_CONTEXT(context) unw_tdep_getcontext(context) // not a function: the macro contains the code
#else
static int (*get_context)(unw_context_t *);
#define GET_CONTEXT(context) get_context(context)
#endif
static int (*init_local)(unw_cursor_t *, unw_context_t *);
static int (*step)(unw_cursor_t *);
static int (*get_register)(unw_cursor_t *, int, unw_word_t *);
static int (*is_signal_frame)(unw_cursor_t *);
static int (*set_caching)(unw_addr_space_t, unw_caching_policy_t);

static void add(uint64_t *count, uint64_t n) { __atomic_fetch_add(count, n, __ATOMIC_RELAXED); }

void zg_observe_answer(enum zg_answer who) { answer = who; }

// --- time ------------------------------------------------------------------------------------------------------------

// Reads the time after earlier instructions have completed and before later ones start.
ZG_INLINE uint64_t read_ticks(void) {
#ifdef __x86_64__
    __builtin_ia32_lfence();
#endif
    uint64_t ticks = zg_arch_ticks();
#ifdef __x86_64__
    __builtin_ia32_lfence();
#endif
    return ticks;
}

// Returns how long it takes to read the time.
static uint64_t measure_timer(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t begin = read_ticks();
        least = zg_min(least, read_ticks() - begin);
    }
    return least;
}

static uint64_t without_timer(uint64_t ticks) { return ticks > timer_ticks ? ticks - timer_ticks : 0; }

// Returns false and counts the case if the time is so long that the thread must have been preempted.
static bool is_true_time(uint64_t ticks) {
    if (ticks > SLOWEST_TICKS) add(&counts->interrupted, 1);
    return ticks <= SLOWEST_TICKS;
}

static void note_clock(void) {
    __atomic_store_n(&counts->clock_ticks, zg_arch_ticks() - first_ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->clock_ns, zg_os_clock_ns(CLOCK_MONOTONIC) - first_ns, __ATOMIC_RELAXED);
}

// --- libunwind's answer ----------------------------------------------------------------------------------------------

struct answer_of_unwinder {
    int own, count; // own: number of this library's frames, which come first; count: those from the caller outwards
    uint64_t frames[OWN_FRAMES + DEPTH_MOST];
};

static bool find_caller(struct answer_of_unwinder *theirs, uint64_t caller, int got) {
    for (theirs->own = 0; theirs->own < got && theirs->frames[theirs->own] != caller; theirs->own++) {
    }
    theirs->count = got - theirs->own;
    return theirs->count > 0;
}

// Walks with unw_step. As the runtime does, stores pc plus one for a frame that a signal interrupted. libunwind marks
// this frame as a signal frame; on arm64 it marks the signal trampoline instead, which comes before the frame.
static ZG_NOINLINE bool walk_with_cursor(struct answer_of_unwinder *theirs, uint64_t caller) {
    unw_cursor_t cursor;
    unw_context_t context;
    unw_word_t pc;
    int got = 0;
    bool was_marked = false;
    GET_CONTEXT(&context);
    init_local(&cursor, &context);
    while (got < OWN_FRAMES + (int)zg_config.stack_depth && get_register(&cursor, UNW_REG_IP, &pc) >= 0 && pc) {
        bool is_marked = is_signal_frame(&cursor) > 0;
        theirs->frames[got++] = pc + (ZG_ARCH_SIGNAL_RETURN_BYTES ? was_marked : is_marked);
        was_marked = is_marked;
        if (step(&cursor) <= 0) break;
    }
    return find_caller(theirs, caller, got);
}

// --- comparison ------------------------------------------------------------------------------------------------------

enum verdict {
    verdict_equal,
    verdict_longer,
    verdict_invented,
    verdict_generated,
    verdict_shorter,
    verdict_different,
};

static bool is_in_image(uint64_t pc) {
    struct zg_module module;
    return zg_module_find_unwind(pc - 1, &module);
}

static ZG_COLD bool is_code(uint64_t pc) {
    // cache of the last mapping found, because reading the maps of a large program takes milliseconds
    static __thread uint64_t low, high;
    if (pc - 1 - low < high - low) return true;
    if (!zg_os_is_readable(pc - 1, pc)) return false;
    char line[512], permissions[5];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (!found && maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &low, &high, permissions) == 3)
            found = pc - 1 - low < high - low && permissions[2] == 'x';
    if (maps) fclose(maps);
    if (!found) low = high = 0;
    return found;
}

// Returns true for the outermost frame on arm64, which libunwind omits there: its CFI has no return address.
static bool is_outermost(uint64_t pc) {
    struct zg_module module;
    struct zg_cfi_row row;
    return ZG_ARCH_RA == 30 && zg_module_find_unwind(pc - 1, &module) && zg_cfi_find_row(&module, pc - 1, &row) &&
           row.registers[ZG_ARCH_RA].how == zg_cfi_undefined;
}

static enum verdict judge(const uint64_t *ours, int our_count, const struct answer_of_unwinder *theirs) {
    const uint64_t *frames = theirs->frames + theirs->own;
    int depth = zg_config.stack_depth, count = theirs->count < depth ? theirs->count : depth, same = 0;
    while (same < our_count && same < count && ours[same] == frames[same]) same++;
    bool lacks_outermost = same == count && our_count == count + 1 && is_outermost(ours[count]);
    if (same == count) return same == our_count || lacks_outermost ? verdict_equal : verdict_longer;
    // In a function without unwind information, both unwinders follow the frame pointer register. The register may hold
    // any number, and libunwind does not check whether the word that it takes for a return address points to code.
    if (!is_code(frames[same])) return verdict_invented;
    if (same < our_count) return verdict_different;
    bool is_generated = same && !(is_in_image(ours[same - 1]) && is_in_image(frames[same]));
    return is_generated ? verdict_generated : verdict_shorter;
}

static void log_stack(int file, const char *who, const uint64_t *frames, int count) {
    dprintf(file, "  %s (%d)\n", who, count);
    for (int i = 0; i < count; i++) {
        Dl_info image = {0};
        dladdr((void *)(frames[i] - 1), &image);
        dprintf(file, "    %2d %012lx %s+0x%lx %s\n", i, frames[i], image.dli_fname ? basename(image.dli_fname) : "?",
                frames[i] - (uint64_t)image.dli_fbase, image.dli_sname ? image.dli_sname : "");
    }
}

static ZG_COLD void log_suspect(enum verdict verdict, const uint64_t *ours, int our_count,
                                const struct answer_of_unwinder *theirs) {
    static const char *const names[] = {"cache", "trail", "walk"};
    static uint32_t logged[verdict_different + 1];
    if (__atomic_fetch_add(&logged[verdict], 1, __ATOMIC_RELAXED) >= SUSPECTS_LOGGED) return;
    const char *what = verdict == verdict_different ? "different"
                       : verdict == verdict_shorter ? "shorter"
                                                    : "generated";
    int file = open(log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return;
    dprintf(file, "%s, answered by the %s, thread %d of process %d\n", what, names[answer], zg_os_tid(), zg_os_pid());
    log_stack(file, "ours", ours, our_count);
    log_stack(file, "libunwind", theirs->frames + theirs->own, theirs->count);
    close(file);
}

static void compare(uint32_t stack, uint64_t caller, struct answer_of_unwinder *theirs, int got) {
    struct answer_counts *mine = &counts->answers[answer];
    uint64_t ours[DEPTH_MOST];
    int our_count = zg_depot_get(stack & ~ZG_STACK_ISOLATE, ours, zg_config.stack_depth);
    bool by_cursor = false;
    enum verdict verdict = verdict_different;
    if (find_caller(theirs, caller, got)) verdict = judge(ours, our_count, theirs);
    if (verdict != verdict_equal) {
        by_cursor = true;
        if (!walk_with_cursor(theirs, caller)) {
            add(&counts->unreached, 1);
            return;
        }
        verdict = judge(ours, our_count, theirs);
    }
    add(&mine->compared, 1);
    add(&mine->frames, (uint64_t)our_count);
    if (verdict >= verdict_generated) log_suspect(verdict, ours, our_count, theirs);
    switch (verdict) {
    case verdict_equal: add(by_cursor ? &mine->equal_to_cursor : &mine->equal, 1); break;
    case verdict_longer: add(&mine->longer, 1); break;
    case verdict_invented: add(&mine->invented, 1); break;
    case verdict_generated: add(&mine->generated, 1); break;
    case verdict_shorter: add(&mine->shorter, 1); break;
    case verdict_different: add(&mine->different, 1); break;
    }
}

// --- the observer ----------------------------------------------------------------------------------------------------

ZG_INLINE uint32_t capture(struct zg_thread *thread, bool allocates, bool is_timed) {
    answer = zg_answer_cache;
    uint64_t begin = is_timed ? read_ticks() : 0;
    uint32_t stack = zg_capture(thread, allocates);
    uint64_t ticks = is_timed ? read_ticks() - begin : 0;
    struct answer_counts *mine = &counts->answers[answer];
    add(&mine->captures, 1);
    if (is_timed && is_true_time(ticks)) {
        add(&mine->timed, 1);
        add(&mine->ticks, without_timer(ticks));
    }
    return stack;
}

// libunwind's walk begins here, not in the API entry's caller. The time for the frames between is subtracted, in
// proportion to their number.
ZG_INLINE int ask_unwinder(struct answer_of_unwinder *theirs, uint64_t caller, bool is_timed) {
    int depth = zg_config.stack_depth;
    uint64_t begin = is_timed ? read_ticks() : 0;
    int got = backtrace_of((void **)theirs->frames, OWN_FRAMES + depth);
    uint64_t ticks = is_timed ? read_ticks() - begin : 0;
    if (!find_caller(theirs, caller, got) || !is_timed) return got;
    uint64_t wanted = zg_min((uint64_t)theirs->count, (uint64_t)depth);
    if (!is_true_time(ticks)) return got;
    add(&counts->unwinder_timed, 1);
    add(&counts->unwinder_ticks, without_timer(ticks) * wanted / (uint64_t)got);
    add(&counts->unwinder_frames, wanted);
    add(&counts->unwinder_own, (uint64_t)theirs->own);
    return got;
}

static uint32_t answer_by_unwinder(uint64_t caller, bool is_timed) {
    struct answer_of_unwinder theirs;
    ask_unwinder(&theirs, caller, is_timed);
    int depth = zg_config.stack_depth, count = theirs.count < depth ? theirs.count : depth;
    uint64_t begin = is_timed ? read_ticks() : 0;
    uint32_t stack = zg_depot_put(theirs.frames + theirs.own, count) & ~ZG_DEPOT_CONTEXT_DONE;
    uint64_t ticks = is_timed ? read_ticks() - begin : 0;
    if (is_timed && is_true_time(ticks)) add(&counts->put_ticks, without_timer(ticks));
    return stack;
}

static uint32_t answer_both(struct zg_thread *thread, bool allocates, uint64_t caller, uint64_t event) {
    struct answer_of_unwinder theirs;
    bool ours_first = zg_mix(event) & 1; // alternating orders might measure only allocations in one, frees in the other
    int got = ours_first ? 0 : ask_unwinder(&theirs, caller, true);
    uint32_t stack = capture(thread, allocates, ours_first);
    if (ours_first) got = ask_unwinder(&theirs, caller, false);
    compare(stack, caller, &theirs, got);
    return stack;
}

ZG_NOINLINE uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates) {
    if (is_inside) add(&counts->nested, 1);
    if (mode == mode_idle || is_inside || !zg_config.stack_depth) return capture(thread, allocates, false);
    int error = errno;
    uint64_t caller = thread->frame[1], event = events++;
    is_inside = true;
    bool is_chosen = event % every == 0;
    uint32_t stack = mode == mode_libunwind              ? answer_by_unwinder(caller, is_chosen)
                     : mode == mode_compare && is_chosen ? answer_both(thread, allocates, caller, event)
                                                         : capture(thread, allocates, is_chosen && mode == mode_ours);
    if (event % CLOCK_EVERY == 0) note_clock();
    is_inside = false;
    errno = error;
    return stack;
}

// --- start -----------------------------------------------------------------------------------------------------------

static bool load_unwinder(void) {
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    backtrace_of = (int (*)(void **, int))dlsym(library, "unw_backtrace");
#if !defined(__aarch64__)
    get_context = (int (*)(unw_context_t *))dlsym(library, NAME_OF(unw_tdep_getcontext));
    if (!get_context) return false;
#endif
    init_local = (int (*)(unw_cursor_t *, unw_context_t *))dlsym(library, NAME_OF(unw_init_local));
    step = (int (*)(unw_cursor_t *))dlsym(library, NAME_OF(unw_step));
    get_register = (int (*)(unw_cursor_t *, int, unw_word_t *))dlsym(library, NAME_OF(unw_get_reg));
    is_signal_frame = (int (*)(unw_cursor_t *))dlsym(library, NAME_OF(unw_is_signal_frame));
    set_caching = (int (*)(unw_addr_space_t, unw_caching_policy_t))dlsym(library, NAME_OF(unw_set_caching_policy));
    unw_addr_space_t *local = dlsym(library, NAME_OF(unw_local_addr_space));
    if (!backtrace_of || !init_local || !step || !get_register || !is_signal_frame || !set_caching || !local)
        return false;
    return set_caching(*local, UNW_CACHE_PER_THREAD) == 0; // this kind of cache needs no lock of libunwind
}

static struct counts *map_counts(const char *folder) {
    char name[512];
    uint64_t stamp = zg_arch_ticks();
    const char *program = program_invocation_short_name;
    snprintf(name, sizeof name, "%s/%.60s.%d.%lx.counts", folder, program, zg_os_pid(), stamp);
    snprintf(log_name, sizeof log_name, "%s/%.60s.%d.%lx.log", folder, program, zg_os_pid(), stamp);
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, sizeof(struct counts)) != 0) return NULL;
    struct counts *mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

__attribute__((constructor)) static void start(void) {
    static const char *const modes[] = {"compare", "ours", "libunwind"};
    const char *folder = getenv("ZG_CAPTURES"), *chosen = getenv("ZG_CAPTURES_MODE"), *n = getenv("ZG_CAPTURES_EVERY");
    struct counts *mapped = folder ? map_counts(folder) : NULL;
    if (!mapped || !load_unwinder()) return;
    *mapped = before_start;
    counts = mapped;
    if (n && atoi(n) > 0) every = (uint64_t)atoi(n);
    timer_ticks = measure_timer();
    first_ticks = zg_arch_ticks();
    first_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
    mode = mode_compare;
    for (int i = 0; chosen && i < 3; i++)
        if (strcmp(chosen, modes[i]) == 0) mode = mode_compare + (enum mode)i;
}
