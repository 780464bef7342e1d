// Tests the queue of numbered records: first in, first out; links inside the records; bounds.
// link: runtime

#include "pages/queue.h"

#include "check.h"

enum { RECORDS = 100 };

struct record {
    uint64_t contents;
    uint32_t link, other_link;
};

static struct record records[RECORDS]; // record 1 is records[0]

static struct zg_queue_links links(void) { return ZG_QUEUE_LINKS(records, struct record, link); }
static struct zg_queue_links other_links(void) { return ZG_QUEUE_LINKS(records, struct record, other_link); }

static void check_links(void) {
    CHECK(zg_queue_link(links(), 1) == &records[0].link, "the link of record 1");
    CHECK(zg_queue_link(links(), RECORDS) == &records[RECORDS - 1].link, "and of the last one");
    CHECK(zg_queue_link(other_links(), 7) == &records[6].other_link, "of another queue");
}

static void check_order(void) {
    struct zg_queue queue = {0};
    CHECK_EQUAL(zg_queue_take(&queue, links()), 0, "an empty queue has none");
    for (uint32_t number = RECORDS; number; number--) zg_queue_add(&queue, links(), number);
    CHECK(queue.oldest == RECORDS && queue.newest == 1, "both ends");
    for (uint32_t number = RECORDS; number; number--)
        CHECK_EQUAL(zg_queue_take(&queue, links()), number, "first in, first out");
    CHECK(!queue.oldest && !queue.newest, "and empty again");
    CHECK_EQUAL(zg_queue_take(&queue, links()), 0, "with none");
    for (uint32_t turn = 0; turn < 3 * RECORDS; turn++) {
        zg_queue_add(&queue, links(), turn % RECORDS + 1);
        zg_queue_add(&queue, links(), (turn + 1) % RECORDS + 1);
        CHECK_EQUAL(zg_queue_take(&queue, links()), turn % RECORDS + 1, "a record that was taken is added again");
        CHECK_EQUAL(zg_queue_take(&queue, links()), (turn + 1) % RECORDS + 1, "and taken again");
    }
}

static void check_two_queues(void) {
    struct zg_queue queue = {0}, other = {0};
    for (uint32_t number = 1; number <= RECORDS; number++) {
        zg_queue_add(&queue, links(), number);
        zg_queue_add(&other, other_links(), RECORDS + 1 - number);
    }
    for (uint32_t number = 1; number <= RECORDS; number++) {
        CHECK_EQUAL(zg_queue_take(&queue, links()), number, "one record is in two queues");
        CHECK_EQUAL(zg_queue_take(&other, other_links()), RECORDS + 1 - number, "each with its own order");
    }
}

static void check_bound(void) {
    struct zg_queue queue = {.amount = 11};
    CHECK(!zg_queue_is_over(&queue, 10), "an empty queue has nothing to take");
    zg_queue_add(&queue, links(), 1);
    CHECK(zg_queue_is_over(&queue, 10), "more than it may hold");
    CHECK(!zg_queue_is_over(&queue, 11), "as much as it may hold");
}

int main(void) {
    check_links();
    check_order();
    check_two_queues();
    check_bound();
    return check_end();
}
