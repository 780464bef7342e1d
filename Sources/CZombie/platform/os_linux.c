// Makes the runtime's system calls directly: no errno, no cancellation points, usable before libc is initialized.
// Any context; takes no lock.

#define _GNU_SOURCE
#include "platform/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>

#include "include/zg_stats_page.h"
#include "platform/arch.h"
#include "platform/filter.h"
#include "platform/libc.h"
#include "platform/ratio.h"
#include "platform/text.h"

// Returns true if the seccomp filters (filter.h) allow the call. Otherwise system_call fails with EPERM, as if the
// kernel had refused the call.
static bool may_call(long number, long a, long b, long c, long d, long e, long f) {
    const uint64_t arguments[] = {(uint64_t)a, (uint64_t)b, (uint64_t)c, (uint64_t)d, (uint64_t)e, (uint64_t)f};
    return zg_filter_allows(number, arguments);
}

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    if (ZG_UNLIKELY(zg_filter_in_effect) && !may_call(number, a, b, c, d, e, f)) return -EPERM;
    return zg_arch_syscall(number, a, b, c, d, e, f);
}

#define ZG_CALL(number, a, b, c, d, e, f)                                                                              \
    system_call((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
// Makes a system call without a check of the filters, because the call ends the process anyway.
#define ZG_LAST_CALL(number, a, b, c, d, e, f)                                                                         \
    zg_arch_syscall((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#ifndef PROT_MTE
#define PROT_MTE 0x20 // AArch64 only
#endif
#ifndef PR_SET_TAGGED_ADDR_CTRL
#define PR_SET_TAGGED_ADDR_CTRL 55
#define PR_TAGGED_ADDR_ENABLE 1
#endif
#ifndef PR_MTE_TCF_SYNC
#define PR_MTE_TCF_SYNC 2
#define PR_MTE_TAG_SHIFT 3
#endif

static bool is_error(long result) { return result < 0 && result > -4096; }

// A call that still returns EINTR or EAGAIN after this number of tries has failed.
enum { TRIES_MOST = 1000 };

uint32_t zg_os_refused;

static void note_refusal(enum zg_os_refusal refusal) {
    if (!(__atomic_load_n(&zg_os_refused, __ATOMIC_RELAXED) & refusal))
        __atomic_fetch_or(&zg_os_refused, refusal, __ATOMIC_RELAXED);
}

// Gives advice that the kernel may ignore.
static void hint(void *start, uint64_t bytes, int advice) {
    if (is_error(ZG_CALL(SYS_madvise, start, bytes, advice, 0, 0, 0))) note_refusal(zg_os_refused_advice);
}

static void *map(void *at, uint64_t bytes, int protection, int flags, int descriptor) {
    long result = ZG_CALL(SYS_mmap, at, bytes, protection, flags, descriptor, 0);
    return is_error(result) ? NULL : (void *)result;
}

// Bytes of address space that the runtime itself has reserved or mapped. Checks of the program's limits subtract them
// (limits/allowance.c).
static uint64_t reserved_bytes, mapped_bytes;

// Flag of mmap for reservations; 0 if the kernel refuses the flag. RLIMIT_DATA does not count private writable mappings
// with MAP_GROWSDOWN, so the whole limit is left to the program (limits/allowance.h applies it to blocks). Reservations
// never grow, because a page without the flag lies below each of them.
static int uncounted = MAP_GROWSDOWN;
// The one part of a reservation that holds shared mappings, which cannot have MAP_GROWSDOWN.
static uint64_t shared_start, shared_bytes;

static int uncounted_at(const void *start) { return (uint64_t)start - shared_start < shared_bytes ? 0 : uncounted; }

void zg_os_will_share(void *start, uint64_t bytes) {
    shared_start = (uint64_t)start;
    shared_bytes = bytes;
}

// Excludes reserved memory from core files. Debuggers would write it as zeros, so core files would be as large as all
// reservations. Every reservation gets the same advice, because adjacent mappings with different advice do not merge.
static void advise_reserved(void *start, uint64_t bytes) {
    // If the system's default is "always", huge pages would back sparse tables and slabs with 2 MiB per touched page.
    ZG_CALL(SYS_madvise, start, bytes, MADV_NOHUGEPAGE, 0, 0, 0); // fails in kernels without huge pages
    hint(start, bytes, MADV_DONTDUMP);
}

// Address ranges of the runtime. An unused array element has `end` 0; a thread claims it by setting `end` to TAKEN.
enum { OWN_RANGES = 512, OWN_LEAST = 64 << 10, TAKEN = 1 };
static struct zg_layout_range own_ranges[OWN_RANGES];
static uint64_t own_ranges_used;

// Adds a range to own_ranges. Once all elements were used, reuses the element of an unmapped range, or ignores the
// range if there is none.
static void append_own(const void *start, uint64_t bytes) {
    uint64_t i = zg_load(&own_ranges_used), none;
    if (i < OWN_RANGES) i = __atomic_fetch_add(&own_ranges_used, 1, __ATOMIC_RELAXED);
    else
        for (i = 0, none = 0; i < OWN_RANGES; i++, none = 0)
            if (__atomic_compare_exchange_n(&own_ranges[i].end, &none, TAKEN, false, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED))
                break;
    if (i >= OWN_RANGES) return;
    zg_store(&own_ranges[i].start, (uint64_t)start);
    __atomic_store_n(&own_ranges[i].end, (uint64_t)start + bytes, __ATOMIC_RELEASE);
}

static void note_own(const void *start, uint64_t bytes) {
    if (start && bytes >= OWN_LEAST) append_own(start, bytes);
}

static void forget_own(const void *start, uint64_t bytes) {
    if (bytes < OWN_LEAST) return;
    for (uint64_t i = 0; i < OWN_RANGES && i < zg_load(&own_ranges_used); i++)
        if (zg_load(&own_ranges[i].start) == (uint64_t)start && zg_load(&own_ranges[i].end) > TAKEN)
            __atomic_store_n(&own_ranges[i].end, 0, __ATOMIC_RELEASE);
}

const struct zg_layout_range *zg_os_own_ranges(uint64_t *count) {
    *count = OWN_RANGES;
    return own_ranges;
}

bool zg_os_own_range(uint64_t index, uint64_t *start, uint64_t *end) {
    if (index >= OWN_RANGES || index >= zg_load(&own_ranges_used)) return false;
    *end = __atomic_load_n(&own_ranges[index].end, __ATOMIC_ACQUIRE);
    *start = *end > TAKEN ? zg_load(&own_ranges[index].start) : *end;
    return true;
}

static bool map_where_free(void *start, uint64_t bytes, int protection) {
    // Kernels that do not know MAP_FIXED_NOREPLACE treat the address as a hint.
    void *at = map(start, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1);
    if (at && at != start) ZG_CALL(SYS_munmap, at, bytes, 0, 0, 0, 0);
    return at == start;
}

// Maps `bytes` above an inaccessible page, so that the mapping cannot grow. A mapping of the program below it would not
// suffice, because the program may unmap that mapping later.
static char *map_above_hole(uint64_t bytes) {
    enum { APART = 2 << 20 }; // alignment that the kernel gives large mappings
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | uncounted;
    char *start = map(NULL, bytes, PROT_NONE, flags, -1);
    if (!start || !uncounted || map_where_free(start - ZG_PAGE_BYTES, ZG_PAGE_BYTES, PROT_NONE)) return start;
    ZG_CALL(SYS_munmap, start, bytes, 0, 0, 0, 0);
    start = map(NULL, bytes + APART, PROT_NONE, flags, -1);
    if (!start) return NULL;
    char *hole = start + APART - ZG_PAGE_BYTES;
    ZG_CALL(SYS_munmap, start, hole - start, 0, 0, 0, 0);
    if (map(hole, ZG_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1))
        return start + APART;
    ZG_CALL(SYS_munmap, hole, bytes + ZG_PAGE_BYTES, 0, 0, 0, 0);
    return NULL;
}

// A pool of address space that is reserved before mlockall(MCL_FUTURE), and handed out from its start to its end;
// nothing is taken back. If the runtime made a mapping after mlockall instead, the kernel would back it with memory at
// once, and count it against the program's RLIMIT_MEMLOCK.
#define POOL_BYTES ((uint64_t)64 << 30)
static uint64_t pool_at, pool_end;
static bool locks_later, locks_blocks_later;

static void *take_from_pool(uint64_t bytes, int protection) {
    if (!__atomic_load_n(&locks_later, __ATOMIC_RELAXED) || bytes > POOL_BYTES) return NULL;
    bytes = zg_round_up(bytes, ZG_PAGE_BYTES);
    uint64_t start = __atomic_fetch_add(&pool_at, bytes, __ATOMIC_RELAXED);
    if (start + bytes > zg_load(&pool_end)) return NULL;
    if (protection != PROT_NONE && is_error(ZG_CALL(SYS_mprotect, start, bytes, protection, 0, 0, 0))) return NULL;
    return (void *)start;
}

void zg_os_lock_later(bool on) {
    if (on && !zg_load(&pool_end)) {
        char *start = map_above_hole(POOL_BYTES);
        if (start) {
            advise_reserved(start, POOL_BYTES);
            __atomic_fetch_add(&reserved_bytes, POOL_BYTES, __ATOMIC_RELAXED);
            zg_store(&pool_at, (uint64_t)start);
            zg_store(&pool_end, (uint64_t)start + POOL_BYTES);
            note_own(start, POOL_BYTES);
        }
    }
    __atomic_store_n(&locks_later, on, __ATOMIC_RELEASE);
    if (!on) zg_os_lock_blocks_later(false);
}

void zg_os_lock_blocks_later(bool on) { __atomic_store_n(&locks_blocks_later, on, __ATOMIC_RELEASE); }
int zg_os_lock(void *start, uint64_t bytes) { return (int)ZG_CALL(SYS_mlock, start, bytes, 0, 0, 0, 0); }
int zg_os_lock_on_fault(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_mlock2, start, bytes, 1 /* MLOCK_ONFAULT */, 0, 0, 0);
}
void zg_os_unlock(void *start, uint64_t bytes) { ZG_CALL(SYS_munlock, start, bytes, 0, 0, 0, 0); }

uint64_t zg_os_reserved_bytes(void) { return zg_load(&reserved_bytes); }
uint64_t zg_os_mapped_bytes(void) { return zg_load(&mapped_bytes); }
uint64_t zg_os_uncounted_bytes(void) { return uncounted ? zg_load(&reserved_bytes) - shared_bytes : 0; }

void *zg_os_reserve(uint64_t bytes) {
    void *start = take_from_pool(bytes, PROT_NONE);
    if (start) return start;
    start = map_above_hole(bytes);
    if (!start && uncounted && zg_load(&reserved_bytes) == 0) {
        uncounted = 0; // an emulator, or a filter that allows fewer flags, refuses the flag
        start = map_above_hole(bytes);
        if (!start) uncounted = MAP_GROWSDOWN;
    }
    if (start) advise_reserved(start, bytes);
    if (start) __atomic_fetch_add(&reserved_bytes, bytes, __ATOMIC_RELAXED);
    note_own(start, bytes);
    return start;
}

// The one range whose memory has tags (MTE). New mappings in this range must have tags, too.
static uint64_t tagged_start, tagged_bytes;
static int tags_at(const void *start) {
    return ZG_ARCH_TAGS && (uint64_t)start - tagged_start < tagged_bytes ? PROT_MTE : 0;
}

bool zg_os_start_tags(void) {
    // Tags that the instruction IRG may choose: all but 0. Only the program uses IRG.
    long wanted = PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_SYNC | 0xfffeL << PR_MTE_TAG_SHIFT;
    return ZG_CALL(SYS_prctl, PR_SET_TAGGED_ADDR_CTRL, wanted, 0, 0, 0, 0) == 0;
}

bool zg_os_tag_range(void *start, uint64_t bytes) {
    if (is_error(ZG_CALL(SYS_mprotect, start, bytes, PROT_NONE | PROT_MTE, 0, 0, 0))) return false;
    tagged_start = (uint64_t)start;
    tagged_bytes = bytes;
    return true;
}

static bool is_cut(const void *start);

void zg_os_release(void *start, uint64_t bytes) {
    // Do not unmap: a hole would let the reservation above it grow.
    if (is_cut(start)) {
        zg_os_discard(start, bytes);
        return;
    }
    forget_own(start, bytes);
    if (!is_error(ZG_CALL(SYS_munmap, start, bytes, 0, 0, 0, 0)))
        __atomic_fetch_sub(&mapped_bytes, bytes, __ATOMIC_RELAXED);
}

void zg_os_unreserve(void *start, uint64_t bytes) {
    forget_own(start, bytes);
    if (!is_error(ZG_CALL(SYS_munmap, start, bytes, 0, 0, 0, 0)))
        __atomic_fetch_sub(&reserved_bytes, bytes, __ATOMIC_RELAXED);
}

int zg_os_commit(void *start, uint64_t bytes) {
    int result = (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE | tags_at(start), 0, 0, 0);
    if (result == 0) hint(start, bytes, MADV_DODUMP);
    if (ZG_UNLIKELY(locks_blocks_later) && result == 0) zg_os_lock_on_fault(start, bytes);
    return result;
}

void zg_os_leave_out_of_core(void *start, uint64_t bytes) { hint(start, bytes, MADV_DONTDUMP); }

int zg_os_protect(void *start, uint64_t bytes) { return (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_NONE, 0, 0, 0); }

int zg_os_discard(void *start, uint64_t bytes) {
    int result = (int)ZG_CALL(SYS_madvise, start, bytes, MADV_DONTNEED, 0, 0, 0);
    if (result != 0) note_refusal(zg_os_refused_advice);
    return result;
}

int zg_os_blank(void *start, uint64_t bytes) {
    // Map a fresh reservation over the old mapping, and give it MADV_DONTDUMP, as advise_reserved does. The new mapping
    // does not merge with reserved neighbors until zg_os_retire adds MADV_NOHUGEPAGE.
    long result = ZG_CALL(SYS_mmap, start, bytes, PROT_NONE | tags_at(start),
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | uncounted_at(start), -1, 0);
    if (is_error(result)) return (int)result;
    hint(start, bytes, MADV_DONTDUMP);
    if (ZG_UNLIKELY(__atomic_load_n(&locks_later, __ATOMIC_RELAXED))) zg_os_unlock(start, bytes);
    return 0;
}

int zg_os_retire(void *start, uint64_t bytes) {
    int result = zg_os_blank(start, bytes);
    // advise_reserved has given the neighbors this advice. Without the advice, the range would never merge with them,
    // not even after it is committed again.
    if (result == 0) ZG_CALL(SYS_madvise, start, bytes, MADV_NOHUGEPAGE, 0, 0, 0);
    return result;
}

// Repeats a call that a signal interrupted before it had an effect.
static long call_uninterrupted(long number, long a, long b, long c, long d) {
    long result;
    int tries = 0;
    do result = system_call(number, a, b, c, d, 0, 0);
    while (result == -EINTR && ++tries < TRIES_MOST);
    return result;
}

// Repeats the call for -EINTR and -EAGAIN, which are temporary (-EAGAIN: the kernel lacked a resource, madvise(2)).
static int advise(void *start, uint64_t bytes, int advice) {
    long result;
    int tries = 0;
    do result = ZG_CALL(SYS_madvise, start, bytes, advice, 0, 0, 0);
    while ((result == -EINTR || result == -EAGAIN) && ++tries < TRIES_MOST);
    return (int)result;
}

int zg_os_find_present(void *start, uint64_t bytes, unsigned char *present) {
    return (int)ZG_CALL(SYS_mincore, start, bytes, present, 0, 0, 0);
}

// Set if process_vm_readv does not exist. The process may then run in a user-mode emulator (QEMU's lacks this call).
// The emulator accepts and ignores unknown advice, and treats a range whose pages were moved away as unmapped. So
// zg_os_guard checks its result, and zg_os_move fails.
static bool may_be_emulated;
static long ask_for_word(uint64_t address);

int zg_os_guard(void *start, uint64_t bytes) {
    int result = advise(start, bytes, MADV_GUARD_INSTALL);
    return ZG_UNLIKELY(may_be_emulated) && result == 0 && ask_for_word((uint64_t)start) == 0 ? -EINVAL : result;
}
int zg_os_unguard(void *start, uint64_t bytes) { return advise(start, bytes, MADV_GUARD_REMOVE); }

static void *map_unnoted(uint64_t bytes) {
    void *start = take_from_pool(bytes, PROT_READ | PROT_WRITE);
    if (start) return start;
    start = map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    // If a limit refuses the mapping, use a reservation: RLIMIT_DATA does not count it, and RLIMIT_AS already counts
    // the space left in it.
    if (!start) return zg_os_map_for_good(bytes);
    __atomic_fetch_add(&mapped_bytes, bytes, __ATOMIC_RELAXED);
    return start;
}

void *zg_os_map(uint64_t bytes) {
    void *start = map_unnoted(bytes);
    note_own(start, bytes);
    return start;
}

void *zg_os_map_at(void *start, uint64_t bytes) {
    if (!map_where_free(start, bytes, PROT_READ | PROT_WRITE)) return NULL;
    __atomic_fetch_add(&mapped_bytes, bytes, __ATOMIC_RELAXED);
    note_own(start, bytes);
    return start;
}

// Memory of zg_os_map_for_good is cut from shared reservations, because each reservation costs half a dozen system
// calls and two mappings. If another thread or interrupted code is cutting at this moment, the caller gets a
// reservation of its own.
static uint64_t carve_at, cut_end;
static uint64_t first_carve_start, first_cut_end; // bounds of the first shared reservation
static bool is_cutting;

static bool is_cut(const void *start) {
    uint64_t first = zg_load(&first_carve_start);
    return first && (uint64_t)start - first < first_cut_end - first;
}

static char *carve(uint64_t bytes) {
    enum { AT_ONCE = 64 << 20 };
    if (__atomic_exchange_n(&is_cutting, true, __ATOMIC_ACQUIRE)) return zg_os_reserve(bytes);
    if (cut_end - carve_at < bytes) {
        uint64_t more = zg_os_limit(RLIMIT_AS) == RLIM_INFINITY ? zg_max(bytes, AT_ONCE) : bytes;
        uint64_t reserved = (uint64_t)zg_os_reserve(more);
        if (reserved) carve_at = reserved, cut_end = reserved + more;
        if (!first_carve_start) first_cut_end = cut_end, zg_store(&first_carve_start, carve_at);
    }
    char *start = cut_end - carve_at >= bytes ? (char *)carve_at : NULL;
    if (start) carve_at += bytes;
    __atomic_store_n(&is_cutting, false, __ATOMIC_RELEASE);
    return start;
}

void *zg_os_map_for_good(uint64_t bytes) {
    bytes = zg_round_up(bytes, ZG_PAGE_BYTES);
    char *start = carve(bytes);
    if (!start || is_error(ZG_CALL(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE, 0, 0, 0))) return NULL;
    hint(start, bytes, MADV_DODUMP);
    return start;
}

void *zg_os_map_table(uint64_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    if (bytes < HUGE_PAGE) return zg_os_map_for_good(bytes);
    char *start = zg_os_reserve(bytes + HUGE_PAGE);
    if (!start) return zg_os_map_for_good(bytes);
    char *aligned = (char *)zg_round_up((uint64_t)start, HUGE_PAGE);
    if (is_error(ZG_CALL(SYS_mprotect, aligned, bytes, PROT_READ | PROT_WRITE, 0, 0, 0))) {
        zg_os_unreserve(start, bytes + HUGE_PAGE);
        return NULL;
    }
    hint(aligned, bytes, MADV_DODUMP);
    ZG_CALL(SYS_madvise, aligned, bytes, MADV_HUGEPAGE, 0, 0, 0);
    return aligned;
}

bool zg_os_would_give(uint64_t bytes) {
    long start = ZG_CALL(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_error(start)) return false;
    ZG_CALL(SYS_munmap, start, bytes, 0, 0, 0, 0);
    return true;
}

// Returns true if the range is one mapping: mremap then does not fail with EFAULT. mremap never grows the mapping here,
// because there is no room. zg_os_move needs this check because since Linux 6.17 mremap moves several mappings
// together, each with the protection and advice that the program gave it.
static bool is_one_mapping(void *start, uint64_t bytes) {
    return ZG_CALL(SYS_mremap, start, bytes, bytes + ZG_PAGE_BYTES, 0, 0, 0) != -EFAULT;
}

int zg_os_move(void *from, void *to, uint64_t bytes) {
    if (ZG_UNLIKELY(may_be_emulated) || !is_one_mapping(from, bytes)) return -EINVAL;
    long result = ZG_CALL(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to, 0);
    if (!is_error(result)) {
        zg_os_inherit(to, bytes); // reset the program's fork advice: mremap has moved it, too
        return 0;
    }
    // The kernel may have unmapped the target before the call failed: map it again.
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | uncounted_at(to);
    return map(to, bytes, PROT_READ | PROT_WRITE, flags, -1) ? -EINVAL : -EFAULT;
}

// Returns how many bytes from `start` on are one mapping, by bisection.
static uint64_t one_mapping_bytes(void *start, uint64_t bytes) {
    if (is_one_mapping(start, bytes)) return bytes;
    uint64_t one = ZG_PAGE_BYTES, several = bytes;
    while (several - one > ZG_PAGE_BYTES) {
        uint64_t middle = one + ((several - one) / 2 & ~(ZG_PAGE_BYTES - 1));
        *(is_one_mapping(start, middle) ? &one : &several) = middle;
    }
    return one;
}

int zg_os_move_several(void *from, void *to, uint64_t bytes, uint64_t *moved) {
    for (*moved = 0; *moved < bytes;) {
        uint64_t piece = one_mapping_bytes((char *)from + *moved, bytes - *moved);
        int result = zg_os_move((char *)from + *moved, (char *)to + *moved, piece);
        if (result != 0) return result;
        *moved += piece;
    }
    return 0;
}

void zg_os_inherit(void *start, uint64_t bytes) {
    ZG_CALL(SYS_madvise, start, bytes, MADV_DOFORK, 0, 0, 0);
    ZG_CALL(SYS_madvise, start, bytes, MADV_KEEPONFORK, 0, 0, 0);
}

// The kernel accepts MADV_WIPEONFORK only for private anonymous memory.
bool zg_os_is_private(void *start, uint64_t bytes) {
    return ZG_CALL(SYS_madvise, start, bytes, MADV_WIPEONFORK, 0, 0, 0) == 0 &&
           ZG_CALL(SYS_madvise, start, bytes, MADV_KEEPONFORK, 0, 0, 0) == 0;
}

// Tries MADV_DOFORK, which fails if a part of the range is unmapped. Otherwise the advice changes nothing: a stack has
// it by default, and in a child of a fork no memory without it exists.
bool zg_os_is_mapped(void *start, uint64_t bytes) {
    return ZG_CALL(SYS_madvise, start, bytes, MADV_DOFORK, 0, 0, 0) == 0;
}

bool zg_os_map_hole(void *start, uint64_t bytes) {
    bool done = map_where_free(start, bytes, PROT_NONE);
    if (done) advise_reserved(start, bytes);
    return done;
}

int zg_os_open_code(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 0, 0);
}

int zg_os_close_code(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_READ | PROT_EXEC, 0, 0, 0);
}

int zg_os_open_constants(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE, 0, 0, 0);
}
int zg_os_close_constants(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_mprotect, start, bytes, PROT_READ, 0, 0, 0);
}

