// Reads memory pressure on Linux: /proc, control groups of both versions, resource limits. Slow path; system calls
// only, no allocation, no lock: the caller ensures that it is the only one.
//
// System calls are restricted. A seccomp filter of the program may kill the program for a call that the program itself
// does not make. So /proc/self/status is opened at the start, and read again (pread64) before anything else: while it
// shows the filters of the start, all calls that worked at the start are allowed. Also, opening a file could take the
// lowest free descriptor number from a thread that relies on it. So files are opened only if the process has one
// thread, or in a descriptor table of the thread's own (zg_os_leave_descriptors). Otherwise only files that were opened
// before (`kept`) are read.

#define _GNU_SOURCE
#include "pressure/pressure.h"

#include <sys/resource.h>
#include <time.h>

#include "platform/filter.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "settings/stats.h"

enum { kept_status, kept_system, kept_usage, kept_parts, kept_most, kept_high };
enum { TEXT_BYTES = 8192, PATH_BYTES = 1024, LINE_BYTES = 2048 };

// Open files and their identities: the program may have closed one of the descriptors and opened another file under its
// number.
static struct kept {
    bool open;
    int descriptor;
    uint64_t device, inode;
} kept[ZG_PRESSURE_KEPT];

// The process's control group in one hierarchy: its directory, and the length of the mount point in that path.
struct group {
    char path[PATH_BYTES];
    uint64_t mount_bytes;
    struct zg_stall stall;
    uint64_t throttled, killed; // counters at the last reading
    bool stall_known, events_known;
};

static struct group groups[2]; // index: version - 1; an empty path: no group found
static bool prepared, groups_known;
// Limit of memory plus swap (version 1). The usage in kept_usage is compared with this limit, too.
static uint64_t kept_swap_limit;
static struct zg_stall system_stall;
static bool system_stall_known;
static uint64_t failures_seen, read_ns;
static bool filter_known;
static uint64_t filter_mode, filter_count; // values at the start
// Static buffers, because the stack may be a coroutine's small stack.
static char text[TEXT_BYTES], whole[PATH_BYTES + 64];

// --- files -----------------------------------------------------------------------------------------------------------

static void keep(int which, int opened) {
    struct kept *file = &kept[which];
    file->open = false;
    if (opened < 0) return;
    file->descriptor = zg_os_duplicate_hidden(opened);
    zg_os_close(opened);
    file->open = file->descriptor >= 0 && zg_os_identify(file->descriptor, &file->device, &file->inode);
    if (file->descriptor >= 0 && !file->open) zg_os_close(file->descriptor);
}

static bool is_same(const struct kept *file) {
    uint64_t device, inode;
    return file->open && zg_os_identify(file->descriptor, &device, &inode) && device == file->device &&
           inode == file->inode;
}

// Reads into `text`. Returns the number of bytes; 0 if the program has closed the file, or if it is empty or
// unreadable.
static uint64_t read_kept(int which) {
    if (!is_same(&kept[which])) return 0;
    int got = zg_os_read_again(kept[which].descriptor, text, sizeof text);
    return got > 0 ? (uint64_t)got : 0;
}

static uint64_t read_path(const char *path) {
    int file = zg_os_open_system(path);
    if (file < 0) return 0;
    uint64_t bytes = 0;
    for (int got; bytes < sizeof text && (got = zg_os_read(file, text + bytes, sizeof text - bytes)) > 0;)
        bytes += (uint64_t)got;
    zg_os_close(file);
    return bytes;
}

// Writes the path of the file `name` in a directory: in the first `bytes` bytes of the group's path, which are the
// directory of the group or of an ancestor.
static void file_path(struct zg_text *path, const struct group *group, uint64_t bytes, const char *name) {
    for (uint64_t i = 0; i < bytes; i++) zg_text_char(path, group->path[i]);
    zg_text_char(path, '/');
    zg_text_string(path, name);
}

static uint64_t read_group(const struct group *group, uint64_t bytes, const char *name) {
    struct zg_text path;
    zg_text_init(&path, whole, sizeof whole);
    file_path(&path, group, bytes, name);
    return path.truncated ? 0 : read_path(whole);
}

