// Fuzzes the handling of a fault. The input is the state of a machine (registers, stack, instruction, addresses,
// siginfo), of a heap, of stacks, and of class metadata. Diagnosis and report must not crash, must end, must read only
// permitted memory, and must write one line of valid JSON or none.
//
// Two parts: the pure diagnosis over a made-up heap, with a report of made-up contents; and the whole handler over the
// real heap, with a made-up machine context.

#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "blocks/fill.h"
#include "blocks/slab.h"
#include "entry/entry.h"
#include "faults/diagnose.h"
#include "faults/fault.h"
#include "faults/signals.h"
#include "findings/describe.h"
#include "findings/found.h"
#include "findings/report.h"
#include "fuzz.h"
#include "pages/private_pages.h"
#include "process/ready.h"
#include "process/runtime.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "threads/thread.h"
#include "zombies/classes.h"
#include "zombies/zombie.h"

// --- the report ------------------------------------------------------------------------------------------------------

static int report_descriptor;
static char line[256 << 10];

// A JSON parser (RFC 8259) that does not check the encoding of characters over 0x7f.
struct json {
    const char *at, *end;
    int depth;
};

static bool json_value(struct json *json);

static bool json_string(struct json *json) {
    if (json->at == json->end || *json->at++ != '"') return false;
    while (json->at < json->end) {
        unsigned char c = (unsigned char)*json->at++;
        if (c == '"') return true;
        if (c < 0x20) return false;
        if (c != '\\') continue;
        if (json->at == json->end) return false;
        c = (unsigned char)*json->at++;
        if (c == 'u') {
            for (int i = 0; i < 4; i++, json->at++)
                if (json->at == json->end || !strchr("0123456789abcdefABCDEF", *json->at) || !*json->at) return false;
        } else if (!c || !strchr("\"\\/bfnrt", c)) {
            return false;
        }
    }
    return false;
}

static bool json_number(struct json *json) {
    const char *start = json->at;
    if (json->at < json->end && *json->at == '-') json->at++;
    const char *digits = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
    return json->at > digits && (*digits != '0' || json->at == digits + 1) && json->at > start;
}

static bool json_true(struct json *json) {
    for (const char *word = "true"; *word; word++)
        if (json->at == json->end || *json->at++ != *word) return false;
    return true;
}

static bool json_list(struct json *json, char close, bool named) {
    json->at++;
    if (json->at < json->end && *json->at == close) return json->at++, true;
    for (;;) {
        if (named && (!json_string(json) || json->at == json->end || *json->at++ != ':')) return false;
        if (!json_value(json) || json->at == json->end) return false;
        char c = *json->at++;
        if (c == close) return true;
        if (c != ',') return false;
    }
}

static bool json_value(struct json *json) {
    if (json->at == json->end || ++json->depth > 20) return false;
    bool valid = *json->at == '"'   ? json_string(json)
                 : *json->at == '{' ? json_list(json, '}', true)
                 : *json->at == '[' ? json_list(json, ']', false)
                 : *json->at == 't' ? json_true(json)
                                    : json_number(json);
    json->depth--;
    return valid;
}

static uint64_t read_report(void) {
    int64_t count = pread(report_descriptor, line, sizeof line - 1, 0);
    CHECK(count >= 0 && ftruncate(report_descriptor, 0) == 0);
    line[count] = 0;
    return (uint64_t)count;
}

static void check_report(bool wanted) {
    uint64_t count = read_report();
    CHECK(!wanted || count, "no report");
    if (!count) return;
    CHECK(line[count - 1] == '\n' && memchr(line, '\n', count) == line + count - 1, "not one line: %s", line);
    struct json json = {line, line + count - 1, 0};
    CHECK(line[0] == '{' && json_value(&json) && json.at == json.end, "not JSON from here: %.80s\n  of %s", json.at,
          line);
}

// --- a heap that the input makes up ----------------------------------------------------------------------------------

#define HEAP UINT64_C(0x610000000000)
enum { HEAP_BYTES = 1 << 22, BLOCKS = 6, ZOMBIES = 3, STACKS = 4 };