// Returns the thread's own id as the target of process_vm_readv. The process id is only the fallback: it names the main
// thread, which has no memory once it has exited. A saved id is not used: in the child of a fork, it could belong to
// another process. Returns 0, which is no process's id, if the kernel returns neither id.
static int self_as_target(void) {
    long thread = ZG_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (thread <= 0) thread = ZG_CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return thread > 0 ? (int)thread : 0;
}

// Probes a word if process_vm_readv does not exist (kernels without CONFIG_CROSS_MEMORY_ATTACH, user-mode emulators).
// rt_sigprocmask copies a signal mask from the address before it rejects the invalid operation (EINVAL), and reports an
// unreadable address (EFAULT). Returns 0 if the word is readable.
static long ask_for_word(uint64_t address) {
    long result = ZG_CALL(SYS_rt_sigprocmask, ~0, address & ~UINT64_C(7), NULL, sizeof(uint64_t), 0, 0);
    return result == -EINVAL ? 0 : result == -EFAULT ? -EFAULT : -ENOSYS;
}

// Reads memory without process_vm_readv: probes each page, then copies from it. If another thread unmaps the page
// between probe and copy, the copy faults. process_vm_readv has no such race.
__attribute__((no_sanitize("address"))) static int64_t read_by_asking(char *to, uint64_t from, uint64_t bytes) {
    uint64_t done = 0;
    long answer = 0;
    bool was_checked = tagged_bytes && zg_arch_check_tags(false);
    for (uint64_t part; done < bytes && from + done >= from; done += part) {
        answer = ask_for_word(from + done);
        if (answer != 0) break;
        part = zg_min(bytes - done, ZG_PAGE_BYTES - (from + done) % ZG_PAGE_BYTES);
        __builtin_memcpy(to + done, (const void *)(from + done), part);
    }
    if (was_checked) zg_arch_check_tags(true);
    if (answer == -ENOSYS) return answer;
    return done || !bytes ? (int64_t)done : -EFAULT;
}

