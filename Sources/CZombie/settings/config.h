// The options in force, read once at start-up, in the form that the hot path wants.
// Written before the first allocation is served, constant afterwards.

#ifndef ZG_CONFIG_H
#define ZG_CONFIG_H

#include "include/zg_options.h"
#include "platform/base.h"

// A field for each option, of its name, in the type of its kind. The texts stand last: they are long and seldom read.
#define ZG_FIELD_bool(name) bool name;
#define ZG_FIELD_number(name) uint32_t name;
#define ZG_FIELD_bytes(name) uint64_t name;
#define ZG_FIELD_percent(name) uint32_t name; // in tenths
#define ZG_FIELD_choice(name) enum zg_##name name;
#define ZG_FIELD_words(name) uint32_t name; // a bit for each
#define ZG_FIELD_path(name)
#define ZG_FIELD_names(name)

struct zg_config {
#define ZG_X(name, kind, initial, least, most, choices, text) ZG_FIELD_##kind(name)
    ZG_OPTIONS(ZG_X)
#undef ZG_X
    bool privileged; // AT_SECURE: nothing is read from the environment
    ZG_OPTIONS(ZG_PATH_FIELD)
};

extern struct zg_config zg_config;

// How many filters of system calls stand that only refuse: what a guarded process under such filters tells a program that it executes,
// for nobody can read filters that are there already.
#define ZG_FILTERS_VARIABLE "ZGUARD_FILTERS"

// A variable of the environment, also before libc knows of it; `scratch` may hold the value. NULL where there is none, or the process is
// privileged.
const char *zg_config_variable(const char *name, char *scratch, uint64_t capacity);
// Reads ZGUARD_OPTIONS; a bad value ends the process with one line on standard error and status 64.
void zg_config_init(void);

#endif
