// Writes the pair log. Lines, numbers in hexadecimal without prefix:
//   zguard.coverage/1                       first line
//   M number build-id path                  a module; build-id "-": none
//   S identity number+offset …              a stack, innermost frame first; "-": a frame in no module
//   P identity identity                     a pair of allocation stack and free stack occurred
//   W identity identity                     a freed block of the pair was guarded before the program went on
// Sources/ZombieGuard/Coverage/PairLog.swift reads them.

#include "stacks/pair_log.h"

#include "images/unloaded.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "settings/run_directory.h"
#include "stacks/depot.h"
#include "stacks/identity.h"

enum { MODULES_MOST = 512, PATH_MOST = 1024, LINE_BYTES = 4096 };

struct log {
    struct zg_lock lock;
    int descriptor, owner; // owner: process that opened the file; its children open files of their own
    uint32_t module_count;
    uint64_t modules[MODULES_MOST];      // biases of the modules that the file contains
    uint8_t stacks[ZG_DEPOT_PLACES / 8]; // bit set of the stacks that the file contains
    char line[LINE_BYTES];
};
static struct log *log;
bool zg_pair_log_is_on;

bool zg_pair_log_init(void) {
    if (!zg_config.log_pairs || !zg_run_is_named()) return true;
    log = zg_os_map_for_good(sizeof *log);
    if (log) log->descriptor = -1;
    zg_pair_log_is_on = log != NULL;
    return log != NULL;
}

void zg_pair_log_lock(void) {
    if (log) zg_lock_take(&log->lock);
}
void zg_pair_log_unlock(bool reset) {
    if (!log) return;
    if (reset) zg_lock_reset(&log->lock);
    else zg_lock_drop(&log->lock);
}

// Begins a line. Text that does not fit is cut off: readers skip lines that they cannot read.
static struct zg_text begin_line(char kind) {
    struct zg_text text;
    zg_text_init(&text, log->line, LINE_BYTES - 1);
    zg_text_char(&text, kind);
    return text;
}
static void write_line(struct zg_text *text) {
    text->bytes[text->count++] = '\n';
    zg_os_write(log->descriptor, text->bytes, text->count);
}

// Opens the process's file in the first call. A child of a fork opens a file of its own in its first call.
static bool open_file(void) {
    if (log->owner == zg_os_pid()) return log->descriptor >= 0;
    if (log->descriptor >= 0) zg_os_close(log->descriptor);
    log->owner = zg_os_pid();
    log->module_count = 0;
    __builtin_memset(log->stacks, 0, sizeof log->stacks);
    int opened = zg_run_create_pair_log();
    log->descriptor = opened < 0 ? -1 : zg_os_hide_descriptor(opened);
    static const char first[] = "zguard.coverage/1\n";
    return log->descriptor >= 0 && zg_os_write(log->descriptor, first, sizeof first - 1) == sizeof first - 1;
}

// Returns the module's number in the file; appends a line for the module if the file has none. MODULES_MOST if the file
// has that many modules.
static uint32_t number_of(uint64_t pc, const struct zg_module *module) {
    for (uint32_t i = 0; i < log->module_count; i++)
        if (log->modules[i] == module->bias) return i;
    if (log->module_count == MODULES_MOST) return MODULES_MOST;
    uint32_t number = log->module_count++;
    log->modules[number] = module->bias;
    struct zg_module whole = *module;
    if (!zg_module_find(pc, &whole)) zg_unloaded_find(pc, &whole); // with the build-id
    struct zg_text text = begin_line('M');
    zg_text_char(&text, ' ');
    zg_text_hex_digits(&text, number);
    zg_text_char(&text, ' ');
    zg_text_hex_bytes(&text, whole.build_id, zg_min(whole.build_id_bytes, 32));
    zg_text_string(&text, whole.build_id_bytes ? " " : "- ");
    zg_text_visible(&text, zg_string_length(module->path) < PATH_MOST ? module->path : "-");
    write_line(&text);
    return number;
}

// Appends a line for the stack, unless the file has one.
static void add_stack(uint32_t stack, uint64_t identity) {
    uint32_t place = stack % ZG_DEPOT_PLACES;
    if (!stack || log->stacks[place / 8] >> place % 8 & 1) return;
    log->stacks[place / 8] |= (uint8_t)(1 << place % 8);
    uint64_t offsets[ZG_IDENTITY_FRAMES];
    uint32_t numbers[ZG_IDENTITY_FRAMES];
    int count = zg_depot_get(stack, offsets, ZG_IDENTITY_FRAMES);
    // Write the modules' lines before the stack's line is begun: all lines share one buffer.
    for (int i = 0; i < count; i++) {
        struct zg_module module;
        uint64_t pc = offsets[i] - 1;
        bool is_found = zg_identity_find_module(pc, &module);
        numbers[i] = is_found ? number_of(pc, &module) : (uint32_t)MODULES_MOST;
        offsets[i] = is_found ? pc - module.bias : 0;
    }
    struct zg_text text = begin_line('S');
    zg_text_char(&text, ' ');
    zg_text_hex_digits(&text, identity);
    for (int i = 0; i < count; i++) {
        zg_text_char(&text, ' ');
        if (numbers[i] == MODULES_MOST) {
            zg_text_char(&text, '-');
            continue;
        }
        zg_text_hex_digits(&text, numbers[i]);
        zg_text_char(&text, '+');
        zg_text_hex_digits(&text, offsets[i]);
    }
    write_line(&text);
}

void zg_pair_log_add(enum zg_pair_event event, uint32_t alloc_stack, uint32_t free_stack) {
    zg_lock_take(&log->lock);
    if (open_file()) {
        uint64_t alloc = zg_stack_identity(alloc_stack), freed = zg_stack_identity(free_stack);
        add_stack(alloc_stack, alloc);
        add_stack(free_stack, freed);
        struct zg_text text = begin_line((char)event);
        zg_text_char(&text, ' ');
        zg_text_hex_digits(&text, alloc);
        zg_text_char(&text, ' ');
        zg_text_hex_digits(&text, freed);
        write_line(&text);
    }
    zg_lock_drop(&log->lock);
}
