// Finds loaded images and their symbols, from the dynamic linker's lists and from program headers in memory.
// Takes no lock of the runtime.

#define _GNU_SOURCE
#include "images/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "images/chain.h"
#include "images/loader.h"
#include "platform/os.h"
#include "platform/text.h"

// Copy of struct dl_find_object from glibc 2.35 (dlfcn.h), for C libraries whose headers lack it.
struct found_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *map;
    void *eh_frame_hdr;
    unsigned long long reserved[7];
};

// _dl_find_object is looked up by name: a direct reference would keep the runtime from loading with an older C library.
static int (*find_object)(void *, struct found_object *);
static bool use_find_object;
static char program_path[512];
// The path by which reports name the program.
static char executed_path[512];

bool zg_module_has_find_object(void) { return find_object != NULL; }

static uint64_t parse_hex(char **at) {
    uint64_t value = 0;
    for (;; (*at)++) {
        char c = **at;
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a') + 10
                                                : 16;
        if (digit == 16) return value;
        value = value << 4 | digit;
    }
}

// Sets program_path if the link /proc/self/exe cannot be read (seccomp): to the path of the mapping in /proc/self/maps
// that contains the program headers, or else to the path given to execve (AT_EXECFN).
static void find_program_path(void) {
    static const char unknown[] = "";
    char text[2048];
    uint64_t headers = getauxval(AT_PHDR), count = 0;
    const char *executed = (const char *)getauxval(AT_EXECFN);
    zg_string_copy(program_path, executed ? executed : unknown, sizeof program_path);
    int file = zg_os_open_system("/proc/self/maps");
    if (file < 0) return;
    for (int got; count + 1 < sizeof text && (got = zg_os_read(file, text + count, sizeof text - 1 - count)) > 0;)
        count += (uint64_t)got;
    zg_os_close(file);
    text[count] = 0;
    // A line: "55d0c0e00000-55d0c0e01000 r--p 00000000 08:01 1234 /usr/bin/program"
    for (char *at = text; *at; at++) {
        uint64_t start = parse_hex(&at), end = *at == '-' ? (at++, parse_hex(&at)) : 0;
        while (*at && *at != '/' && *at != '\n') at++;
        char *path = at;
        while (*at && *at != '\n') at++;
        if (!*at) return; // the line is incomplete
        *at = 0;
        if (headers - start < end - start && *path) return zg_string_copy(program_path, path, sizeof program_path);
    }
}

// Whether a component of the path is "..".
static bool has_parent(const char *path) {
    for (const char *at = path; *at; at++)
        if ((at == path || at[-1] == '/') && at[0] == '.' && at[1] == '.' && (!at[2] || at[2] == '/')) return true;
    return false;
}

// Sets executed_path. If the program was executed through a link with another name, reports name the link:
// /usr/bin/redis-server, not /usr/bin/redis-check-rdb. Reports do not name a script, because its path leads to another
// file than the executable. System calls are made only if the names differ.
static void find_executed_path(void) {
    const char *executed = (const char *)getauxval(AT_EXECFN);
    zg_string_copy(executed_path, program_path, sizeof executed_path);
    struct zg_text text;
    char whole[sizeof executed_path];
    // Exclude links in /proc and /dev (/proc/self/exe, /dev/fd/3), which do not name the program. Exclude paths with
    // "..", because the name would depend on the working directory.
    if (!executed || !*program_path ||
        zg_string_equal(zg_string_last_part(executed), zg_string_last_part(program_path)) ||
        zg_string_begins(executed, "/proc/") || zg_string_begins(executed, "/dev/") || has_parent(executed) ||
        zg_os_readlink(executed, whole, sizeof whole) <= 0 || !zg_os_is_same_file(executed, "/proc/self/exe"))
        return;
    zg_text_init(&text, whole, sizeof whole);
    if (*executed != '/') {
        if (zg_os_readlink("/proc/self/cwd", whole, sizeof whole) <= 0) return;
        text.count = zg_string_length(whole);
        zg_text_char(&text, '/');
        if (zg_string_begins(executed, "./")) executed += 2;
    }
    zg_text_string(&text, executed);
    if (!text.truncated) zg_string_copy(executed_path, whole, sizeof executed_path);
}

