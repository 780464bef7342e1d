// A program reads a file mapping behind the end of the truncated file and recovers from the bus error.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf recovery;

static void on_fault(int number) { siglongjmp(recovery, number); }

int main(void) {
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), 8192)) return 1;
    const volatile char *pages = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (pages == MAP_FAILED || ftruncate(fileno(file), 4096)) return 2;
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGBUS, &action, NULL);
    int number = sigsetjmp(recovery, 1);
    if (!number) printf("%d\n", pages[5000]);
    printf("%d\n", number == SIGBUS);
    fclose(file);
    return 0;
}
