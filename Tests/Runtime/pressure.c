// Memory pressure: kernel texts, valid and hostile; the level; steps and recovery; every source, in a fake file tree.
// qemu-user: does not set limits on address space and data
// link: runtime
// timeout: 120

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "heap/quarantine.h"
#include "heap_calls.h"
#include "limits/maintenance.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "process/ready.h"
#include "process/thread_entry.h"
#include "process/maintenance_thread.h"

// --- texts -----------------------------------------------------------------------------------------------------------

static int number(const char *text, uint64_t *value) { return zg_pressure_parse_number(text, strlen(text), value); }
static int field(const char *text, const char *name, uint64_t *value) {
    *value = 77;
    return zg_pressure_parse_field(text, strlen(text), name, value);
}

static void check_numbers(void) {
    uint64_t value = 0;
    CHECK(number("123\n", &value) && value == 123, "a number");
    CHECK(number("0\n", &value) && value == 0, "nothing");
    CHECK(number("max\n", &value) && value == UINT64_MAX, "no limit");
    CHECK(number("99999999999999999999999999\n", &value) && value == UINT64_MAX, "a huge number");
    CHECK(number("18446744073709551615\n", &value) && value == UINT64_MAX, "the largest number");
    static const char *const wrong[] = {"",     "\n",    "12",  "max",  "ma",       "-3\n",
                                        " 3\n", "3 4\n", "x\n", "3x\n", "maximum\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) CHECK(!number(wrong[i], &value), wrong[i]);
}

static void check_fields(void) {
    uint64_t value;
    static const char text[] =
        "MemTotal:       24684100 kB\nMemFree: 5 kB\nMemAvailable:\t7 kB\nHugePages_Total:       3\n"
        "total_inactive_file 4096\ninactive_file 1\n";
    CHECK(field(text, "MemTotal", &value) && value == UINT64_C(24684100) * 1024, "kilobytes");
    CHECK(field(text, "MemAvailable", &value) && value == 7 * 1024, "behind a tabulator");
    CHECK(field(text, "HugePages_Total", &value) && value == 3, "no unit");
    CHECK(field(text, "inactive_file", &value) && value == 1, "the whole name, from the line's beginning");
    CHECK(!field(text, "Mem", &value) && !field(text, "Total", &value) && !field(text, "SwapFree", &value),
          "no such name");
    CHECK(field("A: 99999999999999999999 kB\n", "A", &value) && value == UINT64_MAX, "a huge number");
    CHECK(field("A: 18014398509481983 kB\n", "A", &value) && value == UINT64_C(18014398509481983) * 1024, "nearly one");
    CHECK(field("A: 18014398509481984 kB\n", "A", &value) && value == UINT64_MAX, "and just over");
    CHECK(!field("A: kB\n", "A", &value) && !field("A\n", "A", &value) && !field("A", "A", &value), "no number");
    CHECK(!field("A: 12", "A", &value), "cut off: 12 may be 1234");
    // For each prefix of a text, the parser returns a correct value or fails.
    for (size_t bytes = 0; bytes <= sizeof text - 1; bytes++)
        if (zg_pressure_parse_field(text, bytes, "MemAvailable", &value))
            CHECK(value == 7 * 1024 || value == 7, "cut off");
}

static void check_stalls(void) {
    static const char text[] =
        "some avg10=12.34 avg60=0.00 avg300=0.00 total=5678\nfull avg10=1.00 avg60=0.00 avg300=0.00 "
        "total=90\n";
    struct zg_stall stall;
    CHECK(zg_pressure_parse_stall(text, strlen(text), &stall), "a stall file");
    CHECK(stall.some_average == 1234 && stall.some_total == 5678 && stall.full_total == 90, "its numbers");
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        bool known = zg_pressure_parse_stall(text, bytes, &stall);
        CHECK(!known || (stall.some_total == 5678 && (stall.full_total == 0 || stall.full_total == 90)), "cut off");
    }
    static const char *const wrong[] = {"some\n",
                                        "some avg10=1 total=3\n",
                                        "some avg10=1.0 total=3\n",
                                        "full total=3\n",
                                        "some avg10=99999999999999999999.00 total=\n",
                                        "avg10=1.00 total=3\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!zg_pressure_parse_stall(wrong[i], strlen(wrong[i]), &stall), wrong[i]);
}

static void check_groups(void) {
    static const char text[] =
        "12:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/f00\n1:name=systemd:/s\n0::/user.slice/x.scope\n";
    char path[64], root[64];
    CHECK(zg_pressure_parse_group(text, strlen(text), 1, path, sizeof path) && !strcmp(path, "/docker/f00"),
          "version 1");
    CHECK(zg_pressure_parse_group(text, strlen(text), 2, path, sizeof path) && !strcmp(path, "/user.slice/x.scope"),
          "and 2");
    CHECK(!zg_pressure_parse_group(text, strlen(text), 1, path, 5), "a path that does not fit");
    static const char *const wrong[] = {"",       "0::",      "0::/cut off",    "0:", "0\n",
                                        "0:::\n", "10::/x\n", "1:memory2:/x\n", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int version = 1; version <= 2; version++)
            CHECK(!zg_pressure_parse_group(wrong[i], strlen(wrong[i]), version, path, sizeof path), wrong[i]);
    static const char one[] =
        "35 31 0:32 /docker/f00 /sys/fs/cgroup/with\\040space rw,relatime shared:9 - cgroup cgroup rw,memory";
    static const char two[] = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate";
    CHECK(zg_pressure_parse_mount(one, strlen(one), 1, root, path, sizeof path), "a mount of version 1");
    CHECK(!strcmp(root, "/docker/f00") && !strcmp(path, "/sys/fs/cgroup/with space"), "its root and place");
    CHECK(zg_pressure_parse_mount(two, strlen(two), 2, root, path, sizeof path) && !strcmp(root, "/"),
          "one of version 2");
    CHECK(!zg_pressure_parse_mount(one, strlen(one), 2, root, path, sizeof path), "not the other one");
    CHECK(!zg_pressure_parse_mount(two, strlen(two), 1, root, path, sizeof path), "nor that one");
    static const char cpu[] = "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,memory2";
    CHECK(!zg_pressure_parse_mount(cpu, strlen(cpu), 1, root, path, sizeof path), "another controller");
    for (size_t bytes = 0; bytes < strlen(one); bytes++)
        CHECK(!zg_pressure_parse_mount(one, bytes, 1, root, path, sizeof path), "cut off");
}

// --- level and steps -------------------------------------------------------------------------------------------------

static int level_of(struct zg_readings readings) { return zg_pressure_level(&readings); }

static void check_levels(void) {
#define LEVEL(expected, ...) CHECK_EQUAL(level_of((struct zg_readings){__VA_ARGS__}), expected, #__VA_ARGS__)
    LEVEL(0, 0);
    LEVEL(0, .group = {800, 1000});
    LEVEL(1, .group = {801, 1000});
    LEVEL(1, .group = {920, 1000});
    LEVEL(2, .group = {921, 1000});
    LEVEL(2, .group = {UINT64_MAX, 1});
    LEVEL(2, .group = {UINT64_MAX, UINT64_MAX});
    LEVEL(0, .group = {1, UINT64_MAX});
    LEVEL(1, .address_space = {85, 100});
    LEVEL(2, .address_space = {95, 100});
    LEVEL(1, .data = {85, 100});
    LEVEL(2, .data = {95, 100});
    LEVEL(0, .available = 100, .total = 1000);
    LEVEL(1, .available = 99, .total = 1000);
    LEVEL(2, .available = 39, .total = 1000);
    LEVEL(2, .available = 0, .total = 1000);
    LEVEL(0, .available = 0, .total = 0);
    LEVEL(0, .stall_average = 1000);
    LEVEL(1, .stall_average = 1001);
    LEVEL(1, .some_us = 30000, .elapsed_us = 250000);
    LEVEL(0, .some_us = 20000, .elapsed_us = 250000);
    LEVEL(2, .full_us = 6000, .elapsed_us = 250000);
    LEVEL(0, .full_us = 4000, .elapsed_us = 250000);
    LEVEL(0, .some_us = 20000, .elapsed_us = 0);
    LEVEL(1, .throttled = 1);
    LEVEL(2, .killed = 1);
    LEVEL(2, .failures = 1);
    LEVEL(2, .group = {85, 100}, .data = {95, 100});
    CHECK_EQUAL(zg_pressure_tighter((struct zg_bound){1, 10}, (struct zg_bound){5, 20}).limit, 20, "the nearer limit");
    CHECK_EQUAL(zg_pressure_tighter((struct zg_bound){1, 10}, (struct zg_bound){0, 0}).limit, 10, "any limit");
    CHECK_EQUAL(zg_pressure_tighter((struct zg_bound){0, 0}, (struct zg_bound){0, 9}).limit, 9, "any limit, too");
}

static void check_strides(void) {
    const uint64_t mib = 1 << 20;
#define STRIDE(expected, ...)                                                                                          \
    CHECK_EQUAL(zg_pressure_stride(&(struct zg_readings){__VA_ARGS__}), expected, #__VA_ARGS__)
    STRIDE(64 * mib, 0);
    STRIDE(64 * mib, .available = 20000 * mib, .total = 24000 * mib);
    STRIDE(2 * mib, .available = 32 * mib, .total = 24000 * mib);
    STRIDE(mib, .group = {48 * mib, 64 * mib});
    STRIDE(mib / 4, .group = {64 * mib, 64 * mib});
    STRIDE(mib / 4, .group = {65 * mib, 64 * mib});
    STRIDE(mib, .group = {48 * mib, 64 * mib}, .data = {1, 1000 * mib}, .address_space = {1, 1000 * mib});
    STRIDE(mib, .group = {1, 1000 * mib}, .data = {48 * mib, 64 * mib});
    STRIDE(mib, .group = {1, 1000 * mib}, .address_space = {48 * mib, 64 * mib});
#define NARROW(expected, ...)                                                                                          \
    CHECK_EQUAL(zg_pressure_is_narrow(&(struct zg_readings){__VA_ARGS__}), expected, #__VA_ARGS__)
    NARROW(false, 0);
    NARROW(false, .group = {600, 1000});
    NARROW(true, .group = {601, 1000});
    NARROW(true, .group = {UINT64_MAX, 1});
    NARROW(false, .address_space = {99, 100}, .data = {99, 100});
}

static void check_steps(void) {
    const uint64_t cap = 16 << 20, second = 1000000000;
    struct zg_pressure_course course = {.cap = cap};
    uint64_t now = 10 * second;
    const uint64_t stride = 1 << 20;
#define STEP_OF(...) zg_pressure_next(&course, &(struct zg_pressure_state){__VA_ARGS__})
#define STEP(level, held, backed) STEP_OF(level, cap, held, backed, stride, now)
    CHECK_EQUAL(STEP(0, cap, 1 << 30), zg_pressure_wait, "enough: nothing");
    CHECK_EQUAL(STEP(1, cap, 0), zg_pressure_relieve, "first the pages go");
    uint64_t expected = cap;
    while (expected > cap / 8) {
        expected /= 2;
        CHECK_EQUAL(STEP(1, expected * 2, 0), zg_pressure_shrink, "then the cap is halved");
        CHECK_EQUAL(course.cap, expected, "half of it");
    }
    CHECK_EQUAL(STEP(1, expected, 0), zg_pressure_wait, "down to an eighth");
    CHECK_EQUAL(STEP(1, expected, 5 << 20), zg_pressure_relieve, "and again where there is more to give back");
    for (int i = 0; i < 10 && course.cap; i++)
        CHECK_EQUAL(STEP(2, course.cap, 0), zg_pressure_shrink, "short: further");
    CHECK_EQUAL(course.cap, 0, "down to nothing");
    CHECK_EQUAL(STEP(2, 0, 0), zg_pressure_release, "last, all is reused");
    CHECK_EQUAL(STEP(2, 0, 0), zg_pressure_wait, "once");
    CHECK_EQUAL(STEP(2, 0, 5 << 20), zg_pressure_release, "unless there is more");
    CHECK_EQUAL(STEP_OF(2, cap, 0, 3 << 20, stride, now), zg_pressure_wait, "which is 4 MiB");
    CHECK_EQUAL(STEP_OF(2, cap, 0, 3 << 20, stride / 2, now), zg_pressure_release, "or less where little is left");
    for (int i = 0; i < 3; i++) CHECK_EQUAL(STEP(0, 0, 0), zg_pressure_wait, "recovery waits for some calm");
    uint64_t raised = 0;
    for (int i = 0; i < 100 && course.cap < cap; i++) {
        now += second / 4;
        uint64_t before = course.cap;
        if (STEP(0, 0, 0) == zg_pressure_raise) {
            raised++;
            CHECK_EQUAL(course.cap - before, cap / 8, "an eighth at a time");
        }
    }
    CHECK_EQUAL(raised, 8, "up to what it was");
    CHECK(now >= 17 * second, "in eight seconds");
    CHECK_EQUAL(STEP(0, 0, 0), zg_pressure_wait, "and no further");
    CHECK_EQUAL(STEP(1, 0, 0), zg_pressure_relieve, "the next time begins at the first step");
    CHECK_EQUAL(STEP(2, 1 << 20, 0), zg_pressure_shrink, "a cap far over what is held");
    CHECK(course.cap <= cap / 8, "is not halved in vain");
    course = (struct zg_pressure_course){.cap = 0};
    CHECK_EQUAL(STEP_OF(2, 0, 0, 0, stride, now), zg_pressure_relieve, "without a quarantine");
    CHECK_EQUAL(STEP_OF(2, 0, 0, 0, stride, now), zg_pressure_release, "there are two steps");
}

// --- the fake tree ---------------------------------------------------------------------------------------------------

static char tree[64] = "/tmp/zguard-pressure-XXXXXX";

static void make_folders(char *path) {
    for (char *at = path + strlen(tree) + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, 0700);
            *at = '/';
        }
}

// Writes in place, so that a process with the file open reads the new text.
static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", tree, name);
    make_folders(path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) CHECK(false, "the fake tree is written");
    if (file >= 0) close(file);
}

static void drop(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", tree, name);
    unlink(path);
}

#define ONE "/sys/fs/cgroup/memory/outer/in ner"
#define TWO "/sys/fs/cgroup/unified/slice/scope"
#define STATUS "Name:\tself\nState:\tR (running)\nVmSize:\t 1000 kB\nVmData:\t 500 kB\nThreads:\t1\n"
#define CALM "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"

static void put_memory(int permille) {
    char text[128];
    snprintf(text, sizeof text, "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: %d kB\n", permille * 1000);
    put("/proc/meminfo", text);
}

static void make_tree(void) {
    put("/proc/self/status", STATUS "Seccomp:\t0\nSeccomp_filters:\t0\n");
    put("/proc/self/cgroup", "4:memory:/outer/in ner\n0::/slice/scope\n");
    put("/proc/self/mountinfo", "1 2 0:3 / / rw - ext4 /dev/root rw\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put_memory(500);
    put("/proc/pressure/memory", CALM);
    put(ONE "/memory.limit_in_bytes", "9223372036854771712\n");
    put(ONE "/memory.usage_in_bytes", "950\n");
    put(ONE "/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
    put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "960\n");
    put("/sys/fs/cgroup/memory/outer/memory.stat", "total_inactive_file 10\n");
    put(TWO "/memory.max", "max\n");
    put(TWO "/memory.high", "max\n");
    put(TWO "/memory.current", "900\n");
    put(TWO "/memory.stat", "anon 5\ninactive_file 50\n");
    put(TWO "/memory.events", "low 0\nhigh 5\nmax 5\noom 0\noom_kill 0\n");
    put(TWO "/memory.pressure", CALM);
}

static struct zg_readings read_all(void) {
    struct zg_readings readings;
    usleep(2000);
    zg_pressure_read(&readings, zg_pressure_all_files);
    return readings;
}

static int level_now(void) {
    struct zg_readings readings = read_all();
    return zg_pressure_level(&readings);
}

static void check_sources(void) {
    CHECK_EQUAL(level_now(), 0, "a calm tree");
    CHECK_EQUAL(read_all().group.limit, 0, "without limits");
    put_memory(90);
    CHECK_EQUAL(level_now(), 1, "the system has little left");
    put_memory(30);
    CHECK_EQUAL(level_now(), 2, "very little");
    put_memory(500);
    put(ONE "/memory.limit_in_bytes", "1000\n");
    struct zg_readings readings = read_all();
    CHECK(readings.group.limit == 1000 && readings.group.used == 850, "version 1, the page cache subtracted");
    CHECK_EQUAL(zg_pressure_level(&readings), 1, "which is much");
    put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "1001\n");
    readings = read_all();
    CHECK(readings.group.limit == 1001 && readings.group.used == 950, "an ancestor's limit is nearer");
    CHECK_EQUAL(zg_pressure_level(&readings), 2, "and counts");
    put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "9223372036854771712\n");
    put(ONE "/memory.limit_in_bytes", "9223372036854771712\n");
    put(ONE "/memory.memsw.limit_in_bytes", "2000\n");
    put(ONE "/memory.memsw.usage_in_bytes", "2000\n");
    CHECK_EQUAL(read_all().group.used, 1900, "memory and swap together");
    drop(ONE "/memory.memsw.limit_in_bytes");
    put(TWO "/memory.max", "1000\n");
    CHECK_EQUAL(read_all().group.used, 850, "version 2");
    put(TWO "/memory.high", "900\n");
    CHECK_EQUAL(level_now(), 2, "the lower of its two limits");
    put(TWO "/memory.high", "max\n");
    put(TWO "/memory.max", "max\n");
    put("/sys/fs/cgroup/unified/slice/memory.max", "100\n");
    put("/sys/fs/cgroup/unified/slice/memory.current", "95\n");
    CHECK_EQUAL(level_now(), 2, "an ancestor's, without memory.stat");
    drop("/sys/fs/cgroup/unified/slice/memory.max");
    CHECK_EQUAL(level_now(), 0, "calm again");
    put(TWO "/memory.events", "low 0\nhigh 6\nmax 5\noom 0\noom_kill 0\n");
    CHECK_EQUAL(level_now(), 1, "the group was throttled");
    CHECK_EQUAL(level_now(), 0, "once");
    put(TWO "/memory.events", "low 0\nhigh 6\nmax 5\noom 1\noom_kill 0\n");
    CHECK_EQUAL(level_now(), 2, "the group was short");
    put(TWO "/memory.pressure", "some avg10=11.00 avg60=0 avg300=0 total=1000\nfull avg10=0.00 total=1000\n");
    CHECK_EQUAL(level_now(), 1, "the group's stalls");
    put(TWO "/memory.pressure", "some avg10=0.00 avg60=0 avg300=0 total=9901000\nfull avg10=0.00 total=9901000\n");
    CHECK_EQUAL(level_now(), 2, "all of its tasks");
    CHECK_EQUAL(level_now(), 0, "not any more");
    put("/proc/pressure/memory", "some avg10=10.01 avg60=0 avg300=0 total=1000\nfull avg10=0.00 total=1000\n");
    CHECK_EQUAL(level_now(), 1, "the system's stalls");
    put("/proc/pressure/memory", CALM);
    zg_pressure_note_failure();
    CHECK_EQUAL(level_now(), 2, "the kernel refused memory");
    CHECK_EQUAL(level_now(), 0, "once, too");
}