int64_t zg_os_try_read_memory(void *to, uint64_t from, uint64_t bytes) {
    from = zg_arch_address(from);
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    long result = ZG_CALL(SYS_process_vm_readv, self_as_target(), &local, 1, &remote, 1, 0);
    if (ZG_UNLIKELY(result == -ENOSYS)) may_be_emulated = true;
    if (ZG_UNLIKELY(result == -ENOSYS)) result = read_by_asking(to, from, bytes);
    if (ZG_UNLIKELY(result < 0 && result != -EFAULT)) note_refusal(zg_os_refused_reads);
    return result;
}

int64_t zg_os_try_read_pieces(void *to, const struct zg_os_piece *pieces, int count) {
    struct iovec local = {to, 0}, remote[ZG_OS_PIECES];
    for (int i = 0; i < count; i++) {
        remote[i] = (struct iovec){(void *)pieces[i].from, pieces[i].bytes};
        local.iov_len += pieces[i].bytes;
    }
    int64_t result = ZG_CALL(SYS_process_vm_readv, self_as_target(), &local, 1, remote, count, 0);
    if (ZG_UNLIKELY(result == -ENOSYS)) {
        int64_t part = 0, done = 0;
        for (int i = 0; i < count; i++) {
            part = read_by_asking((char *)to + done, pieces[i].from, pieces[i].bytes);
            if (part > 0) done += part;
            if (part != (int64_t)pieces[i].bytes) break;
        }
        result = part == -ENOSYS || !done ? part : done;
    }
    if (ZG_UNLIKELY(result < 0 && result != -EFAULT)) note_refusal(zg_os_refused_reads);
    return result;
}

