// The socket on which zguard receives messages from the processes of a run: listens, accepts connections, and receives
// the one message of each connection. Never blocks.

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "zg_system.h"

int zg_system_listen(const char *path, mode_t mode) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
    enum { BACKLOG = 4096 }; // capped by net.core.somaxconn; if it is full, connecting fails and the sender retries
    if (bind(descriptor, (const struct sockaddr *)&address, sizeof address) == 0 && chmod(path, mode) == 0 &&
        listen(descriptor, BACKLOG) == 0)
        return descriptor;
    int error = -errno;
    close(descriptor);
    return error;
}

int zg_system_accept(int listener, pid_t *sender) {
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) return -errno;
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    *sender = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
    return connection;
}

ssize_t zg_system_receive(int connection, void *bytes, size_t count) {
    ssize_t received = recv(connection, bytes, count, MSG_TRUNC);
    return received < 0 ? -errno : received;
}
