// Support for guarded test bundles: default options, start and exit hooks, and starting a copy of the bundle.

#ifndef ZG_TESTING_H
#define ZG_TESTING_H

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

// State of the child: 0 running, 1 exited (`*code` is the exit status), 2 killed by a signal (`*code` is its number), 3
// unknown, because other code has already waited for the child. Does not block.
int zg_testing_poll(pid_t child, int *code);

#endif
