// A virtual function is called on a deleted object: its vtable pointer leads to a trap.
// finding: use-after-free
// access: call
// block: size=48 offset=0 state=quarantined
// stack-access: use_shape
// stack-free: delete_shape
// stack-alloc: make_shape
// exit: 139
// options: isolated_per_context=0

#include "../bug.h"

struct Shape {
    virtual double area() const { return width * height; }
    virtual int corners() const { return 4; }
    double width = 2, height = 3, unused[3] = {};
};

FRAME Shape *make_shape() {
    Shape *shape = new Shape();
    HOLD(shape);
    return shape;
}

FRAME void delete_shape(Shape *shape) {
    operator delete(shape);
    KEEP_FRAME();
}

FRAME int use_shape(Shape *shape) {
    int corners = shape->corners();
    HOLD(shape);
    return corners;
}

int main() {
    Shape *shape = make_shape();
#ifndef FIXED
    delete_shape(shape);
#endif
    printf("%d\n", use_shape(shape));
#ifdef FIXED
    delete_shape(shape);
#endif
}
