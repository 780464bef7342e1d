// libuv server whose handler blocks in read() on a pipe that is written after 0.8 s.
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

static int slow[2];
static uv_tcp_t server, connection;
static uv_timer_t timer;

static void write_late(void *unused) {
    (void)unused;
    usleep(800000);
    if (write(slow[1], "x", 1) != 1) abort();
}

__attribute__((noinline, noclone)) static void read_slowly(void) {
    uv_thread_t thread;
    char byte;
    uv_thread_create(&thread, write_late, NULL);
    if (read(slow[0], &byte, 1) != 1) abort();
    uv_thread_join(&thread);
}

static void allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
    static char bytes[256];
    (void)handle, (void)size;
    *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void stop(uv_timer_t *unused) {
    (void)unused;
    exit(0);
}

static void serve(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    (void)buffer;
    if (count <= 0) return;
    read_slowly();
    uv_update_time(stream->loop);
    uv_timer_start(&timer, stop, 100, 0);
}

static void accept_one(uv_stream_t *stream, int status) {
    if (status) abort();
    uv_tcp_init(stream->loop, &connection);
    uv_accept(stream, (uv_stream_t *)&connection);
    uv_read_start((uv_stream_t *)&connection, allocate, serve);
}

static void ask(void *port) {
    struct sockaddr_in address;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    uv_ip4_addr("127.0.0.1", *(int *)port, &address);
    usleep(50000);
    if (connect(file, (struct sockaddr *)&address, sizeof address)) abort();
    usleep(50000);
    if (write(file, "x", 1) != 1) abort();
}

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    struct sockaddr_in address;
    int length = sizeof address;
    uv_thread_t thread;
    if (pipe(slow)) return 2;
    uv_timer_init(loop, &timer);
    uv_tcp_init(loop, &server);
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_bind(&server, (struct sockaddr *)&address, 0);
    if (uv_listen((uv_stream_t *)&server, 8, accept_one)) return 2;
    uv_tcp_getsockname(&server, (struct sockaddr *)&address, &length);
    int port = ntohs(address.sin_port);
    uv_thread_create(&thread, ask, &port);
    uv_run(loop, UV_RUN_DEFAULT);
}