static void find_executable(void);

void zg_module_init(bool use) {
    // C libraries with _dl_find_object (glibc 2.35) also export dlsym. Do not search older C libraries: a failed search
    // would leave an error for the program's next dlerror.
    if (libcs_search && zg_libc_minor() >= 35)
        find_object = (int (*)(void *, struct found_object *))libcs_search(RTLD_DEFAULT, "_dl_find_object");
    use_find_object = use && zg_module_has_find_object();
    if (!zg_loader_is_static && !use_find_object) zg_chain_init();
    if (zg_os_readlink("/proc/self/exe", program_path, sizeof program_path) <= 0) find_program_path();
    find_executed_path();
    if (zg_loader_is_static) find_executable();
}

const char *zg_module_executed_path(void) { return executed_path; }

const char *zg_module_program_path(void) { return program_path; }

struct search {
    uint64_t pc;
    struct zg_module *module;
};

static int match_image(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct search *search = context;
    uint64_t start = UINT64_MAX, end = 0;
    const ElfW(Phdr) *unwind = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_GNU_EH_FRAME) unwind = header;
        if (header->p_type != PT_LOAD) continue;
        start = zg_min(start, info->dlpi_addr + header->p_vaddr);
        end = zg_max(end, info->dlpi_addr + header->p_vaddr + header->p_memsz);
    }
    if (search->pc < start || search->pc >= end) return 0;
    *search->module = (struct zg_module){.start = start,
                                         .end = end,
                                         .bias = info->dlpi_addr,
                                         .eh_frame_hdr = unwind ? (void *)(info->dlpi_addr + unwind->p_vaddr) : NULL,
                                         .path = info->dlpi_name};
    return 1;
}

// The image of a static executable, which never changes. Empty in other programs.
static struct zg_module executable;

void zg_module_set_frames(const uint8_t *header) { executable.eh_frame_hdr = header; }

// The first block is allocated before dl_iterate_phdr knows the executable. So read the headers at the start of the
// image, for which the linker defines the symbol __ehdr_start.
static void find_executable(void) {
    extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    if (!header) return;
    struct dl_phdr_info info = {.dlpi_phdr = (const void *)(__ehdr_start + header->e_phoff),
                                .dlpi_phnum = header->e_phnum,
                                .dlpi_name = program_path};
    for (int i = info.dlpi_phnum - 1; i >= 0; i--)
        if (info.dlpi_phdr[i].p_type == PT_LOAD)
            info.dlpi_addr = (uint64_t)header + info.dlpi_phdr[i].p_offset - info.dlpi_phdr[i].p_vaddr;
    struct search search = {(uint64_t)header, &executable};
    match_image(&info, sizeof info, &search);
}

bool zg_module_find_unwind(uint64_t pc, struct zg_module *module) {
    if (executable.end && pc >= executable.start && pc < executable.end) return *module = executable, true;
    if (!use_find_object) {
        enum zg_chain_answer answer = zg_chain_find(pc, module);
        if (answer != zg_chain_unknown) return answer == zg_chain_found;
        struct search search = {pc, module};
        return dl_iterate_phdr(match_image, &search) == 1;
    }
    struct found_object object;
    if (find_object((void *)pc, &object) != 0) return false;
    *module = (struct zg_module){.start = (uint64_t)object.start,
                                 .end = (uint64_t)object.end,
                                 .bias = object.map->l_addr,
                                 .eh_frame_hdr = object.eh_frame_hdr,
                                 .path = object.map->l_name};
    return true;
}

void zg_module_after_fork_in_child(void) { zg_chain_after_fork_in_child(); }

bool zg_module_is_library(uint64_t address) {
    struct zg_module module;
    return zg_module_find_unwind(address, &module) && getauxval(AT_PHDR) - module.start >= module.end - module.start;
}

