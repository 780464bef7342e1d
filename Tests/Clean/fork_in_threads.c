// A program forks repeatedly while its threads allocate; every child can still allocate and free.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int stop;

static void *churn(void *argument) {
    char *kept[16] = {NULL};
    for (unsigned i = (unsigned)(long)argument; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        free(kept[i % 16]);
        kept[i % 16] = malloc(16 + i % 3000);
        kept[i % 16][0] = 'k';
    }
    for (int i = 0; i < 16; i++) free(kept[i]);
    return NULL;
}

static int child(char *made_by_parent) {
    char *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = strdup(made_by_parent);
    for (int i = 0; i < 100; i++) free(blocks[i]);
    free(made_by_parent);
    return 3;
}

int main(void) {
    pthread_t threads[3];
    int good = 0;
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, churn, (void *)i);
    for (int i = 0; i < 100; i++) {
        char *text = strdup("made by the parent");
        pid_t pid = fork();
        if (!pid) _exit(child(text));
        int status = 0;
        waitpid(pid, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        free(text);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("%d children\n", good);
    return 0;
}
