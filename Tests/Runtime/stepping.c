// Executes instructions with zg_arch_step and on the processor: all bits that the step knows must agree.
// processor: x86_64
// link: runtime

// Instructions, registers, vectors, flags and memory are random; the step knows some of the bits.

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "platform/step.h"

enum { ROUNDS = 100000, MEMORY_BYTES = 512, BASE_AT = 256, DISTANCE = 16, RSP = 4 };

// The state before or after an instruction. Lies below 2 GiB, so that code can use its 32-bit absolute address.
struct state {
    uint64_t registers[16];
    _Alignas(16) uint64_t vectors[16][2];
    uint64_t flags, own_sp;
    _Alignas(16) uint8_t memory[MEMORY_BYTES];
};
static struct state *before, *after;
static uint8_t *code;
static uint64_t random_state = 3;

static uint64_t draw(uint64_t count) { return work_random(&random_state) % count; }

// --- the processor -------------------------------------------------------------------------------------------------

static void put(uint8_t **to, const void *bytes, size_t count) {
    memcpy(*to, bytes, count);
    *to += count;
}
static void put_absolute(uint8_t **to, const char *opcode, size_t count, int reg, const void *place) {
    uint8_t operand[] = {(uint8_t)(4 | (reg & 7) << 3), 0x25};
    uint32_t address = (uint32_t)(uint64_t)place;
    put(to, opcode, count);
    put(to, operand, sizeof operand);
    put(to, &address, sizeof address);
}
static void move_registers(uint8_t **to, struct state *state, bool loads) {
    for (int i = 0; i < 16; i++)
        put_absolute(to, loads ? (i < 8 ? "\x48\x8b" : "\x4c\x8b") : (i < 8 ? "\x48\x89" : "\x4c\x89"), 2, i,
                     &state->registers[i]);
}
static void move_vectors(uint8_t **to, struct state *state, bool loads) {
    for (int i = 0; i < 16; i++)
        put_absolute(to,
                     loads ? (i < 8 ? "\xf3\x40\x0f\x6f" : "\xf3\x44\x0f\x6f")
                           : (i < 8 ? "\xf3\x40\x0f\x7f" : "\xf3\x44\x0f\x7f"),
                     4, i, state->vectors[i]);
}

