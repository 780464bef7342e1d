// The isolation policy: decides which blocks are isolated, in private pages or in a page of a window; when their pages
// are guarded; how long they stay retired; and how much processor time, memory and address space all this may cost.
// isolation_constants.h lists every constant with its unit, reason and source.
// All functions are pure: no system calls, locks or globals; state that a function changes is passed to it. Any
// context.

#ifndef ZG_ISOLATION_POLICY_H
#define ZG_ISOLATION_POLICY_H

#include "include/zg_coverage.h"
#include "include/zg_options.h"
#include "pages/isolation_constants.h"
#include "platform/base.h"

// The state of the process on which the policy's decisions depend.
struct zg_isolation_conditions {
    uint64_t live_bytes; // bytes of all live blocks
    bool is_narrow;      // the control group is nearly full (zg_pressure_is_narrow)
    bool isolates_all;   // isolated_per_context=all: every block is isolated
    // Only some blocks are isolated, and only some of these lie in windows. Windows then must not cost more memory and
    // page tables than private pages.
    bool has_few_in_windows;
};

// --- processor time -------------------------------------------------------------------------------------------------

// What the processor time for pages (struct zg_page_budget) is spent on, the most urgent use first.
enum zg_page_use {
    zg_page_new_code, // first block of a context whose innermost frames made no isolated block yet
    zg_page_first,    // first block of a context
    zg_page_next,     // any other of the first blocks of a context
    zg_page_later,    // later blocks of a context
    zg_page_retire,   // retiring pages of the slab heap
};

// The budget of isolated_overhead. Threads add to its sums with relaxed atomics.
struct zg_page_budget {
    uint64_t spent_ns;   // cost of all pages so far
    uint64_t retired_ns; // part of spent_ns for retired pages
    uint64_t earned_ns;  // income so far: a share of the processor time
    uint64_t forgone_ns; // part of earned_ns that was forfeited, because too much income was unspent
    uint64_t granted_ns; // additional income for tests
    uint64_t ran_ns;     // processor time of the process when its clock was last read
    // Only for a fork's child: time that its parent had spent, processor time at the fork, and time that is available
    // to the child at its start. Without these bounds every child would spend its parent's remaining time, on the same
    // code.
    bool is_child;
    uint64_t inherited_spent_ns, inherited_ran_ns, child_at_once_ns;
};

// Returns true if this use may spend more time. With `ample`, less urgent uses leave twice their reserve to more urgent
// ones; first blocks spend nothing in advance and leave half of the income, at most RESERVE_NS.
bool zg_budget_allows(const struct zg_page_budget *budget, enum zg_page_use use, bool ample);
// Returns true if the process has run for less than ZG_POLICY_EARLY_NS, so that most code runs for the first time.
bool zg_budget_is_early(const struct zg_page_budget *budget);
// Returns the share of the processor time that pages may take, in thousandths: isolated_overhead, but at most half of
// `overhead` if that is set.
uint32_t zg_budget_permille(uint32_t isolated_overhead, uint32_t overhead);
// Computes the income of a process that has run for `ran_ns`, and forfeits unspent income above KEPT_NS.
void zg_budget_note_ran(struct zg_page_budget *budget, uint64_t ran_ns, uint32_t permille);
// Starts the budget of a fork's child.
void zg_budget_begin_child(struct zg_page_budget *budget, uint64_t ran_ns);
// Call when a test of a test bundle starts. Raises the budget so that first blocks of contexts may spend at least
// GRANT_NS, whatever was spent before.
void zg_budget_grant(struct zg_page_budget *budget);
// Returns how much of a measured time counts for work on `pages` pages: a preempted thread measures time that it did
// not spend.
uint64_t zg_budget_measured_ns(uint64_t ns, uint64_t pages);
// Returns the cost of `pages` fresh pages, which arises later in page faults.
uint64_t zg_budget_fresh_ns(uint64_t pages);
// Returns the number of fresh pages that a new block of `pages` pages is charged for. The allocation has touched one
// page already, and most large blocks are not used in full.
uint64_t zg_budget_charged_pages(uint64_t pages);

// --- the choice -----------------------------------------------------------------------------------------------------

