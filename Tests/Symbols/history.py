#!/usr/bin/env python3
"""Tests `zguard history` on waiting and stopped processes and on core files, and the `zguard` command of gdb and lldb.

The programs of Tests/Symbols/History print the addresses of their blocks; the checks below know how each address must be described.
The kernel writes core files into the directory of the run; if the system pipes them elsewhere, gdb writes them.
Closing line: N passed, N failed."""

import argparse
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, close  # noqa: E402
from Support.environment import LIBRARY, ROOT, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.slices import Slice, add_slice_option  # noqa: E402

SOURCES = TESTS / "Symbols/History"
PROGRAMS = builds.BUILD / "history"
DEBUGGERS = ROOT / "Debuggers"
SCHEMA = json.loads((ROOT / "docs/history.schema.json").read_text())
SECONDS = 30
CORE_MOST = 256 << 20  # maximum apparent size of a core file of these small programs; the runtime reserves terabytes

USAGE = 64
results = {"passed": 0, "failed": 0}


class Asked:
    """Decides which questions to ask: those of a slice, and each kind of question at least once."""

    def __init__(self):
        self.slice, self.kinds = Slice(), set()
        self.asked = self.whole = 0

    def takes(self, name, kind=""):
        self.whole += 1
        taken = kind not in self.kinds or self.slice.takes(name)
        self.kinds.add(kind)
        self.asked += taken
        return taken


asked = Asked()


def check(name, condition, shown=""):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print(f"FAILED {name}\n{shown}", flush=True)


def run(command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=SECONDS, **more)


def history(origin, address, *arguments):
    address = address if isinstance(address, str) else hex(address)
    return run([ZGUARD, "history", *arguments, "--", origin, address])


# MARK: programs


def build():
    compile_c = ["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free", "-pthread"]
    rows = [("blocks.c", [os.environ.get("CC", "gcc"), *compile_c]), ("shapes.cpp", [os.environ.get("CXX", "g++"), *compile_c]),
            ("objects.swift", [os.environ.get("SWIFTC", "swiftc"), "-swift-version", "6", "-warnings-as-errors", "-module-name", "Shop",
                               "-g", "-O"])]
    for name, command in rows:
        source, target = SOURCES / name, PROGRAMS / Path(name).stem
        builds.compiled(target, [*command, source, "-o", target], [source], cwd=PROGRAMS)


def guarded(options):
    return guarded_by(LIBRARY, options)


def addresses(lines):
    return {name: int(value, 16) for name, value in re.findall(r"^(\w+) (0x[0-9a-f]+)$", lines, re.M)}


@contextlib.contextmanager
def waiting(program, options="", arguments=()):
    """Starts a guarded program, which prints its addresses and waits; checks that it exits normally when it is released."""
    process = subprocess.Popen([program, *arguments], env=guarded(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    lines = ""
    while not lines.endswith("ready\n"):
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{program} ended early: {process.stderr.read()}")
        lines += line
    try:
        yield process, addresses(lines)
        process.stdin.close()
        process.wait(SECONDS)
        check(f"{program.name} {options} ends as if nobody had looked", process.returncode == 0,
              f"status {process.returncode}: {process.stderr.read()}")
    finally:
        process.kill()
        process.wait()


def writes_cores():
    return not Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/"))


def core_of(folder, program, argument, options="", name="core", ends=signal.SIGABRT, most=resource.RLIM_INFINITY, filter_=None):
    """Returns the core file of a guarded program that kills itself, and its addresses."""
    inside = folder / f"run-{name}"
    inside.mkdir()
    if writes_cores():
        def allow():
            resource.setrlimit(resource.RLIMIT_CORE, (most, most))
            if filter_:
                Path("/proc/self/coredump_filter").write_text(filter_)

        done = run([program, argument], cwd=inside, env=guarded(options), preexec_fn=allow)
        check(f"{program.name} {argument} dies of {ends.name}", done.returncode == -ends, f"{done.returncode} {done.stderr}")
        found = addresses(done.stdout)
        written = list(inside.glob("core*"))
    else:
        return debuggers_core(folder, program, options, name)
    check(f"a core file of {program.name} {argument} is there", len(written) == 1, str(written))
    core = folder / name
    written[0].rename(core)
    expect_small(core, f"{program.name} {options}")
    return core, found


def debuggers_core(folder, program, options, name):
    """Returns the core file that gdb writes of a waiting guarded program, and its addresses. Unlike the kernel gdb includes inaccessible
    memory, except memory with MADV_DONTDUMP."""
    core = folder / name
    with waiting(program, options) as (process, found):
        gdb = run(["gdb", "-nx", "-batch", "-p", process.pid, "-ex", f"generate-core-file {core}"],
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 * CORE_MOST, 2 * CORE_MOST)))
    check(f"gdb writes a core file of {program.name}", core.exists(), gdb.stdout + gdb.stderr)
    expect_small(core, f"{program.name} {options}, by gdb,")
    return core, found