static struct zg_block_view views[BLOCKS];
static bool isolated[BLOCKS];
static int view_count;
static struct zg_zombie_hit hits[ZOMBIES];
static uint64_t hit_starts[ZOMBIES];
static uint32_t stacks[STACKS];
static unsigned char *metadata;
static uint64_t metadata_bytes;
static uint32_t classes[2];

static bool find_view(uint64_t address, struct zg_block_view *view) {
    for (int i = 0; i < view_count; i++) {
        if (address - views[i].start >= views[i].size + (isolated[i] ? 4096 : 0)) continue;
        *view = views[i];
        view->offset = (int64_t)(address - views[i].start);
        return true;
    }
    return false;
}
static bool is_in_heap(uint64_t address) { return address - HEAP < HEAP_BYTES; }

// Claims that the runtime has released the records of every second page of the heap. Any other choice would do.
static bool is_forgotten(uint64_t address) { return is_in_heap(address) && address & 0x1000; }
static bool is_isolated(const struct zg_block_view *view) {
    for (int i = 0; i < view_count; i++)
        if (views[i].start == view->start) return isolated[i];
    CHECK(false, "a block that was never found");
}
static struct zg_zombie_hit find_zombie(uint64_t address, const uint64_t *likely, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += likely[i]; // diagnosis may read all of them
    __asm__ volatile("" ::"r"(sum));
    for (int i = 0; i < ZOMBIES; i++)
        if (hits[i].part != zg_trap_none && address - hit_starts[i] < 1024) {
            struct zg_zombie_hit hit = hits[i];
            hit.offset += (int64_t)(address - hit_starts[i]);
            return hit;
        }
    return (struct zg_zombie_hit){.part = zg_trap_none};
}

// Returns a value that has a meaning for the diagnosis, or a random one.
static uint64_t value_from(struct input *input) {
    uint8_t kind = take8(input);
    int i = kind >> 4;
    switch (kind & 15) {
    case 0: return take8(input);
    case 1: return ZG_FILL_WORD + take(input, 3) - (1 << 20);
    case 2: return 0x55555555u + take(input, 2);
    case 3: return HEAP + take(input, 3);
    case 4:
    case 5: return view_count ? views[i % view_count].start + (uint64_t)(int8_t)take8(input) : 0;
    case 6:
        return view_count ? views[i % view_count].start + views[i % view_count].size + (uint64_t)(int8_t)take8(input)
                          : 0;
    case 7: return hit_starts[i % ZOMBIES] + take(input, 2);
    case 8: return ((uint64_t)check_report & ~UINT64_C(4095)) + take(input, 2) % 4096; // code (see is_writable)
    case 9: return (uint64_t)&input + take(input, 2);
    case 10: return zg_traps.base + take(input, 6) % (zg_traps.bytes + 1);
    case 11: return (uint64_t)metadata + take8(input);
    case 12: return zg_slabs.base + take(input, 6) % zg_slabs.bytes;
    default: return take(input, 8);
    }
}

