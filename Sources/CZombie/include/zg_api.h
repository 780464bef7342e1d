// The runtime as code in the same process may ask it: what is at an address, what was found, verify now.
// Reached through the one function `zg_api` of whoever publishes malloc (the preload library, or a test bundle that links
// it); NULL where nothing is guarded. All functions: any thread, not from a signal handler; none calls back into the caller.
// Texts are JSON in the form of report lines (DESIGN section 10), raw: without names of functions and lines.

#ifndef ZG_API_H
#define ZG_API_H

#include <stdint.h>

#define ZG_API_VERSION 1u

struct zg_stats_page;

struct zg_api {
    uint32_t version; // ZG_API_VERSION
    uint32_t bytes;   // of this structure
    const struct zg_stats_page *statistics;

    // The raw line of finding number `index` (from 0, in the order of reporting; equal ones are not repeated), without a
    // line feed. Returns its length in bytes, which may be over `capacity` (then nothing is written); 0 where there is no
    // such finding (yet) or it is no longer kept (the last 256 KiB of lines are).
    uint64_t (*finding)(uint64_t index, char *text, uint64_t capacity);
    // Number of findings so far, and the first that is still kept. A futex: the low word of the count, woken at each
    // finding (private).
    uint64_t (*finding_count)(uint64_t *first_kept);
    uint32_t *finding_word;

    // What is, or was, at the address: {"block":{…},"stacks":{"free":[…],"alloc":[…]}}, the keys as in a finding, and in
    // block also "free_time_ns" (CLOCK_REALTIME, to about a millisecond) where it is dead. Returns as `finding` does;
    // 0 where the guarded heap never had a block there.
    uint64_t (*describe)(uint64_t address, char *text, uint64_t capacity);
    // Start of the next dead block at or after `*cursor` (an opaque value, 0 to begin) that was an object of the class with
    // this metadata (any class where it is 0). 0 at the end.
    uint64_t (*next_zombie)(uint64_t *cursor, uint64_t metadata);
    // Start of the next live block that holds a word equal to `address` or up to `bytes` - 1 above it (so a pointer into
    // the block, or to it), and the place of that word. 0 at the end. `cursor` as above.
    uint64_t (*next_referrer)(uint64_t *cursor, uint64_t address, uint64_t bytes, uint64_t *place);
    // Whether the block at this address is live.
    int (*is_live)(uint64_t address);

    // Verifies all quarantined blocks. Returns the number of new findings.
    uint64_t (*verify)(void);
    // A test begins: the first blocks of each allocation stack from now on get pages of their own again, and what that may cost
    // is at least 1 ms of processor time, whatever was spent before.
    void (*begin_test)(void);

    // For a thread that says, with names, what the process dies of: the first returns when it is about to die of the finding that was
    // made last, the second says that this has been said. The process waits for that for ten seconds. Once in its life.
    void (*await_end)(void);
    void (*end_is_said)(void);
    // What the calling thread allocates is not guarded and takes nothing of what may be spent on guarding, until as many calls of the
    // second: for work on findings in the program's own process.
    void (*step_aside)(void);
    void (*step_back)(void);
    // Keeps a text under a name, to be shown with what the program dies of (collect=crashes): 32 names of up to 31 bytes, texts of up to 223.
    // NULL takes the name away. 0: there is no room for another name.
    int (*annotate)(const char *key, const char *value);

    // The stack that these registers of a thread begin, which stands: by their DWARF numbers, all of them, and the address of the
    // instruction. Returns how many `frames`, `most` at the most. Any context; takes no lock and allocates nothing.
    uint64_t (*unwind)(const uint64_t *registers, uint64_t pc, uint64_t *frames, uint64_t most);
    // These frames as in a finding's stack: [{"pc":…},…]. Returns as `finding` does.
    uint64_t (*describe_stack)(const uint64_t *frames, uint64_t count, char *text, uint64_t capacity);
};

// The table, or NULL. Looks among all loaded images, so the caller need not link the runtime.
const struct zg_api *zg_api_find(void);
// For the publisher: the table of the runtime that is linked in, NULL before its start.
const struct zg_api *zg_api_own(void);

#endif
