// Memory pressure: parses the kernel's files about memory, rates the pressure, and chooses how to respond. Pure, except
// zg_pressure_note_… and pressure_linux.c, whose functions only one caller at a time may use; no lock.

#ifndef ZG_PRESSURE_H
#define ZG_PRESSURE_H

#include "platform/base.h"

// -- parsing: false if the text lacks the value, or ends in the middle of it --

// Parses a file that is one number, or "max" (UINT64_MAX).
bool zg_pressure_parse_number(const char *text, uint64_t bytes, uint64_t *value);
// Parses a line "NAME 12" or "NAME: 12 kB"; the result is in bytes, UINT64_MAX if the number is too large.
bool zg_pressure_parse_field(const char *text, uint64_t bytes, const char *name, uint64_t *value);

// Contents of a file memory.pressure (PSI): shares in hundredths of a percent, times in microseconds.
struct zg_stall {
    uint64_t some_average, some_total, full_total;
};
bool zg_pressure_parse_stall(const char *text, uint64_t bytes, struct zg_stall *stall);

// Finds the process's path in the control group hierarchy of version 1 or 2 that controls memory, from
// /proc/self/cgroup.
bool zg_pressure_parse_group(const char *text, uint64_t bytes, int version, char *path, uint64_t capacity);
// Parses a line of /proc/self/mountinfo that mounts this hierarchy. `root`: the mounted path in the hierarchy; `place`:
// the mount point.
bool zg_pressure_parse_mount(const char *line, uint64_t bytes, int version, char *root, char *place, uint64_t capacity);

// -- readings, and their rating --

// `limit` is 0 if there is no limit, or an unknown one.
struct zg_bound {
    uint64_t used, limit;
};

struct zg_readings {
    struct zg_bound group;         // the control group, or its ancestor that is nearest to its limit
    struct zg_bound address_space; // RLIMIT_AS
    struct zg_bound data;          // RLIMIT_DATA
    uint64_t available, total;     // memory of the system; total is 0 if unknown
    // Share of time in which some task waited for memory, in hundredths of a percent; the largest of all sources.
    uint64_t stall_average;
    // Since the last reading: time in which some tasks waited for memory, time in which all tasks waited, and total
    // time.
    uint64_t some_us, full_us, elapsed_us;
    // Events of the control group since the last reading: how often the limit was reached (throttled), and how often
    // memory ran out (killed).
    uint64_t throttled, killed;
    uint64_t failures; // since the last reading: requests for memory that the kernel refused to the heap
};

enum { zg_pressure_none, zg_pressure_low, zg_pressure_high };
int zg_pressure_level(const struct zg_readings *readings);
// Returns the bound that is nearer to its limit.
struct zg_bound zg_pressure_tighter(struct zg_bound a, struct zg_bound b);
// Returns true if the control group has too little memory left to isolate each block. Isolation takes more memory,
// because pages of freed blocks between live ones keep their memory.
bool zg_pressure_is_narrow(const struct zg_readings *readings);
// Returns how much new memory the process may take before the next reading.
uint64_t zg_pressure_stride(const struct zg_readings *readings);

// -- the response: one step per reading --

enum zg_pressure_step {
    zg_pressure_wait,
    zg_pressure_relieve, // give back free pages and memory of freed blocks, whose addresses stay retired
    zg_pressure_shrink,  // lower the quarantine's cap to `cap`
    zg_pressure_release, // relieve again, once the cap has fallen to 0
    zg_pressure_raise,   // raise the cap to `cap`
};

struct zg_pressure_course {
    uint64_t cap;        // bytes that the quarantine may hold
    uint64_t changed_ns; // time of the last change of `cap`
    uint32_t calm;       // consecutive readings without pressure
    bool relieved, released;
};
// Input of zg_pressure_next.
struct zg_pressure_state {
    int level;            // zg_pressure_level of the same reading
    uint64_t cap;         // bytes that the quarantine may hold when memory suffices
    uint64_t quarantined; // bytes that the quarantine holds
    uint64_t backed;      // estimate of the bytes that a relief would give back
    uint64_t stride;      // zg_pressure_stride of the same reading
    uint64_t now_ns;      // CLOCK_MONOTONIC
};
enum zg_pressure_step zg_pressure_next(struct zg_pressure_course *course, const struct zg_pressure_state *state);

// -- notes from the heap. Any context. --

extern uint64_t zg_pressure_failures, zg_pressure_taken;
// The kernel has refused memory to the heap.
ZG_INLINE void zg_pressure_note_failure(void) { __atomic_fetch_add(&zg_pressure_failures, 1, __ATOMIC_RELAXED); }
// The heap is about to use this much address space that has no memory yet.
ZG_INLINE void zg_pressure_note_taken(uint64_t bytes) {
    __atomic_fetch_add(&zg_pressure_taken, bytes, __ATOMIC_RELAXED);
}
// -- reading (pressure_linux.c). Slow path; system calls only; one caller at a time --

// Which files a reading may open.
enum zg_pressure_reach {
    // None, because other threads use the descriptor table and may rely on the lowest free descriptor number. Only
    // files that are already open are read.
    zg_pressure_kept_files,
    // All files, because the calling thread is the only one. Also opens the files that zg_pressure_kept_files reads.
    zg_pressure_all_files,
    // All files, because the calling thread has a descriptor table of its own.
    zg_pressure_own_table,
};

// Detects seccomp filters that the process has inherited through exec. Call before all else: under an unknown filter
// the runtime makes only system calls that any filter for this program must allow. If process 1 has the same filters,
// they are a container's. Such filters make calls fail with an error (SECCOMP_RET_ERRNO) and do not kill, so the
// runtime tries all calls.
void zg_pressure_find_filters(void);
// Opens /proc/self/status, which later tells whether system calls may be made. Start-up, and child of a fork.
void zg_pressure_start(void);
void zg_pressure_after_fork_in_child(bool from_main_thread);
// Reads all sources that `reach` permits.
void zg_pressure_read(struct zg_readings *readings, enum zg_pressure_reach reach);
// Returns true if those files of zg_pressure_kept_files that exist have been opened.
bool zg_pressure_is_prepared(void);

// Sizes of the process's address space, of its part that RLIMIT_DATA counts, and of stacks, from the file
// /proc/self/status that zg_pressure_start opened. False if the file is unreadable.
bool zg_pressure_mapped(uint64_t *space, uint64_t *data, uint64_t *stacks);

// State of the process, from the same file /proc/self/status. False if the file is unreadable.
struct zg_process_state {
    bool filtered;    // a seccomp filter is in force
    bool as_at_start; // the filters are unchanged since the start, or there are none
    bool main_ended;  // the main thread has left by pthread_exit
    uint64_t threads;
};
bool zg_pressure_process(struct zg_process_state *state);
// Stores the descriptors of the files that stay open, in no order. Returns their number.
enum { ZG_PRESSURE_KEPT = 6 };
int zg_pressure_descriptors(int descriptors[ZG_PRESSURE_KEPT]);

#endif
