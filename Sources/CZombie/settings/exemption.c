// Decides which programs of a run are exempt. `swift test` spends most of its time in the package manager, the compiler
// and the linker, which its user does not want to guard. These programs are recognized by the directories of their
// files.

#include "settings/exemption.h"

#include <sys/auxv.h>
#include <fcntl.h>

#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"

enum { PATH_BYTES = ZG_OPTION_PATH_BYTES };

bool zg_is_exempt;
// Directory of the toolchain whose package manager this process is, with a slash at the end; "" in other processes.
static char toolchain[PATH_BYTES];

static bool ends_with(const char *text, const char *with) {
    uint64_t length = zg_string_length(text), own = zg_string_length(with);
    return length >= own && zg_string_equal(text + length - own, with);
}

static bool is_among(const char *name, const char *const *names, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (zg_string_equal(name, names[i])) return true;
    return false;
}

// --- the option only -------------------------------------------------------------------------------------------------

// Compares with a pattern of `length` bytes, in which * stands for any bytes.
static bool matches(const char *text, const char *pattern, uint64_t length) {
    uint64_t at = 0, star = UINT64_MAX;
    const char *resume = text;
    while (*text) {
        if (at < length && pattern[at] == '*') {
            star = at++;
            resume = text;
        } else if (at < length && pattern[at] == *text) {
            at++, text++;
        } else if (star != UINT64_MAX) {
            at = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (at < length && pattern[at] == '*') at++;
    return at == length;
}

// Returns true if the option `only` names the program. A pattern with a slash is compared with the path of the file,
// any other pattern with the names of the file and of the link by which the file is executed.
static bool is_named(const char *file, const char *executed) {
    for (const char *pattern = zg_config.only; *pattern;) {
        uint64_t length = 0;
        bool is_path = false;
        for (; pattern[length] && pattern[length] != ','; length++) is_path = is_path || pattern[length] == '/';
        if (length && (is_path ? matches(file, pattern, length)
                               : matches(zg_string_last_part(file), pattern, length) ||
                                     matches(zg_string_last_part(executed), pattern, length)))
            return true;
        pattern += length + (pattern[length] == ',');
    }
    return false;
}

// --- the package manager ---------------------------------------------------------------------------------------------

// Returns true if the first argument of this process is a subcommand of the package manager.
static bool has_verb(void) {
    static const char *const verbs[] = {"build", "package", "run", "test"};
    char words[128];
    int file = zg_os_open_read("/proc/self/cmdline");
    if (file < 0) return false;
    int got = zg_os_read(file, words, sizeof words - 1);
    zg_os_close(file);
    words[got > 0 ? got : 0] = 0;
    uint64_t first = zg_string_length(words) + 1;
    return got > 0 && first < (uint64_t)got && is_among(words + first, verbs, ZG_ARRAY_COUNT(verbs));
}

static bool is_package_manager(const char *name) {
    static const char *const names[] = {"swift-build", "swift-package", "swift-run", "swift-test"};
    return is_among(name, names, ZG_ARRAY_COUNT(names)) || (zg_string_equal(name, "swift") && has_verb());
}

// Sets `toolchain` if this process is a toolchain's package manager: the compiler lies in the same directory.
static void look_for_toolchain(const char *file, const char *executed) {
    char compiler[PATH_BYTES];
    struct zg_text path;
    if (!zg_string_begins(zg_string_last_part(file), "swift") || !is_package_manager(zg_string_last_part(executed)))
        return;
    zg_text_init(&path, compiler, sizeof compiler);
    zg_text_string(&path, file);
    uint64_t directory = (uint64_t)(zg_string_last_part(file) - file);
    if (path.truncated || directory >= sizeof toolchain) return;
    path.count = directory;
    zg_text_string(&path, "swift-frontend");
    if (path.truncated || !zg_os_is_executable(compiler)) return;
    zg_string_copy(toolchain, file, directory + 1);
}

void zg_exemption_init(void) {
    char file[PATH_BYTES];
    const char *executed = (const char *)getauxval(AT_EXECFN);
    // Skip the system calls below unless the option `only` is set, or the program may be the package manager.
    if (!executed || (!zg_config.only[0] && !zg_string_begins(zg_string_last_part(executed), "swift"))) return;
    int count = zg_os_readlink("/proc/self/exe", file, sizeof file);
    if (count <= 0 || count >= PATH_BYTES - 1) return;
    look_for_toolchain(file, executed);
    if (zg_config.only[0]) zg_is_exempt = !is_named(file, executed);
    else zg_is_exempt = toolchain[0] != 0;
}

bool zg_exemption_is_package_manager(void) { return zg_is_exempt && toolchain[0]; }

// --- programs that the package manager starts ------------------------------------------------------------------------

// Writes the path of the program's file, with links resolved. False if the path is unknown or too long.
static bool resolve(int directory, const char *path, char *file) {
    char link[32];
    struct zg_text text;
    int opened = *path ? zg_os_open_program(directory, path) : directory;
    if (opened < 0) return false;
    zg_text_init(&text, link, sizeof link);
    zg_text_string(&text, "/proc/self/fd/");
    zg_text_decimal(&text, (uint64_t)opened);
    int count = zg_os_readlink(link, file, PATH_BYTES);
    if (*path) zg_os_close(opened);
    return count > 0 && count < PATH_BYTES - 1;
}

bool zg_exemption_covers(int directory, const char *path) {
    // Directories of the linker, git and archivers. Not all of /usr, because a package may be below /usr/src.
    static const char *const system[] = {"/bin/",     "/sbin/",        "/usr/bin/",      "/usr/sbin/",
                                         "/usr/lib/", "/usr/libexec/", "/usr/local/bin/"};
    static const char *const managers[] = {"swift", "swift-build", "swift-package", "swift-run", "swift-test"};
    char file[PATH_BYTES];
    if (!resolve(directory, path, file) || is_named(file, path)) return false;
    // The package manager's programs keep the library: `swift` executes swift-test, which decides by itself whether it
    // is exempt, and starts the tests.
    if (is_among(zg_string_last_part(path), managers, ZG_ARRAY_COUNT(managers))) return false;
    if (zg_string_begins(file, toolchain) || ends_with(file, "-manifest")) return true;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(system); i++)
        if (zg_string_begins(file, system[i])) return true;
    return false;
}
