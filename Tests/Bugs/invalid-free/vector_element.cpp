// The second element of a vector is deleted as if each element were a block.
// finding: invalid-free
// access: free
// block: size=192 offset=48 state=live
// stack-access: delete_point
// stack-alloc: ~make_points
// exit: 134
// confidence: exact
// detail: what="interior pointer"

#include "../bug.h"
#include <vector>

struct Point {
    double coordinates[6];
};

FRAME void make_points(std::vector<Point> &points) {
    points.resize(4);
    KEEP_FRAME();
}

FRAME void delete_point(Point *point) {
    delete point;
    KEEP_FRAME();
}

int main() {
    std::vector<Point> points;
    make_points(points);
    printf("%g\n", points[1].coordinates[0]);
#ifndef FIXED
    delete_point(&points[1]);
#endif
}
