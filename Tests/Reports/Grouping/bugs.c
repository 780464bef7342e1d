// Bugs in C that share functions, for Tests/Reports/grouping.py; the argument chooses the bug.
// grouping.py inserts code at the UNRELATED markers.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char text[40];
};

// UNRELATED 1

static struct node *new_node(const char *text) {
    struct node *node = calloc(1, sizeof *node);
    strcpy(node->text, text);
    return node;
}

static inline int first_byte(struct node *node) { return ((volatile struct node *)node)->text[0]; }

__attribute__((noinline)) static int show(struct node *node) {
    // UNRELATED line
    int byte = first_byte(node);
    printf("%d\n", byte);
    return byte;
}

__attribute__((noinline)) static int print_again(struct node *node) {
    int byte = first_byte(node);
    printf("%d again\n", byte);
    return byte;
}

__attribute__((noinline)) static void drop(struct node *node) {
    free(node);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void drop_at_once(struct node *node) {
    puts("at once");
    free(node);
    __asm__ volatile("" ::: "memory");
}

// UNRELATED 2

// A recursion of the given depth.
__attribute__((noinline)) static int walk(struct node *node, int depth) {
    int result = depth ? walk(node, depth - 1) : show(node);
    __asm__ volatile("" ::: "memory");
    return result + 1;
}

int main(int argc, char **argv) {
    const char *bug = argc > 1 ? argv[1] : "";
    int depth = argc > 2 ? atoi(argv[2]) : 1;
    struct node *volatile node = new_node("abc");
    if (!strcmp(bug, "show")) {
        drop(node);
        show(node);
    } else if (!strcmp(bug, "again")) {
        drop(node);
        print_again(node);
    } else if (!strcmp(bug, "other-free")) {
        drop_at_once(node);
        show(node);
    } else if (!strcmp(bug, "twice")) {
        drop(node);
        drop(node);
    } else if (!strcmp(bug, "write")) {
        drop(node);
        ((volatile struct node *)node)->text[3] = 1;
    } else if (!strcmp(bug, "walk")) {
        drop(node);
        walk(node, depth);
    }
    return 0;
}
