// Memory pressure, the pure part: parses texts of /proc and of control groups, rates the pressure, and chooses the next
// step. Any context; no state.

#include "pressure/pressure.h"

#include "platform/text.h"

uint64_t zg_pressure_failures, zg_pressure_taken;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parses the number at `at` (UINT64_MAX if too large). Returns its end. NULL if there is no digit, or if the text ends
// with the digits, so that the number may be cut off.
static const char *parse_digits(const char *at, const char *end, uint64_t *value) {
    const char *start = at;
    uint64_t number = 0;
    for (; at < end && is_digit(*at); at++)
        if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number)) {
            while (at < end && is_digit(*at)) at++;
            number = UINT64_MAX;
            break;
        }
    if (at == start || at == end) return NULL;
    *value = number;
    return at;
}

bool zg_pressure_parse_number(const char *text, uint64_t bytes, uint64_t *value) {
    if (bytes >= 4 && text[0] == 'm' && text[1] == 'a' && text[2] == 'x' && text[3] == '\n') {
        *value = UINT64_MAX;
        return true;
    }
    const char *end = parse_digits(text, text + bytes, value);
    return end && *end == '\n';
}

static const char *line_end(const char *at, const char *end) {
    while (at < end && *at != '\n') at++;
    return at;
}

// If the line's first word is `name`, returns the text behind the word and its separators; otherwise NULL.
static const char *after_name(const char *at, const char *end, const char *name) {
    while (at < end && *name && *at == *name) at++, name++;
    if (*name || at == end || (*at != ' ' && *at != ':' && *at != '\t')) return NULL;
    while (at < end && (*at == ' ' || *at == ':' || *at == '\t')) at++;
    return at;
}

bool zg_pressure_parse_field(const char *text, uint64_t bytes, const char *name, uint64_t *value) {
    const char *end = text + bytes;
    for (const char *line = text; line < end; line = line_end(line, end) + 1) {
        const char *at = after_name(line, end, name);
        if (!at) continue;
        at = parse_digits(at, line_end(at, end) == end ? end : line_end(at, end) + 1, value);
        if (!at) return false;
        if (end - at >= 3 && at[0] == ' ' && at[1] == 'k' && at[2] == 'B' &&
            __builtin_mul_overflow(*value, UINT64_C(1024), value))
            *value = UINT64_MAX;
        return true;
    }
    return false;
}

// Finds "NAME=12.34" (if `hundredths`; the result is 1234) or "NAME=12" in a line.
static bool parse_assignment(const char *at, const char *end, const char *name, bool hundredths, uint64_t *value) {
    for (; at < end; at++) {
        const char *in = at, *letter = name;
        while (in < end && *letter && *in == *letter) in++, letter++;
        if (*letter || in == end || *in != '=') continue;
        if (!(in = parse_digits(in + 1, end, value))) return false;
        if (!hundredths) return true;
        if (end - in < 4 || in[0] != '.' || !is_digit(in[1]) || !is_digit(in[2])) return false;
        uint64_t part = (uint64_t)(in[1] - '0') * 10 + (uint64_t)(in[2] - '0');
        if (__builtin_mul_overflow(*value, UINT64_C(100), value) || __builtin_add_overflow(*value, part, value))
            *value = UINT64_MAX;
        return true;
    }
    return false;
}

bool zg_pressure_parse_stall(const char *text, uint64_t bytes, struct zg_stall *stall) {
    const char *end = text + bytes;
    bool some = false;
    *stall = (struct zg_stall){0};
    for (const char *line = text; line < end; line = line_end(line, end) + 1) {
        const char *next = line_end(line, end);
        if (next == end) break; // the number may be cut off
        if (after_name(line, end, "some"))
            some = parse_assignment(line, next + 1, "avg10", true, &stall->some_average) &&
                   parse_assignment(line, next + 1, "total", false, &stall->some_total);
        if (after_name(line, end, "full")) parse_assignment(line, next + 1, "total", false, &stall->full_total);
    }
    return some;
}

