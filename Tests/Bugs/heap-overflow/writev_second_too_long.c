// The second of three buffers passed to writev() is longer than its block.
// finding: heap-overflow
// access: read
// block: size=50 offset=50 state=live language=unknown
// stack-access: send_record
// stack-alloc: make_body
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="writev" bytes="60" excess="10"

#include "../bug.h"
#include <sys/uio.h>
#include <unistd.h>

#ifdef FIXED
enum { body_bytes = 50, sent = 50 };
#else
enum { body_bytes = 50, sent = 60 };
#endif

FRAME char *make_body(void) {
    char *body = malloc(body_bytes);
    memset(body, 'b', body_bytes);
    return body;
}

FRAME int send_record(int descriptor, char *body) {
    char header[8] = "header", end[] = "end";
    struct iovec vectors[] = {{header, sizeof header}, {body, sent}, {end, sizeof end}};
    int bytes = (int)writev(descriptor, vectors, 3);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *body = make_body();
    if (pipe(pair)) return 1;
    printf("%d\n", send_record(pair[1], body));
    free(body);
    return 0;
}