def expect_small(core, said):
    size = core.stat()
    check(f"the core file of {said} is small", size.st_size < CORE_MOST, f"{size.st_size} bytes, {size.st_blocks * 512} on disk")


# MARK: expectations


def expect(name, origin, address, what, sentence, state=None, free=None, alloc=None, status=0, source="process", **block):
    """Checks the answer for an address as text and as JSON, and returns the JSON. `sentence`, `free` and `alloc` are regular expressions,
    the last two for a frame of the stack; the other keys are fields of the block."""
    if not asked.takes(name, f"{what} {state} {sentence}"):
        return None
    text = history(origin, address)
    done = history(origin, address, "--format", "json")
    shown = f"{text.stdout}{text.stderr}{done.stdout}{done.stderr}"
    check(f"{name}: exit status", text.returncode == done.returncode == status, shown)
    if done.returncode not in (0, 1) or not done.stdout:
        check(f"{name}: answers", False, shown)
        return None
    said = json.loads(done.stdout)
    problems = list(violations(said, SCHEMA, SCHEMA))
    check(f"{name}: schema", not problems, f"{problems}\n{shown}")
    check(f"{name}: is a {what}", said["what"] == what and said["source"] == source, shown)
    check(f"{name}: sentence", re.fullmatch(f"0x[0-9a-f]+ is {sentence}", said["sentence"]), f"{sentence}\n{shown}")
    check(f"{name}: text opens with the sentence", text.stdout.startswith(f"==zguard== {said['sentence']}\n"), shown)
    found = said.get("block", {})
    if state:
        check(f"{name}: state", found.get("state") == state, shown)
    for key, value in block.items():
        check(f"{name}: {key}", found.get(key.rstrip("_")) == value, f"{key} {value}\n{shown}")
    for stack, expected in (("free", free), ("alloc", alloc)):
        if expected is None:
            continue
        frames = [frame.get("function", "?") for frame in said["stacks"][stack]]
        wanted = re.compile(expected) if expected else None
        check(f"{name}: {stack} stack", any(wanted.search(frame) for frame in frames) if wanted else not frames,
              f"{expected}\n{shown}")
        if wanted:
            check(f"{name}: {stack} stack has lines", any(frame.get("line") for frame in said["stacks"][stack]), shown)
    return said


