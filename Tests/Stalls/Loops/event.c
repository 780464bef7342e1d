// libevent loop whose timer callback sorts for 0.8 s with qsort.
#include <event2/event.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

__attribute__((noinline, noclone)) static void sort_for_long(void) {
    enum { COUNT = 100000 };
    static int numbers[COUNT];
    for (double end = seconds() + 0.8; seconds() < end;) {
        for (int i = 0; i < COUNT; i++) numbers[i] = rand();
        qsort(numbers, COUNT, sizeof *numbers, compare);
    }
}

static void tick(evutil_socket_t file, short what, void *base) {
    static int ticks;
    (void)file, (void)what;
    if (++ticks == 4) sort_for_long();
    if (ticks == 8) event_base_loopbreak(base);
}

int main(void) {
    struct event_base *base = event_base_new();
    struct timeval every = {0, 30000};
    struct event *event = event_new(base, -1, EV_PERSIST, tick, base);
    event_add(event, &every);
    event_base_dispatch(base);
    event_free(event);
    event_base_free(base);
}