// Returns the image's program headers in memory, or NULL if the image does not start with an ELF header.
static const ElfW(Phdr) * program_headers(const struct zg_module *module, int *count) {
    const ElfW(Ehdr) *header = (const void *)module->start;
    uint32_t magic = 0;
    if (zg_os_read_memory(&magic, module->start, sizeof magic) != sizeof magic) return NULL;
    if (magic != 0x464c457fu || header->e_phentsize != sizeof(ElfW(Phdr))) return NULL;
    *count = header->e_phnum;
    return (const void *)(module->start + header->e_phoff);
}

static void find_build_id(struct zg_module *module) {
    int count = 0;
    const ElfW(Phdr) *headers = program_headers(module, &count);
    for (int i = 0; headers && i < count; i++) {
        if (headers[i].p_type != PT_NOTE) continue;
        const uint8_t *at = (const void *)(module->bias + headers[i].p_vaddr), *end = at + headers[i].p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const uint8_t *name = at + sizeof *note, *text = name + zg_round_up(note->n_namesz, 4);
            if (text + note->n_descsz > end) break;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && name[0] == 'G' && name[1] == 'N') {
                module->build_id = text;
                module->build_id_bytes = note->n_descsz;
                return;
            }
            at = text + zg_round_up(note->n_descsz, 4);
        }
    }
}

bool zg_module_find(uint64_t address, struct zg_module *module) {
    if (!zg_module_find_unwind(address, module)) return false;
    if (!module->path || !*module->path) module->path = program_path;
    find_build_id(module);
    return true;
}

bool zg_module_is_code(uint64_t address) {
    struct zg_module module;
    if (!zg_module_find_unwind(address, &module)) return false;
    int count = 0;
    const ElfW(Phdr) *headers = program_headers(&module, &count);
    if (!headers) return true; // without program headers, the whole image counts as code
    for (int i = 0; i < count; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X &&
            address - module.bias - headers[i].p_vaddr < headers[i].p_memsz)
            return true;
    return false;
}

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *sysv_hash;
    // Remaining entries of the dynamic section, which are searched for DT_VERSYM.
    const ElfW(Dyn) * rest;
};

static struct dynamic read_dynamic(const ElfW(Dyn) * entry, uint64_t bias, uint64_t start) {
    struct dynamic dynamic = {0};
    // Stops when symbols, strings and GNU hash table are found: the older DT_HASH is needed only without a GNU hash
    // table.
    for (; entry->d_tag != DT_NULL && !(dynamic.symbols && dynamic.strings && dynamic.gnu_hash); entry++) {
        // The loader relocates these addresses in place on most architectures. An address below the image has not been
        // relocated.
        uint64_t value = entry->d_un.d_ptr < start ? entry->d_un.d_ptr + bias : entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB) dynamic.symbols = (const void *)value;
        if (entry->d_tag == DT_STRTAB) dynamic.strings = (const void *)value;
        if (entry->d_tag == DT_GNU_HASH) dynamic.gnu_hash = (const void *)value;
        if (entry->d_tag == DT_HASH) dynamic.sysv_hash = (const void *)value;
    }
    dynamic.rest = entry;
    return dynamic;
}

// Returns the number of symbols in front of the hashed ones. Undefined symbols are always in front, because the buckets
// of the GNU hash table contain only defined symbols.
static uint32_t undefined_symbol_count(const uint32_t *gnu_hash) { return gnu_hash ? gnu_hash[1] : 0; }

