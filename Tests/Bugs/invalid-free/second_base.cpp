// An object is deleted through its second base class, which has no virtual destructor: delete gets an interior pointer.
// finding: invalid-free
// access: free
// block: size=64 offset=32 state=live
// stack-access: delete_drawable
// stack-alloc: make_button
// exit: 134
// confidence: exact
// detail: what="interior pointer"

#include "../bug.h"

struct Control {
    long frame[4] = {1, 2, 3, 4};
};

struct Drawable {
    long color[2] = {5, 6};
};

struct Button : Control, Drawable {
    long title[2] = {7, 8};
};

FRAME Button *make_button() {
    Button *button = new Button();
    button->color[0] = 9;
    return button;
}

FRAME void delete_drawable(Drawable *drawable) {
#ifdef FIXED
    delete static_cast<Button *>(drawable);
#else
    delete drawable;
#endif
    KEEP_FRAME();
}

int main() {
    Drawable *drawable = make_button();
    printf("%ld\n", drawable->color[0]);
    delete_drawable(drawable);
}
