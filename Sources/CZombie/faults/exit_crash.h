// Reports programs that end by an exit status because of an uncaught error (collect=crashes): a panic of Rust, an
// exception of Python or of JavaScript in Node.js. The text on standard error alone proves nothing: a program may print
// another program's panic, or an exception that it has caught. So calls of the language's runtime must also show that
// the runtime has ended the program.

#ifndef ZG_EXIT_CRASH_H
#define ZG_EXIT_CRASH_H

#include "platform/base.h"

// Note an error whose message the language runtime prints in the calling thread. `stack`: depot id of the error's
// stack, or 0. Any context, no lock.
void zg_exit_crash_note_python(uint32_t stack); // before Python prints the traceback
void zg_exit_crash_note_rust(uint32_t stack);   // after Rust has printed the message, also if the panic is caught later
// Node.js: address of a function that ends the program because of an uncaught error. Call at start-up.
void zg_exit_crash_add_node_end(uint64_t function);
// Call in libc's exit, after the program's own exit handlers. `frame`: frame of the exit handler.
void zg_exit_crash_report(const uint64_t *frame, int status);

#endif
