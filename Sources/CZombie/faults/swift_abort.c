// Fatal errors of the Swift runtime. Signal context; no lock.

#include "faults/swift_abort.h"

#include "platform/os.h"
#include "zombies/classes.h"

enum { STACK_WORDS = 1024, MESSAGE_BYTES = 192 };

// Beginnings of messages (Runtime: HeapObject.cpp, RefCount.h of Swift 5 and 6), and what they mean. The object's address
// follows in the message.
static const struct {
    const char *text;
    enum zg_access access;
    const char *operation;
} messages[] = {
    {"Attempted to read an unowned reference but object 0x", zg_access_read, "unowned reference"},
    {"Object 0x", zg_access_retain, "escape from deinit"},
};

static const char *after(const char *text, const char *start) {
    while (*start && *text == *start) text++, start++;
    return *start ? NULL : text;
}

static uint64_t parse_address(const char *at) {
    uint64_t value = 0;
    for (;; at++) {
        char c = *at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                                                : 16;
        if (digit == 16) return value;
        value = value << 4 | digit;
    }
}

static bool find_in_message(const char *message, struct zg_finding *finding) {
    const char *text = after(message, "Fatal error: ");
    if (!text) text = message;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(messages); i++) {
        const char *address = after(text, messages[i].text);
        struct zg_block_view view;
        uint64_t object = address ? parse_address(address) : 0, metadata;
        if (!object || !zg_lookup_block(object, &view) || view.offset) continue;
        if (!view.zombie && zg_os_read_memory(&metadata, object, sizeof metadata) == sizeof metadata) {
            // deinit has run, but the memory stays as long as unowned references exist: the object is whole.
            uint32_t class = zg_class_may_be_pointer(metadata) ? zg_class_number(metadata, zg_language_swift) : 0;
            if (class) view.zombie = ZG_HEADER_SWIFT, view.death.class_number = class;
        }
        while (*address && *address != ' ') address++;
        if (i == 1 && !after(address, " deallocated with ")) continue;
        zg_finding_init(finding, zg_finding_use_after_free, zg_access_name(messages[i].access), object, &view);
        zg_finding_detail_text(finding, "operation", messages[i].operation);
        return true;
    }
    return false;
}

bool zg_swift_abort_find(uint64_t sp, struct zg_finding *finding) {
    static uint64_t stack[STACK_WORDS]; // one abort at a time
    uint64_t count = zg_os_read_memory(stack, sp, sizeof stack) / sizeof stack[0];
    for (uint64_t i = 0; i < count; i++) {
        struct zg_block_view view;
        char message[MESSAGE_BYTES + 1];
        if (!zg_lookup_block(stack[i], &view) || view.offset || view.state != zg_state_live) continue;
        uint64_t got = zg_os_read_memory(message, view.start, zg_min(view.size, MESSAGE_BYTES));
        message[got] = 0;
        if (find_in_message(message, finding)) return true;
    }
    return false;
}
