// strlen gets a pointer from a freed record: the fault is inside libc.
// finding: use-after-free
// access: read|unknown
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: ~measure_name
// stack-free: drop_entry
// stack-alloc: make_entry
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct entry {
    const char *name;
    long unused[5];
};

FRAME struct entry *make_entry(void) {
    struct entry *entry = malloc(sizeof *entry);
    entry->name = "name";
    return entry;
}

FRAME void drop_entry(struct entry *entry) {
    free(entry);
    KEEP_FRAME();
}

FRAME int measure_name(struct entry *entry) {
    int length = (int)strlen(entry->name);
    HOLD(entry);
    return length;
}

int main(void) {
    struct entry *entry = make_entry();
#ifdef FIXED
    printf("%d\n", measure_name(entry));
    drop_entry(entry);
#else
    drop_entry(entry);
    printf("%d\n", measure_name(entry));
#endif
    return 0;
}
