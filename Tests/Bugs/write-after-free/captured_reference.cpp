// A callback increments an integer through a reference after the owner of the integer has deleted it.
// finding: write-after-free
// access: write
// block: size=4 offset=0 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: ~let_go
// stack-alloc: make_counter
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"
#include <functional>
#include <memory>

FRAME int *make_counter() {
    int *counter = new int(0);
    HOLD(counter);
    return counter;
}

FRAME void let_go(std::unique_ptr<int> &counter) {
    counter.reset();
    KEEP_FRAME();
}

FRAME void fire(const std::function<void()> &callback) {
    callback();
    KEEP_FRAME();
}

int main() {
    std::unique_ptr<int> counter(make_counter());
    std::function<void()> callback = [&value = *counter] { value++; };
#ifdef FIXED
    fire(callback);
    let_go(counter);
#else
    let_go(counter);
    fire(callback);
#endif
    puts("end");
}
