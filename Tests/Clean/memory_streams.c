// A program uses memory streams, and libc functions that return blocks for the caller to free.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *buffer = NULL, *text = NULL, *line = NULL;
    size_t size = 0, capacity = 0;
    FILE *stream = open_memstream(&buffer, &size);
    for (int i = 0; i < 20000; i++) fprintf(stream, "line %d\n", i);
    fclose(stream);
    printf("%zu\n", size);
    stream = fmemopen(buffer, size, "r");
    long sum = 0;
    while (getline(&line, &capacity, stream) > 0) sum += (long)strlen(line);
    rewind(stream);
    while (getdelim(&line, &capacity, ' ', stream) > 0) sum++;
    fclose(stream);
    printf("%ld\n", sum);
    if (asprintf(&text, "%s and %*d", "text", 5000, 7) < 0) return 1;
    printf("%zu\n", strlen(text));
    char *copy = strndup(text, 10), *word = NULL;
    puts(copy);
    if (sscanf("  scanned 12", "%ms", &word) != 1) return 2;
    puts(word);
    char *path = realpath("/usr/../usr", NULL);
    puts(path);
    free(path);
    free(word);
    free(copy);
    free(text);
    free(line);
    free(buffer);
    return 0;
}
