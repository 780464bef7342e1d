// sendto() is passed a destination address that is freed memory.
// finding: use-after-free
// access: read
// block: size=110 offset=0 state=quarantined language=unknown
// stack-access: send_there
// stack-free: drop_address
// stack-alloc: make_address
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="sendto" bytes="110"

#include "../bug.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

FRAME struct sockaddr_un *make_address(void) {
    struct sockaddr_un *address = calloc(1, sizeof *address);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
    return address;
}

FRAME void drop_address(struct sockaddr_un *address) {
    free(address);
    KEEP_FRAME();
}

FRAME int send_there(int descriptor, struct sockaddr_un *address) {
    int bytes = (int)sendto(descriptor, "datagram", 8, 0, (struct sockaddr *)address, sizeof *address);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un *address = make_address();
    if (descriptor < 0) return 1;
#ifndef FIXED
    drop_address(address);
#endif
    printf("%d\n", send_there(descriptor, address));
#ifdef FIXED
    drop_address(address);
#endif
    return 0;
}
