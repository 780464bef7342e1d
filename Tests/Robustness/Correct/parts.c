// Parts of generated correct programs (correct.py). Each takes a size in bytes and a number, and returns a sum that is
// the same in every run.

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

typedef unsigned long sum_t;
#define PART(name) __attribute__((noinline, unused)) static sum_t name
#define APART __attribute__((noinline, unused)) static

APART char *text_of(long length, long seed) {
    char *text = malloc((size_t)length + 1);
    for (long i = 0; i < length; i++) text[i] = (char)('a' + (i * 7 + seed) % 26);
    text[length] = 0;
    return text;
}

APART sum_t sum_bytes(const void *bytes, long count) {
    const unsigned char *at = bytes;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) sum = sum * 33 + at[i];
    return sum;
}

// Strings that fill their blocks, by libc and by loops.
PART(strings)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        long length = (size + i) % (size + 1);
        char *text = text_of(length, i), *copy = strdup(text), *part = strndup(text, (size_t)length / 2);
        sum += strlen(text) + strnlen(copy, (size_t)size * 2 + 100) + strlen(part);
        sum += (sum_t)(strcmp(text, copy) == 0) + (sum_t)(strncmp(text, part, (size_t)length / 2) == 0);
        sum += (sum_t)(strncmp(text, copy, 100000) == 0) + (sum_t)(strcasecmp(text, copy) == 0);
        const char *found = strchr(text, 'q');
        sum += found ? (sum_t)(found - text) : 7;
        found = strrchr(text, 'b');
        sum += found ? (sum_t)(found - text) : 9;
        found = memchr(copy, 'z', (size_t)length + 1);
        sum += found ? (sum_t)(found - copy) : 11;
        sum += (sum_t)(rawmemchr(copy, 0) - (void *)copy);
        for (const char *at = text; *at; at++) sum = sum * 3 + (sum_t)*at;
        free(text);
        free(copy);
        free(part);
    }
    return sum;
}

// Copies and appends that end at the last byte of the target.
PART(copies)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        char *a = text_of(size, i), *b = malloc((size_t)size + 1), *both = malloc(2 * (size_t)size + 1);
        strcpy(b, a);
        strcpy(both, a);
        strcat(both, b);
        sum += strlen(both) + sum_bytes(both, 2 * size + 1);
        memmove(both + 1, both, 2 * (size_t)size);
        memmove(both, both + 1, 2 * (size_t)size);
        memcpy(b, a, (size_t)size + 1);
        memset(both, 'x', 2 * (size_t)size + 1);
        strncpy(b, "short", (size_t)size + 1);
        sum += sum_bytes(b, size < 5 ? size + 1 : 6) + (sum_t)memcmp(a, a, (size_t)size + 1);
        char *end = stpcpy(b, a);
        sum += (sum_t)(end - b);
        free(a);
        free(b);
        free(both);
    }
    return sum;
}

// Numbers whose last digit is the last byte before the terminator, at the end of the block.
PART(numbers)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        int digits = (int)(size % 17) + 1;
        char *text = malloc((size_t)digits + 1), *end;
        for (int j = 0; j < digits; j++) text[j] = (char)('1' + (i + j) % 9);
        text[digits] = 0;
        sum += (sum_t)strtol(text, &end, 10) + (sum_t)(end - text) + strtoul(text, NULL, 0) + (sum_t)atoll(text) +
               (sum_t)atof(text);
        long read = 0;
        sscanf(text, "%ld", &read);
        sum += (sum_t)read;
        char *printed = malloc((size_t)digits + 1);
        snprintf(printed, (size_t)digits + 1, "%s", text);
        sum += sum_bytes(printed, digits);
        free(printed);
        free(text);
    }
    return sum;
}

struct node {
    struct node *next, *other;
    long key;
    char payload[];
};

