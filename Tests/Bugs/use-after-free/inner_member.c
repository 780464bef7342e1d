// A pointer in the middle of a freed record is dereferenced.
// finding: use-after-free
// access: read
// block: size=96 state=quarantined language=unknown
// stack-access: use_city
// stack-free: drop_person
// stack-alloc: make_person
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct person {
    char name[56];
    const char *city;
    long unused[4];
};

FRAME struct person *make_person(void) {
    struct person *person = malloc(sizeof *person);
    person->city = "city";
    return person;
}

FRAME void drop_person(struct person *person) {
    free(person);
    KEEP_FRAME();
}

FRAME int use_city(struct person *person) {
    int initial = person->city[0];
    HOLD(person);
    return initial;
}

int main(void) {
    struct person *person = make_person();
#ifdef FIXED
    printf("%c\n", use_city(person));
    drop_person(person);
#else
    drop_person(person);
    printf("%c\n", use_city(person));
#endif
    return 0;
}
