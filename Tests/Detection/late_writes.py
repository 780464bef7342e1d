#!/usr/bin/env python3
"""Checks that `zguard run --pinpoint` ends with the instruction of a late write in real programs, within three runs.

Detection/Pinpointing/stale.c is preloaded beside the runtime. It writes to a freed block, AFTER frees after the block's own free, or one
byte behind a block that the program has just allocated (BEHIND). Each test tries to plant the write at one call after the other: at calls
of free from the middle of the run on, or at calls of malloc from the first on. It takes the first call at which `zguard run` without
--pinpoint finds the write late, and not at the instruction.
Closing line: N passed, N failed, N skipped."""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Benchmarks"))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_within  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

import real_programs  # noqa: E402

SOURCE = TESTS / "Detection/Pinpointing/stale.c"
COMPILE_FLAGS = ["-std=gnu17", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free"]
TIMEOUT_SECONDS = 120
AFTER = (20, 100)  # number of other frees between the block's free and the write
PLACES = 24  # number of calls that are tried
TRIES = 5
SIZE = 0.05  # size of the inputs, as a share of the benchmarks' inputs

BASH = "for ((i = 0; i < 3000; i++)); do a[i % 50]=\"line $i $((i * 7))\"; b=${a[i % 50]// /_}; set -- $b \"$@\"; shift $(( $# > 9 )); done"
MAKE = "$(foreach i,$(shell seq 300),$(eval v$(i) := $(subst 1,one,$(i)) $(patsubst %,%.o,$(i))))\nall:;@echo $(v17) $(words $(.VARIABLES))"


class Program:
    """A command, the start of its executable's name, and the environment and input files that make its runs repeatable."""

    def __init__(self, executable, command, environment=None, inputs=None):
        self.executable, self.words, self.environment, self.inputs = executable, command, environment or {}, inputs or {}
        self.needs = command[:1]

    def prepare(self, folder):
        for name, text in self.inputs.items():
            (folder / name).write_text(text)

    def command(self, folder):
        return [word.replace("{folder}", str(folder)) for word in self.words]


class Benchmark:
    """A program of Benchmarks with a small input."""

    def __init__(self, executable, name, environment=None):
        self.executable, self.target = executable, {target.name: target for target in real_programs.all_programs()}[name]
        self.environment = {**self.target.environment, **(environment or {})}
        self.needs = self.target.needs

    def prepare(self, folder):
        self.target.prepare(folder, SIZE)

    def command(self, folder):
        return self.target.command(folder, SIZE, "zguard")


PROGRAMS = {
    "python3": Benchmark("python3", "python3-malloc", {"PYTHONHASHSEED": "0"}),
    "perl": Benchmark("perl", "perl", {"PERL_HASH_SEED": "0"}),
    "sqlite3": Benchmark("sqlite3", "sqlite3"),
    "git": Benchmark("git", "git-log"),
    "cc1": Benchmark("cc1", "gcc"),
    "jq": Benchmark("jq", "jq"),
    "lua": Benchmark("lua", "lua"),
    "gawk": Benchmark("gawk", "gawk"),
    "ruby": Benchmark("ruby", "ruby"),
    "bash": Program("bash", ["bash", "-c", BASH]),
    "make": Program("make", ["make", "-f", "{folder}/Makefile"], inputs={"Makefile": MAKE}),
    "fc-list": Program("fc-list", ["fc-list"]),
}
# Programs in which a write behind a block is planted. fc-list: fontconfig tags the lowest bit of pointers, so no block may begin at an odd
# address.
BEHIND = ("fc-list", "bash", "perl", "jq")


class Planting:
    def __init__(self, work):
        self.work = Path(work)
        self.out, self.report = self.work / "out", self.work / "report.jsonl"
        self.library = builds.BUILD / "pinpointing" / "libstale.so"
        builds.compiled(self.library, ["gcc", *COMPILE_FLAGS, SOURCE, "-o", self.library], [SOURCE])
        self.folders = {}

    def folder(self, name):
        if name not in self.folders:
            missing = [command for command in PROGRAMS[name].needs if not shutil.which(command)]
            if missing:
                raise Failed(f"not installed: {', '.join(missing)}")
            self.folders[name] = self.work / name
            self.folders[name].mkdir()
            PROGRAMS[name].prepare(self.folders[name])
        return self.folders[name]

    def run(self, name, *options, guarded=True, **variables):
        """Returns status, the lines that the planted library wrote, the findings, and standard error."""
        folder, program = self.folder(name), PROGRAMS[name]
        for path in (self.out, self.report):
            path.unlink(missing_ok=True)
        command = [ZGUARD, "run", "--report", self.report, *options, "--"] if guarded else []
        environment = scrubbed(**program.environment, **variables, LD_PRELOAD=str(self.library), STALE_PROGRAM=program.executable,
                               STALE_OUT=str(self.out))
        status, _, err = run_within(TIMEOUT_SECONDS, [*command, *program.command(folder)], cwd=folder, env=environment)
        return status, self.out.read_text().split() if self.out.exists() else [], findings_of(self.report), err

    def count(self, name, **variables):
        """Number of calls (free or malloc) that the planted library counts in a run without the runtime."""
        status, lines, _, err = self.run(name, guarded=False, **variables)
        if status != 0 or not lines or int(lines[-1]) < 100:
            raise Failed(f"without the runtime: status {status}, {lines}, {err[-300:]}")
        return int(lines[-1])

    def late_place(self, name, **variables):
        """Returns the first call whose write is found late and hits memory that is not reused; and counts of earlier calls' outcomes."""
        behind = "STALE_BEHIND" in variables
        calls = self.count(name, **variables)
        seen = {"at once": 0, "missed": 0, "reused": 0}
        for number in range(PLACES):
            at = calls // 2 + calls * number // (2 * PLACES + 1) if not behind else 1 + number * max(1, calls // PLACES) // 2
            _, lines, findings, err = self.run(name, STALE_AT=str(at), **variables)
            late = [finding for finding in findings if is_late(finding)]
            sites = [line for before, line in zip(lines, lines[1:]) if before == "site"]
            if "wrote" not in lines:
                raise Failed(f"call {at} of {calls}: nothing was written: {err[-300:]}")
            if late and "reused" not in lines:
                return {"STALE_AT": str(at), **({"STALE_SITE": sites[0]} if sites else {})}, seen
            seen["reused" if "reused" in lines else "at once" if findings else "missed"] += 1
        raise Failed(f"no write is found late: {seen}")


def is_late(finding):
    return finding["kind"] == "write-after-free" or finding["kind"] == "heap-overflow" and "found_by" in finding.get("detail", {})


def is_exact(finding):
    stack = finding["stacks"]["access"]
    return bool(stack) and stack[0].get("function") == "stale_write" and not is_late(finding)


def problems_of_pinpointing(planting, name, variables):
    place, seen = planting.late_place(name, **variables)
    # Try again if nothing is found. Also try again if no finding is exact and the block's memory was reused: the finding then names a later
    # block. Runs may differ: ruby scans its stack for words that look like addresses, and may therefore not free the block.
    for tries in range(1, TRIES + 1):
        status, lines, findings, err = planting.run(name, "--pinpoint", **place, **variables)
        if any(map(is_exact, findings)) or findings and "reused" not in lines:
            break
    said = re.search(r"pinpointed in run (\d)", err)
    # Further late findings are allowed: in another run, the write may hit another block.
    others = [finding["kind"] for finding in findings if not is_exact(finding) and not is_late(finding)]
    text = f"call {place['STALE_AT']}, " + (f"run {said[1]}" if said else "run 1") + f", try {tries}; before it {seen}"
    problems = []
    if "fc-list" in name and "STALE_BEHIND" in variables:
        # The block keeps an even address, because an odd one would break the program. So the block does not end at the guard page,
        # and every run finds the write late.
        return text, [] if findings and all(map(is_late, findings)) else [f"{[f['kind'] for f in findings]}, status {status}, {err[-600:]}"]
    if not any(map(is_exact, findings)):
        problems.append(f"not pinpointed: {[(f['kind'], f['detail']) for f in findings]}, status {status}, {err[-600:]}")
    if others:
        problems.append(f"other findings: {others}")
    return text, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    add_slice_option(parser)
    arguments = parser.parse_args()
    checks = Checks()
    cases = [(f"{name}, {after} frees late", name, {"STALE_AFTER": str(after)}) for name in PROGRAMS for after in AFTER]
    cases += [(f"{name}, behind a block", name, {"STALE_BEHIND": "1"}) for name in BEHIND]
    chosen = [case for case in arguments.slice.deal(cases) if arguments.filter in case[0]]
    arguments.slice.say(len(chosen), len(cases), "late writes")
    with tempfile.TemporaryDirectory(prefix="zguard-late-writes.") as work:
        planting = Planting(work)
        for text, name, variables in chosen:
            try:
                said, problems = problems_of_pinpointing(planting, name, variables)
            except Failed as failure:
                said, problems = "", [str(failure)]
            if said:
                print(f"{text}: {said}", flush=True)
            checks.check(text, problems)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
