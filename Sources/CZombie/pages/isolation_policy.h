// The isolation policy: which blocks are isolated, whether by private pages or by a page of a window, when their pages
// are guarded, how long they stay retired, and what all of it may cost in processor time, memory and address space.
// Every function is pure: it makes no system call, takes no lock, and reads no global; a state that it changes is
// handed to it. Any context. Every constant, with its unit, its reason and its source, is in isolation_constants.h.

#ifndef ZG_ISOLATION_POLICY_H
#define ZG_ISOLATION_POLICY_H

#include "include/zg_coverage.h"
#include "include/zg_options.h"
#include "pages/isolation_constants.h"
#include "platform/base.h"

// The process as the policy sees it.
struct zg_isolation_conditions {
    uint64_t live_bytes; // bytes of all live blocks
    bool is_narrow;      // the control group is nearly full (zg_pressure_is_narrow)
    bool isolates_all;   // isolated_per_context=all: every block is isolated
    // Some blocks are isolated, and some of these lie in windows: the memory and the page tables of windows are a price
    // that other blocks do not have.
    bool has_few_in_windows;
};

// --- processor time -------------------------------------------------------------------------------------------------

// The purposes of pages, the most urgent first.
enum zg_page_use {
    zg_page_new_code, // the first block of a context whose innermost calls made none before
    zg_page_first,    // the first block of a context
    zg_page_next,     // another one of its first blocks
    zg_page_later,    // any other block
    zg_page_retire,   // pages of freed blocks
};

// The budget of isolated_overhead. Threads add to its sums with relaxed atomics: sums are approximate where threads
// meet.
struct zg_page_budget {
    uint64_t spent_ns;   // the costs of all pages so far
    uint64_t retired_ns; // the part of spent_ns for retired pages
    uint64_t earned_ns;  // the share of the processor time so far
    uint64_t forgone_ns; // the part of earned_ns that was not spent in time
    uint64_t granted_ns; // income of tests, in addition
    uint64_t ran_ns;     // the process's processor time, as of the last look at its clock
    // The child of a fork: what its parent had spent, the processor time at the fork, and what the child has at once.
    // Without these bounds every child would spend what its parent has left, on the same code.
    bool is_child;
    uint64_t inherited_spent_ns, inherited_ran_ns, child_at_once_ns;
};

// There is time for this use. `ample`: less urgent uses leave the more urgent ones twice their reserve, and first
// blocks spend nothing in advance and leave half of the income.
bool zg_budget_allows(const struct zg_page_budget *budget, enum zg_page_use use, bool ample);
// It is too early for windows: the first window of each size costs as much as private pages.
bool zg_budget_is_early(const struct zg_page_budget *budget);
// The part of the processor time that pages may take, in thousandths: isolated_overhead, but at most half of `overhead`
// where that is set.
uint32_t zg_budget_permille(uint32_t isolated_overhead, uint32_t overhead);
// Adds the income of a process that has run for `ran_ns`, and forgoes income that was kept too long.
void zg_budget_note_ran(struct zg_page_budget *budget, uint64_t ran_ns, uint32_t permille);
// Begins the budget of a child of a fork.
void zg_budget_begin_child(struct zg_page_budget *budget, uint64_t ran_ns);
// A test begins: its first blocks may spend GRANT_NS at least, whatever was spent before.
void zg_budget_grant(struct zg_page_budget *budget);
// The part of a measured time that is counted for work on `pages` pages: a thread that was preempted did not spend the
// rest.
uint64_t zg_budget_measured_ns(uint64_t ns, uint64_t pages);
// The cost of `pages` fresh pages, which their faults take later.
uint64_t zg_budget_fresh_ns(uint64_t pages);
// The number of fresh pages that a new block of `pages` pages is charged. It has touched one already, and most large
// blocks are not used in full.
uint64_t zg_budget_charged_pages(uint64_t pages);

// --- the choice -----------------------------------------------------------------------------------------------------

enum zg_isolation { zg_isolation_none, zg_isolation_private, zg_isolation_window };

struct zg_isolation_request {
    uint64_t size;
    uint32_t isolated;       // blocks of its context that were isolated in this epoch
    uint32_t per_context;    // isolated_per_context
    bool isolates_all;       // every block is isolated: profile fence, and blocks that sample_rate chose
    bool is_later;           // considered because a magazine is empty, and not for its context
    bool is_window_eligible; // the block can lie in a window, and windows may be on
    bool is_limited;         // the program has limited its memory, and the kernel may refuse any more
};

// The conditions under which a block is isolated.
struct zg_isolation_bid {
    bool is_wanted;
    enum zg_page_use use;
    uint64_t odds; // one in `odds` such blocks is chosen, at random
};
struct zg_isolation_bid zg_policy_bid(const struct zg_isolation_request *request);

// The number of blocks of a context that count as its first ones.
uint32_t zg_policy_first_blocks(uint32_t per_context, bool is_window_eligible);
// Blocks above this size are not isolated.
bool zg_policy_is_too_large(uint64_t size);
// Whether an isolated block gets private pages or a window. `by_rest`: private pages if they leave enough time and
// memory to other blocks; the caller finds that out only then.
enum zg_preference { zg_preference_private, zg_preference_window, zg_preference_by_rest };
enum zg_preference zg_policy_preference_where_all(const struct zg_isolation_request *request, bool is_forced);
enum zg_preference zg_policy_preference_where_some(const struct zg_isolation_request *request, bool is_forced,
                                                   bool is_early);

// --- memory of private pages ----------------------------------------------------------------------------------------

