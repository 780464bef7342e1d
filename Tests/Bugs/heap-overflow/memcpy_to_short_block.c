// memcpy() writes 40 bytes to a block of 50 bytes, beginning in the middle of the block.
// finding: heap-overflow
// access: write
// block: size=50 offset=50 state=live language=unknown
// stack-access: load_record
// stack-alloc: make_record
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="memcpy" bytes="40" excess="15"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { room = 65 };
#else
enum { room = 50 };
#endif

FRAME char *make_record(void) {
    char *record = malloc(room);
    KEEP_FRAME();
    return record;
}

FRAME void load_record(char *record, const char *from) {
    memcpy(record + 25, from, 40);
    KEEP_FRAME();
}

int main(void) {
    char saved[40] = {1}, *record = make_record();
    load_record(record, saved);
    printf("%d\n", record[25]);
    free(record);
    return 0;
}
