// Tests identities of stacks: equal in another process and directory, equal to zguard's, different for other frames.
// link: runtime
// library: loading_library.c

#include "stacks/identity.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "images/unloaded.h"
#include "process/runtime.h"
#include "stacks/depot.h"

#include "check.h"

#define PRINT "print"

static uint64_t identity_of(const uint64_t *frames, int count) {
    return zg_stack_identity(zg_depot_put(frames, count));
}

// Return addresses in the program and in the C library
static uint64_t in_program(void) { return (uint64_t)(void *)identity_of + 8; }
static uint64_t in_libc(void) { return (uint64_t)dlsym(RTLD_DEFAULT, "qsort") + 20; }

static uint64_t known_stack(void) {
    uint64_t frames[] = {in_libc(), in_program(), in_program() + 4};
    return identity_of(frames, 3);
}

static void check_values(void) {
    // StackIdentityTests.swift has the same values.
    CHECK_EQUAL(zg_identity_add(ZG_IDENTITY_START, "", 0), UINT64_C(0xe604823a249029bf), "a frame in no module");
    uint64_t one = zg_identity_add(ZG_IDENTITY_START, "/usr/lib/libshop.so.1", 0x1234);
    CHECK_EQUAL(one, UINT64_C(0x9d7024286e4cec71), "a frame in a library");
    CHECK_EQUAL(zg_identity_add(one, "app", UINT64_C(0xfedcba9876543210)), UINT64_C(0xb7b6170f08895e10), "two frames");
    CHECK_EQUAL(zg_identity_add(ZG_IDENTITY_START, "libshop.so.1", 0x1234), one, "directories do not matter");
}

static void check_frames(void) {
    uint64_t frames[ZG_IDENTITY_FRAMES + 8], identities[ZG_IDENTITY_FRAMES];
    Dl_info program;
    CHECK(dladdr((void *)in_program(), &program), "the program is an image");
    frames[0] = in_program(), frames[1] = 0x1000;
    uint64_t one =
        zg_identity_add(ZG_IDENTITY_START, program.dli_fname, in_program() - 1 - (uint64_t)program.dli_fbase);
    CHECK_EQUAL(identity_of(frames, 1), one, "the program's name, and the offset of the call");
    CHECK_EQUAL(identity_of(frames, 2), zg_identity_add(one, "", 0), "an address in no module is a constant");
    frames[1] = 0x2000;
    CHECK_EQUAL(identity_of(frames, 2), zg_identity_add(one, "", 0), "whatever the address");
    frames[1] = in_libc();
    uint64_t inner = identity_of(frames, 2), swapped[] = {frames[1], frames[0]};
    CHECK(inner != identity_of(swapped, 2), "order matters");
    for (int i = 0; i < ZG_IDENTITY_FRAMES + 8; i++) frames[i] = in_program() + (uint64_t)i;
    uint64_t whole = identity_of(frames, ZG_IDENTITY_FRAMES + 8);
    CHECK_EQUAL(whole, identity_of(frames, ZG_IDENTITY_FRAMES), "frames further out do not matter");
    CHECK(whole != identity_of(frames, ZG_IDENTITY_FRAMES - 1), "those further in do");
    uint32_t stack = zg_depot_put(frames, ZG_IDENTITY_FRAMES + 8);
    CHECK_EQUAL(zg_stack_identities(stack, identities), ZG_IDENTITY_FRAMES, "an identity of each inner part");
    for (int i = 1; i <= ZG_IDENTITY_FRAMES; i++)
        CHECK_EQUAL(identities[i - 1], identity_of(frames, i), "which is that of a stack of these frames");
    CHECK_EQUAL(zg_stack_identity(0), ZG_IDENTITY_START, "the unknown stack has no frames");
    CHECK_EQUAL(zg_stack_identities(0, identities), 0, "and no identities");
}

// Runs a copy of the program in another directory: at other addresses, if addresses are random.
static void check_other_process(void) {
    char directory[] = "/tmp/zguard-identity.XXXXXX", copy[64], text[32] = "", *end = text;
    static char bytes[1 << 16];
    if (!CHECK(mkdtemp(directory), "a directory is made")) return;
    snprintf(copy, sizeof copy, "%s/identity", directory);
    int from = open("/proc/self/exe", O_RDONLY), to = open(copy, O_WRONLY | O_CREAT, 0700), results[2];
    for (ssize_t count; (count = read(from, bytes, sizeof bytes)) > 0;)
        CHECK_EQUAL(write(to, bytes, (size_t)count), count, "the program is copied");
    close(from), close(to);
    CHECK_EQUAL(pipe(results), 0, "a pipe is made");
    pid_t child = fork();
    if (child == 0) {
        dup2(results[1], 1);
        execl(copy, copy, PRINT, NULL);
        _exit(127);
    }
    close(results[1]);
    CHECK(read(results[0], text, sizeof text - 1) > 0, "the copy prints");
    waitpid(child, NULL, 0);
    CHECK_EQUAL(strtoull(text, &end, 16), known_stack(), "the same stack has the same identity there");
    close(results[0]);
    unlink(copy), rmdir(directory);
}

static void check_closed_library(const char *path) {
    zg_unloaded_note_first();
    void *library = dlopen(path, RTLD_NOW);
    uint64_t frame = library ? (uint64_t)dlsym(library, "loading_call") : 0;
    if (!CHECK(frame, "the library is loaded")) return;
    frame += 5;
    uint64_t before = identity_of(&frame, 1);
    CHECK(before != zg_identity_add(ZG_IDENTITY_START, "", 0), "a frame in a library");
    zg_unloaded_note_loaded();
    dlclose(library);
    CHECK_EQUAL(identity_of(&frame, 1), before, "is the same after the library was closed");
}

int main(int count, char **words) {
    if (!CHECK_EQUAL(count, 2, "the library is the argument")) return check_end();
    zg_runtime_start();
    if (!strcmp(words[1], PRINT)) return printf("%jx\n", (uintmax_t)known_stack()), 0;
    check_values();
    check_frames();
    check_other_process();
    check_closed_library(words[1]);
    return check_end();
}
