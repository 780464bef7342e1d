// The program executes itself with an empty environment.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments) {
    free(malloc(100));
    if (count > 1) {
        printf("%d variables\n", environ && environ[0] && getenv("PATH") ? 1 : 0);
        return 8;
    }
    char *empty[] = {NULL};
    char *next[] = {arguments[0], "again", NULL};
    execve("/proc/self/exe", next, empty);
    return 1;
}
