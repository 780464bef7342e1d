// Observes throws of C++ exceptions and Swift errors. Start-up is cold; observers run in the throwing thread and take
// only the depot's lock.
// Sources: the Itanium C++ ABI's exception handling, 2.2.2 and 2.4.3; Runtime/Error.h and SwiftError of Swift 5.0 to
// 6.3.

#include "process/throws.h"

#include "findings/thrown.h"
#include "images/module.h"
#include "images/symbols.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "process/detours.h"
#include "process/swift_check.h"
#include "process/thread_entry.h"
#include "threads/capture.h"

// --- C++ -------------------------------------------------------------------------------------------------------------

// CXX_RETHROW is libstdc++'s std::rethrow_exception, CXX_RETHROW_PRIMARY the function of libc++abi that libc++'s
// std::rethrow_exception calls. Both may rethrow in another thread.
enum { CXX_THROW, CXX_RETHROW, CXX_RETHROW_PRIMARY, CXX_GLOBALS, CXX_NAMES };
static const char *const cxx_names[CXX_NAMES] = {"__cxa_throw",
                                                 "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
                                                 "__cxa_rethrow_primary_exception", "__cxa_get_globals"};
// Returns the thread's __cxa_eh_globals, whose first word is the list of exceptions being handled.
static void *(*cxx_globals)(void);

static void observe_exception(uint64_t exception, uint64_t number, const uint64_t *frame) {
    uint64_t handled = (uint64_t)cxx_globals(); // __cxa_throw calls this function, too; it may allocate
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    thread->cxx_handled = handled;
    if (number == CXX_THROW) zg_thrown_note(exception, zg_capture(thread, false) & ~ZG_STACK_ISOLATE);
    zg_thread_leave(thread);
}

static void start_cxx(void) {
    uint64_t addresses[CXX_NAMES] = {0};
    // Search the C++ runtime's own image: the program may interpose __cxa_throw.
    uint64_t runtime = (uint64_t)zg_module_function(cxx_names[CXX_GLOBALS]);
    for (int i = 0; i < CXX_NAMES && runtime; i++)
        addresses[i] = (uint64_t)zg_module_function_in(runtime, cxx_names[i]);
    if (!addresses[CXX_THROW]) zg_symbols_of_program(ZG_SYMBOLS_CXX, cxx_names, addresses, CXX_NAMES);
    if (!addresses[CXX_THROW] || !addresses[CXX_GLOBALS]) return;
    __builtin_memcpy(&cxx_globals, &addresses[CXX_GLOBALS], sizeof cxx_globals);
    struct zg_detour detours[CXX_GLOBALS];
    for (uint32_t i = 0; i < CXX_GLOBALS; i++) detours[i] = (struct zg_detour){addresses[i], i, i == CXX_THROW};
    zg_detours_install(detours, CXX_GLOBALS, observe_exception);
}

// --- Swift -----------------------------------------------------------------------------------------------------------

enum { SWIFT_HOOK, SWIFT_TYPED_HOOK, SWIFT_UNEXPECTED, SWIFT_IN_MAIN, SWIFT_NAMES };
static const char *const swift_names[SWIFT_NAMES] = {"_swift_willThrow", "_swift_willThrowTypedImpl",
                                                     "swift_unexpectedError", "swift_errorInMain"};

typedef void error_hook(uint64_t error);
typedef void typed_hook(uint64_t value, uint64_t type, uint64_t conformance);
// Previous values of Swift's two hooks, which the observers call. If a later owner (such as Swift Testing) replaces a
// hook, the owner's function calls the observer.
static error_hook *next_hook;
static typed_hook *next_typed_hook;

static ZG_NOINLINE void observe_error(uint64_t error) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (thread) {
        zg_thrown_note(error, zg_capture(thread, false) & ~ZG_STACK_ISOLATE);
        zg_thread_leave(thread);
    }
    if (next_hook) next_hook(error);
}

static ZG_NOINLINE void observe_typed_error(uint64_t value, uint64_t type, uint64_t conformance) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (thread) {
        thread->typed_throw_type = type;
        thread->typed_throw_stack = zg_capture(thread, false) & ~ZG_STACK_ISOLATE;
        zg_thread_leave(thread);
    }
    if (next_typed_hook) next_typed_hook(value, type, conformance);
}

// Called when an uncaught error ends the program; the observed function does not return. A typed throw was recorded
// without an address, because its error is boxed only later: the error is attributed to the thread's last typed throw
// if the types match.
static void observe_end(uint64_t error, uint64_t unused_1, const uint64_t *unused_2) {
    (void)unused_1, (void)unused_2;
    enum { TYPE_AT = 16 };
    uint64_t type;
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread) return;
    thread->uncaught_stack = zg_thrown_find(error);
    if (!thread->uncaught_stack && thread->typed_throw_type &&
        zg_os_read_memory(&type, error + TYPE_AT, sizeof type) == sizeof type && type == thread->typed_throw_type)
        thread->uncaught_stack = thread->typed_throw_stack;
}

static void find_swift(uint64_t addresses[SWIFT_NAMES], bool also_in_file) {
    for (int i = 0; i < SWIFT_NAMES; i++)
        addresses[i] = (uint64_t)(i <= SWIFT_TYPED_HOOK ? zg_module_variable : zg_module_function)(swift_names[i]);
    if (!addresses[SWIFT_HOOK] && also_in_file)
        zg_symbols_of_program(ZG_SYMBOLS_SWIFT, swift_names, addresses, SWIFT_NAMES);
}

static void set_hook(uint64_t variable, uint64_t hook, void *next) {
    uint64_t *place = (uint64_t *)variable, former = 0;
    if (!place) return;
    former = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    do {
        if (former == hook) return;
        __builtin_memcpy(next, &former, sizeof former);
    } while (!__atomic_compare_exchange_n(place, &former, hook, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static void start_swift(bool also_in_file) {
    static uint32_t is_done;
    uint64_t addresses[SWIFT_NAMES];
    if (__atomic_load_n(&is_done, __ATOMIC_RELAXED)) return;
    find_swift(addresses, also_in_file);
    if (!addresses[SWIFT_HOOK] || __atomic_exchange_n(&is_done, 1, __ATOMIC_ACQ_REL)) return;
    set_hook(addresses[SWIFT_HOOK], (uint64_t)observe_error, &next_hook);
    set_hook(addresses[SWIFT_TYPED_HOOK], (uint64_t)observe_typed_error, &next_typed_hook);
    if (!addresses[SWIFT_UNEXPECTED] || !zg_detours_are_possible()) return;
    const struct zg_detour detours[] = {{addresses[SWIFT_UNEXPECTED], 0, false}, {addresses[SWIFT_IN_MAIN], 0, false}};
    zg_detours_install(detours, ZG_ARRAY_COUNT(detours), observe_end);
}

// --- both ------------------------------------------------------------------------------------------------------------

// The Swift runtime may be loaded after start-up: search again when the first Swift object is seen.
static void start_swift_late(void) { start_swift(false); }

void zg_throws_start(void) {
    bool may_write = zg_detours_are_possible();
    if (may_write) start_cxx();
    start_swift(may_write);
    zg_swift_check_seen = start_swift_late;
}