static uint64_t read_group_number(const struct group *group, uint64_t bytes, const char *name, uint64_t missing) {
    uint64_t value;
    return zg_pressure_parse_number(text, read_group(group, bytes, name), &value) ? value : missing;
}

// --- where the control group is --------------------------------------------------------------------------------------

static bool begins_with(const char *path, const char *with) {
    uint64_t i = 0;
    for (; with[i]; i++)
        if (path[i] != with[i]) return false;
    return !path[i] || path[i] == '/' || (i && with[i - 1] == '/');
}

// Sets the group's directory. `inside`: the group's path in the hierarchy. `root`: the part of the hierarchy that is
// mounted at `place`.
static void set_group(struct group *group, const char *inside, const char *root, const char *place) {
    static char before[PATH_BYTES];
    struct zg_text path;
    zg_string_copy(before, group->path, sizeof before);
    zg_text_init(&path, group->path, sizeof group->path);
    zg_text_string(&path, place);
    group->mount_bytes = path.count;
    // In a container, the group may lie outside of the mounted part of the hierarchy. Then the directory of the mounted
    // part is used.
    if (begins_with(inside, root)) {
        inside += zg_string_equal(root, "/") ? 0 : zg_string_length(root);
        if (!zg_string_equal(inside, "/")) zg_text_string(&path, inside);
    }
    if (path.truncated) group->path[0] = 0;
    if (!zg_string_equal(before, group->path)) group->stall_known = group->events_known = false;
}

static char inside[2][PATH_BYTES]; // the process's path in each hierarchy

static void find_mounts(void) {
    int file = zg_os_open_system("/proc/self/mountinfo");
    if (file < 0) return;
    static char root[PATH_BYTES], place[PATH_BYTES], line[LINE_BYTES];
    uint64_t bytes = 0;
    bool found[2] = {false, false};
    for (int got; (got = zg_os_read(file, text, sizeof text)) > 0;)
        for (int i = 0; i < got; i++) {
            if (text[i] != '\n') {
                if (bytes < sizeof line) line[bytes] = text[i];
                bytes++;
                continue;
            }
            for (int version = 1; version <= 2 && bytes <= sizeof line; version++) {
                if (!inside[version - 1][0] || found[version - 1] ||
                    !zg_pressure_parse_mount(line, bytes, version, root, place, sizeof root))
                    continue;
                set_group(&groups[version - 1], inside[version - 1], root, place);
                found[version - 1] = true;
            }
            bytes = 0;
        }
    zg_os_close(file);
    for (int i = 0; i < 2; i++)
        if (!found[i]) groups[i].path[0] = 0;
}

static void find_groups(void) {
    uint64_t bytes = read_path("/proc/self/cgroup");
    for (int version = 1; version <= 2; version++)
        if (!zg_pressure_parse_group(text, bytes, version, inside[version - 1], PATH_BYTES)) inside[version - 1][0] = 0;
    find_mounts();
    groups_known = true;
}

// --- control groups --------------------------------------------------------------------------------------------------

// This value or a larger one means that there is no limit: version 1 reports the largest number of pages, in bytes.
#define UNLIMITED (UINT64_C(1) << 60)

static const char *const usage_name[] = {"memory.usage_in_bytes", "memory.current"};
static const char *const limit_name[] = {"memory.limit_in_bytes", "memory.max"};
static const char *const cache_name[] = {"total_inactive_file", "inactive_file"};

// Subtracts the inactive page cache, which the kernel reclaims first: that memory is in effect free.
static uint64_t without_cache(uint64_t used, uint64_t parts_bytes, int version) {
    uint64_t cache;
    if (!zg_pressure_parse_field(text, parts_bytes, cache_name[version - 1], &cache)) return used;
    return used - zg_min(used, cache);
}

static uint64_t limit_at(const struct group *group, uint64_t bytes, int version) {
    uint64_t most = read_group_number(group, bytes, limit_name[version - 1], UINT64_MAX);
    return version == 1 ? most : zg_min(most, read_group_number(group, bytes, "memory.high", UINT64_MAX));
}

