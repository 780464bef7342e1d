// Writes a finding as a JSON line, and a block as a JSON object.
// Cold and signal context; takes no lock.

#define _GNU_SOURCE
#include "findings/report.h"

#include <time.h>

#include "findings/crash.h"
#include "findings/report_forms.h"
#include "images/space.h"
#include "platform/os.h"
#include "threads/thread.h"
#include "stacks/depot.h"
#include "zombies/classes.h"
#include "findings/describe.h"
#include "zombies/count_history.h"
#include "zombies/swift_names.h"
#include "zombies/zombie.h"

static void put_time(struct zg_text *text) {
    uint64_t now = zg_os_clock_ns(CLOCK_REALTIME), seconds = now / 1000000000u, days = seconds / 86400;
    uint64_t left = seconds % 86400;
    // Converts days to a civil date, in eras of 400 years that begin on 1 March (proleptic Gregorian calendar).
    uint64_t shifted = days + 719468, era = shifted / 146097, day_of_era = shifted % 146097;
    uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t shifted_month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    uint64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
    uint64_t parts[] = {month, day, left / 3600, left / 60 % 60, left % 60, now / 1000000 % 1000};
    static const char before[] = "--T::.";
    zg_text_padded(text, year_of_era + era * 400 + (month <= 2), 4);
    for (int i = 0; i < 6; i++) {
        zg_text_char(text, before[i]);
        zg_text_padded(text, parts[i], i == 5 ? 3 : 2);
    }
    zg_text_char(text, 'Z');
}

static void put_key(struct zg_text *text, const char *name) {
    zg_text_char(text, ',');
    zg_text_json_string(text, name);
    zg_text_char(text, ':');
}
static void put_string(struct zg_text *text, const char *name, const char *value) {
    put_key(text, name);
    zg_text_json_string(text, value);
}
static void put_decimal(struct zg_text *text, const char *name, uint64_t value) {
    put_key(text, name);
    zg_text_decimal(text, value);
}
static void put_hex(struct zg_text *text, const char *name, uint64_t value) {
    put_key(text, name);
    zg_text_json_hex(text, value);
}

// Subtract 1 from a return address to get an address within the call instruction.
static void put_frame(struct zg_text *text, uint64_t frame, bool is_past) {
    uint64_t pc = frame - 1;
    struct zg_module module;
    zg_text_string(text, "{\"pc\":");
    zg_text_json_hex(text, pc);
    if (zg_report_find_image(pc, is_past, &module)) {
        put_string(text, "module", module.path);
        zg_text_string(text, ",\"build_id\":\"");
        zg_text_hex_bytes(text, module.build_id, zg_min(module.build_id_bytes, 32));
        zg_text_char(text, '"');
        put_hex(text, "offset", pc - module.bias);
    }
    zg_text_char(text, '}');
}

static void put_frames(struct zg_text *text, const uint64_t *frames, int count, bool is_past) {
    zg_text_char(text, '[');
    for (int i = 0; i < count; i++) {
        if (i) zg_text_char(text, ',');
        put_frame(text, frames[i], is_past);
    }
    zg_text_char(text, ']');
}

static void put_stack(struct zg_text *text, const char *name, const uint64_t *frames, int count, bool is_past) {
    zg_text_json_string(text, name);
    zg_text_char(text, ':');
    put_frames(text, frames, count, is_past);
}

static void put_depot_stack(struct zg_text *text, const char *name, uint32_t stack) {
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    put_stack(text, name, frames, zg_depot_get(stack, frames, ZG_STACK_MAX_DEPTH), true);
}

// Writes the class of an object: a Swift name if it is readable, or the mangled C++ name, which zguard demangles later.
static void put_class(struct zg_text *text, uint32_t class_number) {
    struct zg_class class = zg_class_get(class_number);
    char bytes[512];
    put_string(text, "language", zg_block_language_text(class.language));
    if (class.language == zg_language_swift) {
        struct zg_text name;
        zg_text_init(&name, bytes, sizeof bytes);
        if (zg_swift_class_name(&zg_space_own, class.pointer, &name) && !name.truncated)
            put_string(text, "class", bytes);
    } else if (class.language == zg_language_cxx) {
        static const char prefix[] = "_ZTS"; // symbol prefix of the type info's name
        zg_string_copy(bytes, prefix, sizeof bytes);
        if (zg_class_cxx_name(&zg_space_own, class.pointer, bytes + 4, sizeof bytes - 4))
            put_string(text, "class_symbol", bytes);
    }
}

