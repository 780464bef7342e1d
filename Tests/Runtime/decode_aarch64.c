// Decodes AArch64 instructions: a table of words with their accesses, and random words.
// link: runtime
// libs: -DZG_ARCH_FOREIGN

#include <string.h>

#include "check.h"
#include "platform/arch.h"
#include "platform/arch_aarch64_decode.h"

#if !defined(__aarch64__)
// On another processor the runtime lacks this decoder, so the test contains it.
#include "platform/arch_aarch64_decode.c"
#endif

enum { NONE = ZG_A64_NONE, SP = 31 };

struct row {
    const char *text;
    uint32_t word; // encoding by clang's assembler
    enum zg_fault_access access;
    uint8_t bytes; // size of each register; total size if there are more than two
    uint8_t base, index;
};

// clang-format off
static const struct row rows[] = {
    {"ldr x1, [x0]", 0xf9400001, zg_fault_read, 8, 0, NONE},
    {"ldr w1, [x0, #8]", 0xb9400801, zg_fault_read, 4, 0, NONE},
    {"ldrb w1, [x12, x3]", 0x38636981, zg_fault_read, 1, 12, 3},
    {"ldrsh x1, [x12, w3, sxtw #1]", 0x78a3d981, zg_fault_read, 2, 12, 3},
    {"ldrsw x1, [x12, #-4]!", 0xb89fcd81, zg_fault_read, 4, 12, NONE},
    {"ldr x1, [sp], #16", 0xf84107e1, zg_fault_read, 8, SP, NONE},
    {"ldr x1, [x20, x21, lsl #3]", 0xf8757a81, zg_fault_read, 8, 20, 21},
    {"ldur x1, [x0, #-7]", 0xf85f9001, zg_fault_read, 8, 0, NONE},
    {"ldtr w1, [x0, #4]", 0xb8404801, zg_fault_read, 4, 0, NONE},
    {"ldr b0, [x9]", 0x3d400120, zg_fault_read, 1, 9, NONE},
    {"ldr q0, [x9, #32]", 0x3dc00920, zg_fault_read, 16, 9, NONE},
    {"ldr q7, [x9, x10, lsl #4]", 0x3cea7927, zg_fault_read, 16, 9, 10},
    {"ldr x3, .+64", 0x58000203, zg_fault_read, 8, NONE, NONE},
    {"ldrsw x3, .+64", 0x98000203, zg_fault_read, 4, NONE, NONE},
    {"ldr q3, .-64", 0x9cfffe03, zg_fault_read, 16, NONE, NONE},
    {"ldp x1, x2, [x0]", 0xa9400801, zg_fault_read, 8, 0, NONE},
    {"ldp w1, w2, [x0, #8]!", 0x29c10801, zg_fault_read, 4, 0, NONE},
    {"ldp x29, x30, [sp], #32", 0xa8c27bfd, zg_fault_read, 8, SP, NONE},
    {"ldpsw x1, x2, [x0, #4]", 0x69408801, zg_fault_read, 4, 0, NONE},
    {"ldp q0, q1, [x3, #32]", 0xad410460, zg_fault_read, 16, 3, NONE},
    {"ldnp x1, x2, [x0]", 0xa8400801, zg_fault_read, 8, 0, NONE},
    {"ldxr x1, [x0]", 0xc85f7c01, zg_fault_write, 8, 0, NONE},
    {"ldaxr w1, [x0]", 0x885ffc01, zg_fault_write, 4, 0, NONE},
    {"ldxrb w1, [x0]", 0x085f7c01, zg_fault_write, 1, 0, NONE},
    {"ldxp x1, x2, [x0]", 0xc87f0801, zg_fault_write, 8, 0, NONE},
    {"ldaxp w1, w2, [sp]", 0x887f8be1, zg_fault_write, 4, SP, NONE},
    {"ldar x1, [x0]", 0xc8dffc01, zg_fault_read, 8, 0, NONE},
    {"ldarh w1, [x0]", 0x48dffc01, zg_fault_read, 2, 0, NONE},
    {"ldlar x1, [x0]", 0xc8df7c01, zg_fault_read, 8, 0, NONE},
    {"ldapr x1, [x0]", 0xf8bfc001, zg_fault_read, 8, 0, NONE},
    {"ldapur w1, [x0, #-8]", 0x995f8001, zg_fault_read, 4, 0, NONE},
    {"ldapursw x1, [x0, #8]", 0x99808001, zg_fault_read, 4, 0, NONE},
    {"ldraa x1, [x0, #16]", 0xf8202401, zg_fault_read, 8, 0, NONE},
    {"ldrab x1, [x0, #-16]!", 0xf8ffec01, zg_fault_read, 8, 0, NONE},
    {"prfm pldl1keep, [x0]", 0xf9800000, zg_fault_read, 0, 0, NONE},
    {"prfm pstl1keep, [x0, x1]", 0xf8a16810, zg_fault_read, 0, 0, 1},
    {"prfum pldl1keep, [x0, #-3]", 0xf89fd000, zg_fault_read, 0, 0, NONE},
    {"dc civac, x5", 0xd50b7e25, zg_fault_read, 0, 5, NONE},
    {"dc cvau, x5", 0xd50b7b25, zg_fault_read, 0, 5, NONE},
    {"ic ivau, x5", 0xd50b7525, zg_fault_read, 0, 5, NONE},
    {"ldg x1, [x0]", 0xd9600001, zg_fault_read, 16, 0, NONE},
    {"ld1 { v0.16b, v1.16b, v2.16b, v3.16b }, [x0]", 0x4c402000, zg_fault_read, 64, 0, NONE},
    {"ld2 { v0.2d, v1.2d }, [x0], #32", 0x4cdf8c00, zg_fault_read, 32, 0, NONE},
    {"ld3 { v0.4s, v1.4s, v2.4s }, [x0], x7", 0x4cc74800, zg_fault_read, 48, 0, 7},
    {"ld1 { v0.s }[1], [x0]", 0x0d409000, zg_fault_read, 4, 0, NONE},
    {"ld1r { v0.2d }, [x0]", 0x4d40cc00, zg_fault_read, 8, 0, NONE},
    {"ld4r { v0.2d, v1.2d, v2.2d, v3.2d }, [x0], #32", 0x4dffec00, zg_fault_read, 32, 0, NONE},
    {"ld1b { z0.b }, p0/z, [x0]", 0xa400a000, zg_fault_read, 0, 0, NONE},
    {"ld1d { z0.d }, p0/z, [x0, x1, lsl #3]", 0xa5e14000, zg_fault_read, 0, 0, NONE},
    {"ldr z0, [x3]", 0x85804060, zg_fault_read, 0, 3, NONE},
    {"ldr p0, [x3]", 0x85800060, zg_fault_read, 0, 3, NONE},
    {"ldff1b { z0.b }, p0/z, [x0, x1]", 0xa4016000, zg_fault_read, 0, 0, NONE},
    {"ld1w { z0.d }, p0/z, [x0, z1.d]", 0xc541c000, zg_fault_read, 0, 0, NONE},
    {"ld1d { z0.d }, p0/z, [z1.d, #8]", 0xc5a1c020, zg_fault_read, 0, NONE, NONE},
    {"ld64b x0, [x8]", 0xf83fd100, zg_fault_read, 64, 8, NONE},
    {"str x1, [x0]", 0xf9000001, zg_fault_write, 8, 0, NONE},
    {"str xzr, [x0, #8]", 0xf900041f, zg_fault_write, 8, 0, NONE},
    {"str w1, [x0, #4]", 0xb9000401, zg_fault_write, 4, 0, NONE},
    {"strb w1, [x0, x9]", 0x38296801, zg_fault_write, 1, 0, 9},
    {"strh w1, [x0, #2]!", 0x78002c01, zg_fault_write, 2, 0, NONE},
    {"str x30, [sp, #-16]!", 0xf81f0ffe, zg_fault_write, 8, SP, NONE},
    {"stur x1, [x0, #-1]", 0xf81ff001, zg_fault_write, 8, 0, NONE},
    {"sttrh w1, [x0]", 0x78000801, zg_fault_write, 2, 0, NONE},
    {"str q0, [x9, #32]", 0x3d800920, zg_fault_write, 16, 9, NONE},
    {"str d0, [x9], #8", 0xfc008520, zg_fault_write, 8, 9, NONE},
    {"stp x29, x30, [sp, #-32]!", 0xa9be7bfd, zg_fault_write, 8, SP, NONE},
    {"stp wzr, wzr, [x0]", 0x29007c1f, zg_fault_write, 4, 0, NONE},
    {"stp q0, q1, [x3, #-32]", 0xad3f0460, zg_fault_write, 16, 3, NONE},
    {"stnp x1, x2, [x0, #16]", 0xa8010801, zg_fault_write, 8, 0, NONE},
    {"stxr w3, x1, [x0]", 0xc8037c01, zg_fault_write, 8, 0, NONE},
    {"stlxr w3, w1, [x0]", 0x8803fc01, zg_fault_write, 4, 0, NONE},
    {"stxp w3, x1, x2, [x0]", 0xc8230801, zg_fault_write, 8, 0, NONE},
    {"stlr x1, [x0]", 0xc89ffc01, zg_fault_write, 8, 0, NONE},
    {"stlrb w1, [x0]", 0x089ffc01, zg_fault_write, 1, 0, NONE},
    {"stllr x1, [x0]", 0xc89f7c01, zg_fault_write, 8, 0, NONE},
    {"stlur w1, [x0, #-8]", 0x991f8001, zg_fault_write, 4, 0, NONE},
    {"ldadd x1, x2, [x0]", 0xf8210002, zg_fault_write, 8, 0, NONE},
    {"ldaddal w1, w2, [x0]", 0xb8e10002, zg_fault_write, 4, 0, NONE},
    {"stadd x1, [x0]", 0xf821001f, zg_fault_write, 8, 0, NONE},
    {"ldclr x1, x2, [x0]", 0xf8211002, zg_fault_write, 8, 0, NONE},
    {"ldeor x1, x2, [x0]", 0xf8212002, zg_fault_write, 8, 0, NONE},
    {"ldsetb w1, w2, [x0]", 0x38213002, zg_fault_write, 1, 0, NONE},
    {"ldsmax x1, x2, [x0]", 0xf8214002, zg_fault_write, 8, 0, NONE},
    {"ldumin x1, x2, [x0]", 0xf8217002, zg_fault_write, 8, 0, NONE},
    {"swpal x1, x2, [x0]", 0xf8e18002, zg_fault_write, 8, 0, NONE},
    {"cas x1, x2, [x0]", 0xc8a17c02, zg_fault_write, 8, 0, NONE},
    {"casal w1, w2, [x0]", 0x88e1fc02, zg_fault_write, 4, 0, NONE},
    {"casab w1, w2, [x0]", 0x08e17c02, zg_fault_write, 1, 0, NONE},
    {"caspal x0, x1, x2, x3, [x4]", 0x4860fc82, zg_fault_write, 8, 4, NONE},
    {"casp w0, w1, w2, w3, [x4]", 0x08207c82, zg_fault_write, 4, 4, NONE},
    {"dc zva, x5", 0xd50b7425, zg_fault_write, 64, 5, NONE},
    {"stg x1, [x0]", 0xd9200801, zg_fault_write, 16, 0, NONE},
    {"st2g sp, [x0, #32]", 0xd9a0281f, zg_fault_write, 32, 0, NONE},
    {"stzg x1, [x0], #16", 0xd9601401, zg_fault_write, 16, 0, NONE},
    {"stgp x1, x2, [x0, #16]", 0x69008801, zg_fault_write, 8, 0, NONE},
    {"st1 { v0.16b, v1.16b, v2.16b, v3.16b }, [x0]", 0x4c002000, zg_fault_write, 64, 0, NONE},
    {"st1 { v0.h }[7], [x0], #2", 0x4d9f5800, zg_fault_write, 2, 0, NONE},
    {"st3 { v0.d, v1.d, v2.d }[1], [x0]", 0x4d00a400, zg_fault_write, 24, 0, NONE},
    {"st1b { z0.b }, p0, [x0, x1]", 0xe4014000, zg_fault_write, 0, 0, NONE},
    {"str z0, [x3]", 0xe5804060, zg_fault_write, 0, 3, NONE},
    {"st1d { z0.d }, p0, [z1.d]", 0xe5c0a020, zg_fault_write, 0, NONE, NONE},
    {"cpyfp [x0]!, [x1]!, x2!", 0x19010440, zg_fault_unknown, 0, 0, 1},
    {"cpym [x0]!, [x1]!, x2!", 0x1d410440, zg_fault_unknown, 0, 0, 1},
    {"setp [x0]!, x1!, x2", 0x19c20420, zg_fault_write, 0, 0, NONE},
    {"st64b x0, [x8]", 0xf83f9100, zg_fault_write, 64, 8, NONE},
    {"br x16", 0xd61f0200, zg_fault_execute, 0, 16, NONE},
    {"blr x8", 0xd63f0100, zg_fault_execute, 0, 8, NONE},
    {"ret", 0xd65f03c0, zg_fault_execute, 0, 30, NONE},
    {"ret x5", 0xd65f00a0, zg_fault_execute, 0, 5, NONE},
    {"braa x1, x2", 0xd71f0822, zg_fault_execute, 0, 1, NONE},
    {"blraaz x1", 0xd63f083f, zg_fault_execute, 0, 1, NONE},
    {"retaa", 0xd65f0bff, zg_fault_execute, 0, 30, NONE},
    {"b .+64", 0x14000010, zg_fault_unknown, 0, NONE, NONE},
    {"bl .+64", 0x94000010, zg_fault_unknown, 0, NONE, NONE},
    {"cbz x0, .+8", 0xb4000040, zg_fault_unknown, 0, NONE, NONE},
    {"tbnz x0, #5, .+8", 0x37280040, zg_fault_unknown, 0, NONE, NONE},
    {"b.ne .+8", 0x54000041, zg_fault_unknown, 0, NONE, NONE},
    {"add x0, x1, #8", 0x91002020, zg_fault_unknown, 0, NONE, NONE},
    {"adrp x0, .+4096", 0x90000000, zg_fault_unknown, 0, NONE, NONE},
    {"mov x0, x1", 0xaa0103e0, zg_fault_unknown, 0, NONE, NONE},
    {"movz x0, #5", 0xd28000a0, zg_fault_unknown, 0, NONE, NONE},
    {"fadd v0.2d, v1.2d, v2.2d", 0x4e62d420, zg_fault_unknown, 0, NONE, NONE},
    {"fmov x0, d0", 0x9e660000, zg_fault_unknown, 0, NONE, NONE},
    {"mul x0, x1, x2", 0x9b027c20, zg_fault_unknown, 0, NONE, NONE},
    {"nop", 0xd503201f, zg_fault_unknown, 0, NONE, NONE},
    {"paciasp", 0xd503233f, zg_fault_unknown, 0, NONE, NONE},
    {"bti c", 0xd503245f, zg_fault_unknown, 0, NONE, NONE},
    {"svc #0", 0xd4000001, zg_fault_unknown, 0, NONE, NONE},
    {"brk #1", 0xd4200020, zg_fault_unknown, 0, NONE, NONE},
    {"udf #0", 0x00000000, zg_fault_unknown, 0, NONE, NONE},
    {"mrs x0, tpidr_el0", 0xd53bd040, zg_fault_unknown, 0, NONE, NONE},
    {"dmb ish", 0xd5033bbf, zg_fault_unknown, 0, NONE, NONE},
    {"clrex", 0xd5033f5f, zg_fault_unknown, 0, NONE, NONE},
    {"addvl sp, sp, #-1", 0x043f57ff, zg_fault_unknown, 0, NONE, NONE},
    {"irg x0, x1", 0x9adf1020, zg_fault_unknown, 0, NONE, NONE},
};
// clang-format on