uint64_t zg_os_read_memory(void *to, uint64_t from, uint64_t bytes) {
    int64_t result = zg_os_try_read_memory(to, from, bytes);
    return result > 0 ? (uint64_t)result : 0;
}

bool zg_os_read_process(int process, void *to, uint64_t from, uint64_t bytes) {
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    return ZG_CALL(SYS_process_vm_readv, process, &local, 1, &remote, 1, 0) == (long)bytes;
}

bool zg_os_is_readable(uint64_t low, uint64_t high) {
    enum { BATCH = 32 };
    char bytes[BATCH];
    struct iovec local = {bytes, BATCH}, remote[BATCH];
    for (uint64_t page = low & ~(ZG_PAGE_BYTES - 1); page < high;) {
        long count = 0;
        for (; count < BATCH && page < high; page += ZG_PAGE_BYTES) remote[count++] = (struct iovec){(void *)page, 1};
        long result = ZG_CALL(SYS_process_vm_readv, self_as_target(), &local, 1, remote, count, 0);
        if (result == -ENOSYS)
            for (result = 0; result < count && ask_for_word((uint64_t)remote[result].iov_base) == 0;) result++;
        if (result != count) return false;
    }
    return true;
}

bool zg_os_can_read_memory(void) {
    uint64_t word = 1, copy = 0;
    return zg_os_read_memory(&copy, (uint64_t)&word, sizeof word) == sizeof word && copy == word;
}

// A write to a pipe without a reader, or beyond RLIMIT_FSIZE, raises a signal that ends programs. Such a signal is
// blocked during the write and consumed afterwards. If the program itself blocks the signal, it is not consumed,
// because a pending signal may be the program's own.
struct held_signals {
    uint64_t before;
    bool are_held;
};
static const uint64_t raised_by_writes = UINT64_C(1) << (SIGPIPE - 1) | UINT64_C(1) << (SIGXFSZ - 1);

static struct held_signals hold_signals(void) {
    struct held_signals held = {0};
    held.are_held = zg_os_mask_signals(SIG_BLOCK, raised_by_writes, &held.before);
    return held;
}

// `result` is the result of the call made while the signals were blocked.
static void release_signals(struct held_signals held, long result) {
    if (!held.are_held) return;
    const struct timespec at_once = {0};
    uint64_t own = raised_by_writes & ~held.before;
    if ((result == -EPIPE || result == -EFBIG) && own)
        ZG_CALL(SYS_rt_sigtimedwait, &own, NULL, &at_once, sizeof own, 0, 0);
    zg_os_restore_signals(held.before);
}

bool zg_os_take_signal(int signal, void *info) {
    const struct timespec at_once = {0};
    uint64_t wanted = UINT64_C(1) << (signal - 1);
    return ZG_CALL(SYS_rt_sigtimedwait, &wanted, info, &at_once, sizeof wanted, 0, 0) == signal;
}

bool zg_os_pending_signals(uint64_t *pending) {
    return !is_error(ZG_CALL(SYS_rt_sigpending, pending, sizeof *pending, 0, 0, 0, 0));
}
bool zg_os_mask_signals(int how, uint64_t mask, uint64_t *before) {
    return ZG_CALL(SYS_rt_sigprocmask, how, &mask, before, sizeof mask, 0, 0) == 0;
}

void zg_os_restore_signals(uint64_t mask) {
    for (int i = 0; i < 3; i++)
        if (zg_os_mask_signals(SIG_SETMASK, mask, NULL)) return;
}

int zg_os_write(int descriptor, const void *bytes, uint64_t count) {
    struct held_signals held = hold_signals();
    long result = call_uninterrupted(SYS_write, descriptor, (long)bytes, (long)count, 0);
    release_signals(held, result);
    return (int)result;
}

// Reads a file's status by fstat or newfstatat. A filter may allow only one of the two: the call that libc's fstat
// makes, which depends on libc's version.
static bool look_at(int descriptor, struct stat *status) {
    if (!is_error(ZG_CALL(SYS_fstat, descriptor, status, 0, 0, 0, 0))) return true;
    return ZG_UNLIKELY(zg_filter_in_effect) &&
           !is_error(ZG_CALL(SYS_newfstatat, descriptor, "", status, AT_EMPTY_PATH, 0, 0));
}

// Returns true for root and this process's user.
static bool is_trusted_owner(uid_t owner) {
    if (owner == 0) return true;
    long user = ZG_CALL(SYS_geteuid, 0, 0, 0, 0, 0, 0);
    if (is_error(user)) user = (long)getauxval(AT_EUID); // if a filter hides the user id, use the id at the start
    return owner == (uid_t)user;
}

