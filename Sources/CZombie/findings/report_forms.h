// The two forms of a finding: a JSON line (report_json.c) for zguard, and text (report_text.c) for users who run the
// program without zguard.
// Cold and signal context; no lock, no allocation.

#ifndef ZG_REPORT_FORMS_H
#define ZG_REPORT_FORMS_H

#include "findings/finding.h"
#include "images/unloaded.h"
#include "platform/text.h"

void zg_report_put_json(struct zg_text *text, const struct zg_finding *finding);
void zg_report_put_text(struct zg_text *text, const struct zg_finding *finding);
// Writes the stacks. zg_report_put_text omits the stacks if error_text asks for one line and the program continues.
void zg_report_put_stacks(struct zg_text *text, const struct zg_finding *finding);
bool zg_report_is_shortened(const struct zg_finding *finding);
// Writes one line about how often the finding occurred again.
void zg_report_put_repeats(struct zg_text *text, const struct zg_finding *finding);

// Finds the image that contains `pc`, a frame of a current or of an older stack (`is_past`). For a current stack,
// loaded images are searched first. Unloaded images are searched even then, because a call may jump to unloaded code.
ZG_INLINE bool zg_report_find_image(uint64_t pc, bool is_past, struct zg_module *module) {
    return (!is_past && zg_module_find(pc, module)) || zg_unloaded_find(pc, module);
}

#endif
