// Executes vector instructions on blocks that are less aligned than malloc's blocks. Signal context; no lock.

#define _GNU_SOURCE
#include "faults/unaligned.h"

#include <errno.h>

#include "blocks/span_table.h"
#include "pages/exact_ends.h"
#include "pages/private_pages.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "platform/unaligned.h"
#include "settings/stats.h"

enum { LONGEST = 16 };

// Reads the instruction at `pc`. Returns the number of bytes read; 0 if nothing is mapped there. If a filter forbids
// the system call, reads only up to the end of the page: an instruction that faulted there was mapped.
static int read_code(uint8_t code[LONGEST], uint64_t pc) {
    int64_t got = zg_os_try_read_memory(code, pc, LONGEST);
    if (got == -EFAULT) return 0;
    if (got <= 0) {
        got = (int64_t)zg_min(LONGEST, ZG_PAGE_BYTES - pc % ZG_PAGE_BYTES);
        __builtin_memcpy(code, (const void *)pc, (uint64_t)got);
    }
    return (int)got;
}

// Returns the address of the operand's first inaccessible byte; the operand's end if all of it is accessible.
static uint64_t find_inaccessible(const struct zg_span *span, uint64_t address) {
    uint64_t end = address + ZG_UNALIGNED_BYTES, data_end = span->base + zg_private_data_bytes(span);
    bool is_live = zg_header_state(__atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE)) == zg_state_live;
    if (!is_live || address >= data_end) return address;
    return end <= data_end ? end : data_end;
}

bool zg_unaligned_continue(siginfo_t *info, void *ucontext) {
    uint8_t code[LONGEST] = {0};
    struct zg_registers registers;
    struct zg_unaligned it;
    zg_arch_registers_from_context(&registers, ucontext);
    if (!zg_unaligned_read(&it, code, read_code(code, registers.pc), ucontext)) return false;
    const struct zg_span *span = it.address % ZG_UNALIGNED_BYTES ? zg_span_find(it.address) : NULL;
    if (!span || !span->protection || !(zg_load(&span->start) % ZG_UNALIGNED_BYTES)) return false;
    uint64_t inaccessible = find_inaccessible(span, it.address);
    if (inaccessible != it.address + ZG_UNALIGNED_BYTES) {
        if (it.is_masked) return false;
        zg_arch_unaligned_fail(&it, ucontext);
        info->si_addr = (void *)inaccessible;
        return false;
    }
    if (!zg_unaligned_execute(&it, ucontext)) return false;
    zg_exact_end_note_fault(span->block.alloc_stack);
    zg_stats_add(zg_counter_unaligned_accesses, 1);
    return true;
}
