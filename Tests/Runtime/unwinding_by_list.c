// Captured stacks equal libunwind's, with images found by the loader's list.
// link: runtime
// options: isolated_per_context=0:stack_bytes=1g:stack_overhead=100%:find_object=0
// with: unwind_frames.cpp
// libs: -lunwind -lstdc++ -lm
// timeout: 60

#include "unwinding.c"
