// As ways_to_fork.c, where all small blocks share memory by windows.
// options: profile=fence:fence_windows=all
// libs: -lutil
// qemu-user: unguarded it does not come to its end there, in processes that bare system calls make

#include "ways_to_fork.c"
