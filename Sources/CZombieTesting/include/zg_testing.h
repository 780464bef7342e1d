// Support for guarded test bundles: default options, start and exit hooks, and starting a copy of the bundle.

#ifndef ZG_TESTING_H
#define ZG_TESTING_H

#include <stdint.h>
#include <sys/types.h>

// Parsed before ZGUARD_OPTIONS. The program goes on after a finding, so that the tests can report the finding
// themselves.
extern const char zg_default_options[];

// Defined in Swift. Called from a constructor of the test bundle, when all libraries are initialized.
void zg_testing_started(void);
// Defined in Swift. Called during exit(status), before the libraries' destructors. Returns the exit status to use.
int zg_testing_ending(int status);

// Starts `path` in a new process group, with standard input from /dev/null, standard output and error to `output` (a
// descriptor above 2), and no other open descriptor. Returns the process id or a negated errno.
pid_t zg_testing_spawn(const char *path, char *const argv[], char *const envp[], int output);

// Returns the state of the child: 0 running, 1 exited (`*code` is the exit status), 2 killed by a signal (`*code` is
// its number), 3 unknown, because other code has already waited for the child. Does not block.
int zg_testing_poll(pid_t child, int *code);

// Starts zguard in a new process group, with its standard input and output at `socket` (a descriptor above 2), its
// errors to /dev/null, and no other open descriptor. Returns like zg_testing_spawn.
pid_t zg_testing_start_helper(const char *path, char *const argv[], char *const envp[], int socket);
// Allows a process of the same user to trace this one, where kernel.yama.ptrace_scope is 1. One process at a time.
void zg_testing_allow_tracer(pid_t process);

// Calls `body` with an address in this function's frame. The callers' frames and copies of all callee-saved registers
// are above the address.
void zg_testing_spill(void (*body)(void *context, uint64_t stack_pointer), void *context);
// Overwrites the dead frames of functions that have returned, up to 16 KiB below the caller's frame.
void zg_testing_clear_stack(void);
// Overwrites the dead frames of async functions, in the memory that holds such frames for the calling thread's Swift
// task. Call in a task only.
void zg_testing_clear_task(void);

#endif
