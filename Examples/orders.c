// A small order book with a typical bug: a cancelled order is freed, but the customer's "latest order" still points
// to it and is read afterwards. Unguarded, the program prints a plausible but wrong answer.
//
//     gcc -O1 -g -o orders orders.c && zguard run -- ./orders

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct article {
    char name[24];
    int cents;
};

struct order {
    long number;
    long placed_at;
    struct article *article;
    int count;
};

struct customer {
    const char *name;
    struct order *latest;
};

static __attribute__((noinline)) struct order *place_order(struct customer *customer, struct article *article, int count) {
    struct order *order = malloc(sizeof *order);
    order->number = 1001;
    order->placed_at = 1795000000;
    order->article = article;
    order->count = count;
    customer->latest = order;
    return order;
}

static __attribute__((noinline)) void cancel_order(struct order *order) {
    free(order); // the customer still points to it
    printf("cancelled\n");
}

static __attribute__((noinline)) int total_of_latest(const struct customer *customer) {
    const struct order *order = customer->latest;
    return order->article->cents * order->count;
}

int main(void) {
    struct article tea = {"green tea", 450};
    struct customer ada = {"Ada", NULL};
    struct order *order = place_order(&ada, &tea, 3);
    cancel_order(order);
    printf("%s owes %d cents\n", ada.name, total_of_latest(&ada));
    return 0;
}