enum zg_isolation { zg_isolation_none, zg_isolation_private, zg_isolation_window };

struct zg_isolation_request {
    uint64_t size;
    uint32_t isolated;       // number of the context's blocks that were isolated in this epoch
    uint32_t per_context;    // value of the option isolated_per_context
    bool is_partly_watched;  // earlier runs watched the first blocks, but not all pairs of the context
    bool isolates_all;       // in profile fence, or if sample_rate chose this block: it is isolated in any case
    bool is_later;           // considered because a magazine is empty, not because of its context
    bool is_window_eligible; // the block can lie in a window, and windows may be on
    bool is_limited;         // the program has limited its memory, so the kernel may refuse more
};

// The conditions for isolating a block.
struct zg_isolation_bid {
    bool is_wanted;
    enum zg_page_use use;
    uint64_t odds; // one in `odds` blocks is isolated, at random; 1: every block
};
struct zg_isolation_bid zg_policy_bid(const struct zg_isolation_request *request);

// Returns how many blocks of a context count as its first blocks.
uint32_t zg_policy_first_blocks(uint32_t per_context, bool is_window_eligible);
// Returns true if blocks of this size are never isolated.
bool zg_policy_is_too_large(uint64_t size);
// Whether an isolated block should get private pages or a window. `by_rest`: private pages if enough time and memory
// remain for other blocks; the caller checks that.
enum zg_preference { zg_preference_private, zg_preference_window, zg_preference_by_rest };
enum zg_preference zg_policy_preference_where_all(const struct zg_isolation_request *request, bool is_forced,
                                                  bool is_early);
enum zg_preference zg_policy_preference_where_some(const struct zg_isolation_request *request, bool is_forced);

// --- memory of private pages ----------------------------------------------------------------------------------------

struct zg_private_limits {
    uint64_t isolated_bytes; // value of the option isolated_bytes
    bool is_given;           // the user set that option
    bool is_short;           // zg_pressure_level reports pressure
    uint64_t machine_most;   // result of zg_policy_machine_most
};
// Returns the bound on the size of all pages of isolated blocks, as a part of the machine's memory. `machine_memory` 0:
// unknown, so there is no bound.
uint64_t zg_policy_machine_most(uint64_t machine_memory);
// Returns the bound on the size of all pages of isolated blocks. `first`: for a first block of a context, whose share
// is twice that of other blocks. `*reason` receives the limit that applies.
uint64_t zg_policy_private_most(const struct zg_isolation_conditions *conditions,
                                const struct zg_private_limits *limits, bool first, enum zg_coverage_reason *reason);
// Returns true if a block that could lie in a window may get private pages, because these take less than their share of
// the live bytes. `private_bytes`: bytes of all private pages; `small_bytes`: bytes of private pages that small blocks
// leave half empty; `is_first`: the block is among the first ones of its context.
bool zg_policy_is_affordable(const struct zg_isolation_conditions *conditions, uint64_t private_bytes,
                             uint64_t small_bytes, bool is_first);
// Returns true if a block of this size leaves at least half of its private page empty.
bool zg_policy_is_small(uint64_t size);
// Returns how many bytes the records of retired private pages may take. `is_given`: the user set retired_bytes, which
// is then the only bound.
uint64_t zg_policy_private_records_most(const struct zg_isolation_conditions *conditions, bool is_given);
// Returns how much address space retired private pages may take in an area of `area_pages` pages.
uint64_t zg_policy_private_addresses_most(uint64_t retired_bytes, uint64_t area_pages);
// Returns true if block `number` of a context, from 0 on, lies at the start of its pages, behind a guard page, instead
// of at their end.
bool zg_policy_stands_at_start(uint8_t number);
// Returns the smallest alignment of a malloc block's end that breaks no correct program, if nothing is known about the
// block's contents.
uint64_t zg_policy_end_alignment(uint64_t size);
// Does the same for a block that holds a string. `may_be_odd`: the block may begin at an odd address.
uint64_t zg_policy_string_alignment(uint64_t size, bool may_be_odd);
// Returns true if another run of adjacent closed chunks may begin.
bool zg_policy_may_close_run(uint32_t closed_runs);

// --- windows --------------------------------------------------------------------------------------------------------

