#include <stdio.h>
int part0(void);
int shared(int);
int main(void) {
    printf("%d %d\n", part0() & 255, shared(5000));
    return 0;
}
