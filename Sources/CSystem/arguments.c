// Keeps the arguments of the process. Swift's CommandLine reads /proc/self/cmdline, which is missing if /proc is not
// mounted; the C library passes the arguments to constructors. Written once, before main; no lock.

#include "zg_system.h"

#include <sys/auxv.h>

static int count;
static char **words;

__attribute__((constructor)) static void keep(int argc, char **argv, char **environment) {
    (void)environment;
    count = argc;
    words = argv;
}

int zg_system_argument_count(void) { return count; }
char **zg_system_arguments(void) { return words; }
const char *zg_system_executed_path(void) { return (const char *)getauxval(AT_EXECFN); }
