// The control flow of the lookahead emulator: calls, returns, and branches on unknown bits. Emulates both paths of such
// a branch, and retains the uses that both paths have in common. Signal context; pure, no lock.

#include "platform/lookahead_machine.h"
#include "platform/text.h"

enum { STEPS = 12000, STEPS_INSIDE = 1500, FORKS = 8, CALLS = 12, RETURNS = 16, CODE = 64, NOWHERE = -1 };
// Greatest distance between a PLT stub and the target of its GOT slot while the unbound slot points into the PLT.
#define STUBS ((uint64_t)1 << 20)

enum end { goes_on, ends, is_dead_end }; // is_dead_end: the code terminates the program

struct run {
    int steps, forks;
    bool gave_up; // the limit of instructions or of unknown branches is reached
    // The emulated code is in a function that enter_asking entered while `forks` was 0. There, enter_asking enters no
    // further function.
    bool is_leaf;
    uint64_t code_at;
    int code_count;
    uint8_t code[CODE];
};

static const struct zg_lookahead_registers *const numbers = &zg_arch_lookahead_registers;

static struct zg_known_bits self_of(const struct zg_lookahead_machine *m) { return m->cpu.registers[numbers->self]; }
static struct zg_known_bits argument(const struct zg_lookahead_machine *m, int index) {
    return m->cpu.registers[numbers->arguments[index]];
}

// --- calls -----------------------------------------------------------------------------------------------------------

struct function {
    struct zg_known_bits code;
    const char *symbol; // NULL unless only the symbol is known
};

// Resolves a PLT stub; other code is returned unchanged. Until the first call binds the stub's GOT slot (lazy binding),
// only the symbol of the function is known.
static struct function behind_stub(struct zg_lookahead_machine *m, struct zg_known_bits at) {
    uint64_t start = at.bits, place;
    uint64_t slot = zg_known_bits_is_whole(at) ? zg_arch_stub_place(&m->found, start) : 0;
    if (!slot || m->found.read(&place, slot, sizeof place) != sizeof place) return (struct function){at, NULL};
    const char *symbol = place - start < STUBS || start - place < STUBS ? m->found.called_through(start, slot) : NULL;
    return (struct function){symbol ? zg_known_bits_none() : zg_known_bits_word(place), symbol};
}

static bool holds_object(struct zg_lookahead_machine *m, struct zg_known_bits value) {
    if (!zg_known_bits_is_whole(value)) return false;
    if (value.bits == m->found.object) return true;
    if (value.bits & 7 || !zg_lookahead_is_stack(m, value.bits)) return false;
    struct zg_known_bits word = zg_lookahead_word(m, value.bits);
    return zg_known_bits_is_whole(word) && word.bits == m->found.object;
}

// Returns the register of the first argument that is the object, or the address of a stack variable that holds the
// object; NOWHERE if there is none. Ignores a register that still holds the result of a call, because it is possibly no
// argument.
static int first_passing(struct zg_lookahead_machine *m) {
    for (int i = m->is_result_left; i < numbers->argument_count; i++)
        if (holds_object(m, argument(m, i))) return numbers->arguments[i];
    return NOWHERE;
}

// Notes that a call has returned. If results and first arguments share a register (arm64), that register need not hold
// an argument of the next call.
static void leave_result(struct zg_lookahead_machine *m) {
    m->is_result_left = numbers->result == numbers->arguments[0];
    m->asks_result = false;
}

static void forget_vectors(struct zg_lookahead_machine *m) {
    for (int i = 0; i < ZG_CPU_REGISTERS; i++) m->cpu.vectors[i][0] = m->cpu.vectors[i][1] = zg_known_bits_none();
    m->cpu.known_flags = 0;
}

// Forgets the registers that a skipped function may change, and notes the stack variables that it may write to.
static void forget_call(struct zg_lookahead_machine *m) {
    for (int i = 0; i < numbers->argument_count; i++) {
        struct zg_known_bits value = argument(m, i);
        if (!zg_known_bits_is_whole(value) || !zg_lookahead_is_stack(m, value.bits) ||
            m->doubt_count == ZG_LOOKAHEAD_DOUBTS)
            continue;
        m->doubts[m->doubt_count++] = value.bits;
    }
    for (int i = 0; i < ZG_CPU_REGISTERS; i++)
        if (numbers->changed >> i & 1) m->cpu.registers[i] = zg_known_bits_none();
    forget_vectors(m);
}