def violations(value, schema, root, path="$"):
    """Yields the violations of docs/history.schema.json; supports only the JSON Schema keywords used there."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "type" in schema and (not isinstance(value, kinds[schema["type"]])
                             or schema["type"] == "integer" and isinstance(value, bool)):
        yield f"{path}: not {schema['type']}"
        return
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (f"{path}: no {key}" for key in schema.get("required", []) if key not in value)
        for key, inner in value.items():
            if key in properties:
                yield from violations(inner, properties[key], root, f"{path}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}: unknown {key}"
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from violations(inner, schema.get("items", {}), root, f"{path}[{index}]")


ADDRESS = "0x[0-9a-f]+"
WINDOWS = "profile=fence:isolated_windows=all"
LIVE = dict(what="block", state="live", free="", alloc="^make_block$", allocated_with="malloc", alloc_thread=1)
DEAD = dict(what="block", free="^drop_block$", alloc="^make_block$", allocated_with="malloc", alloc_thread=1)


def expect_blocks(name, origin, at, fenced, windows=False, **more):
    live_end = at["live"] + 100
    expect(f"{name} live", origin, at["live"], sentence="the start of a live block of 100 bytes", size=100, offset=0,
           fenced=fenced, **LIVE, **more)
    expect(f"{name} into live", origin, at["live"] + 5, sentence=f"5 bytes into a live block of 100 bytes at {ADDRESS}",
           offset=5, fenced=fenced, **LIVE, **more)
    expect(f"{name} end of live", origin, live_end, sentence=f"directly behind a live block of 100 bytes at {ADDRESS}",
           offset=100, fenced=fenced, **LIVE, **more)
    expect(f"{name} behind live", origin, live_end + 4,
           sentence=f"4 bytes after the end of a live block of 100 bytes at {ADDRESS}", fenced=fenced, **LIVE, **more)
    expect(f"{name} dead", origin, at["dead"] + 1, sentence=f"1 byte into a freed block of 101 bytes at {ADDRESS}",
           state="retired" if fenced else "quarantined", fenced=fenced, free_thread=1, **DEAD, **more)
    expect(f"{name} freed by another thread", origin, at["elsewhere"], sentence="the start of a freed block of 102 bytes",
           free_thread=2, **DEAD, **more)
    expect(f"{name} large", origin, at["large"] + 299999,
           sentence=f"299999 bytes into a live block of 300000 bytes at {ADDRESS}", size=300000, **LIVE, **more)
    expect(f"{name} retired", origin, at["retired"] + 2000000, state="retired",
           sentence=f"2000000 bytes into a freed block of 3000000 bytes at {ADDRESS}", **DEAD, **more)
    expect(f"{name} empty", origin, at["empty"], "block", "the start of a live block of 0 bytes", "live", size=0, **more)
    if windows:
        said = expect(f"{name} in a window", origin, at["live"] + 1, sentence=f"1 byte into a live block of 100 bytes at {ADDRESS}",
                      in_window=True, **LIVE, **more)
        text = history(origin, at["live"]).stdout
        check(f"{name} in a window: text", not said or "in a window (its own virtual page over shared memory)" in text, text)
        expect(f"{name} dead in a window", origin, at["dead"] | 4095, state="retired", in_window=True, **DEAD,
               sentence=f"[0-9]+ bytes (into|after the end of) a freed block of 101 bytes at {ADDRESS}", **more)
        expect(f"{name} before", origin, at["live"] & ~4095, in_window=True,
               sentence=f"([0-9]+ bytes before|the start of) a live block of 100 bytes{'' if at['live'] % 4096 == 0 else f' at {ADDRESS}'}",
               **LIVE, **more)
        expect(f"{name} large block", origin, at["page"] + 1, "block", fenced=True, in_window=None,
               sentence=f"1 byte into a live block of 4096 bytes at {ADDRESS}", **more)
        unused = expect(f"{name} unused", origin, at["live"] + (1 << 30), "unused",
                        "in address space for isolated blocks that was never used", **more)
        if unused:
            check(f"{name} unused: no block", "block" not in unused)
    elif fenced:
        expect(f"{name} guard", origin, (live_end | 4095) + 50, in_guard=True,
               sentence=f"in the guard page behind a live block of 100 bytes at {ADDRESS}, [0-9]+ bytes after its end",
               **LIVE, **more)
        expect(f"{name} guard in front", origin, at["page"] - 9, "block", size=4096, offset=-9,
               sentence=f"9 bytes before a live block of 4096 bytes at {ADDRESS}", **more)
        expect(f"{name} before", origin, at["live"] - 7, offset=-7,
               sentence=f"7 bytes before a live block of 100 bytes at {ADDRESS}", **LIVE, **more)
    else:  # the first blocks of a size are in slots of the next power of two
        unused = expect(f"{name} unused", origin, at["live"] + (1 << 30), "unused", state="unused",
                        sentence=f"in the unused slot of 128 bytes at {ADDRESS}; no block is recorded there", **more)
        if unused:
            check(f"{name} unused: no stacks", not any(unused["stacks"].values()))


def expect_elsewhere(name, origin, at, **more):
    said = expect(f"{name} local", origin, at["local"], "stack", "on the stack of (a|the main) thread", **more)
    if said:
        check(f"{name} local: no block", "block" not in said)
    expect(f"{name} global", origin, at["global"], "file", r"data of /.*/blocks\+0x[0-9a-f]+, global_value", **more)
    expect(f"{name} code", origin, at["code"], "file", r"code of /.*/blocks\+0x[0-9a-f]+, make_block", **more)
    for address in (0, 8, (1 << 64) - 1, 1 << 63, 0xffff_8000_0000_0000):
        expect(f"{name} {address:#x}", origin, address, "nothing", "not mapped", status=1, **more)
    expect(f"{name} fill", origin, 0x5555_5555_5555_5565, "fill", "the runtime's fill pattern for freed or new memory: .*", **more)


def expect_objects(name, origin, at, fenced=False, **more):
    swift, dead = dict(language="swift", **more), "formerly an object of class Shop.Stock<Swift.String>"
    expect(f"{name} object", origin, at["cart"], "block", "the start of a live block of 32 bytes, an object of class Shop.Cart",
           "live", class_="Shop.Cart", free="", **swift)
    expect(f"{name} property", origin, at["cart"] + 27, "block", offset=27, member="items",
           sentence=f"27 bytes into a live block of 32 bytes at {ADDRESS}, an object of class Shop.Cart \\(property items\\)",
           **swift)
    expect(f"{name} generic", origin, at["stock"] + 32, "block", member="element", class_="Shop.Stock<Swift.Int>",
           sentence="32 bytes into .* an object of class Shop.Stock<Swift.Int> \\(property element\\)", **swift)
    said = expect(f"{name} dead object", origin, at["dead"] + 16, "block", member="total", class_="Shop.Stock<Swift.String>",
                  sentence=f"16 bytes into a freed block of 48 bytes at {ADDRESS}, {dead} \\(property total\\)",
                  free="makeAndDrop", alloc="makeAndDrop", **swift)
    trap = f"a trap word that replaced %s of a deallocated Shop.Stock<Swift.String> \\(48 bytes at {ADDRESS}\\)"
    words = {"class_trap": "the class pointer", "count_trap": "the reference count", "property_trap": "property Stock.items"}
    check_words(name, at, fenced, words)
    if not fenced:
        for word, part in words.items():
            expect(f"{name} {word}", origin, at[word], "trap", trap % part, start=hex(at["dead"]), free="makeAndDrop", **swift)
        expect(f"{name} type of the dead", origin, at["class_trap"] + 8, "trap", ".*class pointer of .* plus an offset that a cast reads",
               **swift)
    return said


def check_words(name, at, fenced, words):
    """Checks that the program has read these trap words, or that the page of a freed isolated object is inaccessible."""
    check(f"{name}: trap words", [word in at for word in words] == [not fenced] * len(words), f"{at}")


def expect_shapes(name, origin, at, fenced=False, **more):
    cxx = dict(language="c++", class_="geo::Circle", allocated_with="operator new", **more)
    expect(f"{name} C++ object", origin, at["live"] + 8, "block", "8 bytes into a live block .*, an object of class geo::Circle",
           "live", alloc=r"make\(\)", free="", **cxx)
    expect(f"{name} dead C++ object", origin, at["dead"], "block", "the start of a freed block .*, formerly an object of class geo::Circle",
           free=r"drop\(", **cxx)
    plain = expect(f"{name} array", origin, at["plain"], "block", "the start of a live block of 40 bytes", "live",
                   allocated_with="operator new[]", **more)
    if plain:
        check(f"{name} array: no class", "class" not in plain["block"])
    check_words(name, at, fenced, ["class_trap"])
    if fenced:
        return
    expect(f"{name} virtual table", origin, at["class_trap"] + 16, "trap",
           r".* class pointer of a deallocated geo::Circle \(24 bytes at 0x[0-9a-f]+\), plus the offset of a call of geo::Circle::area\(\) const",
           start=hex(at["dead"]), **cxx)


# MARK: processes


def state_of(process):
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]


def check_processes(folder):
    with waiting(PROGRAMS / "blocks", "isolated_per_context=0") as (process, at):
        expect_blocks("slots", process.pid, at, fenced=False)
        expect_elsewhere("process", process.pid, at)
        decimal = history(process.pid, str(at["live"]))
        check("decimal addresses", decimal.returncode == 0 and "start of a live block" in decimal.stdout, decimal.stdout)
        os.kill(process.pid, signal.SIGSTOP)
        while state_of(process.pid) != "T":
            time.sleep(0.01)
        expect_blocks("stopped", process.pid, at, fenced=False)
        check("a stopped process stays stopped", state_of(process.pid) == "T", state_of(process.pid))
        os.kill(process.pid, signal.SIGCONT)
    with waiting(PROGRAMS / "blocks", "profile=fence:isolated_windows=off") as (process, at):
        expect_blocks("fenced", process.pid, at, fenced=True)
    with waiting(PROGRAMS / "blocks", WINDOWS) as (process, at):
        expect_blocks("windows", process.pid, at, fenced=True, windows=True)
    for options in ("isolated_per_context=0", "profile=fence:isolated_windows=off", WINDOWS):
        fenced = options != "isolated_per_context=0"
        with waiting(PROGRAMS / "objects", options) as (process, at):
            said = expect_objects(options, process.pid, at, fenced)
            if said:
                died = said.get("block", {}).get("free_time_ns", 0)
                check(f"{options}: time of death", abs(time.time() - died / 1e9) < SECONDS, f"{died} at {time.time()}")
        with waiting(PROGRAMS / "shapes", options) as (process, at):
            expect_shapes(options, process.pid, at, fenced)
    check_writes(WINDOWS)
    with waiting(PROGRAMS / "objects", "zombies=0:isolated_per_context=0") as (process, at):
        expect("zombies off", process.pid, at["dead"], "block", "the start of a freed block of 48 bytes", "quarantined")


def check_writes(options):
    """`zguard check` reads the same records: it finds writes after the end of a live block and into a freed one."""
    with waiting(PROGRAMS / "blocks", options, ["write"]) as (process, at):
        done = run([ZGUARD, "check", "--format", "json", process.pid])
        found = {finding["kind"]: finding for finding in map(json.loads, done.stdout.splitlines())}
        shown = done.stdout + done.stderr
        check(f"{options}: zguard check finds both writes", sorted(found) == ["heap-overflow", "write-after-free"], shown)
        for kind, address, size in (("heap-overflow", at["live"] + 100, 100), ("write-after-free", at["accessible"] + 7, 48)):
            finding = found.get(kind, {"block": {}, "stacks": {"alloc": []}})
            check(f"{options}: {kind} at its address", finding.get("address") == hex(address), shown)
            check(f"{options}: {kind} of its block", finding["block"].get("size") == size, shown)
            check(f"{options}: {kind} with its stack", "make_block" in [frame.get("function") for frame in finding["stacks"]["alloc"]], shown)


def check_busy(folder):
    """Another thread allocates and frees a block continuously: each answer must be one of the block's states."""
    seen = set()
    with waiting(PROGRAMS / "blocks", "isolated_per_context=0:isolated_overhead=0%:quarantine_bytes=0:quarantine_per_context=0", ["churn"]) as (process, at):
        for _ in range(40):
            done = history(process.pid, at["busy"], "--format", "json")
            check("busy: answers", done.returncode == 0 and not done.stderr, done.stdout + done.stderr)
            said = json.loads(done.stdout or "{}")
            check("busy: schema", not list(violations(said, SCHEMA, SCHEMA)), done.stdout)
            block = said.get("block", {})
            seen.add(block.get("state"))
            check("busy: size", block.get("size") == 40 and "class" not in block, done.stdout)
    check("busy: seen in some states", seen <= {"live", "freeing", "quarantined", "retired", "reusable"} and seen, str(seen))


