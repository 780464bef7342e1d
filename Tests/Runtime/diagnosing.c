// Verdicts: a table of recorded faults, each with the verdict that zg_diagnose has to reach.
// link: runtime

#include <string.h>

#include "blocks/fill.h"
#include "check.h"
#include "faults/diagnose.h"
#include "processors.h"

#define WORD ZG_FILL_WORD
#define HEAP UINT64_C(0x700000000000)
#define HEAP_END UINT64_C(0x700100000000)
#define STACK_LOW UINT64_C(0x7ffff0000000)
#define STACK_HIGH UINT64_C(0x7ffff0800000)

#define GAP (UINT64_C(0x0101010101010101) * ZG_FILL_GAP)
#define NEW (UINT64_C(0x0101010101010101) * ZG_FILL_NEW)
#define FENCED_DEAD_AT UINT64_C(0x900000)

// A heap of twelve blocks. BEHIND begins where OVERRUN ends. The last five are isolated, with a guard page behind them.
// AT_START begins at the start of its page, behind the guard page of a retired block. NOTHING has 0 bytes and consists
// of its guard page.
static const struct {
    uint64_t start, size;
    enum zg_state state;
    enum zg_alloc_family family;
} blocks[] = {
    {HEAP + 0x1000, 64, zg_state_live, 0},
    {HEAP + 0x2000, 96, zg_state_quarantined, 0},
    {HEAP + 0x3000, 48, zg_state_freeing, 0},
    {HEAP + 0x100000, 0x200000, zg_state_retired, 0},
    {HEAP + 0x5000, 32, zg_state_reusable, 0},
    {HEAP + 0x600000, 0x1000, zg_state_live, 0},
    {HEAP + 0x601000, 0x1000, zg_state_retired, 0},
    {HEAP + 0x800000, 0xff0, zg_state_live, 0},
    {HEAP + FENCED_DEAD_AT, 0xff0, zg_state_retired, 0},
    {HEAP + 0xa00ff0, 16, zg_state_retired, 0},
    {HEAP + 0xa02000, 16, zg_state_live, zg_family_new},
    {HEAP + 0xb00000, 0, zg_state_retired, 0},
};
enum { LIVE, DEAD, FREEING, RETIRED, REUSABLE, OVERRUN, BEHIND, FENCED, FENCED_DEAD, IN_FRONT, AT_START, NOTHING };
#define AT(block, offset) (blocks[block].start + (offset))

static uint64_t first_page(size_t block) {
    return block < FENCED ? blocks[block].start : blocks[block].start & ~UINT64_C(0xfff);
}

static bool lookup(uint64_t address, struct zg_block_view *view) {
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (address - first_page(i) < (i < FENCED ? blocks[i].size : blocks[i].size ? 0x2000 : 0x1000)) {
            *view = (struct zg_block_view){.start = blocks[i].start,
                                           .size = blocks[i].size,
                                           .offset = (int64_t)(address - blocks[i].start),
                                           .state = blocks[i].state,
                                           .family = blocks[i].family};
            return true;
        }
    return false;
}

static struct zg_zombie_hit no_zombie(uint64_t address, const uint64_t *likely, int count) {
    (void)address, (void)likely, (void)count;
    return (struct zg_zombie_hit){.part = zg_trap_none};
}
static bool is_isolated(const struct zg_block_view *view) {
    return view->start >= AT(FENCED, 0) && view->start <= AT(NOTHING, 0);
}

// Returns whether the record of the address's freed block was discarded: true for a page behind all blocks.
static bool is_forgotten(uint64_t address) { return address >= HEAP_END - 8192 && address < HEAP_END - 4096; }

// Finds the block with the pointer's tag: the block at the address, or the block that lies one or five slots before it.
static bool find_by_tag(uint64_t pointer, struct zg_block_view *view, uint32_t *distance) {
    static const struct {
        uint64_t bytes;
        uint32_t slots;
    } steps[] = {{0, 0}, {64, 1}, {256, 5}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        *distance = steps[i].slots;
        if (!lookup(pointer - steps[i].bytes, view) || view->state == zg_state_reusable) continue;
        view->offset = (int64_t)(pointer - view->start);
        return true;
    }
    return false;
}

static bool is_ours(uint64_t address) { return address - HEAP < HEAP_END - HEAP; }

