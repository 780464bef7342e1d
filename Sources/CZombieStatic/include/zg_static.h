// Guards a static executable. Link this target, or build/lib/libzguard.a for C and C++: malloc, free and most other
// published functions (zg_published.h) are then the runtime's. This header declares nothing, because linking is enough.

#ifndef ZG_STATIC_H
#define ZG_STATIC_H
#endif
