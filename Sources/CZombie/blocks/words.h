// Names used in findings, for the code that reports them. A name that is missing in the tables of zg_finding_kinds.h
// fails to compile. Any context.

#ifndef ZG_WORDS_H
#define ZG_WORDS_H

#include "include/zg_finding_kinds.h"
#include "platform/base.h"

// Examples: "read", "exact".
#define ZG_ACCESS(name) zg_access_name(zg_access_##name)
#define ZG_CONFIDENCE(name) zg_confidence_name(zg_confidence_##name)

ZG_INLINE const char *zg_access_name(enum zg_access access) {
#define ZG_X(name, text, done, noun) text,
    static const char *const names[] = {ZG_ACCESSES(ZG_X)};
#undef ZG_X
    return names[access];
}

ZG_INLINE const char *zg_confidence_name(enum zg_confidence confidence) {
#define ZG_X(name, text) text,
    static const char *const names[] = {ZG_CONFIDENCES(ZG_X)};
#undef ZG_X
    return names[confidence];
}

#endif
