// The runtime's interface for code in the same process: describes blocks, returns findings, verifies blocks, and more.
// The image that publishes malloc (the preload library, or a test bundle that links it) exports one function, `zg_api`,
// which returns the table, or NULL if nothing is guarded. Unless noted otherwise, all functions may be called from any
// thread, but not from a signal handler. None calls back into the caller. Texts are JSON as in report lines (DESIGN
// section 10), without the names of functions and lines.

#ifndef ZG_API_H
#define ZG_API_H

#include <stdint.h>

#define ZG_API_VERSION 1u

struct zg_stats_page;

struct zg_api {
    uint32_t version; // ZG_API_VERSION
    uint32_t bytes;   // size of this structure; if smaller than sizeof(struct zg_api), the last members are missing
    const struct zg_stats_page *statistics;

    // Copies the JSON line of finding number `index`, without a line feed. Findings count from 0 in the order of
    // reporting; repeats of a finding are not included. Returns the line's length in bytes; if that is over `capacity`,
    // nothing is written. Returns 0 if there is no such finding yet, or it was dropped (only the last 256 KiB of lines
    // are stored).
    uint64_t (*finding)(uint64_t index, char *text, uint64_t capacity);
    // Returns the number of findings so far; if `first_kept` is not NULL, stores there the index of the first finding
    // whose line is still available. `finding_word` is the count's low word, a process-private futex that each finding
    // wakes.
    uint64_t (*finding_count)(uint64_t *first_kept);
    uint32_t *finding_word;

    // Describes the current or a former block at `address`: {"block":{…},"stacks":{"free":[…],"alloc":[…]}}, with the
    // keys of a finding. For a freed block, "block" also has "free_time_ns" (CLOCK_REALTIME, accurate to about 1 ms).
    // Returns like `finding`; 0 if the guarded heap never had a block there, or if the text exceeds 32 KiB.
    uint64_t (*describe)(uint64_t address, char *text, uint64_t capacity);
    // Returns the start of the next freed block that was an object of the class with this metadata address, or of any
    // class if `metadata` is 0. Returns 0 at the end. `*cursor` is opaque: set it to 0 before the first call.
    uint64_t (*next_zombie)(uint64_t *cursor, uint64_t metadata);
    // Returns the start of the next live block that holds a pointer to any of the `bytes` bytes from `address` on, and
    // stores the pointer's own address in `*place`. Returns 0 at the end. `cursor` as in `next_zombie`.
    uint64_t (*next_referrer)(uint64_t *cursor, uint64_t address, uint64_t bytes, uint64_t *place);
    // Returns 1 if a live block contains the address, else 0.
    int (*is_live)(uint64_t address);

    // Verifies all quarantined blocks, and the bytes around live blocks. Returns the number of new findings.
    uint64_t (*verify)(void);
    // Call at the start of a test: the next blocks of each allocation stack are isolated again, like the first blocks
    // of each stack. Grants at least 1 ms of CPU time for this, independent of the time spent before.
    void (*begin_test)(void);

    // For a single thread that prints symbolized findings. `await_finding` waits for new findings; it returns true if
    // the process is about to die of the last one. The thread prints the new findings, then calls `finding_is_said`. A
    // faulting thread waits until then, for up to two seconds, or ten if the process is about to die.
    _Bool (*await_finding)(void);
    void (*finding_is_said)(void);
    // Between `step_aside` and `step_back`, allocations of the calling thread are unguarded and use none of the
    // guarding budgets. Calls nest. Use them for work on findings in the program's own process.
    void (*step_aside)(void);
    void (*step_back)(void);
    // Stores `value` under the name `key`, to be shown in crash reports (collect=crashes). NULL removes the name. At
    // most 32 names are stored; names are truncated to 31 bytes, values to 223. Returns 1 if done; 0 if there is no
    // room, or if the table stays locked for 100 ms (in the child of a fork).
    int (*annotate)(const char *key, const char *value);

    // Unwinds a stopped thread from its registers, indexed by their DWARF numbers, and its instruction pointer `pc`.
    // Writes at most `most` return addresses to `frames` and returns their number. Any context, including signal
    // handlers; takes no lock and allocates nothing.
    uint64_t (*unwind)(const uint64_t *registers, uint64_t pc, uint64_t *frames, uint64_t most);
    // Formats `count` frames as in a finding's stack: [{"pc":…},…]. Returns like `finding`; 0 if the text exceeds 64
    // KiB.
    uint64_t (*describe_stack)(const uint64_t *frames, uint64_t count, char *text, uint64_t capacity);
};

// Returns the table, or NULL if nothing is guarded. Searches all loaded images, so the caller need not link the
// runtime.
const struct zg_api *zg_api_find(void);
// For the image that publishes malloc: returns the table of the linked runtime, or NULL before its start.
const struct zg_api *zg_api_own(void);

#endif
