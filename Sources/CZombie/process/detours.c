// Writes detours (trampolines) and the jumps to them. Start-up; no lock.

#include "process/detours.h"

#include "images/module.h"
#include "platform/filter.h"
#include "platform/os.h"
#include "settings/config.h"
#include "threads/single.h"

enum { CODE_BYTES = 256 };

bool zg_detours_are_possible(void) {
    // The process may have inherited seccomp filters whose rules cannot be read. They may kill a process that makes
    // code writable.
    char scratch[32];
    return zg_is_single_threaded() && !zg_filter_in_effect &&
           !zg_config_variable(ZG_FILTERS_VARIABLE, scratch, sizeof scratch);
}

// Maps one inaccessible page that a jump from any part of the function's image can reach: in front of the image, or
// else behind it with room for the program's break to grow.
static char *map_trampoline_page(uint64_t function) {
    enum { STEP = 1 << 20, FAR = 1 << 28 };
    struct zg_module module;
    if (!zg_module_find_unwind(function, &module)) return NULL;
    uint64_t start = module.start & ~(ZG_PAGE_BYTES - 1), end = zg_round_up(module.end, ZG_PAGE_BYTES);
    if (end - start >= ZG_ARCH_DETOUR_REACH) return NULL;
    for (uint64_t distance = 16 * ZG_PAGE_BYTES; distance < ZG_ARCH_DETOUR_REACH - (end - start); distance += STEP) {
        if (start > distance + 16 * ZG_PAGE_BYTES && zg_os_map_hole((void *)(start - distance), ZG_PAGE_BYTES))
            return (char *)(start - distance);
        if (distance > FAR && zg_os_map_hole((void *)(end + distance), ZG_PAGE_BYTES)) return (char *)(end + distance);
    }
    return NULL;
}

static bool write_all(char *room, const struct zg_detour *detours, uint64_t count, zg_arch_observer *observe,
                      uint64_t *written) {
    _Static_assert(ZG_MAX_DETOURS * ZG_ARCH_DETOUR_ROOM <= ZG_PAGE_BYTES, "all lie in one page");
    uint8_t code[CODE_BYTES];
    for (uint64_t i = 0; i < count; i++) {
        char *at = room + i * ZG_ARCH_DETOUR_ROOM;
        uint64_t function = detours[i].function;
        uint64_t bytes = function ? zg_os_read_memory(code, function, sizeof code) : 0;
        bool done =
            bytes && zg_arch_detour_write((uint8_t *)at, function, code, (uint32_t)bytes, observe, detours[i].number);
        written[i] = done ? (uint64_t)at : 0;
        if (detours[i].is_needed && !done) return false;
    }
    return true;
}

static bool patch_entry(uint64_t detour, uint64_t function) {
    uint8_t code[16] = {0};
    if (!zg_os_read_memory(code, function, sizeof code)) return false;
    uint32_t count = zg_arch_detour_jump(code, function, detour);
    uint64_t start = function & ~(ZG_PAGE_BYTES - 1), bytes = zg_round_up(function + count, ZG_PAGE_BYTES) - start;
    if (!count || zg_os_open_code((void *)start, bytes) < 0) return false;
    __builtin_memcpy((void *)function, code, count);
    zg_os_close_code((void *)start, bytes);
    __builtin___clear_cache((char *)function, (char *)function + count); // no-op on x86-64
    return true;
}

bool zg_detours_install(const struct zg_detour *detours, uint64_t count, zg_arch_observer *observe) {
    uint64_t written[ZG_MAX_DETOURS];
    char *room = map_trampoline_page(detours[0].function);
    if (!room || zg_os_commit(room, ZG_PAGE_BYTES) < 0 || !write_all(room, detours, count, observe, written) ||
        zg_os_close_code(room, ZG_PAGE_BYTES) < 0)
        return false;
    __builtin___clear_cache(room, room + ZG_PAGE_BYTES);
    bool done = true;
    for (uint64_t i = 0; i < count; i++)
        if (written[i] && !patch_entry(written[i], detours[i].function) && detours[i].is_needed) done = false;
    return done;
}
