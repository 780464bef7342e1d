// A freed block to which a handle, request, loop or key of libuv still points. The argument chooses the case; the
// comment above a case says what the finding must name first: "// case: TEXT".

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct session {
    char name[24];
    int requests;
    char rest[172];
};

__attribute__((noinline)) static struct session *open_session(void) { return calloc(1, sizeof(struct session)); }

// Encodes an address, so that no search takes it for a pointer. The barrier makes the compiler finish earlier stores.
static uint64_t hidden(void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return ~(uint64_t)pointer;
}
static uint64_t kept;

static void on_timer(uv_timer_t *timer) { ((struct session *)timer->data)->requests++; }
// case: offset 0 of a live block of 152 bytes (allocated in by_handle, holders_uv.c:
__attribute__((noinline)) static uint64_t by_handle(void) {
    uv_timer_t *timer = malloc(sizeof *timer);
    uv_timer_init(uv_default_loop(), timer);
    timer->data = open_session();
    uv_timer_start(timer, on_timer, 3600000, 0);
    kept = hidden(timer);
    return hidden(timer->data);
}

static uv_async_t wakeup;
static void on_wakeup(uv_async_t *async) { ((struct session *)async->data)->requests++; }
// case: the global 'wakeup' (holders_uv)
__attribute__((noinline)) static uint64_t by_global_handle(void) {
    uv_async_init(uv_default_loop(), &wakeup, on_wakeup);
    wakeup.data = open_session();
    return hidden(wakeup.data);
}

static void on_work(uv_work_t *work) { ((struct session *)work->data)->requests++; }
static void on_done(uv_work_t *work, int status) { (void)work, (void)status; }
static void wait_for_release(uv_work_t *work) {
    (void)work;
    for (;;) uv_sleep(1000);
}
// The pool's four threads wait, so that the request of the case stays in the pool's queue.
// case: offset 0 of a live block of 128 bytes (allocated in by_request, holders_uv.c:
__attribute__((noinline)) static uint64_t by_request(void) {
    static uv_work_t others[4];
    for (int i = 0; i < 4; i++) uv_queue_work(uv_default_loop(), &others[i], wait_for_release, on_done);
    uv_work_t *work = malloc(sizeof *work);
    memset(work, 0, sizeof *work);
    work->data = open_session();
    uv_queue_work(uv_default_loop(), work, on_work, on_done);
    kept = hidden(work);
    return hidden(work->data);
}

// case: offset 0 of a live block of 848 bytes (allocated in by_loop, holders_uv.c:
__attribute__((noinline)) static uint64_t by_loop(void) {
    uv_loop_t *loop = malloc(sizeof *loop);
    uv_loop_init(loop);
    loop->data = open_session();
    kept = hidden(loop);
    return hidden(loop->data);
}

// case: a global of libuv.so.1 | the global 'default_loop_struct' (libuv.so.1
__attribute__((noinline)) static uint64_t by_default_loop(void) {
    uv_default_loop()->data = open_session();
    return hidden(uv_default_loop()->data);
}

struct connection {
    long id;
    uv_tcp_t socket;
    uv_buf_t pending[2];
};
// case: offset 272 of a live block of 288 bytes (allocated in by_buffer, holders_uv.c:
__attribute__((noinline)) static uint64_t by_buffer(void) {
    struct connection *connection = calloc(1, sizeof *connection);
    uv_tcp_init(uv_default_loop(), &connection->socket);
    connection->pending[1] = uv_buf_init((char *)open_session(), sizeof(struct session));
    kept = hidden(connection);
    return hidden(connection->pending[1].base);
}

static uv_key_t key;
// case: a thread-local variable of thread 1
__attribute__((noinline)) static uint64_t by_key(void) {
    struct session *session = open_session();
    uv_key_create(&key);
    uv_key_set(&key, session);
    return hidden(session);
}

static const struct {
    const char *name;
    uint64_t (*make)(void);
} cases[] = {
    {"handle", by_handle}, {"global-handle", by_global_handle}, {"request", by_request},
    {"loop", by_loop},     {"default-loop", by_default_loop},   {"buffer", by_buffer},
    {"key", by_key},
};

// Overwrites dead stack frames in which pointers may be left over.
__attribute__((noinline)) static void scrub(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
}
__attribute__((noinline)) static void close_session(uint64_t session) { free((void *)~session); }
__attribute__((noinline)) static int use(uint64_t session) { return ((volatile struct session *)~session)->requests; }

int main(int count, char **words) {
    for (unsigned long i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (count < 2 || strcmp(cases[i].name, words[1])) continue;
        uint64_t session = cases[i].make();
        close_session(session);
        scrub();
        printf("%d\n", use(session));
        fflush(stdout);
        _Exit(0); // libuv's threads wait for ever
    }
    return 2;
}
