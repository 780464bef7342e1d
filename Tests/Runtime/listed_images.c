// Images found by the loader's list: the same as in glibc's own table while they are loaded, and none afterwards.
// qemu-user: does not emulate process_vm_readv, by which the loader's list is read
// link: runtime
// library: loading_library.c
// libs: -ldl

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "images/chain.h"
#include "images/module.h"

static const char *library_path;

static int agree(uint64_t address) {
    struct zg_module module;
    struct dl_find_object object;
    int is_known = _dl_find_object((void *)address, &object) == 0;
    enum zg_chain_answer answer = zg_chain_find(address, &module);
    if (!is_known) return answer == zg_chain_none;
    // For an image with a gap between its segments, glibc returns only the segment that holds the address.
    return answer == zg_chain_found && module.start <= (uint64_t)object.dlfo_map_start &&
           module.end >= (uint64_t)object.dlfo_map_end - 4096 && module.bias == object.dlfo_link_map->l_addr &&
           module.eh_frame_hdr == object.dlfo_eh_frame && module.path == object.dlfo_link_map->l_name;
}

// Looks up the first, a middle and the last address of each executable segment of an image.
static int look_around(struct dl_phdr_info *info, size_t bytes, void *images) {
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, size = info->dlpi_phdr[i].p_memsz;
        CHECK(agree(start) && agree(start + size / 2) && agree(start + size - 1), info->dlpi_name);
    }
    ++*(int *)images;
    return 0;
}

static void check_all_agree(void) {
    int images = 0, on_stack;
    dl_iterate_phdr(look_around, &images);
    CHECK(images >= 4, "the program, the kernel's image, libc and the loader");
    static int own;
    void *block = malloc(1), *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(agree((uint64_t)&own), "a variable of the program's");
    const uint64_t elsewhere[] = {
        0, 1, 4096, (uint64_t)&on_stack, (uint64_t)block, (uint64_t)mapped, UINT64_C(1) << 47, ~0ull};
    for (unsigned i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) CHECK(agree(elsewhere[i]), "no image");
    free(block);
    munmap(mapped, 4096);
}

// --- libraries that are loaded and closed ----------------------------------------------------------------------------

static void check_comings_and_goings(void) {
    uint64_t places[3];
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL),
             *more = i % 3 ? NULL : dlopen("libm.so.6", RTLD_NOW);
        uint64_t code = library ? (uint64_t)dlsym(library, "loading_call") : 0;
        if (!CHECK(code && agree(code), "an image that was just opened is found")) return;
        places[i % 3] = code;
        dlclose(library);
        if (more) dlclose(more);
        CHECK(agree(code) && agree(places[0]), "one that was closed is not");
    }
}

// --- another library at the same addresses ---------------------------------------------------------------------------

static _Alignas(ElfW(Ehdr)) char bytes[1 << 20];

// Copies the library, and moves the address of the unwind rules in its program header by a word. Returns NULL on
// failure.
static const char *make_other(char *template) {
    int input = open(library_path, O_RDONLY), output = mkstemp(template);
    ssize_t count = input < 0 ? -1 : read(input, bytes, sizeof bytes);
    const ElfW(Ehdr) *header = (const void *)bytes;
    int changed = 0;
    for (int i = 0; count > 0 && i < header->e_phnum; i++) {
        ElfW(Phdr) *entry = (void *)(bytes + header->e_phoff + i * sizeof *entry);
        if (entry->p_type == PT_GNU_EH_FRAME) entry->p_vaddr += 8, changed = 1;
    }
    int done = changed && output >= 0 && write(output, bytes, (size_t)count) == count;
    close(input);
    close(output);
    return done ? template : NULL;
}

