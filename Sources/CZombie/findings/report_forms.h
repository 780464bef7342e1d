// The two forms of a finding: a JSON line (report_json.c), which zguard reads, and a text (report_text.c) for those who run a
// program without it.
// Cold and signal context; no lock, no allocation.

#ifndef ZG_REPORT_FORMS_H
#define ZG_REPORT_FORMS_H

#include "findings/finding.h"
#include "images/unloaded.h"
#include "platform/text.h"

void zg_report_put_json(struct zg_text *text, const struct zg_finding *finding);
void zg_report_put_text(struct zg_text *text, const struct zg_finding *finding);
// What the text lacks where error_text asks for its first line, as the program goes on.
void zg_report_put_stacks(struct zg_text *text, const struct zg_finding *finding);
bool zg_report_is_shortened(const struct zg_finding *finding);
// How often the finding was met again, in one line.
void zg_report_put_repeats(struct zg_text *text, const struct zg_finding *finding);

// The image that a frame of a stack from now, or from some time ago, lies in. Code that is gone may be jumped to now.
ZG_INLINE bool zg_report_find_image(uint64_t pc, bool is_past, struct zg_module *module) {
    return (!is_past && zg_module_find(pc, module)) || zg_unloaded_find(pc, module);
}

#endif
