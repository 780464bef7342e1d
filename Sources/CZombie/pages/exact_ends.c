// Records which contexts allocate strings, and which callers of malloc need aligned blocks.
// Any context, no lock: table entries are single words. If one is lost, a block ends a little farther from its guard
// page.

#include "pages/exact_ends.h"

#include "images/module.h"
#include "pages/isolation_policy.h"
#include "pages/protect.h"
#include "pages/window_switch.h"
#include "platform/filter.h"
#include "platform/os.h"
#include "platform/unaligned.h"
#include "settings/config.h"
#include "stacks/depot.h"

// Direct-mapped hash table of code (code_of) that allocates strings: a new entry replaces other code with the same
// place. The lowest bits of an entry are flags.
enum { STRING_CODES = 4096, TAGS_POINTERS = 1, FREE_OF_TAGS = 2, FLAGS = 3 };
static uint64_t string_codes[STRING_CODES];
// Bit n: the code of context n is or was in `string_codes`.
static uint64_t *noted;
// A bit for each hash of a caller of malloc whose blocks must be aligned.
enum { SITE_BITS = 12 };
static uint64_t aligned_sites[(1 << SITE_BITS) / 64];

bool zg_exact_end_init(void) {
    noted = zg_os_map_for_good(ZG_DEPOT_PLACES / 8);
    return noted != NULL;
}

// Returns a hash of the context's innermost frames; 0 if too few frames were recorded to distinguish the callers of a
// common function such as xmalloc.
static uint64_t code_of(uint32_t context) {
    enum { FRAMES_LEAST = 3 };
    uint64_t frames[FRAMES_LEAST];
    if (zg_depot_get(context, frames, FRAMES_LEAST) < FRAMES_LEAST) return 0;
    return zg_depot_hash_inner(context, ZG_POLICY_CODE_FRAMES) & ~(uint64_t)FLAGS;
}
static uint64_t *place_of(uint64_t code) { return &string_codes[code >> 32 & (STRING_CODES - 1)]; }
static uint32_t site_of(uint64_t caller) { return (uint32_t)(zg_depot_hash(0, caller) >> (64 - SITE_BITS)); }

static uint64_t caller_of(uint32_t context) {
    uint64_t frame;
    return zg_depot_get(context, &frame, 1) == 1 ? frame : 0;
}

static bool needs_alignment(uint64_t caller) {
    uint32_t site = site_of(caller);
    return !caller || (__atomic_load_n(&aligned_sites[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1);
}

void zg_exact_end_note_fault(uint32_t context) {
    uint32_t site = site_of(caller_of(context));
    __atomic_fetch_or(&aligned_sites[site / 64], UINT64_C(1) << site % 64, __ATOMIC_RELAXED);
}

void zg_exact_end_note_string(uint32_t context) {
    uint64_t *word = &noted[context % ZG_DEPOT_PLACES / 64], bit = UINT64_C(1) << context % 64;
    if (ZG_LIKELY(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) return;
    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    uint64_t code = code_of(context);
    if (code && (zg_load(place_of(code)) & ~(uint64_t)FLAGS) != code) zg_store(place_of(code), code);
}

// Whether the code stores tags in the lowest bit of pointers to strings. fontconfig does: it takes an odd pointer for
// an offset (FcIsEncodedOffset in fcint.h).
static bool tags_pointers(uint32_t context) {
    uint64_t frames[ZG_POLICY_CODE_FRAMES];
    for (int i = zg_depot_get(context, frames, ZG_POLICY_CODE_FRAMES); i > 0; i--)
        if (zg_module_function_in(frames[i - 1], "FcConfigGetCurrent")) return true;
    return false;
}

// Returns the entry of `string_codes` for the context's code; adds it if libc's strdup or strndup allocates the block.
// 0 if the context's blocks are not known to be strings.
static uint64_t entry_of(uint32_t context, uint64_t caller) {
    uint64_t code = code_of(context), entry = zg_load(place_of(code));
    if (!code) return 0;
    if ((entry & ~(uint64_t)FLAGS) == code) return entry;
    if (!zg_window_is_copying_caller(caller)) return 0;
    zg_exact_end_note_string(context);
    return code;
}

// Returns true if a string may begin at an odd address: only if all blocks are isolated, and the code stores no tags in
// pointers. Examines each code only once, because that takes microseconds.
static bool may_be_odd(uint32_t context, uint64_t entry) {
    if (zg_config.isolated_per_context != ZG_FENCE_ALL) return false;
    if (!(entry & FLAGS)) {
        entry |= tags_pointers(context) ? TAGS_POINTERS : FREE_OF_TAGS;
        zg_store(place_of(entry), entry);
    }
    return entry & FREE_OF_TAGS;
}

// Whether the fault handler can continue an instruction that needs alignment. A seccomp filter may forbid that later.
static bool can_continue_faults(void) {
    return zg_config.handle_signals && !zg_filter_in_effect && !zg_protection_is_stopped() && zg_unaligned_prepare();
}

uint64_t zg_exact_end_focused_alignment(uint64_t size, uint32_t context) {
    return zg_policy_string_alignment(size, !tags_pointers(context));
}

uint64_t zg_exact_end_alignment(uint64_t size, enum zg_alloc_family family, uint32_t context) {
    if (size % ZG_POLICY_MALLOC_ALIGNMENT == 0) return ZG_POLICY_MALLOC_ALIGNMENT;
    uint64_t caller = caller_of(context);
    if (needs_alignment(caller) || !can_continue_faults()) return ZG_POLICY_MALLOC_ALIGNMENT;
    uint64_t entry = entry_of(context, caller);
    if (entry) return zg_policy_string_alignment(size, may_be_odd(context, entry));
    return family == zg_family_malloc ? zg_policy_end_alignment(size) : ZG_POLICY_MALLOC_ALIGNMENT;
}