PART(lists)(long size, long count) {
    struct node *head = NULL;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        struct node *node = malloc(sizeof *node + (size_t)size);
        *node = (struct node){head, NULL, i * 17 % 101};
        memset(node->payload, (int)i, (size_t)size);
        head = node;
    }
    for (struct node *node = head; node; node = node->next)
        sum = sum * 5 + (sum_t)node->key + sum_bytes(node->payload, size);
    for (struct node **link = &head; *link;)
        if ((*link)->key % 2) {
            struct node *dead = *link;
            *link = dead->next;
            free(dead);
        } else link = &(*link)->next;
    for (struct node *node = head, *next; node; node = next) sum += (sum_t)node->key, next = node->next, free(node);
    return sum;
}

static struct node *insert(struct node *root, long key, long size) {
    if (!root) {
        root = calloc(1, sizeof *root + (size_t)size);
        root->key = key;
        if (size) root->payload[size - 1] = (char)key;
    } else if (key < root->key) root->next = insert(root->next, key, size);
    else root->other = insert(root->other, key, size);
    return root;
}
static sum_t drop_tree(struct node *root, long size) {
    if (!root) return 1;
    sum_t sum = drop_tree(root->next, size) * 3 + (sum_t)root->key + (size ? (sum_t)root->payload[size - 1] : 0);
    sum += drop_tree(root->other, size) * 7;
    free(root);
    return sum;
}
PART(trees)(long size, long count) {
    struct node *root = NULL;
    for (long i = 0; i < count; i++) root = insert(root, i * 7919 % 1009, size);
    return drop_tree(root, size);
}

// An array that grows and shrinks; every byte of the new size is used.
PART(vectors)(long size, long count) {
    char *array = NULL;
    sum_t sum = 0;
    long used = 0;
    for (long i = 0; i < count; i++) {
        long wanted = i % 4 == 3 ? used / 2 + 1 : used + size % 97 + 1;
        array = realloc(array, (size_t)wanted);
        for (; used < wanted; used++) array[used] = (char)(used + i);
        used = wanted;
        sum = sum * 3 + sum_bytes(array, used);
    }
    free(array);
    return sum;
}

PART(tables)(long size, long count) {
    enum { BUCKETS = 64 };
    struct node **table = calloc(BUCKETS, sizeof *table);
    sum_t sum = 0;
    for (long i = 0; i < 4 * count; i++) {
        struct node **link = &table[i * 31 % BUCKETS];
        if (i % 3 == 2 && *link) {
            struct node *dead = *link;
            *link = dead->next;
            sum += (sum_t)dead->key;
            free(dead);
            continue;
        }
        struct node *node = malloc(sizeof *node + (size_t)size);
        node->next = *link, node->key = i;
        if (size) node->payload[0] = node->payload[size - 1] = (char)i;
        *link = node;
    }
    for (int i = 0; i < BUCKETS; i++)
        for (struct node *node = table[i], *next; node; node = next) {
            next = node->next;
            sum = sum * 5 + (sum_t)node->key + (size ? (sum_t)node->payload[size - 1] : 0);
            free(node);
        }
    free(table);
    return sum;
}

// Loops for the vectorizer up to the last element, and vectors that malloc's alignment allows.
typedef float vector __attribute__((vector_size(16)));
PART(matrices)(long size, long count) {
    long rows = count % 40 + 1, columns = size % 300 + 1;
    float **matrix = malloc((size_t)rows * sizeof *matrix), total = 0;
    for (long i = 0; i < rows; i++) {
        matrix[i] = malloc((size_t)columns * sizeof **matrix);
        for (long j = 0; j < columns; j++) matrix[i][j] = (float)((i * j) % 13);
    }
    for (long i = 1; i < rows; i++)
        for (long j = 0; j < columns; j++)
            matrix[i][j] = matrix[i][j] + matrix[i - 1][j] - (float)(int)(matrix[i][j] / 3);
    vector *vectors = malloc((size_t)(columns) * sizeof *vectors);
    for (long j = 0; j < columns; j++) vectors[j] = (vector){1, 2, matrix[rows - 1][j], 4};
    for (long j = 0; j < columns; j++) total += vectors[j][2] - (float)(long)(vectors[j][2] / 64) * 64;
    for (long i = 0; i < rows; i++) free(matrix[i]);
    free(matrix);
    free(vectors);
    return (sum_t)(long)total;
}

