// Reads the options from the environment, before main and possibly before libc is initialized.
// Cold; takes no lock.

#define _GNU_SOURCE
#include "settings/config.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "include/zg_stats_page.h"
#include "platform/libc.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/stats.h"

struct zg_config zg_config;

// Options built into a program that links the runtime. Parsed before ZGUARD_OPTIONS, which overrides them.
extern const char zg_default_options[] __attribute__((weak));

#define ZG_READ_VALUE(name) zg_config.name = (__typeof__(zg_config.name))options.value[zg_option_name_##name];
#define ZG_READ_bool ZG_READ_VALUE
#define ZG_READ_number ZG_READ_VALUE
#define ZG_READ_bytes ZG_READ_VALUE
#define ZG_READ_percent ZG_READ_VALUE
#define ZG_READ_choice ZG_READ_VALUE
#define ZG_READ_words ZG_READ_VALUE
#define ZG_READ_path(name) zg_string_copy(zg_config.name, options.name, sizeof zg_config.name);
#define ZG_READ_names ZG_READ_path

static void warn_option(const struct zg_option_error *error, void *context) {
    (void)context;
    char line[512];
    struct zg_text text;
    zg_text_init(&text, line, sizeof line);
    if (error->what == zg_option_unknown) {
        zg_text_string(&text, "zguard: warning: unknown option '");
        zg_text_string(&text, error->name);
        zg_text_string(&text, "' in ZGUARD_OPTIONS is ignored");
        if (error->expected[0]) {
            zg_text_string(&text, "; did you mean '");
            zg_text_string(&text, error->expected);
            zg_text_string(&text, "'?");
        }
    } else {
        zg_text_string(&text, "zguard: error: option '");
        zg_text_string(&text, error->name);
        zg_text_string(&text, "': value '");
        zg_text_string(&text, error->value);
        zg_text_string(&text, "' is not ");
        zg_text_string(&text, error->expected);
    }
    zg_text_char(&text, '\n');
    zg_os_write(2, line, text.count);
}

// Returns the environment from the initial stack, where the kernel placed it behind the arguments. Used if `environ` is
// not yet set and there is no /proc.
static char **environment_of_start(void) {
    uint64_t *start = zg_libc_stack_end(); // points to argc
    return start ? (char **)(start + 1 + *start + 1) : NULL;
}

// Returns the variable's value, or NULL. Reads /proc/self/environ while libc has not set `environ`.
static const char *find_variable(const char *name, char *scratch, uint64_t capacity) {
    uint64_t length = zg_string_length(name);
    int descriptor = environ ? -1 : zg_os_open_read("/proc/self/environ");
    if (descriptor < 0) {
        for (char **entry = environ ? environ : environment_of_start(); entry && *entry; entry++) {
            uint64_t i = 0;
            while (i < length && (*entry)[i] == name[i]) i++;
            if (i == length && (*entry)[i] == '=') return *entry + length + 1;
        }
        return NULL;
    }
    // State machine over bytes. `at_name`: the bytes match `name` so far. `found`: the current byte belongs to the
    // value.
    uint64_t matched = 0, count = 0;
    bool at_name = true, found = false, done = false;
    char buffer[512];
    for (int got; !done && (got = zg_os_read(descriptor, buffer, sizeof buffer)) > 0;)
        for (int i = 0; i < got && !done; i++) {
            char c = buffer[i];
            if (found) {
                if (!c || count + 1 == capacity) done = true;
                else scratch[count++] = c;
            } else if (!c) {
                matched = 0, at_name = true;
            } else if (at_name && matched < length && c == name[matched]) {
                matched++;
            } else if (at_name && matched == length && c == '=') {
                found = true;
            } else {
                at_name = false;
            }
        }
    zg_os_close(descriptor);
    scratch[count] = 0;
    return found ? scratch : NULL;
}

const char *zg_config_variable(const char *name, char *scratch, uint64_t capacity) {
    return getauxval(AT_SECURE) ? NULL : find_variable(name, scratch, capacity);
}

void zg_config_init(void) {
    static char scratch[1024];
    static struct zg_options options;
    zg_options_defaults(&options);
    zg_config.privileged = getauxval(AT_SECURE) != 0;
    if (zg_default_options && !zg_options_parse(&options, zg_default_options, warn_option, NULL)) zg_os_exit(64);
    const char *given = zg_config_variable("ZGUARD_OPTIONS", scratch, sizeof scratch);
    if (given) {
        zg_string_copy(zg_stats->options, given, sizeof zg_stats->options);
        if (!zg_options_parse(&options, given, warn_option, NULL)) zg_os_exit(64);
    }
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details) ZG_READ_##kind(name)
    ZG_OPTIONS(ZG_X)
#undef ZG_X
}
