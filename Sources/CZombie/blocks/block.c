// Names of allocation families, states, and languages, for readers inside and outside of the process (zg_block.h).
// Any context; no lock.

#include "include/zg_block.h"

#include "platform/base.h"

#define ZG_X(name, text) text,
static const char *const kinds[] = {ZG_ALLOC_FAMILIES(ZG_X)};
static const char *const states[] = {ZG_STATES(ZG_X)};
static const char *const languages[] = {ZG_LANGUAGES(ZG_X)};
#undef ZG_X

const char *zg_block_family_text(uint32_t kind) { return kind < zg_family_count ? kinds[kind] : NULL; }
const char *zg_block_state_text(uint32_t state) { return state < ZG_ARRAY_COUNT(states) ? states[state] : NULL; }
const char *zg_block_language_text(uint32_t language) {
    return language < ZG_ARRAY_COUNT(languages) ? languages[language] : NULL;
}
