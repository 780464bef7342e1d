// Detours: a function's first instructions are moved and work as before; instructions that cannot move are left alone.
// processor: x86_64
// link: runtime

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "platform/arch.h"

struct row {
    const char *text;
    const char *bytes; // two hexadecimal digits each; the rest is "ret" and padding
    uint64_t result;   // result of the call f(41, 7), if `is_moved`
    bool is_moved;
};

// Code of functions f(rdi, rsi), in the encoding of the GNU assembler.
static const struct row rows[] = {
    {"push rbp; mov rbp,rsp; lea rax,[rdi+1]; pop rbp", "554889e5488d47015d", 42, true},
    {"endbr64; lea rax,[rdi+1]", "f30f1efa488d4701", 42, true},
    {"mov rax,rdi; add rax,rsi", "4889f84801f0", 48, true},
    {"push r15; push r14; push rbx; mov rax,rdi; pop rbx; pop r14; pop r15",
     "4157415653"
     "4889f8"
     "5b415e415f",
     41, true},
    {"mov eax,7; add rax,rdi", "b8070000004801f8", 48, true},
    {"movabs rax,0x100000001", "48b80100000001000000", 0x100000001, true},
    {"xor eax,eax; sub rsp,0x18; add rsp,0x18", "31c04883ec184883c418", 0, true},
    {"test rdi,rdi; mov rax,rsi", "4885ff4889f0", 7, true},
    {"cmp al,1; movzx eax,dil", "3c01400fb6c7", 41, true},
    {"mov [rsp-8],rdi; mov rax,[rsp-8]", "48897c24f8488b4424f8", 41, true},
    {"push rbp; mov rbp,rsp; lea rax,[rip+0x1000]; sub rax,rax; pop rbp",
     "554889e5"
     "488d0500100000"
     "4829c0"
     "5d",
     0, true},
    // Reads memory at the function's argument: must not move, because a fault must occur in the function itself.
    {"mov rax,[rdi+8]; nop",
     "488b4708"
     "90",
     0, false},
    {"push rbp; mov rbp,rsp; mov rax,[rdi]; pop rbp", "554889e5488b075d", 0, false},
    {"movzx eax,byte ptr [rdi]; nop; nop", "0fb6079090", 0, false},
    {"mov rax,[r12]; nop",
     "498b0424"
     "90",
     0, false},
    {"mov rax,[r13+8]; nop",
     "498b4508"
     "90",
     0, false},
    // Branches and calls.
    {"jmp +0", "eb009090909090", 0, false},
    {"test rdi,rdi; jle +0; mov rax,rsi", "4885ff7e004889f0", 0, false},
    {"call +0", "e800000000", 0, false},
    {"ret", "c39090909090", 0, false},
    // A loop whose head would be moved.
    {"xor eax,eax; inc; dec rdi; jne -7",
     "31c0"
     "4883c001"
     "4883ef01"
     "75f6",
     0, false},
    // Instructions that the decoder does not know.
    {"lock inc [rsp-8]", "f048ff4424f890", 0, false},
    {"mov ax,1 (16 bits)", "66b801009090", 0, false},
};

static uint64_t seen_argument, seen_number, seen_caller;
static int seen;

static void observe(uint64_t argument, uint64_t number, const uint64_t *frame) {
    seen++;
    seen_argument = argument;
    seen_number = number;
    seen_caller = frame[1];
    // Overwrites the registers that a callee may change: the detour has to preserve them.
    __asm__ volatile("mov $1, %%eax\n mov $2, %%ecx\n mov $3, %%edx\n mov $4, %%esi\n mov $5, %%edi\n mov $6, %%r8d\n"
                     "mov $7, %%r9d\n mov $8, %%r10d\n mov $9, %%r11d" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}

static void decode(uint8_t *to, const char *text) {
    for (unsigned byte; *text && sscanf(text, "%2x", &byte) == 1; text += 2) *to++ = (uint8_t)byte;
    *to++ = 0xc3;
}

static bool is_in(uint64_t address, uint64_t function) { return address - function < 4096; }

static void try_row(const struct row *row, uint8_t *code, uint8_t *room) {
    memset(code, 0x90, 4096);
    code += 64; // sanitizers read memory in front of a called function
    uint64_t function = (uint64_t)code;
    memset(room, 0xcc, ZG_ARCH_DETOUR_ROOM + 16);
    decode(code, row->bytes);
    uint32_t written = zg_arch_detour_write(room, function, code, 256, observe, 5);
    if (!CHECK(row->is_moved == (written != 0), row->text) || !written) return;
    CHECK(written <= ZG_ARCH_DETOUR_ROOM && room[ZG_ARCH_DETOUR_ROOM] == 0xcc, row->text);
    uint8_t jump[16];
    uint32_t count = zg_arch_detour_jump(jump, function, (uint64_t)room);
    CHECK(count > 0 && count <= 16, row->text);
    memcpy(code, jump, count);
    seen = 0;
    uint64_t (*call)(uint64_t, uint64_t);
    memcpy(&call, &function, sizeof call);
    uint64_t result = call(41, 7);
    CHECK_EQUAL(result, row->result, row->text);
    CHECK_EQUAL(seen, 1, row->text);
    CHECK_EQUAL(seen_argument, 41, row->text);
    CHECK_EQUAL(seen_number, 5, row->text);
    CHECK(is_in(seen_caller, (uint64_t)try_row), row->text);
}

int main(void) {
    uint8_t *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "pages for code");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_row(&rows[i], pages, pages + 2 * 4096);
    // The function is too far away for a jump.
    uint8_t code[64] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3}, room[ZG_ARCH_DETOUR_ROOM];
    CHECK_EQUAL(zg_arch_detour_jump(code, 0x10000, UINT64_C(0x7f0000000000)), 0, "a jump that is too long");
    CHECK_EQUAL(zg_arch_detour_write(room, 0x10000, code, sizeof code, observe, 1), 0, "a way back that is too long");
    CHECK_EQUAL(zg_arch_detour_write(pages, (uint64_t)pages + 4096, code, 8, observe, 1), 0,
                "too little of it is known");
    printf("checks %d failures %d\n", check_count, check_failures);
    return check_failures != 0;
}
