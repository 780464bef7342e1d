// Two functions call each other without end.
// finding: stack-overflow
// stack-access: is_even|is_odd
// exit: 139

#include "../bug.h"

FRAME int is_odd(long number);

FRAME int is_even(long number) {
    int result = number == 0 ? 1 : is_odd(number - 1);
    KEEP_FRAME();
    return result;
}

FRAME int is_odd(long number) {
    int result = number == 0 ? 0 : is_even(number - 1);
    KEEP_FRAME();
    return result;
}

int main(void) {
#ifdef FIXED
    printf("%d\n", is_even(1000));
#else
    printf("%d\n", is_even(-1));
#endif
    return 0;
}
