// Calls a virtual function of a deleted C++ object, in a callback from functions of the standard library.

#include <algorithm>
#include <cstdio>
#include <vector>

namespace geo {
struct Shape {
    virtual ~Shape() = default;
    virtual int corners(int scale) const { return scale; }
};
struct Square final : Shape {
    int corners(int scale) const override { return 4 * scale; }
};
} // namespace geo

static void remove(std::vector<geo::Shape *> &shapes) { delete shapes[1]; }

static bool has_fewer(const geo::Shape *a, const geo::Shape *b) { return a->corners(1) < b->corners(1); }

int main() {
    std::vector<geo::Shape *> shapes = {new geo::Shape, new geo::Square, new geo::Shape};
    remove(shapes);
    std::sort(shapes.begin(), shapes.end(), has_fewer);
    std::printf("sorted\n");
    return 0;
}
