// Preload library that plants a write after free, or a write behind a block, in an unmodified program. It redirects the
// calls of free and malloc by the program and its libraries to itself and counts them, which measures progress
// independently of the machine's speed and of the runtime.
// STALE_PROGRAM  start of the executable's name; other programs run unchanged
// STALE_AT       number of the call of free whose block is written to; with STALE_BEHIND=1, number of the call of
//                malloc with an odd size
// STALE_AFTER    number of calls of free between that call and the write
// STALE_BEHIND   1: writes to the byte behind a block when it is allocated, instead of to a freed block
// STALE_SITE     if given, the block is the first one from STALE_AT on whose free stack and size have this hash
// STALE_OUT      file: "site SITE" of the chosen block, "reused" where its memory belongs to another block before the
//                write, "wrote" before the write, and the number of calls at the end

#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Larger blocks are protected as soon as they are freed, so that a write to them faults.
enum { LEAST_BYTES = 16, MOST_BYTES = 32768, PAGE = 4096 };

static uint64_t at, after, calls, wanted_site;
static int is_behind;
static char *stale;
static const char *out;
static pid_t process;

static void say(const char *text) {
    int file = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) < 0) _exit(97);
    close(file);
}

__attribute__((noinline)) static void stale_write(volatile char *place) {
    *place = 7;
    __asm__("");
}

// Returns a hash of the size and the innermost frames of the call, independent of the libraries' load addresses.
static uint64_t site_of(size_t bytes) {
    enum { SKIPPED = 3, FRAMES = 8 };
    void *frames[FRAMES];
    uint64_t site = bytes;
    int count = backtrace(frames, FRAMES);
    for (int i = SKIPPED; i < count; i++) {
        Dl_info object;
        if (dladdr(frames[i], &object))
            site = site * 0x9fb21c651e98df25 + ((uint64_t)frames[i] - (uint64_t)object.dli_fbase);
    }
    return site ? site : 1;
}

static void choose(char *block, uint64_t call) {
    size_t bytes = malloc_usable_size(block);
    if (bytes < LEAST_BYTES || bytes > MOST_BYTES) return;
    uint64_t site = site_of(bytes);
    if (wanted_site && site != wanted_site) return;
    char text[64];
    snprintf(text, sizeof text, "site %llu\n", (unsigned long long)site);
    say(text);
    stale = block, at = call;
}

static void counted_free(void *block) {
    uint64_t call = is_behind || !block ? 0 : __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    static __thread int is_choosing;
    if (call && call >= at && at && !stale && !is_choosing && getpid() == process) {
        is_choosing = 1;
        choose(block, call);
        is_choosing = 0;
    }
    free(block);
    if (!stale || !after || call < at + after || getpid() != process) return;
    after = 0;
    say("wrote\n");
    stale_write(stale + LEAST_BYTES / 2);
}

// Writes "reused" if the new block has the chosen block's memory: the planted write then hits the new block.
static void *look(char *block) {
    static int is_said;
    if (!stale || !after || is_said || !block || getpid() != process) return block;
    if ((uintptr_t)stale - (uintptr_t)block >= malloc_usable_size(block)) return block;
    is_said = 1;
    say("reused\n");
    return block;
}

static void *watched_calloc(size_t count, size_t bytes) { return look(calloc(count, bytes)); }

static void *watched_realloc(void *block, size_t bytes) { return look(realloc(block, bytes)); }

static void *counted_malloc(size_t bytes) {
    char *block = look(malloc(bytes));
    if (is_behind && block && bytes % 2 && ++calls >= at && at && getpid() == process) {
        at = 0;
        say("wrote\n");
        stale_write(block + bytes);
    }
    return block;
}

static void redirect(const struct dl_phdr_info *object, const ElfW(Rela) * relocation, const ElfW(Sym) * symbols,
                     const char *names) {
    const char *name = names + symbols[ELF64_R_SYM(relocation->r_info)].st_name;
    void *target = NULL;
    if (strcmp(name, "free") == 0) target = (void *)counted_free;
    if (strcmp(name, "malloc") == 0) target = (void *)counted_malloc;
    if (strcmp(name, "calloc") == 0) target = (void *)watched_calloc;
    if (strcmp(name, "realloc") == 0) target = (void *)watched_realloc;
    void **place = (void **)(object->dlpi_addr + relocation->r_offset);
    unsigned type = ELF64_R_TYPE(relocation->r_info);
    if (!target || (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)) return;
    void *page = (void *)((uintptr_t)place & -(uintptr_t)PAGE);
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0) *place = target;
}

static int redirect_object(struct dl_phdr_info *object, size_t size, void *unused) {
    const ElfW(Dyn) *dynamic = NULL;
    (void)size, (void)unused;
    const char *left_out[] = {"libstale", "libzguard", "libc.so", "ld-linux", "linux-vdso"};
    for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strstr(object->dlpi_name, left_out[i])) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) * tables[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB) names = (void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_JMPREL) tables[0] = (void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_RELA) tables[1] = (void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELASZ) bytes[1] = dynamic->d_un.d_val;
    }
    for (int table = 0; table < 2 && symbols && names; table++)
        for (size_t i = 0; tables[table] && i < bytes[table] / sizeof(ElfW(Rela)); i++)
            redirect(object, &tables[table][i], symbols, names);
    return 0;
}

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void start(void) {
    static char path[4096];
    const char *program = getenv("STALE_PROGRAM");
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    out = getenv("STALE_OUT");
    if (!program || !out || length < 0) return;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash ? slash + 1 : path, program, strlen(program)) != 0) return;
    at = number("STALE_AT");
    after = number("STALE_AFTER");
    wanted_site = number("STALE_SITE");
    void *frame;
    backtrace(&frame, 1); // loads libgcc now
    is_behind = number("STALE_BEHIND") != 0;
    process = getpid();
    dl_iterate_phdr(redirect_object, NULL);
}

__attribute__((destructor)) static void end(void) {
    char text[32];
    if (!process || getpid() != process) return;
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)calls);
    say(text);
}
