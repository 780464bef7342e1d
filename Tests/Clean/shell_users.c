// In system, popen, glob and wordexp, libc starts programs and allocates blocks for the caller.

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <wordexp.h>

int main(void) {
    char line[100];
    fflush(stdout);
    printf("%d\n", system("exit 3") >> 8);
    FILE *pipe = popen("echo from a pipe", "r");
    while (pipe && fgets(line, sizeof line, pipe)) fputs(line, stdout);
    printf("%d\n", pclose(pipe));
    glob_t found;
    printf("%d\n", glob("/bi[n]/../bin/sh", 0, NULL, &found));
    printf("%zu\n", found.gl_pathc);
    globfree(&found);
    wordexp_t words;
    printf("%d", wordexp("one 'two three' $((2 + 2))", &words, 0));
    for (size_t i = 0; i < words.we_wordc; i++) printf(" [%s]", words.we_wordv[i]);
    puts("");
    wordfree(&words);
    return 0;
}
