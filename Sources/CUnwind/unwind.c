// Unwinds stacks with libunwind through a memory reader, in the same way for running processes and for core files.
// libunwind is opened when the first stack is unwound. Its types are declared here, as in its ABI since version 1.0, so
// that building needs no libunwind. For single-threaded processes; no lock.

#include "zg_unwind_threads.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
struct address_space;
enum { NO_INFO = 10, BAD_ADDRESS = 8, BAD_REGISTER = 3, REMOTE_TABLE = 2, CACHE_GLOBAL = 1 };
enum { CURSOR_BYTES = 64 << 10 }; // libunwind's cursor takes 1 to 33 KiB, depending on processor and version

struct procedure {
    word start, end, lsda, handler, gp, flags;
    int32_t format, info_bytes;
    void *info, *room[8];
};

struct table_of_image {
    void *next, *previous;
    word start, end, gp;
    int32_t format, padding;
    word load_offset; // since libunwind 1.3
    word name, segment, words, table, room[8];
};

// Later versions append more functions, which may be NULL.
struct accessors {
    int (*find)(struct address_space *, word pc, struct procedure *, int wants_info, void *context);
    void (*put)(struct address_space *, struct procedure *, void *context);
    int (*list)(struct address_space *, word *, void *context);
    int (*memory)(struct address_space *, word address, word *value, int writes, void *context);
    int (*registers)(struct address_space *, int number, word *value, int writes, void *context);
    int (*vectors)(struct address_space *, int number, void *value, int writes, void *context);
    int (*resume)(struct address_space *, void *cursor, void *context);
    int (*name)(struct address_space *, word pc, char *, size_t, word *, void *context);
    void *room[8];
};

// Functions of libunwind. Not locked, because callers are single-threaded.
static struct {
    struct address_space *(*create)(struct accessors *, int byte_order);
    void (*destroy)(struct address_space *);
    int (*set_caching)(struct address_space *, int policy);
    int (*init)(void *cursor, struct address_space *, void *context);
    int (*step)(void *cursor);
    int (*get)(void *cursor, int number, word *value);
    int (*is_signal)(void *cursor);
    int (*search)(struct address_space *, word pc, struct table_of_image *, struct procedure *, int wants_info,
                  void *context);
} library;

const char *zg_unwind_obstacle(void) {
    static bool is_open;
    if (is_open) return NULL;
    void *file = dlopen(ZG_UNWIND_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!file) return ZG_UNWIND_LIBRARY " is not installed (on Debian: apt install libunwind8)";
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {ZG_UNWIND_PREFIX "create_addr_space", &library.create},
        {ZG_UNWIND_PREFIX "destroy_addr_space", &library.destroy},
        {ZG_UNWIND_PREFIX "set_caching_policy", &library.set_caching},
        {ZG_UNWIND_PREFIX "init_remote", &library.init},
        {ZG_UNWIND_PREFIX "step", &library.step},
        {ZG_UNWIND_PREFIX "get_reg", &library.get},
        {ZG_UNWIND_PREFIX "is_signal_frame", &library.is_signal},
        {ZG_UNWIND_PREFIX "dwarf_search_unwind_table", &library.search},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *function = dlsym(file, wanted[i].name);
        if (!function) return ZG_UNWIND_LIBRARY " lacks a function that unwinding needs";
        memcpy(wanted[i].place, &function, sizeof function);
    }
    is_open = true;
    return NULL;
}

enum { PAGE = 4096, PAGES = 64 };

struct unwinding {
    const struct zg_unwind_source *source;
    uint64_t registers[ZG_THREAD_REGISTERS], known;
    struct {
        uint64_t address;
        size_t count; // 0: not read
        char bytes[PAGE];
    } pages[PAGES];
};

static bool read_bytes(struct unwinding *unwinding, uint64_t address, void *to, size_t bytes) {
    for (char *at = to; bytes;) {
        uint64_t page = address & ~(uint64_t)(PAGE - 1), offset = address - page;
        size_t slot = page / PAGE % PAGES, part = PAGE - offset < bytes ? PAGE - offset : bytes;
        if (!unwinding->pages[slot].count || unwinding->pages[slot].address != page) {
            unwinding->pages[slot].address = page;
            unwinding->pages[slot].count =
                unwinding->source->read(unwinding->source->context, page, unwinding->pages[slot].bytes, PAGE);
        }
        if (unwinding->pages[slot].count < offset + part) return false;
        memcpy(at, unwinding->pages[slot].bytes + offset, part);
        at += part, address += part, bytes -= part;
    }
    return true;
}

// libunwind reads whole words. An unaligned word may extend into unreadable memory; the read then fails.
static int access_memory(struct address_space *space, word address, word *value, int writes, void *context) {
    (void)space;
    return !writes && read_bytes(context, address, value, sizeof *value) ? 0 : -BAD_ADDRESS;
}

static int access_register(struct address_space *space, int number, word *value, int writes, void *context) {
    (void)space;
    struct unwinding *unwinding = context;
    if (writes || number < 0 || number >= ZG_THREAD_REGISTERS) return -BAD_REGISTER;
    if (!(unwinding->known >> number & 1)) return -BAD_REGISTER;
    *value = unwinding->registers[number];
    return 0;
}

static int access_vector(struct address_space *space, int number, void *value, int writes, void *context) {
    (void)space, (void)number, (void)value, (void)writes, (void)context;
    return -BAD_REGISTER;
}

static int find_list(struct address_space *space, word *list, void *context) {
    (void)space, (void)list, (void)context;
    return -NO_INFO;
}