static void limit(int resource, rlim_t value) {
    struct rlimit limits;
    getrlimit(resource, &limits);
    limits.rlim_cur = value == RLIM_INFINITY ? limits.rlim_max : value;
    setrlimit(resource, &limits);
}

// The limits are this process's real ones; its usage comes from the fake tree.
static void check_limits(void) {
    const char *more = "VmSize:\t%llu kB\nVmData:\t%llu kB\nThreads:\t1\nSeccomp:\t0\nSeccomp_filters:\t0\n";
    char text[256];
    unsigned long long reserved = zg_os_reserved_bytes() / 1024;
    limit(RLIMIT_AS, (rlim_t)200 << 40);
    snprintf(text, sizeof text, more, reserved + (100ull << 30), 1ull);
    put("/proc/self/status", text);
    struct zg_readings readings = read_all();
    CHECK_EQUAL(readings.address_space.limit, (uint64_t)200 << 40, "the limit of the address space");
    CHECK(readings.address_space.used >= (uint64_t)100 << 40 && readings.address_space.used < (uint64_t)101 << 40,
          "against all that is not a reservation of ours");
    CHECK_EQUAL(zg_pressure_level(&readings), 0, "half of it");
    snprintf(text, sizeof text, more, reserved + (190ull << 30), 1ull);
    put("/proc/self/status", text);
    CHECK_EQUAL(level_now(), 2, "nearly all of it");
    limit(RLIMIT_AS, RLIM_INFINITY);
    CHECK_EQUAL(level_now(), 0, "no limit");
    limit(RLIMIT_DATA, (rlim_t)64 << 30);
    snprintf(text, sizeof text, more, 1ull, 55ull << 20);
    put("/proc/self/status", text);
    CHECK_EQUAL(level_now(), 1, "the limit of data");
    limit(RLIMIT_DATA, RLIM_INFINITY);
    put("/proc/self/status", STATUS "Seccomp:\t0\nSeccomp_filters:\t0\n");
}

