// Writes a finding as text: one line with everything essential, then the stacks if the program does not continue or the
// options ask for them.
// Cold and signal context; takes no lock.

#include "findings/report_forms.h"
#include "findings/crash.h"
#include "images/space.h"
#include "platform/os.h"
#include "settings/config.h"
#include "stacks/depot.h"
#include "zombies/classes.h"
#include "findings/describe.h"
#include "zombies/swift_names.h"

static void put_stack(struct zg_text *text, const char *title, const uint64_t *frames, int count, bool is_past) {
    if (!count) return;
    zg_text_string(text, title);
    for (int i = 0; i < count; i++) {
        struct zg_module module;
        zg_text_string(text, "    #");
        zg_text_decimal(text, (uint64_t)i);
        zg_text_char(text, ' ');
        if (zg_report_find_image(frames[i] - 1, is_past, &module)) {
            zg_text_string(text, module.path);
            zg_text_char(text, '+');
            zg_text_hex(text, frames[i] - 1 - module.bias);
        } else {
            zg_text_hex(text, frames[i] - 1);
        }
        zg_text_char(text, '\n');
    }
}

static void put_depot_stack(struct zg_text *text, const char *title, uint32_t stack) {
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    put_stack(text, title, frames, zg_depot_get(stack, frames, ZG_STACK_MAX_DEPTH), true);
}

static void put_class(struct zg_text *text, const struct zg_finding *finding) {
    struct zg_class class = zg_class_get(finding->block.zombie ? finding->block.death.class_number : 0);
    if (class.language != zg_language_swift) return;
    zg_text_string(text, ", formerly an object of class ");
    zg_swift_class_name(&zg_space_own, class.pointer, text);
    char bytes[256];
    struct zg_text member;
    zg_text_init(&member, bytes, sizeof bytes);
    if (!zg_describe_member(finding, &member)) return;
    zg_text_string(text, ", property ");
    zg_text_string(text, bytes);
}

// Returns whether the program is expected to survive the finding: with on_finding=continue, if the block is known, so
// that its contents can be restored, and the Swift runtime has not decided to abort.
static bool goes_on(const struct zg_finding *finding) {
    if (zg_config.on_finding != zg_on_finding_continue || !finding->has_block) return false;
    for (int i = 0; i < finding->detail_count; i++)
        if (finding->details[i].text && zg_string_equal(finding->details[i].text, "SIGABRT")) return false;
    return true;
}

void zg_report_put_repeats(struct zg_text *text, const struct zg_finding *finding) {
    zg_text_string(text, "zguard: the same ");
    zg_text_string(text, zg_finding_kind_name(finding->kind));
    zg_text_string(text, " occurred ");
    zg_text_decimal(text, finding->repeats);
    zg_text_string(text, finding->repeats == 1 ? " more time, at " : " more times, first at ");
    zg_text_hex(text, finding->address);
    zg_text_string(text, " [pid ");
    zg_text_decimal(text, (uint64_t)zg_os_pid());
    zg_text_string(text, "]\n");
}

static void put_access(struct zg_text *text, const struct zg_finding *finding) {
    zg_text_string(text, " (");
    zg_text_string(text, finding->access);
    zg_text_string(text, ", ");
    zg_text_string(text, finding->confidence);
    zg_text_string(text, ") at ");
    zg_text_hex(text, finding->address);
    if (finding->has_block) {
        zg_text_string(text, ", offset ");
        zg_text_signed(text, finding->block.offset);
        zg_text_string(text, " of a ");
        zg_text_string(text, zg_lookup_state_name(finding->block.state));
        zg_text_string(text, " block of ");
        zg_text_decimal(text, finding->block.size);
        zg_text_string(text, " bytes");
        put_class(text, finding);
    }
}

static void put_details(struct zg_text *text, const struct zg_finding *finding) {
    for (int i = 0; i < finding->detail_count; i++) {
        zg_text_string(text, ", ");
        zg_text_string(text, finding->details[i].name);
        zg_text_char(text, ' ');
        if (finding->details[i].text) zg_text_string(text, finding->details[i].text);
        else if (finding->details[i].hex) zg_text_hex(text, finding->details[i].number);
        else zg_text_signed(text, (int64_t)finding->details[i].number);
    }
}

// Writes the signal and message, such as ": SIGABRT: free(): invalid pointer".
static void put_crash(struct zg_text *text, const struct zg_crash *crash) {
    zg_text_string(text, ": ");
    if (crash->signal) {
        zg_text_string(text, zg_crash_signal_name(crash->signal));
    } else {
        zg_text_string(text, "status ");
        zg_text_decimal(text, (uint64_t)crash->status);
    }
    if (!crash->message) return;
    zg_text_string(text, ": ");
    zg_text_visible(text, crash->message);
}

void zg_report_put_text(struct zg_text *text, const struct zg_finding *finding) {
    zg_text_string(text, "==zguard== ");
    zg_text_string(text, zg_finding_kind_name(finding->kind));
    if (finding->crash && finding->kind == zg_finding_crash) {
        put_crash(text, finding->crash);
    } else {
        put_access(text, finding);
    }
    put_details(text, finding);
    zg_text_string(text, " [pid ");
    zg_text_decimal(text, (uint64_t)zg_os_pid());
    zg_text_string(text, "]\n");
    if (!zg_report_is_shortened(finding)) zg_report_put_stacks(text, finding);
}

bool zg_report_is_shortened(const struct zg_finding *finding) {
    return zg_config.error_text != zg_error_text_full && goes_on(finding);
}

void zg_report_put_stacks(struct zg_text *text, const struct zg_finding *finding) {
    put_stack(text, "  access:\n", finding->access_stack, finding->access_count, false);
    if (finding->previous_frame) put_stack(text, "  previous access:\n", &finding->previous_frame, 1, false);
    if (finding->crash) put_depot_stack(text, "  thrown:\n", finding->crash->thrown_stack);
    if (finding->has_block) {
        put_depot_stack(text, "  freed:\n", finding->block.free_stack);
        put_depot_stack(text, "  allocated:\n", finding->block.alloc_stack);
    }
    zg_text_string(text, "==zguard== for function names, run the program with 'zguard run'\n");
}
