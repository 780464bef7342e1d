// Exempt programs: programs of a run that are left unguarded on purpose.
// Decided once, at start; constant afterwards. Takes no lock.

#ifndef ZG_EXEMPTION_H
#define ZG_EXEMPTION_H

#include "platform/base.h"

// True if this process is exempt: libc serves its blocks, and no signal handler or thread of the runtime exists. The
// library stays loaded, because programs that the process starts may be guarded.
extern bool zg_is_exempt;

// Decides after the options have been read. If the option `only` is set, all programs that it does not name are exempt,
// otherwise only Swift's package manager (swift build, package, run and test).
void zg_exemption_init(void);
// Returns whether this process is Swift's package manager, and exempt.
bool zg_exemption_is_package_manager(void);
// Returns true if the program at `path` (relative to the open `directory`), which the package manager is about to
// execute, is a tool of the toolchain or the system, or a package's manifest, and is not named by the option `only`.
// Signal-safe; uses 2 KiB of stack.
bool zg_exemption_covers(int directory, const char *path);

#endif
