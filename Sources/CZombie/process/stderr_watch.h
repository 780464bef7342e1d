// Records what the program's stdio streams write to standard error (findings/last_text.h): libc writes without calling
// the interposed write.

#ifndef ZG_STDERR_WATCH_H
#define ZG_STDERR_WATCH_H

// Call at start-up while the process has one thread.
void zg_stderr_watch_start(void);

#endif
