#!/usr/bin/env python3
"""The regression gate: how many instructions the library executes for one operation, compared with stored figures.

Instructions are counted by callgrind, those of the library alone, at two sizes; their difference over the operations in
between depends neither on start-up nor on libc, the machine or its load. Closing line: N passed, N failed.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402
import tools as with_tools  # noqa: E402

STORED = HERE / "instructions.json"
LIBRARY = building.ROOT / "build" / "lib" / "libzguard.so"
# The larger size is this and as much again; beyond it the quarantine is full and every operation costs the same.
OPERATIONS = 20480
NEW, WHOLE = "new-stack", "whole-new-stack"
START_UP = "start-up"  # of `true`: the whole run, in instructions
ALLOWED = 0.03
# Which blocks and dead pages get protection of their own, and how much of a stack is recorded, depends on processor time, and so would
# the counts.
OPTIONS = "fence_per_context=0:fence_overhead=0:stack_overhead=100%"
# What is read of the machine's memory at the start is as long as the machine says.
START_UP_OPTIONS = OPTIONS + ":pressure=off"


def count_in_library(profile, library):
    """Instructions executed in the functions of this library, of a callgrind profile's text: without those that they call."""
    names, current, total, is_call = {}, None, 0, False
    for line in profile.splitlines():
        if match := re.match(r"(ob|cob)=\((\d+)\)(?: (.*))?$", line):
            kind, number, name = match.groups()
            if name:
                names[number] = name
            if kind == "ob":
                current = names[number]
        elif line.startswith("calls="):
            is_call = True  # the next line is what the called function took with all that it called
        elif re.match(r"[0-9+*-]", line):
            if not is_call and current == library:
                total += int(line.split()[1])
            is_call = False
    return total


class Counter:
    """Counts in a directory of its own, with a copy of the library without debug information, which valgrind cannot read."""

    def __init__(self, work, library):
        self.work, self.library = work, work / "libzguard.so"
        subprocess.run(["strip", "--strip-debug", "-o", str(self.library), str(library)], check=True)

    def count(self, *command, options=OPTIONS):
        """Instructions of the library in this program's run; where they cannot be counted the gate ends with an error."""
        profile = self.work / "profile"
        profile.unlink(missing_ok=True)
        # Addresses decide which sets of a cache are used: valgrind chooses the same ones each time, the environment is always the same.
        words = [shutil.which("valgrind"), "--tool=callgrind", f"--callgrind-out-file={profile}", *command]
        environment = {"LC_ALL": "C", "LD_PRELOAD": str(self.library), "ZGUARD_OPTIONS": options}
        result = with_tools.run_quietly(words, environment)
        total = count_in_library(profile.read_text(), str(self.library)) if profile.exists() else 0
        if result.returncode != 0 or total == 0:
            reason = f"status {result.returncode}" if result.returncode else "the library was not there"
            sys.exit(f"instructions: error: {' '.join(map(str, command))} under callgrind: {reason}\n{result.stderr[-1000:]}")
        return total

    def per_operation(self, program, name, options=OPTIONS):
        least, most = (self.count(program, name, count, options=options) for count in (OPERATIONS, 2 * OPERATIONS))
        return (most - least) / OPERATIONS


def measure(library):
    """{name: instructions}: for one operation each, and the start-up's."""
    program = building.Compilers(with_asan=False).program(HERE / "instructions" / "operations.cpp")
    names = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory(prefix="zguard-instructions-") as work:
        counter = Counter(Path(work), library)
        rows = {name: round(counter.per_operation(program, name), 1) for name in names}
        # By default stacks that do not repeat are recorded in part.
        rows[WHOLE] = round(counter.per_operation(program, NEW, OPTIONS + ":stack_bytes=16g"), 1)
        return {**rows, START_UP: counter.count("/bin/true", options=START_UP_OPTIONS)}


def judge(stored, now):
    if stored is None:
        return "not stored"
    if now > stored * (1 + ALLOWED):
        return "WORSE"
    return "better" if now < stored * (1 - ALLOWED) else "ok"


def compare(rows, stored):
    """Prints a line for each row; returns the verdicts."""
    verdicts = {name: judge(stored.get(name), rows[name]) if name in rows else "gone" for name in {**stored, **rows}}
    print(f"{'instructions for one':<20} {'stored':>10} {'now':>10} {'ratio':>7}")
    for name, verdict in verdicts.items():
        old, new = stored.get(name, "-"), rows.get(name, "-")
        ratio = f"{new / old:.3f}" if name in stored and name in rows else "-"
        print(f"{name:<20} {old:>10} {new:>10} {ratio:>7}  {verdict}")
    return list(verdicts.values())


def store(rows):
    compiler = with_tools.plain_compiler(".cpp")[0]
    document = {"valgrind": with_tools.program_version("valgrind").removeprefix("valgrind "),
                "library": with_tools.make_tool("zguard").version, "programs built by": with_tools.program_version(compiler),
                "instructions": rows}
    STORED.write_text(json.dumps(document, indent=1) + "\n")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"instructions: error: {message}", file=sys.stderr)
        sys.exit(64)


def main():
    parser = Parser(prog="bench --check", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--update", action="store_true", help="store what is counted")
    parser.add_argument("--library", metavar="FILE", type=Path, default=LIBRARY, help="count in this library instead")
    options = parser.parse_args()
    if not options.library.exists():
        sys.exit(f"instructions: error: {options.library} does not exist: run scripts/build")
    for command in ("valgrind", "strip"):
        if not shutil.which(command):
            sys.exit(f"instructions: error: {command} is not installed")
    stored = json.loads(STORED.read_text())["instructions"] if STORED.exists() else {}
    rows = measure(options.library)
    verdicts = compare(rows, stored)
    if options.update:
        store(rows)
        print(f"stored in {STORED.relative_to(building.ROOT)}")
        return 0
    failed = sum(verdict not in ("ok", "better") for verdict in verdicts)
    if failed or "better" in verdicts:
        print("hint: scripts/bench --check --update stores the new figures; a commit that makes them larger says why")
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
