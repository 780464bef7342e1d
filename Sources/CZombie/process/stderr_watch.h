// What the program's streams write to standard error is noted (findings/last_text.h): libc writes it without calling what we publish.

#ifndef ZG_STDERR_WATCH_H
#define ZG_STDERR_WATCH_H

// Start-up, while the process has one thread.
void zg_stderr_watch_start(void);

#endif
