// Preload library that plants a use after free late in the run of an unmodified program. It counts the main thread's
// calls of some libc functions, which measures progress independently of the machine's speed and of the runtime. At a
// given count it allocates a block by a stack that has allocated nothing before, frees the block, and reads it.
// PLANTED_PROGRAM  start of the executable's name; other programs, and children, run unchanged
// PLANTED_OUT      file for the result. Without PLANTED_AT: "COUNT CALLS", the counts at 90 % of the run's processor
//                  time and at its end. With PLANTED_AT: "planted", and "went on" after the block was read
// PLANTED_AT       count at which the block is allocated, freed and read
// PLANTED_THREAD   1: a new thread allocates, frees and reads the block
// PLANTED_BYTES    size of the block

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 4096 };

static const char *out;
static size_t bytes;
static uint64_t at; // PLANTED_AT; 0: measure only
static int in_thread;
static pid_t process;
static __thread int is_main, is_busy;
static uint64_t calls;
static uintptr_t runtime_start, runtime_end; // address range of libzguard, whose own calls are not counted
static volatile unsigned char sink;

// Processor time, sampled every `step` calls. A full table drops every second sample and doubles `step`.
static uint64_t samples[SAMPLES], step = 64, next_sample = 64;
static unsigned sample_count;

static uint64_t processor_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void say(const char *text, int flags) {
    int file = open(out, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    if (file < 0) return;
    size_t length = 0;
    while (text[length]) length++;
    if (write(file, text, length) < 0) _exit(97);
    close(file);
}

// Separate functions, so that the stacks begin in this library.
__attribute__((noinline)) static unsigned char *planted_allocate(void) {
    unsigned char *block = malloc(bytes);
    if (!block) _exit(98);
    for (size_t i = 0; i < bytes; i++) ((volatile unsigned char *)block)[i] = (unsigned char)i;
    return block;
}

__attribute__((noinline)) static void planted_free(unsigned char *block) { free(block); }

__attribute__((noinline)) static void planted_read(const volatile unsigned char *block) { sink = block[bytes / 2]; }

static void *plant(void *unused) {
    is_busy = 1;
    unsigned char *block = planted_allocate();
    say("planted\n", O_APPEND);
    planted_free(block);
    planted_read(block);
    say("went on\n", O_APPEND);
    is_busy = 0;
    return unused;
}

static void plant_somewhere(void) {
    pthread_t thread;
    if (!in_thread) plant(NULL);
    else if (pthread_create(&thread, NULL, plant, NULL) == 0) pthread_join(thread, NULL);
}

static void sample(void) {
    if (sample_count == SAMPLES) {
        for (unsigned i = 0; i < SAMPLES / 2; i++) samples[i] = samples[2 * i + 1];
        sample_count = SAMPLES / 2;
        step *= 2;
    }
    samples[sample_count++] = processor_time();
    next_sample = (sample_count + 1) * step;
}

static void count(uintptr_t caller) {
    if (!is_main || is_busy || (caller >= runtime_start && caller < runtime_end)) return;
    calls++;
    if (at == 0 && calls >= next_sample) sample();
    if (at == 0 || calls != at || getpid() != process) return;
    is_busy = 1;
    plant_somewhere();
    is_busy = 0;
}

static int find_runtime(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libzguard")) return 0;
    runtime_start = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && end > runtime_end) runtime_end = end;
    }
    return 1;
}

// MARK: counted functions, with replacements that are used until dlsym has found libc's

static void *(*real_memcpy)(void *, const void *, size_t);
static void *(*real_memmove)(void *, const void *, size_t);
static void *(*real_memset)(void *, int, size_t);
static int (*real_memcmp)(const void *, const void *, size_t);
static void *(*real_memchr)(const void *, int, size_t);
static size_t (*real_strlen)(const char *);
static int (*real_strcmp)(const char *, const char *);

#define COUNT() count((uintptr_t)__builtin_return_address(0))

void *memmove(void *to, const void *from, size_t size) {
    COUNT();
    if (real_memmove) return real_memmove(to, from, size);
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f)
        for (size_t i = 0; i < size; i++) t[i] = f[i];
    else
        for (size_t i = size; i > 0; i--) t[i - 1] = f[i - 1];
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    COUNT();
    if (real_memcpy) return real_memcpy(to, from, size);
    for (size_t i = 0; i < size; i++) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t size) {
    COUNT();
    if (real_memset) return real_memset(to, value, size);
    for (size_t i = 0; i < size; i++) ((unsigned char *)to)[i] = (unsigned char)value;
    return to;
}

int memcmp(const void *left, const void *right, size_t size) {
    COUNT();
    if (real_memcmp) return real_memcmp(left, right, size);
    const unsigned char *l = left, *r = right;
    for (size_t i = 0; i < size; i++)
        if (l[i] != r[i]) return l[i] - r[i];
    return 0;
}

void *memchr(const void *text, int value, size_t size) {
    COUNT();
    if (real_memchr) return real_memchr(text, value, size);
    const unsigned char *t = text;
    for (size_t i = 0; i < size; i++)
        if (t[i] == (unsigned char)value) return (void *)(t + i);
    return NULL;
}

size_t strlen(const char *text) {
    COUNT();
    if (real_strlen) return real_strlen(text);
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

int strcmp(const char *left, const char *right) {
    COUNT();
    if (real_strcmp) return real_strcmp(left, right);
    while (*left && *left == *right) left++, right++;
    return (unsigned char)*left - (unsigned char)*right;
}

static void find_functions(void) {
    real_memcpy = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memcpy");
    real_memmove = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memmove");
    real_memset = (void *(*)(void *, int, size_t))dlsym(RTLD_NEXT, "memset");
    real_memcmp = (int (*)(const void *, const void *, size_t))dlsym(RTLD_NEXT, "memcmp");
    real_memchr = (void *(*)(const void *, int, size_t))dlsym(RTLD_NEXT, "memchr");
    real_strlen = (size_t(*)(const char *))dlsym(RTLD_NEXT, "strlen");
    real_strcmp = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "strcmp");
}

// MARK: start and end

__attribute__((constructor)) static void start(void) {
    find_functions();
    static char path[4096];
    const char *program = getenv("PLANTED_PROGRAM"), *count = getenv("PLANTED_AT"), *size = getenv("PLANTED_BYTES");
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    out = getenv("PLANTED_OUT");
    if (!program || !out || length < 0) return;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash ? slash + 1 : path, program, strlen(program)) != 0) return;
    at = count ? strtoull(count, NULL, 10) : 0;
    bytes = size ? strtoull(size, NULL, 10) : 40;
    in_thread = getenv("PLANTED_THREAD") != NULL;
    dl_iterate_phdr(find_runtime, NULL);
    process = getpid();
    is_main = 1;
}

__attribute__((destructor)) static void end(void) {
    if (!is_main || at != 0 || getpid() != process) return;
    is_busy = 1;
    uint64_t late = processor_time() / 10 * 9;
    unsigned i = 0;
    while (i < sample_count && samples[i] < late) i++;
    char text[64];
    snprintf(text, sizeof(text), "%llu %llu\n", (unsigned long long)((i + 1) * step), (unsigned long long)calls);
    say(text, O_TRUNC);
}
