// Event loop whose code is in no file, like that of a just-in-time compiler, and has a name in /tmp/perf-PID.map.
// usage: unnamed_code file|grows|link|other ELSEWHERE
// The map is a file, a file whose last line is written in two parts, a link to ELSEWHERE, or another user's file.
#define _GNU_SOURCE
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned long used(void) { // microseconds of processor time
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (unsigned long)usage.ru_utime.tv_sec * 1000000 + (unsigned long)usage.ru_utime.tv_usec;
}

int main(int count, char **words) {
    if (count < 3) return 3;
#if defined(__x86_64__)
    // push rbp; mov rbp, rsp; mov eax, 50000000; dec eax; jnz; pop rbp; ret
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb8, 0x80, 0xf0, 0xfa,
                                         0x02, 0xff, 0xc8, 0x75, 0xfc, 0x5d, 0xc3};
#else
    // mov w0, #0x2faf, lsl #16; subs w0, w0, #1; b.ne; ret
    static const unsigned code[] = {0x52a5f5e0, 0x71000400, 0x54ffffe1, 0xd65f03c0};
#endif
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    if (page == MAP_FAILED) return 2;
    memcpy(page, code, sizeof code);
    snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
    unlink(name);
    if (!strcmp(words[1], "link") && symlink(words[2], name)) return 2;
    FILE *map = fopen(!strcmp(words[1], "link") ? words[2] : name, "w");
    if (!map) return 2;
    bool grows = !strcmp(words[1], "grows");
    fprintf(map, "not a line\nffffffffffffffff 2 too far\n%lx %zx compiled%s", (unsigned long)page, sizeof code,
            grows ? "" : " total\n");
    fflush(map);
    if (!strcmp(words[1], "other") && chown(name, 65534, 65534)) return 2;
    for (int i = 0; i < 3; i++) poll(NULL, 0, 20);
    void (*total)(void);
    memcpy(&total, &page, sizeof page);
    for (unsigned long end = used() + 800000; used() < end;) {
        total();
        if (grows && used() > end - 400000) {
            fprintf(map, " total\n");
            fflush(map);
            grows = false;
        }
    }
    for (int i = 0; i < 3; i++) poll(NULL, 0, 20);
    unlink(name);
    return 0;
}