struct zg_private_limits {
    uint64_t isolated_bytes; // the option
    bool is_given;           // the user gave it
    bool is_short;           // memory is short by the level of zg_pressure_level
    uint64_t machine_most;   // zg_policy_machine_most
};
// The bytes that pages of isolated blocks may take of a machine's memory; 0 bytes of memory: it is unknown.
uint64_t zg_policy_machine_most(uint64_t machine_memory);
// The bytes that pages of isolated blocks may take; first blocks of contexts may take twice the share. `*reason` gets
// the limit that applies.
uint64_t zg_policy_private_most(const struct zg_isolation_conditions *conditions,
                                const struct zg_private_limits *limits, bool first, enum zg_coverage_reason *reason);
// Blocks that could lie in windows may get private pages: these take less than their share of the live bytes.
// `private_bytes`: of all private pages; `small_bytes`: of those that small blocks leave half empty.
bool zg_policy_is_affordable(const struct zg_isolation_conditions *conditions, uint64_t private_bytes,
                             uint64_t small_bytes);
// A block that leaves half of its private pages empty.
bool zg_policy_is_small(uint64_t size);
// The bytes that records of retired private pages may take. `is_given`: the user set retired_bytes, and only that
// counts.
uint64_t zg_policy_private_records_most(const struct zg_isolation_conditions *conditions, bool is_given);
// The bytes of address space that retired private pages may take, in an area of `area_pages` pages.
uint64_t zg_policy_private_addresses_most(uint64_t retired_bytes, uint64_t area_pages);
// Block `number` of a context, from 0 on, stands at the start of its pages, behind a guard page, and not at their end.
bool zg_policy_stands_at_start(uint8_t number);
// Another run of closed chunks may begin.
bool zg_policy_may_close_run(uint32_t closed_runs);

// --- windows --------------------------------------------------------------------------------------------------------

// The size class of slots for blocks of this size and alignment; ZG_CLASS_COUNT where windows have none. Where few
// blocks lie in windows, slots have sizes that are powers of two, because chunks of every size would be nearly empty.
uint32_t zg_policy_slot_class(const struct zg_isolation_conditions *conditions, uint64_t size, uint64_t alignment);
// Pages of the next chunk of a chunk class; `last_pages`: those of its last chunk, 0 where it has none.
uint32_t zg_policy_next_chunk_pages(uint32_t last_pages);
// A chunk class gets a larger chunk, although it has chunks with free slots: larger windows cost less for each block,
// but take more memory than the blocks need. `windows`: the number opened since its last chunk; `memory_bytes`: of all
// chunks.
bool zg_policy_wants_larger_chunk(const struct zg_isolation_conditions *conditions, uint32_t windows, uint32_t pages,
                                  uint64_t memory_bytes);
// A chunk with `open_pages` pages that have a free slot is worth another window.
bool zg_policy_has_enough_free_pages(uint32_t pages, uint32_t open_pages);
// A retired window with `reusable_pages` pages is worth using again, which takes no further record, page table or
// mapping.
bool zg_policy_has_enough_reusable_pages(uint32_t pages, uint32_t reusable_pages);
// A chunk is worth another window, or, where memory is narrow, one of its windows is worth using again.
bool zg_policy_is_worth_entering(const struct zg_isolation_conditions *conditions, uint32_t pages, uint32_t open_pages);
// Pages of closed windows that may keep their records.
uint64_t zg_policy_closed_pages_most(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                     uint64_t record_bytes);
// Pages of windows that may be in the page tables.
uint64_t zg_policy_mapped_pages_most(const struct zg_isolation_conditions *conditions);
// Bytes of freed blocks that may wait for their guards: at least, whatever the conditions are, and under these
// conditions.
uint64_t zg_policy_pending_bytes_least(void);
uint64_t zg_policy_pending_bytes_most(const struct zg_isolation_conditions *conditions);
// Nanoseconds that guarding single pages may have taken by now.
uint64_t zg_policy_single_guards_ns_most(uint64_t ran_ns);
// The part of a measured time that is counted for guarding one page.
uint64_t zg_policy_single_guard_ns(uint64_t ns);
// Windows end after `forks` forks, because each fork copies the chunks.
bool zg_policy_ends_windows(const struct zg_isolation_conditions *conditions, uint32_t forks);

// --- lifetimes ------------------------------------------------------------------------------------------------------

// The score of a context once one of its blocks has lasted, or has died early.
uint8_t zg_policy_score_lasted(uint8_t score);
uint8_t zg_policy_score_ended(uint8_t score);
bool zg_policy_is_long_lived(uint8_t score);

// --- retired pages of the slab heap ---------------------------------------------------------------------------------

// A phase ends, because it holds enough.
bool zg_policy_phase_is_full(uint64_t held_bytes);
// The pause after a phase, by the part of the touched runs that it retired; `backoff_ns`: the pause before it.
uint64_t zg_policy_backoff_ns(uint64_t backoff_ns, uint32_t retired_runs, uint32_t touched_runs);
// Retired slots take more address space, or their records more memory, than they may. `was_trimmed`: memory was given
// back on request before.
bool zg_policy_retired_are_too_many(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                    uint64_t retired_bytes_most, uint64_t record_bytes, bool was_trimmed);

// --- guard pages behind live blocks ---------------------------------------------------------------------------------

// A masked vector load that begins in a block may reach its guard page.
bool zg_policy_is_near_guard(uint64_t bytes_to_guard);
// A block that was made in step `made_step` of the process's time is old enough for its guard page to be opened.
bool zg_policy_opens_guard(uint32_t now_step, uint32_t made_step);

#endif
