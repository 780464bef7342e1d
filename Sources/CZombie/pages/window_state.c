// Allocates the tables of chunks and windows.
// Slow path; under the lock.

#include "pages/window_state.h"

#include "platform/os.h"

struct zg_windows zg_windows;

bool zg_windows_reserve_tables(void) {
    uint64_t chunk_bytes = ZG_POLICY_CHUNKS_MOST * sizeof(struct zg_chunk),
             window_bytes = ZG_POLICY_WINDOWS_MOST * sizeof(struct zg_window);
    zg_windows.chunks = zg_os_reserve(zg_round_up(chunk_bytes, ZG_PAGE_BYTES));
    zg_windows.windows = zg_os_reserve(zg_round_up(window_bytes, ZG_PAGE_BYTES));
    zg_windows.chunk_count = zg_windows.window_count = 1;
    zg_windows.lacking = zg_coverage_reason_address_space;
    return zg_windows.chunks && zg_windows.windows;
}

// Makes a table accessible up to entry `count`. False if the kernel refuses.
static bool commit(void *table, uint64_t entry_bytes, uint64_t count, uint64_t *committed) {
    uint64_t wanted = zg_round_up(count * entry_bytes, ZG_POLICY_TABLE_STEP_BYTES);
    if (wanted <= *committed) return true;
    if (zg_os_commit((char *)table + *committed, wanted - *committed) != 0) return false;
    *committed = wanted;
    return true;
}

bool zg_windows_make_room_for_chunk(void) {
    return commit(zg_windows.chunks, sizeof *zg_windows.chunks, zg_windows.chunk_count + UINT64_C(1),
                  &zg_windows.committed_chunk_bytes);
}

bool zg_windows_make_room_for_window(void) {
    return zg_windows.window_count < ZG_POLICY_WINDOWS_MOST &&
           commit(zg_windows.windows, sizeof *zg_windows.windows, zg_windows.window_count + UINT64_C(1),
                  &zg_windows.committed_window_bytes);
}
