// Finds where an x86-64 function keeps its return address, from the instructions between the program counter and a
// return: for functions without unwind information that have no frame pointer, such as musl's.
// Any context; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch.h"
#include "platform/arch_x86_64_instructions.h"

enum { RSP = 4, RBP = 5 }; // as instructions encode them
enum { WORD = 8 };

// A path through the code up to `pc`, and the effects of its instructions on the stack.
struct path {
    uint64_t pc;
    int64_t popped; // bytes popped minus bytes pushed
    int64_t most;   // maximum of `popped` so far: words below this offset were pushed on the path
    int64_t fp_at;  // offset from the initial stack pointer at which the frame pointer was popped; -1: not popped
};

// A branch target to follow later, with the fields of struct path. Small, because malloc and free must use little
// stack.
struct branch {
    uint32_t from_low;
    int32_t popped, most, fp_at;
};

enum { BRANCHES_MOST = 16, INSTRUCTIONS_MOST = 1500 };
struct search {
    uint64_t low, high; // readable code
    struct branch branches[BRANCHES_MOST];
    uint32_t branch_count, branches_taken, instructions;
};

enum step { step_on, step_ends, step_returns };

// Adds a branch target that is followed later. Each target is followed once, because all paths to it have popped the
// same number of bytes.
static void add_branch(struct search *search, const struct path *path, uint64_t target) {
    if (search->branch_count == BRANCHES_MOST || target < search->low || target >= search->high) return;
    uint32_t from_low = (uint32_t)(target - search->low);
    for (uint32_t i = 0; i < search->branch_count; i++)
        if (search->branches[i].from_low == from_low) return;
    search->branches[search->branch_count++] =
        (struct branch){from_low, (int32_t)path->popped, (int32_t)path->most, (int32_t)path->fp_at};
}

static enum step change_pointer(struct path *path, int64_t popped) {
    path->popped += popped;
    if (path->popped > path->most) path->most = path->popped;
    return step_on;
}

static enum step pop(struct path *path, uint8_t to) {
    if (to == RSP) return step_ends;
    if (to == RBP && path->popped >= path->most) path->fp_at = path->popped;
    return change_pointer(path, WORD);
}

// Three functions handle the instructions of the one-byte map that change the stack pointer or the program counter:
// this one, take_operation and take_jump.
static enum step take_push_or_pop(struct path *path, const struct zg_x64 *it) {
    switch (it->opcode) {
    case 0x50 ... 0x57:
    case 0x68:
    case 0x6a:
    case 0x9c: return change_pointer(path, -WORD);
    case 0x58 ... 0x5f: return pop(path, it->low);
    case 0x8f:
    case 0x9d: return change_pointer(path, WORD);
    default: return step_on;
    }
}

static enum step take_operation(struct path *path, const struct zg_x64 *it) {
    bool is_pointer = it->has_modrm && !it->in_memory && it->rm == RSP;
    switch (it->opcode) {
    case 0x81:
    case 0x83: // add, …, sub, …, cmp
        if (!is_pointer || (it->reg & 7) == 7) return step_on;
        if ((it->reg & 7) == 0) return change_pointer(path, it->immediate);
        return (it->reg & 7) == 5 ? change_pointer(path, -it->immediate) : step_ends;
    case 0x8d: // lea
        if (it->reg != RSP) return step_on;
        if (it->base != RSP || it->index != ZG_X64_NO_REGISTER) return step_ends;
        return change_pointer(path, it->displacement);
    case 0x89: return is_pointer ? step_ends : step_on; // mov to rsp
    case 0x8b: return it->reg == RSP ? step_ends : step_on;
    case 0xc8 ... 0xc9: return step_ends; // enter, leave
    default: return step_on;
    }
}

static enum step take_jump(struct search *search, struct path *path, const struct zg_x64 *it) {
    enum { JUMP = 4, FAR_JUMP = 5, PUSH = 6 };            // group 5
    uint64_t target = path->pc + (uint64_t)it->immediate; // `pc` is behind the instruction
    switch (it->opcode) {
    case 0x70 ... 0x7f: return add_branch(search, path, target), step_on;
    case 0xc2:
    case 0xc3: return step_returns;
    case 0xe9:
    case 0xeb: // a backward jump may close a loop: follow its target once
        if (target <= path->pc) return add_branch(search, path, target), step_ends;
        path->pc = target;
        return step_on;
    case 0xff:
        if ((it->reg & 7) == PUSH) return change_pointer(path, -WORD);
        return (it->reg & 7) == JUMP || (it->reg & 7) == FAR_JUMP ? step_ends : step_on;
    case 0xcc:
    case 0xcf:
    case 0xf4: return step_ends; // int3, iret, hlt
    default: return step_on;
    }
}

