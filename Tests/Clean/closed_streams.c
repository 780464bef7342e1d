// A program first closes standard input, output and error, then opens another file in their place and ends.

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 3; i++) close(i);
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i * 10));
    int descriptor = open("/dev/null", O_RDWR);
    char *text = strdup("text");
    if (descriptor != 0 || write(descriptor, text, 4) != 4) return 1;
    free(text);
    return 7;
}