// Returns true if another user may have planted the file: a hard link to an unrelated file, or a file that the other
// user owns and can read.
static bool may_be_planted(int descriptor) {
    struct stat status;
    if (!look_at(descriptor, &status)) return true;
    return S_ISREG(status.st_mode) && (status.st_nlink > 1 || !is_trusted_owner(status.st_uid));
}

static int open_append(int directory, const char *path, int more) {
    // With O_NONBLOCK, opening a FIFO without a reader fails (ENXIO) instead of waiting.
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | more;
    int descriptor = (int)ZG_CALL(SYS_openat, directory, path, flags, 0600, 0, 0);
    if (descriptor < 0) return descriptor;
    if (may_be_planted(descriptor)) {
        zg_os_close(descriptor);
        return -EPERM;
    }
    return descriptor;
}

int zg_os_open_append(const char *path) { return open_append(AT_FDCWD, path, O_CREAT | O_NOFOLLOW); }
int zg_os_open_append_in(int directory, const char *name) { return open_append(directory, name, 0); }
int zg_os_create_append(int directory, const char *name) {
    return open_append(directory, name, O_CREAT | O_EXCL | O_NOFOLLOW);
}

int zg_os_open_own_directory(const char *path) {
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int descriptor = (int)ZG_CALL(SYS_openat, AT_FDCWD, path, flags, 0, 0, 0);
    if (descriptor < 0) return descriptor;
    struct stat status;
    bool is_ours = look_at(descriptor, &status) && is_trusted_owner(status.st_uid) &&
                   (!(status.st_mode & (S_IWGRP | S_IWOTH)) || status.st_mode & S_ISVTX);
    if (is_ours) return descriptor;
    zg_os_close(descriptor);
    return -EPERM;
}

void zg_os_shorten(int directory, const char *name) {
    enum { WAITS_MOST = 1000 };
    int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int descriptor = (int)ZG_CALL(SYS_openat, directory, name, flags, 0, 0, 0);
    if (descriptor < 0) return;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (int i = 0; i < WAITS_MOST; i++) {
        long result = ZG_CALL(SYS_fcntl, descriptor, F_OFD_SETLK, &lock, 0, 0, 0);
        if (result != -EAGAIN && result != -EACCES) break;
        zg_os_yield();
    }
    struct stat status;
    if (look_at(descriptor, &status) && S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_size > 0)
        ZG_CALL(SYS_ftruncate, descriptor, status.st_size - 1, 0, 0, 0, 0);
    zg_os_close(descriptor);
}

bool zg_os_may_block(int descriptor) {
    struct stat status;
    return look_at(descriptor, &status) && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

bool zg_os_is_writable(int descriptor, int64_t timeout_ns) {
    struct pollfd waited = {.fd = descriptor, .events = POLLOUT};
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    long result = ZG_CALL(SYS_ppoll, &waited, 1, &timeout, NULL, 0, 0);
    return result != 0 && result != -EINTR;
}

int zg_os_send(const char *path, const void *bytes, uint64_t count) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    zg_string_copy(address.sun_path, path, sizeof address.sun_path);
    int flags = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    long socket = ZG_CALL(SYS_socket, AF_UNIX, flags, 0, 0, 0, 0);
    if (socket < 0) return (int)socket;
    long result = ZG_CALL(SYS_connect, socket, &address, sizeof address, 0, 0, 0);
    if (!is_error(result)) result = ZG_CALL(SYS_sendto, socket, bytes, count, MSG_NOSIGNAL, NULL, 0);
    zg_os_close((int)socket);
    return is_error(result) ? (int)result : 0;
}

int zg_os_open_read(const char *path) {
    return (int)ZG_CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

int zg_os_read(int descriptor, void *bytes, uint64_t count) {
    return (int)call_uninterrupted(SYS_read, descriptor, (long)bytes, (long)count, 0);
}

int zg_os_read_again(int descriptor, void *bytes, uint64_t count) {
    return (int)call_uninterrupted(SYS_pread64, descriptor, (long)bytes, (long)count, 0);
}

int64_t zg_os_read_at(int descriptor, void *bytes, uint64_t count, uint64_t at) {
    return call_uninterrupted(SYS_pread64, descriptor, (long)bytes, (long)count, (long)at);
}

static bool is_regular(int directory, const char *path) {
    struct stat status;
    return !is_error(ZG_CALL(SYS_newfstatat, directory, path, &status, 0, 0, 0)) && S_ISREG(status.st_mode);
}

int zg_os_open_program(int directory, const char *path) {
    // Check before opening, because opening a device can have side effects.
    if (!is_regular(directory, path)) return -EACCES;
    return (int)ZG_CALL(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0);
}

static bool has_file_capabilities(int directory, const char *path) {
    char name[32], capabilities[64];
    struct zg_text text;
    if (*path && directory != AT_FDCWD) return false; // getxattr takes no directory
    if (!*path) {
        zg_text_init(&text, name, sizeof name);
        zg_text_string(&text, "/proc/self/fd/");
        zg_text_decimal(&text, (uint64_t)directory);
        path = name;
    }
    return !is_error(ZG_CALL(SYS_getxattr, path, "security.capability", capabilities, sizeof capabilities, 0, 0));
}

bool zg_os_gains_privileges(int directory, const char *path) {
    struct stat status;
    uid_t users[3] = {0};
    gid_t groups[3] = {0};
    // Check PR_GET_NO_NEW_PRIVS first: a process with this bit gains no privileges. For all users but root, the kernel
    // installs a seccomp filter only if this bit is set. So a process with an unknown filter, which could kill it for
    // one of the next calls, rarely reaches them.
    if (ZG_CALL(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0) == 1 ||
        is_error(ZG_CALL(SYS_newfstatat, directory, path, &status, AT_EMPTY_PATH, 0, 0)) ||
        is_error(ZG_CALL(SYS_getresuid, &users[0], &users[1], &users[2], 0, 0, 0)) ||
        is_error(ZG_CALL(SYS_getresgid, &groups[0], &groups[1], &groups[2], 0, 0, 0)))
        return false;
    enum { EXECUTED_BY_GROUP = S_ISGID | S_IXGRP }; // S_ISGID without S_IXGRP marks mandatory locking
    uid_t user = status.st_mode & S_ISUID ? status.st_uid : users[1];
    gid_t group = (status.st_mode & EXECUTED_BY_GROUP) == EXECUTED_BY_GROUP ? status.st_gid : groups[1];
    return user != users[0] || group != groups[0] || (users[0] && has_file_capabilities(directory, path));
}

bool zg_os_is_executable(const char *path) {
    return is_regular(AT_FDCWD, path) && !is_error(ZG_CALL(SYS_faccessat, AT_FDCWD, path, 1 /* X_OK */, 0, 0, 0));
}

const char *zg_os_root = "";

int zg_os_open_system(const char *path) {
    if (!*zg_os_root) return zg_os_open_read(path);
    char whole[4096];
    struct zg_text text;
    zg_text_init(&text, whole, sizeof whole);
    zg_text_string(&text, zg_os_root);
    zg_text_string(&text, path);
    return text.truncated ? -ENAMETOOLONG : zg_os_open_read(whole);
}

bool zg_os_is_same_file(const char *one, const char *other) {
    struct stat first, second;
    return !is_error(ZG_CALL(SYS_newfstatat, AT_FDCWD, one, &first, 0, 0, 0)) &&
           !is_error(ZG_CALL(SYS_newfstatat, AT_FDCWD, other, &second, 0, 0, 0)) && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

int zg_os_readlink(const char *path, char *target, uint64_t bytes) {
    long result = ZG_CALL(SYS_readlinkat, AT_FDCWD, path, target, bytes - 1, 0, 0);
    target[result > 0 ? result : 0] = 0;
    return (int)result;
}

void zg_os_close(int descriptor) { ZG_CALL(SYS_close, descriptor, 0, 0, 0, 0, 0); }

// Hidden descriptors get numbers that the program cannot get, if RLIMIT_NOFILE can be raised while a hidden descriptor
// is created. The numbers begin at 1000 or above if the hard limit allows it, because shells and daemons use low
// numbers. If the limit cannot be raised and is at most 256, all descriptors are left to the program. Limits over 4096
// are not raised: programs never use them up, and the kernel would copy a descriptor table of that size at each fork.
enum { HIDDEN_FROM = 1000, HIDDEN_COUNT = 40, FEW_DESCRIPTORS = 256, MANY_DESCRIPTORS = 4096 };
static struct {
    uint32_t busy; // a thread is changing the limit
    // The limit is raised, or is about to be: a child that is forked meanwhile restores the limit.
    bool is_lifted;
    uint64_t from; // the first number that the program cannot get
    uint64_t before[2], lifted[2];
} descriptors;

static bool lift_descriptor_limit(void) {
    if (__atomic_exchange_n(&descriptors.busy, 1, __ATOMIC_ACQUIRE)) return false;
    uint64_t *before = descriptors.before, *lifted = descriptors.lifted;
    bool done = !is_error(ZG_CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, before, 0, 0));
    descriptors.from = zg_max(before[0], before[1] >= HIDDEN_FROM + HIDDEN_COUNT ? HIDDEN_FROM : 0);
    lifted[0] = descriptors.from + HIDDEN_COUNT;
    lifted[1] = before[1];
    if (done && before[0] <= MANY_DESCRIPTORS && lifted[0] <= before[1]) {
        __atomic_store_n(&descriptors.is_lifted, true, __ATOMIC_SEQ_CST);
        done = !is_error(ZG_CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, lifted, NULL, 0, 0));
        if (done) return true;
        __atomic_store_n(&descriptors.is_lifted, false, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&descriptors.busy, 0, __ATOMIC_RELEASE);
    return false;
}

void zg_os_lift_descriptor_limit(void) {
    if (descriptors.is_lifted) return; // another thread had raised the limit when this process was forked
    descriptors.busy = 0;
    lift_descriptor_limit();
}

void zg_os_restore_descriptor_limit(void) {
    if (!descriptors.is_lifted) return;
    uint64_t found[2] = {descriptors.lifted[0], descriptors.lifted[1]};
    ZG_CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, descriptors.before, found, 0, 0);
    // Another thread of the program has set a limit meanwhile: set that limit again.
    if (found[0] != descriptors.lifted[0] || found[1] != descriptors.lifted[1])
        ZG_CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, found, NULL, 0, 0);
    __atomic_store_n(&descriptors.is_lifted, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&descriptors.busy, 0, __ATOMIC_RELEASE);
}

