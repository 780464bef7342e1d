// A shared_ptr is made from the address of a local object, which it deletes.
// finding: invalid-free
// access: free
// stack-access: ~draw
// exit: 134
// confidence: exact
// detail: what="stack address"

#include "../bug.h"
#include <memory>

struct alignas(16) Canvas {
    long pixels[4] = {1, 2, 3, 4};
};

FRAME long sum(const std::shared_ptr<Canvas> &canvas) { return canvas->pixels[0] + canvas->pixels[3]; }

FRAME void draw() {
    Canvas local;
#ifdef FIXED
    std::shared_ptr<Canvas> canvas = std::make_shared<Canvas>(local);
#else
    std::shared_ptr<Canvas> canvas(&local);
#endif
    printf("%ld\n", sum(canvas));
}

int main() {
    draw();
    KEEP_FRAME();
}
