// Page-aligned buffers that happen to be adjacent are passed to system calls as one buffer, as web servers do.
// options: isolated_per_context=0

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFERS = 32, BYTES = 4096 };

int main(void) {
    int file = memfd_create("file", 0);
    char *buffers[BUFFERS];
    struct iovec vectors[BUFFERS];
    int count = 0;
    for (int i = 0; i < BUFFERS; i++) {
        if (posix_memalign((void **)&buffers[i], BYTES, BYTES)) return 1;
        memset(buffers[i], 'a' + i % 26, BYTES);
        struct iovec *last = &vectors[count - 1];
        if (count && (char *)last->iov_base + last->iov_len == buffers[i]) last->iov_len += BYTES;
        else vectors[count++] = (struct iovec){buffers[i], BYTES};
    }
    printf("%zd\n", writev(file, vectors, count));
    printf("%zd\n", preadv(file, vectors, count, 0));
    ssize_t all = 0;
    for (int i = 0; i < count; i++) all += pwrite(file, vectors[i].iov_base, vectors[i].iov_len, all);
    printf("%zd\n", all);
    for (int i = 0; i < BUFFERS; i++) {
        if (buffers[i][0] != 'a' + i % 26 || buffers[i][BYTES - 1] != buffers[i][0])
            puts("a buffer holds something else");
        free(buffers[i]);
    }
    return 0;
}
