// Hides the runtime's environment variables from Swift's package manager. The package manager keys its cache of
// manifests with the environment. The path of the run's directory, different in each run, would make it compile every
// manifest again.
// Start-up only; constant afterwards.

#ifndef ZG_HIDDEN_H
#define ZG_HIDDEN_H

#include "platform/base.h"

// The hidden "NAME=value" strings, which the programs that the package manager starts get. All are NULL in processes
// other than the package manager.
enum { ZG_HIDDEN_MOST = 3 };
extern char *zg_hidden[ZG_HIDDEN_MOST];

void zg_hidden_start(void);
// Returns true if `entry` ("NAME=value") sets a variable that can be hidden.
bool zg_hidden_is_ours(const char *entry);

#endif
