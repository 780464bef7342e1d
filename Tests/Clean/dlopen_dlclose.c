// Libraries are opened, used and closed repeatedly, also by threads; opening an unknown library sets an error text.
// libs: -lpthread -ldl
// musl: musl has no RTLD_DEEPBIND

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *open_and_close(void *unused) {
    for (int i = 0; i < 200; i++) {
        void *math = dlopen("libm.so.6", RTLD_NOW | (i % 2 ? RTLD_LOCAL : RTLD_GLOBAL));
        double (*cosine)(double) = NULL;
        *(void **)&cosine = math ? dlsym(math, "cos") : NULL;
        if (!cosine || cosine(0) != 1) abort();
        dlclose(math);
        void *resolver = dlopen("libresolv.so.2", RTLD_LAZY | RTLD_DEEPBIND);
        if (!resolver) abort();
        dlclose(resolver);
        if (dlopen("no-such-library.so", RTLD_NOW) || !dlerror()) abort();
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    open_and_close(NULL);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, open_and_close, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    puts("closed");
    return 0;
}