// Freed blocks hold the fill.
static bool read_word(uint64_t address, uint64_t *word) {
    struct zg_block_view view;
    *word = WORD;
    return lookup(address, &view) && view.state == zg_state_quarantined;
}

enum { NO_BLOCK = -1 };
struct row {
    const char *text;
    struct zg_fault fault;
    enum zg_finding_kind kind;
    const char *access, *confidence;
    uint64_t address;
    bool freed_memory;
    int block;
};

#define CODE(...) .code = {__VA_ARGS__}, .code_count = 16
#define LOAD CODE(CODE_LOAD)
#define STORE CODE(CODE_STORE)
// AFTER(bytes): a fault whose instruction is preceded by an instruction with these bytes.
#define BYTES(...) ((int)sizeof((uint8_t[]){__VA_ARGS__}))
#define AFTER(...)                                                                                                     \
    .before = {[ZG_FAULT_CODE_BEFORE - BYTES(__VA_ARGS__)] = __VA_ARGS__}, .before_count = ZG_FAULT_CODE_BEFORE
#define KNOWN (1 << BASE_REGISTER | 1 << OTHER_REGISTER | 1)

// clang-format off
static struct row rows[] = {
    {"a null pointer is read", {.address = 0, .access = zg_fault_read}, zg_finding_null_access, "read", "exact", 0, false, NO_BLOCK},
    {"a field of a null pointer is written", {.address = 0x18, .access = zg_fault_write}, zg_finding_null_access, "write", "exact", 0x18, false, NO_BLOCK},
    {"a null pointer is called", {.address = 0, .access = zg_fault_execute, .pc = 0}, zg_finding_null_access, "call", "exact", 0, false, NO_BLOCK},
    {"the last null page", {.address = 65535, .access = zg_fault_read}, zg_finding_null_access, "read", "exact", 65535, false, NO_BLOCK},
    {"behind the null pages", {.address = 65536, .access = zg_fault_read}, zg_finding_wild_access, "read", "exact", 65536, false, NO_BLOCK},
    {"where blocks are forgotten", {.address = HEAP_END - 8192 + 16, .access = zg_fault_write}, zg_finding_use_after_free, "write", "inferred", HEAP_END - 8192 + 16, true, NO_BLOCK},
    {"nowhere", {.address = 0x123456789000, .access = zg_fault_read}, zg_finding_wild_access, "read", "exact", 0x123456789000, false, NO_BLOCK},
    {"nowhere, with a dead block in a register",
     {.address = 0x123456789000, .access = zg_fault_write, .pointers = {AT(DEAD, 8)}, .pointer_count = 1},
     zg_finding_wild_access, "write", "exact", 0x123456789000, false, NO_BLOCK},
    {"a code page is written", {.address = 0x401000, .access = zg_fault_write}, zg_finding_wild_access, "write", "exact", 0x401000, false, NO_BLOCK},
    {"access known from the instruction only", {.address = 0x123456789000, STORE}, zg_finding_wild_access, "write", "exact", 0x123456789000, false, NO_BLOCK},
    {"access not known", {.address = 0x123456789000}, zg_finding_wild_access, "unknown", "exact", 0x123456789000, false, NO_BLOCK},

    {"a retired block is read", {.address = AT(RETIRED, 0x1234), .access = zg_fault_read}, zg_finding_use_after_free, "read", "exact", AT(RETIRED, 0x1234), true, RETIRED},
    {"a retired block is written", {.address = AT(RETIRED, 0), .access = zg_fault_write}, zg_finding_use_after_free, "write", "exact", AT(RETIRED, 0), true, RETIRED},
    {"a retired block is called", {.address = AT(RETIRED, 64), .access = zg_fault_execute, .pc = AT(RETIRED, 64)}, zg_finding_use_after_free, "call", "exact", AT(RETIRED, 64), true, RETIRED},
    {"a quarantined block that is protected", {.address = AT(DEAD, 5), .access = zg_fault_read}, zg_finding_use_after_free, "read", "exact", AT(DEAD, 5), true, DEAD},
    {"a block that is being freed", {.address = AT(FREEING, 5), .access = zg_fault_write}, zg_finding_use_after_free, "write", "exact", AT(FREEING, 5), true, FREEING},
    {"a live block that the program protected", {.address = AT(LIVE, 3), .access = zg_fault_write}, zg_finding_wild_access, "write", "exact", AT(LIVE, 3), false, LIVE},
    {"the heap where no block ever was", {.address = HEAP + 0x9000000, .access = zg_fault_read}, zg_finding_wild_access, "read", "exact", HEAP + 0x9000000, false, NO_BLOCK},