def check_refusals(folder):
    def refused(name, done, status, message):
        lines = done.stderr.splitlines()
        check(f"{name}: exit status", done.returncode == status, f"{done.returncode} {done.stderr}")
        check(f"{name}: message", not done.stdout and 1 <= len(lines) <= 2 and re.search(message, lines[0])
              and lines[0].startswith("zguard: error: ") and all(line.startswith("hint: ") for line in lines[1:]), done.stderr)

    for word in ("", "x", "0x", "-1", "+5", "0x1g", "1.5", "0x10000000000000000", "18446744073709551616", "main", "\x1b[2J"):
        refused(f"address {word!r}", history("1", word), USAGE, "is not an address")
    for words in ([], ["1"], ["1", "0x10", "0x20"]):
        refused(f"{len(words)} operands", run([ZGUARD, "history", *words]), USAGE, "zguard history")
    refused("process 0", history("0", "0x10"), USAGE, "not a process id")
    ended = subprocess.Popen(["true"])
    ended.wait()
    refused("process gone", history(ended.pid, "0x10"), 1, "does not exist")
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    refused("process ended", history(zombie.pid, "0x10"), 1, "does not exist")
    zombie.wait()
    refused("process unguarded", history(os.getpid(), "0x10"), 1, "is not guarded")
    (folder / "empty").write_bytes(b"")
    (folder / "garbage").write_bytes(random.Random(5).randbytes(100000))
    (folder / "packed").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    for origin, message in ((folder / "empty", "is not a core file: it is empty"), (folder / "garbage", "is not a core file"),
                            (PROGRAMS / "blocks", "an executable"), (folder / "packed", "is not a core file: it is empty"),
                            (folder / "missing", "No such file"), (folder, "Is a directory")):
        refused(origin.name, history(origin, "0x10"), 1, message)
    refused("device", history("/dev/null", "0x10"), 1, "special file")
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    refused("fifo", history(fifo, "0x10"), 1, "special file")


