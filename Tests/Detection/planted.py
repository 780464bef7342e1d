#!/usr/bin/env python3
"""Checks that a use after free late in the run of a real program is found.

Tests/Detection/Planted/planted.c is preloaded beside the runtime into the programs of Benchmarks. When at least 90 % of the run are over,
planted.c allocates a block by a stack that has allocated nothing before, frees the block, and reads it, in the main thread or in a new one.
The moment is a count of libc calls, measured in a run without the runtime, and differs from run to run. Only an isolated block makes a
plain read fault, so the driver measures how often the budget of the default profile still allows an isolated block for a new stack. It is a
failure if fewer than 19 of 20 runs find the bug, if there is any other finding, or if a run does not reach the count.
Closing line: N passed, N failed."""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Benchmarks"))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

import building  # noqa: E402
import real_programs  # noqa: E402
import targets  # noqa: E402

SOURCE = TESTS / "Detection/Planted/planted.c"
# The compiler must not replace calls of the counted functions, nor remove uses of the block.
COMPILE_FLAGS = ["-std=gnu17", "-O1", "-g", "-fPIC", "-shared", "-fno-builtin", "-fno-optimize-sibling-calls", "-fno-tree-loop-distribute-patterns",
                 "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free"]
# Name of the target in Benchmarks, and start of the name of the executable in which the bug is planted.
PROGRAMS = {"python3": "python3", "perl": "perl", "gcc": "cc1", "clang++": "clang", "git-log": "git", "sqlite3": "sqlite3", "jq": "jq", "ruby": "ruby",
            "node": "node", "lua": "lua", "gawk": "gawk", "swift-workload": "swift-workload"}
LARGE = ("clang++",)  # takes minutes, so it runs only without --slice
WAYS = ("main thread", "new thread")
SIZES = (24, 40, 136, 500, 1500)
TIMEOUT_SECONDS = 300
SHARE = 0.95


class Planting:
    """Runs programs with the planted library preloaded, in a working directory."""

    def __init__(self, library, options, size, work):
        self.library, self.options, self.size, self.work = library, options, size, Path(work)
        self.planted = builds.BUILD / "planted" / "libplanted.so"
        builds.compiled(self.planted, ["gcc", *COMPILE_FLAGS, SOURCE, "-o", self.planted, "-ldl", "-pthread"], [SOURCE])
        self.targets = {target.name: target for target in [*real_programs.all_programs(), *targets.swift_targets()]}
        self.prepared = {}

    def target(self, name):
        """Builds the target and prepares its inputs, once; returns the target and the folder with the inputs."""
        target = self.targets[name]
        if name not in self.prepared:
            if target.missing():
                raise Failed(f"not installed: {', '.join(target.missing())}")
            target.build(building.Compilers(with_asan=False))
            folder = self.work / name
            folder.mkdir()
            target.prepare(folder, self.size)
            self.prepared[name] = folder
        return target, self.prepared[name]

    def run(self, name, guarded, **variables):
        """Runs the program once; returns status, lines written by the planted library, findings, and standard error."""
        target, folder = self.target(name)
        out, report = self.work / "out", self.work / "report"
        for path in (out, report):
            path.unlink(missing_ok=True)
        preload = f"{self.library}:{self.planted}" if guarded else str(self.planted)
        options = ":".join([f"report_path={report}", *([self.options] if self.options else [])])
        # Fix the hash seeds, so that call counts are repeatable. Swift's crash report would only take time.
        environment = scrubbed(**target.environment, **variables, PYTHONHASHSEED="0", PERL_HASH_SEED="0", SWIFT_BACKTRACE="enable=no",
                               LD_PRELOAD=preload, ZGUARD_OPTIONS=options, PLANTED_PROGRAM=PROGRAMS[name], PLANTED_OUT=str(out))
        status, _, errors = run_within(TIMEOUT_SECONDS, target.command(folder, self.size, "zguard"), text=False, cwd=folder, env=environment)
        lines = out.read_text().splitlines() if out.exists() else []
        findings = findings_of(report)
        findings = [finding for finding in findings if not finding.get("again")]
        return status, lines, findings, errors.decode(errors="replace")

    def moments(self, name, runs):
        """Returns for each run the number of the call at which the bug is planted, between 90 and 95 % of the calls without the runtime.
        A later call might never come, because the total number of calls varies with addresses."""
        for attempt in range(3):  # on a busy machine the processor time advances in large steps
            status, lines, _, errors = self.run(name, guarded=False)
            if status != 0 or len(lines) != 1:
                raise Failed(f"{name}, plain: status {status}, {lines}, {errors[-300:]}")
            late, calls = map(int, lines[0].split())
            if 0 < late < calls:
                break
        else:
            raise Failed(f"{name}: {calls} calls are too few to tell the time by")
        return [late + (calls - late) * number // (2 * runs) for number in range(runs)]

    def is_found(self, name, way, number, moment):
        """Whether run `number` finds the planted bug; raises Failed on any other finding or failure."""
        size = SIZES[number % len(SIZES)]
        thread = {"PLANTED_THREAD": "1"} if way == "new thread" else {}
        status, lines, findings, errors = self.run(name, guarded=True, PLANTED_AT=str(moment), PLANTED_BYTES=str(size), **thread)
        if lines[:1] != ["planted"]:
            raise Failed(f"run {number}: the moment was not reached (status {status}): {errors[-300:]}")
        kinds = [(finding["kind"], finding.get("block", {}).get("size")) for finding in findings]
        if any(kind != ("use-after-free", size) for kind in kinds) or len(kinds) > 1:
            raise Failed(f"run {number}: finds {kinds}")
        if not kinds and (status != 0 or "went on" not in lines):
            raise Failed(f"run {number}: nothing was found, but it ended with {status}: {errors[-300:]}")
        return bool(kinds)


def try_case(planting, name, way, runs):
    """Runs one case; returns a line with the number of runs that found the bug, and the problems."""
    try:
        found = sum(planting.is_found(name, way, number, moment) for number, moment in enumerate(planting.moments(name, runs)))
    except Failed as failure:
        return "", [str(failure)]
    text = f"found in {found} of {runs} runs"
    return text, [text] if found < SHARE * runs else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=Path, default=LIBRARY, help="the preload library (default build/lib/libzguard.so)")
    parser.add_argument("-o", "--options", default="", metavar="key=value:…", help="options; without them the default profile")
    parser.add_argument("--runs", type=int, default=20, help="how often each (default 20)")
    parser.add_argument("--size", type=float, default=0.3, help="share of the work that the benchmarks do (default 0.3)")
    parser.add_argument("--filter", default="", help="only programs whose name has this in it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    checks = Checks()
    cases = [(name, way) for name in PROGRAMS for way in WAYS]
    chosen = arguments.slice.deal([case for case in cases if arguments.filter in case[0] and (arguments.slice.is_whole or case[0] not in LARGE)])
    arguments.slice.say(len(chosen), len(cases), "programs and threads")
    with tempfile.TemporaryDirectory(prefix="zguard-planted-") as work:
        planting = Planting(arguments.library.resolve(), arguments.options, arguments.size, work)
        for name, way in chosen:
            text, problems = try_case(planting, name, way, arguments.runs)
            if text and not problems:
                print(f"{name}, {way}: {text}", flush=True)
            checks.check(f"{name}, {way}", problems)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