// The process's own group has no limit at the start; one is set, changed and removed while the runtime keeps the file
// open.
static void check_kept_group(void) {
    struct zg_readings readings;
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK_EQUAL(readings.group.limit, 0, "no limit");
    put(ONE "/memory.limit_in_bytes", "1000\n");
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK(readings.group.limit == 1000 && readings.group.used == 850, "a limit that was set later");
    put(ONE "/memory.limit_in_bytes", "900\n");
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK_EQUAL(readings.group.limit, 900, "and lowered");
    put(ONE "/memory.limit_in_bytes", "9223372036854771712\n");
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK_EQUAL(readings.group.limit, 0, "and lifted");
}

// Missing, unreadable or malformed files never stop the reading.
static void check_missing(void) {
    static const char *const names[] = {"/proc/pressure/memory", "/proc/meminfo",    TWO "/memory.pressure",
                                        TWO "/memory.events",    ONE "/memory.stat", TWO "/memory.current",
                                        "/proc/self/mountinfo",  "/proc/self/cgroup"};
    char garbage[20000];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], "/proc/meminfo") != 0) drop(names[i]); // this file is kept open
        for (int j = 0; j < 17; j++) CHECK(level_now() == 0, names[i]);
        memset(garbage, (int)('0' + i), sizeof garbage - 1);
        garbage[sizeof garbage - 1] = 0;
        put(names[i], garbage);
        for (int j = 0; j < 17; j++) CHECK(level_now() == 0, names[i]);
        put(names[i], "");
        CHECK(level_now() == 0, names[i]);
    }
    make_tree();
    for (int i = 0; i < 17; i++) level_now();
    // No descriptor is free.
    put_memory(30);
    CHECK_EQUAL(level_now(), 2, "what is read");
    limit(RLIMIT_NOFILE, 3);
    struct zg_readings readings;
    zg_pressure_read(&readings, zg_pressure_all_files);
    limit(RLIMIT_NOFILE, 1024);
    CHECK_EQUAL(readings.total, 0, "says nothing with a full table");
    // Read only the kept files.
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK(readings.total && zg_pressure_level(&readings) == 2, "is read without opening");
    drop("/proc/meminfo");
    zg_pressure_read(&readings, zg_pressure_kept_files);
    CHECK(readings.total, "whatever becomes of its name");
    check_kept_group();
    put_memory(500);
    // A filter was installed after the start, so no reader opens files any more.
    put("/proc/self/status", STATUS "Seccomp:\t2\nSeccomp_filters:\t1\n");
    put(TWO "/memory.events", "low 0\nhigh 9\nmax 5\noom 99\noom_kill 0\n");
    readings = read_all();
    CHECK_EQUAL(readings.killed, 0, "nothing is opened under a filter that was not there at the start");
    struct zg_process_state state;
    CHECK(zg_pressure_process(&state) && state.filtered && !state.as_at_start && state.threads == 1 &&
              !state.main_ended,
          "the process is under a filter");
    put("/proc/self/status", "Name:\tz\nState:\tZ (zombie)\nThreads:\t5\n");
    CHECK(zg_pressure_process(&state) && !state.filtered && state.as_at_start && state.main_ended && state.threads == 5,
          "its main thread has ended");
    put("/proc/self/status", STATUS "Seccomp:\t0\nSeccomp_filters:\t0\n");
    level_now();
}

