// An element is written through a null pointer because the array was never allocated.
// finding: null-access
// access: write
// address: 0x14
// stack-access: set_value
// exit: 139
// confidence: exact

#include "../bug.h"

FRAME void set_value(int *values, int index) {
    values[index] = 7;
    HOLD(values);
}

int main(void) {
    int *values = NULL;
#ifdef FIXED
    values = malloc(10 * sizeof *values);
#endif
    set_value(values, 5);
    puts("end");
    free(values);
    return 0;
}
