// Looks allocation stacks up by their identities. The file consists of 64-bit words in the machine's byte order: the
// number of stacks, then the sorted identities of the stacks. The lowest bit of an identity is replaced by a flag that
// is set if only a part of the stack's pairs was watched.

#include "stacks/watched.h"

#include "platform/os.h"
#include "settings/config.h"
#include "settings/run_directory.h"
#include "stacks/identity.h"

enum { WORDS_MOST = 8 << 20 };

static uint64_t *words, count;
bool zg_watched_is_on;

void zg_watched_init(void) {
    if (!zg_config.log_pairs) return;
    int file = zg_run_open_watched();
    if (file < 0) return;
    uint64_t number = 0, got = 0;
    bool is_sane = zg_os_read_at(file, &number, sizeof number, 0) == sizeof number && number && number <= WORDS_MOST;
    uint64_t bytes = number * sizeof *words;
    if (is_sane) words = zg_os_map_for_good(bytes);
    for (int64_t part = 1; words && got < bytes && part > 0; got += part > 0 ? (uint64_t)part : 0)
        part = zg_os_read_at(file, (char *)words + got, bytes - got, sizeof number + got);
    zg_os_close(file);
    count = got / sizeof *words;
    zg_watched_is_on = count != 0;
}

enum zg_watched zg_watched_of(uint32_t stack) {
    uint64_t identity = zg_stack_identity(stack) & ~UINT64_C(1), place = zg_identity_place(words, count, identity);
    if (place == count || (words[place] & ~UINT64_C(1)) != identity) return zg_watched_unknown;
    return words[place] & 1 ? zg_watched_partly : zg_watched_all;
}
