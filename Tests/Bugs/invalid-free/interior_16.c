// The payload behind a header of 16 bytes is freed: an interior pointer with the alignment of a block.
// finding: invalid-free
// access: free
// block: size=144 offset=16 state=live language=unknown
// stack-access: drop_payload
// stack-alloc: make_message
// exit: 134
// confidence: exact
// detail: what="interior pointer"

#include "../bug.h"

struct message {
    long header[2];
    char payload[128];
};

FRAME struct message *make_message(void) {
    struct message *message = malloc(sizeof *message);
    strcpy(message->payload, "hello");
    return message;
}

FRAME void drop_payload(char *payload) {
#ifdef FIXED
    free(payload - offsetof(struct message, payload));
#else
    free(payload);
#endif
    KEEP_FRAME();
}

int main(void) {
    struct message *message = make_message();
    puts(message->payload);
    drop_payload(message->payload);
    return 0;
}
