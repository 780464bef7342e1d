// Where reports go: the file that report_path names, and standard error as it was at the start.
// Cold and signal context. What is opened keeps out of the way of the program's descriptors, and is known again by device and
// inode: a number may be one of the program's own files by now.

#ifndef ZG_REPORT_OUTPUT_H
#define ZG_REPORT_OUTPUT_H

#include "platform/text.h"

// Opens the report. Start-up, and the child of a fork where the path names the process.
void zg_report_open(void);
void zg_report_after_fork_in_child(void);
// Tells `zguard run`, where the report is its file, of a finding that is not in it.
void zg_report_note_unwritten(void);
// Returns when `zguard run` has said what this process has found, or seems not to: after three seconds. For what the program
// itself, or the Swift runtime, prints next.
void zg_report_wait_until_shown(void);
// Finds the page on which the processes of a run add up what they watched (settings/coverage.h). Start-up, after zg_report_open.
void zg_report_open_coverage(void);
// Tells `zguard run` of a process that cannot say what it watched.
void zg_report_note_untold(void);
// Tells `zguard run` to look at its page now. False: it is over, though its parent may not have taken note of that.
bool zg_report_wake_collector(void);
// A line for the user, where standard error still is what it was at the start.
void zg_report_say(const char *bytes, uint64_t count);
// The descriptors that are open for reports, in no order. Returns how many, at most 2.
int zg_report_descriptors(int descriptors[2]);

// -- under the report lock (report.c) --
// An empty line in the one buffer that there is. Only such lines can be written.
void zg_report_begin_line(struct zg_text *line);
// Write a line. False: not the whole of it.
bool zg_report_write_to_path(const struct zg_text *line);
bool zg_report_write_to_standard_error(const struct zg_text *line);

#endif
