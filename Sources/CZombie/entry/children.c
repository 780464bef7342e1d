// Decides how the environment of an executed program must change. Async-signal-safe; no state, no lock.

#define _GNU_SOURCE
#include "entry/children.h"

#include <fcntl.h>
#include <unistd.h>

#include "include/zg_program.h"
#include "platform/filter.h"
#include "platform/os.h"
#include "platform/text.h"
#include "process/hidden.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/exemption.h"
#include "settings/stats.h"

enum { CANDIDATE_BYTES = 512 };

// Returns the value in the entry if it is for the variable `name`, otherwise NULL.
static const char *value_in(const char *entry, const char *name) {
    while (*name)
        if (*entry++ != *name++) return NULL;
    return *entry == '=' ? entry + 1 : NULL;
}

static bool has_us(char *const *environment) {
    for (; environment && *environment; environment++) {
        const char *value = value_in(*environment, "LD_PRELOAD");
        if (value && zg_program_preload_has_library(value)) return true;
    }
    return false;
}

static enum zg_children_change change_for_ours(void) {
    uint64_t passing;
    if (ZG_UNLIKELY(zg_hidden[0] != NULL)) return zg_children_with_us;
    return ZG_UNLIKELY(zg_filter_in_effect) && zg_filter_describe(&passing) ? zg_children_with_filters
                                                                            : zg_children_as_it_is;
}

// The program has removed the runtime from the environment (env -i). Counts the child as unwatched, if it belongs to a
// run that watches children (not children=ignore). `path` is relative to `directory`.
static enum zg_children_change look_without_us(int directory, const char *path) {
    if (!zg_coverage_run_page || zg_config.children != zg_children_follow) return zg_children_as_it_is;
    // A caller may try the directories of PATH in turn: count only a path that can be executed.
    if (directory != AT_FDCWD || zg_os_is_executable(path)) zg_coverage_note_unwatched_child();
    return zg_children_as_it_is;
}

enum zg_children_change zg_children_look(int directory, const char *path, char *const *environment) {
    if (!path) return zg_children_as_it_is;
    if (ZG_UNLIKELY(zg_hidden[0] != NULL) && zg_exemption_covers(directory, path)) {
        zg_coverage_note_exempt();
        return zg_children_as_it_is;
    }
    if (!zg_hidden[0] && !has_us(environment)) return look_without_us(directory, path);
    switch (zg_program_classify(directory, path)) {
    case zg_program_static:
    case zg_program_privileged: zg_coverage_note_unwatched_child(); return change_for_ours();
    case zg_program_takes_it: return change_for_ours();
    default: break;
    }
    zg_coverage_note_unwatched_child();
    zg_stats_note_unguarded_child();
    return zg_hidden[0] ? zg_children_as_it_is : zg_children_without_us;
}

// Searches like execvp: in the directories of PATH, or /bin and /usr/bin. An empty name is the current directory.
static bool find(const char *name, char *candidate, uint64_t bytes) {
    const char *path = NULL;
    for (char **entry = environ; entry && *entry && !path; entry++) path = value_in(*entry, "PATH");
    if (!path) path = "/bin:/usr/bin";
    for (;;) {
        struct zg_text text;
        zg_text_init(&text, candidate, bytes);
        const char *end = path;
        for (; *end && *end != ':'; end++) zg_text_char(&text, *end);
        if (end != path) zg_text_char(&text, '/');
        zg_text_string(&text, name);
        if (!text.truncated && zg_os_is_executable(candidate)) return true;
        if (!*end) return false;
        path = end + 1;
    }
}

enum zg_children_change zg_children_look_for(const char *name, char *const *environment) {
    if (!name || !*name) return zg_children_as_it_is;
    for (const char *c = name; *c; c++)
        if (*c == '/') return zg_children_look(AT_FDCWD, name, environment);
    char candidate[CANDIDATE_BYTES];
    if (find(name, candidate, sizeof candidate)) return zg_children_look(AT_FDCWD, candidate, environment);
    return has_us(environment) ? change_for_ours() : zg_children_as_it_is;
}

enum { FILTERS_BYTES = 64 }; // size of the environment variable that describes seccomp filters

struct zg_children_room zg_children_room(char *const *environment) {
    struct zg_children_room room = {1 + ZG_HIDDEN_MOST, FILTERS_BYTES};
    for (; *environment; environment++) {
        room.words++;
        if (value_in(*environment, "LD_PRELOAD")) room.bytes += zg_string_length(*environment) + 1;
    }
    return room;
}

// Writes the LD_PRELOAD entry without the runtime to `*bytes` and advances `*bytes`. Returns NULL if nothing else was
// preloaded.
static char *without_us(char *entry, const char *value, char **bytes) {
    uint64_t name = (uint64_t)(value - entry);
    uint64_t count = zg_program_preload_without_library(*bytes + name, value);
    if (!count) return NULL; // remove the variable
    char *written = *bytes;
    __builtin_memcpy(written, entry, name);
    written[name + count] = 0;
    *bytes += name + count + 1;
    return written;
}

void zg_children_write(char *const *environment, enum zg_children_change change, char **words, char *bytes) {
    for (; *environment; environment++) {
        const char *value = value_in(*environment, "LD_PRELOAD");
        char *entry = *environment;
        if (change == zg_children_without_us && value && zg_program_preload_has_library(value))
            entry = without_us(entry, value, &bytes);
        if (change == zg_children_with_us && zg_hidden_is_ours(entry)) entry = NULL;
        if (entry && change == zg_children_with_filters && value_in(entry, ZG_FILTERS_VARIABLE)) entry = NULL;
        if (entry) *words++ = entry;
    }
    for (int i = 0; change == zg_children_with_us && i < ZG_HIDDEN_MOST; i++)
        if (zg_hidden[i]) *words++ = zg_hidden[i];
    if (change == zg_children_with_filters) {
        struct zg_text text;
        uint64_t passing;
        zg_text_init(&text, bytes, FILTERS_BYTES);
        zg_text_string(&text, ZG_FILTERS_VARIABLE "=");
        zg_text_decimal(&text, zg_filter_describe(&passing));
        if (passing != ZG_FILTERED_ALL) {
            zg_text_char(&text, ':');
            zg_text_hex(&text, passing);
        }
        *words++ = bytes;
    }
    *words = NULL;
}
