// Scalable vectors (SVE) and matrices (SME) of arm64, at the processor's greatest length. If they are in use, the
// kernel saves all of them in a signal frame, behind the registers and the fault's description: frames of 20 or 100
// KiB.

#ifndef VECTORS_H
#define VECTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 // since Linux 4.18: the size of the largest frame
#endif

enum { HAS_VECTORS = 1 << 22 /* HWCAP_SVE */, HAS_MATRICES = 1 << 23 /* HWCAP2_SME */ };
enum { VECTORS_SET = 50, MATRICES_SET = 63 /* PR_SVE_SET_VL, PR_SME_SET_VL */, VECTOR_MOST = 256 };

static inline bool has_vectors(void) { return getauxval(AT_HWCAP) & HAS_VECTORS; }
static inline bool has_matrices(void) { return has_vectors() && getauxval(AT_HWCAP2) & HAS_MATRICES; }

// Sets the greatest vector length for this thread and its new threads. Returns it in bytes, or 0 if unsupported.
static inline uint64_t longest(bool is_there, int call) {
    int set = is_there ? prctl(call, VECTOR_MOST, 0, 0, 0) : 0;
    return set > 0 ? (uint64_t)set & 0xffff : 0;
}
static inline uint64_t longest_vectors(void) { return longest(has_vectors(), VECTORS_SET); }
static inline uint64_t longest_matrices(void) { return longest(has_matrices(), MATRICES_SET); }

#endif
