// A name is read through the name pointer of a freed customer.
// finding: use-after-free
// access: read
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: use_name
// stack-free: drop_customer
// stack-alloc: make_customer
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct customer {
    char *name;
    long orders[7];
};

FRAME struct customer *make_customer(void) {
    static char name[] = "name";
    struct customer *customer = malloc(sizeof *customer);
    customer->name = name;
    return customer;
}

FRAME void drop_customer(struct customer *customer) {
    free(customer);
    KEEP_FRAME();
}

FRAME int use_name(struct customer *customer) {
    int initial = customer->name[0];
    HOLD(customer);
    return initial;
}

int main(void) {
    struct customer *customer = make_customer();
#ifdef FIXED
    printf("%c\n", use_name(customer));
    drop_customer(customer);
#else
    drop_customer(customer);
    printf("%c\n", use_name(customer));
#endif
    return 0;
}
