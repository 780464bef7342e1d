// Removes the runtime's variables from `environ` before the program reads it. Other libraries stay in LD_PRELOAD.

#define _GNU_SOURCE
#include "process/hidden.h"

#include <unistd.h>

#include "include/zg_program.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"

char *zg_hidden[ZG_HIDDEN_MOST];

static const char preload[] = "LD_PRELOAD=";
static const char *const names[ZG_HIDDEN_MOST] = {preload, "ZGUARD_OPTIONS=", ZG_FILTERS_VARIABLE "="};

// Returns the index in `names` of the variable that the entry sets, or ZG_HIDDEN_MOST.
static int number_of(const char *entry) {
    for (int i = 0; i < ZG_HIDDEN_MOST; i++) {
        uint64_t at = 0;
        while (names[i][at] && entry[at] == names[i][at]) at++;
        if (!names[i][at]) return i;
    }
    return ZG_HIDDEN_MOST;
}

bool zg_hidden_is_ours(const char *entry) { return number_of(entry) < ZG_HIDDEN_MOST; }

// Returns a newly mapped copy of the LD_PRELOAD entry without the runtime's library; NULL if the entry names no other
// library, or if the kernel refuses memory.
static char *without_library(const char *entry) {
    const char *value = entry + sizeof preload - 1;
    char *copy = zg_os_map(zg_round_up(zg_string_length(entry) + 1, ZG_PAGE_BYTES));
    if (!copy) return NULL;
    __builtin_memcpy(copy, preload, sizeof preload - 1);
    uint64_t count = zg_program_preload_without_library(copy + sizeof preload - 1, value);
    copy[sizeof preload - 1 + count] = 0;
    return count ? copy : NULL;
}

void zg_hidden_start(void) {
    if (!environ) return;
    char **kept = environ;
    for (char **entry = environ; *entry; entry++) {
        int number = number_of(*entry);
        char *left = number == ZG_HIDDEN_MOST ? *entry : number == 0 ? without_library(*entry) : NULL;
        if (number < ZG_HIDDEN_MOST) zg_hidden[number] = *entry;
        if (left) *kept++ = left;
    }
    *kept = NULL;
}
