#!/usr/bin/env python3
"""Regression gate: number of instructions that the library executes for one operation, compared with stored figures.

callgrind counts the library's own instructions in two runs with different numbers of operations. The difference of the two counts,
divided by the number of additional operations, does not depend on start-up, libc, the machine, or its load.
Closing line: N passed, N failed.
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
# Operations of the smaller run; the larger run has twice as many. Both fill the quarantine, so that every operation costs the same.
OPERATIONS = 20480
NEW, WHOLE = "new-stack", "whole-new-stack"
START_UP = "start-up"  # instructions of a whole run of `true`
ALLOWED = 0.03
# Isolated blocks, retired pages and the number of recorded frames depend on processor time, and would make the counts
# vary.
OPTIONS = "isolated_per_context=0:isolated_overhead=0:stack_overhead=100%"
# At the start the runtime reads files about the machine's memory, whose length depends on the machine.
START_UP_OPTIONS = OPTIONS + ":pressure=off"


def count_in_library(profile, library):
    """Returns the instructions in this library's functions, without their callees, from the text of a callgrind profile."""
    names, current, total, is_call = {}, None, 0, False
    for line in profile.splitlines():
        if match := re.match(r"(ob|cob)=\((\d+)\)(?: (.*))?$", line):
            kind, number, name = match.groups()
            if name:
                names[number] = name
            if kind == "ob":
                current = names[number]
        elif line.startswith("calls="):
            is_call = True  # the next line counts the callee and everything below it
        elif re.match(r"[0-9+*-]", line):
            if not is_call and current == library:
                total += int(line.split()[1])
            is_call = False
    return total


class Counter:
    """Counts in a directory of its own, with a stripped copy of the library, because valgrind cannot read its debug information."""

    def __init__(self, work, library):
        self.work, self.library = work, work / "libzguard.so"
        subprocess.run(["strip", "--strip-debug", "-o", str(self.library), str(library)], check=True)

    def count(self, *command, options=OPTIONS):
        """Returns the library's instructions in a run of this program. Ends the gate with an error if they cannot be counted."""
        profile = self.work / "profile"
        profile.unlink(missing_ok=True)
        # Addresses determine the rows of the runtime's hash tables and caches. valgrind chooses the same addresses each time if the
        # environment is constant.
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
    """Returns {name: instructions} for one operation each, and for start-up."""
    program = building.Compilers(with_asan=False).program(HERE / "instructions" / "operations.cpp")
    names = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory(prefix="zguard-instructions-") as work:
        counter = Counter(Path(work), library)
        rows = {name: round(counter.per_operation(program, name), 1) for name in names}
        # By default, stacks that do not repeat are shortened; a large stack_bytes keeps them whole.
        rows[WHOLE] = round(counter.per_operation(program, NEW, OPTIONS + ":stack_bytes=16g"), 1)
        return {**rows, START_UP: counter.count("/bin/true", options=START_UP_OPTIONS)}


def judge(stored, now):
    if stored is None:
        return "not stored"
    if now > stored * (1 + ALLOWED):
        return "WORSE"
    return "better" if now < stored * (1 - ALLOWED) else "ok"


def compare(rows, stored):
    """Prints a line for each row. Returns the verdicts."""
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