// Copies [from, to) and resolves octal escapes ("\040" is a space). False if the result does not fit.
static bool copy_path(const char *from, const char *to, char *path, uint64_t capacity) {
    uint64_t count = 0;
    while (from < to && count + 1 < capacity) {
        char c = *from++;
        if (c == '\\' && to - from >= 3) {
            c = (char)((from[0] - '0') << 6 | (from[1] - '0') << 3 | (from[2] - '0'));
            from += 3;
        }
        path[count++] = c;
    }
    path[count] = 0;
    return from == to;
}

// Returns true if a comma-separated list contains this word.
static bool has_word(const char *at, const char *end, const char *word) {
    while (at < end) {
        const char *letter = word;
        while (at < end && *letter && *at == *letter) at++, letter++;
        if (!*letter && (at == end || *at == ',')) return true;
        while (at < end && *at != ',') at++;
        at++;
    }
    return false;
}

bool zg_pressure_parse_group(const char *text, uint64_t bytes, int version, char *path, uint64_t capacity) {
    const char *end = text + bytes;
    for (const char *line = text; line < end; line = line_end(line, end) + 1) {
        const char *next = line_end(line, end), *names = line, *at;
        if (next == end) return false; // the number may be cut off
        while (names < next && *names != ':') names++;
        if (names == next) continue;
        for (at = ++names; at < next && *at != ':';) at++;
        if (at == next || at[1] != '/') continue;
        bool wanted = version == 2 ? names == at && line[0] == '0' && names - line == 2 : has_word(names, at, "memory");
        if (wanted) return copy_path(at + 1, next, path, capacity);
    }
    return false;
}

bool zg_pressure_parse_mount(const char *line, uint64_t bytes, int version, char *root, char *place,
                             uint64_t capacity) {
    // Format of a line: 36 35 98:0 ROOT PLACE options [fields]… - TYPE source super-options
    const char *end = line + bytes, *starts[5] = {0}, *ends[5] = {0}, *at = line;
    for (int i = 0; i < 5; i++) {
        starts[i] = at;
        while (at < end && *at != ' ') at++;
        if (at == end) return false;
        ends[i] = at++;
    }
    while (end - at >= 3 && !(at[0] == ' ' && at[1] == '-' && at[2] == ' ')) at++;
    if (end - at < 3) return false;
    const char *type = at += 3;
    while (at < end && *at != ' ') at++;
    bool wanted = at - type == (version == 2 ? 7 : 6) && after_name(type, end, version == 2 ? "cgroup2" : "cgroup");
    if (!wanted) return false;
    if (version == 1) {
        for (at++; at < end && *at != ' ';) at++; // skips the source
        if (at >= end || !has_word(at + 1, end, "memory")) return false;
    }
    return copy_path(starts[3], ends[3], root, capacity) && copy_path(starts[4], ends[4], place, capacity);
}

// --- the level -------------------------------------------------------------------------------------------------------

// Returns used / limit in thousandths; 0 if there is no limit.
static uint64_t share(struct zg_bound bound) {
    if (!bound.limit) return 0;
    uint64_t thousandfold;
    if (!__builtin_mul_overflow(bound.used, UINT64_C(1000), &thousandfold)) return thousandfold / bound.limit;
    return bound.used / (bound.limit / 1000 + 1);
}

struct zg_bound zg_pressure_tighter(struct zg_bound a, struct zg_bound b) {
    return share(b) > share(a) || !a.limit ? b : a;
}

enum {
    LOW_PERMILLE = 800,
    SHORT_PERMILLE = 920, // used part of a limit, in thousandths
    LOW_AVAILABLE = 100,
    SHORT_AVAILABLE = 40, // available part of the system's memory, in thousandths
    LOW_STALL = 1000,     // share of the last ten seconds with tasks waiting for memory, in hundredths of a percent
    // Parts of the time since the last reading, in thousandths. LOW: some tasks waited for memory. SHORT: all tasks
    // waited.
    LOW_STALL_NOW = 100,
    SHORT_STALL_NOW = 20,
    // Used part of a control group's limit (zg_pressure_is_narrow). If blocks lie in windows, churn makes the heap grow
    // by up to half (Tests/Robustness/groups.py): to 600 * 3 / 2, which is below SHORT_PERMILLE.
    NARROW_PERMILLE = 600,
    STRIDE_SHIFT = 4, // a stride is 1/16 of the memory left: 16 processes that grow at once do not use it up
};
// Bounds of a stride, the new memory between two readings. A reading takes up to 0.15 ms. The kernel hands out
// STRIDE_LEAST in about 0.1 ms (64 faults): more frequent readings do not pay. It hands out STRIDE_MOST in about 20 ms:
// less frequent readings save nothing that is noticeable, and a limit may be set at any time.
#define STRIDE_LEAST ((uint64_t)256 << 10)
#define STRIDE_MOST ((uint64_t)64 << 20)

