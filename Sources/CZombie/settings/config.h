// The options in force, read once at start-up, in the form that the hot path wants.
// Written before the first allocation is served, constant afterwards.

#ifndef ZG_CONFIG_H
#define ZG_CONFIG_H

#include "include/zg_options.h"
#include "platform/base.h"

enum zg_on_finding { zg_on_finding_abort, zg_on_finding_continue };
enum zg_mismatch { zg_mismatch_off, zg_mismatch_certain, zg_mismatch_all };

enum zg_protect { zg_protect_auto, zg_protect_guard, zg_protect_mprotect };

struct zg_config {
    uint64_t quarantine_bytes;
    uint64_t fill_freed_bytes;
    uint32_t quarantine_per_context;
    uint32_t fence_per_context;
    uint64_t fence_bytes;
    uint32_t overread_ms;
    uint32_t fence_overhead; // tenths of a percent, as `overhead`
    uint32_t sample_rate;
    uint32_t sample_seed;
    uint32_t overhead;
    uint64_t retired_bytes;
    enum zg_protect protect;
    uint64_t mappings;
    bool pressure, pressure_thread;
    uint64_t pressure_thread_bytes;
    int stack_depth;
    bool fill_new;
    enum zg_on_finding on_finding;
    enum zg_mismatch dealloc_mismatch;
    bool full_error_text;
    bool verify_at_exit;
    bool stats;
    bool follow_children;
    bool handle_signals;
    bool zombies;
    bool find_object;
    bool privileged; // AT_SECURE: nothing is read from the environment
    char report_path[ZG_OPTION_PATH_BYTES];
};

extern struct zg_config zg_config;

// Reads ZGUARD_OPTIONS; a bad value ends the process with one line on standard error and status 64.
void zg_config_init(void);

#endif
