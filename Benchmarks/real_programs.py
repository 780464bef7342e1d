"""Real programs on generated inputs: databases, interpreters, compilers, text, a server."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from target import SwiftTarget, Target

HERE = Path(__file__).resolve().parent
INPUTS = HERE.parent / "Tests" / "Programs" / "inputs"
sys.path[:0] = [str(HERE.parent / "Tests" / "Programs"), str(HERE.parent / "Tests")]

import generate  # noqa: E402
from Support.ports import Ports  # noqa: E402


class Sqlite(Target):
    needs = ("sqlite3",)

    def prepare(self, work, size):
        (work / "work.sql").write_text(generate.sql(int(400_000 * size)))

    def command(self, work, size, tool):
        return ["sqlite3", ":memory:", f".read '{work}/work.sql'"]


class Script(Target):
    """An interpreter with a script that takes the size as its argument."""

    def __init__(self, name, interpreter, script, environment=None):
        super().__init__(name)
        self.needs = (interpreter,)
        self.interpreter, self.script = interpreter, HERE / "inputs" / script
        self.environment = environment or {}

    def command(self, work, size, tool):
        return [self.interpreter, self.script, size]


class Text(Target):
    """A command on a generated text file, its last argument. `lines` is the full size."""

    def __init__(self, name, command, lines):
        super().__init__(name)
        self.needs, self.words, self.lines = command[:1], command, lines

    def prepare(self, work, size):
        (work / "text").write_text(generate.text_lines(int(self.lines * size)))

    def command(self, work, size, tool):
        return [*self.words, work / "text"]


class Jq(Target):
    needs = ("jq",)

    def prepare(self, work, size):
        rows = [row.split("\t") for row in generate.text_lines(int(60_000 * size)).splitlines()]
        (work / "rows.json").write_text(json.dumps([dict(zip(("key", "words", "number", "code"), row)) for row in rows]))

    def command(self, work, size, tool):
        return ["jq", "-c", "-f", HERE / "inputs" / "work.jq", work / "rows.json"]


class GitLog(Target):
    needs = ("git",)

    def prepare(self, work, size):
        generate.git_repository(work / "origin.git", commits=int(6000 * size))

    def command(self, work, size, tool):
        return ["git", "-C", work / "origin.git", "log", "-p", "--stat", "-M", "-C"]


class Compile(Target):
    """A C compiler on a large generated file: makes an object file, and does not link."""

    def __init__(self, name, compiler, functions, flags):
        super().__init__(name)
        self.needs, self.functions, self.flags = (compiler,), functions, flags

    def prepare(self, work, size):
        (work / "big.c").write_text(generate.c_source(max(5, int(self.functions * size))))

    def command(self, work, size, tool):
        return [*self.needs, *self.flags, "-c", work / "big.c", "-o", work / "big.o"]


class CompileCxx(Compile):
    def prepare(self, work, size):
        # Compiling the headers takes most of the time of a small program, so small sizes include few headers.
        small = "#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; return m[\"a\"]; }\n"
        (work / "big.cpp").write_text(small if size < 0.1 else generate.cxx_source(max(1, int(self.functions * size))))

    def command(self, work, size, tool):
        return [*self.needs, *self.flags, "-std=c++17", "-c", work / "big.cpp", "-o", work / "big.o"]


class Swiftc(SwiftTarget):
    """The Swift compiler and its linker: many processes."""
    def command(self, work, size, tool):
        if size < 0.1:
            return ["swiftc", "-O", INPUTS / "script.swift", "-o", work / "program"]
        return ["swiftc", "-O", "-parse-as-library", INPUTS / "Inventory.swift", "-o", work / "program"]


class SwiftProgram(SwiftTarget):
    """A compiled Swift program."""

    def prepare(self, work, size):
        subprocess.run(["swiftc", "-O", "-parse-as-library", str(INPUTS / "Inventory.swift"), "-o", str(work / "program")],
                       check=True)

    def command(self, work, size, tool):
        return [work / "program", max(1, int(4 * size))]


class Redis(Target):
    """Processor time and memory are the server's; wall-clock time is that of redis-benchmark, which is not guarded."""
    needs = ("redis-server", "redis-benchmark")
    ports = Ports()

    def command(self, work, size, tool):
        self.ports.close()
        self.port = self.ports.take()
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


def all_programs():
    return [
        Sqlite("sqlite3"),
        Script("python3", PYTHON, "work.py"),
        Script("python3-malloc", PYTHON, "work.py", {"PYTHONMALLOC": "malloc"}),
        Script("perl", "perl", "work.pl"),
        Script("ruby", "ruby", "work.rb"),
        Script("lua", "lua5.4", "work.lua"),
        Script("node", "node", "work.mjs"),
        Text("gawk", ("gawk", "-f", HERE / "inputs" / "work.awk"), 300_000),
        Text("sort", ("sort", "-S", "8M", "--parallel=2", "-t", "\t", "-k2,2", "-k3n"), 600_000),
        Text("xz", ("xz", "-5", "-T1", "-c"), 60_000),
        Jq("jq"),
        GitLog("git-log"),
        Compile("gcc", "gcc", 330, ("-O2",)),
        CompileCxx("clang++", "clang++", 2, ("-O1",)),
        Swiftc("swiftc"),
        SwiftProgram("swift-program"),
        Redis("redis"),
    ]