# MARK: core files


def check_cores(folder):
    more = dict(source="core")
    core, at = core_of(folder, PROGRAMS / "blocks", "abort", "isolated_per_context=0")
    expect_blocks("core", core, at, fenced=False, **more)
    expect_elsewhere("core", core, at, **more)
    check_damage(folder, core, at)
    finding, found = core_of(folder, PROGRAMS / "blocks", "double-free", "", "core-finding")
    core_windows, at_windows = core_of(folder, PROGRAMS / "blocks", "abort", WINDOWS, "core-windows")
    core_gdb, at_gdb = debuggers_core(folder, PROGRAMS / "blocks", WINDOWS, "core-gdb")
    expect_blocks("gdb's core", core_gdb, at_gdb, fenced=True, windows=True, **more)
    expect_blocks("core with windows", core_windows, at_windows, fenced=True, windows=True, **more)
    expect_blocks("core of a finding", finding, found, fenced=True, **more)
    for options in ("isolated_per_context=0", "on_finding=continue:isolated_per_context=0"):
        core, at = core_of(folder, PROGRAMS / "objects", "abort", options, f"core-objects-{options}")
        expect_objects(f"core {options}", core, at, **more)
    core, at = core_of(folder, PROGRAMS / "blocks", "read", "", "core-fault", signal.SIGSEGV)
    expect_blocks("core of a fault", core, at, fenced=True, **more)
    core, at = core_of(folder, PROGRAMS / "blocks", "abort", "stats=0:isolated_per_context=0", "core-unpublished")
    expect_blocks("core without a published page", core, at, fenced=False, **more)
    if writes_cores():
        check_partial(folder)
    core, at = core_of(folder, PROGRAMS / "objects", "use", "isolated_per_context=0", "core-use", signal.SIGSEGV)
    said = expect_objects("core of a use", core, at, **more)
    if said:
        before = core.stat().st_mtime - said.get("block", {}).get("free_time_ns", 0) / 1e9
        check("core of a use: time of death", writes_cores() is False or 0.9 < before < SECONDS, f"{before} s before the core file")
    core, at = core_of(folder, PROGRAMS / "shapes", "abort", "isolated_per_context=0", "core-shapes")
    expect_shapes("core", core, at, **more)
    check_replaced(folder)


