// Finds the C++ exception that is being handled when a program ends. Sources: the Itanium C++ ABI's exception handling,
// 2.2 (thread data and exception headers), and its implementations libstdc++ and libc++abi. Reads memory through the
// kernel. Signal context; no lock.

#include "faults/uncaught.h"

#include <signal.h>

#include "findings/thrown.h"
#include "platform/os.h"
#include "threads/thread.h"

// Layout of an exception header: offset of its exception class, and size; the exception object follows. A dependent
// exception (rethrown from an exception_ptr) consists of a header only, which has the object's address at
// `dependent_at`.
struct layout {
    uint64_t class, class_at, header_bytes, dependent_at;
};
static const struct layout layouts[] = {
    {UINT64_C(0x474e5543432b2b00), 80, 112, 0}, // "GNUCC++"
    {UINT64_C(0x434c4e47432b2b00), 96, 128, 8}, // "CLNGC++"
};

static bool read_word(uint64_t address, uint64_t *word) {
    return zg_os_read_memory(word, address, sizeof *word) == sizeof *word;
}

// Returns the innermost exception that is being handled. An uncaught exception counts as handled when terminate is
// called.
static uint64_t handled_exception(uint64_t handled) {
    uint64_t header, class, exception;
    if (!read_word(handled, &header) || !header) return 0;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(layouts); i++) {
        const struct layout *it = &layouts[i];
        if (!read_word(header + it->class_at, &class) || (class & ~UINT64_C(0xff)) != it->class) continue;
        if (!(class & 0xff)) return header + it->header_bytes;
        return read_word(header + it->dependent_at, &exception) ? exception : 0;
    }
    return 0;
}

uint32_t zg_uncaught_thrown_at(int signal, bool is_own) {
    const struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread) return 0;
    if (thread->uncaught_stack) return thread->uncaught_stack;
    if (signal != SIGABRT || !is_own || !thread->cxx_handled) return 0;
    return zg_thrown_find(handled_exception(thread->cxx_handled));
}