// --- steps in a live heap --------------------------------------------------------------------------------------------

static void *fill_quarantine(uint64_t bytes) {
    void *last = NULL;
    for (uint64_t held = 0; held < bytes; held += 1024) heap_free(last = heap_allocate(1000, 16, false));
    return last;
}

static __attribute__((noinline)) void poll_now(void) {
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    usleep(2000);
    zg_maintenance_check_now(thread);
    zg_thread_leave(thread);
    __asm__ volatile("" ::: "memory");
}

static void check_course(void) {
    uint64_t cap = zg_config.quarantine_bytes, steps = zg_stats_get(zg_counter_pressure_steps);
    // The earlier tests may have left a higher level: recover.
    for (int i = 0; i < 6; i++) poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_pressure_level), 0, "memory suffices");
    void *dead = fill_quarantine(cap * 2);
    put_memory(90);
    poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_pressure_level), 1, "memory gets short");
    CHECK(zg_stats_get(zg_counter_pressure_steps) > steps, "a step");
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantine_cap), cap, "that keeps the cap");
    CHECK(heap_state_of(dead) == zg_state_quarantined || heap_state_of(dead) == zg_state_retired, "and detection");
    poll_now();
    CHECK(zg_stats_get(zg_counter_quarantine_cap) <= cap / 2, "then the cap falls");
    CHECK(zg_quarantine_bytes() <= cap / 2, "and what is held, at once");
    for (int i = 0; i < 5; i++) poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantine_cap), cap / 8, "to an eighth");
    fill_quarantine(cap);
    CHECK(zg_quarantine_bytes() <= cap / 8, "which holds for frees");
    put_memory(20);
    for (int i = 0; i < 6; i++) poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_pressure_level), 2, "memory is short");
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantine_cap), 0, "nothing is held any more");
    CHECK_EQUAL(zg_quarantine_bytes(), 0, "nothing at all");
    put_memory(500);
    for (int i = 0; i < 5; i++) poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_pressure_level), 0, "memory suffices again");
    uint64_t before = zg_stats_get(zg_counter_quarantine_cap);
    usleep(1100000);
    poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantine_cap), before + cap / 8, "and the cap rises, slowly");
    poll_now();
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantine_cap), before + cap / 8, "an eighth a second");
    fill_quarantine(cap);
    CHECK(zg_quarantine_bytes() > 0, "dead blocks are held again");
}