def check_partial(folder):
    """Core files that the system truncated, or wrote without shared memory."""
    for name, message, how in (("core-limited", "is truncated and has no statistics page of zguard", dict(most=1 << 18)),
                               ("core-filtered", "without the statistics page", dict(filter_="0x31"))):
        core, at = core_of(folder, PROGRAMS / "blocks", "abort", "", name, **how)
        done = history(core, at["live"])
        check(f"{name}: message", done.returncode == 1 and re.search(message, done.stderr) and "hint: " in done.stderr, done.stderr)


def check_damage(folder, core, at):
    """Truncated and overwritten core files: zguard prints an answer or one error message, and never crashes."""
    whole = core.read_bytes()
    damaged = folder / "damaged"

    def survives(name, contents):
        if not asked.takes(f"damaged core, {name}", re.sub(r"\d+", "N", name)):
            return None
        damaged.write_bytes(contents)
        done = history(damaged, at["dead"])
        lines = done.stderr.splitlines()
        fine = done.returncode in (0, 1) and (bool(done.stdout) or (lines and lines[0].startswith("zguard: error: ")))
        check(f"damaged core, {name}: status and message", fine and len(lines) < 6, f"{done.returncode} {done.stdout}{done.stderr}")
        return done

    for size in (1, 17, 63, 64, 65, 200, 1000, 4096, len(whole) // 10, len(whole) // 2, len(whole) - 5000, len(whole) - 1):
        survives(f"{size} of {len(whole)} bytes", whole[:size])
    cut = survives("cut off behind its notes", whole[:20000])
    if cut:
        check("a core file that is cut off says so",
              "is truncated and has no statistics page of zguard" in cut.stderr and "hint: " in cut.stderr, cut.stderr)
    chance = random.Random(11)
    for number in range(30):
        contents = bytearray(whole)
        for _ in range(chance.choice([1, 4, 64])):
            place = chance.randrange(0, 64 if number % 3 == 0 else 0x3000)
            contents[place] = chance.choice([0, 1, 0x7f, 0xff, chance.randrange(256)])
        survives(f"overwritten {number}", contents)


def check_replaced(folder):
    """The program file was replaced meanwhile: zguard does not read the new file for contents that the core omits."""
    program = folder / "replaced"
    shutil.copy(PROGRAMS / "objects", program)
    core, at = core_of(folder, program, "abort", "isolated_per_context=0", "core-replaced")
    expect("before it is replaced", core, at["cart"], "block", ".*class Shop.Cart", class_="Shop.Cart", source="core")
    shutil.copy(PROGRAMS / "blocks", folder / "new")
    (folder / "new").rename(program)
    done = history(core, at["cart"])
    check("a replaced program is noted", done.returncode == 0 and "another" in done.stderr, done.stderr)
    check("a replaced program names nothing", "live block of 32 bytes" in done.stdout and "Shop.Cart" not in done.stdout
          and "make_block" not in done.stdout, done.stdout)


# MARK: debuggers


def lldb_command():
    """Returns lldb and its environment: the toolchain's, which may need a Python of its own, or the system's; None if neither works."""
    swift = shutil.which("swiftc")
    own = Path(swift).resolve().parent / "lldb" if swift else None
    pythons = sorted(Path.home().glob(".pyenv/versions/3.10*"))
    candidates = [(own, {})] + [(own, {"LD_LIBRARY_PATH": f"{python}/lib", "PYTHONHOME": str(python)}) for python in pythons]
    paths = sorted(Path("/usr/lib").glob("llvm-*/lib/python3*/dist-packages"))
    candidates += [(Path(found), {"PYTHONPATH": ":".join(map(str, paths))}) for found in ["/usr/bin/lldb"]]
    for program, environment in candidates:
        if program and program.exists():
            done = run([program, "-b", "-o", "script print(6 * 7)"], env=scrubbed(**environment))
            if "\n42" in done.stdout:
                return program, environment
    return None, None


class GDB:
    name, copies = "gdb", True

    def ask(self, target, commands, **environment):
        arguments = ["-p", target] if isinstance(target, int) else [str(part) for part in target]
        script = ["-ex", f"source {DEBUGGERS}/zguard_gdb.py"]
        for command in commands:
            script += ["-ex", command]
        done = run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", *arguments, *script],
                   env=scrubbed(**{"ZGUARD": str(ZGUARD), **environment}))
        return done.stdout + done.stderr