// Reads .eh_frame_hdr (Linux Standard Base): version, three encodings, address of .eh_frame, number of entries,
// entries. Supports the encoding that linkers write: 32-bit offsets from the start of .eh_frame_hdr.
static int find_procedure(struct address_space *space, word pc, struct procedure *procedure, int wants_info,
                          void *context) {
    enum { RELATIVE_TO_TABLE_SIGNED_4 = 0x3b, UNSIGNED_4 = 3, SIZE_MASK = 7, HEAD = 4 };
    static const unsigned char sizes[8] = {8, 0, 2, 4, 8, 0, 0, 0};
    struct unwinding *unwinding = context;
    struct table_of_image table = {.format = REMOTE_TABLE};
    uint8_t head[HEAD];
    uint32_t count;
    uint64_t start, end, header;
    if (!unwinding->source->find(unwinding->source->context, pc, &start, &end, &header)) return -NO_INFO;
    if (!read_bytes(unwinding, header, head, sizeof head) || head[0] != 1) return -NO_INFO;
    if (head[2] != UNSIGNED_4 || head[3] != RELATIVE_TO_TABLE_SIGNED_4 || !sizes[head[1] & SIZE_MASK]) return -NO_INFO;
    uint64_t at = header + HEAD + sizes[head[1] & SIZE_MASK];
    if (!read_bytes(unwinding, at, &count, sizeof count)) return -NO_INFO;
    table.start = start, table.end = end;
    table.segment = header;
    table.table = at + sizeof count;
    table.words = count; // size in 64-bit words: an entry is two 32-bit offsets
    return library.search(space, pc, &table, procedure, wants_info, context);
}

static void put_procedure(struct address_space *space, struct procedure *procedure, void *context) {
    // Not freed: libunwind allocates about 100 bytes per function from a pool that lives until the process exits.
    (void)space, (void)procedure, (void)context;
}

// A stack trace, possibly incomplete.
struct stack {
    uint64_t *frames, *sps; // `sps` may be NULL
    bool *is_exact;
    int most, count;
    uint64_t last_sp;
    bool has_failed; // a register or memory word that unwinding needs is unknown
};

static void walk(struct unwinding *unwinding, struct address_space *space, void *cursor, struct stack *stack) {
    bool exact = true;
    word pc;
    stack->count = 0;
    stack->has_failed = false;
    if (library.init(cursor, space, unwinding) != 0) return;
    while (stack->count < stack->most && library.get(cursor, ZG_THREAD_PC, &pc) == 0 && pc) {
        stack->frames[stack->count] = pc;
        stack->is_exact[stack->count++] = exact;
        exact = library.is_signal(cursor) > 0;
        if (library.get(cursor, ZG_THREAD_SP, &stack->last_sp) != 0) break;
        if (stack->sps) stack->sps[stack->count - 1] = stack->last_sp;
        int result = library.step(cursor);
        stack->has_failed = result < 0;
        if (result <= 0) break;
    }
}

// Computes the unknown frame pointer that unwinding the last function needs, from the function's prologue and its stack
// pointer. Accepts the result only if the word above the saved frame pointer is an address within an image, as a return
// address is.
static bool find_frame_pointer(struct unwinding *unwinding, struct address_space *space, const struct stack *stack) {
    struct procedure procedure = {0};
    unsigned char code[64];
    uint64_t pc = stack->frames[stack->count - 1] - !stack->is_exact[stack->count - 1];
    if (find_procedure(space, pc, &procedure, 0, unwinding) != 0 || pc < procedure.start) return false;
    size_t count = pc - procedure.start < sizeof code ? pc - procedure.start : sizeof code;
    if (!read_bytes(unwinding, procedure.start, code, count)) return false;
    int64_t distance = zg_unwind_prologue_frame_offset(code, count);
    uint64_t frame = stack->last_sp + (uint64_t)distance, back, start, end, table;
    if (distance < 0 || !read_bytes(unwinding, frame + sizeof back, &back, sizeof back)) return false;
    if (!unwinding->source->find(unwinding->source->context, back, &start, &end, &table)) return false;
    unwinding->registers[ZG_THREAD_FP] = frame;
    unwinding->known |= UINT64_C(1) << ZG_THREAD_FP;
    return true;
}

int zg_unwind_stack(const struct zg_unwind_source *source, const uint64_t registers[ZG_THREAD_REGISTERS],
                    uint64_t known, uint64_t *frames, bool *is_exact, uint64_t *sps, int most) {
    static struct accessors accessors = {.find = find_procedure,
                                         .put = put_procedure,
                                         .list = find_list,
                                         .memory = access_memory,
                                         .registers = access_register,
                                         .vectors = access_vector};
    if (zg_unwind_obstacle()) return 0;
    struct unwinding *unwinding = calloc(1, sizeof *unwinding);
    void *cursor = calloc(1, CURSOR_BYTES);
    struct address_space *space = unwinding && cursor ? library.create(&accessors, 0) : NULL;
    struct stack stack = {.frames = frames, .sps = sps, .is_exact = is_exact, .most = most};
    if (space) {
        unwinding->source = source;
        unwinding->known = known;
        memcpy(unwinding->registers, registers, sizeof unwinding->registers);
        library.set_caching(space, CACHE_GLOBAL);
        walk(unwinding, space, cursor, &stack);
        if (stack.has_failed && !(known >> ZG_THREAD_FP & 1) && find_frame_pointer(unwinding, space, &stack))
            walk(unwinding, space, cursor, &stack);
        library.destroy(space);
    }
    free(cursor);
    free(unwinding);
    return stack.count;
}