static void check_replacement(void) {
    char template[] = "/tmp/zguard-listed.XXXXXX";
    const char *other = make_other(template);
    struct zg_module first, second;
    int replaced = 0;
    CHECK(other, "the library is copied");
    for (int i = 0; other && i < 40 && !replaced; i++) {
        void *library = dlopen(library_path, RTLD_NOW);
        uint64_t code = (uint64_t)dlsym(library, "loading_call");
        CHECK_EQUAL(zg_chain_find(code, &first), zg_chain_found, "the first");
        dlclose(library);
        library = dlopen(other, RTLD_NOW);
        replaced = (uint64_t)dlsym(library, "loading_call") == code;
        if (replaced) {
            CHECK_EQUAL(zg_chain_find(code, &second), zg_chain_found, "the second in its place");
            CHECK_EQUAL(second.eh_frame_hdr - first.eh_frame_hdr, 8, "has rules of its own");
            CHECK(!strcmp(second.path, other), "and a name of its own");
        }
        dlclose(library);
        CHECK(agree(code), "and is gone after it");
    }
    CHECK(replaced, "one library took the other's place");
    unlink(template);
}

// --- while another thread has the loader's lock ----------------------------------------------------------------------

static int looked, is_held;

static int hold(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info, (void)size, (void)context;
    __atomic_store_n(&is_held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) usleep(100);
    return 1;
}

static void *hold_lock(void *unused) {
    dl_iterate_phdr(hold, NULL);
    return unused;
}

// Hangs if the lookup takes the loader's lock.
static void check_no_lock(void) {
    void *library = dlopen(library_path, RTLD_NOW);
    uint64_t code = (uint64_t)dlsym(library, "loading_call");
    pthread_t thread;
    pthread_create(&thread, NULL, hold_lock, NULL);
    while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) usleep(100);
    struct zg_module module;
    int found = zg_chain_find((uint64_t)check_no_lock, &module) == zg_chain_found;
    int found_new = zg_chain_find(code, &module) == zg_chain_found,
        found_none = zg_chain_find(1, &module) == zg_chain_none;
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK(found && found_new && found_none, "looked up while another thread has the loader's lock");
    dlclose(library);
}

// --- many threads ----------------------------------------------------------------------------------------------------

static int stops;

static void *come_and_go(void *unused) {
    while (!__atomic_load_n(&stops, __ATOMIC_RELAXED)) {
        void *library = dlopen(library_path, RTLD_NOW);
        struct zg_module module;
        uint64_t code = (uint64_t)dlsym(library, "loading_call");
        if (zg_chain_find(code, &module) != zg_chain_found) __atomic_store_n(&stops, 2, __ATOMIC_RELAXED);
        dlclose(library);
    }
    return unused;
}

static void check_threads(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, come_and_go, NULL);
    int wrong = 0;
    struct zg_module module, own;
    zg_chain_find((uint64_t)check_threads, &own);
    for (int i = 0; i < 4000; i++) {
        enum zg_chain_answer answer = zg_chain_find((uint64_t)check_threads, &module);
        wrong += answer != zg_chain_found || module.eh_frame_hdr != own.eh_frame_hdr || module.start != own.start;
        wrong += zg_chain_find(1, &module) == zg_chain_found;
    }
    __atomic_fetch_or(&stops, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(wrong, 0, "wrong answers while libraries come and go");
    CHECK_EQUAL(stops & 2, 0, "a library that its own thread has just opened is not found");
}

// --- where memory cannot be read -------------------------------------------------------------------------------------

static void check_refused(void) {
    pid_t child = fork();
    if (!child) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = {sizeof code / sizeof *code, code};
        struct zg_module module;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) _exit(0); // the kernel has no seccomp filters
        _exit(zg_chain_find((uint64_t)check_refused, &module) == zg_chain_unknown &&
                      zg_chain_find(1, &module) == zg_chain_unknown
                  ? 0
                  : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0, "where memory may not be read nothing is said");
}

int main(int count, char **words) {
    CHECK_EQUAL(count, 2, "the library is the argument");
    library_path = words[1];
    zg_chain_init();
    check_all_agree();
    check_comings_and_goings();
    check_all_agree();
    check_replacement();
    check_no_lock();
    check_threads();
    check_all_agree();
    check_refused();
    return check_end();
}