static void make_up_heap(struct input *input) {
    for (int i = 0; i < STACKS; i++) {
        uint64_t frames[ZG_STACK_MAX_DEPTH];
        int count = take8(input) % 6;
        for (int j = 0; j < count; j++) frames[j] = value_from(input) & ((UINT64_C(1) << 48) - 1);
        // Limits the number of nodes, because the whole process shares the depot.
        stacks[i] = take8(input) & 1 || !count                       ? (uint32_t)take(input, 4)
                    : zg_stats_get(zg_counter_stack_nodes) < 4 << 20 ? zg_depot_put(frames, count)
                                                                     : 0;
    }
    for (int i = 0; i < 2; i++) classes[i] = (uint32_t)(70 + i);
    metadata_bytes = zg_min(take(input, 2) % 4096, (uint64_t)(input->end - input->at));
    memset(metadata, 0, 8192);
    for (uint64_t i = 0; i < metadata_bytes; i++) metadata[i] = take8(input);
    // Words with this top byte become pointers into the metadata.
    for (uint64_t i = 0; i + 8 <= metadata_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, metadata + i, 8);
        if (word >> 56 == 0xa1) word = (uint64_t)metadata + (word & 0xfff), memcpy(metadata + i, &word, 8);
    }
    zg_classes[classes[0] - 1] = (uint64_t)metadata | zg_language_swift;
    zg_classes[classes[1] - 1] = ((uint64_t)metadata + 64) | zg_language_cxx;
    view_count = 0;
    int count = take8(input) % (BLOCKS + 1);
    for (int i = 0; i < count; i++) {
        struct zg_block_view view = {.start = HEAP + (take(input, 3) & ~UINT64_C(15)) % (HEAP_BYTES / 2),
                                     .size = take(input, 2)};
        uint8_t how = take8(input);
        view.state = (enum zg_state)(how % 7);
        if (view.state == zg_state_fresh) view.state = zg_state_live;
        view.family = (enum zg_alloc_family)(how / 7 % 16); // an overwritten record may have a number that is no family
        view.zombie = view.state >= zg_state_quarantined ? (uint32_t)(take8(input) & 3) << 14 : 0;
        view.death =
            (struct zg_death){how & 64 ? classes[how >> 7] : (uint32_t)take(input, 4), (uint32_t)take(input, 4)};
        view.alloc_stack = stacks[how % STACKS], view.free_stack = stacks[how / 4 % STACKS];
        view.alloc_thread = (uint32_t)take(input, 2), view.free_thread = (uint32_t)take(input, 2);
        views[view_count] = view;
        isolated[view_count++] = how & 1;
    }
    for (int i = 0; i < ZOMBIES; i++) {
        uint8_t how = take8(input);
        hits[i] = (struct zg_zombie_hit){.part = (enum zg_trap_part)(how & 3)};
        hit_starts[i] = UINT64_C(0x500000000000) + (take(input, 3) << 4);
        hits[i].has_block = view_count && how & 4;
        hits[i].ambiguous = how & 8;
        if (hits[i].has_block) hits[i].block = views[how / 16 % view_count];
        hits[i].byte = take(input, 2);
        hits[i].offset = (int64_t)(int16_t)take(input, 2);
    }
}

static const char *text_from(struct input *input, char *bytes, int capacity) {
    int count = take8(input) % capacity, i = 0;
    for (; i < count; i++)
        if (!(bytes[i] = (char)take8(input))) break;
    bytes[i] = 0;
    return bytes;
}

// Freed blocks hold the fill.
static bool read_word(uint64_t address, uint64_t *word) {
    struct zg_block_view view;
    *word = ZG_FILL_WORD;
    return find_view(address, &view) && view.state >= zg_state_quarantined;
}

// The address's low bits determine the distance in slots.
static bool find_by_tag(uint64_t pointer, struct zg_block_view *view, uint32_t *distance) {
    *distance = pointer & 3;
    return pointer & 4 && find_view(pointer & ~UINT64_C(7), view);
}

static bool is_new(struct zg_finding *finding) { return finding; }

