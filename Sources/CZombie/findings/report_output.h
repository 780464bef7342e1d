// Where reports go: the file that report_path names, and standard error as it was at the start.
// Cold and signal context. What is opened keeps out of the way of the program's descriptors, and is known again by device and
// inode: a number may be one of the program's own files by now.

#ifndef ZG_REPORT_OUTPUT_H
#define ZG_REPORT_OUTPUT_H

#include "platform/text.h"

// Opens the report. Start-up, and the child of a fork where the path names the process.
void zg_report_open(void);
void zg_report_after_fork_in_child(void);
// Returns when `zguard run` has said what this process has found, or seems not to: after three seconds. For what the program
// itself, or the Swift runtime, prints next.
void zg_report_wait_until_shown(void);
// Finds the page on which the processes of a run add up what they watched (settings/coverage.h). Start-up, after zg_report_open.
void zg_report_open_coverage(void);
// Tells zguard of the line that was written. False: nobody reads the report of this run any more, because zguard was killed, or has
// ended while this process goes on.
bool zg_report_is_read(void);
// A line for the user, where standard error still is what it was at the start.
void zg_report_emit(const char *bytes, uint64_t count);
// The descriptors that are open for reports, in no order. Returns how many, at most 2.
int zg_report_descriptors(int descriptors[2]);

// -- under the report lock (report.c) --
// An empty line in the one buffer that there is. Only such lines can be written.
void zg_report_begin_line(struct zg_text *line);
// Opens the run's file again, or one of this process's own where it may not, in place of the one that is open. Nothing changes where
// neither can be had.
void zg_report_change_file(void);
// Write a line. False: not the whole of it.
bool zg_report_write_to_path(const struct zg_text *line);
bool zg_report_write_to_standard_error(const struct zg_text *line);

#endif
