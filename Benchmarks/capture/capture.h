// What the program of this benchmark asks of the library that was built for it: one stack capture by each method.

#ifndef CAPTURE_H
#define CAPTURE_H

// Each captures the caller's stack once, from its return address outwards, and keeps nothing.
void capture_product(void);   // as malloc and free do: from the cache, or else along the trail
void capture_walk(void);      // from scratch, by the runtime's own unwinder
void capture_libunwind(void); // unw_backtrace
void capture_backtrace(void); // backtrace
// What they cost besides.
void capture_entered(void); // the first two: the runtime is entered and left
void capture_called(void);  // the others

// How deep the stacks are: so many frames are asked for.
extern int capture_depth;

// Does not capture, but counts how often the cache knew the caller's stack and how often the trail
// could not follow it, to exactly capture_depth frames.
void capture_look(void);
struct capture_seen {
    long cached, lost;
};
extern struct capture_seen capture_seen;

#endif
