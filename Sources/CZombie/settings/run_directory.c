// Opens the files in the directory of a run. A daemon that outlives a run keeps the directory's path, at which another
// user may create a directory later. So the directory is opened first, and used only if this user or root owns it and
// others can neither rename nor remove files in it. Then only the owner can have chosen the names inside, including
// links. Cold and signal context; takes no lock.

#include "settings/run_directory.h"

#include <errno.h>

#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"

static bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool zg_run_is_named(void) {
    static const char pattern[] = ZG_RUN_FINDINGS_PATTERN;
    const char *path = zg_config.report_path;
    uint64_t length = zg_string_length(path), own = sizeof pattern - 1;
    if (length < own || path[0] != '/') return false;
    for (uint64_t i = 0; i < own; i++) {
        char c = path[length - own + i];
        if (pattern[i] == 'X' ? !is_alphanumeric(c) : c != pattern[i]) return false;
    }
    return true;
}

// Builds the absolute path of a file of the run; for an empty `name`, of the directory.
static void put_path(struct zg_text *path, char bytes[ZG_OPTION_PATH_BYTES], const char *name) {
    zg_text_init(path, bytes, ZG_OPTION_PATH_BYTES);
    zg_text_string(path, zg_config.report_path);
    path->count -= sizeof ZG_RUN_FINDINGS - 1;
    path->bytes[path->count] = 0;
    zg_text_string(path, name);
}

static int open_directory(void) {
    char bytes[ZG_OPTION_PATH_BYTES];
    struct zg_text path;
    if (!zg_run_is_named()) return -ENOENT;
    put_path(&path, bytes, "");
    return zg_os_open_own_directory(bytes);
}

// Creates a file for this process. Its name is `prefix`, the process id and a random number.
static int create_own(int directory, const char *prefix) {
    char bytes[64];
    struct zg_text name;
    zg_text_init(&name, bytes, sizeof bytes);
    zg_text_string(&name, prefix);
    zg_text_decimal(&name, (uint64_t)zg_os_pid());
    zg_text_char(&name, '-');
    zg_text_hex(&name, zg_mix(zg_arch_ticks() ^ (uint64_t)(uintptr_t)bytes));
    return zg_os_create_append(directory, bytes);
}

static int open_by(int (*open)(int directory, const char *name), const char *name) {
    int directory = open_directory();
    if (directory < 0) return directory;
    int opened = open(directory, name);
    zg_os_close(directory);
    return opened;
}

int zg_run_create_pair_log(void) { return open_by(create_own, ZG_RUN_PAIR_LOG); }
int zg_run_open_watched(void) { return open_by(zg_os_open_program, ZG_RUN_WATCHED); }

int zg_run_open_findings(bool *is_own) {
    *is_own = false;
    int directory = open_directory();
    if (directory < 0) return directory;
    int opened = zg_os_open_append_in(directory, ZG_RUN_FINDINGS);
    if (opened == -EACCES || opened == -EPERM || opened == -ENOENT) {
        opened = create_own(directory, ZG_RUN_OWN_FINDINGS);
        *is_own = opened >= 0;
    }
    zg_os_close(directory);
    return opened;
}

int zg_run_open_page(uint64_t bytes) {
    int directory = open_directory();
    if (directory < 0) return directory;
    int opened = zg_os_open_sealed(directory, ZG_RUN_COVERAGE, bytes);
    zg_os_close(directory);
    return opened;
}

static void count(const char *name) {
    int directory = open_directory();
    if (directory < 0) return;
    zg_os_shorten(directory, name);
    zg_os_close(directory);
}

void zg_run_count_unwritten(void) { count(ZG_RUN_UNWRITTEN); }
void zg_run_count_unmapped(void) { count(ZG_RUN_UNMAPPED); }

enum zg_run_sent zg_run_send(const struct zg_run_message *message) {
    char bytes[ZG_OPTION_PATH_BYTES];
    struct zg_text path;
    if (!zg_run_is_named()) return zg_run_refused;
    put_path(&path, bytes, ZG_RUN_SOCKET);
    int error = zg_os_send(bytes, message, sizeof *message);
    return !error ? zg_run_delivered : error == -ECONNREFUSED || error == -ENOENT ? zg_run_is_over : zg_run_refused;
}
