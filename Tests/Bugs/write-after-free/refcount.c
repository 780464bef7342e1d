// A reference is released after the object was freed: its counter is decremented in freed memory.
// finding: write-after-free
// access: write
// block: size=72 offset=8 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: release
// stack-alloc: make_object
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

struct object {
    long id;
    int references;
    char data[56];
};

FRAME struct object *make_object(int references) {
    struct object *object = malloc(sizeof *object);
    object->references = references;
    return object;
}

FRAME void release(struct object *object) {
    if (--object->references == 0) free(object);
    KEEP_FRAME();
}

int main(void) {
#ifdef FIXED
    struct object *object = make_object(2);
#else
    struct object *object = make_object(1);
#endif
    release(object);
    release(object);
    puts("end");
    return 0;
}
