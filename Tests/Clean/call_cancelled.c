// Threads are cancelled in read(), recv(), readv(), recvmsg() and write(); their cleanup handlers free the buffers.
// libs: -lpthread

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { rounds = 5, ways = 6, bytes = 100000 };
static int pipe_pair[2], socket_pair[2], full_pair[2];
static int cleaned;

static void clean_up(void *block) {
    free(block);
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *wait_for_ever(void *way) {
    char *block = malloc(bytes);
    struct iovec vectors[] = {{block, 10}, {block + 10, bytes - 10}};
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
    volatile ssize_t result = 0;
    pthread_cleanup_push(clean_up, block);
    switch ((long)way) {
    case 0: result = read(pipe_pair[0], block, bytes); break;
    case 1: result = readv(pipe_pair[0], vectors, 2); break;
    case 2: result = recv(socket_pair[0], block, bytes, 0); break;
    case 3: result = recvmsg(socket_pair[0], &message, 0); break;
    case 4: result = recvfrom(socket_pair[0], block, bytes, 0, NULL, NULL); break;
    case 5: result = write(full_pair[1], block, bytes); break;
    }
    pthread_cleanup_pop(1);
    return (void *)result;
}

int main(void) {
    pthread_t threads[rounds * ways];
    int cancelled = 0;
    if (pipe(pipe_pair) || pipe(full_pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_pair)) return 1;
    fcntl(full_pair[1], F_SETFL, O_NONBLOCK);
    char *block = calloc(1, bytes);
    while (write(full_pair[1], block, bytes) > 0) continue;
    fcntl(full_pair[1], F_SETFL, 0);
    free(block);
    for (long i = 0; i < rounds * ways; i++) pthread_create(&threads[i], NULL, wait_for_ever, (void *)(i % ways));
    usleep(100000);
    for (int i = 0; i < rounds * ways; i++) {
        void *result = NULL;
        pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("%d %d\n", cancelled, cleaned);
    return 0;
}
