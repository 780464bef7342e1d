// An isolated block of 1 MiB is freed twice.
// finding: double-free
// access: free
// block: size=1048576 offset=0 state=quarantined|retired language=unknown
// stack-access: drop_again
// stack-free: drop_image
// stack-alloc: make_image
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME char *make_image(void) {
    char *image = malloc(1 << 20);
    image[0] = 'i';
    image[(1 << 20) - 1] = 'e';
    return image;
}

FRAME void drop_image(char *image) {
    free(image);
    KEEP_FRAME();
}

FRAME void drop_again(char *image) {
    free(image);
    KEEP_FRAME();
}

int main(void) {
    char *image = make_image();
    drop_image(image);
#ifdef FIXED
    image = make_image();
#endif
    drop_again(image);
    return 0;
}
