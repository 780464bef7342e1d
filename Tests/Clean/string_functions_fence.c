// Memory and string functions work up to the last byte of isolated blocks, in front of guard pages.
// options: profile=fence:isolated_align=1
// libs: -Wno-stringop-overflow -Wno-stringop-overread -Wno-stringop-truncation -Wno-nonnull -Wno-comment

#define ISOLATED
#include "string_functions.c"
