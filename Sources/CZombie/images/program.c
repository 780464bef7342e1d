// Inspects a program's file before it is executed: ELF header, dynamic loader, needed libraries, exported symbols.
// Runs in children of vfork and in signal handlers: makes only system calls, uses little stack, has no state. Reads
// files with pread and trusts nothing in them.

#define _GNU_SOURCE
#include "include/zg_program.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"

enum { DEEPEST_SCRIPT = 5, FIRST_LINE = 256, SEGMENTS_MOST = 64, NEEDED_MOST = 512, CHAIN_MOST = 256, NAME_BYTES = 64 };

// --- LD_PRELOAD ------------------------------------------------------------------------------------------------------

static bool is_separator(char c) { return c == ':' || c == ' '; }

static bool is_own_library(const char *entry, uint64_t length) {
    static const char library[] = "libzguard";
    for (uint64_t i = 0; i + sizeof library - 1 <= length; i++)
        if (zg_string_begins(entry + i, library)) return true;
    return false;
}

uint64_t zg_program_preload_without_library(char *to, const char *value) {
    uint64_t count = 0;
    while (*value) {
        uint64_t length = 0;
        while (value[length] && !is_separator(value[length])) length++;
        if (length && !is_own_library(value, length)) {
            if (count) to[count++] = ':';
            for (uint64_t i = 0; i < length; i++) to[count++] = value[i];
        }
        value += length;
        if (*value) value++;
    }
    return count;
}

int zg_program_preload_has_library(const char *value) {
    while (*value) {
        uint64_t length = 0;
        while (value[length] && !is_separator(value[length])) length++;
        if (is_own_library(value, length)) return 1;
        value += length;
        if (*value) value++;
    }
    return 0;
}

// --- ELF -------------------------------------------------------------------------------------------------------------

struct image {
    int file;
    ElfW(Ehdr) header;
    uint64_t dynamic, dynamic_bytes; // offset and size in the file
    // File offsets of DT_STRTAB, DT_SYMTAB and DT_GNU_HASH; 0 if absent.
    uint64_t strings, symbols, hash;
};

static bool read_at(int file, void *to, uint64_t bytes, uint64_t at) {
    return zg_os_read_at(file, to, bytes, at) == (int64_t)bytes;
}

static bool read_segment(const struct image *image, uint64_t number, ElfW(Phdr) * segment) {
    return read_at(image->file, segment, sizeof *segment, image->header.e_phoff + number * sizeof *segment);
}

static uint64_t segment_count(const struct image *image) { return zg_min(image->header.e_phnum, SEGMENTS_MOST); }

// Converts an address of the image to an offset in the file. 0 if no segment contains it.
static uint64_t file_offset(const struct image *image, uint64_t address) {
    ElfW(Phdr) segment;
    for (uint64_t i = 0; i < segment_count(image); i++)
        if (read_segment(image, i, &segment) && segment.p_type == PT_LOAD &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    return 0;
}

// Reads the string at file offset `at`, truncated to `bytes` - 1.
static void read_string(int file, uint64_t at, char *name, uint64_t bytes) {
    int64_t got = zg_os_read_at(file, name, bytes - 1, at);
    name[got > 0 ? got : 0] = 0;
}

static bool is_sanitizer_library(const char *name) {
    static const char *const names[] = {"libasan.so",         "libtsan.so",       "libhwasan.so",
                                        "liblsan.so",         "libclang_rt.asan", "libclang_rt.tsan",
                                        "libclang_rt.hwasan", "libclang_rt.msan"};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(names); i++)
        if (zg_string_begins(name, names[i])) return true;
    return false;
}

// Reads the dynamic section. Stores the offsets of symbols, strings and hash table in `image`. Returns true if a needed
// library is a sanitizer's runtime.
static bool needs_sanitizer(struct image *image) {
    uint64_t strings = 0, symbols = 0, hash = 0, count = zg_min(image->dynamic_bytes / sizeof(ElfW(Dyn)), NEEDED_MOST);
    ElfW(Dyn) entry;
    for (uint64_t i = 0; i < count && read_at(image->file, &entry, sizeof entry, image->dynamic + i * sizeof entry);
         i++) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
        if (entry.d_tag == DT_SYMTAB) symbols = entry.d_un.d_ptr;
        if (entry.d_tag == DT_GNU_HASH) hash = entry.d_un.d_ptr;
    }
    image->strings = strings ? file_offset(image, strings) : 0;
    image->symbols = symbols ? file_offset(image, symbols) : 0;
    image->hash = hash ? file_offset(image, hash) : 0;
    if (!image->strings) return false;
    for (uint64_t i = 0; i < count && read_at(image->file, &entry, sizeof entry, image->dynamic + i * sizeof entry);
         i++) {
        char name[NAME_BYTES];
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag != DT_NEEDED) continue;
        read_string(image->file, image->strings + entry.d_un.d_val, name, sizeof name);
        if (is_sanitizer_library(zg_string_last_part(name))) return true;
    }
    return false;
}

