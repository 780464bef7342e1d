// Stores annotations in a fixed table. Writers take a lock. Readers take none and skip entries being written (seqlock).

#include "findings/annotations.h"

#include "platform/lock.h"

struct zg_annotation zg_annotations[ZG_ANNOTATIONS];
static struct zg_lock lock;
#define LONGEST_WAIT_NS INT64_C(100000000)

static struct zg_annotation *find(const char *key) {
    struct zg_annotation *room = NULL;
    for (int i = 0; i < ZG_ANNOTATIONS; i++) {
        if (zg_annotations[i].is_there && zg_string_equal(zg_annotations[i].key, key)) return &zg_annotations[i];
        if (!zg_annotations[i].is_there && !room) room = &zg_annotations[i];
    }
    return room;
}

// Copies a string, truncated at a UTF-8 character boundary if too long.
static void cut(char *to, const char *from, uint64_t capacity) {
    zg_string_copy(to, from, capacity);
    uint64_t end = zg_string_length(to);
    if (zg_string_length(from) == end) return;
    while (end && ((unsigned char)to[end - 1] & 0xc0) == 0x80) end--;
    if (end && (unsigned char)to[end - 1] >= 0xc0) end--;
    to[end] = 0;
}

bool zg_annotations_set(const char *key, const char *value) {
    char name[ZG_ANNOTATION_KEY_BYTES];
    cut(name, key, sizeof name);
    // In the child of a fork, the lock may be held forever by a thread that the child lacks.
    if (!zg_lock_take_within(&lock, LONGEST_WAIT_NS)) return false;
    struct zg_annotation *annotation = find(name);
    if (annotation) {
        __atomic_fetch_add(&annotation->changes, 1, __ATOMIC_ACQ_REL);
        annotation->is_there = value != NULL;
        zg_string_copy(annotation->key, name, sizeof annotation->key);
        if (value) cut(annotation->value, value, sizeof annotation->value);
        __atomic_fetch_add(&annotation->changes, 1, __ATOMIC_ACQ_REL);
    }
    zg_lock_drop(&lock);
    return annotation || !value;
}

void zg_annotations_put(struct zg_text *text) {
    bool is_first = true;
    for (int i = 0; i < ZG_ANNOTATIONS; i++) {
        struct zg_annotation copy = zg_annotations[i];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (copy.changes & 1 || !copy.is_there ||
            __atomic_load_n(&zg_annotations[i].changes, __ATOMIC_ACQUIRE) != copy.changes)
            continue;
        zg_text_string(text, is_first ? ",\"annotations\":{" : ",");
        zg_text_json_string(text, copy.key);
        zg_text_char(text, ':');
        zg_text_json_string(text, copy.value);
        is_first = false;
    }
    if (!is_first) zg_text_char(text, '}');
}
