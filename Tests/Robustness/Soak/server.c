// A server without clients for the soak test: threads start and end, one thread frees another's blocks, children run
// for a while, libraries are loaded and unloaded. The amount of live memory is bounded, so only the guard can make the
// process grow. Exits with 0 at SIGTERM, or with 1 and a message if a block had wrong contents or a child failed.

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, SLOTS = 2000, STEPS = 40000 };

struct message {
    size_t size;
    unsigned char salt;
    unsigned char bytes[];
};

static _Atomic(struct message *) slots[SLOTS];
static atomic_bool ending;
static atomic_int wrong;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t random_size(uint64_t r) {
    switch (r % 64) {
    case 0: return (r >> 8) % 300000;
    case 1:
    case 2: return (r >> 8) % 20000;
    default: return (r >> 8) % 400;
    }
}

static struct message *make_message(uint64_t r) {
    size_t size = random_size(r);
    struct message *made = malloc(sizeof *made + size);
    if (!made) return NULL; // allocations may fail under memory pressure
    made->size = size;
    made->salt = (unsigned char)r;
    memset(made->bytes, made->salt, size);
    return made;
}

// Checks all bytes of a message, sometimes after a realloc, and frees it.
static void end_message(struct message *message, uint64_t r) {
    if (!message) return;
    if (r % 4 == 0) {
        struct message *moved = realloc(message, sizeof *message + message->size / 2);
        if (moved) {
            message = moved;
            message->size /= 2;
        }
    }
    for (size_t i = 0; i < message->size; i++)
        if (message->bytes[i] != message->salt) {
            atomic_fetch_add(&wrong, 1);
            break;
        }
    free(message);
}

static void *work(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < STEPS && !atomic_load(&ending); i++) {
        uint64_t r = next(&state);
        struct message *fresh = r % 8 ? make_message(r >> 8) : NULL;
        end_message(atomic_exchange(&slots[(r >> 16) % SLOTS], fresh), r >> 40);
    }
    return NULL;
}

// Forks a child that works and ends by exit, which checks its quarantine, or by _exit.
static void bear(uint64_t r) {
    pid_t child = fork();
    if (child == 0) {
        work((void *)(uintptr_t)(r >> 8));
        if (atomic_load(&wrong)) _exit(1);
        r % 2 ? exit(0) : _exit(0);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && status != 0) {
        fprintf(stderr, "a child ended with status %#x\n", status);
        atomic_fetch_add(&wrong, 1);
    }
}

static void load(void) {
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    unsigned long (*bound)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(library, "compressBound");
    int (*compress)(unsigned char *, unsigned long *, const unsigned char *, unsigned long) =
        (int (*)(unsigned char *, unsigned long *, const unsigned char *, unsigned long))dlsym(library, "compress");
    unsigned long size = bound ? bound(4096) : 0;
    unsigned char *packed = malloc(size), text[4096];
    memset(text, 'x', sizeof text);
    if (!packed || !compress || compress(packed, &size, text, sizeof text) != 0)
        fputs("libz does not compress\n", stderr);
    free(packed);
    dlclose(library);
}

static void stop(int signal) {
    (void)signal;
    atomic_store(&ending, true);
}

int main(void) {
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    uint64_t state = (uint64_t)getpid() * 77 + 1;
    while (!atomic_load(&ending)) {
        pthread_t threads[WORKERS];
        int started = 0;
        while (started < WORKERS && pthread_create(&threads[started], NULL, work, (void *)(uintptr_t)next(&state)) == 0)
            started++;
        bear(next(&state)); // runs while the threads work
        load();
        for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
        usleep(1000 * (next(&state) % 50));
    }
    for (int i = 0; i < SLOTS; i++) end_message(atomic_exchange(&slots[i], NULL), 1);
    if (atomic_load(&wrong)) fprintf(stderr, "%d blocks do not hold what was written\n", atomic_load(&wrong));
    return atomic_load(&wrong) != 0;
}