// A limit of 0 is valid: the group may use no memory. The result has limit 1 then, because 0 stands for no limit.
static struct zg_bound bound(uint64_t used, uint64_t limit) {
    return limit < UNLIMITED ? (struct zg_bound){used, limit ? limit : 1} : (struct zg_bound){0, 0};
}

// Returns the bound of the group or of one of its ancestors, whichever is nearest to its limit. `*nearest` receives the
// length of that group's path.
static struct zg_bound read_bounds(const struct group *group, int version, uint64_t *nearest) {
    struct zg_bound worst = {0, 0};
    uint64_t bytes = zg_string_length(group->path);
    for (;;) {
        uint64_t limit = limit_at(group, bytes, version), swap_limit = UINT64_MAX;
        if (version == 1) swap_limit = read_group_number(group, bytes, "memory.memsw.limit_in_bytes", UINT64_MAX);
        if (limit < UNLIMITED || swap_limit < UNLIMITED) {
            uint64_t used = read_group_number(group, bytes, usage_name[version - 1], 0);
            uint64_t with_swap = 0;
            if (swap_limit < UNLIMITED) with_swap = read_group_number(group, bytes, "memory.memsw.usage_in_bytes", 0);
            uint64_t parts = read_group(group, bytes, "memory.stat");
            struct zg_bound here = bound(without_cache(used, parts, version), limit);
            here = zg_pressure_tighter(here, bound(without_cache(with_swap, parts, version), swap_limit));
            struct zg_bound tighter = zg_pressure_tighter(worst, here);
            if (tighter.limit != worst.limit || tighter.used != worst.used) *nearest = bytes;
            worst = tighter;
        }
        if (bytes <= group->mount_bytes) return worst;
        while (bytes > group->mount_bytes && group->path[bytes - 1] != '/') bytes--;
        if (bytes > group->mount_bytes) bytes--; // removes the slash
    }
}

static void add_stall(struct zg_readings *readings, struct zg_stall *before, bool *known, const struct zg_stall *now) {
    readings->stall_average = zg_max(readings->stall_average, now->some_average);
    if (*known && now->some_total >= before->some_total && now->full_total >= before->full_total) {
        readings->some_us = zg_max(readings->some_us, now->some_total - before->some_total);
        readings->full_us = zg_max(readings->full_us, now->full_total - before->full_total);
    }
    *before = *now;
    *known = true;
}

// Not inlined: the compiler would merge two adjacent calls into a saturating vector subtraction, which sets a flag of
// the FPSR (arm64).
static ZG_NOINLINE uint64_t growth(uint64_t now, uint64_t before) { return now - zg_min(now, before); }

static void read_events(struct group *group, struct zg_readings *readings) {
    uint64_t bytes = read_group(group, zg_string_length(group->path), "memory.events");
    if (!bytes) return;
    uint64_t high = 0, most = 0, out = 0, killed = 0; // defaults, if a line is missing
    zg_pressure_parse_field(text, bytes, "high", &high);
    zg_pressure_parse_field(text, bytes, "max", &most);
    zg_pressure_parse_field(text, bytes, "oom", &out);
    zg_pressure_parse_field(text, bytes, "oom_kill", &killed);
    if (group->events_known) {
        readings->throttled += growth(high + most, group->throttled);
        readings->killed += growth(out + killed, group->killed);
    }
    group->throttled = high + most;
    group->killed = out + killed;
    group->events_known = true;
}

// Opens the usage and limit files of the group that is nearest to its limit, and leaves them open for readings that may
// open no file. Limits are read again at each reading, because they may change.
static void keep_group(const struct group *group, int version, uint64_t bytes) {
    const char *const names[] = {usage_name[version - 1], "memory.stat", limit_name[version - 1], "memory.high"};
    for (int i = 0; i < (version == 1 ? 3 : 4); i++) {
        struct zg_text path;
        zg_text_init(&path, whole, sizeof whole);
        file_path(&path, group, bytes, names[i]);
        if (!path.truncated) keep(kept_usage + i, zg_os_open_system(whole));
    }
    kept_swap_limit =
        version == 1 ? read_group_number(group, bytes, "memory.memsw.limit_in_bytes", UINT64_MAX) : UINT64_MAX;
}

