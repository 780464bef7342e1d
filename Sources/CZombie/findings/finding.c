// Initializes and fills the record of a finding. Cold, any context; stateless.

#include "findings/finding.h"

static const struct {
    const char *name;
    bool fatal;
} kinds[zg_finding_kind_count] = {
#define ZG_X(name, text, fatal, ...) {text, fatal},
    ZG_FINDING_KINDS(ZG_X)
#undef ZG_X
};

const char *zg_finding_kind_name(enum zg_finding_kind kind) { return kinds[kind].name; }

void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text) {
    if (finding->detail_count == ZG_FINDING_DETAILS) return;
    finding->details[finding->detail_count].name = name;
    finding->details[finding->detail_count++].text = text;
}

void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex) {
    if (finding->detail_count == ZG_FINDING_DETAILS) return;
    finding->details[finding->detail_count].name = name;
    finding->details[finding->detail_count].text = NULL;
    finding->details[finding->detail_count].number = number;
    finding->details[finding->detail_count++].hex = hex;
}

void zg_finding_init(struct zg_finding *finding, enum zg_finding_kind kind, const char *access, uint64_t address,
                     const struct zg_block_view *view) {
    finding->kind = kind;
    finding->access = access;
    finding->confidence = ZG_CONFIDENCE(exact);
    finding->fatal = kinds[kind].fatal;
    finding->address = address;
    finding->is_reported_later = false;
    finding->repeats = 0;
    finding->thread_tid = 0;
    finding->thread_number = 0;
    finding->has_block = view != NULL;
    if (view) finding->block = *view;
    finding->member_code = finding->member_class = 0;
    finding->member_byte = -1;
    finding->member_field = 0;
    finding->next_count = 0;
    finding->previous_frame = 0;
    finding->registers = NULL;
    finding->signal_stack = finding->signal_stack_bytes = 0;
    finding->search = 0;
    finding->crash = NULL;
    finding->access_count = 0;
    finding->detail_count = 0;
}
