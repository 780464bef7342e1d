"""What is measured: the allocation micro-benchmarks of micro/, Swift objects in swift/, and real programs on generated inputs."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS = HERE.parent / "Tests" / "Programs" / "inputs"
sys.path.insert(0, str(HERE.parent / "Tests" / "Programs"))
sys.dont_write_bytecode = True

import generate  # noqa: E402


class Target:
    """One program. `command(size)` is its argument list: size 1 is the full work, less is a part of it."""
    kind = "real"
    needs = ()

    def __init__(self, name):
        self.name = name
        self.environment = {}

    def supports(self, tool):
        return tool != "asan"  # which needs the program's source

    def missing(self):
        return [command for command in self.needs if not shutil.which(command)]

    def prepare(self, work, size):
        """Creates the inputs for this size under `work`, a directory of the target's own."""

    def command(self, work, size, tool):
        raise NotImplementedError

    def drive(self, process, work, size):
        """For servers: uses the started program and ends it. Returns the seconds that the clients took."""
        return None


class Micro(Target):
    kind = "micro"

    def __init__(self, source):
        super().__init__(source.stem)
        self.source = source

    def build(self, folder, compiler_for):
        """Compiles the plain program, and the AddressSanitizer build where a compiler can make one."""
        self.programs = {}
        for variant in ("plain", "asan"):
            compiler = compiler_for(variant, self.source.suffix)
            if not compiler:
                continue
            program = folder / f"{self.name}-{variant}"
            standard = "-std=c++17" if self.source.suffix == ".cpp" else "-std=c17"
            newest = max(self.source.stat().st_mtime, (HERE / "micro" / "bench.h").stat().st_mtime)
            if not program.exists() or program.stat().st_mtime < newest:
                # Output only where it failed: linkers warn at length about the sanitizer's own symbols.
                result = subprocess.run([*compiler, standard, "-O2", "-g", str(self.source), "-o", str(program), "-pthread"],
                                        capture_output=True, text=True)
                if result.returncode != 0:
                    sys.exit(f"benchmarks: error: cannot compile {self.source.name}\n{result.stderr[-2000:]}")
            self.programs[variant] = program

    def supports(self, tool):
        return tool != "asan" or "asan" in self.programs

    def command(self, work, size, tool):
        return [self.programs["asan" if tool == "asan" else "plain"], size]


class SwiftMicro(Target):
    """One Swift file of swift/, compiled as a release build is."""
    needs = ("swiftc",)

    def __init__(self, source):
        super().__init__(source.stem)
        self.source = source
        self.kind = "real" if self.name == "swift-workload" else "micro"

    def build(self, folder, compiler_for):
        self.program = folder / self.name
        if self.missing() or self.program.exists() and self.program.stat().st_mtime > self.source.stat().st_mtime:
            return
        result = subprocess.run(["swiftc", "-O", "-parse-as-library", str(self.source), "-o", str(self.program)], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"benchmarks: error: cannot compile {self.source.name}\n{result.stderr[-2000:]}")

    def command(self, work, size, tool):
        return [self.program, size]


class Starts(Target):
    """What it costs to be loaded: short processes, one after the other."""
    kind = "micro"
    needs = ("bash",)

    def command(self, work, size, tool):
        return ["bash", "-c", f"for ((i = 0; i < {int(400 * size)}; i++)); do /bin/true; done"]


class Sqlite(Target):
    needs = ("sqlite3",)

    def prepare(self, work, size):
        (work / "work.sql").write_text(generate.sql(int(400_000 * size)))

    def command(self, work, size, tool):
        return ["sqlite3", ":memory:", f".read '{work}/work.sql'"]


class Script(Target):
    """An interpreter on a script that takes the size as its argument."""

    def __init__(self, name, interpreter, script, environment=None):
        super().__init__(name)
        self.needs = (interpreter,)
        self.interpreter, self.script = interpreter, HERE / "programs" / script
        self.environment = environment or {}

    def command(self, work, size, tool):
        return [self.interpreter, self.script, size]


class GitLog(Target):
    needs = ("git",)

    def prepare(self, work, size):
        generate.git_repository(work / "origin.git", commits=int(6000 * size))

    def command(self, work, size, tool):
        return ["git", "-C", work / "origin.git", "log", "-p", "--stat", "-M", "-C"]


class Compile(Target):
    """The compiler proper, from a large generated file to an object file."""

    def __init__(self, name, compiler, functions, flags):
        super().__init__(name)
        self.needs, self.functions, self.flags = (compiler,), functions, flags

    def prepare(self, work, size):
        (work / "big.c").write_text(generate.c_source(max(5, int(self.functions * size))))

    def command(self, work, size, tool):
        return [*self.needs, *self.flags, "-c", work / "big.c", "-o", work / "big.o"]


class CompileCxx(Compile):
    def prepare(self, work, size):
        # Headers cost most of a small program's time, so a small part of the work has few of them.
        small = "#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; return m[\"a\"]; }\n"
        (work / "big.cpp").write_text(small if size < 0.1 else generate.cxx_source(max(1, int(self.functions * size))))

    def command(self, work, size, tool):
        return [*self.needs, *self.flags, "-std=c++17", "-c", work / "big.cpp", "-o", work / "big.o"]


class Swiftc(Target):
    needs = ("swiftc",)

    def command(self, work, size, tool):
        if size < 0.1:
            return ["swiftc", "-O", INPUTS / "script.swift", "-o", work / "program"]
        return ["swiftc", "-O", "-parse-as-library", INPUTS / "Inventory.swift", "-o", work / "program"]


class SwiftProgram(Target):
    """A compiled Swift program."""
    needs = ("swiftc",)

    def prepare(self, work, size):
        subprocess.run(["swiftc", "-O", "-parse-as-library", str(INPUTS / "Inventory.swift"), "-o", str(work / "program")], check=True)

    def command(self, work, size, tool):
        return [work / "program", max(1, int(4 * size))]


class Redis(Target):
    """The server's processor time and memory; its time is what a benchmark client, never guarded, needs with it."""
    needs = ("redis-server", "redis-benchmark")

    def command(self, work, size, tool):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        return ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", work, "--save", "", "--logfile", work / "log"]

    def drive(self, process, work, size):
        for _ in range(1200):
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        break
            except OSError:
                pass
            if process.poll() is not None:
                return None
            time.sleep(0.05)
        started = time.monotonic()
        subprocess.run(["redis-benchmark", "-p", str(self.port), "-t", "set,get,lpush,lrange_100,mset,hset", "-n", str(int(60_000 * size)),
                        "-r", "20000", "-d", "100", "-P", "4", "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        seconds = time.monotonic() - started
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")
            connection.recv(16)
        return seconds


PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"


def all_targets():
    micro = [Micro(source) for source in sorted((HERE / "micro").glob("*.c*"))]
    swift = [SwiftMicro(source) for source in sorted((HERE / "swift").glob("*.swift"))]
    real = [
        Sqlite("sqlite3"),
        Script("python3", PYTHON, "work.py"),
        Script("python3-malloc", PYTHON, "work.py", {"PYTHONMALLOC": "malloc"}),
        Script("perl", "perl", "work.pl"),
        GitLog("git-log"),
        Compile("gcc", "gcc", 330, ("-O2",)),
        CompileCxx("clang++", "clang++", 2, ("-O1",)),
        Swiftc("swiftc"),
        SwiftProgram("swift-program"),
        Redis("redis"),
    ]
    small = [target for target in swift if target.kind == "micro"]
    return [*micro, Starts("starts"), *small, *real, *(target for target in swift if target.kind == "real")]
