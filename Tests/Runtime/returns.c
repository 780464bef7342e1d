// The CFA and the saved frame pointer found from a function's instructions equal those of libc's unwind tables.
// link: runtime
// processor: x86_64
// timeout: 60

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "images/module.h"
#include "platform/arch.h"
#include "platform/arch_x86_64_instructions.h"
#include "platform/libc.h"
#include "stacks/unwind_cfi.h"

// The binary search table of .eh_frame_hdr: start and frame description of each function, relative to the header (LSB,
// 10.6.2). Entries begin behind four encoding bytes, a pointer, a count.
struct entry {
    int32_t start, frame;
};

int main(void) {
    struct zg_module libc;
    uint64_t equal = 0, other = 0, none = 0;
    zg_module_init(true);
    CHECK(zg_module_find_unwind(zg_libc_address(), &libc), "libc is found");
    uint32_t count;
    memcpy(&count, libc.eh_frame_hdr + 8, sizeof count);
    const struct entry *entries = (const struct entry *)(libc.eh_frame_hdr + 12);
    for (uint32_t i = 0; i + 1 < count; i++) {
        uint64_t pc = (uint64_t)libc.eh_frame_hdr + (uint64_t)(int64_t)entries[i].start;
        uint64_t end = (uint64_t)libc.eh_frame_hdr + (uint64_t)(int64_t)entries[i + 1].start;
        for (int length = 1; pc < end && length; pc += (uint64_t)length) {
            struct zg_cfi_row row;
            struct zg_arch_return way;
            struct zg_x64 it = zg_x64_read((const uint8_t *)pc, ZG_X64_LONGEST);
            length = it.map == zg_x64_map_vex ? 0 : it.length;
            if (!zg_cfi_find_row(&libc, pc, &row) || row.signal_frame || row.cfa.how != zg_cfi_in_register ||
                row.cfa_register != ZG_ARCH_SP || row.registers[row.return_register].how != zg_cfi_at_offset)
                continue;
            if (!zg_arch_find_return(pc, libc.start, libc.end, &way)) {
                none++;
                continue;
            }
            // Compilers emit no CFI when they pop the frame pointer: the saved value then lies below the stack pointer.
            const struct zg_cfi_rule *fp = &row.registers[ZG_ARCH_FP];
            uint64_t fp_back = fp->how == zg_cfi_at_offset ? (uint64_t)-fp->value : 0;
            if (fp_back > (uint64_t)row.cfa.value) fp_back = 0;
            bool is_equal = way.cfa == (uint64_t)row.cfa.value && way.fp_back == fp_back;
            if (is_equal) equal++;
            else other++;
            if (!is_equal && getenv("VERBOSE"))
                printf("%#lx: cfa %lu, fp %lu instead of %ld, %lu\n", pc - libc.bias, way.cfa, way.fp_back,
                       (long)row.cfa.value, fp_back);
        }
    }
    printf("%lu instructions: %lu equal, %lu other, %lu not found\n", equal + other + none, equal, other, none);
    CHECK(equal + other > 100000, "most instructions of libc show a way back");
    // 3 % differ in Debian 12's libc: calls that do not return (__stack_chk_fail, abort) may be a function's last code.
    CHECK(other * 25 < equal, "it is the right one");
    return check_end();
}
