// Strings of 16 MiB are searched and compared, in the worst case for a naive search, which restarts at each byte.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 16 << 20, WANTED = LONG / 2 };

static char *string_of(size_t length, char last) {
    char *string = malloc(length + 1);
    memset(string, 'a', length);
    string[length - 1] = last;
    string[length] = 0;
    return string;
}

int main(void) {
    char *string = string_of(LONG, 'a'), *other = string_of(LONG, 'b'), *wanted = string_of(WANTED, 'b');
    char *volatile found = strstr(string, wanted);
    printf("%d", found != NULL);
    found = strstr(other, wanted);
    printf(" %d", found == other + LONG - WANTED);
    found = strstr(other, "ab");
    printf(" %d", found == other + LONG - 2);
    volatile int differs = strcmp(string, other);
    printf(" %d\n", differs < 0);
    free(string);
    free(other);
    free(wanted);
    return 0;
}