// A header with a counter that threads change, and a string behind it.
struct shared {
    _Atomic long references;
    int length;
    char text[];
};
PART(counted)(long size, long count) {
    sum_t sum = 0;
    struct shared **all = malloc((size_t)count * sizeof *all);
    for (long i = 0; i < count; i++) {
        long length = size + i % 9;
        all[i] = malloc(sizeof *all[i] + (size_t)length + 1);
        all[i]->references = 1;
        all[i]->length = (int)length;
        memset(all[i]->text, 'a' + (int)(i % 26), (size_t)length);
        all[i]->text[length] = 0;
        sum += strlen(all[i]->text);
        atomic_fetch_add(&all[i]->references, 2);
    }
    for (long i = 0; i < count; i++) {
        sum = sum * 3 + sum_bytes(all[i]->text, all[i]->length + 1);
        if (atomic_fetch_sub(&all[i]->references, 3) == 3) free(all[i]);
    }
    free(all);
    return sum;
}

// Pointers to structures with a tag in the lowest bits.
PART(tags)(long size, long count) {
    uintptr_t *all = malloc((size_t)count * sizeof *all);
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        long *object = malloc(sizeof *object * (size_t)(size % 64 + 2));
        object[0] = i, object[size % 64 + 1] = 3;
        if ((uintptr_t)object & 15) abort();
        all[i] = (uintptr_t)object | (uintptr_t)(i & 15);
    }
    for (long i = 0; i < count; i++) {
        long *object = (long *)(all[i] & ~(uintptr_t)15);
        sum = sum * 3 + (sum_t)object[0] + (sum_t)object[size % 64 + 1] + (all[i] & 15);
        free(object);
    }
    free(all);
    return sum;
}

// Small blocks, aligned as malloc promises: for every type that fits into the block.
PART(small)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        uint16_t *two = malloc(2);
        uint32_t *four = malloc(4), *twelve = malloc(12);
        double *eight = malloc(8);
        __int128 *sixteen = malloc(16);
        if ((uintptr_t)two % 2 || (uintptr_t)four % 4 || (uintptr_t)eight % 8 || (uintptr_t)sixteen % 16) abort();
        if ((uintptr_t)twelve % 4) abort();
        *two = (uint16_t)(size + i), *four = (uint32_t)i, *eight = (double)i, *sixteen = size, twelve[2] = 5;
        sum = sum * 3 + *two + *four + (sum_t)*eight + (sum_t)*sixteen + twelve[2];
        free(two), free(four), free(eight), free(sixteen), free(twelve);
    }
    return sum;
}

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct node *first;
    long left, size;
    sum_t sum;
};
static void *consume(void *argument) {
    struct queue *queue = argument;
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        while (!queue->first && queue->left) pthread_cond_wait(&queue->changed, &queue->lock);
        struct node *node = queue->first;
        if (node) queue->first = node->next, queue->sum += (sum_t)node->key + sum_bytes(node->payload, queue->size);
        pthread_mutex_unlock(&queue->lock);
        if (!node) return NULL;
        free(node);
    }
}
PART(threads)(long size, long count) {
    struct queue *queue = calloc(1, sizeof *queue);
    pthread_t threads[3];
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    queue->left = count, queue->size = size;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, consume, queue);
    for (long i = 0; i < count; i++) {
        struct node *node = malloc(sizeof *node + (size_t)size);
        memset(node->payload, (int)i, (size_t)size);
        node->key = i;
        pthread_mutex_lock(&queue->lock);
        node->next = queue->first, queue->first = node, queue->left--;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    sum_t sum = queue->sum;
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->changed);
    free(queue);
    return sum;
}

// Blocks that the child of a fork uses and frees; the parent's are unchanged.
PART(forks)(long size, long count) {
    long kept = count % 20 + 1;
    char **all = malloc((size_t)kept * sizeof *all);
    for (long i = 0; i < kept; i++) all[i] = text_of(size, i);
    sum_t sum = 0;
    for (int round = 0; round < 2; round++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            for (long i = 0; i < kept; i++) sum += strlen(all[i]), memset(all[i], 1, (size_t)size), free(all[i]);
            free(all);
            free(text_of(size, 3));
            if (round) exit((int)(sum % 100));
            _exit((int)(sum % 100));
        }
        waitpid(child, &status, 0);
        sum = sum * 3 + (sum_t)WEXITSTATUS(status) + (WIFSIGNALED(status) ? 1000 : 0);
    }
    for (long i = 0; i < kept; i++) sum = sum * 3 + sum_bytes(all[i], size + 1), free(all[i]);
    free(all);
    return sum;
}