// Returns the class number of a live object, read from the object itself; 0 if it is not a Swift object.
static uint32_t live_class(const struct zg_block_view *block) {
    uint64_t pointer;
    if (!zg_classes_on || block->state != zg_state_live || block->size < 16) return 0;
    if (zg_os_read_memory(&pointer, block->start, sizeof pointer) != sizeof pointer) return 0;
    return zg_class_may_be_pointer(pointer) ? zg_class_number(pointer, zg_language_swift) : 0;
}

// Writes the object's next uses in the code, and its superclasses, to which the methods used may belong.
static void put_next(struct zg_text *text, const struct zg_finding *finding) {
    enum { LEVELS = 8 };
    char bytes[256];
    struct zg_text name;
    zg_text_string(text, ",\"next\":[");
    for (int i = 0; i < finding->next_count; i++) {
        const struct zg_lookahead_use *use = &finding->next[i];
        zg_text_init(&name, bytes, sizeof bytes);
        // Without the property's name, later uses of the object must not be reported as its first use.
        if (!use->is_call && !zg_describe_property(finding, use->byte, &name)) break;
        if (i) zg_text_char(text, ',');
        zg_text_string(text, use->is_call    ? "{\"access\":\"call\""
                             : use->is_write ? "{\"access\":\"write\""
                                             : "{\"access\":\"read\"");
        if (!use->is_call) {
            put_string(text, "member", bytes);
        } else if (use->code) {
            put_key(text, "member_frame");
            put_frame(text, use->code + 1, false);
        } else {
            put_string(text, "member_symbol", use->symbol);
        }
        if (use->is_doubtful) put_string(text, "confidence", ZG_CONFIDENCE(inferred));
        zg_text_char(text, '}');
    }
    zg_text_char(text, ']');
    zg_text_string(text, ",\"bases\":[");
    for (int level = 1, count = 0; level <= LEVELS; level++) {
        zg_text_init(&name, bytes, sizeof bytes);
        if (!zg_describe_class(finding, level, &name)) break;
        if (count++) zg_text_char(text, ',');
        zg_text_json_string(text, bytes);
    }
    zg_text_char(text, ']');
}

// Writes "block":{…}. The member is taken from `finding`, or if that is NULL, it is the property at the block's offset.
static void put_block(struct zg_text *text, const struct zg_block_view *block, const struct zg_finding *finding) {
    zg_text_string(text, "\"block\":{\"start\":");
    zg_text_json_hex(text, block->start);
    put_decimal(text, "size", block->size);
    put_key(text, "offset");
    zg_text_signed(text, block->offset);
    put_string(text, "state", zg_lookup_state_name(block->state));
    uint32_t class_number = block->zombie ? block->death.class_number : finding ? 0 : live_class(block);
    put_class(text, class_number);
    struct zg_class class = zg_class_get(class_number);
    char bytes[256];
    struct zg_text member;
    zg_text_init(&member, bytes, sizeof bytes);
    if (finding && block->zombie && zg_describe_member(finding, &member)) put_string(text, "member", bytes);
    if (!finding && class.language == zg_language_swift && block->offset >= 0 &&
        zg_swift_property_at(&zg_space_own, class.pointer, (uint64_t)block->offset, &member))
        put_string(text, "member", bytes);
    if (finding && finding->member_code) {
        put_key(text, "member_frame");
        put_frame(text, finding->member_code + 1, false);
    }
    if (finding && finding->next_count) put_next(text, finding);
    put_decimal(text, "alloc_thread", block->alloc_thread);
    if (block->free_thread) put_decimal(text, "free_thread", block->free_thread);
    if (!finding && block->zombie) put_decimal(text, "free_time_ns", zg_zombie_time_ns(&block->death));
    zg_text_char(text, '}');
}

