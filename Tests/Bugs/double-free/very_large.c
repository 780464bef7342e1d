// A block of 64 MiB, which is larger than the whole quarantine, is freed twice.
// finding: double-free
// access: free
// block: size=67108864 offset=0 state=quarantined|retired|reusable language=unknown
// stack-access: drop_again
// stack-free: drop_volume
// stack-alloc: make_volume
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME char *make_volume(void) {
    char *volume = malloc(64 << 20);
    volume[0] = 'v';
    volume[(64 << 20) - 1] = 'e';
    return volume;
}

FRAME void drop_volume(char *volume) {
    free(volume);
    KEEP_FRAME();
}

FRAME void drop_again(char *volume) {
    free(volume);
    KEEP_FRAME();
}

int main(void) {
    char *volume = make_volume();
    drop_volume(volume);
#ifdef FIXED
    volume = make_volume();
#endif
    drop_again(volume);
    return 0;
}
