// Every constant of the isolation policy and of the mechanisms below it, in one table: name, value, unit, reason,
// source. The source tells how the value was found. "measured" names the benchmark, or the document with its figures;
// "chosen" names the document that states the design; "chosen, not measured" marks a guess that no benchmark has
// contradicted.

#ifndef ZG_ISOLATION_CONSTANTS_H
#define ZG_ISOLATION_CONSTANTS_H

// Choice of blocks.
#define ZG_POLICY_CHOICE(X)                                                                                            \
    X(BLOCK_BYTES_MOST, 64 << 20, "bytes",                                                                             \
      "Larger blocks are spans, which are retired whole; only overruns of such blocks are missed.",                    \
      "chosen: include/zg_coverage.h, block_size")                                                                     \
    X(PRIVATE_FIRST, 16, "blocks",                                                                                     \
      "If all blocks are isolated, this many first blocks of a context get private pages, with "                       \
      "guard pages on both sides: as many as are first blocks in the default profile.",                                \
      "measured: docs/design/029-overruns-in-fence.md")                                                                \
    X(PRIVATE_EVERY, 16, "blocks",                                                                                     \
      "If all blocks are isolated, one in this many later blocks of a context gets private pages, as "                 \
      "far as they are affordable.",                                                                                   \
      "measured: docs/design/029-overruns-in-fence.md")                                                                \
    X(WINDOWED_FIRST_TIMES, 2, "times isolated_per_context",                                                           \
      "A page of a window costs a quarter of a private page, so twice as many blocks count as first "                  \
      "blocks of a context.",                                                                                          \
      "measured: docs/PERFORMANCE-FULL.md (gcc: 2,093 isolated blocks became 26,394)")                                 \
    X(WINDOWED_LATER_BLOCKS, 256, "blocks",                                                                            \
      "Each time this many later blocks of a context have been isolated, the probability of a "                        \
      "window falls: to 1/2, 1/3, 1/4 and so on.",                                                                     \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(ODDS_PAGES_MOST, 255, "pages",                                                                                   \
      "Bounds the divisor of the probability that a later block is isolated; the divisor grows with "                  \
      "the pages of the block.",                                                                                       \
      "chosen, not measured")                                                                                          \
    X(PARTLY_WATCHED_ODDS, 16, "blocks",                                                                               \
      "If earlier runs watched some pairs of a context, one in this many of its blocks is isolated, at "               \
      "random: its first blocks belong to the pairs that were watched.",                                               \
      "measured: docs/design/031-coverage-of-runs.md")                                                                 \
    X(SKIPPED_AFTER_DENIAL, 32, "blocks",                                                                              \
      "After the time budget denied a block, this many blocks are declined without reading the "                       \
      "clock.",                                                                                                        \
      "chosen, not measured")                                                                                          \
    X(CODE_FRAMES, 4, "frames", "Contexts count as the same code if this many innermost frames are equal.",            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(CODE_BITS, 18, "bits",                                                                                           \
      "Logarithm of the size in bits of the Bloom filter of known code: 32 KiB, two bits per entry.",                  \
      "chosen, not measured")

// Processor time.
#define ZG_POLICY_TIME(X)                                                                                              \
    X(START_NS, 5000000, "ns",                                                                                         \
      "Time for blocks other than a context's first that a process may spend before it has any "                       \
      "income; most processes end soon.",                                                                              \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_START_NS, 7000000, "ns",                                                                                   \
      "Time for the first block of a context that a process may spend before it has any income.",                      \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(NEW_CODE_START_NS, 8000000, "ns",                                                                                \
      "Time for the first block of new code that a process may spend before it has any income; "                       \
      "upper bound for all uses together.",                                                                            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(START_AT_ONCE_NS, 3000000, "ns",                                                                                 \
      "Part of START_NS that is available when the process starts, enough for programs of a few "                      \
      "hundred blocks.",                                                                                               \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_AT_ONCE_NS, 5000000, "ns", "Part of FIRST_START_NS that is available when the process starts.",            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(NEW_CODE_AT_ONCE_NS, 6000000, "ns", "Part of NEW_CODE_START_NS that is available when the process starts.",      \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(START_PART, 16, "parts",                                                                                         \
      "The rest of START_NS, FIRST_START_NS and NEW_CODE_START_NS becomes available gradually, as "                    \
      "the processor time divided by this.",                                                                           \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(EARLY_NS, 20000000, "ns",                                                                                        \
      "If all blocks are isolated, each block has private pages before a process has run this long, as "               \
      "far as they are affordable: bugs are likeliest in new code.",                                                   \
      "measured: docs/design/029-overruns-in-fence.md")                                                                \
    X(CHILD_AT_ONCE_NS, 300000, "ns",                                                                                  \
      "Time that a fork's child has at its start. If children inherited the rest of the parent's "                     \
      "time, each would spend it on the same code.",                                                                   \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(CHILD_PART, 8, "parts", "The time of a fork's child grows by its own processor time divided by this.",           \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(ADVANCE_NS, 64000000, "ns", "Upper bound on the later income that first blocks may spend in advance.",           \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(KEPT_NS, 64000000, "ns", "Upper bound on the unspent income that is kept.",                                      \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(RESERVE_NS, 16000000, "ns",                                                                                      \
      "Upper bound on the reserve that a use leaves to more urgent uses, for each step of urgency.",                   \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(RESERVE_PART, 8, "parts", "The reserve for each step of urgency is the income divided by this.",                 \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(AMPLE_FIRST_PART, 2, "parts",                                                                                    \
      "First blocks get private pages instead of windows while more than the income divided by this "                  \
      "is left.",                                                                                                      \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(GRANT_NS, 1000000, "ns", "Time for first blocks that every test of a bundle gets.",                              \
      "measured: docs/design/009-page-time.md (10,755 of 10,767 stacks instead of 8,061 of 11,186)")                   \
    X(BUDGET_REFRESH_NS, 1000000, "ns",                                                                                \
      "Minimum time between two readings of the process clock; each reading is a system call.",                        \
      "chosen, not measured")                                                                                          \
    X(CALL_NS_MOST, 8000, "ns",                                                                                        \
      "Upper bound on the counted duration of a system call: a preempted thread measures time that "                   \
      "it did not spend.",                                                                                             \
      "chosen, not measured")                                                                                          \
    X(PAGE_NS_MOST, 600, "ns", "Upper bound on the counted duration of a system call, for each page of the call.",     \
      "measured: Linux 6.18, MADV_GUARD_INSTALL of 16 pages in one call, 430 to 500 ns a page")                        \
    X(CALL_NS, 1000, "ns", "Cost of one isolated block that arises after the measured work, without its pages.",       \
      "chosen, not measured")                                                                                          \
    X(FRESH_PAGE_NS, 2500, "ns", "Cost of a fresh page: page fault, zeroing, and the cache lines that these evict.",   \
      "measured: Linux 6.18, first touch of a private page 2,420 ns; docs/PERFORMANCE.md, Missed "                     \
      "targets (gcc 1.61 became 1.54)")                                                                                \
    X(WINDOW_NS, 100, "ns", "Cost of a block in a window in addition to the measured work: cache and TLB misses.",     \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CHARGED_PAGES_MOST, 16, "pages",                                                                                 \
      "Upper bound on the fresh pages that a new block is charged for: most large blocks are not "                     \
      "used in full.",                                                                                                 \
      "chosen, not measured")                                                                                          \
    X(NEW_CODE_SHARE, 3, "times isolated_overhead",                                                                    \
      "Upper bound on the processor time that all uses have taken when new code may still spend "                      \
      "more.",                                                                                                         \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_SHARE, 2, "times isolated_overhead",                                                                       \
      "Upper bound on the processor time that all uses have taken when first blocks may still spend "                  \
      "more.",                                                                                                         \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(RETIRE_PART, 4, "parts",                                                                                         \
      "Retired pages get the income divided by this: a slot that was held back is no longer in the "                   \
      "cache when it is reused.",                                                                                      \
      "chosen: docs/design/009-page-time.md")

// Memory of private pages.
#define ZG_POLICY_MEMORY(X)                                                                                            \
    X(MEMORY_PART, 2, "parts", "Private pages take at most the machine's memory divided by this.",                     \
      "chosen: include/zg_coverage.h, memory")                                                                         \
    X(SHARE_BYTES, 4 << 20, "bytes",                                                                                   \
      "Private pages may take this many bytes or a share of the live bytes (SHARE_SHIFT), whichever "                  \
      "is more.",                                                                                                      \
      "chosen, not measured")                                                                                          \
    X(SHARE_SHIFT, 3, "bits", "Private pages may take the live bytes shifted right by this: an eighth.",               \
      "chosen: docs/design/020-short-memory.md")                                                                       \
    X(NARROW_SHARE_BYTES, 256 << 10, "bytes",                                                                          \
      "Replaces SHARE_BYTES in a control group that is nearly full, because each of its processes "                    \
      "may take this much.",                                                                                           \
      "chosen, not measured")                                                                                          \
    X(NARROW_SHARE_SHIFT, 5, "bits", "Replaces SHARE_SHIFT in a control group that is nearly full: a 32nd.",           \
      "chosen: docs/design/020-short-memory.md")                                                                       \
    X(FIRST_ROOM_TIMES, 2, "times",                                                                                    \
      "First blocks of contexts may take this multiple of the share of private pages, so that later "                  \
      "blocks never fill it.",                                                                                         \
      "chosen, not measured")                                                                                          \
    X(RECORD_BYTES, 2 << 20, "bytes",                                                                                  \
      "Records of retired private pages may take this many bytes or a share of the live bytes "                        \
      "(RECORD_SHIFT).",                                                                                               \
      "chosen, not measured")                                                                                          \
    X(RECORD_SHIFT, 3, "bits",                                                                                         \
      "Records of retired private pages may take the live bytes shifted right by this: an eighth.",                    \
      "chosen, not measured")                                                                                          \
    X(AFFORDABLE_BYTES, 2 << 20, "bytes",                                                                              \
      "If all blocks are isolated, small blocks get private pages while all private pages take less "                  \
      "than this many bytes or a share of the live bytes (AFFORDABLE_PART), and windows afterwards.",                  \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-FULL.md")                                                  \
    X(AFFORDABLE_PART, 4, "parts",                                                                                     \
      "If all blocks are isolated, small blocks get private pages while all private pages take less "                  \
      "than the live bytes divided by this.",                                                                          \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-FULL.md")                                                  \
    X(AFFORDABLE_FIRST_TIMES, 2, "times",                                                                              \
      "If all blocks are isolated, the first blocks of a context may take this multiple of "                           \
      "AFFORDABLE_BYTES, so that later blocks never take their private pages.",                                        \
      "measured: docs/design/029-overruns-in-fence.md")                                                                \
    X(SMALL_BYTES, 1 << 20, "bytes",                                                                                   \
      "In other profiles, private pages that small blocks leave half empty may take this many bytes "                  \
      "or a share of the live bytes (SMALL_SHIFT).",                                                                   \
      "chosen: commit cbab0ea")                                                                                        \
    X(SMALL_SHIFT, 6, "bits",                                                                                          \
      "In other profiles, private pages that small blocks leave half empty may take the live bytes "                   \
      "shifted right by this: a 64th.",                                                                                \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(START_EVERY, 4, "blocks",                                                                                        \
      "One in this many blocks of a context lies at the start of its pages, so that underruns "                        \
      "fault.",                                                                                                        \
      "chosen: docs/design/006-isolated-blocks.md")                                                                    \
    X(START_AT, 1, "blocks",                                                                                           \
      "Position of the block at the start of its pages among START_EVERY blocks of a context: never "                  \
      "the first block, and two of the first eight.",                                                                  \
      "chosen: docs/design/006-isolated-blocks.md")                                                                    \
    X(MALLOC_ALIGNMENT, 16, "bytes", "Alignment that programs expect of malloc.", "chosen: x86-64 psABI")              \
    X(SMALL_OBJECT_BYTES, 8, "bytes",                                                                                  \
      "Blocks up to this size are aligned only to the next power of two: C23 asks for the alignment of "               \
      "objects that fit. Libraries check the alignment of larger blocks.",                                             \
      "measured: Eigen ends with 8 instead of 16, docs/design/034-exact-ends.md")                                      \
    X(TAG_BYTES, 2, "bytes", "Alignment that leaves pointers the lowest bit for a tag.",                               \
      "measured: fontconfig ends with strings at odd addresses, docs/design/034-exact-ends.md")

// Private pages: address space and mappings.
#define ZG_POLICY_ADDRESSES(X)                                                                                         \
    X(AREA_CHUNKS, 1 << 19, "chunks",                                                                                  \
      "Number of chunks (2 MiB) whose live blocks are counted: 1 TiB of address space. Chunks "                        \
      "beyond are never closed.",                                                                                      \
      "chosen, not measured")                                                                                          \
    X(CLOSED_RUNS_MOST, 400, "runs",                                                                                   \
      "Upper bound on the runs of adjacent closed chunks, two mappings each: 800 of the 65,530 that "                  \
      "the kernel allows.",                                                                                            \
      "chosen: commit 767bb94")                                                                                        \
    X(REOPENED_BLOCKS, 128, "blocks", "Number of blocks that a reopened chunk serves before it may be closed again.",  \
      "chosen: commit 4f056cc")                                                                                        \
    X(MAP_STEP_PAGES, 1 << 16, "pages",                                                                                \
      "The map from addresses to records is made accessible for this many pages at once.", "chosen, not measured")     \
    X(COMMIT_STEP_BYTES, 4 << 20, "bytes",                                                                             \
      "Address space that is made accessible at once, because each step is a system call.", "chosen, not measured")    \
    X(REUSED_AT_ONCE, 64, "blocks",                                                                                    \
      "Retired blocks whose saved contents and mappings are released together, neighbors in one "                      \
      "call.",                                                                                                         \
      "chosen: docs/design/009-page-time.md")

// Windows.
#define ZG_POLICY_WINDOWS(X)                                                                                           \
    X(CHUNK_PAGES_LEAST, 8, "pages",                                                                                   \
      "Size of a class's first chunk: a window onto it is one mapping for eight blocks.",                              \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CHUNK_PAGES_MOST, 128, "pages", "Size of the largest chunk.", "chosen: docs/design/007-windows.md")              \
    X(CHUNKS_MOST, 1 << 16, "chunks", "Capacity of the table of chunks.", "chosen, not measured")                      \
    X(WINDOWS_MOST, 1 << 20, "windows", "Capacity of the table of windows.", "chosen, not measured")                   \
    X(AREA_PAGES_MOST, 1 << 24, "pages",                                                                               \
      "Address space of all windows, 64 GiB. If the reservation fails, a quarter of the size is "                      \
      "tried next.",                                                                                                   \
      "chosen: docs/COVERAGE.md")                                                                                      \
    X(AREA_PAGES_LEAST, 1 << 16, "pages", "Minimum address space for windows; with less, windows are off.",            \
      "chosen, not measured")                                                                                          \
    X(SLOT_BYTES_LEAST, 32, "bytes", "Smallest slot, so that a page has at most 128 slots.", "chosen, not measured")   \
    X(GAP_BYTES_LEAST, 8, "bytes", "Minimum red zone behind a block in its slot.",                                     \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(WINDOW_BLOCK_BYTES_MOST, 2040, "bytes",                                                                          \
      "Larger blocks would share a page with at most one other block, so they get private pages.",                     \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(POPULATED_PAGES, 16, "pages",                                                                                    \
      "Number of pages that are mapped together: the kernel maps as many at one fault, 64 KiB "                        \
      "(fault_around_bytes of mm/memory.c).",                                                                          \
      "measured: Linux 6.18, 370 ns a page instead of 970 by MADV_POPULATE_WRITE")                                     \
    X(TABLE_STEP_BYTES, 64 << 10, "bytes", "Part of a table that is made accessible at once.", "chosen, not measured") \
    X(WINDOWS_PER_CHUNK_SIZE, 8, "windows",                                                                            \
      "Number of windows that a chunk class opens before it gets a larger chunk.", "chosen: commit 10831e1")           \
    X(CHUNKS_GROW_BYTES, 2 << 20, "bytes",                                                                             \
      "Chunks grow while all chunks together take less than this many bytes or a share of the live "                   \
      "bytes (CHUNKS_GROW_SHIFT).",                                                                                    \
      "chosen, not measured")                                                                                          \
    X(CHUNKS_GROW_SHIFT, 1, "bits",                                                                                    \
      "Chunks grow while all chunks together take less than the live bytes shifted right by this: a "                  \
      "half.",                                                                                                         \
      "chosen, not measured")                                                                                          \
    X(SOME_CHUNKS_GROW_BYTES, 256 << 10, "bytes", "Replaces CHUNKS_GROW_BYTES if only some blocks lie in windows.",    \
      "chosen: commit 52b9878; docs/design/007-windows.md")                                                            \
    X(SOME_CHUNKS_GROW_SHIFT, 5, "bits", "Replaces CHUNKS_GROW_SHIFT if only some blocks lie in windows: a 32nd.",     \
      "chosen: commit 52b9878; docs/design/007-windows.md")                                                            \
    X(CLOSED_PAGES, 32768, "pages",                                                                                    \
      "Number of pages of closed windows that keep their records, so that late accesses can be "                       \
      "explained; more if a share of the live bytes (CLOSED_SHIFT) holds more records.",                               \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CLOSED_SHIFT, 3, "bits", "Records of closed windows may take the live bytes shifted right by this: an eighth.",  \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(NARROW_CLOSED_PAGES, 4096, "pages", "Replaces CLOSED_PAGES if memory is narrow: 128 KiB of records.",            \
      "chosen: commit fe7ed47")                                                                                        \
    X(WORTH_WINDOW_PART, 2, "parts",                                                                                   \
      "A chunk gets another window once one in this many of its pages has a free slot.", "chosen, not measured")       \
    X(WORTH_REUSE_PART, 8, "parts",                                                                                    \
      "If memory is narrow, a retired window is reused once one in this many of its pages can be "                     \
      "reused: the search pays from a dozen blocks on.",                                                               \
      "chosen: commit fe7ed47")                                                                                        \
    X(LIFETIME_WINDOWS, 16, "windows",                                                                                 \
      "When a chunk class has retired this many windows after a window, the blocks still live in "                     \
      "that window count as long-lived.",                                                                              \
      "chosen, not measured")                                                                                          \
    X(FORKS_MOST, 4, "forks",                                                                                          \
      "Forks of a process and of its ancestors before the process gets no more windows: each fork "                    \
      "copies all chunks.",                                                                                            \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(PENDING_BYTES, 256 << 10, "bytes",                                                                               \
      "Freed blocks whose pages are not guarded yet may take this many bytes or a share of the live "                  \
      "bytes (PENDING_SHIFT).",                                                                                        \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(PENDING_SHIFT, 3, "bits",                                                                                        \
      "Freed blocks whose pages are not guarded yet may take the live bytes shifted right by this: "                   \
      "an eighth.",                                                                                                    \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(MAPPED_BYTES, 512 << 10, "bytes",                                                                                \
      "Pages of retired windows may be resident up to this many bytes or a share of the live bytes "                   \
      "(MAPPED_SHIFT).",                                                                                               \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-MEMORY.md")                                                \
    X(MAPPED_SHIFT, 5, "bits",                                                                                         \
      "Pages of retired windows may be resident up to the live bytes shifted right by this: a 32nd.",                  \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(SINGLE_GUARD_START_NS, 50000000, "ns",                                                                           \
      "Processor time for guarding single pages that is always allowed. Guarding a page takes 1.5 "                    \
      "us, most of the cost of a block.",                                                                              \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(SINGLE_GUARD_PART, 20, "parts",                                                                                  \
      "Guarding single pages may take the processor time divided by this, in addition to "                             \
      "SINGLE_GUARD_START_NS.",                                                                                        \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(SINGLE_GUARD_NS_MOST, 4000, "ns", "Upper bound on the counted duration of guarding one page.",                   \
      "measured: Linux 6.18, MADV_GUARD_INSTALL of one page takes 2,190 ns")                                           \
    X(SINGLE_GUARD_LOOK_EVERY, 64, "blocks",                                                                           \
      "Once the time for single pages is spent, one in this many freed blocks checks whether there "                   \
      "is new time.",                                                                                                  \
      "chosen, not measured")                                                                                          \
    X(SINGLE_GUARD_REFRESH_NS, 2000000, "ns",                                                                          \
      "Minimum time between two readings of the process clock for the time of single pages.", "chosen, not measured")  \
    X(COPYING_FUNCTION_BYTES, 96, "bytes",                                                                             \
      "Length of libc's functions that allocate blocks for the program (strdup, strndup).", "chosen, not measured")

// Lifetimes.
#define ZG_POLICY_LIFETIMES(X)                                                                                         \
    X(SCORE_LASTED, 2, "points",                                                                                       \
      "Points that a long-lived block adds; a short-lived one subtracts 1. So a context counts as "                    \
      "long-lived if more than a third of its blocks are.",                                                            \
      "chosen, not measured")                                                                                          \
    X(SCORE_LONG, 8, "points", "A context with this many points has long-lived blocks.", "chosen, not measured")       \
    X(SCORE_MOST, 16, "points", "Upper bound of the saturating counter.", "chosen, not measured")

// Retired pages of the slab heap.
#define ZG_POLICY_RETIRED(X)                                                                                           \
    X(RUN_SHIFT, 16, "bits", "Logarithm of the size of a run: slots of 64 KiB are retired together.",                  \
      "chosen: docs/design/008-retirement.md")                                                                         \
    X(PHASE_RUNS_MOST, 256, "runs", "Number of runs that a phase remembers.", "chosen, not measured")                  \
    X(HELD_BYTES_MOST, 1 << 20, "bytes",                                                                               \
      "A phase ends when it holds this many bytes: the slots cannot be reused, so caches and the "                     \
      "program's memory lack them.",                                                                                   \
      "chosen, not measured")                                                                                          \
    X(RETIRED_RECORD_BYTES, 2 << 20, "bytes",                                                                          \
      "Records of retired slots may take this many bytes or a share of the live bytes "                                \
      "(RETIRED_RECORD_SHIFT).",                                                                                       \
      "chosen: docs/design/008-retirement.md; commit 63ef60a")                                                         \
    X(RETIRED_RECORD_SHIFT, 6, "bits",                                                                                 \
      "Records of retired slots may take the live bytes shifted right by this: a 64th.",                               \
      "chosen: docs/design/008-retirement.md; commit 63ef60a")                                                         \
    X(TRIMMED_RECORD_TIMES, 2, "times",                                                                                \
      "After memory was given back on request, records of retired slots may take this multiple of "                    \
      "their bound.",                                                                                                  \
      "chosen: docs/design/008-retirement.md")                                                                         \
    X(PHASE_PAYS_PART, 4, "parts",                                                                                     \
      "A phase that retired less than one in this many of the runs that it touched postpones the "                     \
      "next phase.",                                                                                                   \
      "chosen: docs/design/008-retirement.md")                                                                         \
    X(BACKOFF_NS_LEAST, 1000000, "ns", "Pause after a phase that retired enough runs.", "chosen, not measured")        \
    X(BACKOFF_NS_MOST, 2000000000, "ns", "Longest pause after phases that retired too few runs.",                      \
      "chosen, not measured")                                                                                          \
    X(RELEASED_AT_ONCE, 32, "slots", "Number of slots that go back to the class together.", "chosen, not measured")

// Opened guard pages behind live blocks; locked memory.
#define ZG_POLICY_OTHERS(X)                                                                                            \
    X(YOUNG_BLOCKS_MOST, 4096, "blocks",                                                                               \
      "Number of blocks that wait for their guard page to be opened; further blocks keep their "                       \
      "guard page.",                                                                                                   \
      "chosen, not measured")                                                                                          \
    X(AGE_STEPS, 2, "steps", "Ages of blocks are counted in steps of overread_ms divided by this.",                    \
      "chosen, not measured")                                                                                          \
    X(VECTOR_BYTES, 64, "bytes",                                                                                       \
      "Width of the widest masked load (AVX-512): a load that begins in the block reaches at most "                    \
      "this far behind it.",                                                                                           \
      "chosen: docs/PERFORMANCE-TARGETS.md (perl 1.75 became 1.47 with such guard pages open)")                        \
    X(LOCKED_RANGES_MOST, 16384, "ranges",                                                                             \
      "Number of locked ranges that are recorded: RLIMIT_MEMLOCK is 8 MiB by default, or 2,048 "                       \
      "pages.",                                                                                                        \
      "chosen, not measured")

#define ZG_POLICY_CONSTANTS(X)                                                                                         \
    ZG_POLICY_CHOICE(X)                                                                                                \
    ZG_POLICY_TIME(X)                                                                                                  \
    ZG_POLICY_MEMORY(X)                                                                                                \
    ZG_POLICY_ADDRESSES(X)                                                                                             \
    ZG_POLICY_WINDOWS(X)                                                                                               \
    ZG_POLICY_LIFETIMES(X)                                                                                             \
    ZG_POLICY_RETIRED(X)                                                                                               \
    ZG_POLICY_OTHERS(X)

// Defines ZG_POLICY_PRIVATE_FIRST and so on. All values fit into an int.
enum {
#define ZG_X(name, value, unit, reason, source) ZG_POLICY_##name = value,
    ZG_POLICY_CONSTANTS(ZG_X)
#undef ZG_X
};

#endif
