// A freed struct begins with a pointer to the number 0x400, as a Swift closure does, but is no closure.
// finding: use-after-free
// access: read
// block: size=24 state=quarantined language=unknown class=-
// stack-access: first_letter
// stack-free: drop_view
// stack-alloc: make_view
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

static struct {
    const char *name;
    void *next;
    long size;
} settings = {"buffer", NULL, 0x400};

struct view {
    long *limit, position;
    const char *text;
};

FRAME struct view *make_view(void) {
    struct view *view = malloc(sizeof *view);
    view->limit = &settings.size;
    view->position = -1;
    view->text = "text";
    return view;
}

FRAME void drop_view(struct view *view) {
    free(view);
    KEEP_FRAME();
}

FRAME char first_letter(const struct view *view) {
    char letter = *view->text;
    HOLD(view);
    return letter;
}

int main(void) {
    drop_view(make_view());
    struct view *view = make_view();
#ifndef FIXED
    drop_view(view);
#endif
    printf("%c\n", first_letter(view));
#ifdef FIXED
    drop_view(view);
#endif
    return 0;
}