PART(aligned)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 40; i++) {
        size_t alignment = (size_t)16 << i % 8, bytes = ((size_t)size + alignment - 1) / alignment * alignment;
        char *a = aligned_alloc(alignment, bytes), *b = NULL;
        if (posix_memalign((void **)&b, alignment, (size_t)size) || (uintptr_t)a % alignment ||
            (uintptr_t)b % alignment)
            abort();
        memset(a, 1, bytes), memset(b, 2, (size_t)size);
        sum = sum * 3 + sum_bytes(a, (long)bytes) + sum_bytes(b, size);
        free(a), free(b);
    }
    return sum;
}

// System calls with buffers that end where their blocks end.
PART(pipes)(long size, long count) {
    int ends[2];
    sum_t sum = 0;
    if (pipe(ends)) abort();
    for (long i = 0; i < count % 50; i++) {
        char *from = text_of(size, i), *to = malloc((size_t)size + 1), *half = malloc((size_t)size / 2 + 1);
        if (write(ends[1], from, (size_t)size + 1) != size + 1 || read(ends[0], to, (size_t)size + 1) != size + 1)
            abort();
        struct iovec parts[2] = {{from, (size_t)size + 1}, {half, (size_t)size / 2 + 1}};
        memset(half, 3, (size_t)size / 2 + 1);
        ssize_t all = writev(ends[1], parts, 2);
        for (ssize_t got = 0, now; got < all; got += now)
            if ((now = read(ends[0], to, (size_t)(all - got < size + 1 ? all - got : size + 1))) <= 0) abort();
        sum = sum * 3 + sum_bytes(to, size / 2);
        free(from), free(to), free(half);
    }
    close(ends[0]), close(ends[1]);
    return sum;
}

static int compare(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}
PART(sorting)(long size, long count) {
    long items = size % 700 + 1;
    sum_t sum = 0;
    for (long i = 0; i < count % 20 + 1; i++) {
        int *array = malloc((size_t)items * sizeof *array), key = (int)(items / 2);
        for (long j = 0; j < items; j++) array[j] = (int)(j * 7919 % (items + i));
        qsort(array, (size_t)items, sizeof *array, compare);
        int *found = bsearch(&key, array, (size_t)items, sizeof *array, compare);
        sum = sum * 3 + sum_bytes(array, items * (long)sizeof *array) + (found ? 1 : 2);
        free(array);
    }
    return sum;
}

PART(wide)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        wchar_t *text = malloc(((size_t)size + 1) * sizeof *text), *copy = malloc(((size_t)size + 1) * sizeof *copy);
        for (long j = 0; j < size; j++) text[j] = L'a' + (wchar_t)((i + j) % 26);
        text[size] = 0;
        wcscpy(copy, text);
        sum += wcslen(copy) + (sum_t)(wcscmp(text, copy) == 0) + wcsnlen(text, 100000);
        free(text), free(copy);
    }
    return sum;
}

// Large blocks, touched at both ends only.
PART(large)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 12 + 1; i++) {
        size_t bytes = (size_t)size * 37 + 60000 + (size_t)i * 100003;
        char *block = malloc(bytes);
        block[0] = 1, block[bytes - 1] = 2;
        block = realloc(block, bytes * 2);
        block[bytes * 2 - 1] = 4;
        block = realloc(block, bytes / 3);
        block[bytes / 3 - 1] = 3;
        sum = sum * 3 + (sum_t)(block[0] + block[bytes / 3 - 1]);
        free(block);
    }
    return sum;
}