bool zg_module_imports(uint64_t address, const char *symbol) {
    struct zg_module module;
    if (!zg_module_find(address, &module)) return false;
    int count = 0;
    const ElfW(Phdr) *headers = program_headers(&module, &count);
    for (int i = 0; headers && i < count; i++) {
        if (headers[i].p_type != PT_DYNAMIC) continue;
        struct dynamic dynamic =
            read_dynamic((const void *)(module.bias + headers[i].p_vaddr), module.bias, module.start);
        if (!dynamic.symbols || !dynamic.strings) return false;
        uint32_t last = dynamic.sysv_hash ? dynamic.sysv_hash[1] : undefined_symbol_count(dynamic.gnu_hash);
        for (uint32_t j = 1; j < last; j++)
            if (dynamic.symbols[j].st_shndx == SHN_UNDEF &&
                zg_string_equal(dynamic.strings + dynamic.symbols[j].st_name, symbol))
                return true;
        return false;
    }
    return false;
}

const char *zg_module_plt_symbol(uint64_t pc, uint64_t place) {
    struct zg_module module;
    int count = 0;
    const ElfW(Phdr) *headers = zg_module_find_unwind(pc, &module) ? program_headers(&module, &count) : NULL;
    for (int i = 0; headers && i < count; i++) {
        if (headers[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn) *entry = (const void *)(module.bias + headers[i].p_vaddr);
        struct dynamic dynamic = read_dynamic(entry, module.bias, module.start);
        const ElfW(Rela) *calls = NULL;
        uint64_t bytes = 0;
        for (; entry->d_tag != DT_NULL; entry++) {
            uint64_t value = entry->d_un.d_ptr;
            if (entry->d_tag == DT_JMPREL) calls = (const void *)(value < module.start ? value + module.bias : value);
            if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
        }
        if (!calls || !dynamic.symbols || !dynamic.strings) return NULL;
        for (uint64_t j = 0; j < bytes / sizeof *calls; j++)
            if (module.bias + calls[j].r_offset == place)
                return dynamic.strings + dynamic.symbols[ELF64_R_SYM(calls[j].r_info)].st_name;
        return NULL;
    }
    return NULL;
}

struct symbol_search {
    const char *name;
    uint32_t hash;
    // Address inside the only image to search; 0 searches all images.
    uint64_t within;
    // Address inside an image: only images loaded after it are searched. 0 searches all images.
    uint64_t behind;
    bool of_variable;
    void *found;
};

// Returns true if this is the symbol's default version. Older, hidden versions serve programs that were linked with
// them.
static bool is_default(const struct dynamic *dynamic, uint64_t bias, const ElfW(Sym) * symbol) {
    enum { HIDDEN = 0x8000 };
    for (const ElfW(Dyn) *entry = dynamic->rest; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != DT_VERSYM) continue;
        uint64_t value = entry->d_un.d_ptr < bias ? entry->d_un.d_ptr + bias : entry->d_un.d_ptr;
        return !(((const ElfW(Half) *)value)[symbol - dynamic->symbols] & HIDDEN);
    }
    return true;
}

static bool is_sought(const struct symbol_search *search, const struct dynamic *dynamic, uint64_t bias,
                      const ElfW(Sym) * symbol) {
    int type = ELF64_ST_TYPE(symbol->st_info);
    bool is_of_type = search->of_variable ? type == STT_OBJECT : type == STT_FUNC || type == STT_GNU_IFUNC;
    return symbol->st_shndx != SHN_UNDEF && is_of_type &&
           zg_string_equal(dynamic->strings + symbol->st_name, search->name) && is_default(dynamic, bias, symbol);
}

// Returns the symbol's address. For an indirect function (IFUNC), calls its resolver with the arguments that the loader
// passes on AArch64: AT_HWCAP with the bit that announces a second argument, and a table of all features. On x86-64,
// resolvers take no arguments.
static void *address_of(const ElfW(Sym) * symbol, uint64_t bias) {
    uint64_t address = bias + symbol->st_value;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC) return (void *)address;
    const uint64_t features[3] = {sizeof features, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    return ((void *(*)(uint64_t, const uint64_t *))address)(features[1] | UINT64_C(1) << 62, features);
}

