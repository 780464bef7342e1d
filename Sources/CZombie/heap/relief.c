// Gives memory back to the system. Slow path; takes the locks of the functions that it calls.

#include "heap/relief.h"

#include "blocks/span.h"
#include "heap/quarantine.h"
#include "pages/isolation.h"
#include "pages/retire.h"
#include "settings/stats.h"

uint64_t zg_relief_trim(struct zg_thread *thread, bool quarantine) {
    zg_retire_all_begin(thread);
    if (quarantine) zg_quarantine_trim(thread, 0);
    zg_isolation_guard_pending(); // otherwise freed blocks whose pages wait to be guarded would keep their memory
    uint64_t bytes = zg_retire_all_end() + zg_span_trim() + zg_isolation_give_back();
    zg_stats_add(zg_counter_relieved_bytes, bytes);
    zg_stats_add(zg_counter_trims, 1);
    return bytes;
}
