// What the program notes about itself, by names of its own: shown with what it dies of. Readers need no lock, and any context.

#ifndef ZG_ANNOTATIONS_H
#define ZG_ANNOTATIONS_H

#include "include/zg_kept_text.h"
#include "platform/text.h"

extern struct zg_annotation zg_annotations[ZG_ANNOTATIONS];

// Keeps the value under this name, cut off where it is longer; NULL takes it away. Any thread, not from a signal handler. False: there is no
// room for another name.
bool zg_annotations_set(const char *key, const char *value);
// ,"annotations":{…}; nothing where there are none.
void zg_annotations_put(struct zg_text *text);

#endif