static void diagnose_pure(struct input *input) {
    make_up_heap(input);
    // Allocates exactly the size of the structure, so that ASan detects reads behind it.
    struct zg_fault *fault = malloc(sizeof *fault);
    memset(fault, 0xee, sizeof *fault);
    uint8_t how = take8(input);
    fault->address = value_from(input);
    fault->is_non_canonical = how & 1, fault->fills_new = how & 16;
    fault->access = (enum zg_fault_access)(how >> 1 & 3);
    fault->pc = value_from(input), fault->sp = value_from(input);
    fault->registers = (struct zg_registers){.known = how & 8 ? 0 : ~UINT64_C(0), .pc = fault->pc};
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) fault->registers.value[i] = value_from(input);
    fault->code_count = take8(input) % 18 - 1;
    for (int i = 0; i < 16; i++) fault->code[i] = take8(input);
    fault->pointer_count = take8(input) % (ZG_FAULT_POINTERS + 1);
    for (int i = 0; i < fault->pointer_count; i++) fault->pointers[i] = value_from(input);
    fault->stack_count = take8(input) % 16;
    for (int i = 0; i < fault->stack_count; i++) fault->stack[i] = value_from(input);
    fault->bounds.low = value_from(input), fault->bounds.high = value_from(input);
    fault->lookup = find_view, fault->is_ours = is_in_heap, fault->is_forgotten = is_forgotten,
    fault->is_isolated = is_isolated, fault->find_zombie = find_zombie;
    fault->pointer = how & 32 ? fault->address : 0, fault->find_by_tag = find_by_tag;
    fault->operand_count = how & 64 ? 2 : 0;
    for (int i = 0; i < 2; i++) fault->operands[i] = fault->registers.value[i];
    fault->read_word = read_word;
    fault->before_count = take8(input) % (ZG_FAULT_CODE_BEFORE + 1);
    for (int i = 0; i < fault->before_count; i++) fault->before[ZG_FAULT_CODE_BEFORE - 1 - i] = take8(input);
    fault->below_count = take8(input) % (ZG_FAULT_WORDS_BELOW + 1);
    for (int i = 0; i < fault->below_count; i++) fault->below[i] = value_from(input);

    struct zg_fault before = *fault;
    struct zg_verdict verdict, again;
    memset(&verdict, 0x99, sizeof verdict);
    memset(&again, 0x11, sizeof again);
    zg_diagnose(fault, &verdict);
    CHECK(!memcmp(&before, fault, sizeof before), "the fault is only read");
    zg_diagnose(fault, &again);
    CHECK(verdict.kind < zg_finding_kind_count && verdict.access && verdict.confidence);
    CHECK(verdict.kind == again.kind && verdict.access == again.access && verdict.confidence == again.confidence);
    CHECK(verdict.address == again.address && verdict.has_block == again.has_block &&
          verdict.freed_memory == again.freed_memory);
    CHECK(verdict.freed_memory == (verdict.kind == zg_finding_use_after_free), "kind %d", verdict.kind);
    CHECK(!verdict.overrun || verdict.kind == zg_finding_heap_overflow || verdict.kind == zg_finding_wild_access);
    CHECK(!(verdict.overrun && verdict.freed_memory));
    CHECK(verdict.kind != zg_finding_heap_overflow || verdict.has_block);
    CHECK(!verdict.has_block || !verdict.evidence == !strcmp(verdict.confidence, "exact"));
    CHECK(!strcmp(verdict.confidence, "exact") || !strcmp(verdict.confidence, "inferred"));
    if (verdict.has_block) {
        bool known = false;
        for (int i = 0; i < view_count; i++) known = known || views[i].start == verdict.block.start;
        CHECK(known, "a block that nobody has");
        if (verdict.overrun) CHECK(verdict.block.state == zg_state_live);
        if (verdict.freed_memory && verdict.trap.part == zg_trap_none) CHECK(verdict.block.state != zg_state_live);
    }

    // Copies the instruction bytes to a block of exactly their size, so that ASan detects reads behind them.
    int count = fault->code_count > 0 ? fault->code_count : 0;
    uint8_t *code = malloc((size_t)count + 1);
    memcpy(code, fault->code, (size_t)zg_min((uint64_t)count, 16));
    code = realloc(code, zg_min((uint64_t)count, 16) ? zg_min((uint64_t)count, 16) : 1);
    count = (int)zg_min((uint64_t)count, 16);
    uint64_t values[2], place;
    CHECK(zg_arch_decode_access(code, count) <= zg_fault_execute);
    CHECK(!zg_arch_may_load_pointer(code, count) || zg_arch_decode_access(code, count) <= zg_fault_read);
    int used = zg_arch_operand_registers(code, count, &fault->registers, values);
    CHECK(used >= 0 && used <= 2);
    (void)zg_arch_call_target_place(code, count, &fault->registers, &place);
    free(code);

    // Reports the finding like the handler, with made-up contents.
    struct zg_finding finding;
    char texts[3][40], name[16];
    zg_finding_init(&finding, verdict.kind, verdict.access, verdict.address, verdict.has_block ? &verdict.block : NULL);
    finding.confidence = verdict.confidence;
    zg_finding_detail_text(&finding, "signal", text_from(input, texts[0], 40));
    if (verdict.trap.part != zg_trap_none) zg_describe_trap(&finding, &verdict.trap);
    else if (verdict.has_block && verdict.freed_memory) finding.member_byte = verdict.block.offset;
    how = take8(input);
    if (how & 1) finding.member_code = value_from(input);
    if (how & 2) finding.member_class = value_from(input), finding.member_field = (uint32_t)take(input, 4);
    if (how & 4) finding.member_byte = (int64_t)take(input, 8);
    if (how & 8) zg_finding_detail_text(&finding, text_from(input, texts[1], 40), text_from(input, texts[2], 40));
    if (how & 16) zg_finding_detail_number(&finding, "offset", take(input, 8), how & 32);
    for (int i = take8(input) % 8; i > 0; i--) zg_finding_detail_number(&finding, "n", take8(input), false);
    finding.access_count = how & 64 ? ZG_STACK_MAX_DEPTH : take8(input) % 8;
    for (int i = 0; i < finding.access_count; i++)
        finding.access_stack[i] = i < 16 ? value_from(input) : finding.access_stack[i % 16];
    prctl(PR_SET_NAME, text_from(input, name, 16));
    zg_report_write(&finding, is_new);
    check_report(true);
    free(fault);
}