// clang-format off
static const struct {
    const char *text;
    uint32_t word;
    uint8_t first, second, status;
    uint8_t signed_to, update, extend, shift;
    int64_t offset;
} parts[] = {
    {"ldr x1, [x0, #32760]", 0xf97ffc01, 1, NONE, NONE, 0, zg_a64_stays, 3, 0, 32760},
    {"ldr x1, [x0, #-8]!", 0xf85f8c01, 1, NONE, NONE, 0, zg_a64_before, 3, 0, -8},
    {"ldr x1, [sp], #16", 0xf84107e1, 1, NONE, NONE, 0, zg_a64_after, 3, 0, 16},
    {"ldrsb x1, [x0]", 0x39800001, 1, NONE, NONE, 8, zg_a64_stays, 3, 0, 0},
    {"ldrsb w1, [x0]", 0x39c00001, 1, NONE, NONE, 4, zg_a64_stays, 3, 0, 0},
    {"ldrsw x1, [x12, w3, sxtw #2]", 0xb8a3d981, 1, NONE, NONE, 8, zg_a64_stays, 6, 2, 0},
    {"ldr x1, [x20, w21, uxtw #3]", 0xf8755a81, 1, NONE, NONE, 0, zg_a64_stays, 2, 3, 0},
    {"ldr x1, [x20, w21, uxtw]", 0xf8754a81, 1, NONE, NONE, 0, zg_a64_stays, 2, 0, 0},
    {"ldr q1, [x20, x21, lsl #4]", 0x3cf57a81, 1, NONE, NONE, 0, zg_a64_stays, 3, 4, 0},
    {"strb w1, [x0, x9]", 0x38296801, 1, NONE, NONE, 0, zg_a64_stays, 3, 0, 0},
    {"ldur x1, [x0, #-256]", 0xf8500001, 1, NONE, NONE, 0, zg_a64_stays, 3, 0, -256},
    {"ldr x3, .+1048572", 0x587fffe3, 3, NONE, NONE, 0, zg_a64_stays, 3, 0, 1048572},
    {"ldr x3, .-1048576", 0x58800003, 3, NONE, NONE, 0, zg_a64_stays, 3, 0, -1048576},
    {"ldp x1, x2, [x0, #504]", 0xa95f8801, 1, 2, NONE, 0, zg_a64_stays, 3, 0, 504},
    {"ldp x1, x2, [x0, #-512]!", 0xa9e00801, 1, 2, NONE, 0, zg_a64_before, 3, 0, -512},
    {"ldp w1, w2, [sp], #8", 0x28c10be1, 1, 2, NONE, 0, zg_a64_after, 3, 0, 8},
    {"ldpsw x1, x2, [x0, #-4]", 0x697f8801, 1, 2, NONE, 8, zg_a64_stays, 3, 0, -4},
    {"ldp q0, q1, [x3, #-1024]", 0xad600460, 0, 1, NONE, 0, zg_a64_stays, 3, 0, -1024},
    {"stp xzr, x2, [x0]", 0xa900081f, 31, 2, NONE, 0, zg_a64_stays, 3, 0, 0},
    {"ldaxp x1, x2, [x0]", 0xc87f8801, 1, 2, NONE, 0, zg_a64_stays, 3, 0, 0},
    {"stlxp w3, x1, x2, [x0]", 0xc8238801, 1, 2, 3, 0, zg_a64_stays, 3, 0, 0},
    {"ldaddal x1, x2, [x0]", 0xf8e10002, 2, NONE, 1, 0, zg_a64_stays, 3, 0, 0},
    {"casal x1, x2, [x0]", 0xc8e1fc02, 2, NONE, 1, 0, zg_a64_stays, 3, 0, 0},
    {"caspal x0, x1, x2, x3, [x4]", 0x4860fc82, 2, 3, 0, 0, zg_a64_stays, 3, 0, 0},
    {"swpal x1, xzr, [x0]", 0xf8e1801f, 31, NONE, 1, 0, zg_a64_stays, 3, 0, 0},
    {"ldapur x1, [x0, #-8]", 0xd95f8001, 1, NONE, NONE, 0, zg_a64_stays, 3, 0, -8},
    {"ldapursb w1, [x0, #255]", 0x19cff001, 1, NONE, NONE, 4, zg_a64_stays, 3, 0, 255},
    {"ldraa x1, [x0, #-4096]!", 0xf8600c01, 1, NONE, NONE, 0, zg_a64_before, 3, 0, -4096},
    {"stgp x1, x2, [x0, #-1024]", 0x69200801, 1, 2, NONE, 0, zg_a64_stays, 3, 0, -1024},
    {"st1 { v0.16b, v1.16b }, [x0], #32", 0x4c9fa000, NONE, NONE, NONE, 0, zg_a64_after, 3, 0, 32},
    {"ld1 { v0.16b }, [x0], x9", 0x4cc97000, NONE, NONE, NONE, 0, zg_a64_after, 3, 0, 0},
};
// clang-format on