// Adds a use if a function receives the address of a property. The first argument of swift_beginAccess is such an
// address, and the third holds flags, of which bit 0 announces a write (ExclusivityFlags).
static bool passes_property(struct zg_lookahead_machine *m) {
    int places[] = {numbers->arguments[0], numbers->arguments[1], numbers->self};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(places); i++) {
        struct zg_known_bits value = m->cpu.registers[places[i]], flags = argument(m, 2);
        if (!zg_known_bits_is_whole(value) || !zg_lookahead_is_object(m, value.bits) ||
            value.bits - m->found.object < 16)
            continue;
        zg_lookahead_add_property(m, value.bits,
                                  i == 0 && zg_known_bits_is_whole(flags) && (flags.bits | 0x20) == 0x21);
        return true;
    }
    return false;
}

// Adds `by` references to the object's counts, as swift_retain and swift_release do. False if that ends the emulation.
static bool count(struct zg_lookahead_machine *m, int64_t by) {
    struct zg_known_bits counts, place = zg_known_bits_word(m->found.object + 8);
    return zg_lookahead_load(&m->cpu, place, 8, &counts) && zg_known_bits_is_whole(counts) &&
           zg_lookahead_store(&m->cpu, place, 8, zg_known_bits_word(counts.bits + (uint64_t)by * m->found.count_step));
}

// Skips a function. A function of the program may write to any memory but this stack, throw, or not return, so that
// later uses are doubtful. Functions of the Swift runtime do none of this.
static enum end pass_over(struct zg_lookahead_machine *m, struct function function, uint64_t return_address) {
    bool is_runtime = function.symbol ? zg_string_begins(function.symbol, "swift_")
                                      : zg_known_bits_is_whole(function.code) &&
                                            function.code.bits - m->found.runtime < m->found.runtime_bytes;
    forget_call(m);
    leave_result(m);
    if (!is_runtime) m->is_doubtful = true;
    m->cpu.pc = return_address;
    return goes_on;
}

// Returns true if a function receives the address of the object's counts: an outline atomic of libgcc or compiler-rt
// (such as __aarch64_cas8_relax), which takes the address after the values.
static bool passes_counts(const struct zg_lookahead_machine *m) {
    for (int i = 1; i <= 2; i++) {
        struct zg_known_bits value = argument(m, i);
        if (zg_known_bits_is_whole(value) && value.bits == m->found.object + 8) return true;
    }
    return false;
}

// Handles a call of a function that the loader has not bound yet. Only the symbol is known, so the function is skipped,
// or the emulation ends.
static enum end enter_symbol(struct zg_lookahead_machine *m, const char *symbol, int passed_in,
                             uint64_t return_address) {
    bool is_swift = zg_string_begins(symbol, "$s"), is_first = argument(m, 0).bits == m->found.object;
    // zguard decides by the symbol whether the function is a method of the class.
    if (is_swift && self_of(m).bits == m->found.object)
        zg_lookahead_add_use(m, (struct zg_lookahead_use){.is_call = true, .symbol = symbol});
    if (is_swift && passed_in != NOWHERE && passed_in != numbers->self) return ends;
    if (!is_swift && is_first) {
        if (!zg_string_begins(symbol, "swift_retain") && !zg_string_begins(symbol, "swift_release")) return ends;
        if (!count(m, zg_string_begins(symbol, "swift_retain") ? 1 : -1)) return ends;
        pass_over(m, (struct function){zg_known_bits_none(), symbol}, return_address);
        m->cpu.registers[numbers->result] = zg_known_bits_word(m->found.object);
        return goes_on;
    }
    return pass_over(m, (struct function){zg_known_bits_none(), symbol}, return_address);
}

static enum end emulate(struct run *run, struct zg_lookahead_machine *m);

static void drop_use(struct zg_lookahead *found, int number) {
    if (number >= found->use_count) return;
    found->use_count--;
    for (int i = number; i < found->use_count; i++) found->uses[i] = found->uses[i + 1];
}

