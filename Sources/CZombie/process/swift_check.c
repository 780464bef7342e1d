// Checks the Swift runtime's object layout. Cold; no lock.
// Sources: SwiftShims/RefCount.h and Runtime/HeapObject.h of Swift 5.0 to 6.3, 64 bits.

#define _GNU_SOURCE
#include "process/swift_check.h"

#include "faults/fault.h"
#include "faults/signals.h"
#include "findings/report.h"
#include "images/module.h"
#include "include/zg_program.h"
#include "platform/filter.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "zombies/classes.h"
#include "zombies/count_history.h"

#define UNOWNED_ONE (UINT64_C(1) << 1)
#define STRONG_ONE (UINT64_C(1) << 33)
// Counts of a new object: one strong reference (stored as 0), one unowned reference for all strong references (bit 1),
// and the bit PureSwiftDealloc (bit 0: Swift's own deallocator frees the object).
#define NEW_BITS UINT64_C(3)

void (*zg_swift_check_seen)(void);
static uint32_t checking;

struct object {
    const void *metadata;
    uint64_t bits;
};

struct swift {
    struct object *(*allocate)(const void *metadata, size_t size, size_t alignment_mask);
    void (*deallocate)(struct object *object, size_t size, size_t alignment_mask);
    void *(*retain)(struct object *object);
    void (*release)(struct object *object);
    void *(*unowned_retain)(struct object *object);
    void (*unowned_release)(struct object *object);
    void *(*weak_init)(void *reference, struct object *object);
    void (*weak_destroy)(void *reference);
};

static struct swift swift;
static uint64_t bits_at_destroy;

static void destroy(struct object *object) {
    bits_at_destroy = object->bits;
    swift.deallocate(object, sizeof *object, 7);
}

// Metadata of a heap object that is not a class instance: destructor, value witness table (unused), kind
static const struct {
    void (*destroy)(struct object *);
    const void *values;
    uint64_t kind;
    int32_t offset, reserved;
    const void *captures;
} box = {destroy, NULL, 0x400, 16, 0, NULL};

static bool has_expected_counts(void) {
    struct object *object = swift.allocate(&box.kind, sizeof *object, 7);
    if (!object) return true; // out of memory: nothing contradicts the expected layout
    bool good = object->metadata == &box.kind && object->bits == NEW_BITS;
    if (good) {
        swift.retain(object);
        good = object->bits == NEW_BITS + STRONG_ONE;
        swift.release(object);
        good = good && object->bits == NEW_BITS;
        swift.unowned_retain(object);
        good = good && object->bits == NEW_BITS + UNOWNED_ONE;
        swift.unowned_release(object);
        good = good && object->bits == NEW_BITS;
    }
    if (!good) return false; // leak the object: releasing it is not safe with an unknown layout
    bits_at_destroy = 0;
    swift.release(object);
    return bits_at_destroy == ZG_SWIFT_DEAD_BITS;
}

// Creating a weak reference moves the counts to a side table of three words: object, reserved, counts.
static bool has_expected_side_table(void) {
    struct object *object = swift.allocate(&box.kind, sizeof *object, 7);
    if (!object) return true;
    void *reference[2] = {NULL, NULL};
    swift.weak_init(reference, object);
    uint64_t side[3] = {0, 0, 0}, retained[3] = {0, 0, 0};
    bool good = object->bits >> 62 == 3;
    uint64_t place = object->bits << 3 & ((UINT64_C(1) << 48) - 1);
    good = good && zg_os_read_memory(side, place, sizeof side) == sizeof side && side[0] == (uint64_t)object;
    if (!good) return false;
    swift.retain(object);
    good = good && zg_os_read_memory(retained, place, sizeof retained) == sizeof retained;
    good = good && side[2] == NEW_BITS && retained[2] == NEW_BITS + STRONG_ONE;
    swift.release(object);
    swift.release(object);
    swift.weak_destroy(reference);
    return good && bits_at_destroy >> 62 == 3;
}

static bool find_functions(void) {
    struct {
        void *place;
        const char *name;
    } functions[] = {{&swift.allocate, "swift_allocObject"},
                     {&swift.deallocate, "swift_deallocClassInstance"},
                     {&swift.retain, "swift_retain"},
                     {&swift.release, "swift_release"},
                     {&swift.unowned_retain, "swift_unownedRetain"},
                     {&swift.unowned_release, "swift_unownedRelease"},
                     {&swift.weak_init, "swift_weakInit"},
                     {&swift.weak_destroy, "swift_weakDestroy"}};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(functions); i++) {
        void *function = zg_module_function(functions[i].name);
        if (!function) return false;
        __builtin_memcpy(functions[i].place, &function, sizeof function);
    }
    return true;
}

static void finish_check(bool good) {
    if (!good) {
        static const char message[] = "zguard: warning: unknown object layout in this Swift runtime: "
                                      "Swift classes are not reported\n";
        zg_stats_degrade(zg_degradation_swift_layout);
        zg_report_emit(message, sizeof message - 1);
    }
    if (zg_config.handle_signals) zg_signals_watch_aborts(zg_fault_handler);
    zg_count_history_swift_is_seen();
    if (zg_swift_check_seen) zg_swift_check_seen();
    zg_class_set_swift_layout(good ? zg_swift_expected : zg_swift_unexpected);
}

void zg_swift_check(void) {
    if (__atomic_exchange_n(&checking, 1, __ATOMIC_ACQUIRE)) return;
    // A statically linked Swift runtime exports no functions. Only the metadata of each class is checked then.
    if (!find_functions()) finish_check(true);
    else finish_check(has_expected_counts() && has_expected_side_table());
}

void zg_swift_check_at_start(void) {
    // A program with a statically linked Swift runtime is recognized only by its section names.
    if (!zg_classes_on) return;
    if (zg_module_function("swift_allocObject") || (!zg_filter_in_effect && zg_program_has_swift("/proc/self/exe")))
        zg_swift_check();
}
