// memcpy() reads 40 bytes from a block of 30.
// finding: heap-overflow
// access: read
// block: size=30 offset=30 state=live language=unknown
// stack-access: save_record
// stack-alloc: make_record
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="memcpy" bytes="40" excess="10"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { room = 40 };
#else
enum { room = 30 };
#endif

FRAME char *make_record(void) {
    char *record = calloc(1, room);
    KEEP_FRAME();
    return record;
}

FRAME void save_record(char *to, const char *record) {
    memcpy(to, record, 40);
    KEEP_FRAME();
}

int main(void) {
    char saved[40], *record = make_record();
    save_record(saved, record);
    printf("%d\n", saved[0]);
    free(record);
    return 0;
}
