// Decodes a faulting x86-64 instruction: its access to memory, and the registers that form the operand's address.
// Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch_x86_64_instructions.h"
#include "platform/step.h"

enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count) {
    struct zg_x64 it = zg_x64_read(code, count);
    if (it.map == zg_x64_map_vex || it.opcode_end + it.has_modrm > count) return zg_fault_unknown;
    return it.jumps ? zg_fault_execute : it.stores ? zg_fault_write : zg_fault_read;
}

bool zg_arch_may_load_pointer(const uint8_t *code, int count) {
    enum { MOV = 0x8b };
    struct zg_x64 it = zg_x64_read(code, count);
    if (it.map != zg_x64_map_1) return false;
    if (it.opcode_end > count) return true; // truncated before the end of the opcode
    return it.opcode == MOV && it.rex & ZG_X64_REX_W && !(it.prefixes & ZG_X64_ADDRESS_SIZE);
}

// Decodes an instruction whose r/m operand is a register, or memory addressed by registers. False for other
// instructions, RIP-relative operands, 32-bit addresses, and truncated code.
static bool read_operand(const uint8_t *code, int count, struct zg_x64 *it) {
    *it = zg_x64_read(code, count);
    return it->has_modrm && !(it->prefixes & ZG_X64_ADDRESS_SIZE) && !it->from_pc && it->operand_end <= count;
}

static uint64_t value_of(const struct zg_registers *registers, uint8_t number) {
    return registers->value[zg_arch_dwarf_number(number)];
}

int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers,
                              uint64_t values[2]) {
    struct zg_x64 it;
    int used = 0;
    if (!read_operand(code, count, &it) || !(it.in_memory || it.jumps)) return 0;
    uint8_t base = it.in_memory ? it.base : it.rm;
    if (it.index != ZG_X64_NO_REGISTER) values[used++] = value_of(registers, it.index);
    if (base != ZG_X64_NO_REGISTER) values[used++] = value_of(registers, base);
    return used;
}

bool zg_arch_loaded_from(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t value,
                         uint64_t *base, uint64_t *place) {
    enum { MOV = 0x8b };
    struct zg_x64 it;
    if (!read_operand(code, count, &it) || it.map != zg_x64_map_1 || it.opcode != MOV || !it.in_memory) return false;
    if (!(it.rex & ZG_X64_REX_W) || it.prefixes & (ZG_X64_FS | ZG_X64_GS) || it.base == ZG_X64_NO_REGISTER)
        return false;
    if (it.base == it.reg || it.index == it.reg || value_of(registers, it.reg) != value) return false;
    *base = value_of(registers, it.base);
    *place = *base + (uint64_t)it.displacement;
    if (it.index != ZG_X64_NO_REGISTER) *place += value_of(registers, it.index) << it.scale;
    return true;
}

bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place) {
    struct zg_x64 it;
    if (!read_operand(code, count, &it) || !it.jumps || !it.in_memory) return false;
    if (it.prefixes & (ZG_X64_FS | ZG_X64_GS)) return false;
    *place = (uint64_t)it.displacement;
    if (it.base != ZG_X64_NO_REGISTER) *place += value_of(registers, it.base);
    if (it.index != ZG_X64_NO_REGISTER) *place += value_of(registers, it.index) << it.scale;
    return true;
}

#endif
