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

// Begins a line. What does not fit is cut off: readers skip lines that they cannot read.
static struct zg_text begin_line(char kind) {
    struct zg_text text;
    zg_text_init(&text, log->line, LINE_BYTES - 1);
    zg_text_char(&text, kind);
    return text;
}
static void put_number(struct zg_text *text, uint64_t number) {
    int digits = 1;
    while (digits < 16 && number >> 4 * digits) digits++;
    while (digits--) zg_text_char(text, "0123456789abcdef"[number >> 4 * digits & 15]);
}
static void write_line(struct zg_text *text) {
    text->bytes[text->count++] = '\n';
    zg_os_write(log->descriptor, text->bytes, text->count);
}

// Opens a file in the first call, and in the first call of a child.
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

// Returns the number of the module in the file, which gets a line for it if needed. MODULES_MOST if there are too many.
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
    put_number(&text, number);
    zg_text_char(&text, ' ');
    for (uint32_t i = 0; i < whole.build_id_bytes && i < 32; i++) {
        zg_text_char(&text, "0123456789abcdef"[whole.build_id[i] >> 4]);
        zg_text_char(&text, "0123456789abcdef"[whole.build_id[i] & 15]);
    }
    zg_text_string(&text, whole.build_id_bytes ? " " : "- ");
    const char *path = whole.path && *whole.path ? whole.path : zg_module_program_path();
    zg_text_visible(&text, zg_string_length(path) < PATH_MOST ? path : "-");
    write_line(&text);
    return number;
}

// Finds the module of a return address, as zg_stack_identity does.
static bool find_module(uint64_t pc, struct zg_module *module) {
    return zg_module_find_unwind(pc, module) || zg_unloaded_find(pc, module);
}

static void add_stack(uint32_t stack, uint64_t identity) {
    uint32_t place = stack % ZG_DEPOT_PLACES;
    if (!stack || log->stacks[place / 8] >> place % 8 & 1) return;
    log->stacks[place / 8] |= (uint8_t)(1 << place % 8);
    uint64_t frames[ZG_IDENTITY_FRAMES];
    struct zg_module module;
    int count = zg_depot_get(stack, frames, ZG_IDENTITY_FRAMES);
    // The modules' lines come first, because all lines share one buffer.
    for (int i = 0; i < count; i++)
        if (find_module(frames[i] - 1, &module)) number_of(frames[i] - 1, &module);
    struct zg_text text = begin_line('S');
    zg_text_char(&text, ' ');
    put_number(&text, identity);
    for (int i = 0; i < count; i++) {
        zg_text_char(&text, ' ');
        uint32_t number =
            find_module(frames[i] - 1, &module) ? number_of(frames[i] - 1, &module) : (uint32_t)MODULES_MOST;
        if (number == MODULES_MOST) {
            zg_text_char(&text, '-');
            continue;
        }
        put_number(&text, number);
        zg_text_char(&text, '+');
        put_number(&text, frames[i] - 1 - module.bias);
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
        put_number(&text, alloc);
        zg_text_char(&text, ' ');
        put_number(&text, freed);
        write_line(&text);
    }
    zg_lock_drop(&log->lock);
}
