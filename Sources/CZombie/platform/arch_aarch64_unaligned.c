// AArch64: no vector instruction needs an aligned operand.

#if defined(__aarch64__)

#include "platform/unaligned.h"

bool zg_arch_has_unaligned(void) { return false; }

bool zg_arch_unaligned_read(struct zg_unaligned *it, const uint8_t *code, int count, const void *ucontext) {
    (void)it, (void)code, (void)count, (void)ucontext;
    return false;
}

bool zg_arch_unaligned_common(uint32_t number, uint8_t code[ZG_UNALIGNED_CODE]) {
    (void)number, (void)code;
    return false;
}

void zg_arch_unaligned_run(const struct zg_unaligned *it, const void *code, void *ucontext) {
    (void)it, (void)code, (void)ucontext;
}

void zg_arch_unaligned_fail(const struct zg_unaligned *it, void *ucontext) { (void)it, (void)ucontext; }

#endif
