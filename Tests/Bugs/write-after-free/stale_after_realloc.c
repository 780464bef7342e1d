// An element is written through a pointer into an array after realloc has moved the array.
// finding: write-after-free
// access: write
// block: size=40 offset=12 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: grow_array
// stack-alloc: make_array
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

FRAME int *make_array(void) {
    int *array = malloc(10 * sizeof *array);
    for (int i = 0; i < 10; i++) array[i] = i;
    return array;
}

FRAME int *grow_array(int *array) {
    int *grown = realloc(array, 100000);
    grown[10] = 10;
    return grown;
}

FRAME void set_element(int *element, int value) { *element = value; }

int main(void) {
    int *array = make_array();
    int *fourth = &array[3];
    array = grow_array(array);
#ifdef FIXED
    fourth = &array[3];
#endif
    set_element(fourth, 99);
    free(array);
    puts("end");
    return 0;
}
