// Installs detours in the Swift runtime's reference counting functions and records each change. Hot path if enabled.
// Layout of counts: SwiftShims/RefCount.h of Swift 5.0 to 6.3, 64 bits.

#include "process/count_observer.h"

#include "blocks/lookup.h"
#include "blocks/tags.h"
#include "images/module.h"
#include "images/space.h"
#include "images/symbols.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"
#include "process/detours.h"
#include "process/ready.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/capture.h"
#include "zombies/classes.h"
#include "zombies/count_history.h"
#include "zombies/swift_names.h"

enum { CHOSEN_CHANGES = 32, VERDICTS = 1024, SUPERCLASSES_MOST = 32, NAME_BYTES = 512 };

// All functions by which compiled code and the Swift runtime change counts, except those that only call a listed
// function: their changes are observed in the listed function.
static const struct {
    const char *name;
    enum zg_count_event event;
} functions[] = {
    {"swift_retain", zg_count_event_retain},
    {"swift_release", zg_count_event_release},
    {"swift_retain_n", zg_count_event_retain_n},
    {"swift_release_n", zg_count_event_release_n},
    {"swift_nonatomic_retain", zg_count_event_retain},
    {"swift_nonatomic_release", zg_count_event_release},
    {"swift_nonatomic_retain_n", zg_count_event_retain_n},
    {"swift_nonatomic_release_n", zg_count_event_release_n},
    {"swift_tryRetain", zg_count_event_try_retain},
    {"swift_unownedRetainStrong", zg_count_event_unowned_retain_strong},
    {"swift_unownedRetainStrongAndRelease", zg_count_event_unowned_retain_strong},
    {"swift_deallocClassInstance", zg_count_event_dealloc},
    {"swift_deallocPartialClassInstance", zg_count_event_dealloc},
    {"swift_deallocObject", zg_count_event_dealloc},
    {"swift_deallocBox", zg_count_event_dealloc},
    {"swift_deallocUninitializedObject", zg_count_event_dealloc},
};
enum { FUNCTIONS = ZG_ARRAY_COUNT(functions), NEEDED = 2 }; // the first two functions are required

static bool wants_all; // observe objects of every class
// Cache of classes: the metadata address, with bit 0 set if the class is selected
static uint64_t class_cache[VERDICTS];

// --- the observer ----------------------------------------------------------------------------------------------------

static bool read_word(uint64_t address, uint64_t *word) {
    address = zg_tags_are_on() ? zg_tags_pointer(address) : address;
    if (ZG_LIKELY(zg_unwind_recovers)) return zg_arch_try_read(address, word);
    return zg_os_read_memory(word, address, sizeof *word) == sizeof *word;
}

// Returns whether `wanted` matches `name`: "Shop.Cart<Swift.Int>" is matched by itself, by "Shop.Cart" and by "Cart".
static bool matches_class(const char *name, const char *wanted, uint64_t wanted_length) {
    uint64_t length = 0, plain = 0;
    while (name[length]) length++;
    while (name[plain] && name[plain] != '<') plain++;
    if (length == wanted_length && !__builtin_memcmp(name, wanted, length)) return true;
    if (wanted_length > plain || __builtin_memcmp(name + plain - wanted_length, wanted, wanted_length)) return false;
    return plain == wanted_length || name[plain - wanted_length - 1] == '.';
}

static bool is_selected_name(const char *name) {
    for (const char *at = zg_config.trace_class; *at;) {
        while (*at == ',' || *at == ' ') at++;
        uint64_t length = 0;
        int depth = 0;
        // Commas inside generic arguments are part of a name.
        for (; at[length] && (depth || at[length] != ','); length++) {
            if (at[length] == '<') depth++;
            if (at[length] == '>') depth--;
        }
        uint64_t trimmed = length;
        while (trimmed && at[trimmed - 1] == ' ') trimmed--;
        if (trimmed && matches_class(name, at, trimmed)) return true;
        at += length;
    }
    return false;
}

// Returns whether the class or one of its superclasses is listed in trace_class. Caches the answer.
static ZG_COLD bool look_at_class(uint64_t metadata) {
    uint64_t class = metadata;
    bool is_chosen = false;
    for (int i = 0; i < SUPERCLASSES_MOST && !is_chosen && zg_class_may_be_pointer(class); i++) {
        char bytes[NAME_BYTES];
        struct zg_text name;
        zg_text_init(&name, bytes, sizeof bytes);
        if (!zg_class_is_swift(&zg_space_own, class)) break;
        is_chosen = zg_swift_class_name(&zg_space_own, class, &name) && is_selected_name(bytes);
        if (!read_word(class + 8, &class)) break;
    }
    zg_store(&class_cache[zg_class_place(metadata) % VERDICTS], metadata | is_chosen);
    return is_chosen;
}

