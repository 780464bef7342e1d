// The report writer. A line goes out with one write call where the kernel takes it whole, otherwise piece by piece. One that
// could be written in part only is ended before the next one begins; its finding is then a text on standard error, or lost and
// counted.
// Cold and signal context; one lock, the last in rank.

#define _GNU_SOURCE
#include "findings/report.h"

#include <errno.h>
#include <time.h>

#include "findings/journal.h"
#include "images/gone.h"
#include "images/space.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "platform/text.h"
#include "threads/thread.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "zombies/classes.h"
#include "findings/describe.h"
#include "zombies/swift_names.h"
#include "zombies/zombie.h"

static struct zg_lock report_lock;
static int lock_owner; // thread id: a fault while a report is written must not wait for itself
// What was opened, and as which file: a number may be another file by now, one of the program's.
struct output {
    int descriptor; // -1: none
    uint64_t device, inode;
    bool is_cut; // what was written last is a part of a line
};
static struct output report_output = {.descriptor = -1}, error_output = {.descriptor = -1};
static struct output standard_error = {.descriptor = -1}; // number 2, as it was at the start
static char line[128 << 10]; // begins with the end of the line before
#define LONGEST_WAIT_NS INT64_C(10000000000)

static bool path_names_process(void) {
    for (const char *at = zg_config.report_path; *at; at++)
        if (at[0] == '%' && at[1] == 'p') return true;
    return false;
}

static void expand_path(struct zg_text *path) {
    for (const char *at = zg_config.report_path; *at; at++) {
        if (at[0] == '%' && at[1] == 'p') {
            zg_text_decimal(path, (uint64_t)zg_os_pid());
            at++;
        } else {
            zg_text_char(path, *at);
        }
    }
}

// Opened anew where the program closed it (daemons close all descriptors). The lowest free number, which is the program's.
static int open_path(void) {
    char bytes[ZG_OPTION_PATH_BYTES + 32];
    struct zg_text path;
    zg_text_init(&path, bytes, sizeof bytes);
    expand_path(&path);
    return zg_os_open_append(bytes);
}

static struct output output_of(int opened) {
    struct output output = {.descriptor = opened};
    if (opened >= 0 && !zg_os_identify(opened, &output.device, &output.inode)) {
        zg_os_close(opened);
        output.descriptor = -1;
    }
    return output;
}

static struct output output_out_of_the_way(int opened) { return output_of(opened < 0 ? opened : zg_os_hide_descriptor(opened)); }

static bool is_same(const struct output *output) {
    uint64_t device, inode;
    return output->descriptor >= 0 && zg_os_identify(output->descriptor, &device, &inode) && device == output->device &&
           inode == output->inode;
}

// What a program leaves running, such as a daemon, goes on starting guarded programs after `zguard run` has ended and its
// directory, zguard.XXXXXX, has gone. That is nothing to tell whoever uses them.
static bool is_of_ended_run(int opened) {
    static const char name[] = "/zguard.XXXXXX/findings";
    const char *path = zg_config.report_path;
    size_t length = zg_string_length(path), own = sizeof name - 1;
    if (opened != -ENOENT || length < own) return false;
    for (size_t i = 0; i < own; i++)
        if (name[i] != 'X' && name[i] != path[length - own + i]) return false;
    return true;
}

static void say_not_opened(int error) {
    char message[ZG_OPTION_PATH_BYTES + 128];
    struct zg_text text;
    zg_text_init(&text, message, sizeof message);
    zg_text_string(&text, "zguard: warning: cannot open report '");
    zg_text_string(&text, zg_config.report_path);
    zg_text_string(&text, "' (error ");
    zg_text_decimal(&text, (uint64_t)-error);
    zg_text_string(&text, "): findings go to standard error\n");
    zg_os_write(2, message, text.count);
}

void zg_report_open(void) {
    if (zg_os_identify(2, &standard_error.device, &standard_error.inode)) standard_error.descriptor = 2; // the program's own
    if (zg_config.report_path[0]) {
        int opened = open_path();
        report_output = output_out_of_the_way(opened);
        if (opened >= 0) return; // where it cannot be kept open it is opened for each finding
        zg_stats_degrade(zg_degradation_no_report);
        if (!is_of_ended_run(opened)) say_not_opened(opened);
    }
    error_output = output_of(zg_os_duplicate_hidden(2));
}

void zg_report_after_fork_in_child(void) {
    // Each process writes its own file where the path says so; the parent's descriptor is shared otherwise.
    if (report_output.descriptor >= 0 && path_names_process()) {
        int opened = open_path();
        if (opened >= 0) report_output = output_out_of_the_way(opened);
    }
}

