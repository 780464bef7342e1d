// Short memory: what the kernel's files say about it, whether that is much, and what follows from it.
// All pure but zg_pressure_note_… and zg_pressure_read (pressure_linux.c), which a caller at a time may enter; no lock.

#ifndef ZG_PRESSURE_H
#define ZG_PRESSURE_H

#include "platform/base.h"

// -- texts: false or nothing where the text does not say it, or was cut off in the middle of it --

// A file that is one number, or "max" (then UINT64_MAX).
bool zg_pressure_parse_number(const char *text, uint64_t bytes, uint64_t *value);
// A line "NAME 12", "NAME: 12 kB": the number, in bytes. Too large a one is UINT64_MAX.
bool zg_pressure_parse_field(const char *text, uint64_t bytes, const char *name, uint64_t *value);

// A file memory.pressure: shares in hundredths of a percent, times in microseconds.
struct zg_stall {
    uint64_t some_average, some_total, full_total;
};
bool zg_pressure_parse_stall(const char *text, uint64_t bytes, struct zg_stall *stall);

// The process's path in the hierarchy of version 1 or 2 that controls memory, from /proc/self/cgroup.
bool zg_pressure_parse_group(const char *text, uint64_t bytes, int version, char *path, uint64_t capacity);
// A line of /proc/self/mountinfo that mounts that hierarchy: the path in it that is mounted, and where.
bool zg_pressure_parse_mount(const char *line, uint64_t bytes, int version, char *root, char *place, uint64_t capacity);

// -- what was read, and what it means --

// 0 as the limit: there is none, or nothing is known.
struct zg_bound {
    uint64_t used, limit;
};

struct zg_readings {
    struct zg_bound group;         // the control group, or the ancestor whose limit is nearest
    struct zg_bound address_space; // RLIMIT_AS
    struct zg_bound data;          // RLIMIT_DATA
    uint64_t available, total;     // of the system; total 0: unknown
    uint64_t stall_average; // largest share of time in which something waited for memory, in hundredths of a percent
    uint64_t some_us, full_us, elapsed_us; // the same since the reading before; all: nothing ran meanwhile
    uint64_t throttled, killed;            // events of the control group since then: its limit was met, it was short
    uint64_t failures;                     // the kernel refused memory to the heap since then
};

enum { zg_pressure_suffices, zg_pressure_low, zg_pressure_short };
int zg_pressure_level(const struct zg_readings *readings);
// The bound that is nearest to its limit.
struct zg_bound zg_pressure_tighter(struct zg_bound a, struct zg_bound b);
// The group has too little left for a page for each block: dead blocks between living ones keep their pages, and what is left has to
// do for that.
bool zg_pressure_is_narrow(const struct zg_readings *readings);
// How much new memory the process may take before the next look.
uint64_t zg_pressure_stride(const struct zg_readings *readings);

// -- the answer, a step at each look --

enum zg_pressure_step {
    zg_pressure_wait,
    zg_pressure_relieve, // pages of dead blocks and free pages go back; the dead stay dead
    zg_pressure_shrink,  // the quarantine's cap falls to `cap`
    zg_pressure_release, // what the quarantine holds is reused
    zg_pressure_raise,   // the cap rises to `cap`
};

struct zg_pressure_course {
    uint64_t cap;        // what the quarantine may hold
    uint64_t changed_ns; // when that was changed
    uint32_t calm;       // looks in a row that found no pressure
    bool relieved, released;
};
// Input of zg_pressure_next.
struct zg_pressure_state {
    int level;            // enum zg_pressure_level
    uint64_t cap;         // bytes that the quarantine may hold when memory suffices
    uint64_t quarantined; // bytes that it holds
    uint64_t backed;      // bytes that a relief would give back, estimated
    uint64_t stride;      // zg_pressure_stride of the same reading
    uint64_t now_ns;      // monotonic
};
enum zg_pressure_step zg_pressure_next(struct zg_pressure_course *course, const struct zg_pressure_state *state);

// -- the heap's own word. Any context. --

extern uint64_t zg_pressure_failures, zg_pressure_taken;
// The kernel refused memory.
ZG_INLINE void zg_pressure_note_failure(void) { __atomic_fetch_add(&zg_pressure_failures, 1, __ATOMIC_RELAXED); }
// This much address space, which has no memory behind it, is about to be used.
ZG_INLINE void zg_pressure_note_taken(uint64_t bytes) {
    __atomic_fetch_add(&zg_pressure_taken, bytes, __ATOMIC_RELAXED);
}
// -- reading (pressure_linux.c). Slow path; system calls only; one caller at a time --

// How far a reading may go.
enum zg_pressure_reach {
    zg_pressure_kept,  // no file is opened: other threads use the descriptor table, and may count on the lowest number
    zg_pressure_open,  // the calling thread is the only one; what is to be kept is opened as well
    zg_pressure_apart, // the calling thread has a table of its own
};

// Opens the one file that says which system calls may be made later. Start-up, and child of a fork.
// The very first thing: a filter of system calls that the process has inherited through exec is noticed, and from then on nothing
// is called that a filter for this program need not know. One that the first process has as well is a container's: those refuse and
// do not kill, and the calls are tried as ever.
void zg_pressure_find_filters(void);
void zg_pressure_start(void);
void zg_pressure_after_fork_in_child(bool from_main_thread);
// All that is to be had without opening what may not be opened.
void zg_pressure_read(struct zg_readings *readings, enum zg_pressure_reach reach);
// The files that are kept open for zg_pressure_kept have been looked for.
bool zg_pressure_is_prepared(void);

// Address space of the process, what of it RLIMIT_DATA counts, and what are stacks, as the kept file says. False where it cannot be read.
bool zg_pressure_mapped(uint64_t *space, uint64_t *data, uint64_t *stacks);

// The process as its kept file shows it. False where that cannot be read (any more).
struct zg_process_state {
    bool filtered;    // some filter of system calls is in force
    bool as_at_start; // and it is the one of the start, or none
    bool main_ended;  // the main thread has left by pthread_exit
    uint64_t threads;
};
bool zg_pressure_process(struct zg_process_state *state);
// The descriptors that are kept, in no order. Returns how many.
enum { ZG_PRESSURE_KEPT = 6 };
int zg_pressure_descriptors(int descriptors[ZG_PRESSURE_KEPT]);

#endif
