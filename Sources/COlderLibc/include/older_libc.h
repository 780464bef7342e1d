// Functions of the C library that the Swift libraries inside zguard would otherwise take from a newer one than it is to run with. Nothing
// calls them by this header.

#ifndef ZG_OLDER_LIBC_H
#define ZG_OLDER_LIBC_H

__attribute__((visibility("hidden"))) float hypotf(float x, float y);

#endif