static void read_groups(struct zg_readings *readings, bool prepare) {
    for (int version = 1; version <= 2; version++) {
        struct group *group = &groups[version - 1];
        if (!group->path[0]) continue;
        uint64_t nearest = zg_string_length(group->path); // the group itself, if no limit is set yet
        struct zg_bound worst = read_bounds(group, version, &nearest);
        readings->group = zg_pressure_tighter(readings->group, worst);
        if (prepare && (worst.limit || !kept[kept_usage].open)) keep_group(group, version, nearest);
        if (version == 1) continue;
        struct zg_stall stall;
        if (zg_pressure_parse_stall(text, read_group(group, zg_string_length(group->path), "memory.pressure"), &stall))
            add_stall(readings, &group->stall, &group->stall_known, &stall);
        read_events(group, readings);
    }
}

static void read_kept_group(struct zg_readings *readings) {
    uint64_t used, limit = kept_swap_limit, value;
    if (!kept[kept_usage].open) return;
    for (int i = kept_most; i <= kept_high; i++)
        if (zg_pressure_parse_number(text, read_kept(i), &value)) limit = zg_min(limit, value);
    if (limit >= UNLIMITED || !zg_pressure_parse_number(text, read_kept(kept_usage), &used)) return;
    uint64_t parts = read_kept(kept_parts), cache;
    // The field's name tells the version of the hierarchy. Look for "total_" first: version 1 also has a field without
    // this prefix, which excludes child groups.
    if (zg_pressure_parse_field(text, parts, cache_name[0], &cache) ||
        zg_pressure_parse_field(text, parts, cache_name[1], &cache))
        used -= zg_min(used, cache);
    readings->group = bound(used, limit);
}

// --- the process and the system --------------------------------------------------------------------------------------

// Reads how much of RLIMIT_AS and RLIMIT_DATA is used, from the process's status in `text`. Address space that the
// runtime has reserved and does not use yet does not count as used: the heap still allocates from it.
static void read_limits(struct zg_readings *readings, uint64_t bytes, bool may_ask) {
    static uint64_t space_limit = RLIM_INFINITY, data_limit = RLIM_INFINITY;
    if (may_ask) {
        space_limit = zg_os_limit(RLIMIT_AS);
        data_limit = zg_os_limit(RLIMIT_DATA);
    }
    uint64_t size, data;
    // If the heap itself enforces the limit (limits/allowance.h), only live blocks count as used.
    bool keeps = space_limit < zg_os_reserved_bytes() || zg_os_uncounted_bytes();
    uint64_t in_use = zg_stats_get(zg_counter_heap_committed_bytes) + zg_stats_get(zg_counter_metadata_bytes);
    if (keeps) in_use = zg_stats_live_bytes();
    if (space_limit < UNLIMITED && zg_pressure_parse_field(text, bytes, "VmSize", &size)) {
        uint64_t reserved = zg_os_reserved_bytes();
        uint64_t idle = reserved - zg_min(reserved, in_use);
        readings->address_space = bound(size - zg_min(size, idle), space_limit);
    }
    if (data_limit < UNLIMITED && zg_pressure_parse_field(text, bytes, "VmData", &data))
        readings->data = bound(data + (zg_os_uncounted_bytes() ? in_use : 0), data_limit);
}

static void read_system(struct zg_readings *readings, uint64_t bytes) {
    uint64_t total, available;
    if (!zg_pressure_parse_field(text, bytes, "MemTotal", &total) || !total ||
        !zg_pressure_parse_field(text, bytes, "MemAvailable", &available))
        return;
    readings->total = total;
    readings->available = available;
}

