// A second libc, in a namespace of its own (dlmopen), allocates and frees blocks that the first libc does not know.
// libs: -ldl
// musl: musl has no dlmopen

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    if (!library) return 1;
    char *(*duplicate)(const char *) = NULL;
    void (*release)(void *) = NULL;
    *(void **)&duplicate = dlsym(library, "strdup");
    *(void **)&release = dlsym(library, "free");
    for (int i = 0; i < 1000; i++) {
        char *copy = duplicate("made by another library");
        if (strlen(copy) != 23) return 2;
        release(copy);
    }
    dlclose(library);
    puts("end");
    return 0;
}
