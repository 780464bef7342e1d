// The options in effect, in the form that the hot path reads.
// Written before the first allocation is served, constant afterwards.

#ifndef ZG_CONFIG_H
#define ZG_CONFIG_H

#include "include/zg_options.h"
#include "platform/base.h"

// struct zg_config has one field for each option, with the option's name and the type of the option's kind. Texts come
// last because they are long and rarely read.
#define ZG_FIELD_bool(name) bool name;
#define ZG_FIELD_number(name) uint32_t name;
#define ZG_FIELD_bytes(name) uint64_t name;
#define ZG_FIELD_percent(name) uint32_t name; // in tenths of a percent
#define ZG_FIELD_choice(name) enum zg_##name name;
#define ZG_FIELD_words(name) uint32_t name; // bit mask
#define ZG_FIELD_path(name)
#define ZG_FIELD_names(name)

struct zg_config {
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details) ZG_FIELD_##kind(name)
    ZG_OPTIONS(ZG_X)
#undef ZG_X
    bool privileged; // AT_SECURE is set: the environment is ignored
    ZG_OPTIONS(ZG_PATH_FIELD)
};

extern struct zg_config zg_config;
// True if an option of kind `bytes` has its default value.
#define ZG_IS_DEFAULT(name) (zg_config.name == (uint64_t)zg_option_table[zg_option_name_##name].initial)

// Environment variable by which a guarded process describes its seccomp filters to a program that it executes
// (include/zg_filtered.h). The executed program inherits the filters and cannot read them.
#define ZG_FILTERS_VARIABLE "ZGUARD_FILTERS"

// Returns the value of an environment variable, or NULL if it is not set or the process is privileged. Works before
// libc is initialized; the result may point into `scratch`.
const char *zg_config_variable(const char *name, char *scratch, uint64_t capacity);
// Reads ZGUARD_OPTIONS. A bad value prints one line to standard error and exits with status 64.
void zg_config_init(void);

#endif
