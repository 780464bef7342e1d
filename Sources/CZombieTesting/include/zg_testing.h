// What a guarded test bundle has of its own: its default options, its start and end, and starting a copy of itself.

#ifndef ZG_TESTING_H
#define ZG_TESTING_H

#include <sys/types.h>

// Parsed before ZGUARD_OPTIONS: findings are reported and the program goes on, so that the tests can say what was found.
extern const char zg_default_options[];

// Defined in Swift. Called from a constructor of the test bundle, when all libraries are initialised.
void zg_testing_started(void);
// Defined in Swift. Called when the process ends by exit(status), before the libraries' destructors; returns the status
// that it is to end with.
int zg_testing_ending(int status);

// Starts `path` with standard input from /dev/null and standard output and error into `output`, which has to be above 2,
// in a process group of its own, without any other descriptor of ours. Returns the process id or a negated errno.
pid_t zg_testing_spawn(const char *path, char *const argv[], char *const envp[], int output);

// What became of the child: 0 running, 1 ended (`*code` its exit status), 2 died of a signal (`*code` its number),
// 3 unknown: somebody else has waited for it. Does not block.
int zg_testing_poll(pid_t child, int *code);

#endif
