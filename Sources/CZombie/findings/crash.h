// The part of a finding about the program's end: signal, message, registers, annotations. Any context; no lock.

#ifndef ZG_FINDING_CRASH_H
#define ZG_FINDING_CRASH_H

#include "platform/arch.h"
#include "platform/text.h"

struct zg_crash {
    int signal, code;
    int status; // exit status; used if `signal` is 0
    struct zg_registers registers;
    // Throw stack of the error that ends the program; 0 if there is none, if it is unknown, or if the access stack
    // shows it
    uint32_t thrown_stack;
    const char *message; // message from the code that ended the program; NULL if none
};

// Returns the name of a signal that ends programs, such as "SIGSEGV"; NULL for others.
const char *zg_crash_signal_name(int signal);
// Writes ,"signal":"SIGABRT","code":-6,… or ,"status":101,"code":0,… as keys of a finding's JSON object.
void zg_crash_put_json(struct zg_text *text, const struct zg_crash *crash);

#endif
