// A child passes a buffer that was freed before the fork to write().
// finding: use-after-free
// access: read
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: empty_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 7
// confidence: exact
// detail: call="write" bytes="200"

#include "../bug.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { buffer_bytes = 200 };

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int empty_buffer(int descriptor, char *buffer) {
    int bytes = (int)write(descriptor, buffer, buffer_bytes);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int descriptor = open("/dev/null", O_WRONLY), status = 0;
    char *buffer = make_buffer();
#ifndef FIXED
    drop_buffer(buffer);
#endif
    pid_t child = fork();
    if (!child) _exit(empty_buffer(descriptor, buffer) == buffer_bytes ? 0 : 1);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 7 : 0;
}
