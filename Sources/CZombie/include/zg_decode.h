// What an instruction does to memory. Pure; any context.

#ifndef ZG_DECODE_H
#define ZG_DECODE_H

#include <stdint.h>

enum zg_fault_access { zg_fault_unknown, zg_fault_read, zg_fault_write, zg_fault_execute };

// From its bytes; unknown where it is not understood.
enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count);

#endif
