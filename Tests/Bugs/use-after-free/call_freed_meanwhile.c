// A buffer is freed while another thread waits in read() for data into this buffer.
// finding: use-after-free
// access: write
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: fill_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="read" bytes="22" freed="during the call"
// libs: -lpthread

#include "../bug.h"
#include <pthread.h>
#include <unistd.h>

enum { buffer_bytes = 200 };
static int pair[2];

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int fill_buffer(int descriptor, char *buffer) {
    int bytes = (int)read(descriptor, buffer, buffer_bytes);
    KEEP_FRAME();
    return bytes;
}

static void *run(void *buffer) { return (void *)(long)fill_buffer(pair[0], buffer); }

int main(void) {
    pthread_t thread;
    void *bytes;
    char *buffer = make_buffer();
    if (pipe(pair) || pthread_create(&thread, NULL, run, buffer)) return 1;
    usleep(200000); // now the thread waits in read()
#ifndef FIXED
    drop_buffer(buffer);
#endif
    if (write(pair[1], "all that comes through", 22) != 22) return 1;
    pthread_join(thread, &bytes);
    printf("%d\n", (int)(long)bytes);
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
