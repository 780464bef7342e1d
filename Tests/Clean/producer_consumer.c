// Four producers allocate blocks; four consumers check and free them.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { threads = 4, messages = 20000, capacity = 64 };

static char *queue[capacity];
static int first, count, done;
static long bad;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *produce(void *argument) {
    int seed = (int)(long)argument;
    for (int i = 0; i < messages; i++) {
        size_t size = 8 + (size_t)(i * 37 + seed) % 500;
        char *message = malloc(size);
        memset(message, (int)(size & 0x7f), size);
        memcpy(message, &size, sizeof size);
        pthread_mutex_lock(&lock);
        while (count == capacity) pthread_cond_wait(&changed, &lock);
        queue[(first + count++) % capacity] = message;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!count && !done) pthread_cond_wait(&changed, &lock);
        if (!count) break;
        char *message = queue[first];
        first = (first + 1) % capacity;
        count--;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        size_t size;
        memcpy(&size, message, sizeof size);
        for (size_t i = sizeof size; i < size; i++)
            if (message[i] != (char)(size & 0x7f)) __atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
        free(message);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void) {
    pthread_t producers[threads], consumers[threads];
    for (long i = 0; i < threads; i++) {
        pthread_create(&producers[i], NULL, produce, (void *)i);
        pthread_create(&consumers[i], NULL, consume, NULL);
    }
    for (int i = 0; i < threads; i++) pthread_join(producers[i], NULL);
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) pthread_join(consumers[i], NULL);
    printf("%ld bad bytes\n", bad);
    return 0;
}
