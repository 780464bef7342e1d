// Recognizes pointers that were read from filled memory, and finds the block from which they were read. Pure: all input
// is in `struct zg_fault`.

#ifndef ZG_ORIGIN_H
#define ZG_ORIGIN_H

#include "faults/diagnose.h"

// Kind of memory from which a bad pointer was read: a freed block, the red zone of an isolated block, or a block that
// was never written (with fill_new).
enum zg_origin_source { zg_origin_none, zg_origin_freed, zg_origin_gap, zg_origin_new };

// Returns the kind of memory whose fill equals the value. `*certain`: the value is unlikely in programs without the
// runtime's fills.
enum zg_origin_source zg_origin_source_of(const struct zg_fault *fault, uint64_t value, bool *certain);

struct zg_origin {
    struct zg_block_view block;
    // The block is live, and the value was read behind its end, from the freed block that follows.
    bool is_overrun;
    const char *evidence; // reason for choosing the block, as a clause
};

// Finds the block from which the value was probably read. False if no register or stack word leads to one.
bool zg_origin_find(const struct zg_fault *fault, enum zg_origin_source source, uint64_t value,
                    struct zg_origin *origin);

// Whether the block is freed and its slot has not been reused.
bool zg_origin_is_freed(const struct zg_block_view *view);

#endif