class LLDB:
    name, copies = "lldb", False

    def __init__(self, program, environment):
        self.program, self.environment = program, environment

    def ask(self, target, commands, **environment):
        if isinstance(target, int):
            arguments = ["-p", target]
        else:
            arguments = [*(["-c", target[1]] if len(target) > 1 else []), *target[:1]]
        script = ["-o", f"command script import {DEBUGGERS}/zguard_lldb.py"]
        for command in commands:
            script += ["-o", command]
        done = run([self.program, "--no-lldbinit", "-b", *arguments, *script],
                   env=scrubbed(**{**self.environment, "ZGUARD": str(ZGUARD), **environment}))
        return done.stdout + done.stderr


def check_debugger(folder, debugger, core, at):
    def says(name, answer, *parts):
        check(f"{debugger.name}: {name}", all(re.search(part, answer) for part in parts), f"{parts}\n{answer}")

    program = PROGRAMS / "blocks"
    dead = "freed block of 101 bytes", "drop_block", r"blocks\.c:\d+"
    answer = debugger.ask([program, core], [f"zguard {at['dead']:#x}", "zguard &global_value"])
    says("core file", answer, *dead, "from a core file", r"blocks\+0x[0-9a-f]+, global_value")
    with waiting(program, "isolated_per_context=0") as (process, found):
        answer = debugger.ask(process.pid, [f"zguard (char *){found['dead']:#x} + 3", "zguard --json &global_value"])
        says("process", answer, "3 bytes into a " + dead[0], *dead[1:], '"what":"file"')
        # Only the debugger may access the process: gdb writes a copy for zguard, lldb cannot.
        wrapper = folder / "forbidden"
        wrapper.write_text("#!/bin/sh\n"
                           'case "$3" in [0-9]*) echo "zguard: error: no permission to look into process $3" >&2; exit 1 ;; esac\n'
                           f'[ "$(stat -c %s "$3")" -lt {CORE_MOST} ] || exit 5\n'
                           f'exec "{ZGUARD}" "$@"\n')
        wrapper.chmod(0o755)
        answer = debugger.ask(process.pid, [f"zguard {found['dead']:#x}"], ZGUARD=str(wrapper))
        says("a process that is not ours", answer, *((*dead, "from a core file") if debugger.copies else ["no permission to look"]))
    says("no program", debugger.ask([], ["zguard 16"]), "there is no program")
    says("no expression", debugger.ask([program, core], ["zguard"]), "an address is missing")
    says("bad expression", debugger.ask([program, core], ["zguard no_such_name"]), "zguard: 'no_such_name' is no")
    says("bad ZGUARD", debugger.ask([program, core], ["zguard 16"], ZGUARD="/nonexistent"), "cannot be run")
    with builds.system_wide():
        nowhere = debugger.ask([program, core], ["zguard 16"], ZGUARD="", PATH="/usr/bin:/bin")
    says("no zguard", nowhere, "was not found|is not mapped")
    unguarded = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unguarded.stdout.readline()
    says("not guarded", debugger.ask(unguarded.pid, ["zguard 16"]), r"process \d+ is not guarded")
    unguarded.communicate()
    # The debugger script finds zguard in an installation prefix.
    prefix = folder / f"prefix-{debugger.name}"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/zguard").symlink_to(ZGUARD)
    shutil.copytree(DEBUGGERS, prefix / "share/zguard")
    script = prefix / f"share/zguard/zguard_{debugger.name}.py"
    load = f"source {script}" if debugger.name == "gdb" else f"command script import {script}"
    says("installed", debugger.ask([program, core], [load, f"zguard {at['dead']:#x}"], ZGUARD="", PATH="/usr/bin:/bin"), *dead)


