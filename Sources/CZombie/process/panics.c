// Finds the language runtimes that the process has loaded, and observes where they raise or report uncaught errors.
// Start-up is cold; observers run in the thread with the error and take only the depot's lock.
// Sources: Python's audit events (PEP 578; PySys_AddAuditHook since 3.8); the exception class of Rust's
// panic_unwind/src/gcc.rs; node::errors::TriggerUncaughtException in Node.js's src/node_errors.cc.

#include "process/panics.h"

#include <sys/auxv.h>

#include "faults/exit_crash.h"
#include "images/loader.h"
#include "images/module.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"
#include "process/detours.h"
#include "process/thread_entry.h"
#include "threads/capture.h"

static uint32_t capture_stack(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return 0;
    uint32_t stack = zg_capture(thread, false) & ~ZG_STACK_ISOLATE;
    zg_thread_leave(thread);
    return stack;
}

// --- Python ----------------------------------------------------------------------------------------------------------

// Python raises the audit event sys.excepthook if an exception has left the program, and not for one that the program
// catches and prints, nor for SystemExit.
static ZG_NOINLINE int observe_event(const char *event, void *arguments, void *unused) {
    (void)arguments, (void)unused;
    if (event[0] == 's' && zg_string_equal(event, "sys.excepthook"))
        zg_exit_crash_note_python(capture_stack(ZG_ARCH_FRAME()));
    return 0;
}

static void start_python(void) {
    typedef int add_hook(int (*hook)(const char *, void *, void *), void *argument);
    add_hook *add = (add_hook *)zg_module_function("PySys_AddAuditHook"); // may be called before Py_Initialize
    if (add) add(observe_event, NULL);
}

// --- Rust ------------------------------------------------------------------------------------------------------------

static void observe_raise(uint64_t exception, uint64_t unused, const uint64_t *frame) {
    // Exception class "MOZ\0RUST": its first byte is the number's highest byte, or the lowest in later versions of
    // Rust.
    const uint64_t number = UINT64_C(0x4d4f5a0052555354), in_order = UINT64_C(0x54535552005a4f4d);
    uint64_t class = 0;
    (void)unused;
    if (zg_os_read_memory(&class, exception, sizeof class) == sizeof class && (class == number || class == in_order))
        zg_exit_crash_note_rust(capture_stack(frame));
}

// Rust programs import _Unwind_RaiseException. C++ programs do not: they call it only through the C++ runtime.
static void start_rust(void) {
    static const char raise[] = "_Unwind_RaiseException";
    if (!zg_detours_are_possible() || !zg_module_imports(getauxval(AT_PHDR), raise)) return;
    const struct zg_detour detour = {(uint64_t)zg_module_function(raise), 0, true};
    if (detour.function) zg_detours_install(&detour, 1, observe_raise);
}

// --- Node.js ---------------------------------------------------------------------------------------------------------

static void start_node(void) {
    static const char *const names[] = {
        "_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateENS1_5LocalINS1_5ValueEEENS4_INS1_7MessageEEEb",
        "_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateERKNS1_8TryCatchE"};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(names); i++)
        zg_exit_crash_add_node_end((uint64_t)zg_module_function(names[i]));
}

void zg_panics_start(void) {
    if (zg_loader_is_static) return;
    start_python();
    start_rust();
    start_node();
}
