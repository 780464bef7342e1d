// Filters of system calls (seccomp) that the process stands under, and whether one of them lets a call through. A filter that the
// program installs through libc is read and kept: the runtime asks it before each of its own calls, for a call that it does
// not allow may end the process. Asked everything with the very arguments of the call, as the kernel asks.
// Any context; no lock, no system call.

#ifndef ZG_FILTER_H
#define ZG_FILTER_H

#include "include/zg_filtered.h"
#include "platform/base.h"

enum zg_filter_kind {
    zg_filter_none,
    zg_filter_known,   // the kept filters say what is allowed
    zg_filter_unknown, // not seen: nothing is allowed but what libc itself has to do at a start and in malloc
    zg_filter_strict   // SECCOMP_MODE_STRICT: read, write and the like
};

// The strictest that was told; not 0: zg_filter_allows is to be asked.
extern uint32_t zg_filter_stands;

// An instruction as the kernel takes it (struct sock_filter).
struct zg_filter_instruction {
    uint16_t code;
    uint8_t if_true, if_false;
    uint32_t constant;
};
enum { ZG_FILTER_LONGEST = 4096, ZG_FILTERS_MOST = 64 };

// From now on the filter counts; it is not copied. Its number, negative where there are too many.
int zg_filter_add(const struct zg_filter_instruction *instructions, uint32_t count);
// The kernel has not taken it.
void zg_filter_drop(int number);
// Nothing more is known than that there is one.
void zg_filter_add_unknown(void);
void zg_filter_add_strict(void);

// So many stood at the start, and do nothing worse than refuse the calls of these bits (zg_filtered.h). / So many stand now, and the bits of the
// calls that none of them does worse to than refuse them, for a program that is executed to try. 0 where that is not known, or there is none.
#define ZG_FILTERED_ALL ((UINT64_C(1) << zg_filtered_count) - 1)
void zg_filter_note_inherited(uint32_t count, uint64_t passing);
uint32_t zg_filter_describe(uint64_t *passing);
// Filters stood at the start of which nobody has said anything.
bool zg_filter_is_undescribed(void);

// The call may be made: no filter does anything about it but let it pass.
bool zg_filter_allows(long number, const uint64_t arguments[6]);
// What one filter answers (SECCOMP_RET_…), 0 (kill) where it is no filter. For instructions that the kernel takes, and any others.
uint32_t zg_filter_run(const struct zg_filter_instruction *instructions, uint32_t count, long number,
                       const uint64_t arguments[6]);

#endif