def check_debuggers(folder):
    core, at = core_of(folder, PROGRAMS / "blocks", "abort", "isolated_per_context=0", "core-debuggers")
    check("gdb is there", shutil.which("gdb"))
    check_debugger(folder, GDB(), core, at)
    program, environment = lldb_command()
    check("an lldb with Python is there", program)
    if program:
        check_debugger(folder, LLDB(program, environment), core, at)


def main():
    parts = {"processes": check_processes, "busy": check_busy, "refusals": check_refusals, "cores": check_cores,
             "debuggers": check_debuggers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", action="append", choices=parts, help="only this part")
    add_slice_option(parser)
    arguments = parser.parse_args()
    asked.slice, chosen = arguments.slice, arguments.filter or parts
    with tempfile.TemporaryDirectory(prefix="zguard-history-") as name:
        folder = Path(name)
        try:
            build()
        except Failed as failure:
            print(f"FAILED {failure}")
            return close(0, 1)
        for part, body in parts.items():
            if part in chosen:
                started = time.monotonic()
                body(folder)
                print(f"{part}: {time.monotonic() - started:.1f} s", flush=True)
    asked.slice.say(asked.asked, asked.whole, "questions")
    return close(results["passed"], results["failed"])


if __name__ == "__main__":
    sys.exit(main())