// If the runtime has no thread of its own, a thread that allocates and frees answers requests.
static void check_request(void) {
    fill_quarantine(1 << 20);
    uint64_t trims = zg_stats_get(zg_counter_trims);
    zg_stats->request_kind = zg_request_trim;
    uint32_t request = __atomic_add_fetch(&zg_stats->request, 1, __ATOMIC_SEQ_CST);
    CHECK(__atomic_load_n(&zg_stats->answer, __ATOMIC_SEQ_CST) != request, "a request from outside waits");
    for (int i = 0; i < 1000; i++) heap_free(heap_allocate(1000, 16, false));
    CHECK_EQUAL(__atomic_load_n(&zg_stats->answer, __ATOMIC_SEQ_CST), request, "for a thread that leaves the runtime");
    CHECK_EQUAL(zg_stats_get(zg_counter_trims), trims + 1, "which gives memory back once");
}

// --- the calling stack -----------------------------------------------------------------------------------------------

static __attribute__((noinline)) bool plain_here(void) {
    bool plain = zg_maintenance_thread_stack_is_program_only(HEAP_FRAME);
    __asm__ volatile("" : "+r"(plain)::"memory");
    return plain;
}
static int plain_in_callback;
static __attribute__((noinline)) int compare(const void *a, const void *b) {
    plain_in_callback = plain_here();
    return *(const char *)a - *(const char *)b;
}

static void check_stacks(void) {
    CHECK(plain_here(), "from main to here is the program's");
    char two[] = "ba";
    qsort(two, 2, 1, compare);
    CHECK(!plain_in_callback, "a callback of libc's is not");
}

static void remove_tree(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", tree);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", tree);
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "quarantine_bytes=16777216:isolated_per_context=0:pressure_thread=0:report_path=/dev/null",
           1);
    check_numbers();
    check_fields();
    check_stalls();
    check_groups();
    check_levels();
    check_strides();
    check_steps();
    if (!CHECK(mkdtemp(tree), "a folder for the fake tree")) return check_end();
    make_tree();
    zg_os_root = tree;
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    check_sources();
    check_limits();
    check_missing();
    check_course();
    check_request();
    check_stacks();
    remove_tree();
    return check_end();
}
