// The check of the Swift runtime's object layout accepts the expected layout, and no other.
// preload
// libs: -rdynamic
// warning: unknown object layout in this Swift runtime

// The program itself takes the place of the Swift runtime: it exports the functions that the check calls.

#include "life.h"

#include <dlfcn.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"

enum variant {
    as_expected,
    other_first_bits,
    other_retain_step,
    other_unowned_step,
    other_dead_bits,
    no_side_table,
    side_table_without_object,
    variants
};

struct object {
    const void *metadata;
    uint64_t bits;
};
struct side_table {
    struct object *object;
    uint64_t reserved, bits, weak;
};

static enum variant chosen(void) {
    const char *text = getenv("LAYOUT_VARIANT");
    return text ? (enum variant)atoi(text) : as_expected;
}

static uint64_t *bits_of(struct object *object) {
    if (object->bits >> 62 != 3) return &object->bits;
    return &((struct side_table *)(object->bits << 3 & ((UINT64_C(1) << 48) - 1)))->bits;
}

struct object *swift_allocObject(const void *metadata, size_t size, size_t mask);
struct object *swift_allocObject(const void *metadata, size_t size, size_t mask) {
    (void)mask;
    struct object *object = malloc(size);
    *object = (struct object){metadata, chosen() == other_first_bits ? 5 : 3};
    return object;
}
void swift_deallocClassInstance(struct object *object, size_t size, size_t mask);
void swift_deallocClassInstance(struct object *object, size_t size, size_t mask) {
    (void)size, (void)mask;
    free(object);
}
void *swift_retain(struct object *object);
void *swift_retain(struct object *object) {
    *bits_of(object) += UINT64_C(1) << (chosen() == other_retain_step ? 34 : 33);
    return object;
}
void swift_release(struct object *object);
void swift_release(struct object *object) {
    uint64_t *bits = bits_of(object), step = UINT64_C(1) << (chosen() == other_retain_step ? 34 : 33);
    if (*bits >= step) {
        *bits -= step;
        return;
    }
    *bits = chosen() == other_dead_bits ? 7 : UINT64_C(0x100000003);
    void (*destroy)(struct object *) = *((void (**)(struct object *))object->metadata - 2);
    destroy(object);
}
void *swift_unownedRetain(struct object *object);
void *swift_unownedRetain(struct object *object) {
    *bits_of(object) += chosen() == other_unowned_step ? 4 : 2;
    return object;
}
void swift_unownedRelease(struct object *object);
void swift_unownedRelease(struct object *object) { *bits_of(object) -= chosen() == other_unowned_step ? 4 : 2; }
void *swift_weakInit(void *reference, struct object *object);
void *swift_weakInit(void *reference, struct object *object) {
    struct side_table *side = aligned_alloc(16, sizeof *side);
    *side = (struct side_table){chosen() == side_table_without_object ? NULL : object, 0, object->bits, 1};
    if (chosen() != no_side_table) object->bits = (uint64_t)side >> 3 | UINT64_C(3) << 62;
    *(void **)reference = side;
    return reference;
}
void swift_weakDestroy(void *reference);
void swift_weakDestroy(void *reference) { free(*(void **)reference); }

static int degraded(void) {
    const struct zg_api *(*api)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    return api && api() && api()->statistics->degradations >> zg_degradation_swift_layout & 1;
}

static enum variant next_variant;
static void choose(void) {
    char text[8];
    snprintf(text, sizeof text, "%d", (int)next_variant);
    setenv("LAYOUT_VARIANT", text, 1);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "degraded") == 0) return degraded() ? 1 : 0;
    for (next_variant = as_expected; next_variant < variants; next_variant++) {
        char what[64];
        snprintf(what, sizeof what, "variant %d is told apart", (int)next_variant);
        CHECK_EQUAL(life_run_self("degraded", choose), next_variant == as_expected ? 0 : 1, what);
    }
    return check_end();
}
