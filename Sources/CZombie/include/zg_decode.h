// Decodes what an instruction does to memory. Pure; any context.

#ifndef ZG_DECODE_H
#define ZG_DECODE_H

#include <stdint.h>

enum zg_fault_access { zg_fault_unknown, zg_fault_read, zg_fault_write, zg_fault_execute };

// Returns the access of the instruction in `count` bytes at `code`; zg_fault_unknown if it cannot be decoded.
enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count);

#endif
