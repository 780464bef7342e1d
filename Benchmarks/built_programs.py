"""Real programs built from Debian's source packages, plain and with AddressSanitizer, on the inputs of real_programs.py.

This compares an AddressSanitizer build with a guarded process of the same source, compiler and options. Sources and programs
are kept under build/. AddressSanitizer has its default options, but without its leak check, which no other tool has."""

import platform
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import building
import real_programs
from target import Target

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Programs"))

import generate  # noqa: E402
from case import Source  # noqa: E402


class Unbuilt(Exception):
    """The source cannot be fetched, or does not build."""


def run(command, folder):
    result = subprocess.run([str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise Unbuilt(f"{Path(str(command[0])).name}: {(result.stdout + result.stderr).strip()[-300:]}")


class Built(Target):
    """A program that one compiler call builds in each variant. `like`, the target of the installed program, provides the inputs and the
    command, whose first word is replaced by the built program."""
    kind = "built"

    def __init__(self, like, source, file):
        super().__init__(f"built-{like.name}")
        self.like, self.source = like, Source(source, file)
        self.programs, self.problem = {}, None

    def supports(self, tool):
        return tool != "asan" or "asan" in self.programs

    def missing(self):
        return [f"{self.source.describe()} ({self.problem})"] if self.problem else []

    def build(self, compilers):
        """Fetches the source and compiles the plain program, and the AddressSanitizer build if a compiler can make one."""
        self.folder = building.FOLDER / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            if not self.source.is_met() and (fault := self.source.fetch()):
                raise Unbuilt(fault)
            tree = self.source.folder
            self.make_sources(tree)
            sanitized = compilers.commands["asan"][".c"]
            # The same compiler builds both variants.
            for variant, command in (("plain", sanitized[:1] if sanitized else compilers.commands["plain"][".c"]), ("asan", sanitized)):
                if command:
                    command = [str(word) for word in (*command, "-w", "-O2", "-g", *self.flags(tree))]
                    program = self.folder / f"{variant}-{zlib.crc32(' '.join(command).encode()):08x}"
                    if not program.exists():
                        run([*command, "-o", program], self.folder)
                    self.programs[variant] = program
        except (Unbuilt, OSError) as problem:
            self.problem = str(problem)

    def make_sources(self, tree):
        """Generates, under `self.folder`, the files that the project's own build generates before it compiles."""

    def flags(self, tree):
        """Returns compiler options, sources and libraries."""
        raise NotImplementedError

    def prepare(self, work, size):
        self.like.prepare(work, size)

    def command(self, work, size, tool):
        return [self.programs["asan" if tool == "asan" else "plain"], *self.like.command(work, size, tool)[1:]]


class Lua(Built):
    def make_sources(self, tree):
        """Writes the header that Debian's build generates for its module search path."""
        (self.folder / "lua5.4-deb-multiarch.h").write_text(f'#define DEB_HOST_MULTIARCH "{platform.machine()}-linux-gnu"\n')

    def flags(self, tree):
        sources = sorted(path for path in (tree / "src").glob("*.c") if path.name != "luac.c")
        return ["-std=gnu99", "-DLUA_USE_LINUX", "-DLUA_COMPAT_5_3", f"-I{self.folder}", *sources, "-Wl,-E", "-lm", "-ldl"]


class Jq(Built):
    FUNCTIONS = ("LIBONIG", "MEMMEM", "STRPTIME", "STRFTIME", "TIMEGM", "GMTIME", "GMTIME_R", "LOCALTIME_R", "GETTIMEOFDAY", "MKSTEMP",
                 "ISATTY", "TM_TM_GMT_OFF", "PTHREAD_KEY_CREATE", "PTHREAD_ONCE", "ATEXIT", "ALLOCA_H", "FLOOR", "SQRT", "POW", "LOG")

    def make_sources(self, tree):
        if not Path("/usr/include/oniguruma.h").exists():
            raise Unbuilt("oniguruma.h is missing: install libonig-dev")
        (self.folder / "src").mkdir(exist_ok=True)
        lines = (tree / "src" / "builtin.jq").read_text().splitlines()
        quoted = ('"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in lines)
        (self.folder / "src" / "builtin.inc").write_text("\n".join(quoted) + "\n")
        (self.folder / "src" / "version.h").write_text('#define JQ_VERSION "1.6"\n')

    def flags(self, tree):
        sources = sorted(path for path in (tree / "src").glob("*.c") if path.name != "inject_errors.c")
        return ["-std=gnu99", "-D_GNU_SOURCE", "-DIEEE_8087", *(f"-DHAVE_{name}" for name in self.FUNCTIONS), f"-I{self.folder}",
                f"-I{self.folder}/src", f"-I{tree}", f"-I{tree}/src", *sources, "-lonig", "-lm", "-lpthread"]


class Sqlite(Built):
    def make_sources(self, tree):
        """Builds the amalgamation, SQLite's single source file."""
        if (self.folder / "sqlite3.c").exists():
            return
        if not shutil.which("tclsh"):
            raise Unbuilt("tclsh is missing: install tcl8.6")
        run([tree / "configure", "--disable-readline", "--disable-tcl"], self.folder)
        run(["make", "sqlite3.c", "shell.c"], self.folder)

    def flags(self, tree):
        """Returns Debian's own options, except SQLITE_ENABLE_UPDATE_DELETE_LIMIT, which needs a specially generated parser. Most important
        for allocation: the options turn off SQLite's own reserve for small blocks (lookaside), so that small blocks come from malloc."""
        options = re.findall(r"-DSQLITE_\w+(?:=\w+)?", (tree / "debian" / "rules").read_text())
        return [*(option for option in options if "UPDATE_DELETE_LIMIT" not in option), "shell.c", "sqlite3.c", "-lm", "-lpthread", "-ldl"]


class MiniGzip(Target):
    """zlib's example program, which compresses its input. No package installs this program."""

    def prepare(self, work, size):
        (work / "text").write_text(generate.text_lines(int(400_000 * size)))

    def command(self, work, size, tool):
        return ["minigzip", "-c", work / "text"]


class Zlib(Built):
    def flags(self, tree):
        return ["-D_LARGEFILE64_SOURCE=1", "-DHAVE_UNISTD_H", f"-I{tree}", *sorted(tree.glob("*.c")), tree / "test" / "minigzip.c"]


def all_built():
    like = {target.name: target for target in real_programs.all_programs()}
    return [Lua(like["lua"], "lua5.4", "src/lua.c"), Jq(like["jq"], "jq", "src/main.c"),
            Sqlite(like["sqlite3"], "sqlite3", "src/select.c"), Zlib(MiniGzip("minigzip"), "zlib", "test/minigzip.c")]
