// A byte of a freed image of 3 MiB is read: its pages are protected, so the access itself faults.
// finding: use-after-free
// access: read
// block: size=3145728 offset=2000001 state=retired language=unknown
// stack-access: use_pixel
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

FRAME int use_pixel(const char *image) {
    int pixel = image[2000001];
    HOLD(image);
    return pixel;
}

int main(void) {
    char *image = make_image();
#ifdef FIXED
    printf("%c\n", use_pixel(image));
    drop_image(image);
#else
    drop_image(image);
    printf("%c\n", use_pixel(image));
#endif
    puts("end");
    return 0;
}
