// A program with a bug that is found late: a write after free, or out of bounds, in one of the many blocks of a busy
// allocation stack.
// usage: late BUG NUMBER [WHERE] [MARK]
//   BUG      freed (write after free, found at eviction), freed-shared (the same, with a second call of the function
//            that allocates), freed-exit (found at exit), behind (one byte behind a block), far-behind (17 bytes
//            behind), front (in front of a block), none, held (none; all blocks are live at once)
//   NUMBER   which block of the busy stack
//   WHERE    main, thread, child (a forked process), program (an executed program)
//   MARK     a file: if it exists, the program has no bug; otherwise the program creates the file and has the bug
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 60000, HELD = 64, SIZE = 45, AFTER = 200 };

static const char *bug;
static long number;
static int is_planted = 1;

#ifdef TAGGED
// The runtime recognizes fontconfig by this function: fontconfig keeps a tag in the lowest bit of pointers.
void FcConfigGetCurrent(void) {}
enum { TAG = 1 };
#else
enum { TAG = 0 };
#endif

__attribute__((noinline)) static char *make_record(long i) {
    char *record = malloc(SIZE);
    if ((uintptr_t)record & TAG) exit(5);
    memset(record, (int)i, SIZE);
    return record;
}

__attribute__((noinline)) static void plant(volatile char *place) { *place = 7; }

static int is_bug(const char *name) { return is_planted && strcmp(bug, name) == 0; }

static void *work(void *unused) {
    static char *held[BLOCKS];
    char *target = NULL;
    const long count = strcmp(bug, "held") ? HELD : BLOCKS;
    const int is_shared = strcmp(bug, "freed-shared") == 0;
    for (long i = 0; i < BLOCKS; i++) {
        char *record = make_record(i);
        if (is_shared) free(make_record(i));
        if (i == number) {
            target = record;
            if (is_bug("behind")) plant(record + SIZE);
            if (is_bug("far-behind")) plant(record + SIZE + 17);
            if (is_bug("front")) plant(record - 1);
        }
        free(held[i % count]);
        held[i % count] = record;
        if (target && i == number + AFTER && (is_bug("freed") || is_bug("freed-shared"))) plant(target + 8);
    }
    for (long i = 0; i < count; i++) free(held[i]);
    if (target && is_bug("freed-exit")) plant(target + 8);
    return unused;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    bug = words[1];
    number = atol(words[2]);
    const char *where = count > 3 ? words[3] : "main";
    if (count > 4) {
        int mark = open(words[4], O_CREAT | O_EXCL | O_WRONLY, 0600);
        is_planted = mark >= 0;
    }
    pthread_t thread;
    pid_t child;
    int status = 0;
    if (strcmp(where, "main") == 0) work(NULL);
    if (strcmp(where, "thread") == 0) {
        if (pthread_create(&thread, NULL, work, NULL)) return 3;
        pthread_join(thread, NULL);
    }
    if (strcmp(where, "child") == 0 || strcmp(where, "program") == 0) {
        child = fork();
        if (child == 0 && strcmp(where, "program") == 0) {
            execl("/proc/self/exe", words[0], words[1], words[2], (char *)NULL);
            _exit(4);
        }
        if (child == 0) {
            work(NULL);
            exit(0);
        }
        waitpid(child, &status, 0);
    }
    char line[64];
    if (fgets(line, sizeof line, stdin)) printf("read %s", line);
    puts("end");
    return 0;
}