// --- the handler over the real heap ----------------------------------------------------------------------------------

enum { REAL = 24 };
static uint64_t real_blocks[REAL], real_sizes[REAL];
static uint64_t handed_on;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    handed_on++;
}

static uint64_t real_value(struct input *input) {
    uint8_t kind = take8(input), i = take8(input) % REAL;
    switch (kind % 8) {
    case 0:
    case 1: return real_blocks[i] + (uint64_t)(int16_t)take(input, 2);
    case 2: return real_blocks[i] + real_sizes[i] + (uint64_t)(int8_t)take8(input);
    case 3: return (real_blocks[i] & ~UINT64_C(4095)) + 4096 * (kind >> 6) + take(input, 2) % 4096;
    case 4: {
        uint64_t index, interior;
        if (!zg_slab_contains(real_blocks[i])) return ZG_FILL_WORD;
        const struct zg_slab *slab = zg_slab_find(real_blocks[i], &index, &interior);
        struct zg_zombie_pattern pattern = zg_zombie_swift_pattern(slab, index, real_blocks[i] - slab->base);
        return (kind >> 6 == 0   ? pattern.head[0]
                : kind >> 6 == 1 ? pattern.head[1] << 3 & ((UINT64_C(1) << 48) - 1)
                                 : pattern.word) +
               (uint64_t)(int16_t)take(input, 2);
    }
    default: return value_from(input);
    }
}

