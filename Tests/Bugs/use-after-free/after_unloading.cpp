// A virtual function is called on a deleted object after libraries were loaded and unloaded between uses of its class.
// finding: use-after-free
// access: call
// block: size=16 offset=0 state=quarantined language=c++ class=Circle member=area()
// stack-access: use_circle
// stack-free: ~delete_circle
// stack-alloc: make_circle
// exit: 139
// confidence: exact
// libs: -ldl
// options: isolated_per_context=0

#include "../bug.h"
#include <dlfcn.h>

struct Circle {
    virtual ~Circle() {}
    virtual int area() { return 3; }
    long radius = 5;
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
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        if (!library || dlclose(library)) return 1;
        delete_circle(make_circle());
    }
    Circle *circle = make_circle();
#ifndef FIXED
    delete_circle(circle);
#endif
    printf("%d\n", use_circle(circle));
#ifdef FIXED
    delete_circle(circle);
#endif
}