int zg_report_descriptors(int descriptors[2]) {
    int count = 0;
    if (is_same(&report_output)) descriptors[count++] = report_output.descriptor;
    if (is_same(&error_output)) descriptors[count++] = error_output.descriptor;
    return count;
}

static bool take_lock_within_reason(void) {
    if (!zg_lock_take_within(&report_lock, LONGEST_WAIT_NS)) return false;
    lock_owner = zg_os_tid();
    return true;
}

void zg_report_lock(void) {
    zg_lock_take(&report_lock);
    lock_owner = zg_os_tid();
}
void zg_report_unlock(bool reset) {
    lock_owner = 0;
    if (reset) zg_lock_reset(&report_lock);
    else zg_lock_drop(&report_lock);
}

bool zg_report_is_mine(void) { return __atomic_load_n(&lock_owner, __ATOMIC_RELAXED) == zg_os_tid(); }

void zg_report_close_for_good(void) {
    if (!zg_report_is_mine()) take_lock_within_reason();
}

void zg_report_abandon(void) {
    if (zg_report_is_mine()) zg_report_unlock(false);
}

static void put_time(struct zg_text *text) {
    uint64_t now = zg_os_clock_ns(CLOCK_REALTIME), seconds = now / 1000000000u, days = seconds / 86400;
    uint64_t left = seconds % 86400;
    // Days to a civil date, counted in eras of 400 years beginning on 1 March (proleptic Gregorian calendar).
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

// The image that a frame of a stack from now, or from some time ago, lies in. Code that is gone may be jumped to now.
static bool find_module(uint64_t pc, bool is_past, struct zg_module *module) {
    return (!is_past && zg_module_find(pc, module)) || zg_gone_find(pc, module);
}

// A stored frame is a return address: one byte before it lies in the call.
static void put_frame(struct zg_text *text, uint64_t frame, bool is_past) {
    uint64_t pc = frame - 1;
    struct zg_module module;
    zg_text_string(text, "{\"pc\":");
    zg_text_json_hex(text, pc);
    if (find_module(pc, is_past, &module)) {
        put_string(text, "module", module.path);
        zg_text_string(text, ",\"build_id\":\"");
        for (uint32_t i = 0; i < module.build_id_bytes && i < 32; i++) {
            zg_text_char(text, "0123456789abcdef"[module.build_id[i] >> 4]);
            zg_text_char(text, "0123456789abcdef"[module.build_id[i] & 15]);
        }
        zg_text_char(text, '"');
        put_hex(text, "offset", pc - module.bias);
    }
    zg_text_char(text, '}');
}

static void put_stack(struct zg_text *text, const char *name, const uint64_t *frames, int count, bool is_past) {
    zg_text_json_string(text, name);
    zg_text_string(text, ":[");
    for (int i = 0; i < count; i++) {
        if (i) zg_text_char(text, ',');
        put_frame(text, frames[i], is_past);
    }
    zg_text_char(text, ']');
}

static void put_depot_stack(struct zg_text *text, const char *name, uint32_t stack) {
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    put_stack(text, name, frames, zg_depot_get(stack, frames, ZG_STACK_MAX_DEPTH), true);
}

// The class of a dead object: its name where the runtime can read it, the mangled one where names are made later.
static void put_class(struct zg_text *text, uint32_t class_number) {
    struct zg_class class = zg_class_get(class_number);
    char bytes[512];
    put_string(text, "language", zg_block_language_text(class.language));
    if (class.language == zg_language_swift) {
        struct zg_text name;
        zg_text_init(&name, bytes, sizeof bytes);
        if (zg_swift_class_name(&zg_space_own, class.pointer, &name) && !name.truncated) put_string(text, "class", bytes);
    } else if (class.language == zg_language_cxx) {
        static const char prefix[] = "_ZTS"; // the symbol of the name that the type information holds
        zg_string_copy(bytes, prefix, sizeof bytes);
        if (zg_class_cxx_name(&zg_space_own, class.pointer, bytes + 4, sizeof bytes - 4)) put_string(text, "class_symbol", bytes);
    }
}

// The class of a live object, read from the object itself; 0 where it is none of Swift's.
static uint32_t live_class(const struct zg_block_view *block) {
    uint64_t pointer;
    if (!zg_classes_on || block->state != zg_state_live || block->size < 16) return 0;
    if (zg_os_read_memory(&pointer, block->start, sizeof pointer) != sizeof pointer) return 0;
    return zg_class_may_be_pointer(pointer) ? zg_class_number(pointer, zg_language_swift) : 0;
}

// "block":{…}; the member is that of `finding`, where it is not NULL, and otherwise the property at the block's offset.
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
    put_decimal(text, "alloc_thread", block->alloc_thread);
    if (block->free_thread) put_decimal(text, "free_thread", block->free_thread);
    if (!finding && block->zombie) put_decimal(text, "free_time_ns", zg_zombie_time_ns(&block->death));
    zg_text_char(text, '}');
}

