// A line buffer from getline is freed after use, and again in the final cleanup.
// finding: double-free
// access: free
// block: offset=0 state=quarantined language=unknown
// stack-access: drop_buffer
// stack-free: drop_line
// stack-alloc: ~read_line
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME int read_line(FILE *file, char **line, size_t *capacity) {
    int read = (int)getline(line, capacity, file);
    KEEP_FRAME();
    return read;
}

FRAME void drop_line(char *line) {
    free(line);
    KEEP_FRAME();
}

FRAME void drop_buffer(char *line) {
    free(line);
    KEEP_FRAME();
}

int main(void) {
    char text[] = "first line\nsecond line\n";
    FILE *file = fmemopen(text, strlen(text), "r");
    char *line = NULL;
    size_t capacity = 0;
    printf("%d\n", read_line(file, &line, &capacity));
    drop_line(line);
#ifdef FIXED
    line = NULL;
    capacity = 0;
    printf("%d\n", read_line(file, &line, &capacity));
#endif
    drop_buffer(line);
    fclose(file);
    return 0;
}