// Enters a function while the object is in the self register, or is a result in the first argument's register. The
// function may use the object, or may only preserve the register: emulates the function to see which.
static enum end enter_asking(struct run *run, struct zg_lookahead_machine *m, uint64_t target,
                             uint64_t return_address) {
    struct zg_lookahead_machine inside = *m;
    bool is_self = self_of(m).bits == m->found.object;
    if (is_self) zg_lookahead_add_use(&inside, (struct zg_lookahead_use){.is_call = true, .code = target});
    inside.outer_calls = m->calls;
    inside.uses_self = inside.uses_result = false;
    inside.asks_result = m->is_result_left && holds_object(m, m->cpu.registers[numbers->result]);
    inside.self_sp = m->cpu.registers[numbers->stack].bits;
    inside.calls++;
    inside.cpu.pc = target;
    int forks = run->forks, steps = run->steps;
    bool gave_up = run->gave_up, is_leaf = run->is_leaf;
    run->forks = forks / 2;
    run->is_leaf = forks <= 0;
    if (steps > STEPS_INSIDE) run->steps = STEPS_INSIDE;
    int allowed = run->steps;
    run->gave_up = is_leaf || !zg_arch_step_link(&inside.cpu, return_address);
    enum end end = run->gave_up ? ends : emulate(run, &inside);
    run->is_leaf = is_leaf;
    if (forks > 0) run->forks = forks - 1;
    run->steps = steps - (allowed - run->steps);
    if (end == is_dead_end) return is_dead_end;
    if (!inside.uses_self && !inside.uses_result) {
        if (is_self && run->gave_up && forks <= 0)
            zg_lookahead_add_use(m, (struct zg_lookahead_use){.is_call = true, .code = target});
        run->gave_up = gave_up;
        return pass_over(m, (struct function){zg_known_bits_word(target), NULL}, return_address);
    }
    // The function reads only the result, not self: drop the use that was added for self.
    if (is_self && !inside.uses_self) drop_use(&inside.found, m->found.use_count);
    // If an outer enter_asking examines the caller, the caller counts as a user of self or of the result, because it
    // passes that to a function that uses it.
    bool is_inside = m->calls > m->outer_calls;
    inside.uses_self = m->uses_self || (is_inside && inside.uses_self);
    inside.uses_result = m->uses_result || (is_inside && inside.uses_result && m->asks_result);
    inside.asks_result = m->asks_result;
    inside.outer_calls = m->outer_calls;
    inside.self_sp = m->self_sp;
    *m = inside;
    return ends;
}

static enum end enter(struct run *run, struct zg_lookahead_machine *m, struct zg_known_bits at,
                      uint64_t return_address) {
    int passed_in = first_passing(m);
    bool may_take_result =
        passed_in == NOWHERE && m->is_result_left && holds_object(m, m->cpu.registers[numbers->result]);
    struct function target = behind_stub(m, at);
    if (passes_property(m)) return ends;
    if (target.symbol) return enter_symbol(m, target.symbol, passed_in, return_address);
    bool counts = passed_in == NOWHERE && !may_take_result && passes_counts(m);
    if (passed_in == NOWHERE && !may_take_result && !counts) return pass_over(m, target, return_address);
    if (!zg_known_bits_is_whole(target.code) || m->calls == CALLS) return ends;
    if (may_take_result || (passed_in == numbers->self && self_of(m).bits == m->found.object))
        return enter_asking(run, m, target.code.bits, return_address);
    // Methods of a protocol that is not limited to classes receive the address of the reference. zguard decides by the
    // symbol whether the function is a method of the class.
    if (passed_in == numbers->self || self_of(m).bits == m->found.object)
        zg_lookahead_add_use(m, (struct zg_lookahead_use){.is_call = true, .code = target.code.bits});
    if (!zg_arch_step_link(&m->cpu, return_address)) return ends;
    m->calls++;
    m->cpu.pc = target.code.bits;
    return goes_on;
}

// Returns true for swift_task_switch, which resumes the task on another executor, such as an actor, at the address in
// the first argument. The async context is passed in the register for contexts (SWIFT_CC(swiftasync)).
static bool is_task_switch(const struct zg_lookahead_machine *m, uint64_t place) {
    const char *symbol = place ? m->found.called_through(m->cpu.pc, place) : NULL;
    return symbol && zg_string_begins(symbol, "swift_task_switch");
}

static enum end switch_task(struct zg_lookahead_machine *m) {
    struct zg_known_bits next = argument(m, 0);
    for (int i = 0; i < ZG_CPU_REGISTERS; i++)
        if (i != numbers->stack && i != numbers->task) m->cpu.registers[i] = zg_known_bits_none();
    forget_vectors(m);
    m->cpu.pc = next.bits;
    return zg_known_bits_is_whole(next) ? goes_on : ends;
}

// Adds the target of a jump as a call, because it may be a tail call. zguard ignores the use if no symbol begins there.
static void note_last_call(struct zg_lookahead_machine *m, uint64_t target) {
    int last = m->found.use_count - 1;
    if (self_of(m).bits != m->found.object) return;
    if (last >= 0 && m->found.uses[last].is_call && m->found.uses[last].code == target) return;
    zg_lookahead_add_use(m, (struct zg_lookahead_use){.is_call = true, .code = target});
}

static enum end jump(struct zg_lookahead_machine *m, const struct zg_step_target *target) {
    if (is_task_switch(m, target->place)) return switch_task(m);
    if (!zg_known_bits_is_whole(target->code)) return ends;
    if (target->may_be_call) note_last_call(m, target->code.bits);
    m->cpu.pc = target->code.bits;
    return goes_on;
}

static enum end leave(struct zg_lookahead_machine *m, struct zg_known_bits address) {
    if (!zg_known_bits_is_whole(address)) return ends;
    m->cpu.pc = address.bits;
    leave_result(m);
    if (m->calls) {
        m->calls--;
        return goes_on;
    }
    if (++m->returns > RETURNS) return ends;
    return goes_on;
}