static void put_json(struct zg_text *text, const struct zg_finding *finding) {
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
    zg_os_thread_name(name);
    zg_text_string(text, ",\"thread\":{\"id\":");
    zg_text_decimal(text, zg_thread_number());
    put_string(text, "name", name);
    zg_text_string(text, "},\"stacks\":{");
    put_stack(text, "access", finding->access_stack, finding->access_count, false);
    zg_text_char(text, ',');
    put_depot_stack(text, "free", finding->has_block ? finding->block.free_stack : 0);
    zg_text_char(text, ',');
    put_depot_stack(text, "alloc", finding->has_block ? finding->block.alloc_stack : 0);
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
    zg_text_string(text, "},\"count\":1");
    put_decimal(text, "pid", (uint64_t)zg_os_pid());
    put_string(text, "program", zg_module_program_path());
    zg_text_string(text, ",\"time\":\"");
    put_time(text);
    zg_text_string(text, "\",\"signature\":\"\"}\n");
}

static void put_plain_stack(struct zg_text *text, const char *title, const uint64_t *frames, int count, bool is_past) {
    if (!count) return;
    zg_text_string(text, title);
    for (int i = 0; i < count; i++) {
        struct zg_module module;
        zg_text_string(text, "    #");
        zg_text_decimal(text, (uint64_t)i);
        zg_text_char(text, ' ');
        if (find_module(frames[i] - 1, is_past, &module)) {
            zg_text_string(text, module.path);
            zg_text_char(text, '+');
            zg_text_hex(text, frames[i] - 1 - module.bias);
        } else {
            zg_text_hex(text, frames[i] - 1);
        }
        zg_text_char(text, '\n');
    }
}

static void put_plain_class(struct zg_text *text, const struct zg_finding *finding) {
    struct zg_class class = zg_class_get(finding->block.zombie ? finding->block.death.class_number : 0);
    if (class.language != zg_language_swift) return;
    zg_text_string(text, ", once an object of class ");
    zg_swift_class_name(&zg_space_own, class.pointer, text);
    char bytes[256];
    struct zg_text member;
    zg_text_init(&member, bytes, sizeof bytes);
    if (!zg_describe_member(finding, &member)) return;
    zg_text_string(text, ", property ");
    zg_text_string(text, bytes);
}

// Whether the program is expected to survive the finding: it is about a known block, whose contents can come back, and
// the Swift runtime has not decided to abort.
static bool goes_on(const struct zg_finding *finding) {
    if (zg_config.on_finding != zg_on_finding_continue || !finding->has_block) return false;
    for (int i = 0; i < finding->detail_count; i++)
        if (finding->details[i].text && zg_string_equal(finding->details[i].text, "SIGABRT")) return false;
    return true;
}

static void put_plain(struct zg_text *text, const struct zg_finding *finding) {
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    zg_text_string(text, "==zguard== ");
    zg_text_string(text, zg_finding_kind_name(finding->kind));
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
        put_plain_class(text, finding);
    }
    for (int i = 0; i < finding->detail_count; i++) {
        zg_text_string(text, ", ");
        zg_text_string(text, finding->details[i].name);
        zg_text_char(text, ' ');
        if (finding->details[i].text) zg_text_string(text, finding->details[i].text);
        else if (finding->details[i].hex) zg_text_hex(text, finding->details[i].number);
        else zg_text_signed(text, (int64_t)finding->details[i].number);
    }
    zg_text_string(text, " [pid ");
    zg_text_decimal(text, (uint64_t)zg_os_pid());
    zg_text_string(text, "]\n");
    if (zg_config.error_text != zg_error_text_full && goes_on(finding)) return;
    put_plain_stack(text, "  access:\n", finding->access_stack, finding->access_count, false);
    if (finding->has_block) {
        put_plain_stack(text, "  freed:\n", frames, zg_depot_get(finding->block.free_stack, frames, ZG_STACK_MAX_DEPTH),
                        true);
        put_plain_stack(text, "  allocated:\n", frames,
                        zg_depot_get(finding->block.alloc_stack, frames, ZG_STACK_MAX_DEPTH), true);
    }
    zg_text_string(text, "==zguard== function names: run the program under 'zguard run'\n");
}

