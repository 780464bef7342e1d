// Stores the program's annotations: named texts that are shown with a crash. Reading needs no lock and works in any
// context.

#ifndef ZG_ANNOTATIONS_H
#define ZG_ANNOTATIONS_H

#include "include/zg_kept_text.h"
#include "platform/text.h"

extern struct zg_annotation zg_annotations[ZG_ANNOTATIONS];

// Stores the value under this name, truncated if too long; NULL removes it. Any thread, not from a signal handler.
// Returns false if there is no room for another name.
bool zg_annotations_set(const char *key, const char *value);
// Writes ,"annotations":{…}, or nothing if there are none.
void zg_annotations_put(struct zg_text *text);

#endif
