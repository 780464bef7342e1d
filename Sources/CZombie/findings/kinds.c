// Tables of the names and texts of findings, for readers of reports (zg_finding_kinds.h).
// Constants only.

#include "include/zg_finding_kinds.h"

const struct zg_finding_kind_info zg_finding_kind_table[zg_finding_kind_count] = {
#define ZG_X(name, text, fatal, level, weakness, summary, explanation, help)                                           \
    {text, fatal, level, weakness, summary, explanation, help},
    ZG_FINDING_KINDS(ZG_X)
#undef ZG_X
};

const struct zg_access_info zg_access_table[zg_access_count] = {
#define ZG_X(name, text, done, noun) {text, done, noun},
    ZG_ACCESSES(ZG_X)
#undef ZG_X
};

const char *const zg_confidence_names[zg_confidence_count] = {
#define ZG_X(name, text) text,
    ZG_CONFIDENCES(ZG_X)
#undef ZG_X
};