// A pipe that is full is waited for, but not for long: its reader may be this process.
static void wait_for_reader(void) {
    uint32_t word = 0;
    zg_os_futex_wait(&word, 0, true, 1000000);
}

// Returns how much could be written.
static uint64_t write_pieces(int descriptor, const char *bytes, uint64_t count) {
    enum { WAITS_MOST = 100 };
    uint64_t written = 0;
    for (int waits = 0; written < count;) {
        int result = zg_os_write(descriptor, bytes + written, count - written);
        if (result > 0) written += (uint64_t)result;
        else if (result == -EAGAIN && waits++ < WAITS_MOST) wait_for_reader();
        else break;
    }
    return written;
}

// `text` lies in `line`, behind its first byte.
static bool write_line(struct output *output, int descriptor, const struct zg_text *text) {
    uint64_t before = output->is_cut, count = text->count + before;
    uint64_t written = write_pieces(descriptor, text->bytes - before, count);
    if (written) output->is_cut = written > before && written < count;
    if (output->is_cut) output->is_cut = write_pieces(descriptor, "\n", 1) != 1;
    return written == count;
}

static bool write_json(const struct zg_text *text) {
    if (is_same(&report_output) && write_line(&report_output, report_output.descriptor, text)) return true;
    // Opened once more, and kept where that can be had.
    int opened = open_path();
    if (opened < 0) return false;
    if (report_output.descriptor >= 0 && is_same(&report_output)) zg_os_close(report_output.descriptor);
    struct output before = report_output;
    int kept = zg_os_duplicate_hidden(opened);
    report_output = output_of(kept);
    bool is_same_file = report_output.device == before.device && report_output.inode == before.inode;
    report_output.is_cut = before.is_cut && (is_same_file || report_output.descriptor < 0);
    bool written = write_line(&report_output, opened, text);
    zg_os_close(opened);
    return written;
}

// Number 2 may be a file of the program's by now: a daemon closes what it was, and the next file takes the place. NULL then.
static struct output *find_error_output(void) {
    return is_same(&error_output) ? &error_output : is_same(&standard_error) ? &standard_error : NULL;
}

static bool write_text(const struct zg_text *text) {
    struct output *output = find_error_output();
    return output && write_line(output, output->descriptor, text);
}

void zg_report_say(const char *bytes, uint64_t count) {
    const struct output *output = find_error_output();
    if (output) write_pieces(output->descriptor, bytes, count);
}

static void begin_line(struct zg_text *text) {
    line[0] = '\n';
    zg_text_init(text, line + 1, sizeof line - 1);
}

void zg_report_end(void) {
    uint64_t lost = zg_stats_get(zg_counter_findings_lost);
    if (!lost) return;
    zg_report_lock();
    struct zg_text text;
    begin_line(&text);
    zg_text_string(&text, "zguard: warning: findings that could not be written: ");
    zg_text_decimal(&text, lost);
    zg_text_char(&text, '\n');
    write_text(&text);
    zg_report_unlock(false);
}

static void count_lost(void) {
    zg_stats_add(zg_counter_findings_lost, 1);
    zg_stats_degrade(zg_degradation_no_report);
}

static bool lose(const struct zg_finding *finding, bool (*is_new)(const struct zg_finding *)) {
    if (!is_new(finding)) return false;
    count_lost();
    return true;
}

bool zg_report_write(const struct zg_finding *finding, bool (*is_new)(const struct zg_finding *)) {
    if (zg_report_is_mine()) return lose(finding, is_new); // a fault inside the writer itself
    // One who faults where nobody knows that the lock is its own waits for the thread whose fault this is.
    if (!take_lock_within_reason()) return lose(finding, is_new);
    if (!is_new(finding)) {
        zg_report_unlock(false);
        return false;
    }
    struct zg_text text;
    bool written = false;
    zg_zombie_note_time();
    begin_line(&text);
    put_json(&text, finding);
    if (!text.truncated) zg_journal_add(text.bytes, text.count - 1);
    if (zg_config.report_path[0]) {
        written = !text.truncated && write_json(&text);
        if (!written) zg_stats_degrade(zg_degradation_no_report);
    }
    if (!written) {
        begin_line(&text);
        put_plain(&text, finding);
        written = write_text(&text);
    }
    if (!written) count_lost();
    zg_stats_note_refusals();
    zg_report_unlock(false);
    return true;
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
    zg_text_string(text, "}}");
    return true;
}