// Returns true if the image exports the symbol. A statically linked sanitizer runtime exports its functions for
// libraries that the program loads. Searches DT_GNU_HASH as the loader does; all current linkers write this table.
static bool exports(const struct image *image, const char *symbol) {
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } table;
    if (!image->hash || !image->symbols || !read_at(image->file, &table, sizeof table, image->hash)) return false;
    if (!table.buckets || !zg_is_power_of_two(table.bloom_words)) return false;
    uint32_t hash = 5381;
    for (const char *c = symbol; *c; c++) hash = hash * 33 + (uint8_t)*c;
    uint64_t at = image->hash + sizeof table, bloom;
    if (!read_at(image->file, &bloom, sizeof bloom, at + (hash / 64 & (table.bloom_words - 1)) * sizeof bloom))
        return false;
    if (!(bloom >> hash % 64 & 1) || !(bloom >> (hash >> (table.bloom_shift & 31)) % 64 & 1)) return false;
    at += (uint64_t)table.bloom_words * sizeof bloom;
    uint32_t index, chain;
    if (!read_at(image->file, &index, sizeof index, at + hash % table.buckets * sizeof index) || index < table.first)
        return false;
    at += (uint64_t)table.buckets * sizeof index;
    for (int i = 0; i < CHAIN_MOST; i++, index++) {
        if (!read_at(image->file, &chain, sizeof chain, at + (uint64_t)(index - table.first) * sizeof chain))
            return false;
        if ((chain | 1) == (hash | 1)) {
            ElfW(Sym) found;
            char name[NAME_BYTES];
            if (!read_at(image->file, &found, sizeof found, image->symbols + (uint64_t)index * sizeof found))
                return false;
            read_string(image->file, image->strings + found.st_name, name, sizeof name);
            if (found.st_shndx != SHN_UNDEF && zg_string_equal(name, symbol)) return true;
        }
        if (chain & 1) return false;
    }
    return false;
}

static bool is_sanitized(struct image *image) {
    // __overflow: all sanitizers replace this function of libc, and gcc's static sanitizer runtimes export little else.
    static const char *const starts[] = {"__asan_init",   "__tsan_init", "__msan_init",
                                         "__hwasan_init", "__lsan_init", "__overflow"};
    if (!image->dynamic) return false;
    if (needs_sanitizer(image)) return true;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(starts); i++)
        if (exports(image, starts[i])) return true;
    return false;
}

static bool is_other_loader(const char *path) {
    static const char *const names[] = {"ld-musl", "ld-uClibc", "linker"};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(names); i++)
        if (zg_string_begins(zg_string_last_part(path), names[i])) return true;
    return false;
}

// qemu's user-mode emulators are named after a processor, with an optional suffix: qemu-x86_64, qemu-aarch64-static.
// The names in `others` are tools of qemu.
static bool is_emulator(const char *name) {
    static const char *const others[] = {"system-",     "img",           "io",   "nbd",      "ga",    "storage-daemon",
                                         "pr-helper",   "bridge-helper", "edid", "keymap",   "trace", "kvm",
                                         "debootstrap", "make-debian",   "vmsr", "virtiofsd"};
    if (!zg_string_begins(name, "qemu-")) return false;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(others); i++)
        if (zg_string_begins(name + 5, others[i])) return false;
    return true;
}

// Whether a note segment has the note of an executable that contains the runtime (CZombieStatic).
static bool has_note(const struct image *image, const ElfW(Phdr) * segment) {
    enum { NOTES_MOST = 1024 };
    static const char owner[] = ZG_STATIC_NOTE_OWNER;
    char notes[NOTES_MOST];
    int64_t got = zg_os_read_at(image->file, notes, zg_min(segment->p_filesz, NOTES_MOST), segment->p_offset);
    ElfW(Nhdr) note;
    for (uint64_t at = 0; got >= 0 && at + sizeof note + sizeof owner <= (uint64_t)got;) {
        __builtin_memcpy(&note, notes + at, sizeof note);
        if (note.n_namesz == sizeof owner && note.n_type == ZG_STATIC_NOTE_TYPE &&
            __builtin_memcmp(notes + at + sizeof note, owner, sizeof owner) == 0)
            return true;
        at += sizeof note + zg_round_up(note.n_namesz, 4) + zg_round_up(note.n_descsz, 4);
    }
    return false;
}

static bool contains_runtime(const struct image *image) {
    ElfW(Phdr) segment;
    for (uint64_t i = 0; i < segment_count(image) && read_segment(image, i, &segment); i++)
        if (segment.p_type == PT_NOTE && has_note(image, &segment)) return true;
    return false;
}

