// Every constant of the isolation policy and of the mechanisms below it, in one table: name, value, unit, reason,
// source. The source says how the value was found: "measured" names the benchmark, or the document with its figures;
// "chosen" names the document that states the design; "chosen, not measured" is a guess that no benchmark has
// contradicted.

#ifndef ZG_ISOLATION_CONSTANTS_H
#define ZG_ISOLATION_CONSTANTS_H

// Which blocks.
#define ZG_POLICY_CHOICE(X)                                                                                            \
    X(BLOCK_BYTES_MOST, 64 << 20, "bytes",                                                                             \
      "Larger blocks are spans, which are retired whole; only their overruns go unseen.",                              \
      "chosen: include/zg_coverage.h, block_size")                                                                     \
    X(PRIVATE_FIRST, 4, "blocks",                                                                                      \
      "Where all blocks are isolated, these first ones of a context get private pages, which have guard"               \
      " pages on both sides.",                                                                                         \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(WINDOWED_FIRST_TIMES, 2, "times isolated_per_context",                                                           \
      "Windows cost a quarter of private pages, so twice as many blocks count as a context's first "                   \
      "ones.",                                                                                                         \
      "measured: docs/PERFORMANCE-FULL.md (gcc: 2,093 isolated blocks became 26,394)")                                 \
    X(WINDOWED_LATER_BLOCKS, 256, "blocks",                                                                            \
      "After so many more blocks of a context, half as many of its later ones get windows.",                           \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(ODDS_PAGES_MOST, 255, "pages",                                                                                   \
      "Bounds the divisor of the probability that a later block is isolated, which grows with its "                    \
      "pages.",                                                                                                        \
      "chosen, not measured")                                                                                          \
    X(SKIPPED_AFTER_DENIAL, 32, "blocks", "After the budget denied one block, so many do not read the clock.",         \
      "chosen, not measured")                                                                                          \
    X(CODE_FRAMES, 4, "frames", "Contexts whose innermost calls are the same count as the same code.",                 \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(CODE_BITS, 18, "bits", "Size of the Bloom filter of known code: 32 KiB, two bits for each of its entries.",      \
      "chosen, not measured")

// Processor time.
#define ZG_POLICY_TIME(X)                                                                                              \
    X(START_NS, 3000000, "ns",                                                                                         \
      "Time that does not wait for income, for all but first blocks; most processes end soon.",                        \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_START_NS, 4000000, "ns", "The same for the first block of a context.",                                     \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(NEW_CODE_START_NS, 5000000, "ns", "The same for the first block of new code; it bounds all together.",           \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(START_AT_ONCE_NS, 1500000, "ns",                                                                                 \
      "The part of START_NS that is there at once, for programs of a few hundred blocks.",                             \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_AT_ONCE_NS, 3000000, "ns", "The part of FIRST_START_NS that is there at once.",                            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(NEW_CODE_AT_ONCE_NS, 4000000, "ns", "The part of NEW_CODE_START_NS that is there at once.",                      \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(START_PART, 16, "parts", "The rest of the start comes as one part in so many of the processor time.",            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(EARLY_NS, 20000000, "ns",                                                                                        \
      "Until the process has run so long nothing lies in windows: the first of each size cost as much "                \
      "as private pages.",                                                                                             \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(CHILD_AT_ONCE_NS, 300000, "ns",                                                                                  \
      "Time that the child of a fork has at once: its parent's rest would be spent by every child on "                 \
      "the same code.",                                                                                                \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(CHILD_PART, 8, "parts", "One part in so many of a child's own processor time is added to it.",                   \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(ADVANCE_NS, 64000000, "ns", "Most that first blocks spend of later income.",                                     \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(KEPT_NS, 64000000, "ns", "Most unspent income that is kept.", "chosen: docs/design/009-page-time.md")            \
    X(RESERVE_NS, 16000000, "ns",                                                                                      \
      "Most that a less urgent use leaves to a more urgent one, for each step of urgency.",                            \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(RESERVE_PART, 8, "parts", "The reserve for each step of urgency is one part in so many of the income.",          \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(AMPLE_FIRST_PART, 2, "parts",                                                                                    \
      "First blocks get private pages, instead of windows, while more than this part of the income is "                \
      "left.",                                                                                                         \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(GRANT_NS, 1000000, "ns", "Time for first blocks that every test of a bundle has.",                               \
      "measured: docs/design/009-page-time.md (10,755 of 10,767 stacks instead of 8,061 of 11,186)")                   \
    X(BUDGET_REFRESH_NS, 1000000, "ns",                                                                                \
      "Least time between two readings of the process's clock, each of which is a system call.",                       \
      "chosen, not measured")                                                                                          \
    X(CALL_NS_MOST, 8000, "ns",                                                                                        \
      "Most that one system call is taken to have lasted: a thread that was preempted did not spend the"               \
      " time.",                                                                                                        \
      "chosen, not measured")                                                                                          \
    X(PAGE_NS_MOST, 600, "ns", "The same for each page of the call.",                                                  \
      "measured: Linux 6.18, MADV_GUARD_INSTALL of 16 pages in one call, 430 to 500 ns a page")                        \
    X(CALL_NS, 1000, "ns", "Cost of one isolated block that is paid after the measured work, besides its pages.",      \
      "chosen, not measured")                                                                                          \
    X(FRESH_PAGE_NS, 2500, "ns", "Cost of a fresh page: fault, zeroing, and what they evict from the caches.",         \
      "measured: Linux 6.18, first touch of a private page 2,420 ns; docs/PERFORMANCE.md, Missed "                     \
      "targets (gcc 1.61 became 1.54)")                                                                                \
    X(WINDOW_NS, 100, "ns",                                                                                            \
      "Cost of a block in a window besides the measured work: misses of the caches and of the TLB.",                   \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CHARGED_PAGES_MOST, 16, "pages",                                                                                 \
      "Most fresh pages that a new block is charged: most large blocks are not used in full.", "chosen, not measured") \
    X(NEW_CODE_SHARE, 3, "times isolated_overhead", "Most of the processor time that new code may have had.",          \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(FIRST_SHARE, 2, "times isolated_overhead", "Most of the processor time that first blocks may have had.",         \
      "chosen: docs/design/009-page-time.md")                                                                          \
    X(RETIRE_PART, 4, "parts",                                                                                         \
      "Retired pages get one part in so many of the income: slots that are held back are cold when they"               \
      " are used again.",                                                                                              \
      "chosen: docs/design/009-page-time.md")

// Memory of private pages.
#define ZG_POLICY_MEMORY(X)                                                                                            \
    X(MEMORY_PART, 2, "parts", "Private pages take at most one part in so many of the machine's memory.",              \
      "chosen: include/zg_coverage.h, memory")                                                                         \
    X(SHARE_BYTES, 4 << 20, "bytes",                                                                                   \
      "Private pages may take so much, or a share of the live bytes, whichever is more.", "chosen, not measured")      \
    X(SHARE_SHIFT, 3, "bits", "That share, as a shift: an eighth.", "chosen: docs/design/020-short-memory.md")         \
    X(NARROW_SHARE_BYTES, 256 << 10, "bytes",                                                                          \
      "The same in a control group that is nearly full: several processes of it may take as much.",                    \
      "chosen, not measured")                                                                                          \
    X(NARROW_SHARE_SHIFT, 5, "bits", "That share, as a shift: a 32nd.", "chosen: docs/design/020-short-memory.md")     \
    X(FIRST_ROOM_TIMES, 2, "times",                                                                                    \
      "First blocks of contexts may take so many times the share, so that later ones never fill it.",                  \
      "chosen, not measured")                                                                                          \
    X(RECORD_BYTES, 2 << 20, "bytes",                                                                                  \
      "Records of retired private pages may take so much, or a share of the live bytes.", "chosen, not measured")      \
    X(RECORD_SHIFT, 3, "bits", "That share, as a shift: an eighth.", "chosen, not measured")                           \
    X(AFFORDABLE_BYTES, 2 << 20, "bytes",                                                                              \
      "Where all blocks are isolated, private pages of small ones take so much, or a share of the live "               \
      "bytes, before windows do.",                                                                                     \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-FULL.md")                                                  \
    X(AFFORDABLE_PART, 4, "parts", "That share: one part in so many.",                                                 \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-FULL.md")                                                  \
    X(SMALL_BYTES, 1 << 20, "bytes",                                                                                   \
      "In other profiles, private pages of blocks that leave half of them empty take so much, or a "                   \
      "share of the live bytes.",                                                                                      \
      "chosen: commit cbab0ea")                                                                                        \
    X(SMALL_SHIFT, 6, "bits", "That share, as a shift: a 64th.", "chosen: docs/design/007-windows.md")                 \
    X(START_EVERY, 4, "blocks",                                                                                        \
      "One block in so many of a context stands at the start of its pages, to find underruns.",                        \
      "chosen: docs/design/006-isolated-blocks.md")                                                                    \
    X(START_AT, 1, "blocks", "The position of that block: never a context's first one, and two of its first eight.",   \
      "chosen: docs/design/006-isolated-blocks.md")

// Private pages: address space and mappings.
#define ZG_POLICY_ADDRESSES(X)                                                                                         \
    X(AREA_CHUNKS, 1 << 19, "chunks",                                                                                  \
      "Chunks of 2 MiB whose blocks are counted: 1 TiB of address space. Chunks beyond are never "                     \
      "closed.",                                                                                                       \
      "chosen, not measured")                                                                                          \
    X(CLOSED_RUNS_MOST, 400, "runs",                                                                                   \
      "Runs of closed chunks, two mappings each: 800 of the 65,530 that the kernel allows.", "chosen: commit 767bb94") \
    X(REOPENED_BLOCKS, 128, "blocks", "Blocks that a reopened chunk serves before it is closed again.",                \
      "chosen: commit 4f056cc")                                                                                        \
    X(MAP_STEP_PAGES, 1 << 16, "pages",                                                                                \
      "Pages for which the map from addresses to records is made accessible at once.", "chosen, not measured")         \
    X(COMMIT_STEP_BYTES, 4 << 20, "bytes",                                                                             \
      "Address space that is made accessible at once, because each step is a system call.", "chosen, not measured")    \
    X(REUSED_AT_ONCE, 64, "blocks",                                                                                    \
      "Retired blocks whose saved contents and mappings are given back together, neighbours in one "                   \
      "call.",                                                                                                         \
      "chosen: docs/design/009-page-time.md")

// Windows.
#define ZG_POLICY_WINDOWS(X)                                                                                           \
    X(CHUNK_PAGES_LEAST, 8, "pages", "A first chunk: windows onto it are one mapping for eight blocks.",               \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CHUNK_PAGES_MOST, 128, "pages", "A largest chunk.", "chosen: docs/design/007-windows.md")                        \
    X(CHUNKS_MOST, 1 << 16, "chunks", "Capacity of the table of chunks.", "chosen, not measured")                      \
    X(WINDOWS_MOST, 1 << 20, "windows", "Capacity of the table of windows.", "chosen, not measured")                   \
    X(AREA_PAGES_MOST, 1 << 24, "pages",                                                                               \
      "Address space of all windows, 64 GiB; halved twice as often as it takes to get it.",                            \
      "chosen: docs/COVERAGE.md")                                                                                      \
    X(AREA_PAGES_LEAST, 1 << 16, "pages", "Least address space that windows are worth.", "chosen, not measured")       \
    X(SLOT_BYTES_LEAST, 32, "bytes", "Smallest slot, so that a page has at most 128.", "chosen, not measured")         \
    X(GAP_BYTES_LEAST, 8, "bytes", "Red zone behind a block in its slot.", "chosen: docs/design/007-windows.md")       \
    X(WINDOW_BLOCK_BYTES_MOST, 2040, "bytes",                                                                          \
      "Larger blocks have at most one neighbour in a page, and get private pages.",                                    \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(POPULATED_PAGES, 16, "pages",                                                                                    \
      "Pages that are mapped together: as many as the kernel maps at one fault, 64 KiB "                               \
      "(fault_around_bytes of mm/memory.c).",                                                                          \
      "measured: Linux 6.18, 370 ns a page instead of 970 by MADV_POPULATE_WRITE")                                     \
    X(TABLE_STEP_BYTES, 64 << 10, "bytes", "Part of a table that is made accessible at once.", "chosen, not measured") \
    X(WINDOWS_PER_CHUNK_SIZE, 8, "windows", "Windows of a chunk class until its next chunk is larger.",                \
      "chosen: commit 10831e1")                                                                                        \
    X(CHUNKS_GROW_BYTES, 2 << 20, "bytes",                                                                             \
      "Chunks grow while all take less than so much, or a share of the live bytes.", "chosen, not measured")           \
    X(CHUNKS_GROW_SHIFT, 1, "bits", "That share, as a shift: a half.", "chosen, not measured")                         \
    X(SOME_CHUNKS_GROW_BYTES, 256 << 10, "bytes", "The same where windows are one way among others.",                  \
      "chosen: commit 52b9878; docs/design/007-windows.md")                                                            \
    X(SOME_CHUNKS_GROW_SHIFT, 5, "bits", "That share, as a shift: a 32nd.",                                            \
      "chosen: commit 52b9878; docs/design/007-windows.md")                                                            \
    X(CLOSED_PAGES, 32768, "pages",                                                                                    \
      "Pages of closed windows keep their records, so that late accesses are explained: so many, or as "               \
      "many as a share of the live bytes holds.",                                                                      \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(CLOSED_SHIFT, 3, "bits", "That share, as a shift: an eighth.", "chosen: docs/design/007-windows.md")             \
    X(NARROW_CLOSED_PAGES, 4096, "pages", "The same where memory is narrow: 128 KiB of records.",                      \
      "chosen: commit fe7ed47")                                                                                        \
    X(WORTH_WINDOW_PART, 2, "parts", "A chunk gets another window once one page in so many has a free slot.",          \
      "chosen, not measured")                                                                                          \
    X(WORTH_REUSE_PART, 8, "parts",                                                                                    \
      "Where memory is narrow a retired window is used again once one page in so many can be: the "                    \
      "search pays from a dozen blocks on.",                                                                           \
      "chosen: commit fe7ed47")                                                                                        \
    X(LIFETIME_WINDOWS, 16, "windows",                                                                                 \
      "Windows of a chunk class that are retired before what is still live in one counts as having "                   \
      "lasted.",                                                                                                       \
      "chosen, not measured")                                                                                          \
    X(FORKS_MOST, 4, "forks",                                                                                          \
      "Forks of a process and of its ancestors until it gets no more windows: each fork copies their "                 \
      "chunks.",                                                                                                       \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(PENDING_BYTES, 256 << 10, "bytes",                                                                               \
      "Freed blocks that wait for their guards may take so much, or a share of the live bytes.",                       \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(PENDING_SHIFT, 3, "bits", "That share, as a shift: an eighth.", "chosen: docs/design/007-windows.md")            \
    X(MAPPED_BYTES, 512 << 10, "bytes",                                                                                \
      "Pages of retired windows may be resident up to so much, or a share of the live bytes.",                         \
      "chosen: docs/design/007-windows.md; docs/PERFORMANCE-MEMORY.md")                                                \
    X(MAPPED_SHIFT, 5, "bits", "That share, as a shift: a 32nd.", "chosen: docs/design/007-windows.md")                \
    X(SINGLE_GUARD_START_NS, 50000000, "ns",                                                                           \
      "Processor time for guarding single pages before any share counts. One takes 1.5 us, most of what"               \
      " a block costs.",                                                                                               \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(SINGLE_GUARD_PART, 20, "parts", "Guarding single pages may take one part in so many of the processor time.",     \
      "chosen: docs/design/007-windows.md")                                                                            \
    X(SINGLE_GUARD_NS_MOST, 4000, "ns", "Most that guarding one page is taken to have lasted.",                        \
      "measured: Linux 6.18, MADV_GUARD_INSTALL of one page takes 2,190 ns")                                           \
    X(SINGLE_GUARD_LOOK_EVERY, 64, "blocks",                                                                           \
      "Once the time is spent, one block in so many looks whether there is more.", "chosen, not measured")             \
    X(SINGLE_GUARD_REFRESH_NS, 2000000, "ns", "Least time between two readings of the process's clock for that.",      \
      "chosen, not measured")                                                                                          \
    X(COPYING_FUNCTION_BYTES, 96, "bytes",                                                                             \
      "Length of libc's functions that make blocks for the program (strdup, strndup).", "chosen, not measured")

// Lifetimes.
#define ZG_POLICY_LIFETIMES(X)                                                                                         \
    X(SCORE_LASTED, 2, "points",                                                                                       \
      "A block that lasted counts so much, one that died early 1: a context counts as long-lived from a"               \
      " third on.",                                                                                                    \
      "chosen, not measured")                                                                                          \
    X(SCORE_LONG, 8, "points", "Contexts with so many points have long-lived blocks.", "chosen, not measured")         \
    X(SCORE_MOST, 16, "points", "Bound of the counter.", "chosen, not measured")

// Retired pages of the slab heap.
#define ZG_POLICY_RETIRED(X)                                                                                           \
    X(RUN_SHIFT, 16, "bits", "Slots of 64 KiB are retired together.", "chosen: docs/design/008-retirement.md")         \
    X(PHASE_RUNS_MOST, 256, "runs", "Runs that a phase remembers.", "chosen, not measured")                            \
    X(HELD_BYTES_MOST, 1 << 20, "bytes",                                                                               \
      "A phase ends when so much is held: it is missing in the caches, and in the program's memory.",                  \
      "chosen, not measured")                                                                                          \
    X(RETIRED_RECORD_BYTES, 2 << 20, "bytes",                                                                          \
      "Records of retired slots may take so much, or a share of the live bytes.",                                      \
      "chosen: docs/design/008-retirement.md; commit 63ef60a")                                                         \
    X(RETIRED_RECORD_SHIFT, 6, "bits", "That share, as a shift: a 64th.",                                              \
      "chosen: docs/design/008-retirement.md; commit 63ef60a")                                                         \
    X(TRIMMED_RECORD_TIMES, 2, "times", "After memory was given back on request they may take so many times as much.", \
      "chosen: docs/design/008-retirement.md")                                                                         \
    X(PHASE_PAYS_PART, 4, "parts", "A phase that retired less than one run in so many postpones the next one.",        \
      "chosen: docs/design/008-retirement.md")                                                                         \
    X(BACKOFF_NS_LEAST, 1000000, "ns", "Pause after a phase that paid.", "chosen, not measured")                       \
    X(BACKOFF_NS_MOST, 2000000000, "ns", "Longest pause after phases that did not pay.", "chosen, not measured")       \
    X(RELEASED_AT_ONCE, 32, "slots", "Slots that go back to the central list together.", "chosen, not measured")

// Guard pages behind live blocks, locked memory.
#define ZG_POLICY_OTHERS(X)                                                                                            \
    X(YOUNG_BLOCKS_MOST, 4096, "blocks", "Blocks whose guard page is to be opened; more keep theirs.",                 \
      "chosen, not measured")                                                                                          \
    X(AGE_STEPS, 2, "steps", "Ages are counted in so many steps of overread_ms.", "chosen, not measured")              \
    X(VECTOR_BYTES, 64, "bytes",                                                                                       \
      "Width of the widest masked load (AVX-512): loads that begin in the block reach as far.",                        \
      "chosen: docs/PERFORMANCE-TARGETS.md (perl 1.75 became 1.47 with such guard pages open)")                        \
    X(LOCKED_RANGES_MOST, 16384, "ranges",                                                                             \
      "Locked ranges that are known: RLIMIT_MEMLOCK is 8 MiB by default, or 2,048 pages.", "chosen, not measured")

#define ZG_POLICY_CONSTANTS(X)                                                                                         \
    ZG_POLICY_CHOICE(X)                                                                                                \
    ZG_POLICY_TIME(X)                                                                                                  \
    ZG_POLICY_MEMORY(X)                                                                                                \
    ZG_POLICY_ADDRESSES(X)                                                                                             \
    ZG_POLICY_WINDOWS(X)                                                                                               \
    ZG_POLICY_LIFETIMES(X)                                                                                             \
    ZG_POLICY_RETIRED(X)                                                                                               \
    ZG_POLICY_OTHERS(X)

// ZG_POLICY_PRIVATE_FIRST and so on. All values fit into an int.
enum {
#define ZG_X(name, value, unit, reason, source) ZG_POLICY_##name = value,
    ZG_POLICY_CONSTANTS(ZG_X)
#undef ZG_X
};

#endif
