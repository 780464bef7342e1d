// An array of integers from new[] is freed by free.
// finding: dealloc-mismatch
// access: free
// block: size=48 offset=0
// stack-access: free_numbers
// stack-alloc: make_numbers
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="free"

#include "../bug.h"

FRAME int *make_numbers() {
    int *numbers = new int[12];
    numbers[0] = 4;
    return numbers;
}

FRAME void free_numbers(int *numbers) {
#ifdef FIXED
    delete[] numbers;
#else
    free(numbers);
#endif
    KEEP_FRAME();
}

int main() {
    int *numbers = make_numbers();
    printf("%d\n", numbers[0]);
    free_numbers(numbers);
}