int zg_os_duplicate_hidden(int descriptor) {
    bool lifts = !descriptors.is_lifted && lift_descriptor_limit();
    long result = -EMFILE, least = (long)descriptors.from;
    if (descriptors.is_lifted) result = ZG_CALL(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, least, 0, 0, 0);
    if (lifts) zg_os_restore_descriptor_limit();
    uint64_t limit = zg_os_limit(RLIMIT_NOFILE);
    if (!is_error(result) || limit <= FEW_DESCRIPTORS) return (int)result;
    least = limit > HIDDEN_FROM + HIDDEN_COUNT ? HIDDEN_FROM : (long)limit - HIDDEN_COUNT;
    return (int)ZG_CALL(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, least, 0, 0, 0);
}

bool zg_os_identify(int descriptor, uint64_t *device, uint64_t *inode) {
    struct stat status;
    if (!look_at(descriptor, &status)) return false;
    *device = status.st_dev;
    *inode = status.st_ino;
    return true;
}

int zg_os_hide_descriptor(int descriptor) {
    int moved = zg_os_duplicate_hidden(descriptor);
    zg_os_close(descriptor);
    return moved;
}

static struct perf_event_attr watch_attributes(uint64_t address, uint32_t bytes) {
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_BREAKPOINT,
        .size = sizeof attributes,
        .sample_period = 1,
        .bp_type = HW_BREAKPOINT_RW,
        .bp_addr = bytes ? address : 0,
        .bp_len = bytes ? bytes : 1,
        .disabled = !bytes,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .inherit = 1,
        .inherit_thread = 1,
        .remove_on_exec = 1,
        .sigtrap = 1,
        .sig_data = ZG_OS_WATCH_MARK,
    };
    return attributes;
}