static enum zg_fault_access access_of(struct zg_a64 it) {
    switch (it.kind) {
    case zg_a64_other:
    case zg_a64_copy: break; // depends on the address
    case zg_a64_load:
    case zg_a64_read: return zg_fault_read;
    case zg_a64_jump:
    case zg_a64_call:
    case zg_a64_return: return zg_fault_execute;
    default: return zg_fault_write;
    }
    return zg_fault_unknown;
}

static void check_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct zg_a64 it = zg_a64_decode(row->word);
        CHECK_EQUAL(access_of(it), row->access, row->text);
        CHECK_EQUAL(it.bytes, row->bytes, row->text);
        CHECK_EQUAL(it.base, row->base, row->text);
        CHECK_EQUAL(it.index, row->index, row->text);
    }
}

static void check_parts(void) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct zg_a64 it = zg_a64_decode(parts[i].word);
        CHECK_EQUAL(it.first, parts[i].first, parts[i].text);
        CHECK_EQUAL(it.second, parts[i].second, parts[i].text);
        CHECK_EQUAL(it.status, parts[i].status, parts[i].text);
        CHECK_EQUAL(it.signed_to, parts[i].signed_to, parts[i].text);
        CHECK_EQUAL(it.update, parts[i].update, parts[i].text);
        CHECK_EQUAL(it.extend, parts[i].extend, parts[i].text);
        CHECK_EQUAL(it.shift, parts[i].shift, parts[i].text);
        CHECK_EQUAL(it.offset, parts[i].offset, parts[i].text);
    }
}

