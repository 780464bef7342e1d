// With on_finding=continue 64 threads call a virtual function of the same deleted object at once, and all go on.
// finding: use-after-free
// access: call
// block: size=16 offset=0 state=quarantined language=c++ class=Circle member=area()
// stack-access: use_circle
// stack-free: ~delete_circle
// stack-alloc: make_circle
// options: on_finding=continue:isolated_per_context=0
// exit: 99
// confidence: exact
// libs: -lpthread
// count: 50-3200
// stdout: all threads ended

#include "../bug.h"
#include <pthread.h>

struct Circle {
    virtual ~Circle() {}
    virtual int area() { return 3; }
    long radius = 5;
};

enum { threads = 64, rounds = 50 };
static Circle *circles[rounds];
static pthread_barrier_t round_start;

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

FRAME void *use_all(void *unused) {
    for (int i = 0; i < rounds; i++) {
        pthread_barrier_wait(&round_start);
        use_circle(circles[i]);
    }
    return unused;
}

int main() {
    pthread_t thread[threads];
    pthread_barrier_init(&round_start, nullptr, threads);
    for (int i = 0; i < rounds; i++) circles[i] = make_circle();
#ifndef FIXED
    for (int i = 0; i < rounds; i++) delete_circle(circles[i]);
#endif
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], nullptr, use_all, nullptr);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], nullptr);
#ifdef FIXED
    for (int i = 0; i < rounds; i++) delete_circle(circles[i]);
#endif
    puts("all threads ended");
}
