// zlib's stream, as its library of version 1 has laid it out since 1995 (https://zlib.net/manual.html#Stream), and the numbers that are
// passed with it. Declared here, so that nothing has to be installed to build this; the library is opened when it is needed.

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
    void *state, *allocate, *release, *opaque; // functions of NULL: malloc and free
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
#define ZG_ZLIB_GZIP_WINDOW (15 + 16) // the largest window, with a gzip header and trailer around it
#define ZG_ZLIB_DEFAULT_MEMORY 8
#define ZG_ZLIB_DEFAULT_STRATEGY 0

#endif