static enum zg_program_kind look_at_image(struct image *image, const char *path) {
    if (image->header.e_ident[EI_CLASS] != ELFCLASS64 || image->header.e_machine != ZG_ARCH_ELF_MACHINE)
        return zg_program_other_machine;
    if (is_emulator(zg_string_last_part(path))) return zg_program_emulator;
    if (image->header.e_phentsize != sizeof(ElfW(Phdr))) return zg_program_takes_it;
    bool has_loader = false, is_loaded = false;
    for (uint64_t i = 0; i < segment_count(image); i++) {
        ElfW(Phdr) segment;
        if (!read_segment(image, i, &segment)) break;
        if (segment.p_type == PT_DYNAMIC) {
            image->dynamic = segment.p_offset;
            image->dynamic_bytes = segment.p_filesz;
        } else if (segment.p_type == PT_LOAD) {
            is_loaded = true;
        } else if (segment.p_type == PT_INTERP) {
            char loader[FIRST_LINE];
            read_string(image->file, segment.p_offset, loader, zg_min(segment.p_filesz + 1, sizeof loader));
            has_loader = true;
            if (is_other_loader(loader)) return zg_program_other_libc;
        }
    }
    // musl's loader can be executed directly, to run a program.
    if (!has_loader && image->dynamic && is_other_loader(path)) return zg_program_other_libc;
    if (is_sanitized(image)) return zg_program_sanitized;
    // glibc's loader can be executed directly. It then applies LD_PRELOAD to the program that it is given.
    bool is_loader = image->dynamic && zg_string_begins(zg_string_last_part(path), "ld-");
    bool takes_it = has_loader || is_loader || !is_loaded || contains_runtime(image);
    return takes_it ? zg_program_takes_it : zg_program_static;
}

// Finds the interpreter in a script's first line, and terminates it in place. False if there is none.
static bool find_interpreter(char *line, char **path) {
    char *at = line + 2;
    while (*at == ' ' || *at == '\t') at++;
    *path = at;
    while (*at && *at != ' ' && *at != '\t' && *at != '\n' && *at != '\r') at++;
    *at = 0;
    return **path != 0;
}

static ZG_NOINLINE enum zg_program_kind classify_file(int file, const char *path) {
    struct image image = {.file = file};
    if (!read_at(file, &image.header, sizeof image.header, 0)) return zg_program_takes_it;
    if (!zg_string_begins((const char *)image.header.e_ident, ELFMAG)) return zg_program_takes_it;
    return look_at_image(&image, path);
}

static enum zg_program_kind classify_rights(int directory, const char *path) {
    return zg_os_gains_privileges(directory, path) ? zg_program_privileged : zg_program_takes_it;
}

enum zg_program_kind zg_program_classify(int directory, const char *path) {
    char line[FIRST_LINE + 1];
    enum zg_program_kind kind = zg_program_takes_it;
    for (int depth = 0; depth < DEEPEST_SCRIPT; depth++) {
        bool is_open = !depth && !*path;
        int file = is_open ? directory : zg_os_open_program(directory, path);
        // Either execve will report the error, or the file is executable without being readable.
        if (file < 0) return classify_rights(directory, path);
        int64_t got = zg_os_read_at(file, line, FIRST_LINE, 0);
        bool is_script = got > 2 && line[0] == '#' && line[1] == '!';
        if (!is_script) kind = classify_file(file, path);
        if (!is_script && kind == zg_program_takes_it) kind = classify_rights(directory, path);
        if (!is_open) zg_os_close(file);
        if (!is_script) return kind;
        line[got] = 0;
        char *interpreter;
        if (!find_interpreter(line, &interpreter)) return kind;
        path = interpreter;
        directory = AT_FDCWD;
    }
    return kind;
}

int zg_program_has_swift(const char *path) {
    enum { NAMES_MOST = 2048 };
    static const char wanted[] = "swift5_";
    char names[NAMES_MOST];
    int file = zg_os_open_program(AT_FDCWD, path);
    if (file < 0) return 0;
    ElfW(Ehdr) header;
    ElfW(Shdr) section;
    int64_t got = 0;
    if (read_at(file, &header, sizeof header, 0) && header.e_shoff && header.e_shentsize == sizeof section &&
        read_at(file, &section, sizeof section, header.e_shoff + header.e_shstrndx * sizeof section))
        got = zg_os_read_at(file, names, zg_min(section.sh_size, NAMES_MOST), section.sh_offset);
    zg_os_close(file);
    // Search for the digit 5 first, because few other section names contain it: this runs at every program start.
    const char *end = names + (got > 0 ? got : 0);
    for (const char *at = names; (at = __builtin_memchr(at, '5', (size_t)(end - at))); at++)
        if (at - names >= 5 && end - at >= 2 && __builtin_memcmp(at - 5, wanted, sizeof wanted - 1) == 0) return 1;
    return 0;
}
