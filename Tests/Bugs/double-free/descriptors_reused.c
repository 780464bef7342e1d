// A program replaces all open descriptors by its own file: the runtime must not write a report into that file.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_cart
// stack-alloc: make_cart
// options: on_finding=continue:isolated_per_context=0
// exit: 99
// confidence: exact
// stdout: 0 bytes in the file

#include "../bug.h"
#include <dirent.h>
#include <unistd.h>

FRAME char *make_cart(void) {
    char *cart = malloc(48);
    strcpy(cart, "cart");
    return cart;
}

FRAME void drop_cart(char *cart) {
    free(cart);
    KEEP_FRAME();
}

FRAME void drop_again(char *cart) {
    free(cart);
    KEEP_FRAME();
}

static void take_all_descriptors(int file) {
    DIR *open = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(open));) {
        int descriptor = atoi(entry->d_name);
        if (descriptor > 2 && descriptor != file && descriptor != dirfd(open)) dup2(file, descriptor);
    }
    closedir(open);
}

int main(void) {
    char path[] = "/tmp/descriptors_reused.XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path)) return 1;
    take_all_descriptors(file);
    char *cart = make_cart();
    drop_cart(cart);
#ifdef FIXED
    cart = make_cart();
#endif
    drop_again(cart);
    printf("%ld bytes in the file\n", (long)lseek(file, 0, SEEK_END));
    return 0;
}
