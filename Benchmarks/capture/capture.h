// Interface between this benchmark's program and the library built for it: one stack capture by each method.

#ifndef CAPTURE_H
#define CAPTURE_H

// Each function captures the caller's stack once, from its return address outwards, and discards it.
void capture_product(void);   // like malloc and free: uses the stack cache, or else the stack diff cache
void capture_walk(void);      // a full walk with the runtime's own unwinder
void capture_libunwind(void); // unw_backtrace
void capture_backtrace(void); // backtrace
// Overhead around the captures, to be subtracted.
void capture_entered(void); // overhead of the first two functions: entering and leaving the runtime
void capture_called(void);  // overhead of the other two functions: an empty call

// Depth of the stacks: the number of frames that each capture requests.
extern int capture_depth;

// Is not measured. Counts how often the stack cache knew the caller's whole stack, and how often the stack diff cache
// could not capture exactly capture_depth frames.
void capture_look(void);
struct capture_seen {
    long cached, lost;
};
extern struct capture_seen capture_seen;

#endif
