// A program changes and clears its environment, which contains a string that the program allocated.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *own = strdup("OWN=1");
    for (int i = 0; i < 1000; i++) {
        char value[300];
        memset(value, 'v', sizeof value - 1);
        value[i % 299] = 0;
        setenv("CHANGING", value, 1);
    }
    putenv(own);
    printf("%s %zu\n", getenv("OWN"), strlen(getenv("CHANGING")));
    unsetenv("CHANGING");
    clearenv();
    free(own);
    printf("%d\n", getenv("PATH") == NULL);
    setenv("AGAIN", "again", 1);
    puts(getenv("AGAIN"));
    return 0;
}
