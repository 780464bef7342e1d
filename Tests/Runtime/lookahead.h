// Tests the lookahead emulator by a table of code sequences; shared by the test of each processor (lookahead.c,
// lookahead_aarch64.c), which defines the code, the rows, and the three functions declared below.

#ifndef ZG_TESTS_LOOKAHEAD_H
#define ZG_TESTS_LOOKAHEAD_H

#include <string.h>

#include "check.h"
#include "platform/lookahead_emulator.h"

enum { CALL = -1, NONE = 0, OBJECT_BYTES = 48 };
#define STRONG_ONE (UINT64_C(1) << 33)

struct row {
    const char *name, *code;
    int first; // offset of the used property, CALL for a call of `called`, or NONE for no use
    const char *called;
    int second;
    bool is_write, is_doubtful;
};

extern const char method[]; // the method whose address is in the fourth word of the class
// Loads the class of the object in the register of an argument, and calls the method with the object as self.
extern const char code_load[];

// Returns true for the test's own code and data.
static bool is_of_test(uint64_t from, uint64_t bytes);
static const char *called_through(uint64_t pc, uint64_t place);
// Sets two registers that calls preserve to `object`, and the stack and frame pointers to addresses in `stack`.
static void fill_registers(struct zg_registers *registers);

static _Alignas(16) uint64_t object[OBJECT_BYTES / 8], class[8];
static uint64_t *stack; // 64 words
static _Alignas(4) uint8_t random_code[256];
static uint64_t reads;

static bool lies_in(uint64_t from, uint64_t bytes, const void *start, uint64_t size) {
    return from - (uint64_t)start < size && bytes <= size - (from - (uint64_t)start);
}

// Reads the test's memory only. Other addresses are unreadable, as unmapped memory is for the runtime.
static uint64_t read_known(void *to, uint64_t from, uint64_t bytes) {
    reads++;
    bool is_known = lies_in(from, bytes, object, sizeof object) || lies_in(from, bytes, stack, 64 * sizeof *stack) ||
                    lies_in(from, bytes, class, sizeof class) || is_of_test(from, bytes);
    if (lies_in(from, 1, random_code, sizeof random_code)) {
        uint64_t left = sizeof random_code - (from - (uint64_t)random_code);
        bytes = bytes < left ? bytes : left, is_known = true;
    }
    if (is_known) memcpy(to, (const void *)from, bytes);
    return is_known ? bytes : 0;
}

static struct zg_lookahead look(const void *code, bool is_at_load) {
    struct zg_registers registers = {.pc = (uint64_t)code};
    fill_registers(&registers);
    registers.value[ARGUMENT] = (uint64_t)object;
    registers.known |= UINT64_C(1) << ARGUMENT;
    struct zg_lookahead lookahead = {.object = (uint64_t)object,
                                     .bytes = OBJECT_BYTES,
                                     .first_word = (uint64_t) class,
                                     .counts = 3 + 4 * STRONG_ONE,
                                     .count_step = STRONG_ONE,
                                     .is_at_load = is_at_load,
                                     .read = read_known,
                                     .called_through = called_through};
    zg_lookahead_run(&registers, &lookahead);
    return lookahead;
}

static void check_rows(const struct row *rows, size_t count) {
    class[1] = 40, class[3] = (uint64_t)method;
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        struct zg_lookahead lookahead = look(row->code, false);
        const struct zg_lookahead_use *uses = lookahead.uses;
        if (row->first == NONE) {
            CHECK_EQUAL(lookahead.use_count, 0, row->name);
            continue;
        }
        if (!CHECK(lookahead.use_count > 0, row->name)) continue;
        CHECK_EQUAL(uses[0].is_call, row->first == CALL, row->name);
        if (row->first == CALL) CHECK_EQUAL(uses[0].code, row->called, row->name);
        else CHECK_EQUAL(uses[0].byte, row->first, row->name);
        CHECK_EQUAL(uses[0].is_write, row->is_write, row->name);
        CHECK_EQUAL(uses[0].is_doubtful, row->is_doubtful, row->name);
        if (row->second > 0 && CHECK(lookahead.use_count > 1, row->name))
            CHECK_EQUAL(uses[1].byte, row->second, row->name);
    }
}

// The code uses the object through a register that calls do not preserve. Behind a call (the retain) the register is
// unknown and no use is found; if the code begins with the load, the register is known.
static void check_load(void) {
    struct zg_lookahead behind_retain = look(code_load, false), at_load = look(code_load, true);
    CHECK_EQUAL(behind_retain.use_count, 0, "a register that calls change");
    if (!CHECK(at_load.use_count == 2, "a load of the class")) return;
    CHECK(at_load.uses[0].is_call && at_load.uses[0].code == (uint64_t)method, "a virtual call");
    CHECK(!at_load.uses[1].is_call && at_load.uses[1].byte == 32, "a property that the method reads");
}

// Emulates random bytes: the emulator must end, and must not return more uses than fit.
static void check_noise(void) {
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        for (size_t j = 0; j < sizeof random_code; j++) random_code[j] = (uint8_t)work_random(&state);
        reads = 0;
        struct zg_lookahead lookahead = look(random_code, i & 1);
        CHECK(lookahead.use_count >= 0 && lookahead.use_count <= ZG_LOOKAHEAD_USES,
              "as many uses as there is room for");
        CHECK(reads < 200000, "the work is bounded");
        for (int j = 0; j < lookahead.use_count; j++)
            CHECK(lookahead.uses[j].is_call || (lookahead.uses[j].byte >= 16 && lookahead.uses[j].byte < OBJECT_BYTES),
                  "a property lies in the object");
    }
}

static int check_lookahead(const struct row *rows, size_t count) {
    uint64_t words[64] = {0};
    stack = words;
    check_rows(rows, count);
    check_load();
    check_noise();
    return check_end();
}

#endif
