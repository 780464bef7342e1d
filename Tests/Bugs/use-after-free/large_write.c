// The first byte of a freed image of 3 MiB is written: its pages are protected, so the access itself faults.
// finding: use-after-free
// access: write
// block: size=3145728 offset=0 state=retired language=unknown
// stack-access: set_pixel
// stack-free: drop_image
// stack-alloc: make_image
// exit: 139
// confidence: exact

#include "../bug.h"

enum { image_bytes = 3145728 };

FRAME char *make_image(void) {
    char *image = malloc(image_bytes);
    memset(image, 'i', image_bytes);
    return image;
}

FRAME void drop_image(char *image) {
    free(image);
    KEEP_FRAME();
}

FRAME void set_pixel(char *image) {
    image[0] = 'p';
    HOLD(image);
}

int main(void) {
    char *image = make_image();
#ifdef FIXED
    set_pixel(image);
    drop_image(image);
#else
    drop_image(image);
    set_pixel(image);
#endif
    puts("end");
    return 0;
}