    {"in front of a live block, behind the guard of a dead one", {.address = AT(AT_START, -3), .access = zg_fault_read}, zg_finding_heap_overflow, "read", "inferred", AT(AT_START, -3), false, AT_START},
    {"the same with a pointer to the block", {.address = AT(AT_START, -3), .access = zg_fault_read, .pointers = {AT(AT_START, 0)}, .pointer_count = 1}, zg_finding_heap_overflow, "read", "exact", AT(AT_START, -3), false, AT_START},
    {"nearer to the dead one", {.address = AT(IN_FRONT, 21), .access = zg_fault_read}, zg_finding_wild_access, "read", "inferred", AT(IN_FRONT, 21), false, NO_BLOCK},
    {"the number of objects in front of a single one", {.address = AT(AT_START, -8), .access = zg_fault_read}, zg_finding_dealloc_mismatch, "free", "inferred", AT(AT_START, 0), false, AT_START},
    {"the word in front of it is written", {.address = AT(AT_START, -8), .access = zg_fault_write}, zg_finding_heap_overflow, "write", "inferred", AT(AT_START, -8), false, AT_START},
    {"a dead block of 0 bytes, not far", {.address = AT(NOTHING, 40), .access = zg_fault_write}, zg_finding_use_after_free, "write", "inferred", AT(NOTHING, 40), true, NOTHING},
    {"the same with a pointer to the block", {.address = AT(NOTHING, 40), .access = zg_fault_write, .pointers = {AT(NOTHING, 0)}, .pointer_count = 1}, zg_finding_use_after_free, "write", "exact", AT(NOTHING, 40), true, NOTHING},
    {"the fill is dereferenced, a dead block in a register",
     {.is_non_canonical = true, LOAD, .pointers = {AT(DEAD, 0), WORD}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", WORD, true, DEAD},
    {"the fill is written through, a dead block in a register",
     {.is_non_canonical = true, STORE, .pointers = {1, WORD, AT(DEAD, 16)}, .pointer_count = 3},
     zg_finding_use_after_free, "write", "inferred", WORD, true, DEAD},
    {"a field behind the fill",
     {.is_non_canonical = true, LOAD, .pointers = {WORD + 0x40, AT(DEAD, 16)}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", WORD + 0x40, true, DEAD},
    {"a field before the fill",
     {.is_non_canonical = true, LOAD, .pointers = {WORD - 0x18, AT(DEAD, 16)}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", WORD - 0x18, true, DEAD},
    {"the dead block is on the stack",
     {.is_non_canonical = true, LOAD, .pointers = {WORD}, .pointer_count = 1, .stack = {1, 2, AT(DEAD, 40), AT(LIVE, 0)}, .stack_count = 4},
     zg_finding_use_after_free, "read", "inferred", WORD, true, DEAD},
    {"a register goes before the stack",
     {.is_non_canonical = true, LOAD, .pointers = {WORD, AT(RETIRED, 8)}, .pointer_count = 2, .stack = {AT(DEAD, 0)}, .stack_count = 1},
     zg_finding_use_after_free, "read", "inferred", WORD, true, RETIRED},
    {"only a live block is at hand",
     {.is_non_canonical = true, LOAD, .pointers = {WORD, AT(LIVE, 0)}, .pointer_count = 2, .stack = {AT(LIVE, 8)}, .stack_count = 1},
     zg_finding_use_after_free, "read", "inferred", WORD, true, NO_BLOCK},
    {"no block is at hand", {.is_non_canonical = true, LOAD, .pointers = {3, WORD, 5}, .pointer_count = 3}, zg_finding_use_after_free, "read", "inferred", WORD, true, NO_BLOCK},
    {"a block just being freed is the source",
     {.is_non_canonical = true, LOAD, .pointers = {WORD, AT(FREEING, 0)}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", WORD, true, FREEING},
    {"a value too far from the fill",
     {.is_non_canonical = true, LOAD, .pointers = {WORD + (UINT64_C(2) << 48), AT(DEAD, 0)}, .pointer_count = 2},
     zg_finding_wild_access, "read", "inferred", WORD + (UINT64_C(2) << 48), false, NO_BLOCK},
    {"the fill with a few bytes of something else",
     {.is_non_canonical = true, LOAD, .pointers = {UINT64_C(0x5555000012345678), AT(DEAD, 0)}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", UINT64_C(0x5555000012345678), true, DEAD},
    {"the gap's fill is dereferenced, the block in a register",
     {.is_non_canonical = true, STORE, .pointers = {GAP, AT(FENCED, 8)}, .pointer_count = 2},
     zg_finding_heap_overflow, "read", "inferred", GAP, false, FENCED},
    {"a field behind the gap's fill, the block on the stack",
     {.is_non_canonical = true, LOAD, .pointers = {GAP + 0x20}, .pointer_count = 1, .stack = {AT(DEAD, 0), AT(FENCED, 0)}, .stack_count = 2},
     zg_finding_heap_overflow, "read", "inferred", GAP + 0x20, false, FENCED},
    {"a word across the end of the block",
     {.is_non_canonical = true, LOAD, .pointers = {UINT64_C(0xa5a5a5a5a5000007), AT(FENCED, 0)}, .pointer_count = 2},
     zg_finding_heap_overflow, "read", "inferred", UINT64_C(0xa5a5a5a5a5000007), false, FENCED},
    {"the gap's fill and no such block", {.is_non_canonical = true, LOAD, .pointers = {GAP, AT(LIVE, 0)}, .pointer_count = 2}, zg_finding_heap_overflow, "read", "inferred", GAP, false, NO_BLOCK},
    {"the fill of new blocks", {.is_non_canonical = true, .fills_new = true, STORE, .pointers = {NEW, AT(LIVE, 0)}, .pointer_count = 2}, zg_finding_wild_access, "write", "inferred", NEW, false, LIVE},
    {"the same value where new blocks are not filled", {.is_non_canonical = true, STORE, .pointers = {NEW, AT(LIVE, 0)}, .pointer_count = 2}, zg_finding_wild_access, "write", "inferred", NEW, false, NO_BLOCK},
    {"an index of the gap's fill",
     {.address = 0x123456789000, LOAD, .registers = {.value[BASE_REGISTER] = 0xa5a5a5a5, .known = ~UINT64_C(0)}, .stack = {AT(FENCED, 0)}, .stack_count = 1},
     zg_finding_heap_overflow, "read", "inferred", 0xa5a5a5a5, false, FENCED},
    {"the same index and no such block",
     {.address = 0x123456789000, LOAD, .registers = {.value[BASE_REGISTER] = 0xa5a5a5a5, .known = ~UINT64_C(0)}},
     zg_finding_wild_access, "read", "exact", 0x123456789000, false, NO_BLOCK},

    {"a dead block's page, from a pointer into it",
     {.address = AT(RETIRED, 0x1fffff), LOAD, .registers = {.value[BASE_REGISTER] = AT(RETIRED, 0), .known = ~UINT64_C(0)}},
     zg_finding_use_after_free, "read", "exact", AT(RETIRED, 0x1fffff), true, RETIRED},
    {"a dead block's page, from a pointer into a live block",
     {.address = AT(RETIRED, 0x1234), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(LIVE, 8), .known = ~UINT64_C(0)}},
     zg_finding_heap_overflow, "read", "inferred", AT(RETIRED, 0x1234), false, LIVE},
    {"a loop over both, counted from the live one",
     {.address = AT(RETIRED, 8), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(LIVE, 8), .known = ~UINT64_C(0)}},
     zg_finding_use_after_free, "read", "inferred", AT(RETIRED, 8), true, RETIRED},
    {"the sum of a live block's address and a register",
     {.address = AT(RETIRED, 0x1234), .access = zg_fault_read, LOAD,
      .registers = {.value[BASE_REGISTER] = AT(RETIRED, 0x1234), .value[OTHER_REGISTER] = 0x101234 - 0x1000, .known = ~UINT64_C(0)}, .stack = {AT(LIVE, 0)}, .stack_count = 1},
     zg_finding_use_after_free, "read", "exact", AT(RETIRED, 0x1234), true, RETIRED},
    {"beyond a dead block's pages, and nothing tells where from",
     {.address = AT(FENCED_DEAD, 0x1800), .access = zg_fault_read}, zg_finding_wild_access, "read", "inferred", AT(FENCED_DEAD, 0x1800), false, NO_BLOCK},
    {"the same with a pointer into it at hand",
     {.address = AT(FENCED_DEAD, 0x1800), .access = zg_fault_read, .pointers = {AT(FENCED_DEAD, 0)}, .pointer_count = 1},
     zg_finding_use_after_free, "read", "exact", AT(FENCED_DEAD, 0x1800), true, FENCED_DEAD},
    {"the same with one into a live block, too",
     {.address = AT(FENCED_DEAD, 0x1800), .access = zg_fault_read, .pointers = {AT(FENCED_DEAD, 0), AT(LIVE, 0)}, .pointer_count = 2},
     zg_finding_use_after_free, "read", "inferred", AT(FENCED_DEAD, 0x1800), true, FENCED_DEAD},
    {"the same with that block's distance in a register",
     {.address = AT(FENCED_DEAD, 0x1800), .access = zg_fault_read, .pointers = {AT(FENCED_DEAD, 0), AT(LIVE, 0)}, .pointer_count = 2,
      .registers = {.value[OTHER_REGISTER] = (FENCED_DEAD_AT + 0x1800 - 0x1000) / 8, .known = 1 << OTHER_REGISTER}},
     zg_finding_heap_overflow, "read", "inferred", AT(FENCED_DEAD, 0x1800), false, LIVE},
    {"behind a live block that has its own pages",
     {.address = AT(FENCED, 0x1000), .access = zg_fault_write}, zg_finding_heap_overflow, "write", "inferred", AT(FENCED, 0x1000), false, FENCED},
    {"the same with a pointer into it at hand",
     {.address = AT(FENCED, 0x1000), .access = zg_fault_write, .pointers = {AT(FENCED, 0)}, .pointer_count = 1},
     zg_finding_heap_overflow, "write", "exact", AT(FENCED, 0x1000), false, FENCED},
    {"the fill, loaded from behind a live block",
     {.is_non_canonical = true, AFTER(CODE_LOAD_FAR), .registers = {.value[0] = WORD, .value[BASE_REGISTER] = AT(LIVE, 8), .known = KNOWN}, .pointers = {WORD, AT(DEAD, 0)}, .pointer_count = 2},
     zg_finding_heap_overflow, "read", "inferred", WORD, false, LIVE},
    {"the fill, loaded from a dead block, and another in a register",
     {.is_non_canonical = true, AFTER(CODE_LOAD), .registers = {.value[0] = WORD, .value[BASE_REGISTER] = AT(DEAD, 16), .known = KNOWN}, .pointers = {WORD, AT(RETIRED, 8)}, .pointer_count = 2},
     zg_finding_use_after_free, "unknown", "inferred", WORD, true, DEAD},
    {"the fill, loaded from where other words are",
     {.is_non_canonical = true, AFTER(CODE_LOAD), .registers = {.value[0] = WORD, .value[BASE_REGISTER] = AT(RETIRED, 16), .known = KNOWN}, .pointers = {WORD, AT(DEAD, 8)}, .pointer_count = 2},
     zg_finding_use_after_free, "unknown", "inferred", WORD, true, DEAD},
    {"the fill, at a distance from a live block that a register holds",
     {.is_non_canonical = true, .registers = {.value[OTHER_REGISTER] = 0x1010, .known = KNOWN}, .pointers = {WORD}, .pointer_count = 1, .stack = {1, AT(LIVE, 0), AT(DEAD, 0)}, .stack_count = 3},
     zg_finding_heap_overflow, "read", "inferred", WORD, false, LIVE},
    {"the same below the stack pointer",
     {.is_non_canonical = true, .registers = {.value[OTHER_REGISTER] = 0x1010, .known = KNOWN}, .pointers = {WORD}, .pointer_count = 1, .below = {1, AT(LIVE, 0)}, .below_count = 2, .stack = {AT(DEAD, 0)}, .stack_count = 1},
     zg_finding_heap_overflow, "read", "inferred", WORD, false, LIVE},
    {"the same behind a pointer to the dead block",
     {.is_non_canonical = true, .registers = {.value[OTHER_REGISTER] = 0x1010, .known = KNOWN}, .pointers = {WORD}, .pointer_count = 1, .stack = {AT(DEAD, 0), AT(LIVE, 0)}, .stack_count = 2},
     zg_finding_use_after_free, "unknown", "inferred", WORD, true, DEAD},
    {"the same with a distance to where nothing is",
     {.is_non_canonical = true, .registers = {.value[OTHER_REGISTER] = 0x1080, .known = KNOWN}, .pointers = {WORD}, .pointer_count = 1, .stack = {AT(LIVE, 0)}, .stack_count = 1},
     zg_finding_use_after_free, "unknown", "inferred", WORD, true, NO_BLOCK},
    {"behind a live block that has its own pages, with a pointer into another",
     {.address = AT(FENCED, 0x1000), .access = zg_fault_write, .pointers = {AT(LIVE, 0)}, .pointer_count = 1}, zg_finding_heap_overflow, "write", "inferred", AT(FENCED, 0x1000), false, FENCED},
    {"a loop over a live block, into the dead one behind",
     {.address = AT(BEHIND, 0), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(BEHIND, 0), .known = KNOWN}, .stack = {AT(OVERRUN, 0)}, .stack_count = 1},
     zg_finding_heap_overflow, "read", "inferred", AT(BEHIND, 0), false, OVERRUN},
    {"the same with a pointer to the dead one",
     {.address = AT(BEHIND, 0), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(BEHIND, 0), .known = KNOWN}, .stack = {AT(OVERRUN, 0), AT(BEHIND, 0)}, .stack_count = 2},
     zg_finding_use_after_free, "read", "exact", AT(BEHIND, 0), true, BEHIND},
    {"the same with the distance in a register, too",
     {.address = AT(BEHIND, 0), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(BEHIND, 0), .value[OTHER_REGISTER] = 0x1000, .known = KNOWN}, .stack = {AT(BEHIND, 0), AT(OVERRUN, 0)}, .stack_count = 2},
     zg_finding_heap_overflow, "read", "inferred", AT(BEHIND, 0), false, OVERRUN},
    {"farther into the dead one",
     {.address = AT(BEHIND, 8), .access = zg_fault_read, LOAD, .registers = {.value[BASE_REGISTER] = AT(BEHIND, 8), .known = KNOWN}, .stack = {AT(OVERRUN, 0)}, .stack_count = 1},
     zg_finding_use_after_free, "read", "exact", AT(BEHIND, 8), true, BEHIND},
    {"a vector in front of a live block, for a pointer in front of the block",
     {.address = AT(AT_START, -32), .access = zg_fault_read, .pointers = {AT(AT_START, -3)}, .pointer_count = 1}, zg_finding_heap_overflow, "read", "inferred", AT(AT_START, -3), false, AT_START},
    {"a vector in front of a dead block, for a pointer to the block",
     {.address = AT(IN_FRONT, -16), .access = zg_fault_read, .pointers = {AT(IN_FRONT, 0)}, .pointer_count = 1}, zg_finding_use_after_free, "read", "exact", AT(IN_FRONT, 0), true, IN_FRONT},
    {"in front of the first block of a slab",
     {.address = AT(LIVE, -16), .access = zg_fault_read}, zg_finding_heap_overflow, "read", "inferred", AT(LIVE, -16), false, LIVE},
    {"another value that is no address",
     {.is_non_canonical = true, LOAD, .pointers = {AT(DEAD, 0), 0xdeadbeefdeadbeef}, .pointer_count = 2},
     zg_finding_wild_access, "read", "inferred", 0xdeadbeefdeadbeef, false, NO_BLOCK},
    {"nothing is known at all", {.is_non_canonical = true}, zg_finding_wild_access, "unknown", "inferred", 0, false, NO_BLOCK},

    {"a call of the fill: it is the program counter",
     {.is_non_canonical = true, .pc = WORD, .pointers = {AT(DEAD, 0)}, .pointer_count = 1},
     zg_finding_use_after_free, "call", "inferred", WORD, true, DEAD},
    {"a call of the fill in a register",
     {.is_non_canonical = true, .pc = 0x401000, CODE(CODE_CALL_REGISTER), .pointers = {WORD, AT(DEAD, 8)}, .pointer_count = 2},
     zg_finding_use_after_free, "call", "inferred", WORD, true, DEAD},
#ifdef CODE_CALL_MEMORY
    {"a call through a dead block: its target was in no register",
     {.is_non_canonical = true, .pc = 0x401000, CODE(CODE_CALL_MEMORY), .registers = {.value[BASE_REGISTER] = AT(DEAD, 0), .known = ~UINT64_C(0)}},
     zg_finding_use_after_free, "call", "inferred", AT(DEAD, 16), true, DEAD},
    {"a call through a retired block's neighbour that lives",
     {.is_non_canonical = true, .pc = 0x401000, CODE(CODE_CALL_MEMORY), .registers = {.value[BASE_REGISTER] = AT(LIVE, 0), .known = ~UINT64_C(0)}},
     zg_finding_wild_access, "call", "inferred", 0, false, NO_BLOCK},
    {"a call through no block",
     {.is_non_canonical = true, .pc = 0x401000, CODE(CODE_CALL_MEMORY), .registers = {.value[BASE_REGISTER] = 0x602000, .known = ~UINT64_C(0)}},
     zg_finding_wild_access, "call", "inferred", 0, false, NO_BLOCK},
#endif

    {"a pointer cut to 32 bits, a dead block in a register",
     {.address = 0x55555555, .access = zg_fault_read, .pointers = {AT(DEAD, 0)}, .pointer_count = 1},
     zg_finding_use_after_free, "read", "inferred", 0x55555555, true, DEAD},
    {"a field behind a cut pointer",
     {.address = 0x55555555 + 0x30, .access = zg_fault_write, .stack = {AT(DEAD, 90)}, .stack_count = 1},
     zg_finding_use_after_free, "write", "inferred", 0x55555555 + 0x30, true, DEAD},
    {"a cut pointer and no dead block", {.address = 0x55555555, .access = zg_fault_read, .pointers = {AT(LIVE, 0)}, .pointer_count = 1}, zg_finding_wild_access, "read", "exact", 0x55555555, false, NO_BLOCK},
    {"the program's own image lies near that value",
     {.address = 0x555555554000, .access = zg_fault_write, .pointers = {AT(DEAD, 0)}, .pointer_count = 1},
     zg_finding_wild_access, "write", "exact", 0x555555554000, false, NO_BLOCK},

    {"a dead block whose tag it is", {.address = AT(DEAD, 8), .pointer = AT(DEAD, 8), .access = zg_fault_write}, zg_finding_use_after_free, "write", "exact", AT(DEAD, 8), true, DEAD},
    {"behind the block whose tag it is", {.address = AT(LIVE, 64), .pointer = AT(LIVE, 64), .access = zg_fault_read}, zg_finding_heap_overflow, "read", "exact", AT(LIVE, 64), false, LIVE},
    {"farther behind it", {.address = AT(LIVE, 260), .pointer = AT(LIVE, 260), .access = zg_fault_read}, zg_finding_heap_overflow, "read", "inferred", AT(LIVE, 260), false, LIVE},
    {"farther behind it, from a pointer to it", {.address = AT(LIVE, 260), .pointer = AT(LIVE, 260), .access = zg_fault_read, .operands = {AT(LIVE, 0), 260}, .operand_count = 2}, zg_finding_heap_overflow, "read", "exact", AT(LIVE, 260), false, LIVE},
    {"behind a dead block whose tag it is", {.address = AT(DEAD, 100), .pointer = AT(DEAD, 100), .access = zg_fault_write}, zg_finding_use_after_free, "write", "exact", AT(DEAD, 100), true, DEAD},
    {"nobody's tag", {.address = HEAP + 0x7000, .pointer = HEAP + 0x7000, .access = zg_fault_read}, zg_finding_use_after_free, "read", "inferred", HEAP + 0x7000, true, NO_BLOCK},
    {"the tag of a live block that the program has protected", {.address = AT(LIVE, 8), .pointer = AT(LIVE, 8), .access = zg_fault_write}, zg_finding_wild_access, "write", "exact", AT(LIVE, 8), false, LIVE},

    {"the stack runs over", {.address = STACK_LOW - 8, .access = zg_fault_write, .sp = STACK_LOW - 16}, zg_finding_stack_overflow, "write", "exact", STACK_LOW - 8, false, NO_BLOCK},
    {"the stack runs over by a large frame", {.address = STACK_LOW - 0x8000, .access = zg_fault_write, .sp = STACK_LOW - 0x8010}, zg_finding_stack_overflow, "write", "exact", STACK_LOW - 0x8000, false, NO_BLOCK},
    {"the push of a call runs over", {.address = STACK_LOW - 8, .access = zg_fault_write, .sp = STACK_LOW}, zg_finding_stack_overflow, "write", "exact", STACK_LOW - 8, false, NO_BLOCK},
    {"a wild access while the stack is fine", {.address = STACK_LOW - 8, .access = zg_fault_write, .sp = STACK_HIGH - 4096}, zg_finding_wild_access, "write", "exact", STACK_LOW - 8, false, NO_BLOCK},
    {"a null access while the stack is fine", {.address = 8, .access = zg_fault_read, .sp = STACK_HIGH - 4096}, zg_finding_null_access, "read", "exact", 8, false, NO_BLOCK},
    {"above the stack", {.address = STACK_HIGH + 64, .access = zg_fault_read, .sp = STACK_HIGH - 4096}, zg_finding_wild_access, "read", "exact", STACK_HIGH + 64, false, NO_BLOCK},
};
// clang-format on

int main(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct row *row = &rows[i];
        struct zg_verdict verdict;
        row->fault.lookup = lookup;
        row->fault.read_word = read_word;
        row->fault.is_ours = is_ours;
        row->fault.is_isolated = is_isolated;
        row->fault.is_forgotten = is_forgotten;
        row->fault.find_zombie = no_zombie;
        row->fault.find_by_tag = find_by_tag;
        row->fault.bounds = (struct zg_stack_bounds){STACK_LOW, STACK_HIGH};
        if (!row->fault.sp) row->fault.sp = STACK_HIGH - 4096;
        if (!row->fault.pc && row->fault.access != zg_fault_execute) row->fault.pc = 0x401000;
        memset(&verdict, 0x99, sizeof verdict); // shows fields that zg_diagnose does not write
        struct zg_fault before = row->fault;
        zg_diagnose(&row->fault, &verdict);
        bool right = verdict.kind == row->kind && strcmp(verdict.access, row->access) == 0 &&
                     strcmp(verdict.confidence, row->confidence) == 0 && verdict.address == row->address &&
                     verdict.freed_memory == row->freed_memory && verdict.has_block == (row->block != NO_BLOCK);
        if (!CHECK(right, row->text))
            fprintf(stderr, "  %s %s %s address %" PRIx64 " freed_memory %d block %d\n",
                    zg_finding_kind_name(verdict.kind), verdict.access, verdict.confidence, verdict.address,
                    verdict.freed_memory, verdict.has_block);
        if (verdict.has_block && row->block != NO_BLOCK)
            CHECK_EQUAL(verdict.block.start, blocks[row->block].start, row->text);
        CHECK(memcmp(&before, &row->fault, sizeof before) == 0, "the fault is only read");
    }
    // Random faults: zg_diagnose always reaches a verdict.
    uint64_t state = 7;
    for (int i = 0; i < 100000; i++) {
        struct zg_fault fault;
        struct zg_verdict verdict;
        for (size_t j = 0; j < sizeof fault / 8; j++) ((uint64_t *)&fault)[j] = work_random(&state);
        fault.is_non_canonical = work_random(&state) & 1;
        fault.fills_new = work_random(&state) & 1;
        fault.access = (enum zg_fault_access)(work_random(&state) % 4);
        fault.code_count = (int)(work_random(&state) % 17);
        fault.pointer_count = (int)(work_random(&state) % (ZG_FAULT_POINTERS + 1));
        fault.stack_count = (int)(work_random(&state) % (ZG_FAULT_STACK_WORDS + 1));
        fault.lookup = lookup;
        fault.read_word = read_word;
        fault.below_count = (int)(work_random(&state) % (ZG_FAULT_WORDS_BELOW + 1));
        fault.before_count = (int)(work_random(&state) % (ZG_FAULT_CODE_BEFORE + 1));
        fault.is_ours = is_ours;
        fault.is_isolated = is_isolated;
        fault.is_forgotten = is_forgotten;
        fault.find_zombie = no_zombie;
        fault.find_by_tag = find_by_tag;
        fault.operand_count = (int)(work_random(&state) % 3);
        if (i % 3 == 0) fault.address = HEAP + work_random(&state) % 0x400000;
        fault.pointer = i % 4 == 0 ? fault.address : 0;
        if (i % 5 == 0) fault.pointers[0] = WORD + work_random(&state) % 4096;
        zg_diagnose(&fault, &verdict);
        if (verdict.kind >= zg_finding_kind_count || !verdict.access || !verdict.confidence)
            CHECK(0, "a random fault has a complete verdict");
        if (verdict.has_block && (strcmp(verdict.confidence, "inferred") == 0) != (verdict.evidence != NULL))
            CHECK(0, "an inferred block has its evidence, an exact one needs none");
        if (verdict.freed_memory != (verdict.kind == zg_finding_use_after_free))
            CHECK(0, "freed memory and use-after-free go together");
    }
    CHECK(1, "random faults");
    return check_end();
}