// --- execution -------------------------------------------------------------------------------------------------------

static const uint8_t *fetch(struct run *run, const struct zg_lookahead_machine *m, int *count) {
    if (m->cpu.pc < run->code_at || m->cpu.pc - run->code_at + ZG_STEP_CODE > (uint64_t)run->code_count) {
        run->code_at = m->cpu.pc;
        run->code_count = (int)m->found.read(run->code, m->cpu.pc, CODE);
    }
    int at = (int)(m->cpu.pc - run->code_at), left = run->code_count - at;
    *count = left < ZG_STEP_CODE ? left : ZG_STEP_CODE;
    return run->code + at;
}

// Emulates both paths of an unknown branch, and retains the uses that both paths have in common. A path that terminates
// the program is ignored.
static enum end follow_both(struct run *run, struct zg_lookahead_machine *m, uint64_t target) {
    if (run->forks <= 0) {
        run->gave_up = true;
        return ends;
    }
    run->forks--;
    struct zg_lookahead_machine other = *m;
    other.cpu.pc = target;
    enum end one_end = emulate(run, m), other_end = emulate(run, &other);
    if (one_end == is_dead_end && other_end == is_dead_end) return is_dead_end;
    if (other_end == is_dead_end) return one_end;
    if (one_end == is_dead_end) {
        *m = other;
        return other_end;
    }
    int same = 0;
    while (same < m->found.use_count && same < other.found.use_count &&
           m->found.uses[same].is_call == other.found.uses[same].is_call &&
           m->found.uses[same].code == other.found.uses[same].code &&
           m->found.uses[same].symbol == other.found.uses[same].symbol &&
           m->found.uses[same].is_write == other.found.uses[same].is_write &&
           m->found.uses[same].byte == other.found.uses[same].byte) {
        m->found.uses[same].is_doubtful |= other.found.uses[same].is_doubtful;
        same++;
    }
    m->found.use_count = same;
    return ends;
}

static enum end emulate(struct run *run, struct zg_lookahead_machine *m) {
    while (run->steps-- > 0) {
        int count;
        const uint8_t *code = fetch(run, m, &count);
        if (count <= 0) return ends;
        bool is_inside = m->calls > m->outer_calls;
        bool may_use_self = is_inside && self_of(m).bits == m->found.object,
             may_use_result = is_inside && m->asks_result;
        struct zg_step_target target;
        enum zg_step step = zg_arch_lookahead_step(m, code, count, &target);
        if (may_use_self && m->cpu.used >> numbers->self & 1) m->uses_self = true;
        if (may_use_result && m->cpu.used >> numbers->result & 1) m->uses_result = true;
        if (m->cpu.set >> numbers->result & 1) m->is_result_left = m->asks_result = false;
        enum end end = goes_on;
        switch (step) {
        case zg_step_next: break;
        case zg_step_lost: return ends;
        case zg_step_trap: return is_dead_end;
        case zg_step_forks: return follow_both(run, m, target.code.bits);
        case zg_step_calls: end = enter(run, m, target.code, m->cpu.pc); break;
        case zg_step_jumps: end = jump(m, &target); break;
        case zg_step_returns: end = leave(m, target.code); break;
        }
        if (end != goes_on) return end;
        if (!zg_known_bits_is_whole(m->cpu.registers[numbers->stack])) return ends;
    }
    run->gave_up = true;
    return ends;
}

static void know_registers(struct zg_lookahead_machine *m, const struct zg_registers *registers) {
    for (int i = 0; i < ZG_ARCH_ENCODED_REGISTERS; i++) {
        int number = zg_arch_dwarf_number(i);
        if (registers->known >> number & 1) m->cpu.registers[i] = zg_known_bits_word(registers->value[number]);
    }
}

void zg_lookahead_run(const struct zg_registers *registers, struct zg_lookahead *lookahead) {
    struct run run = {.steps = STEPS, .forks = FORKS};
    struct zg_lookahead_machine m = {.found = *lookahead};
    m.cpu.pc = registers->pc;
    m.cpu.thread = lookahead->thread ? zg_known_bits_word(lookahead->thread) : zg_known_bits_none();
    m.cpu.load = zg_lookahead_load, m.cpu.store = zg_lookahead_store;
    if (lookahead->is_at_load) {
        know_registers(&m, registers);
    } else {
        zg_arch_lookahead_start(&m, registers);
        m.cpu.registers[numbers->result] = zg_known_bits_word(lookahead->object);
        leave_result(&m);
        count(&m, 1); // the retain
    }
    m.first_sp = m.cpu.registers[numbers->stack].bits;
    m.found.use_count = 0;
    if (!zg_known_bits_is_whole(m.cpu.registers[numbers->stack])) return;
    emulate(&run, &m);
    *lookahead = m.found;
}