// Returns whether the page that contains this code is writable. Asks the kernel to write: a refused write causes no
// fault.
static bool is_writable(uint64_t address) {
    char byte = *(const char *)address;
    struct iovec local = {&byte, 1}, remote = {(void *)address, 1};
    return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static void handle(struct input *input) {
    ucontext_t context;
    siginfo_t info;
    memset(&context, 0, sizeof context);
    memset(&info, 0, sizeof info);
    make_up_heap(input);
    // Make some freed blocks zombies, with classes from the input.
    CHECK(zg_slab_need_deaths());
    for (int i = 0; i < REAL; i += 3) {
        uint64_t index, interior;
        if (!zg_slab_contains(real_blocks[i])) continue;
        struct zg_slab *slab = zg_slab_find(real_blocks[i], &index, &interior);
        uint32_t header = slab->blocks[index].header & ~(ZG_HEADER_SWIFT | ZG_HEADER_CXX);
        if (zg_header_state(header) != zg_state_quarantined) continue;
        slab->deaths[index] = (struct zg_death){classes[i & 1], 1};
        slab->blocks[index].header = header | (i & 1 ? ZG_HEADER_CXX : ZG_HEADER_SWIFT);
    }
    greg_t *gregs = context.uc_mcontext.gregs;
    for (int i = 0; i < NGREG; i++) gregs[i] = (greg_t)real_value(input);
    gregs[REG_TRAPNO] = take8(input) & 1 ? 14 : 13;
    gregs[REG_ERR] = take8(input) & 31;
    uint8_t how = take8(input);
    int number = how & 1 ? SIGBUS : SIGSEGV;
    info.si_signo = number;
    info.si_code = how & 2 ? (int8_t)take8(input) : SEGV_MAPERR;
    info.si_addr = (void *)real_value(input);
    if (how & 4) number = SIGABRT, info.si_code = SI_TKILL, info.si_pid = getpid();
    uint64_t before = handed_on,
             findings = zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed);
    zg_config.on_finding = how & 8 ? zg_on_finding_continue : zg_on_finding_abort;
    zg_fault_handler(number, &info, &context);
    zg_config.on_finding = zg_on_finding_abort;
    bool found = zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed) != findings;
    CHECK(handed_on == before || handed_on == before + 1);
    check_report(false);
    CHECK(!is_writable((uint64_t)check_report), "what is not the heap's was opened");
    CHECK(!(how & 4) || !found || handed_on > before, "an abort that was swallowed");
    CHECK(!zg_thread_self->in_runtime);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// --- start -----------------------------------------------------------------------------------------------------------

static __attribute__((noinline)) uint64_t allocate(uint64_t size, uint64_t alignment) {
    uint64_t block = (uint64_t)zg_entry_allocate(size, alignment, zg_family_malloc, false, ZG_ARCH_FRAME());
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}
static __attribute__((noinline)) void release(uint64_t block) {
    zg_entry_free((void *)block, zg_deallocator_free, ZG_ANY_SIZE, ZG_ARCH_FRAME());
    __asm__ volatile("" ::: "memory");
}

int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    char options[256];
    char path[] = "/tmp/zguard-fuzz-XXXXXX";
    report_descriptor = mkstemp(path);
    CHECK(report_descriptor >= 0);
    snprintf(options, sizeof options, "report_path=%s:pressure=0:overread_ms=0:isolated_overhead=100%%:stats=0", path);
    setenv("ZGUARD_OPTIONS", options, 1);
    zg_runtime_start();
    unlink(path);
    CHECK(zg_ready());
    zg_found_never_abort(true);
    static const uint64_t sizes[] = {16, 48, 200, 4000, 40000, 200000, 2 << 20, 100};
    for (int i = 0; i < REAL; i++) {
        zg_config.isolated_per_context = i % 4 == 3 ? ZG_FENCE_ALL : 0;
        real_sizes[i] = sizes[i % 8];
        real_blocks[i] = allocate(real_sizes[i], i % 5 == 4 ? 4096 : 16);
        CHECK(zg_slab_contains(real_blocks[i]) || i % 4 == 3 || real_sizes[i] > 32768);
    }
    for (int i = 0; i < REAL; i++)
        if (i % 3 != 1) release(real_blocks[i]);
    zg_config.isolated_per_context = 0;
    zg_signals_watch_aborts(zg_fault_handler);
    // Like a program, install handlers of the fuzzer's own, which run on an alternate stack of its own.
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    zg_signals_stack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
    for (int i = 0; i < 3; i++) CHECK(zg_signals_action(signals[i], &action, NULL) == 0);
    // Set the default action in the kernel, past the runtime, so that a fault of the runtime itself ends the fuzzer.
    for (int i = 0; i < 3; i++) signal(signals[i], SIG_DFL);
    metadata = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    struct input input = {data, data + count};
    if (take8(&input) & 1) handle(&input);
    else diagnose_pure(&input);
    return 0;
}
