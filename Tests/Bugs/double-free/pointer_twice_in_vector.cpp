// A vector of raw pointers holds one pointer twice; the loop deletes each element.
// finding: double-free
// access: free
// block: size=24 offset=0 state=quarantined
// stack-access: delete_all
// stack-free: delete_all
// stack-alloc: make_shape
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <vector>

struct Shape {
    double x, y, radius;
};

FRAME Shape *make_shape(double radius) {
    Shape *shape = new Shape();
    shape->radius = radius;
    return shape;
}

FRAME void delete_all(const std::vector<Shape *> &shapes) {
    for (Shape *shape : shapes) delete shape;
    KEEP_FRAME();
}

int main() {
    std::vector<Shape *> shapes;
    for (int i = 0; i < 4; i++) shapes.push_back(make_shape(i));
#ifdef FIXED
    shapes.push_back(make_shape(1));
#else
    shapes.push_back(shapes[1]);
#endif
    printf("%g\n", shapes.back()->radius);
    delete_all(shapes);
}
