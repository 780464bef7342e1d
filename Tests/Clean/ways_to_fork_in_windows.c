// Like ways_to_fork.c, with all small blocks in windows, where they share physical pages.
// options: profile=fence:isolated_windows=all
// libs: -lutil
// qemu-user: unguarded it does not come to its end there, in processes that bare system calls make

#include "ways_to_fork.c"