static bool is_chosen(uint64_t metadata) {
    uint64_t verdict = zg_load(&class_cache[zg_class_place(metadata) % VERDICTS]);
    if (ZG_LIKELY((verdict & ~UINT64_C(1)) == metadata)) return verdict & 1;
    return zg_class_may_be_pointer(metadata) && look_at_class(metadata);
}

// Returns an object's count bits, from its side table if it has one. 0 if unreadable.
static uint64_t counts_of(uint64_t object) {
    uint64_t bits;
    if (!read_word(object + 8, &bits)) return 0;
    if (bits >> 62 != 3) return bits;
    return read_word((bits << 3 & ((UINT64_C(1) << 48) - 1)) + 16, &bits) ? bits : 0;
}

// Records one change. Returns true if several threads, including the one that allocated the object, have used it.
static bool note(struct zg_thread *thread, uint64_t object, enum zg_count_event event) {
    struct zg_block_view view;
    uint64_t metadata;
    if (!zg_lookup_block(object, &view) || view.offset || view.state != zg_state_live || view.size < 16) return false;
    if (!read_word(object, &metadata)) return false;
    bool is_kept = wants_all || (zg_config.trace_class[0] && is_chosen(metadata));
    if (!is_kept && !zg_config.race_delay) return false;
    uint64_t counts = counts_of(object), strong = (counts >> 33 & 0x3fffffff) + 1;
    if ((uint32_t)counts == UINT32_MAX) return false; // the object is immortal
    if (event == zg_count_event_dealloc || !counts) strong = 0;
    struct zg_count_change change = {is_kept ? zg_capture(thread, false) & ~ZG_STACK_ISOLATE : 0,
                                     thread->number_in_records, (uint16_t)(event | zg_min(strong, ZG_COUNT_MOST) << 4)};
    // Between an object's last release and its deallocation, the address still belongs to that object: do not take the
    // change for the first one of a new object.
    bool is_ending = !counts || counts >> 32 & 1;
    return zg_count_history_add(object, metadata, change, !is_ending && event != zg_count_event_dealloc,
                                (uint16_t)view.alloc_thread);
}

// Delays a thread before it retains: it has loaded the reference, and until it changes the count another thread may
// release the object. On average a thread waits for at most a quarter of its time.
static ZG_COLD void wait_for_races(struct zg_thread *thread) {
    static uint64_t random;
    uint32_t word = 0;
    uint64_t since = zg_arch_ticks();
    if (since < thread->waits_after) return;
    zg_os_futex_wait(&word, 0, true, (int64_t)zg_config.race_delay * 1000);
    uint64_t now = zg_arch_ticks();
    thread->waits_after = now + (now - since) * (1 + zg_random(&random) % 5);
}

// Swift tags bridged references in the highest and lowest bits. References with the top bit set are not counted.
#define OBJECT_BITS UINT64_C(0x00fffffffffffff8)

static void observe(uint64_t object, uint64_t event, const uint64_t *frame) {
    if ((int64_t)object <= 0) return;
    object &= OBJECT_BITS;
    if (zg_lookup_is_foreign(object)) return;
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    bool may_race = note(thread, object, (enum zg_count_event)event) && zg_config.race_delay;
    zg_thread_leave(thread);
    if (ZG_UNLIKELY(may_race)) wait_for_races(thread);
}

// --- the detours -----------------------------------------------------------------------------------------------------

static bool find_functions(uint64_t addresses[FUNCTIONS]) {
    const char *names[FUNCTIONS];
    bool found = true;
    for (uint64_t i = 0; i < FUNCTIONS; i++) {
        names[i] = functions[i].name;
        addresses[i] = (uint64_t)zg_module_function(names[i]);
        if (i < NEEDED && !addresses[i]) found = false;
    }
    if (!found && !zg_symbols_of_program(ZG_SYMBOLS_SWIFT, names, addresses, FUNCTIONS)) return false;
    return addresses[0] && addresses[1];
}

static bool install(const uint64_t addresses[FUNCTIONS]) {
    struct zg_detour detours[FUNCTIONS];
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        detours[i] = (struct zg_detour){addresses[i], (uint32_t)functions[i].event, i < NEEDED};
    return zg_detours_install(detours, FUNCTIONS, observe);
}

void zg_count_observer_start(void) {
    uint64_t addresses[FUNCTIONS];
    uint32_t changes = (uint32_t)zg_config.history_per_object;
    wants_all = changes != 0;
    if (!changes && zg_config.trace_class[0]) changes = CHOSEN_CHANGES;
    if (!changes && zg_config.race_delay) changes = 1;
    if (!changes || !zg_classes_on || !zg_ready()) return;
    if (!find_functions(addresses)) zg_count_history_miss(false);
    else if (!zg_detours_are_possible() || !zg_count_history_init(changes) || !install(addresses))
        zg_count_history_miss(true);
}