// Executes the instruction on the processor in the state `before`; stores the resulting state in `after`.
static void run_natively(const uint8_t *instruction, size_t count) {
    uint8_t *to = code;
    *after = *before;
    put(&to, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57", 10); // push rbx rbp r12 r13 r14 r15
    put_absolute(&to, "\x48\x89", 2, RSP, &after->own_sp);
    move_vectors(&to, before, true);
    put_absolute(&to, "\xff", 1, 6, &before->flags); // push
    put(&to, "\x9d", 1);                             // popf
    move_registers(&to, before, true);
    put(&to, instruction, count);
    move_registers(&to, after, false);
    put_absolute(&to, "\x48\x8b", 2, RSP, &after->own_sp);
    put(&to, "\x9c", 1);                            // pushf
    put_absolute(&to, "\x8f", 1, 0, &after->flags); // pop
    move_vectors(&to, after, false);
    put(&to, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3", 11);
    ((void (*)(void))(void *)code)();
}

// --- the step ------------------------------------------------------------------------------------------------------

struct machine {
    struct zg_cpu cpu; // first member, because `load` and `store` cast to this struct
    uint8_t memory[MEMORY_BYTES], known[MEMORY_BYTES];
};

static bool is_inside(struct zg_known_bits address, int bytes) {
    return zg_known_bits_is_whole(address) && address.bits - (uint64_t)after->memory <= MEMORY_BYTES - (uint64_t)bytes;
}
static bool load(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value) {
    struct machine *m = (struct machine *)cpu;
    *value = zg_known_bits_word(0);
    if (!is_inside(address, bytes)) return false;
    memcpy(&value->bits, m->memory + (address.bits - (uint64_t)after->memory), (size_t)bytes);
    return true;
}
static bool store(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value) {
    struct machine *m = (struct machine *)cpu;
    uint64_t at = address.bits - (uint64_t)after->memory;
    if (!is_inside(address, bytes)) return false;
    memcpy(m->memory + at, &value.bits, (size_t)bytes);
    memcpy(m->known + at, &value.known, (size_t)bytes);
    return true;
}

// Bit numbers in RFLAGS of the step's flags, in their order: CF, PF, ZF, SF, OF.
static const int flag_places[5] = {0, 2, 6, 7, 11};

static struct zg_known_bits some_of(uint64_t bits, bool all) {
    uint64_t known = all || draw(2) ? UINT64_MAX : draw(2) ? work_random(&random_state) : 0;
    return (struct zg_known_bits){bits & known, known};
}

static void start(struct machine *m, int base, bool all) {
    memset(m, 0, sizeof *m);
    for (int i = 0; i < 16; i++) {
        bool is_needed = all || i == base || i == RSP;
        m->cpu.registers[i] = some_of(before->registers[i], is_needed);
        for (int j = 0; j < 2; j++) m->cpu.vectors[i][j] = some_of(before->vectors[i][j], all);
    }
    for (int i = 0; i < 5; i++) m->cpu.flags |= (uint8_t)((before->flags >> flag_places[i] & 1) << i);
    m->cpu.known_flags = all || draw(2) ? UINT8_MAX : (uint8_t)draw(256);
    m->cpu.load = load, m->cpu.store = store;
    memcpy(m->memory, before->memory, MEMORY_BYTES);
    memset(m->known, 0xff, MEMORY_BYTES);
}

static bool agrees(struct zg_known_bits step, uint64_t processor) { return !((step.bits ^ processor) & step.known); }

// Compares the bits that the step knows with `after`. Returns the number of registers that the step knows wholly.
static int compare(const struct machine *m, const char *text) {
    int whole = 0;
    for (int i = 0; i < 16; i++) {
        whole += zg_known_bits_is_whole(m->cpu.registers[i]);
        if (!CHECK(agrees(m->cpu.registers[i], after->registers[i]), text))
            fprintf(stderr,
                    "register %d: %" PRIx64 " known %" PRIx64 ", the processor has %" PRIx64 " of %" PRIx64 "\n", i,
                    m->cpu.registers[i].bits, m->cpu.registers[i].known, after->registers[i], before->registers[i]);
        for (int j = 0; j < 2; j++) CHECK(agrees(m->cpu.vectors[i][j], after->vectors[i][j]), text);
    }
    for (int i = 0; i < 5; i++) {
        bool differs = (m->cpu.flags >> i & 1) != (after->flags >> flag_places[i] & 1);
        if (!CHECK(!(differs && m->cpu.known_flags >> i & 1), text)) fprintf(stderr, "flag %d\n", i);
    }
    bool is_same = true;
    for (int i = 0; i < MEMORY_BYTES; i++) is_same &= !((m->memory[i] ^ after->memory[i]) & m->known[i]);
    CHECK(is_same, text);
    return whole;
}

// --- instructions --------------------------------------------------------------------------------------------------

enum { ALL = 255, OPERAND = -1, FULL = -2, TEST = -3 };
struct opcode {
    int prefix; // required prefix; 0: none, and 66 is allowed
    bool is_0f; // two-byte opcode
    int first, last;
    int fields;    // bit n: the reg field may be n
    int immediate; // bytes; OPERAND: operand size, at most 4; FULL: operand size; TEST: as in group 3
    enum { NONE, ANY, REGISTERS } operand; // REGISTERS: not in memory, where a bit number may lead outside the operand
};

// clang-format off
static const struct opcode opcodes[] = {
    {0x00, false, 0x00, 0x03, ALL, 0, ANY},        {0x00, false, 0x08, 0x0b, ALL, 0, ANY},
    {0x00, false, 0x10, 0x13, ALL, 0, ANY},        {0x00, false, 0x18, 0x1b, ALL, 0, ANY},
    {0x00, false, 0x20, 0x23, ALL, 0, ANY},        {0x00, false, 0x28, 0x2b, ALL, 0, ANY},
    {0x00, false, 0x30, 0x33, ALL, 0, ANY},        {0x00, false, 0x38, 0x3b, ALL, 0, ANY},
    {0x00, false, 0x04, 0x05, ALL, OPERAND, NONE}, {0x00, false, 0x14, 0x15, ALL, OPERAND, NONE},
    {0x00, false, 0x1c, 0x1d, ALL, OPERAND, NONE}, {0x00, false, 0x3c, 0x3d, ALL, OPERAND, NONE},
    {0x00, false, 0x50, 0x5f, ALL, 0, NONE},       {0x00, false, 0x63, 0x63, ALL, 0, ANY},
    {0x00, false, 0x68, 0x68, ALL, OPERAND, NONE}, {0x00, false, 0x69, 0x69, ALL, OPERAND, ANY},
    {0x00, false, 0x6a, 0x6a, ALL, 1, NONE},       {0x00, false, 0x6b, 0x6b, ALL, 1, ANY},
    {0x00, false, 0x80, 0x80, ALL, 1, ANY},        {0x00, false, 0x81, 0x81, ALL, OPERAND, ANY},
    {0x00, false, 0x83, 0x83, ALL, 1, ANY},        {0x00, false, 0x84, 0x8b, ALL, 0, ANY},
    {0x00, false, 0x8d, 0x8d, ALL, 0, ANY},        {0x00, false, 0x90, 0x90, ALL, 0, NONE},
    {0x00, false, 0x98, 0x99, ALL, 0, NONE},       {0x00, false, 0xa8, 0xa9, ALL, OPERAND, NONE},
    {0x00, false, 0xb0, 0xb7, ALL, 1, NONE},       {0x00, false, 0xb8, 0xbf, ALL, FULL, NONE},
    {0x00, false, 0xc0, 0xc1, ALL, 1, ANY},        {0x00, false, 0xc6, 0xc7, 1, OPERAND, ANY},
    {0x00, false, 0xd0, 0xd3, ALL, 0, ANY},        {0x00, false, 0xf6, 0xf7, 0x3f, TEST, ANY},
    {0x00, false, 0xfe, 0xff, 3, 0, ANY},          {0x00, false, 0xff, 0xff, 0x40, 0, ANY},
    {0x00, true, 0x10, 0x11, ALL, 0, ANY},         {0x66, true, 0x10, 0x11, ALL, 0, ANY},
    {0xf2, true, 0x10, 0x11, ALL, 0, ANY},         {0xf3, true, 0x10, 0x11, ALL, 0, ANY},
    {0x00, true, 0x1f, 0x1f, 1, 0, ANY},           {0x00, true, 0x28, 0x29, ALL, 0, ANY},
    {0x00, true, 0x40, 0x4f, ALL, 0, ANY},         {0x00, true, 0x57, 0x57, ALL, 0, ANY},
    {0x66, true, 0x6c, 0x6c, ALL, 0, ANY},         {0x66, true, 0x6e, 0x6f, ALL, 0, ANY},
    {0xf3, true, 0x6f, 0x6f, ALL, 0, ANY},         {0x66, true, 0x7e, 0x7f, ALL, 0, ANY},
    {0xf3, true, 0x7e, 0x7f, ALL, 0, ANY},         {0x00, true, 0x90, 0x9f, ALL, 0, ANY},
    {0x00, true, 0xa3, 0xa3, ALL, 0, REGISTERS},   {0x00, true, 0xa4, 0xa4, ALL, 1, ANY},
    {0x00, true, 0xa5, 0xa5, ALL, 0, ANY},         {0x00, true, 0xab, 0xab, ALL, 0, REGISTERS},
    {0x00, true, 0xac, 0xac, ALL, 1, ANY},         {0x00, true, 0xad, 0xad, ALL, 0, ANY},
    {0x00, true, 0xaf, 0xb1, ALL, 0, ANY},         {0x00, true, 0xb3, 0xb3, ALL, 0, REGISTERS},
    {0x00, true, 0xb6, 0xb7, ALL, 0, ANY},         {0x00, true, 0xba, 0xba, 0xf0, 1, ANY},
    {0x00, true, 0xbb, 0xbb, ALL, 0, REGISTERS},   {0x00, true, 0xbc, 0xbf, ALL, 0, ANY},
    {0x00, true, 0xc0, 0xc1, ALL, 0, ANY},         {0x00, true, 0xc7, 0xc7, 2, 0, ANY},
    {0x00, true, 0xc8, 0xcf, ALL, 0, NONE},        {0x66, true, 0xd6, 0xd6, ALL, 0, ANY},
    {0x66, true, 0xef, 0xef, ALL, 0, ANY},
};
// clang-format on

// Draws ModRM, SIB and displacement: a register (`*base` becomes -1), or memory at a multiple of 16 from register
// `*base`.
static void draw_operand(uint8_t **to, const struct opcode *opcode, int rex, int *base) {
    int field;
    do field = (int)draw(8);
    while (!(opcode->fields >> field & 1));
    bool in_memory = opcode->operand == ANY && draw(3) == 0;
    int rm = (int)draw(8), displacement = (int)(draw(DISTANCE) - DISTANCE / 2) * 16;
    *(*to)++ = (uint8_t)((in_memory ? 0x80 : 0xc0) | field << 3 | rm);
    *base = in_memory ? rm | (rex & 1) << 3 : -1;
    if (!in_memory) return;
    if (rm == 4) *(*to)++ = 0x24; // a SIB byte without index
    put(to, &displacement, 4);
}

static size_t draw_instruction(uint8_t *bytes, int *base) {
    const struct opcode *opcode = &opcodes[draw(sizeof opcodes / sizeof *opcodes)];
    uint8_t *to = bytes;
    int rex = draw(2) ? (int)(0x40 | (draw(16) & 13)) : 0; // without REX.X
    int last = opcode->first + (int)draw((uint64_t)(opcode->last - opcode->first + 1));
    bool is_move = opcode->is_0f && last < 0x40; // the prefix 66 would select another instruction
    bool is_half = opcode->prefix == 0x66 || (!opcode->prefix && !is_move && draw(4) == 0);
    if (is_half) *to++ = 0x66;
    if (opcode->prefix > 0x66) *to++ = (uint8_t)opcode->prefix;
    if (rex) *to++ = (uint8_t)rex;
    if (opcode->is_0f) *to++ = 0x0f;
    *to++ = (uint8_t)last;
    uint8_t *modrm = to;
    *base = -1;
    if (opcode->operand) draw_operand(&to, opcode, rex, base);
    int width = rex & 8 ? 8 : is_half ? 2 : 4, kind = opcode->immediate;
    if (kind == TEST) kind = *modrm >> 3 & 6 ? 0 : OPERAND; // in group 3, only test has an immediate
    bool is_byte = kind == OPERAND && !(last & 1) && last != 0x68;
    int count = kind >= 0 ? kind : kind == FULL ? width : is_byte ? 1 : width > 4 ? 4 : width;
    for (int i = 0; i < count; i++) *to++ = (uint8_t)work_random(&random_state);
    return (size_t)(to - bytes);
}

static uint64_t draw_word(void) {
    static const uint64_t special[] = {0,          1,          UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                       0x80000000, 0x7fffffff, 0x8000,     0x7f,      0x80};
    uint64_t word = work_random(&random_state);
    switch (draw(4)) {
    case 0: return special[draw(sizeof special / sizeof *special)];
    case 1: return word & 63;
    case 2: return (uint64_t)(int64_t)(int32_t)word;
    }
    return word;
}

static void draw_state(int base) {
    for (int i = 0; i < 16; i++) {
        before->registers[i] = draw_word();
        before->vectors[i][0] = draw_word(), before->vectors[i][1] = draw_word();
    }
    if (draw(3) == 0) before->registers[draw(16)] = before->registers[0];
    before->registers[RSP] = (uint64_t)(after->memory + BASE_AT);
    if (base >= 0) before->registers[base] = (uint64_t)(after->memory + BASE_AT);
    before->flags = 0x202;
    for (int i = 0; i < 5; i++) before->flags |= draw(2) << flag_places[i];
    for (int i = 0; i < MEMORY_BYTES; i += 8) {
        uint64_t word = draw(3) ? draw_word() : before->registers[0];
        memcpy(before->memory + i, &word, sizeof word);
    }
}

static void check_instruction(bool all, uint64_t counts[2]) {
    static struct machine m;
    uint8_t bytes[24] = {0};
    char text[64], *to = text;
    int base;
    size_t count = draw_instruction(bytes, &base);
    draw_state(base);
    start(&m, base, all);
    for (size_t i = 0; i < count; i++) to += sprintf(to, "%02x", bytes[i]);
    struct zg_step_target target;
    enum zg_step step = zg_arch_step(&m.cpu, bytes, 15, &target);
    if (all) counts[0]++;
    if (step != zg_step_next) return; // the step does not emulate the instruction
    if (!CHECK_EQUAL(m.cpu.pc, count, text)) return;
    run_natively(bytes, count);
    int whole = compare(&m, text);
    if (all) counts[1] += whole == 16;
}

int main(void) {
    // Code and both states have 32-bit addresses. The code starts at offset 64, because UBSan reads memory in front of
    // a called function.
    uint8_t *room =
        mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (!CHECK(room != MAP_FAILED, "memory below 2 GiB that can be executed")) return check_end();
    code = room + 64, before = (struct state *)(room + 4096), after = (struct state *)(room + 2 * 4096);
    uint64_t counts[2] = {0}; // instructions that ran with all bits known, and those that left all registers known
    for (int i = 0; i < ROUNDS; i++) check_instruction(i & 1, counts);
    CHECK(counts[1] > counts[0] * 8 / 10, "what is known before is known afterwards");
    return check_end();
}
