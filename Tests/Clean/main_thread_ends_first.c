// The main thread ends with pthread_exit; another thread prints and ends the process.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_t main_thread;
static char *shared;

static void *work(void *unused) {
    pthread_join(main_thread, NULL);
    puts(shared);
    free(shared);
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i));
    return unused;
}

int main(void) {
    pthread_t thread;
    main_thread = pthread_self();
    shared = strdup("made by the main thread");
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
}
