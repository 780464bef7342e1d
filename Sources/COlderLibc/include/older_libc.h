// Functions that the Swift libraries inside zguard would otherwise import from a newer C library than the oldest that
// zguard supports. Nothing calls them through this header.

#ifndef ZG_OLDER_LIBC_H
#define ZG_OLDER_LIBC_H

__attribute__((visibility("hidden"))) float hypotf(float x, float y);

#endif
