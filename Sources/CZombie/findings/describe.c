// Finds class, method and property for a trap word. Cold, any context; no lock.

#include "findings/describe.h"

#include "images/space.h"
#include "platform/os.h"
#include "zombies/classes.h"

static void describe_swift_slot(struct zg_finding *finding, uint64_t metadata, int64_t offset) {
    struct zg_swift_slot slot = zg_swift_slot_at(&zg_space_own, metadata, offset);
    finding->access = zg_swift_part_access(slot.part);
    if (slot.part == zg_swift_part_method) {
        finding->member_code = slot.code;
        zg_finding_detail_number(finding, "slot", (uint64_t)offset / 8, false);
    }
    if (slot.part == zg_swift_part_field_offset) {
        finding->member_class = slot.class_metadata;
        finding->member_field = slot.field;
    }
}

static void describe_cxx_slot(struct zg_finding *finding, uint64_t table, int64_t offset) {
    finding->access = zg_class_cxx_access(offset);
    if (offset < 0) return;
    uint64_t code;
    if (zg_os_read_memory(&code, table + (uint64_t)offset, sizeof code) == sizeof code) finding->member_code = code;
    zg_finding_detail_number(finding, "slot", (uint64_t)offset / 8, false);
}

void zg_describe_trap(struct zg_finding *finding, const struct zg_zombie_hit *hit) {
    static const char *const parts[] = {"", "class pointer", "reference count", "contents"};
    zg_finding_detail_text(finding, "part", parts[hit->part]);
    struct zg_class class = zg_class_get(hit->has_block ? hit->block.death.class_number : 0);
    switch (hit->part) {
    case zg_trap_isa:
        if (class.language == zg_language_swift) describe_swift_slot(finding, class.pointer, hit->offset);
        else if (class.language == zg_language_cxx) describe_cxx_slot(finding, class.pointer, hit->offset);
        else finding->access = ZG_ACCESS(unknown);
        zg_finding_detail_number(finding, "metadata_offset", (uint64_t)hit->offset, false);
        break;
    case zg_trap_side: finding->access = ZG_ACCESS(unknown); break;
    case zg_trap_word:
        if (!hit->has_block) break;
        finding->member_byte = (int64_t)hit->byte;
        zg_finding_detail_number(finding, "offset", hit->byte, false);
        if (finding->access[0] == 'u') finding->access = ZG_ACCESS(read);
        break;
    case zg_trap_none: break;
    }
}

void zg_describe_neighbours(struct zg_finding *finding, const struct zg_block_view *before,
                            const struct zg_block_view *after) {
    if (before) {
        zg_finding_detail_number(finding, "before", before->start, true);
        zg_finding_detail_number(finding, "before_size", before->size, false);
        zg_finding_detail_text(finding, "before_state", zg_lookup_state_name(before->state));
    }
    if (after) {
        zg_finding_detail_number(finding, "after", after->start, true);
        zg_finding_detail_number(finding, "after_size", after->size, false);
        zg_finding_detail_text(finding, "after_state", zg_lookup_state_name(after->state));
    }
}

bool zg_describe_member(const struct zg_finding *finding, struct zg_text *text) {
    struct zg_class class = zg_class_get(finding->has_block ? finding->block.death.class_number : 0);
    if (class.language != zg_language_swift) return false;
    if (finding->member_class)
        return zg_swift_field_name(&zg_space_own, finding->member_class, finding->member_field, text);
    return finding->member_byte >= 0 &&
           zg_swift_property_at(&zg_space_own, class.pointer, (uint64_t)finding->member_byte, text);
}

bool zg_describe_property(const struct zg_finding *finding, uint64_t byte, struct zg_text *text) {
    struct zg_class class = zg_class_get(finding->has_block ? finding->block.death.class_number : 0);
    return class.language == zg_language_swift && zg_swift_property_at(&zg_space_own, class.pointer, byte, text);
}

bool zg_describe_class(const struct zg_finding *finding, int level, struct zg_text *text) {
    struct zg_class class = zg_class_get(finding->has_block ? finding->block.death.class_number : 0);
    if (class.language != zg_language_swift) return false;
    uint64_t metadata = class.pointer;
    for (; level > 0; level--) {
        uint64_t words[2]; // the metadata kind (0 for a class), and the superclass
        if (zg_os_read_memory(words, metadata, sizeof words) != sizeof words || words[0] || !words[1]) return false;
        metadata = words[1];
    }
    return zg_class_is_swift(&zg_space_own, metadata) && zg_swift_class_name(&zg_space_own, metadata, text);
}
