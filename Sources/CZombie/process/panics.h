// Observes uncaught errors of language runtimes that end a program by an exit status: Python's exceptions, Rust's
// panics, JavaScript's exceptions in Node.js (faults/exit_crash.h). Start-up.

#ifndef ZG_PANICS_H
#define ZG_PANICS_H

void zg_panics_start(void);

#endif
