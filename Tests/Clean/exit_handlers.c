// Handlers of atexit and on_exit free, allocate and register more handlers; destructors run after them.
// musl: musl has no on_exit

#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text;

static void last(void) {
    puts(text);
    free(text);
}

static void first(void) {
    text = realloc(text, 1000);
    strcat(text, ", moved at exit");
    atexit(last);
}

static void with_argument(int status, void *argument) {
    printf("%d %s\n", status, (char *)argument);
    free(argument);
}

__attribute__((destructor)) static void destroy(void) {
    char *late = strdup("destructor");
    puts(late);
    free(late);
}

int main(void) {
    text = strdup("made in main");
    atexit(first);
    on_exit(with_argument, strdup("argument"));
    exit(6);
}