// Random words: the decoder returns only registers that exist.
static void check_any(void) {
    uint64_t state = 99;
    for (int i = 0; i < 2000000; i++) {
        uint32_t word = (uint32_t)work_random(&state);
        if (i % 2) word = (word & ~0x0a000000u) | 0x08000000;
        struct zg_a64 it = zg_a64_decode(word);
        bool is_good = (it.base < 32 || it.base == NONE) && (it.index < 32 || it.index == NONE) && it.count <= 2 &&
                       (it.first < 32 || (it.first == NONE && !it.count)) && (it.count == 2) == (it.second < 32) &&
                       it.shift <= 4 && it.update <= zg_a64_after;
        char text[32];
        snprintf(text, sizeof text, "parts of %08" PRIx32, word);
        if (!CHECK(is_good, text)) return;
    }
}

#if defined(__aarch64__)
// Tests the functions that the fault handler calls with the bytes of an instruction.
static void check_asked(void) {
    struct zg_registers registers = {.known = ~UINT64_C(0)};
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) registers.value[i] = 0x1000 + (uint64_t)i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        uint8_t bytes[16] = {0};
        uint64_t values[2] = {0, 0}, place;
        memcpy(bytes, &row->word, sizeof row->word);
        CHECK_EQUAL(zg_arch_decode_access(bytes, 16), row->access, row->text);
        CHECK_EQUAL(zg_arch_decode_access(bytes, 3), zg_fault_unknown, row->text);
        CHECK(zg_arch_may_load_pointer(bytes, 3), row->text);
        CHECK(!zg_arch_call_target_place(bytes, 16, &registers, &place), row->text);
        bool is_added_later = strstr(row->text, "], x") != NULL;
        int wanted = (row->base != NONE) + (row->index != NONE && !is_added_later);
        if (CHECK_EQUAL(zg_arch_operand_registers(bytes, 4, &registers, values), wanted, row->text) && wanted)
            CHECK_EQUAL(values[wanted - 1], registers.value[row->base], row->text);
        if (wanted == 2) CHECK_EQUAL(values[0], registers.value[row->index], row->text);
        bool is_load = row->access == zg_fault_read || !strncmp(row->text, "ldxr", 4) ||
                       !strncmp(row->text, "ldaxr", 5) || !strncmp(row->text, "ldxp", 4) ||
                       !strncmp(row->text, "ldaxp", 5);
        bool is_word = is_load && row->bytes == 8 && row->text[0] == 'l' && !strstr(row->text, "{");
        CHECK_EQUAL(zg_arch_may_load_pointer(bytes, 4), is_word, row->text);
    }
}
#endif

int main(void) {
    check_rows();
    check_parts();
    check_any();
#if defined(__aarch64__)
    check_asked();
#endif
    return check_end();
}