int zg_os_watch_open(void) {
    if (zg_filter_is_inherited()) return -EPERM;
    struct perf_event_attr attributes = watch_attributes(0, 0);
    long descriptor = ZG_CALL(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
    return descriptor < 0 ? (int)descriptor : zg_os_hide_descriptor((int)descriptor);
}

uint64_t zg_os_watch_id(int descriptor) {
    uint64_t id = 0;
    return is_error(ZG_CALL(SYS_ioctl, descriptor, PERF_EVENT_IOC_ID, &id, 0, 0, 0)) ? 0 : id;
}

int zg_os_watch_move(int descriptor, uint64_t address, uint32_t bytes) {
    struct perf_event_attr attributes = watch_attributes(address, bytes);
    return (int)ZG_CALL(SYS_ioctl, descriptor, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attributes, 0, 0, 0);
}

bool zg_os_watch_is_safe(void) {
    enum { MAJOR = 5, MINOR = 18 };
    static struct utsname name; // not on the program's stack
    uint32_t numbers[2] = {0};
    if (is_error(ZG_CALL(SYS_uname, &name, 0, 0, 0, 0, 0))) return false;
    const char *at = name.release;
    for (int i = 0; i < 2; i++, at += *at == '.')
        for (; *at >= '0' && *at <= '9'; at++) numbers[i] = numbers[i] * 10 + (uint32_t)(*at - '0');
    return numbers[0] > MAJOR || (numbers[0] == MAJOR && numbers[1] >= MINOR);
}

uint64_t zg_os_signal_handler(int signal) {
    uint64_t action[4] = {0}; // the kernel's struct sigaction begins with the handler
    return is_error(ZG_CALL(SYS_rt_sigaction, signal, 0, action, sizeof(uint64_t), 0, 0)) ? 0 : action[0];
}

bool zg_os_is_traced(void) {
    static const char name[] = "\nTracerPid:\t";
    enum { LENGTH = sizeof name - 1 };
    static char text[1024]; // holds TracerPid, one of the first ten lines; static, as the program's stack may be small
    int file = zg_os_open_system("/proc/self/status");
    if (file < 0) return false;
    int count = zg_os_read(file, text, sizeof text);
    zg_os_close(file);
    for (int i = 0; i + LENGTH < count; i++)
        if (__builtin_memcmp(text + i, name, LENGTH) == 0) return text[i + LENGTH] != '0';
    return false;
}

uint64_t zg_os_context_switches(void) {
    struct rusage usage;
    if (is_error(ZG_CALL(SYS_getrusage, RUSAGE_SELF, &usage, 0, 0, 0, 0))) return 0;
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

bool zg_os_leave_descriptors(const int *kept, int count) {
    // The first call gives the thread its own descriptor table (CLOSE_RANGE_UNSHARE), without the call's range.
    unsigned from = 0, flags = 2;
    for (int i = 0; i <= count; i++) {
        unsigned to = i < count ? (unsigned)kept[i] : ~0u;
        if (to > from) {
            if (is_error(ZG_CALL(SYS_close_range, from, i < count ? to - 1 : to, flags, 0, 0, 0)) && flags)
                return false;
            flags = 0;
        }
        if (i < count && to >= from) from = to + 1;
    }
    return true;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u // Linux 6.3; required if vm.memfd_noexec is 2
#endif

int zg_os_memfd(const char *name, uint64_t bytes) {
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    long descriptor = ZG_CALL(SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL, 0, 0, 0, 0);
    if (descriptor == -EINVAL) descriptor = ZG_CALL(SYS_memfd_create, name, flags, 0, 0, 0, 0);
    if (descriptor < 0) return (int)descriptor;
    ZG_CALL(SYS_fchmod, descriptor, 0600, 0, 0, 0, 0);
    struct held_signals held = hold_signals(); // RLIMIT_FSIZE applies to memory files
    long result = ZG_CALL(SYS_ftruncate, descriptor, bytes, 0, 0, 0, 0);
    release_signals(held, result);
    // A reader that has mapped the file would die of SIGBUS if the file shrank. If the kernel refuses the seal
    // (qemu-user), the file serves only core files, because zguard maps no file without the seal.
    ZG_CALL(SYS_fcntl, descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0, 0, 0);
    if (result == 0) return (int)descriptor;
    zg_os_close((int)descriptor);
    return (int)result;
}

void zg_os_give_file(int descriptor, uint32_t user) {
    ZG_CALL(SYS_fchown, descriptor, user, -1 /* the group stays */, 0, 0, 0);
}

int zg_os_open_sealed(int directory, const char *name, uint64_t bytes) {
    int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int descriptor = (int)ZG_CALL(SYS_openat, directory, name, flags, 0, 0, 0);
    if (descriptor < 0) return descriptor;
    struct stat status;
    // If a filter forbids fcntl, assume that the file is sealed: it lies in the run's directory, which is trusted.
    long seals = zg_os_may_call(SYS_fcntl) ? ZG_CALL(SYS_fcntl, descriptor, F_GET_SEALS, 0, 0, 0, 0) : F_SEAL_SHRINK;
    if (look_at(descriptor, &status) && S_ISREG(status.st_mode) && status.st_size >= (off_t)bytes && seals >= 0 &&
        seals & F_SEAL_SHRINK)
        return descriptor;
    zg_os_close(descriptor);
    return -EPERM;
}

void *zg_os_map_again(void *shared, uint64_t bytes) {
    // An old length of 0 maps the same pages once more (mremap(2)).
    long result = ZG_CALL(SYS_mremap, shared, 0, bytes, MREMAP_MAYMOVE, 0, 0);
    if (!is_error(result)) __atomic_fetch_add(&mapped_bytes, bytes, __ATOMIC_RELAXED);
    return is_error(result) ? NULL : (void *)result;
}

void *zg_os_map_common(uint64_t bytes) {
    void *start = map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!start) return NULL;
    ZG_CALL(SYS_madvise, start, bytes, MADV_NOHUGEPAGE, 0, 0, 0); // fails in kernels without huge pages
    __atomic_fetch_add(&mapped_bytes, bytes, __ATOMIC_RELAXED);
    // Further mappings of this memory inherit MADV_NOHUGEPAGE and MADV_DONTFORK.
    if (zg_os_share_with_children(start, bytes, false) == 0) return start;
    zg_os_release(start, bytes);
    return NULL;
}

int zg_os_map_window(void *common, uint64_t bytes, void *at) {
    // An old length of 0, as in zg_os_map_again.
    long result = ZG_CALL(SYS_mremap, common, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at, 0);
    return is_error(result) ? (int)result : 0;
}

int zg_os_share_with_children(void *common, uint64_t bytes, bool share) {
    return (int)ZG_CALL(SYS_madvise, common, bytes, share ? MADV_DOFORK : MADV_DONTFORK, 0, 0, 0);
}

int zg_os_populate(void *start, uint64_t bytes) {
    return (int)ZG_CALL(SYS_madvise, start, bytes, 22 /* MADV_POPULATE_READ, Linux 5.14 */, 0, 0, 0);
}

int zg_os_remove(void *common, uint64_t bytes) {
    return (int)ZG_CALL(SYS_madvise, common, bytes, MADV_REMOVE, 0, 0, 0);
}

void *zg_os_map_shared(int descriptor, uint64_t bytes, void *at) {
    return map(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), descriptor);
}

void *zg_os_map_private(uint64_t bytes, void *at) {
    return map(at, bytes, PROT_READ | PROT_WRITE | tags_at(at), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
}

// The kernel's last answers, used when a filter hides the current ones. In the child of a fork, these are the parent's
// at first.
static int noted_pid;
static __thread int noted_tid __attribute__((tls_model("initial-exec")));
static uint64_t kept_limits[RLIM_NLIMITS], kept_memory;
static bool limit_is_kept[RLIM_NLIMITS];

static char noted_name[16]; // name of the main thread

void zg_os_note_identity(int pid, const char *name) {
    noted_pid = pid;
    zg_string_copy(noted_name, name, sizeof noted_name);
}

int zg_os_pid(void) {
    long result = ZG_CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return result > 0 ? (int)result : noted_pid;
}

// Returns the thread id that libc keeps and writes into a mutex when the thread locks it. 0 if the program has no
// thread library (before glibc 2.34).
static int libcs_tid(void) {
#ifdef __GLIBC__
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    if (pthread_mutex_lock(&mutex) != 0) return 0;
    int tid = mutex.__data.__owner;
    pthread_mutex_unlock(&mutex);
    return tid;
#else
    return 0; // musl's mutexes do not show the id
#endif
}
// If zg_os_tid cannot learn the thread's id, it makes up an id that is unique to the thread. Made-up ids begin at this
// number; all ids from the kernel are smaller.
enum { NO_THREADS_FROM = 1 << 30 };
int zg_os_tid(void) {
    long result = ZG_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (result > 0) return noted_tid = (int)result;
    if (!noted_tid) noted_tid = libcs_tid();
    return noted_tid ? noted_tid : NO_THREADS_FROM | (int)((uint64_t)__errno_location() >> 4 & (NO_THREADS_FROM - 1));
}
bool zg_os_tid_is_from_kernel(int tid) { return tid > 0 && tid < NO_THREADS_FROM; }
void zg_os_thread_name(char name[16]) {
    name[0] = 0;
    if (is_error(ZG_CALL(SYS_prctl, PR_GET_NAME, name, 0, 0, 0, 0)) && zg_os_tid() == zg_os_pid())
        zg_string_copy(name, noted_name, sizeof noted_name);
    name[15] = 0;
}
void zg_os_set_thread_name(const char *name) { ZG_CALL(SYS_prctl, PR_SET_NAME, name, 0, 0, 0, 0); }
void zg_os_kill_self(int signal) { ZG_LAST_CALL(SYS_tgkill, zg_os_pid(), zg_os_tid(), signal, 0, 0, 0); }
void zg_os_raise_again(int signal, const void *info) {
    ZG_LAST_CALL(SYS_rt_tgsigqueueinfo, zg_os_pid(), zg_os_tid(), signal, info, 0, 0);
}
bool zg_os_lift_file_limit(uint64_t before[2]) {
    if (is_error(ZG_CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, before, 0, 0))) return false;
    uint64_t lifted[] = {before[1], before[1]};
    return !is_error(ZG_CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, lifted, NULL, 0, 0));
}
void zg_os_limit_files(const uint64_t limit[2]) { ZG_CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, limit, NULL, 0, 0); }

bool zg_os_may_become_root(void) {
    uid_t users[3] = {0};
    ZG_CALL(SYS_getresuid, &users[0], &users[1], &users[2], 0, 0, 0);
    return !users[0] || !users[1] || !users[2];
}

bool zg_os_is_gone(int pid) { return ZG_CALL(SYS_kill, pid, 0, 0, 0, 0, 0) == -ESRCH; }
void zg_os_let_trace(int pid) { ZG_CALL(SYS_prctl, PR_SET_PTRACER, pid, 0, 0, 0, 0); }

