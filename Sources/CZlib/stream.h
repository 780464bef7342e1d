// zlib's z_stream, whose layout has been the same in all of version 1, since 1995
// (https://zlib.net/manual.html#Stream), and the constants passed with it. Declared here, so that building needs no
// zlib; the library is opened at run time.

#ifndef ZG_CZLIB_STREAM_H
#define ZG_CZLIB_STREAM_H

#include <stdint.h>

struct zg_zlib_stream {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *message;
    void *state, *allocate, *release, *opaque; // NULL functions: malloc and free
    int data_type;
    unsigned long checksum, reserved;
};

#define ZG_ZLIB_NO_FLUSH 0
#define ZG_ZLIB_FINISH 4

#define ZG_ZLIB_OK 0
#define ZG_ZLIB_STREAM_END 1
#define ZG_ZLIB_STREAM_ERROR (-2)
#define ZG_ZLIB_BUFFER_ERROR (-5)

#define ZG_ZLIB_DEFAULT_LEVEL (-1)
#define ZG_ZLIB_DEFLATED 8
#define ZG_ZLIB_GZIP_WINDOW (15 + 16) // the largest window, with a gzip header and trailer
#define ZG_ZLIB_DEFAULT_MEMORY 8
#define ZG_ZLIB_DEFAULT_STRATEGY 0

#endif
