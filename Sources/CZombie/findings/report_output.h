// Opens and writes the report outputs: the file named by report_path, and standard error as it was at start-up.
// Cold and signal context. Descriptors are moved out of the program's range and are recognized by device and inode: the
// program may have closed the number and reused it.

#ifndef ZG_REPORT_OUTPUT_H
#define ZG_REPORT_OUTPUT_H

#include "platform/text.h"

// Opens the report. Call at start-up, and in the child of a fork, which needs its own file if the path has %p.
void zg_report_open(void);
void zg_report_after_fork_in_child(void);
// Waits until `zguard run` has shown this process's findings, at most three seconds, so that they precede what the
// program or the Swift runtime prints next.
void zg_report_wait_until_shown(void);
// Maps the page in which the processes of a run add up their coverage (settings/coverage.h). Call at start-up, after
// zg_report_open.
void zg_report_open_coverage(void);
// Notifies zguard of the written line. Returns false if nobody reads the run's report any more: zguard was killed, or
// ended before this process.
bool zg_report_is_read(void);
// Writes a line for the user if descriptor 2 is still the standard error of start-up.
void zg_report_emit(const char *bytes, uint64_t count);
// Returns the number of descriptors open for reports, at most 2, and stores them unordered.
int zg_report_descriptors(int descriptors[2]);

// Starts an empty line in the single line buffer. Only lines in that buffer can be written.
void zg_report_begin_line(struct zg_text *line);
// Replaces the open report file by a newly opened one: the run's, or if this process may not open that, one of its own.
// Changes nothing if neither can be opened.
void zg_report_change_file(void);
// Write a line. Return false if it was not written completely.
bool zg_report_write_to_path(const struct zg_text *line);
bool zg_report_write_to_standard_error(const struct zg_text *line);

#endif
