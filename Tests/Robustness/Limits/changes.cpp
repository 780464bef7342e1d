// Tests the heap under a memory limit that the program sets and changes: `changes as|data full|lifted|number|own|exec`.
// Prints a line for each property, ending in "good" or "WRONG"; exits with 1 if one is wrong.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int resource;
static int wrong;

static void check(bool good, const char *what) {
    std::printf("%s %s\n", what, good ? "good" : "WRONG");
    std::fflush(stdout);
    wrong |= !good;
}

static void set(rlim_t bytes) {
    rlimit limit;
    getrlimit((__rlimit_resource)resource, &limit);
    limit.rlim_cur = bytes;
    setrlimit((__rlimit_resource)resource, &limit);
}

static std::vector<void *> *kept;

// Allocates until malloc fails, at most 2 GiB; returns the MiB allocated.
static size_t fill(size_t bytes) {
    size_t got = 0;
    for (void *block; got < ((size_t)2 << 30) && (block = std::malloc(bytes)); got += bytes) kept->push_back(block);
    return got >> 20;
}
static void empty() {
    for (void *block : *kept) std::free(block);
    kept->clear();
}

static int deep(int level) {
    volatile char frame[4096];
    frame[0] = (char)level;
    return level ? deep(level - 1) + frame[0] : frame[0];
}

int main(int, char **words) {
    bool space = !std::strcmp(words[1], "as");
    resource = space ? (int)RLIMIT_AS : (int)RLIMIT_DATA;
    kept = new std::vector<void *>;
    kept->reserve(1 << 20);

    size_t most;
    auto part = [&](const char *name) { return !std::strcmp(words[2], name); };

    if (part("full")) {
        set((rlim_t)150 << 20);
        // The limit must leave room for the main thread's stack to grow.
        check(deep(1000) != 1, "stack");
        most = fill(100000);
        check(most > 110 && most < 165, "filled");
        bool thrown = false;
        try {
            for (;;) kept->push_back(new char[100000]);
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        check(thrown, "bad_alloc");
        check(!std::malloc((size_t)1 << 30), "large");
        check(!std::realloc(std::malloc(8), (size_t)1 << 30), "realloc");
        pid_t child = fork();
        if (!child) _exit(fill(100000) > 10);
        int status;
        waitpid(child, &status, 0);
        check(status == 0, "child");
        empty();
        size_t again = fill(100000);
        check(again + 15 > most && again < most + 15, "again");
    }
    if (part("lifted")) {
        set((rlim_t)150 << 20);
        fill(100000);
        set(RLIM_INFINITY);
        check(fill(100000) > 1000, "lifted");
    }
    if (part("number")) { // set by a raw system call, not by libc's function
        rlimit limit;
        getrlimit((__rlimit_resource)resource, &limit);
        limit.rlim_cur = (rlim_t)150 << 20;
        syscall(SYS_prlimit64, 0, resource, &limit, nullptr);
        most = fill(3000);
        check(most > 110 && most < 165, "limited by number");
        limit.rlim_cur = RLIM_INFINITY;
        syscall(SYS_prlimit64, 0, resource, &limit, nullptr);
        check(fill(3000) > 1000, "lifted by number");
    }
    if (part("own")) { // the program's own mappings count toward the limit until they are unmapped
        void *own = mmap(nullptr, (size_t)100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        set((rlim_t)180 << 20);
        most = fill(100000);
        check(most > 60 && most < 90, "beside what is mapped");
        munmap(own, (size_t)100 << 20);
        check(std::malloc(50 << 20), "unmapped");
    }
    if (part("exec")) {
        set((rlim_t)150 << 20);
        execl("/bin/sh", "sh", "-c", space ? "ulimit -v" : "ulimit -d", (char *)nullptr);
    }
    return wrong;
}
