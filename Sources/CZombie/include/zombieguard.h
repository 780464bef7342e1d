// The runtime's interface to the other parts of the project.
// It consists of the in-process functions, the options, the check of programs, the statistics page, and the records of
// blocks.

#ifndef ZOMBIEGUARD_H
#define ZOMBIEGUARD_H

#include "zg_api.h"
#include "zg_block.h"
#include "zg_decode.h"
#include "zg_filtered.h"
#include "zg_finding_kinds.h"
#include "zg_kept_text.h"
#include "zg_names.h"
#include "zg_options.h"
#include "zg_program.h"
#include "zg_run_directory.h"
#include "zg_space.h"
#include "zg_stats_page.h"

#endif
