// Sockets and pipes transfer fewer bytes than the buffers hold: full pipes, no data, truncated messages, many parts.
// qemu-user: it fails calls with EFAULT whose buffer has an unreadable page, however little of it the call would use
// musl: musl has no strerrorname_np

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void say(const char *what, long result) {
    int error = result < 0 ? errno : 0;
    printf("%s: %ld%s%s\n", what, result, error ? " " : "", error ? strerrorname_np(error) : "");
}

static void full_pipe(void) {
    int pair[2];
    char *block = calloc(1, 200000);
    if (pipe2(pair, O_NONBLOCK)) return;
    say("read nothing", read(pair[0], block, 200000));
    say("write some", write(pair[1], block, 200000));
    say("write none", write(pair[1], block + 65536, 200000 - 65536));
    struct iovec vectors[] = {{block, 100000}, {block + 100000, 100000}};
    say("readv", readv(pair[0], vectors, 2));
    say("writev", writev(pair[1], vectors, 2));
    close(pair[0]);
    close(pair[1]);
    free(block);
}

static void cut_messages(void) {
    int datagrams[2], stream[2];
    char *small = malloc(4), *message = malloc(20);
    memcpy(message, "a message of twenty", 20);
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, datagrams)) return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, stream)) return;
    say("recv nothing", recv(datagrams[0], small, 4, 0));
    say("send", send(datagrams[1], message, 20, 0));
    say("peek", recv(datagrams[0], small, 4, MSG_PEEK));
    say("length of the message", recv(datagrams[0], small, 4, MSG_PEEK | MSG_TRUNC));
    say("length for no buffer", recv(datagrams[0], NULL, 0, MSG_PEEK | MSG_TRUNC));
    struct iovec vector = {small, 4};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    say("recvmsg", recvmsg(datagrams[0], &header, MSG_TRUNC));
    printf("cut: %d\n", (header.msg_flags & MSG_TRUNC) != 0);
    say("send by stream", send(stream[1], message, 20, 0));
    say("recv", recv(stream[0], small, 4, 0));
    say("recv the rest", recv(stream[0], message, 4096, MSG_DONTWAIT));
    say("recv nothing by stream", recvfrom(stream[0], message, 4096, 0, NULL, NULL));
    free(small);
    free(message);
    for (int i = 0; i < 2; i++) close(datagrams[i]), close(stream[i]);
}

// Sends a descriptor as control data; header, vector and control data are heap blocks.
static void control_data(void) {
    int pair[2], file = open("/dev/null", O_RDONLY);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return;
    char *bytes = calloc(1, 10);
    struct iovec *vector = calloc(1, sizeof *vector);
    struct msghdr *header = calloc(1, sizeof *header);
    *vector = (struct iovec){bytes, 10};
    header->msg_iov = vector;
    header->msg_iovlen = 1;
    header->msg_control = calloc(1, CMSG_SPACE(sizeof file));
    header->msg_controllen = CMSG_SPACE(sizeof file);
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(control), &file, sizeof file);
    say("sendmsg", sendmsg(pair[0], header, 0));
    say("recvmsg", recvmsg(pair[1], header, 0));
    printf("control: %zu\n", (size_t)header->msg_controllen);
    free(header->msg_control);
    free(header);
    free(vector);
    free(bytes);
    close(pair[0]);
    close(pair[1]);
    close(file);
}

static void addresses(void) {
    int from = socket(AF_UNIX, SOCK_DGRAM, 0), to = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un *address = calloc(1, sizeof *address), *sender = malloc(sizeof *sender);
    socklen_t bytes = sizeof *address, sender_bytes = sizeof *sender;
    address->sun_family = AF_UNIX;
    bind(to, (struct sockaddr *)address, sizeof address->sun_family); // autobind: the kernel picks the name
    bind(from, (struct sockaddr *)address, sizeof address->sun_family);
    getsockname(to, (struct sockaddr *)address, &bytes);
    char *text = strdup("text");
    say("sendto", sendto(from, text, 4, 0, (struct sockaddr *)address, bytes));
    say("recvfrom", recvfrom(to, text, 4096, 0, (struct sockaddr *)sender, &sender_bytes));
    printf("from a name of the same kind: %d\n", sender->sun_family == AF_UNIX);
    free(text);
    free(address);
    free(sender);
    close(from);
    close(to);
}

static void many_parts(void) {
    static struct iovec vectors[1024];
    struct iovec *copies = malloc(sizeof vectors);
    int pair[2];
    if (pipe(pair)) return;
    for (int i = 0; i < 1024; i++) {
        vectors[i] = (struct iovec){malloc((size_t)i % 50 + 1), (size_t)i % 50 + 1};
        memset(vectors[i].iov_base, i, vectors[i].iov_len);
    }
    memcpy(copies, vectors, sizeof vectors);
    say("writev", writev(pair[1], vectors, 1024));
    say("readv", readv(pair[0], copies, 1024));
    for (int i = 0; i < 1024; i++) free(vectors[i].iov_base);
    free(copies);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    full_pipe();
    cut_messages();
    control_data();
    addresses();
    many_parts();
    return 0;
}
