// System calls get lengths larger than the kernel uses, lengths of 0, and pointers that are invalid on purpose.
// libs: -Wno-stringop-overflow -Wno-stringop-overread
// qemu-user: it fails calls with EFAULT whose buffer has an unreadable page, however little of it the call would use
// musl: musl has no strerrorname_np

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void say(const char *what, long result) {
    int error = result < 0 ? errno : 0;
    printf("%s: %ld%s%s\n", what, result, error ? " " : "", error ? strerrorname_np(error) : "");
}

static char *volatile nowhere; // volatile: hides from the compiler that this is NULL

static void longer_than_the_block(int file) {
    char *small = malloc(20), *large = malloc(1200000), *text = malloc(5);
    say("read more than there is", pread(file, small, 4096, 0));
    say("read at the end", pread(file, small, 1 << 20, 15));
    say("read the rest", read(file, small + 5, 15));
    say("read at the end of the file", read(file, small, 4096));
    say("read into a large block", pread(file, large, 1 << 30, 0));
    struct iovec vectors[] = {{small, 10}, {large, 1u << 30}};
    say("readv", preadv(file, vectors, 2, 0));
    memcpy(text, "text", 5);
    say("write to a closed file", write(-1, text, 500));
    free(small);
    free(large);
    free(text);
}

static void of_nothing(int file) {
    char *gone = malloc(100), *empty = malloc(0);
    free(gone);
    // The kernel never accesses memory through this pointer: all lengths are 0.
    char *volatile dangling = gone;
    struct iovec vectors[] = {{dangling, 0}, {"text", 4}, {dangling, 0}};
    say("read 0", read(file, dangling, 0));
    say("write 0", write(file, dangling, 0));
    say("pwrite 0", pwrite(file, dangling, 0, 0));
    say("writev with parts of 0", writev(file, vectors, 3));
    say("writev of no parts", writev(file, (struct iovec *)dangling, 0));
    say("read 0 into 0", read(file, empty, 0));
    free(empty);
}

static void nowhere_on_purpose(int file) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    say("write NULL", write(file, nowhere, 5));
    say("read NULL", pread(file, nowhere, 5, 0));
    say("read 1", pread(file, nowhere + 1, 5, 0));
    say("read -1", pread(file, nowhere - 1, 5, 0));
    say("write over the end", pwrite(file, pages + 4096, 5, 0));
    say("writev NULL", writev(file, (struct iovec *)nowhere, 2));
    say("writev -16", writev(file, (struct iovec *)(nowhere - 16), 2));
    say("writev unmapped", writev(file, (struct iovec *)(pages + 4096), 2));
    say("writev half unmapped", writev(file, (struct iovec *)(pages + 4080), 2));
    say("writev of too many", writev(file, (struct iovec *)pages, 1025));
    say("writev of -1", writev(file, (struct iovec *)pages, -1));
    say("sendmsg NULL", sendmsg(file, (struct msghdr *)nowhere, 0));
    say("recvmsg NULL", recvmsg(file, (struct msghdr *)nowhere, 0));
    munmap(pages, 4096);
}

// The program itself protects pages of its block, as for a write barrier.
static void protected_by_itself(int file) {
    char *block = aligned_alloc(4096, 16384);
    memset(block, 'b', 16384);
    mprotect(block + 4096, 4096, PROT_READ);
    mprotect(block + 8192, 4096, PROT_NONE);
    say("read into a read-only page", pread(file, block + 4096, 5, 0));
    say("write from a read-only page", pwrite(file, block + 4096, 5, 0));
    say("write from a hidden page", pwrite(file, block + 8192, 5, 0));
    say("read more into a hidden page", pread(file, block + 8192, 1 << 20, 0));
    mprotect(block, 16384, PROT_READ | PROT_WRITE);
    say("read into it again", pread(file, block + 8192, 5, 0));
    free(block);
}

// Transfers all bytes that realloc and malloc_usable_size allow.
static void all_that_there_is(int file) {
    char *block = malloc(100);
    for (size_t bytes = 90; bytes < 300000; bytes += bytes / 7) {
        block = realloc(block, bytes);
        memset(block, 'b', malloc_usable_size(block));
        if (pwrite(file, block, bytes, 0) != (ssize_t)bytes) say("write all", -1);
        size_t usable = malloc_usable_size(block);
        if (pwrite(file, block, usable, 0) != (ssize_t)usable) say("write all that is usable", -1);
        if (pread(file, block, bytes, 0) != (ssize_t)bytes) say("read all", -1);
    }
    while (malloc_usable_size(block) > 100) {
        block = realloc(block, malloc_usable_size(block) * 2 / 3);
        size_t usable = malloc_usable_size(block);
        if (pwrite(file, block, usable, 0) != (ssize_t)usable) say("write what is left", -1);
    }
    free(block);
}

int main(void) {
    int file = memfd_create("file", 0);
    say("write", write(file, "fifteen letters", 15));
    lseek(file, 0, SEEK_SET);
    longer_than_the_block(file);
    of_nothing(file);
    nowhere_on_purpose(file);
    protected_by_itself(file);
    all_that_there_is(file);
    return 0;
}
