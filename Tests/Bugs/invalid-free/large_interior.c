// The second row of an image is freed: an interior pointer far into an isolated block.
// finding: invalid-free
// access: free
// block: size=3145728 offset=4096 state=live language=unknown
// stack-access: drop_row
// stack-alloc: make_image
// exit: 134
// confidence: exact
// detail: what="interior pointer"

#include "../bug.h"

enum { row_bytes = 4096, rows = 768 };

FRAME char *make_image(void) {
    char *image = malloc(row_bytes * rows);
    memset(image, 'i', row_bytes * rows);
    return image;
}

FRAME void drop_row(char *row) {
    free(row);
    KEEP_FRAME();
}

int main(void) {
    char *image = make_image();
    printf("%c\n", image[row_bytes]);
#ifdef FIXED
    drop_row(image);
#else
    drop_row(image + row_bytes);
#endif
    return 0;
}