int zg_pressure_level(const struct zg_readings *readings) {
    uint64_t most = zg_max(share(readings->group), zg_max(share(readings->address_space), share(readings->data)));
    struct zg_bound system = {readings->available, readings->total}; // `used` holds the available memory here
    struct zg_bound some = {readings->some_us, readings->elapsed_us}, all = {readings->full_us, readings->elapsed_us};
    if (most > SHORT_PERMILLE || (system.limit && share(system) < SHORT_AVAILABLE) || share(all) > SHORT_STALL_NOW ||
        readings->killed || readings->failures)
        return zg_pressure_high;
    if (most > LOW_PERMILLE || (system.limit && share(system) < LOW_AVAILABLE) || share(some) > LOW_STALL_NOW ||
        readings->stall_average > LOW_STALL || readings->throttled)
        return zg_pressure_low;
    return zg_pressure_none;
}

bool zg_pressure_is_narrow(const struct zg_readings *readings) { return share(readings->group) > NARROW_PERMILLE; }

static uint64_t room(struct zg_bound bound) {
    return bound.limit ? bound.limit - zg_min(bound.used, bound.limit) : UINT64_MAX;
}

uint64_t zg_pressure_stride(const struct zg_readings *readings) {
    uint64_t left = readings->total ? readings->available : UINT64_MAX;
    left = zg_min(left, room(readings->group));
    left = zg_min(left, zg_min(room(readings->address_space), room(readings->data)));
    return zg_max(zg_min(left >> STRIDE_SHIFT, STRIDE_MOST), STRIDE_LEAST);
}

// --- the steps -------------------------------------------------------------------------------------------------------

enum { CALM_LOOKS = 4 };
#define RAISE_NS UINT64_C(1000000000)
// The step zg_pressure_relieve or zg_pressure_release is repeated once it can give back four strides (a quarter of the
// memory left) or AGAIN_MOST, whichever is less.
#define AGAIN_MOST ((uint64_t)4 << 20)
enum { AGAIN_STRIDES = 4 };

enum zg_pressure_step zg_pressure_next(struct zg_pressure_course *course, const struct zg_pressure_state *state) {
    uint64_t cap = state->cap, now_ns = state->now_ns;
    bool is_short = state->level == zg_pressure_high;
    if (state->level == zg_pressure_none) {
        if (++course->calm < CALM_LOOKS) return zg_pressure_wait;
        course->calm = CALM_LOOKS;
        course->relieved = course->released = false;
        if (course->cap >= cap || now_ns - course->changed_ns < RAISE_NS) return zg_pressure_wait;
        course->cap = zg_min(cap, course->cap + zg_max(cap / 8, 1));
        course->changed_ns = now_ns;
        return zg_pressure_raise;
    }
    course->calm = 0;
    if (!course->relieved) {
        course->relieved = true;
        return zg_pressure_relieve;
    }
    uint64_t least = is_short ? 0 : cap / 8;
    if (course->cap > least) {
        // Halve the bytes that the quarantine holds, not the cap: a cap far above these bytes could be halved without
        // effect.
        uint64_t half = zg_min(course->cap, zg_max(state->quarantined, cap / 8)) / 2;
        course->cap = zg_max(half < cap / 32 ? 0 : half, least);
        course->changed_ns = now_ns;
        return zg_pressure_shrink;
    }
    if (is_short && !course->released) {
        course->released = true;
        return zg_pressure_release;
    }
    if (state->backed < zg_min(AGAIN_STRIDES * state->stride, AGAIN_MOST)) return zg_pressure_wait;
    return is_short ? zg_pressure_release : zg_pressure_relieve;
}
