// Turns fatal errors of the Swift runtime into findings. Signal context; no lock.

#include "faults/swift_abort.h"

#include "platform/os.h"
#include "zombies/classes.h"

enum { STACK_WORDS = 1024, MESSAGE_BYTES = 192 };

// Copy of the aborting thread's stack.
struct stack {
    uint64_t sp, count;
    uint64_t words[STACK_WORDS];
};

static const char *after(const char *text, const char *start) {
    while (*start && *text == *start) text++, start++;
    return *start ? NULL : text;
}

static const char *find_text(const char *text, const char *wanted) {
    for (; *text; text++) {
        const char *end = after(text, wanted);
        if (end) return end;
    }
    return NULL;
}

static uint64_t parse_number(const char *at, uint32_t base) {
    uint64_t value = 0;
    for (;; at++) {
        char c = *at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                                                : 16;
        if (digit >= base) return value;
        value = value * base + digit;
    }
}

// Looks up the object at `address`. It may be freed, or deinitialized while unowned references keep its memory.
static bool find_object(uint64_t address, struct zg_block_view *view) {
    uint64_t metadata;
    if (!address || !zg_lookup_block(address, view)) return false;
    if (view->zombie || zg_os_read_memory(&metadata, view->start, sizeof metadata) != sizeof metadata) return true;
    uint32_t class = zg_class_may_be_pointer(metadata) ? zg_class_number(metadata, zg_language_swift) : 0;
    if (class) view->zombie = ZG_HEADER_SWIFT, view->death.class_number = class;
    return true;
}

// Parses messages of Swift's HeapObject.cpp and RefCount.h.
static bool find_in_message(const char *message, struct zg_finding *finding) {
    struct zg_block_view view;
    const char *text = after(message, "Fatal error: "), *at;
    if (!text) text = message;
    if ((at = after(text, "Attempted to read an unowned reference but object 0x"))) {
        uint64_t object = parse_number(at, 16);
        if (!find_object(object, &view) || view.offset) return false;
        zg_finding_init(finding, zg_finding_use_after_free, ZG_ACCESS(read), object, &view);
        zg_finding_detail_text(finding, "operation", "unowned reference");
        return true;
    }
    if ((at = after(text, "Object 0x"))) {
        // "Object 0x… of class Cart deallocated with non-zero retain count 2. This object's deinit, …"
        uint64_t object = parse_number(at, 16);
        const char *count = find_text(at, " deallocated with non-zero retain count ");
        if (!count || !find_object(object, &view) || view.offset) return false;
        zg_finding_init(finding, zg_finding_use_after_free, ZG_ACCESS(retain), object, &view);
        zg_finding_detail_text(finding, "operation", "escape from deinit");
        // The count includes the reference whose release ran deinit.
        zg_finding_detail_number(finding, "references", parse_number(count, 10) - 1, false);
        return true;
    }
    return false;
}

// Finds a text that the Swift runtime formatted in a stack frame, by the beginning of the text, and copies it. Returns
// the text's address; 0 if there is none. The text may begin at any byte: AArch64 does not align character arrays.
static uint64_t find_on_stack(const struct stack *stack, const char *start, char text[MESSAGE_BYTES + 1]) {
    uint64_t first, here, count = stack->count * sizeof first;
    const char *bytes = (const char *)stack->words;
    __builtin_memcpy(&first, start, sizeof first);
    for (uint64_t i = 0; i + sizeof here <= count; i++) {
        __builtin_memcpy(&here, bytes + i, sizeof here);
        if (here != first) continue;
        uint64_t length = zg_min(MESSAGE_BYTES, count - i);
        __builtin_memcpy(text, bytes + i, length);
        text[length] = 0;
        if (after(text, start)) return stack->sp + i;
    }
    return 0;
}

// Returns the return address of the call that began the earlier access; 0 if not found. The address is in the Swift
// runtime's record for debuggers: text, thread id, number of frames, their address (RuntimeErrorDetails::Thread in
// Runtime/Debug.h).
static uint64_t find_frame(const struct stack *stack, uint64_t text) {
    uint64_t frame;
    for (uint64_t i = 0; i + 3 < stack->count; i++)
        if (stack->words[i] == text && stack->words[i + 2] == 1 &&
            zg_os_read_memory(&frame, stack->words[i + 3], sizeof frame) == sizeof frame)
            return frame;
    return 0;
}

static bool is_modification(const char *text) { return find_text(text, "(a modification)") != NULL; }

// Parses the texts that reportExclusivityConflict (Exclusivity.cpp) leaves on the stack.
static bool find_conflict(const struct stack *stack, struct zg_finding *finding) {
    char text[MESSAGE_BYTES + 1];
    static const char start[] = "Simultaneous accesses to 0x";
    struct zg_block_view view;
    if (!find_on_stack(stack, start, text)) return false;
    uint64_t variable = parse_number(text + sizeof start - 1, 16);
    bool has_block = find_object(variable, &view);
    zg_finding_init(finding, zg_finding_exclusivity, ZG_ACCESS(unknown), variable, has_block ? &view : NULL);
    if (has_block && view.zombie) finding->member_byte = view.offset;
    if (find_on_stack(stack, "Current access (a ", text))
        finding->access = is_modification(text) ? ZG_ACCESS(write) : ZG_ACCESS(read);
    uint64_t previous = find_on_stack(stack, "Previous access (a ", text);
    if (!previous) return true;
    zg_finding_detail_text(finding, "previous", is_modification(text) ? ZG_ACCESS(write) : ZG_ACCESS(read));
    finding->previous_frame = find_frame(stack, previous);
    return true;
}

bool zg_swift_abort_find(uint64_t sp, struct zg_finding *finding) {
    static struct stack stack; // used by one abort at a time
    stack.sp = sp;
    stack.count = zg_os_read_memory(stack.words, sp, sizeof stack.words) / sizeof stack.words[0];
    for (uint64_t i = 0; i < stack.count; i++) {
        struct zg_block_view view;
        char message[MESSAGE_BYTES + 1];
        if (!zg_lookup_block(stack.words[i], &view) || view.offset || view.state != zg_state_live) continue;
        uint64_t got = zg_os_read_memory(message, view.start, zg_min(view.size, MESSAGE_BYTES));
        message[got] = 0;
        if (after(message, "Fatal access conflict detected")) return find_conflict(&stack, finding);
        if (find_in_message(message, finding)) return true;
    }
    return false;
}
