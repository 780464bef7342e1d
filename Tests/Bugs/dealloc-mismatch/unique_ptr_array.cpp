// A unique_ptr for a single object owns an array from new[], so it calls delete instead of delete[].
// finding: dealloc-mismatch
// access: free
// block: size=36 offset=0
// stack-access: ~drop_numbers
// stack-alloc: make_numbers
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="operator delete"

#include "../bug.h"
#include <memory>

FRAME int *make_numbers() {
    int *numbers = new int[9];
    numbers[0] = 4;
    return numbers;
}

FRAME void drop_numbers(int *numbers) {
#ifdef FIXED
    std::unique_ptr<int[]> owner(numbers);
#else
    std::unique_ptr<int> owner(numbers);
#endif
    KEEP_FRAME();
}

int main() {
    int *numbers = make_numbers();
    printf("%d\n", numbers[0]);
    drop_numbers(numbers);
}
