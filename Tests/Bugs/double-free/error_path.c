// A callee frees its argument when it fails, and the caller's error path frees it again.
// finding: double-free
// access: free
// block: size=512 offset=0 state=quarantined language=unknown
// stack-access: read_packet
// stack-free: parse_packet
// stack-alloc: read_packet
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME int parse_packet(char *packet) {
    if (packet[0] == 'P') return 0;
#ifndef FIXED
    free(packet);
#endif
    KEEP_FRAME();
    return -1;
}

FRAME int read_packet(const char *bytes) {
    int result = -1;
    char *packet = malloc(512);
    strcpy(packet, bytes);
    if (parse_packet(packet)) goto failed;
    result = 0;
failed:
    free(packet);
    KEEP_FRAME();
    return result;
}

int main(void) {
    printf("%d\n", read_packet("Packet"));
    printf("%d\n", read_packet("Broken"));
    return 0;
}
