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

struct part {
    char *bytes;
    uint64_t count;
};

static void drop(struct part part) {
    if (part.bytes) zg_os_release(part.bytes, part.count);
}

static struct part read_part(int file, uint64_t at, uint64_t count) {
    struct part part = {NULL, count};
    if (!count || count > TABLE_MOST || !(part.bytes = zg_os_map(count))) return part;
    for (uint64_t done = 0; done < count;) {
        int64_t got = zg_os_read_at(file, part.bytes + done, count - done, at + done);
        if (got <= 0) {
            drop(part);
            return (struct part){NULL, 0};
        }
        done += (uint64_t)got;
    }
    return part;
}

static const char *string_at(struct part strings, uint64_t at) {
    return at < strings.count && !strings.bytes[strings.count - 1] ? strings.bytes + at : "";
}

static bool has_section(const char *wanted, struct part sections, struct part names) {
    const ElfW(Shdr) *section = (const void *)sections.bytes;
    for (uint64_t i = 0; i < sections.count / sizeof *section; i++)
        if (zg_string_equal(string_at(names, section[i].sh_name), wanted)) return true;
    return false;
}

static void look_in(struct part symbols, struct part strings, uint64_t bias, const char *const *names,
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

static bool look_in_file(int file, uint64_t bias, const char *wanted, const char *const *names, uint64_t *addresses,
                         uint64_t count) {
    ElfW(Ehdr) header;
    if (zg_os_read_at(file, &header, sizeof header, 0) != sizeof header || header.e_shnum > SECTIONS_MOST ||
        header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shstrndx >= header.e_shnum)
        return false;
    struct part sections = read_part(file, header.e_shoff, header.e_shnum * sizeof(ElfW(Shdr)));
    if (!sections.bytes) return false;
    const ElfW(Shdr) *section = (const void *)sections.bytes;
    struct part texts = read_part(file, section[header.e_shstrndx].sh_offset, section[header.e_shstrndx].sh_size);
    bool found = false;
    for (uint64_t i = 0; texts.bytes && has_section(wanted, sections, texts) && i < header.e_shnum && !found; i++) {
        if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= header.e_shnum) continue;
        const ElfW(Shdr) *linked = &section[section[i].sh_link];
        struct part symbols = read_part(file, section[i].sh_offset, section[i].sh_size),
                    strings = read_part(file, linked->sh_offset, linked->sh_size);
        found = symbols.bytes && strings.bytes;
        for (uint64_t j = 0; found && j < count; j++) addresses[j] = 0;
        if (found) look_in(symbols, strings, bias, names, addresses, count);
        drop(symbols), drop(strings);
    }
    drop(texts), drop(sections);
    return found;
}

bool zg_symbols_of_program(const char *section, const char *const *names, uint64_t *addresses, uint64_t count) {
    struct zg_module program;
    if (!zg_module_find(getauxval(AT_PHDR), &program)) return false;
    int file = zg_os_open_read("/proc/self/exe");
    if (file < 0) return false;
    bool found = look_in_file(file, program.bias, section, names, addresses, count);
    zg_os_close(file);
    return found;
}
