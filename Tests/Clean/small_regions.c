// Under an address space limit, the runtime's tables of freed pages are small: pages behind the tables stay protected.
// options: quarantine_bytes=0:isolated_overhead=100%:isolated_per_context=0
// warning: zguard
// musl: musl has no malloc_trim

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGES = 400, COUNT = 5000 };

int main(int count, char **arguments) {
    static void *blocks[COUNT];
    static char *pages[PAGES];
    if (count == 1) {
        struct rlimit limit = {(rlim_t)16 << 30, (rlim_t)16 << 30};
        if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
        execl("/proc/self/exe", arguments[0], "limited", (char *)NULL);
        return 2;
    }
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(200);
    // The kernel maps top-down: new tables lie right below the pages. Alternating protections keep the pages separate.
    for (int i = 0; i < PAGES; i++)
        pages[i] = mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    int zeros = open("/dev/zero", O_RDONLY), writable = 0;
    for (int i = 0; i < PAGES; i++) writable += read(zeros, pages[i], 1) == 1;
    printf("%d pages became writable\n", writable);
    return 0;
}
