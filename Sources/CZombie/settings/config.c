// Reads the options from the environment, before main and possibly before libc is initialised.
// Cold; takes no lock.

#define _GNU_SOURCE
#include "settings/config.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "include/zg_stats_page.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/stats.h"

struct zg_config zg_config;

// Options of a program that links the runtime, parsed before the environment's.
extern const char zg_default_options[] __attribute__((weak));

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

// The variable's value from the environment block; before libc has set `environ` from /proc/self/environ.
static const char *find_variable(const char *name, char *scratch, uint64_t capacity) {
    uint64_t length = zg_string_length(name);
    if (environ) {
        for (char **entry = environ; *entry; entry++) {
            uint64_t i = 0;
            while (i < length && (*entry)[i] == name[i]) i++;
            if (i == length && (*entry)[i] == '=') return *entry + length + 1;
        }
        return NULL;
    }
    int descriptor = zg_os_open_read("/proc/self/environ");
    if (descriptor < 0) return NULL;
    // One byte of state for each question: at an entry's start, matching the name, inside the value.
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

void zg_config_init(void) {
    static char scratch[1024];
    static struct zg_options options;
    zg_options_defaults(&options);
    zg_config.privileged = getauxval(AT_SECURE) != 0;
    if (zg_default_options && !zg_options_parse(&options, zg_default_options, warn_option, NULL)) zg_os_exit(64);
    const char *given = zg_config.privileged ? NULL : find_variable("ZGUARD_OPTIONS", scratch, sizeof scratch);
    if (given) {
        zg_string_copy(zg_stats->options, given, sizeof zg_stats->options);
        if (!zg_options_parse(&options, given, warn_option, NULL)) zg_os_exit(64);
    }
#define ZG_VALUE(name) options.value[zg_option_name_##name]
    zg_config.quarantine_bytes = (uint64_t)ZG_VALUE(quarantine_bytes);
    zg_config.fill_freed_bytes = (uint64_t)ZG_VALUE(fill_freed_bytes);
    zg_config.quarantine_per_context = (uint32_t)ZG_VALUE(quarantine_per_context);
    zg_config.fence_per_context = (uint32_t)ZG_VALUE(fence_per_context);
    zg_config.fence_bytes = (uint64_t)ZG_VALUE(fence_bytes);
    zg_config.fence_overhead = (uint32_t)ZG_VALUE(fence_overhead);
    zg_config.overread_ms = (uint32_t)ZG_VALUE(overread_ms);
    zg_config.sample_rate = (uint32_t)ZG_VALUE(sample_rate);
    zg_config.sample_seed = (uint32_t)ZG_VALUE(sample_seed);
    zg_config.overhead = (uint32_t)ZG_VALUE(overhead);
    zg_config.retired_bytes = (uint64_t)ZG_VALUE(retired_bytes);
    zg_config.protect = (enum zg_protect)ZG_VALUE(protect);
    zg_config.mappings = (uint64_t)ZG_VALUE(mappings);
    zg_config.pressure = ZG_VALUE(pressure);
    zg_config.pressure_thread = ZG_VALUE(pressure_thread);
    zg_config.pressure_thread_bytes = (uint64_t)ZG_VALUE(pressure_thread_bytes);
    zg_config.stack_depth = (int)ZG_VALUE(stack_depth);
    zg_config.fill_new = ZG_VALUE(fill_new);
    zg_config.on_finding = (enum zg_on_finding)ZG_VALUE(on_finding);
    zg_config.dealloc_mismatch = (enum zg_mismatch)ZG_VALUE(dealloc_mismatch);
    zg_config.full_error_text = ZG_VALUE(error_text) == 0;
    zg_config.verify_at_exit = ZG_VALUE(verify_at_exit);
    zg_config.stats = ZG_VALUE(stats);
    zg_config.follow_children = ZG_VALUE(children) == 0;
    zg_config.handle_signals = ZG_VALUE(handle_signals);
    zg_config.zombies = ZG_VALUE(zombies);
    zg_config.find_object = ZG_VALUE(find_object);
    zg_string_copy(zg_config.report_path, options.report_path, sizeof zg_config.report_path);
}
