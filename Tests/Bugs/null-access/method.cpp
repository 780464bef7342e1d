// A method is called on the result of a failed dynamic_cast.
// finding: null-access
// access: read
// address: 0x20
// stack-access: Circle::radius
// exit: 139
// confidence: exact

#include "../bug.h"

struct Shape {
    virtual ~Shape() {}
    long position[3] = {1, 2, 3};
};

struct Circle : Shape {
    FRAME long radius() {
        long value = size;
        HOLD(this);
        return value;
    }
    long size = 9;
};

struct Square : Shape {};

FRAME long radius_of(Shape *shape) {
    Circle *circle = dynamic_cast<Circle *>(shape);
    return circle->radius();
}

int main() {
#ifdef FIXED
    Circle shape;
#else
    Square shape;
#endif
    printf("%ld\n", radius_of(&shape));
}
