"""The tools that programs run under: plain glibc, this project, other allocators, AddressSanitizer builds, valgrind."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Allocators in Debian's packages: file of the library, and package.
SYSTEM_ALLOCATORS = {"mimalloc": ("libmimalloc.so.2*", "libmimalloc2.0"), "jemalloc": ("libjemalloc.so.2", "libjemalloc2")}
DEFAULT = ("glibc", "zguard", "scudo", "mimalloc", "jemalloc", "asan", "valgrind")


def clean_environment():
    """Returns the environment of all measured programs: nothing preloaded, no options, fixed locale and hash seeds."""
    dropped = ("LD_PRELOAD", "ZGUARD_OPTIONS", "SCUDO_OPTIONS", "ASAN_OPTIONS", "PYTHONMALLOC")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}


def run_quietly(words, environment):
    """Returns the ended process with its output as text. Its status is 124 if it still ran after ten minutes."""
    words = [str(word) for word in words]
    try:
        return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "it still runs after ten minutes\n")


def first_line(*command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        lines = (result.stdout or result.stderr).strip().splitlines()
        return lines[0] if lines else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def swift_toolchain():
    """Returns the Swift toolchain's directory above bin. The toolchain contains clang and its runtime libraries."""
    swift = shutil.which("swift")
    return Path(swift).resolve().parent.parent if swift else None


def scudo_library():
    toolchain = swift_toolchain()
    roots = [toolchain / "lib" / "clang"] if toolchain else []
    roots += sorted(Path("/usr/lib").glob("llvm-*/lib/clang"), reverse=True)
    for root in roots:
        for library in sorted(root.glob(f"*/lib/*/libclang_rt.scudo_standalone*{platform.machine()}*.so")):
            return library
    return None


def system_library(pattern):
    """Returns the first file of this name in the library directories of distributions, or None."""
    folders = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib")
    return next((file for folder in folders for file in sorted(Path(folder).glob(pattern))), None)


def plain_compiler(suffix):
    names = ("g++", "clang++") if suffix == ".cpp" else ("gcc", "clang")
    return next(([name] for name in names if shutil.which(name)), None)


def asan_compiler(suffix):
    """Returns the first compiler that can build and run an empty program with AddressSanitizer."""
    candidates = []
    toolchain = swift_toolchain()
    if toolchain:
        candidates.append(str(toolchain / "bin" / ("clang++" if suffix == ".cpp" else "clang")))
    candidates += ["clang++", "g++"] if suffix == ".cpp" else ["clang", "gcc"]
    for candidate in candidates:
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / ("empty" + suffix), Path(folder) / "empty"
            source.write_text("int main() { return 0; }\n")
            try:
                built = subprocess.run([candidate, "-fsanitize=address", str(source), "-o", str(program)], capture_output=True)
                if built.returncode == 0 and subprocess.run([str(program)], capture_output=True).returncode == 0:
                    return [candidate, "-fsanitize=address"]
            except OSError:
                pass
    return None


class Tool:
    """A way to run a program: a command prefix, and environment variables."""

    def __init__(self, name, prefix=(), environment=None, problem=None, size=None, rounds=None, version=""):
        self.name, self.prefix, self.environment = name, list(prefix), environment or {}
        self.problem = problem  # reason why the tool cannot be used here
        self.size = size  # part of the work that the tool gets; glibc is compared on the same part
        self.rounds = rounds  # maximum number of rounds
        self.version = version

    @property
    def is_reduced(self):
        return self.size is not None

    def takes_part(self, round_number):
        return self.rounds is None or round_number < self.rounds

    def variables(self, more=None):
        """Returns the tool's environment and `more`, as words KEY=VALUE."""
        return [f"{key}={value}" for key, value in {**(more or {}), **self.environment}.items()]

    def footnote(self, runs):
        """Returns a note for readers of the figures if the tool was not treated like the others."""
        few = self.rounds is not None and self.rounds < runs
        if not few and not self.is_reduced:
            return None
        times = "once" if self.rounds == 1 else f"{self.rounds if few else runs} times"
        part = f", on about {self.size:.0%} of the work, and is compared with glibc on that same part" if self.is_reduced else ""
        return f"{self.name} was run {times}{part}."