// Writes "history":[…], the object's retains and releases, newest first, as many as fit into the line.
static void put_history(struct zg_text *text, const struct zg_block_view *block) {
    enum { DEPTH_MOST = 16, LEFT_LEAST = 16 << 10 };
    // An earlier object at the same address may have a history, too; the class distinguishes the two.
    struct zg_class class = zg_class_get(block->zombie ? block->death.class_number : live_class(block));
    if (class.language != zg_language_swift) return;
    const struct zg_count_entry *entry = zg_count_history_find(block->start, class.pointer);
    struct zg_count_change change;
    bool is_first = true;
    for (uint32_t age = 0; entry && zg_count_history_get(entry, age, &change); age++) {
        uint64_t frames[DEPTH_MOST];
        if (text->capacity - text->count < LEFT_LEAST) break;
        if (!change.stack) continue;
        if (is_first) put_key(text, "history");
        zg_text_string(text, is_first ? "[{\"event\":" : ",{\"event\":");
        zg_text_json_string(text, zg_count_event_text(change.what & 0xf));
        if (change.what >> 4) put_decimal(text, "strong", change.what >> 4);
        put_decimal(text, "thread", change.thread);
        zg_text_char(text, ',');
        put_stack(text, "stack", frames, zg_depot_get(change.stack, frames, DEPTH_MOST), true);
        zg_text_char(text, '}');
        is_first = false;
    }
    if (!is_first) zg_text_char(text, ']');
}

void zg_report_put_json(struct zg_text *text, const struct zg_finding *finding) {
    char name[16];
    zg_text_string(text, "{\"schema\":\"zguard.finding/1\"");
    put_string(text, "kind", zg_finding_kind_name(finding->kind));
    put_string(text, "access", finding->access);
    put_string(text, "confidence", finding->confidence);
    put_hex(text, "address", finding->address);
    if (finding->has_block) {
        zg_text_char(text, ',');
        put_block(text, &finding->block, finding);
    }
    bool is_own = !finding->thread_tid || finding->thread_tid == zg_os_tid();
    name[0] = 0;
    if (is_own) zg_os_thread_name(name);
    zg_text_string(text, ",\"thread\":{\"id\":");
    zg_text_decimal(text, is_own ? zg_thread_number() : finding->thread_number);
    put_string(text, "name", name);
    zg_text_string(text, "},\"stacks\":{");
    put_stack(text, "access", finding->access_stack, finding->access_count, false);
    zg_text_char(text, ',');
    put_depot_stack(text, "free", finding->has_block ? finding->block.free_stack : 0);
    zg_text_char(text, ',');
    put_depot_stack(text, "alloc", finding->has_block ? finding->block.alloc_stack : 0);
    if (finding->previous_frame) {
        zg_text_char(text, ',');
        put_stack(text, "previous", &finding->previous_frame, 1, false);
    }
    if (finding->crash && finding->crash->thrown_stack) {
        zg_text_char(text, ',');
        put_depot_stack(text, "thrown", finding->crash->thrown_stack);
    }
    zg_text_string(text, "},\"detail\":{");
    for (int i = 0; i < finding->detail_count; i++) {
        if (i) zg_text_char(text, ',');
        zg_text_json_string(text, finding->details[i].name);
        zg_text_char(text, ':');
        if (finding->details[i].text) {
            zg_text_json_string(text, finding->details[i].text);
        } else {
            zg_text_char(text, '"');
            if (finding->details[i].hex) zg_text_hex(text, finding->details[i].number);
            else zg_text_signed(text, (int64_t)finding->details[i].number);
            zg_text_char(text, '"');
        }
    }
    zg_text_char(text, '}');
    if (finding->search) put_hex(text, "search", finding->search);
    if (finding->crash) zg_crash_put_json(text, finding->crash);
    if (finding->has_block) put_history(text, &finding->block);
    put_decimal(text, "count", finding->repeats ? finding->repeats : 1);
    if (finding->repeats) zg_text_string(text, ",\"again\":true");
    put_decimal(text, "pid", (uint64_t)zg_os_pid());
    put_string(text, "program", zg_module_executed_path());
    zg_text_string(text, ",\"time\":\"");
    put_time(text);
    zg_text_string(text, "\",\"signature\":\"\"}\n");
}

bool zg_report_describe(uint64_t address, struct zg_text *text) {
    struct zg_block_view view;
    if (!zg_lookup_block(address, &view)) return false;
    zg_text_char(text, '{');
    put_block(text, &view, NULL);
    zg_text_string(text, ",\"stacks\":{");
    put_depot_stack(text, "free", view.free_stack);
    zg_text_char(text, ',');
    put_depot_stack(text, "alloc", view.alloc_stack);
    zg_text_char(text, '}');
    put_history(text, &view);
    zg_text_char(text, '}');
    return true;
}

void zg_report_describe_stack(const uint64_t *frames, int count, struct zg_text *text) {
    put_frames(text, frames, count, false);
}
