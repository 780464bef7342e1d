// C programs, one per function, that print the error message of another language's runtime and return its exit status,
// for Tests/Detection/panics.py. The lines before the functions have the format of exits.rs.

#include <stdio.h>
#include <string.h>

// quiet: 101
static int rust(void) {
    fputs("thread 'main' panicked at 'out of cheese', shop.rs:1:1\n", stderr);
    return 101;
}

// quiet: 1
static int python(void) {
    fputs("Traceback (most recent call last):\n  File \"shop.py\", line 3, in <module>\nValueError: none\n", stderr);
    return 1;
}

// quiet: 1
static int node(void) {
    fputs("shop.js:1\nthrow 1\n^\n\nError: none\n    at shop.js:1:1\n\nNode.js v20.1.0\n", stderr);
    return 1;
}

// quiet: 2
static int go(void) {
    fputs("panic: out of cheese\n\ngoroutine 1 [running]:\nmain.main()\n", stderr);
    return 2;
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    return !strcmp(name, "rust") ? rust() : !strcmp(name, "python") ? python() : !strcmp(name, "node") ? node() : go();
}
