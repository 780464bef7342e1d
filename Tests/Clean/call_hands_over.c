// A receiver frees the sender's buffer before write() returns; a vfork() child passes a block of its parent to write().
// libs: -lpthread

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { messages = 20000 };
struct message {
    struct message *self;
    char text[120];
};
static int pair[2];

static void *receive(void *unused) {
    struct message got;
    long count = 0;
    while (read(pair[0], &got, sizeof got) == sizeof got && got.self) {
        free(got.self);
        count++;
    }
    return unused ? NULL : (void *)count;
}

static void hand_over(void) {
    pthread_t thread;
    void *count = NULL;
    pthread_create(&thread, NULL, receive, NULL);
    for (int i = 0; i < messages; i++) {
        struct message *message = calloc(1, sizeof *message);
        message->self = message;
        struct iovec vectors[] = {{message, 8}, {message->text, sizeof message->text}};
        ssize_t bytes = i & 1 ? write(pair[1], message, sizeof *message) : writev(pair[1], vectors, 2);
        if (bytes != sizeof *message) puts("short");
    }
    struct message last = {0};
    if (write(pair[1], &last, sizeof last) != sizeof last) puts("short");
    pthread_join(thread, &count);
    printf("%ld\n", (long)count);
}

static void from_vfork(void) {
    char *block = strdup("from the child\n");
    int status = 0;
    fflush(stdout);
    pid_t child = vfork();
    if (!child) {
        ssize_t bytes = write(1, block, 15);
        _exit(bytes == 15 ? 5 : 6);
    }
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    free(block);
}

int main(void) {
    if (pipe(pair)) return 1;
    hand_over();
    from_vfork();
    return 0;
}
