// As ways_to_fork.c, where all small blocks share memory by windows.
// options: profile=fence:fence_windows=all
// libs: -lutil

#include "ways_to_fork.c"
