// Deletes with a wrong size are reported, except in an image that is known for this defect.
// preload
// options: report_path=/dev/null
// library: known_defects_library.c

#include <dlfcn.h>
#include <stdio.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "life.h"

static uint64_t findings_after(const char *path) {
    const struct zg_api *(*api)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    void *library = dlopen(path, RTLD_NOW);
    void (*delete_as_base)(void) = library ? (void (*)(void))dlsym(library, "delete_as_base") : NULL;
    CHECK(api && delete_as_base, "the guard and the library are there");
    if (!api || !delete_as_base) return UINT64_MAX;
    uint64_t first, before = api()->finding_count(&first);
    delete_as_base();
    return api()->finding_count(&first) - before;
}

int main(int count, char **words) {
    (void)count;
    char directory[] = "/tmp/known_defects.XXXXXX", copy[100], command[1000];
    CHECK(mkdtemp(directory), "a directory for the copy");
    snprintf(copy, sizeof copy, "%s/libsourcekitdInProc.so", directory);
    snprintf(command, sizeof command, "cp '%s' %s", words[1], copy);
    CHECK(system(command) == 0, "the library is copied");
    CHECK_EQUAL(findings_after(words[1]), 1, "a delete with a wrong size is reported");
    CHECK_EQUAL(findings_after(copy), 0, "that of an image known for it is not");
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK(system(command) == 0, "the copy is gone");
    return check_end();
}