static bool parse_filters(uint64_t bytes, uint64_t *mode, uint64_t *count) {
    if (!bytes) return false;
    // The Seccomp lines are near the end of the text, and a search byte by byte would be the most expensive part of the
    // start. So search backwards and look at every seventh byte: one of these bytes lies within "Seccomp", wherever the
    // word is.
    static const char word[] = "\nSeccomp:";
    enum { LENGTH = sizeof word - 1, STEP = 7 };
    uint64_t at = 0;
    for (uint64_t look = bytes; look > STEP && !at; look -= STEP) {
        enum {
            LETTERS = 1 | 1 << ('c' - 'S') | 1 << ('e' - 'S') | 1 << ('m' - 'S') | 1 << ('o' - 'S') | 1 << ('p' - 'S')
        };
        uint32_t letter = (uint32_t)text[look - STEP] - 'S';
        if (letter > 'p' - 'S' || !(LETTERS >> letter & 1)) continue;
        for (uint64_t i = 1; i <= STEP && i <= look - STEP; i++) {
            uint64_t from = look - STEP - i;
            if (text[from] == '\n' && from + LENGTH < bytes && __builtin_memcmp(text + from, word, LENGTH) == 0)
                at = from + 1;
        }
    }
    const char *lines = text + at;
    bytes -= at;
    // A kernel without seccomp does not have the line; a kernel before 5.9 does not count the filters.
    if (!zg_pressure_parse_field(lines, bytes, "Seccomp", mode)) *mode = 0;
    if (!zg_pressure_parse_field(lines, bytes, "Seccomp_filters", count)) *count = UINT64_MAX;
    return true;
}

static bool parse_process(uint64_t bytes, struct zg_process_state *state) {
    uint64_t mode, count;
    if (!filter_known || !parse_filters(bytes, &mode, &count)) return false;
    state->filtered = mode != 0;
    state->as_at_start = mode == 0 || (mode == filter_mode && count == filter_count && count != UINT64_MAX);
    if (!zg_pressure_parse_field(text, bytes, "Threads", &state->threads)) state->threads = 0;
    state->main_ended = false;
    for (uint64_t i = 0; i + 8 < bytes; i++)
        if (text[i] == '\n' && text[i + 1] == 'S' && text[i + 2] == 't' && text[i + 6] == ':' && text[i + 7] == '\t')
            state->main_ended = text[i + 8] == 'Z';
    return true;
}

bool zg_pressure_process(struct zg_process_state *state) { return parse_process(read_kept(kept_status), state); }

bool zg_pressure_mapped(uint64_t *space, uint64_t *data, uint64_t *stacks) {
    uint64_t bytes = read_kept(kept_status);
    return zg_pressure_parse_field(text, bytes, "VmSize", space) &&
           zg_pressure_parse_field(text, bytes, "VmData", data) &&
           zg_pressure_parse_field(text, bytes, "VmStk", stacks);
}

bool zg_pressure_is_prepared(void) { return prepared; }

int zg_pressure_descriptors(int descriptors[ZG_PRESSURE_KEPT]) {
    int count = 0;
    for (int i = 0; i < ZG_PRESSURE_KEPT; i++)
        if (is_same(&kept[i])) descriptors[count++] = kept[i].descriptor;
    return count;
}

// Notes the process's id and name from the status that was just read. "Name:" is its first line.
static void note_process_identity(uint64_t bytes) {
    static const char key[] = "Name:\t";
    char name[16];
    uint64_t pid, count = 0;
    if (!zg_pressure_parse_field(text, bytes, "Pid", &pid) || __builtin_memcmp(text, key, sizeof key - 1) != 0) return;
    for (const char *at = text + sizeof key - 1; *at != '\n' && count + 1 < sizeof name; at++) name[count++] = *at;
    name[count] = 0;
    zg_os_note_identity((int)pid, name);
}

// Returns the bits (ZG_FILTERED_ALL) of the calls that every filter allows or makes fail with an error
// (SECCOMP_RET_ERRNO). The process that executed this program has read or tried the filters, and passes the bits in an
// environment variable (entry/children.c, zguard run). Returns 0 without the variable, or if the number of filters has
// changed since.
static uint64_t told_passing(uint64_t count) {
    char scratch[64];
    const char *told = zg_config_variable(ZG_FILTERS_VARIABLE, scratch, sizeof scratch);
    uint64_t filters = 0, passing = 0;
    if (!told) return 0;
    for (; *told >= '0' && *told <= '9'; told++) filters = filters * 10 + (uint64_t)(*told - '0');
    if (filters != count) return 0;
    if (!*told) return ZG_FILTERED_ALL;
    static const char prefix[] = ":0x";
    for (uint64_t i = 0; i + 1 < sizeof prefix; i++)
        if (*told++ != prefix[i]) return 0;
    for (; *told; told++) {
        uint32_t digit = *told >= '0' && *told <= '9'   ? (uint32_t)(*told - '0')
                         : *told >= 'a' && *told <= 'f' ? (uint32_t)(*told - 'a') + 10
                                                        : 16;
        if (digit == 16) return 0;
        passing = passing << 4 | digit;
    }
    return passing & ZG_FILTERED_ALL;
}

