// An array from new[] is grown by realloc.
// finding: dealloc-mismatch
// access: free
// block: size=56 offset=0
// stack-access: grow_numbers
// stack-alloc: make_numbers
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="realloc"

#include "../bug.h"

FRAME int *make_numbers() {
    int *numbers = new int[14];
    numbers[0] = 4;
    return numbers;
}

FRAME void grow_numbers(int *numbers) {
#ifdef FIXED
    delete[] numbers;
#else
    free(realloc(numbers, 560));
#endif
    KEEP_FRAME();
}

int main() {
    int *numbers = make_numbers();
    printf("%d\n", numbers[0]);
    grow_numbers(numbers);
}