// Decodes the instruction at `pc`. False if it reaches beyond the code, or its length is unknown.
static bool decode(const struct search *search, uint64_t pc, struct zg_x64 *it) {
    uint64_t room = search->high - pc;
    *it = zg_x64_read((const uint8_t *)pc, room < ZG_X64_LONGEST ? (int)room : ZG_X64_LONGEST);
    return (uint64_t)it->length <= room && it->map != zg_x64_map_vex;
}

static enum step take(struct search *search, struct path *path, const struct zg_x64 *it) {
    path->pc += (uint64_t)it->length;
    if (it->map == zg_x64_map_1) {
        enum step step = take_push_or_pop(path, it);
        if (step == step_on) step = take_operation(path, it);
        return step == step_on ? take_jump(search, path, it) : step;
    }
    if (it->map != zg_x64_map_0f) return step_on;
    if (it->opcode >= 0x80 && it->opcode <= 0x8f) add_branch(search, path, path->pc + (uint64_t)it->immediate);
    return it->opcode == 0x0b ? step_ends : step_on; // ud2
}

// Returns true if `address` is the last byte of a call instruction: stack walks look up the byte in front of a return
// address.
static bool ends_call(const struct search *search, uint64_t address) {
    enum { DIRECT = 5, SHORTEST = 2, LONGEST = 8, CALL = 2 };
    uint64_t behind = address + 1;
    if (behind - DIRECT >= search->low && *(const uint8_t *)(behind - DIRECT) == 0xe8) {
        int32_t distance;
        __builtin_memcpy(&distance, (const void *)(behind - sizeof distance), sizeof distance);
        uint64_t target = behind + (uint64_t)(int64_t)distance;
        if (target >= search->low && target < search->high) return true;
    }
    for (uint64_t bytes = SHORTEST; bytes <= LONGEST && behind - bytes >= search->low; bytes++) {
        struct zg_x64 it = zg_x64_read((const uint8_t *)(behind - bytes), (int)bytes);
        if (it.map == zg_x64_map_1 && it.opcode == 0xff && (it.reg & 7) == CALL && (uint64_t)it.length == bytes)
            return true;
    }
    return false;
}

bool zg_arch_find_return(uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found) {
    struct search search = {.low = low, .high = high};
    if (pc < low || pc >= high || high - low > UINT32_MAX) return false;
    struct path path = {ends_call(&search, pc) ? pc + 1 : pc, 0, 0, -1};
    for (;;) {
        enum step step = step_ends;
        while (search.instructions++ < INSTRUCTIONS_MOST && path.pc >= low && path.pc < high) {
            struct zg_x64 it;
            step = decode(&search, path.pc, &it) ? take(&search, &path, &it) : step_ends;
            if (step != step_on) break;
        }
        if (step == step_returns && path.popped >= 0 && path.fp_at < path.popped) {
            *found = (struct zg_arch_return){(uint64_t)path.popped + WORD,
                                             path.fp_at < 0 ? 0 : (uint64_t)(path.popped + WORD - path.fp_at)};
            return true;
        }
        if (search.instructions >= INSTRUCTIONS_MOST || search.branches_taken == search.branch_count) return false;
        struct branch next = search.branches[search.branches_taken++];
        path = (struct path){low + next.from_low, next.popped, next.most, next.fp_at};
    }
}

bool zg_arch_find_return_from(uint64_t start, uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found) {
    struct search search = {.low = low, .high = high};
    struct path path = {start, 0, 0, -1};
    uint64_t fp_back = 0;
    while (path.pc < pc && path.pc < high && search.instructions++ < INSTRUCTIONS_MOST) {
        uint64_t at = path.pc;
        struct zg_x64 it;
        if (!decode(&search, at, &it)) return false;
        if (it.map == zg_x64_map_1 && it.opcode == 0x50 + RBP && it.low == RBP)
            fp_back = (uint64_t)(2 * WORD - path.popped);
        if (take(&search, &path, &it) == step_returns) return false;
        path.pc = at + (uint64_t)it.length; // jumps are not followed
    }
    if (path.popped > 0) return false;
    *found = (struct zg_arch_return){(uint64_t)(WORD - path.popped), fp_back};
    return true;
}

#endif
