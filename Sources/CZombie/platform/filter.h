// Decides whether the seccomp filters of the process allow a system call. The runtime stores each filter that the
// program installs through libc, and runs the filters before each of its own calls, because a call that a filter does
// not allow may end the process. Filters get the actual arguments of the call, as from the kernel.
// Any context; no lock, no system call.

#ifndef ZG_FILTER_H
#define ZG_FILTER_H

#include "include/zg_filtered.h"
#include "platform/base.h"

enum zg_filter_kind {
    zg_filter_none,
    zg_filter_known, // the stored filters decide
    // A filter is in effect that the runtime has not seen. The runtime makes only calls that libc itself makes at
    // start-up and in malloc, and calls that the parent's description covers (zg_filter_note_inherited).
    zg_filter_unknown,
    zg_filter_strict // SECCOMP_MODE_STRICT: only read and write are allowed
};

// The strictest kind of filter in effect. If not 0, every call needs zg_filter_allows.
extern uint32_t zg_filter_in_effect;

// A BPF instruction, as in the kernel's struct sock_filter.
struct zg_filter_instruction {
    uint16_t code;
    uint8_t if_true, if_false;
    uint32_t constant;
};
enum { ZG_FILTER_LONGEST = 4096, ZG_FILTERS_MOST = 64 };

// Puts a filter into effect, without copying it. Returns its number; negative if there are too many.
int zg_filter_add(const struct zg_filter_instruction *instructions, uint32_t count);
// Removes a filter that the kernel has refused.
void zg_filter_drop(int number);
// Records that a filter of unknown contents is in effect.
void zg_filter_add_unknown(void);
void zg_filter_add_strict(void);

// Records the parent's description: `count` filters are in effect at the start, and each of them allows the calls in
// the bit mask `passing` (zg_filtered.h) or makes them fail with an error (SECCOMP_RET_ERRNO).
#define ZG_FILTERED_ALL ((UINT64_C(1) << zg_filtered_count) - 1)
void zg_filter_note_inherited(uint32_t count, uint64_t passing);
// Returns the number of filters in effect, for the description that an executed program gets. `*passing` gets the bits
// (zg_filtered.h) of the calls that every filter allows or makes fail with an error (SECCOMP_RET_ERRNO). Returns 0 if
// there is no filter, if one is neither known nor described by the parent, or if no call has its bit set.
uint32_t zg_filter_describe(uint64_t *passing);
// Returns true if the parent has described filters. The description covers only the calls in zg_filtered.h.
bool zg_filter_is_inherited(void);
// Returns true if the parent did not describe filters that were in effect at the start.
bool zg_filter_is_undescribed(void);

// Returns true if all filters allow the call.
bool zg_filter_allows(long number, const uint64_t arguments[6]);
// Returns the answer of one filter (SECCOMP_RET_…); 0 (kill) if the instructions are invalid. Accepts any instructions.
uint32_t zg_filter_run(const struct zg_filter_instruction *instructions, uint32_t count, long number,
                       const uint64_t arguments[6]);

#endif
