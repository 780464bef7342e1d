// A function deletes its caller's buffer before it throws, and the caller deletes the buffer again after catching.
// finding: double-free
// access: free
// block: size=200 offset=0 state=quarantined
// stack-access: load_image
// stack-free: decode
// stack-alloc: load_image
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <stdexcept>

FRAME int decode(char *pixels) {
    if (pixels[0] == 'G') return 1;
#ifndef FIXED
    delete[] pixels;
#endif
    throw std::runtime_error("not an image");
}

FRAME int load_image(const char *bytes) {
    char *pixels = new char[200];
    strcpy(pixels, bytes);
    int planes = 0;
    try {
        planes = decode(pixels);
    } catch (const std::runtime_error &error) {
        puts(error.what());
    }
    delete[] pixels;
    KEEP_FRAME();
    return planes;
}

int main() {
    printf("%d\n", load_image("GIF"));
    printf("%d\n", load_image("text"));
}