void zg_pressure_find_filters(void) {
    uint64_t first_mode, first_count;
    uint64_t bytes = read_path("/proc/self/status");
    filter_known = parse_filters(bytes, &filter_mode, &filter_count);
    if (!filter_known || !filter_mode) return;
    note_process_identity(bytes);
    if (parse_filters(read_path("/proc/1/status"), &first_mode, &first_count) && first_mode == filter_mode &&
        first_count == filter_count) {
        zg_filter_note_inherited((uint32_t)filter_count, ZG_FILTERED_ALL);
        return;
    }
    uint64_t passing = told_passing(filter_count);
    if (passing) zg_filter_note_inherited((uint32_t)filter_count, passing);
    if (passing == ZG_FILTERED_ALL) return;
    zg_filter_add_unknown();
    zg_stats_degrade(zg_degradation_filtered_at_start);
}

void zg_pressure_start(void) {
    keep(kept_status, zg_os_open_system("/proc/self/status"));
    uint64_t bytes = read_kept(kept_status);
    if (!filter_known) filter_known = parse_filters(bytes, &filter_mode, &filter_count);
    if (!filter_known || !bytes) zg_stats_degrade(zg_degradation_no_status);
}

void zg_pressure_after_fork_in_child(bool from_main_thread) {
    // The open file still shows the parent's status, which tells whether the child may open its own status file. The
    // status is that of the parent's main thread, so it does not show a filter that another thread installed for
    // itself.
    struct zg_process_state parent;
    bool may_open = from_main_thread && zg_pressure_process(&parent) && parent.as_at_start;
    if (is_same(&kept[kept_status])) zg_os_close(kept[kept_status].descriptor);
    kept[kept_status].open = false;
    filter_known = filter_known && may_open; // a child inherits its parent's filters
    if (!may_open) return;
    keep(kept_status, zg_os_open_system("/proc/self/status"));
    if (!kept[kept_status].open) zg_stats_degrade(zg_degradation_no_status);
}

void zg_pressure_read(struct zg_readings *readings, enum zg_pressure_reach reach) {
    struct zg_process_state process;
    *readings = (struct zg_readings){0};
    uint64_t failures = zg_load(&zg_pressure_failures);
    readings->failures = failures - failures_seen;
    failures_seen = failures;
    uint64_t bytes = read_kept(kept_status);
    bool as_at_start = parse_process(bytes, &process) && process.as_at_start;
    if (bytes) read_limits(readings, bytes, as_at_start);
    if (reach == zg_pressure_kept_files || !as_at_start) {
        read_system(readings, read_kept(kept_system));
        read_kept_group(readings);
        return;
    }
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    readings->elapsed_us = read_ns ? (now - read_ns) / 1000 : 0;
    read_ns = now;
    // Check rarely whether the process was moved to another group.
    static uint32_t looked;
    if (!groups_known || looked++ % 16 == 0) find_groups();
    bool prepare = !prepared && reach == zg_pressure_all_files;
    if (prepare) keep(kept_system, zg_os_open_system("/proc/meminfo"));
    read_groups(readings, prepare);
    prepared = prepared || prepare;
    read_system(readings, read_path("/proc/meminfo"));
    if (!readings->total) zg_stats_degrade(zg_degradation_no_status);
    struct zg_stall stall;
    if (zg_pressure_parse_stall(text, read_path("/proc/pressure/memory"), &stall))
        add_stall(readings, &system_stall, &system_stall_known, &stall);
}
