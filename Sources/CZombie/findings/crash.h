// What a finding says besides where it is about what ends the program: signal, message, registers, annotations. Any context; no lock.

#ifndef ZG_FINDING_CRASH_H
#define ZG_FINDING_CRASH_H

#include "platform/arch.h"
#include "platform/text.h"

struct zg_crash {
    int signal, code;
    struct zg_registers registers;
    // Where the error was thrown that ends it; 0: none, not known, or the access's stack shows it.
    uint32_t thrown_stack;
    const char *message; // of whoever ended it; NULL: nobody said any
};

// "SIGSEGV"; "signal 40" has no name and is NULL.
const char *zg_crash_signal_name(int signal);
// ,"signal":"SIGABRT","code":-6,… as keys of a finding's object.
void zg_crash_put_json(struct zg_text *text, const struct zg_crash *crash);

#endif