void zg_os_exit(int status) {
    for (;;) ZG_LAST_CALL(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

// If a filter hides a clock, later readings are computed from the clock's last reading and the processor's tick
// counter.
enum { LAST_CLOCKS = CLOCK_MONOTONIC_COARSE + 1 };
static struct { uint64_t ns, ticks; } last_clocks[LAST_CLOCKS];
static uint64_t first_ns, first_ticks; // CLOCK_MONOTONIC

static uint64_t extrapolated_clock(int clock) {
    if (clock < 0 || clock >= LAST_CLOCKS || !last_clocks[clock].ns) return 0;
    uint64_t ticks = last_clocks[CLOCK_MONOTONIC].ticks - first_ticks, ns = last_clocks[CLOCK_MONOTONIC].ns - first_ns;
    uint64_t since = zg_arch_ticks() - last_clocks[clock].ticks;
    return last_clocks[clock].ns + (ns > 100000 && ticks ? zg_scaled(since, ns, ticks) : zg_scaled(since, 2, 5));
}

// Reads a coarse clock through libc's clock_gettime, which makes no system call if the vDSO is mapped. Returns false
// otherwise.
static bool read_mapped_clock(int clock, struct timespec *now) {
    int coarse = clock == CLOCK_REALTIME    ? CLOCK_REALTIME_COARSE
                 : clock == CLOCK_MONOTONIC ? CLOCK_MONOTONIC_COARSE
                                            : -1;
    return coarse >= 0 && getauxval(AT_SYSINFO_EHDR) && clock_gettime(coarse, now) == 0;
}

static uint64_t clock_now(int clock) {
    struct timespec now = {0, 0};
    if (is_error(ZG_CALL(SYS_clock_gettime, clock, &now, 0, 0, 0, 0)) && !read_mapped_clock(clock, &now))
        return extrapolated_clock(clock);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t zg_os_clock_ns(int clock) { return clock_now(clock); }

uint64_t zg_os_limit(int resource) {
    struct rlimit limit;
    if (is_error(ZG_CALL(SYS_prlimit64, 0, resource, 0, &limit, 0, 0)))
        return __atomic_load_n(&limit_is_kept[resource], __ATOMIC_ACQUIRE) ? zg_load(&kept_limits[resource])
                                                                           : RLIM_INFINITY;
    zg_store(&kept_limits[resource], limit.rlim_cur);
    __atomic_store_n(&limit_is_kept[resource], true, __ATOMIC_RELEASE);
    return limit.rlim_cur;
}

// Finds the size of the address space from a stack address (AT_RANDOM): the stack lies at the upper end, except for a
// random distance that is small in comparison.
uint64_t zg_os_address_space(void) {
    enum { ENOUGH_BITS = 46 };
    uint64_t limit = zg_os_limit(RLIMIT_AS), place = getauxval(AT_RANDOM);
    uint64_t bits = place ? 64 - (uint64_t)__builtin_clzll(place) : 64;
    return bits >= ENOUGH_BITS ? limit : zg_min(limit, UINT64_C(1) << bits);
}

bool zg_os_has_expected_pages(void) {
    uint64_t bytes = getauxval(AT_PAGESZ);
    return !bytes || bytes == ZG_PAGE_BYTES;
}

uint64_t zg_os_physical_memory(void) {
    struct sysinfo info = {0};
    if (!kept_memory && !is_error(ZG_CALL(SYS_sysinfo, &info, 0, 0, 0, 0, 0)))
        kept_memory = (uint64_t)info.totalram * info.mem_unit;
    return kept_memory;
}

void zg_os_after_fork_in_child(void) {
    // The thread that forked is the child's main thread, and has a new id.
    noted_tid = 0;
    if (!zg_os_may_call(SYS_getpid)) noted_pid = libcs_tid();
    zg_os_remember();
}

void zg_os_remember(void) {
    noted_pid = zg_os_pid();
    zg_os_physical_memory();
    if (first_ns) return;
    first_ns = clock_now(CLOCK_MONOTONIC);
    first_ticks = zg_arch_ticks();
#ifdef ZG_STATIC // the runtime's variables lie in the executable (base.h)
    extern const char __start_zg_bss[], __stop_zg_bss[], __start_zg_data[], __stop_zg_data[];
    append_own(__start_zg_bss, (uint64_t)(__stop_zg_bss - __start_zg_bss));
    append_own(__start_zg_data, (uint64_t)(__stop_zg_data - __start_zg_data));
#endif
}

void zg_os_before_filter(void) {
    zg_os_tid();
    for (int clock = 0; clock < LAST_CLOCKS; clock++) {
        last_clocks[clock].ns = clock_now(clock);
        last_clocks[clock].ticks = zg_arch_ticks();
    }
}

bool zg_os_may_call(long number) { return !zg_filter_in_effect || may_call(number, 0, 0, 0, 0, 0, 0); }
bool zg_os_may_commit(void) {
    return !zg_filter_in_effect || may_call(SYS_mprotect, 0, (long)ZG_PAGE_BYTES, PROT_READ | PROT_WRITE, 0, 0, 0);
}
bool zg_os_may_all(void) {
    static const long calls[] = {SYS_process_vm_readv, SYS_clock_gettime, SYS_rt_sigprocmask,
                                 SYS_sigaltstack,      SYS_munmap,        SYS_gettid,
                                 SYS_getpid,           SYS_pread64,       SYS_write};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(calls); i++)
        if (!zg_os_may_call(calls[i])) return false;
    const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return zg_os_may_commit() && may_call(SYS_mmap, 0, (long)ZG_PAGE_BYTES, PROT_NONE, fixed, -1, 0) &&
           may_call(SYS_madvise, 0, (long)ZG_PAGE_BYTES, MADV_DONTNEED, 0, 0, 0);
}
bool zg_os_is_own_process(void) { return zg_os_pid() == noted_pid; }
bool zg_os_has_thread(int tid) { return ZG_CALL(SYS_tgkill, noted_pid, tid, 0, 0, 0, 0) != -ESRCH; }
void zg_os_grow_stack(void) {
    enum { STACK_MOST = 8 << 20, STACK_LEAST = 1 << 20, ABOVE_END = 256 << 10 }; // ABOVE_END: arguments, environment
    uint64_t end = (uint64_t)zg_libc_stack_end() & ~(ZG_PAGE_BYTES - 1), limit = zg_os_limit(RLIMIT_STACK);
    uint64_t bytes = zg_min(limit, STACK_MOST), mapped = 0, missing;
    for (bytes -= zg_min(bytes, ABOVE_END); bytes >= STACK_LEAST; bytes /= 2) {
        bytes &= ~(ZG_PAGE_BYTES - 1);
        // Find the mapped size by bisection.
        for (missing = bytes; missing - mapped > ZG_PAGE_BYTES;) {
            uint64_t middle = mapped + ((missing - mapped) / 2 & ~(ZG_PAGE_BYTES - 1));
            *(zg_os_is_mapped((char *)end - middle, middle) ? &mapped : &missing) = middle;
        }
        // Let the kernel write at the new lowest address: it grows the stack as for an access of the program, or fails
        // without a fault.
        if (is_error(ZG_CALL(SYS_clock_gettime, CLOCK_MONOTONIC, end - bytes, 0, 0, 0, 0))) continue;
        if (bytes > mapped) __atomic_fetch_add(&mapped_bytes, bytes - mapped, __ATOMIC_RELAXED);
        return;
    }
}

uint64_t zg_os_break(void) {
    long result = ZG_CALL(SYS_brk, 0, 0, 0, 0, 0, 0);
    return is_error(result) ? 0 : (uint64_t)result;
}
int zg_os_alternate_stack(const void *stack, void *old) {
    return (int)ZG_CALL(SYS_sigaltstack, stack, old, 0, 0, 0, 0);
}

void zg_os_yield(void) { ZG_CALL(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

int zg_os_futex_wait(uint32_t *word, uint32_t expected, bool private_, int64_t timeout_ns) {
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int operation = FUTEX_WAIT | (private_ ? FUTEX_PRIVATE_FLAG : 0);
    return (int)ZG_CALL(SYS_futex, word, operation, expected, timeout_ns < 0 ? NULL : &timeout, 0, 0);
}

int zg_os_futex_wake(uint32_t *word, int count, bool private_) {
    return (int)ZG_CALL(SYS_futex, word, FUTEX_WAKE | (private_ ? FUTEX_PRIVATE_FLAG : 0), count, 0, 0, 0);
}
