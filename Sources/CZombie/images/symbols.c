// Reads the symbol table from the file of the program's executable. Trusts nothing in the file. No lock, no state.

#define _GNU_SOURCE
#include "images/symbols.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "images/module.h"
#include "platform/os.h"
#include "platform/text.h"

enum { SECTIONS_MOST = 512 };
#define TABLE_MOST (UINT64_C(1) << 30)

struct file_range {
    char *bytes;
    uint64_t count;
};

static void release_range(struct file_range file_range) {
    if (file_range.bytes) zg_os_release(file_range.bytes, file_range.count);
}

static struct file_range read_range(int file, uint64_t at, uint64_t count) {
    struct file_range file_range = {NULL, count};
    if (!count || count > TABLE_MOST || !(file_range.bytes = zg_os_map(count))) return file_range;
    for (uint64_t done = 0; done < count;) {
        int64_t got = zg_os_read_at(file, file_range.bytes + done, count - done, at + done);
        if (got <= 0) {
            release_range(file_range);
            return (struct file_range){NULL, 0};
        }
        done += (uint64_t)got;
    }
    return file_range;
}

static const char *string_at(struct file_range strings, uint64_t at) {
    return at < strings.count && !strings.bytes[strings.count - 1] ? strings.bytes + at : "";
}

static bool has_section(const char *wanted, struct file_range sections, struct file_range names) {
    const ElfW(Shdr) *section = (const void *)sections.bytes;
    for (uint64_t i = 0; i < sections.count / sizeof *section; i++)
        if (zg_string_equal(string_at(names, section[i].sh_name), wanted)) return true;
    return false;
}

static void find_in_table(struct file_range symbols, struct file_range strings, uint64_t bias, const char *const *names,
                          uint64_t *addresses, uint64_t count) {
    const ElfW(Sym) *symbol = (const void *)symbols.bytes;
    for (uint64_t i = 0; i < symbols.count / sizeof *symbol; i++) {
        int type = ELF64_ST_TYPE(symbol[i].st_info);
        if ((type != STT_FUNC && type != STT_OBJECT) || symbol[i].st_shndx == SHN_UNDEF) continue;
        const char *name = string_at(strings, symbol[i].st_name);
        for (uint64_t j = 0; j < count; j++)
            if (zg_string_equal(name, names[j])) addresses[j] = bias + symbol[i].st_value;
    }
}

static bool find_in_file(int file, uint64_t bias, const char *wanted, const char *const *names, uint64_t *addresses,
                         uint64_t count) {
    ElfW(Ehdr) header;
    if (zg_os_read_at(file, &header, sizeof header, 0) != sizeof header || header.e_shnum > SECTIONS_MOST ||
        header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shstrndx >= header.e_shnum)
        return false;
    struct file_range sections = read_range(file, header.e_shoff, header.e_shnum * sizeof(ElfW(Shdr)));
    if (!sections.bytes) return false;
    const ElfW(Shdr) *section = (const void *)sections.bytes;
    struct file_range texts =
        read_range(file, section[header.e_shstrndx].sh_offset, section[header.e_shstrndx].sh_size);
    bool found = false;
    for (uint64_t i = 0; texts.bytes && has_section(wanted, sections, texts) && i < header.e_shnum && !found; i++) {
        if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= header.e_shnum) continue;
        const ElfW(Shdr) *linked = &section[section[i].sh_link];
        struct file_range symbols = read_range(file, section[i].sh_offset, section[i].sh_size),
                          strings = read_range(file, linked->sh_offset, linked->sh_size);
        found = symbols.bytes && strings.bytes;
        for (uint64_t j = 0; found && j < count; j++) addresses[j] = 0;
        if (found) find_in_table(symbols, strings, bias, names, addresses, count);
        release_range(symbols), release_range(strings);
    }
    release_range(texts), release_range(sections);
    return found;
}

bool zg_symbols_of_program(const char *section, const char *const *names, uint64_t *addresses, uint64_t count) {
    struct zg_module program;
    if (!zg_module_find(getauxval(AT_PHDR), &program)) return false;
    int file = zg_os_open_read("/proc/self/exe");
    if (file < 0) return false;
    bool found = find_in_file(file, program.bias, section, names, addresses, count);
    zg_os_close(file);
    return found;
}
