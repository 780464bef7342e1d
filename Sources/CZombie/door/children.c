// Programs that are executed. Signal-safe; no state, no lock.

#define _GNU_SOURCE
#include "door/children.h"

#include <fcntl.h>
#include <unistd.h>

#include "include/zg_program.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/stats.h"

enum { CANDIDATE_BYTES = 512 };

// The value of this variable in the entry; NULL where it is another one.
static const char *value_in(const char *entry, const char *name) {
    while (*name)
        if (*entry++ != *name++) return NULL;
    return *entry == '=' ? entry + 1 : NULL;
}

static bool has_us(char *const *environment) {
    for (; environment && *environment; environment++) {
        const char *value = value_in(*environment, "LD_PRELOAD");
        if (value && zg_program_preload_has_us(value)) return true;
    }
    return false;
}

bool zg_children_cannot_take(int directory, const char *path, char *const *environment) {
    if (!path || !has_us(environment) || zg_program_look(directory, path) == zg_program_takes_it) return false;
    zg_stats_note_unguarded_child();
    return true;
}

// As execvp searches: the directories of PATH, or /bin and /usr/bin; an empty one is the current one.
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

bool zg_children_found_cannot_take(const char *name, char *const *environment) {
    if (!name || !*name || !has_us(environment)) return false;
    for (const char *c = name; *c; c++)
        if (*c == '/') return zg_children_cannot_take(AT_FDCWD, name, environment);
    char candidate[CANDIDATE_BYTES];
    return find(name, candidate, sizeof candidate) && zg_children_cannot_take(AT_FDCWD, candidate, environment);
}

struct zg_children_room zg_children_room(char *const *environment) {
    struct zg_children_room room = {1, 0};
    for (; *environment; environment++) {
        room.words++;
        if (value_in(*environment, "LD_PRELOAD")) room.bytes += zg_string_length(*environment) + 1;
    }
    return room;
}

void zg_children_write(char *const *environment, char **words, char *bytes) {
    for (; *environment; environment++) {
        const char *value = value_in(*environment, "LD_PRELOAD");
        if (!value || !zg_program_preload_has_us(value)) {
            *words++ = *environment;
            continue;
        }
        uint64_t name = (uint64_t)(value - *environment);
        uint64_t count = zg_program_preload_without_us(bytes + name, value);
        if (!count) continue; // as if nothing had been preloaded
        __builtin_memcpy(bytes, *environment, name);
        bytes[name + count] = 0;
        *words++ = bytes;
        bytes += name + count + 1;
    }
    *words = NULL;
}
