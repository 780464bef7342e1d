// Interface between this benchmark's program and the library built for it: one stack capture by each method.

#ifndef CAPTURE_H
#define CAPTURE_H

// Each function captures its caller's stack once, from the function's return address outwards, and discards the stack.
void capture_product(void);   // like malloc and free: uses the stack cache, or else the stack diff cache
void capture_walk(void);      // a full walk with the runtime's own unwinder
void capture_libunwind(void); // unw_backtrace
void capture_backtrace(void); // backtrace
// Functions whose time is the overhead of a capture, to be subtracted from the capture's time.
void capture_entered(void); // for capture_product and capture_walk: enters and leaves the runtime
void capture_called(void);  // for capture_libunwind and capture_backtrace: an empty call

// Depth of the stacks: the number of frames that each capture requests.
extern int capture_depth;

// Checks the caches after the measurement. `cached` counts how often the stack cache knew the caller's whole stack;
// `lost` counts how often the stack diff cache did not capture exactly capture_depth frames.
void capture_look(void);
struct capture_seen {
    long cached, lost;
};
extern struct capture_seen capture_seen;

#endif
