// An object made by placement new in a static buffer is deleted as if it were on the heap.
// finding: invalid-free
// access: free
// stack-access: delete_logger
// exit: 134
// confidence: exact
// detail: what="global variable"

#include "../bug.h"
#include <new>

struct Logger {
    long lines[4] = {1, 2, 3, 4};
};

alignas(16) static char place[sizeof(Logger)];

FRAME Logger *make_logger() { return new (place) Logger(); }

FRAME void delete_logger(Logger *logger) {
#ifdef FIXED
    logger->~Logger();
#else
    delete logger;
#endif
    KEEP_FRAME();
}

int main() {
    Logger *logger = make_logger();
    printf("%ld\n", logger->lines[3]);
    delete_logger(logger);
}
