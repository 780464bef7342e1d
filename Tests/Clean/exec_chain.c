// A program executes itself ten times in the same process and allocates each time.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    char *digits = NULL, *identity = NULL;
    int depth = count > 1 ? atoi(arguments[1]) : 0;
    pid_t first = count > 2 ? atoi(arguments[2]) : getpid();
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i));
    if (depth == 10) {
        printf("%d\n", first == getpid());
        return 10;
    }
    if (asprintf(&digits, "%d", depth + 1) < 0 || asprintf(&identity, "%d", (int)first) < 0) return 1;
    execl("/proc/self/exe", arguments[0], digits, identity, (char *)NULL);
    return 2;
}
