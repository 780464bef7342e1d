// A byte deep inside a freed block of 512 KiB is written.
// finding: write-after-free
// access: write
// block: size=524288 offset=300001 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_image
// stack-alloc: make_image
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0:quarantine_bytes=1000k

#include "../bug.h"

FRAME char *make_image(void) {
    char *image = malloc(1 << 19);
    image[0] = 'i';
    return image;
}

FRAME void drop_image(char *image) {
    free(image);
    KEEP_FRAME();
}

FRAME void set_pixel(char *image) { image[300001] = 'p'; }

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
