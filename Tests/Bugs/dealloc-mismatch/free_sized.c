// free_sized is passed a size other than the one that was allocated.
// finding: dealloc-mismatch
// access: free
// block: size=80 offset=0
// stack-access: drop_packet
// stack-alloc: make_packet
// exit: 99
// confidence: exact
// detail: allocated_with="malloc" freed_with="free_sized"
// static: the program looks the function up with dlsym

#define _GNU_SOURCE
#include "../bug.h"
#include <dlfcn.h>

// The function free_sized of C23; NULL if the C library does not have it yet.
static void (*sized)(void *, size_t);

FRAME char *make_packet(void) {
    char *packet = malloc(80);
    strcpy(packet, "packet");
    return packet;
}

FRAME void drop_packet(char *packet) {
    if (!sized) free(packet);
#ifdef FIXED
    else sized(packet, 80);
#else
    else sized(packet, 64);
#endif
    KEEP_FRAME();
}

int main(void) {
    void *function = dlsym(RTLD_DEFAULT, "free_sized");
    memcpy(&sized, &function, sizeof sized);
    char *packet = make_packet();
    puts(packet);
    drop_packet(packet);
    return 0;
}
