// writev() is passed a vector array that is freed memory.
// finding: use-after-free
// access: read
// block: size=32 offset=0 state=quarantined language=unknown
// stack-access: send_all
// stack-free: drop_vectors
// stack-alloc: make_vectors
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="writev" bytes="32"

#include "../bug.h"
#include <sys/uio.h>
#include <unistd.h>

FRAME struct iovec *make_vectors(void) {
    struct iovec *vectors = malloc(2 * sizeof *vectors);
    vectors[0] = (struct iovec){"one", 3};
    vectors[1] = (struct iovec){"two", 3};
    return vectors;
}

FRAME void drop_vectors(struct iovec *vectors) {
    free(vectors);
    KEEP_FRAME();
}

FRAME int send_all(int descriptor, struct iovec *vectors) {
    int bytes = (int)writev(descriptor, vectors, 2);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    struct iovec *vectors = make_vectors();
    if (pipe(pair)) return 1;
#ifndef FIXED
    drop_vectors(vectors);
#endif
    printf("%d\n", send_all(pair[1], vectors));
#ifdef FIXED
    drop_vectors(vectors);
#endif
    return 0;
}
