// A signal handler passes a buffer that the program has freed to write().
// finding: use-after-free
// access: read
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: empty_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="write" bytes="200"

#include "../bug.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { buffer_bytes = 200 };
static char *volatile buffer;
static volatile int written;

FRAME char *make_buffer(void) {
    char *made = malloc(buffer_bytes);
    memset(made, 'b', buffer_bytes);
    return made;
}

FRAME void drop_buffer(char *made) {
    free(made);
    KEEP_FRAME();
}

FRAME int empty_buffer(int descriptor) {
    int bytes = (int)write(descriptor, buffer, buffer_bytes);
    KEEP_FRAME();
    return bytes;
}

static void on_signal(int number) {
    int descriptor = open("/dev/null", O_WRONLY);
    written = number == SIGUSR1 ? empty_buffer(descriptor) : 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    buffer = make_buffer();
#ifndef FIXED
    drop_buffer(buffer);
#endif
    raise(SIGUSR1);
    printf("%d\n", written);
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