def make_tool(name):
    """Returns the tool of this name, or None. "LABEL=NAME" is shown as LABEL."""
    library = ROOT / "build" / "lib" / "libzguard.so"
    if labelled := re.match(r"([\w -]+)=(.+)", name):
        tool = make_tool(labelled[2])
        if tool:
            tool.name = labelled[1]
        return tool
    if name == "glibc":
        return Tool(name, version=(os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc "))
    if re.match(r"zguard(@[^:]+)?(:|$)", name):  # "zguard", "zguard:key=value:key=value", "zguard@LIBRARY" for another build
        start, _, options = name.partition(":")
        library = Path(start.partition("@")[2] or library).absolute()
        problem = None if library.exists() else f"{library} is missing: run scripts/build"
        return Tool(name, environment={"LD_PRELOAD": str(library), **({"ZGUARD_OPTIONS": options} if options else {})},
                    problem=problem, version=program_version(str(ROOT / "build" / "bin" / "zguard")).removeprefix("zguard "))
    if name in ("scudo", "scudo-quarantine"):
        scudo = scudo_library()
        # A quarantine of 64 MiB, for blocks of up to 1 MiB.
        quarantine = "quarantine_size_kb=65536:thread_local_quarantine_size_kb=1024:quarantine_max_chunk_size=1048576"
        options = {} if name == "scudo" else {"SCUDO_OPTIONS": quarantine}
        return Tool(name, environment={"LD_PRELOAD": str(scudo), **options},
                    problem=None if scudo else "no libclang_rt.scudo_standalone library",
                    version=f"of clang {scudo.parents[2].name}" if scudo else "")
    if name in SYSTEM_ALLOCATORS:
        pattern, package = SYSTEM_ALLOCATORS[name]
        library = system_library(pattern)
        return Tool(name, environment={"LD_PRELOAD": str(library)}, problem=None if library else f"no {pattern}: install {package}",
                    version=package_version(package))
    if name == "asan":
        compiler = asan_compiler(".c")
        return Tool(name, rounds=3, environment={"ASAN_OPTIONS": "detect_leaks=0"}, problem=None if compiler else "no compiler can link -fsanitize=address",
                    version=program_version(compiler[0]) if compiler else "")
    if name == "valgrind":
        return Tool(name, prefix=["valgrind", "-q", "--tool=memcheck", "--trace-children=yes"], size=0.04, rounds=1,
                    problem=None if shutil.which("valgrind") else "valgrind is not installed",
                    version=program_version("valgrind").removeprefix("valgrind "))
    return None


def turns(tools, number):
    """Returns the order of the tools in this round: each tool begins in turn."""
    return tools[number % len(tools):] + tools[:number % len(tools)]


def machine():
    """Returns names and values of everything that a reader needs to judge the figures."""
    def grep(path, key):
        with open(path) as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(key)), "unknown")

    model = grep("/proc/cpuinfo", "model name") if platform.machine() == "x86_64" else platform.machine()
    release = {}
    for line in Path("/etc/os-release").read_text().splitlines() if Path("/etc/os-release").exists() else []:
        key, _, value = line.partition("=")
        release[key] = value.strip('"')
    return [
        ("machine", f"{model}, {os.cpu_count()} cores, {int(grep('/proc/meminfo', 'MemTotal').split()[0]) // 1024} MiB"),
        ("system", f"{release.get('PRETTY_NAME', 'Linux')}, kernel {platform.release()}, {os.confstr('CS_GNU_LIBC_VERSION')}"),
    ]


def package_version(package):
    """Returns the upstream part of an installed Debian package's version, or an empty text."""
    number = re.match(r"\d[\d.]*", first_line("dpkg-query", "-W", "-f", "${Version}", package))
    return number.group(0) if number else ""


def program_version(command):
    line = first_line("perl", "-e", "print $^V") if command == "perl" else first_line(command, "--version")
    number = re.search(r"\d+(\.\d+)+", line)
    return f"{os.path.basename(command)} {number.group(0)}" if number else os.path.basename(command)