// Memory from calloc is zero although it was used before.
PART(zeros)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        char *dirty = malloc((size_t)size), *clean;
        memset(dirty, 0x55, (size_t)size);
        free(dirty);
        clean = calloc((size_t)size, 1);
        for (long j = 0; j < size; j++)
            if (clean[j]) abort();
        clean[size - 1] = 1;
        sum += (sum_t)clean[size - 1];
        free(clean);
        free(NULL);
        void *nothing = malloc(0), *other = malloc(0);
        sum += (sum_t)(nothing != other);
        free(realloc(nothing, (size_t)size)), free(other);
    }
    return sum;
}

// Functions that allocate within libc.
PART(libc)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 30 + 1; i++) {
        char *text = text_of(size, i), *printed = NULL, *line = NULL, *memory = NULL, *state = NULL;
        size_t room = 0, bytes = 0;
        if (asprintf(&printed, "%s %ld %s", text, i, text) < 0) abort();
        sum += strlen(printed);
        FILE *stream = open_memstream(&memory, &bytes);
        fprintf(stream, "%s\n%s\n", printed, text);
        fclose(stream);
        stream = fmemopen(memory, bytes, "r");
        while (getline(&line, &room, stream) > 0) sum = sum * 3 + sum_bytes(line, (long)strlen(line));
        fclose(stream);
        for (char *word = strtok_r(printed, " ", &state); word; word = strtok_r(NULL, " ", &state))
            sum = sum * 3 + strlen(word);
        regex_t expression;
        if (regcomp(&expression, "b[a-z]*d", REG_EXTENDED) == 0)
            sum += (sum_t)regexec(&expression, text, 0, NULL, 0), regfree(&expression);
        setenv("CORRECT_TEXT", text, 1);
        sum += strlen(getenv("CORRECT_TEXT"));
        unsetenv("CORRECT_TEXT");
        free(text), free(printed), free(line), free(memory);
    }
    return sum;
}

// Searches and comparisons whose limit is larger than the block, but whose result lies in it.
PART(limits)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        char *text = text_of(size, i), *other = text_of(size, i);
        other[size - 1] = 'X';
        sum += (sum_t)((char *)memchr(text, 0, SIZE_MAX / 2) - text) + strnlen(text, SIZE_MAX / 2);
        sum += (sum_t)(strncmp(text, other, SIZE_MAX / 2) != 0) +
               (sum_t)(strcspn(text, "\n") + strspn(text, "abcdefghijklmnopqrstuvwxyz"));
        const char *found = strstr(text, "hov");
        sum += found ? (sum_t)(found - text) : 5;
        found = strpbrk(other, "X");
        sum += (sum_t)(found - other);
        memset(text + 1, 0, (size_t)size);
        sum += strlen(text) + (sum_t)memcmp(text, text, (size_t)size + 1);
        free(text), free(other);
    }
    return sum;
}

// Frees some blocks of a busy allocation site at rare places. The program does not use these blocks afterwards.
APART void free_rarely(void *block, long way) {
    if (way % 3 == 0) free(block);
    else if (way % 3 == 1) block = realloc(block, 100000), free(block);
    else free_rarely(block, way / 3);
    __asm__("");
}
PART(rare)(long size, long count) {
    enum { LIVE = 128 };
    char **recent = calloc(LIVE, sizeof *recent);
    sum_t sum = 0;
    for (long i = 0; i < count * 40; i++) {
        char *block = malloc((size_t)size);
        memset(block, (int)i, (size_t)size);
        if (recent[i % LIVE]) {
            sum = sum * 3 + (sum_t)recent[i % LIVE][size - 1];
            if (i % 499) free(recent[i % LIVE]);
            else free_rarely(recent[i % LIVE], i / 499);
        }
        recent[i % LIVE] = block;
    }
    for (int i = 0; i < LIVE; i++) free(recent[i]);
    free(recent);
    return sum;
}

static void drop_node(void *node) { free(node); }
static int compare_text(const void *a, const void *b) { return strcmp(a, b); }
PART(searches)(long size, long count) {
    void *root = NULL;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        char *text = text_of(size % 60 + i % 7, i);
        char **found = tsearch(text, &root, compare_text);
        sum = sum * 3 + strlen(*found);
        if (*found != text) free(text);
    }
    tdestroy(root, drop_node);
    return sum;
}
