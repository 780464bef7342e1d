// A virtual function is called on a freed isolated block that held an object with only a vtable pointer.
// finding: use-after-free
// access: call
// block: size=8 offset=0 state=retired language=c++ class=Circle member=area()
// stack-access: use_circle
// stack-free: ~delete_circle
// stack-alloc: make_circle
// options: isolated_per_context=1
// exit: 139
// confidence: exact

#include "../bug.h"

struct Circle {
    virtual ~Circle() {}
    virtual int area() { return 3; }
};

FRAME Circle *make_circle() {
    Circle *circle = new Circle;
    HOLD(circle);
    return circle;
}

FRAME void delete_circle(Circle *circle) {
    delete circle;
    KEEP_FRAME();
}

FRAME int use_circle(Circle *circle) {
    int area = circle->area();
    HOLD(circle);
    return area;
}

int main() {
    Circle *circle = make_circle();
#ifndef FIXED
    delete_circle(circle);
#endif
    printf("%d\n", use_circle(circle));
#ifdef FIXED
    delete_circle(circle);
#endif
}
