// A directory stream is closed twice: libc allocates the block and frees it both times.
// finding: double-free
// access: free
// block: offset=0 state=quarantined language=unknown
// stack-access: closedir|__closedir|__GI___closedir
// stack-free: closedir|__closedir|__GI___closedir
// stack-alloc: ~open_folder
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <dirent.h>

FRAME DIR *open_folder(void) {
    DIR *folder = opendir("/");
    KEEP_FRAME();
    return folder;
}

FRAME void close_folder(DIR *folder) {
    closedir(folder);
    KEEP_FRAME();
}

int main(void) {
    DIR *folder = open_folder();
    puts(readdir(folder) ? "entry" : "empty");
    close_folder(folder);
#ifndef FIXED
    close_folder(folder);
#endif
    return 0;
}