// Returns the size class of the slots for blocks of this size and alignment; ZG_CLASS_COUNT if such blocks cannot lie
// in windows. If few blocks lie in windows, slot sizes are powers of two, because chunks of more sizes would be nearly
// empty.
uint32_t zg_policy_slot_class(const struct zg_isolation_conditions *conditions, uint64_t size, uint64_t alignment);
// Returns the size of a chunk class's next chunk in pages. `last_pages`: size of its last chunk; 0 if it has none.
uint32_t zg_policy_next_chunk_pages(uint32_t last_pages);
// Returns true if a chunk class should get a larger chunk although it has chunks with free slots. Larger windows cost
// less per block, but take more memory than the blocks need. `windows`: number of windows opened since its last chunk
// was made; `memory_bytes`: size of all chunks.
bool zg_policy_wants_larger_chunk(const struct zg_isolation_conditions *conditions, uint32_t windows, uint32_t pages,
                                  uint64_t memory_bytes);
// Returns true if a chunk in which `open_pages` pages have a free slot should get another window.
bool zg_policy_has_enough_free_pages(uint32_t pages, uint32_t open_pages);
// Returns true if a retired window with `reusable_pages` reusable pages should be reused, which costs no further
// record, page table or mapping.
bool zg_policy_has_enough_reusable_pages(uint32_t pages, uint32_t reusable_pages);
// Returns true if a chunk should get another window or, if memory is narrow, reuse one of its windows.
bool zg_policy_is_worth_entering(const struct zg_isolation_conditions *conditions, uint32_t pages, uint32_t open_pages);
// Returns how many pages of closed windows may keep their records.
uint64_t zg_policy_closed_pages_most(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                     uint64_t record_bytes);
// Returns how many pages of windows may be in the page tables.
uint64_t zg_policy_mapped_pages_most(const struct zg_isolation_conditions *conditions);
// Freed blocks wait for their pages to be guarded up to a limit, in bytes. The first function returns the smallest
// limit under any conditions, the second one the limit under these conditions.
uint64_t zg_policy_pending_bytes_least(void);
uint64_t zg_policy_pending_bytes_most(const struct zg_isolation_conditions *conditions);
// Returns how much processor time guarding single pages may have taken by now.
uint64_t zg_policy_single_guards_ns_most(uint64_t ran_ns);
// Returns how much of a measured time counts for guarding one page.
uint64_t zg_policy_single_guard_ns(uint64_t ns);
// Returns true if a process gets no more windows after `forks` forks, because each fork copies all chunks.
bool zg_policy_ends_windows(const struct zg_isolation_conditions *conditions, uint32_t forks);

// --- lifetimes ------------------------------------------------------------------------------------------------------

// Return the new score of a context after one of its blocks turned out to be long-lived, or short-lived.
uint8_t zg_policy_score_lasted(uint8_t score);
uint8_t zg_policy_score_ended(uint8_t score);
bool zg_policy_is_long_lived(uint8_t score);

// --- retired pages of the slab heap ---------------------------------------------------------------------------------

// Returns true if a phase in which evicted slots are held (retire.h) must end, because it holds enough bytes.
bool zg_policy_phase_is_full(uint64_t held_bytes);
// Returns the pause after a phase (retire.h) that retired `retired_runs` of `touched_runs` runs. `backoff_ns`: the
// previous pause.
uint64_t zg_policy_backoff_ns(uint64_t backoff_ns, uint32_t retired_runs, uint32_t touched_runs);
// Returns true if retired slots take too much address space, or their records too much memory. `was_trimmed`: memory
// was released on request before.
bool zg_policy_retired_are_too_many(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                    uint64_t retired_bytes_most, uint64_t record_bytes, bool was_trimmed);

// --- guard pages behind live blocks ---------------------------------------------------------------------------------

// Returns true if a masked vector load that begins in the block may reach its guard page.
bool zg_policy_is_near_guard(uint64_t bytes_to_guard);
// Returns true if the guard page behind a block made in time step `made_step` may be opened in time step `now_step`
// (see AGE_STEPS).
bool zg_policy_opens_guard(uint32_t now_step, uint32_t made_step);

#endif
