// An object is deleted through its base class, and its memory is then passed to operator delete again.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined
// stack-access: delete_again
// stack-free: Circle::~Circle
// stack-alloc: make_circle
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct Shape {
    virtual ~Shape() {}
    double x = 0, y = 0;
};

struct Circle : Shape {
    FRAME ~Circle() override { KEEP_FRAME(); }
    double radius[3] = {1, 2, 3};
};

FRAME Circle *make_circle() {
    Circle *circle = new Circle();
    circle->x = 4;
    return circle;
}

FRAME void delete_shape(Shape *shape) {
    delete shape;
    KEEP_FRAME();
}

FRAME void delete_again(void *memory) {
    operator delete(memory);
    KEEP_FRAME();
}

int main() {
    Circle *circle = make_circle();
    printf("%g\n", circle->x);
    delete_shape(circle);
#ifndef FIXED
    delete_again(circle);
#endif
}