// Searches DT_HASH, the only hash table of executables that Go links itself. Layout: bucket count, chain count,
// buckets, chains. Symbol 0 ends a chain.
static int find_symbol_in_sysv(struct symbol_search *search, const struct dynamic *dynamic, uint64_t bias) {
    const uint32_t *table = dynamic->sysv_hash, *buckets = table + 2, *chains = buckets + table[0];
    uint32_t hash = 0;
    for (const char *at = search->name; *at; at++) {
        hash = (hash << 4) + (uint8_t)*at;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t at = table[0] ? buckets[hash % table[0]] : 0; at && at < table[1]; at = chains[at]) {
        if (!is_sought(search, dynamic, bias, &dynamic->symbols[at])) continue;
        search->found = address_of(&dynamic->symbols[at], bias);
        return 1;
    }
    return 0;
}

// Callback of dl_iterate_phdr: searches an image that the search includes, by DT_GNU_HASH if there is one, else by
// DT_HASH. Layout of DT_GNU_HASH: bucket count, first hashed symbol, Bloom filter words, Bloom shift; then Bloom
// filter, buckets, and hashes. The low bit of a hash is set in the last entry of a bucket.
static int find_symbol_in(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct symbol_search *search = context;
    const ElfW(Dyn) *entries = NULL;
    uint64_t start = UINT64_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_DYNAMIC) entries = (const void *)(info->dlpi_addr + header->p_vaddr);
        if (header->p_type != PT_LOAD) continue;
        start = zg_min(start, info->dlpi_addr + header->p_vaddr);
        end = zg_max(end, info->dlpi_addr + header->p_vaddr + header->p_memsz);
    }
    if (search->behind) {
        if (search->behind >= start && search->behind < end) search->behind = 0;
        return 0;
    }
    if (!entries || (search->within && (search->within < start || search->within >= end))) return 0;
    struct dynamic dynamic = read_dynamic(entries, info->dlpi_addr, start);
    if (!dynamic.symbols || !dynamic.strings || (!dynamic.gnu_hash && !dynamic.sysv_hash)) return 0;
    if (!dynamic.gnu_hash) return find_symbol_in_sysv(search, &dynamic, info->dlpi_addr);
    const uint32_t *table = dynamic.gnu_hash, *buckets = table + 4 + table[2] * 2, *hashes = buckets + table[0];
    uint32_t at = table[0] ? buckets[search->hash % table[0]] : 0;
    if (at < table[1]) return 0;
    for (;; at++) {
        uint32_t hash = hashes[at - table[1]];
        const ElfW(Sym) *symbol = &dynamic.symbols[at];
        if ((hash | 1) == (search->hash | 1) && is_sought(search, &dynamic, info->dlpi_addr, symbol)) {
            search->found = address_of(symbol, info->dlpi_addr);
            return 1;
        }
        if (hash & 1) return 0;
    }
}

static int find_symbol_in_first(struct dl_phdr_info *info, size_t bytes, void *context) {
    find_symbol_in(info, bytes, context);
    return 1;
}

static struct symbol_search search_for(const char *name, uint64_t within) {
    struct symbol_search search = {.name = name, .hash = 5381, .within = within};
    for (const char *at = name; *at; at++) search.hash = search.hash * 33 + (uint8_t)*at;
    return search;
}

void *zg_module_function_in(uint64_t address, const char *name) {
    struct symbol_search search = search_for(name, address);
    dl_iterate_phdr(find_symbol_in, &search);
    return search.found;
}

void *zg_module_function(const char *name) { return zg_module_function_in(0, name); }

void *zg_module_variable(const char *name) {
    struct symbol_search search = search_for(name, 0);
    search.of_variable = true;
    dl_iterate_phdr(find_symbol_in, &search);
    return search.found;
}

void *zg_module_next_function(const char *name) {
    struct symbol_search search = search_for(name, 0);
    search.behind = (uint64_t)zg_module_next_function;
    dl_iterate_phdr(find_symbol_in, &search);
    return search.found;
}

void *zg_module_program_function(const char *name) {
    struct symbol_search search = search_for(name, 0);
    dl_iterate_phdr(find_symbol_in_first, &search);
    return search.found;
}
