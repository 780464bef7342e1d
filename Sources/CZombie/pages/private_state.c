// Allocates the tables of private pages.
// Called at the start.

#include "pages/private_state.h"

#include "platform/os.h"
#include "stacks/depot.h"

struct zg_private_state zg_private;

bool zg_private_init(void) {
    struct zg_private_state *state = &zg_private;
    uint64_t chunk_bytes =
        sizeof *state->live_blocks + sizeof *state->reopened_blocks + sizeof *state->blocks_until_close;
    char *tables = zg_os_map_for_good(ZG_POLICY_AREA_CHUNKS * chunk_bytes + ZG_DEPOT_PLACES * sizeof *state->turns);
    if (!tables) return false;
    state->live_blocks = (uint16_t *)tables;
    state->reopened_blocks = state->live_blocks + ZG_POLICY_AREA_CHUNKS;
    state->blocks_until_close = (uint8_t *)(state->reopened_blocks + ZG_POLICY_AREA_CHUNKS);
    state->turns = state->blocks_until_close + ZG_POLICY_AREA_CHUNKS;
    return true;
}
