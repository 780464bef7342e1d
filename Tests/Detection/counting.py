#!/usr/bin/env python3
"""Checks that retains and releases of Swift objects are recorded and shown with findings, and that recording does not change programs.
Also checks that races on strong references are found with a pause in retains (race_delay).

The program in Tests/Detection/Counting is built with dynamic and static libraries, with and without optimization; --quick takes two of
the four builds. --measure N runs each of ten racy programs N times per set of options, and prints how often the race was found (the figures
of docs/COUNT-HISTORY.md).
Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_tests, run_within, said_by_library  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402

SOURCE, EARLY = TESTS / "Detection/Counting/main.swift", TESTS / "Detection/Counting/early_threads.c"
FOLDER = builds.BUILD / "counting"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
BUILDS = {"Onone-dynamic": ["-Onone"], "O-static": ["-O", "-static-stdlib"], "Onone-static": ["-Onone", "-static-stdlib"], "O-dynamic": ["-O"]}
TIMEOUT_SECONDS = 60
RACES, ROUNDS, RACE_RUNS = 10, 20000, 30
# Columns of the table that --measure prints, and the runtime options of each.
WAYS = {"default": "", "default, race_delay=20": "race_delay=20", "fence": "profile=fence", "fence, race_delay=20": "profile=fence:race_delay=20"}


def build(name, stripped=False):
    program = FOLDER / name / "lives"
    builds.compiled(program, [SWIFTC, "-swift-version", "6", "-warnings-as-errors", "-module-name", "Shop", "-g", *BUILDS[name],
                              str(SOURCE), "-o", str(program)], [SOURCE], FOLDER if FOLDER.exists() else None)
    if not stripped:
        return program
    copy = program.with_name("lives-stripped")
    return builds.compiled(copy, ["strip", "-o", str(copy), str(program)], [program])


def line_of(function, text, which=0):
    """Line number of the `which`-th line that contains `text` in a function of the source."""
    lines = SOURCE.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if f"func {function}(" in line)
    end = next(number for number in range(begin, len(lines)) if lines[number] == "}")
    return [number + 1 for number in range(begin, end) if text in lines[number]][which]


class Run:
    """A run of a case under zguard, with exactly one finding."""

    def __init__(self, program, case, options, place):
        report = place / "report.jsonl"
        command = [ZGUARD, "run", "-o", options, "--report", report, "--format", "json", "--", program, *case.split()]
        self.status, self.output, self.errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed())
        findings = findings_of(report)
        assert len(findings) == 1, f"{len(findings)} findings, status {self.status}: {self.errors[-800:]}"
        self.finding = findings[0]
        self.history = self.finding.get("history", [])

    def steps(self, function):
        """History as (event, strong count, line in the function, thread), oldest first, without retains that are released at once."""
        steps = []
        for change in reversed(self.history):
            own = [frame for frame in change["stack"] if frame.get("file", "").endswith("main.swift")]
            lines = [frame["line"] for frame in own if function in frame.get("function", "")]
            step = (change["event"], change.get("strong"), lines[0] if lines else None, change["thread"])
            who = own[0]["function"] if own else None
            if steps and step[0] == "release" and steps[-1][0][0] == "retain" and steps[-1][1] == who and steps[-1][0][3] == step[3] \
                    and steps[-1][0][2] == step[2]:
                steps.pop()
            else:
                steps.append((step, who))
        return [step for step, _ in steps]


def expect(got, wanted):
    assert got == wanted, f"got {got}, expected {wanted}"


def over_release_steps():
    retained, first, second = line_of("overRelease", "retain(object)"), *(line_of("overRelease", "release(object)", n) for n in (0, 1))
    return [("retain", 1, retained, 1), ("release", 2, first, 1), ("release", 1, second, 1), ("dealloc", None, second, 1)]


def kept(program, kind, options):
    def test(place):
        expect(Run(program, f"over-release {kind}", options, place).steps("overRelease"), over_release_steps())
    return test


def not_kept(program, kind, options):
    def test(place):
        expect(Run(program, f"over-release {kind}", options, place).history, [])
    return test


def newest_alone(program):
    def test(place):
        run = Run(program, "over-release cart", "history_per_object=2", place)
        expect([change["event"] for change in run.history], ["dealloc", "release"])
    return test


def one_life_alone(program):
    """Earlier objects at the same address must not appear in the history."""
    def test(place):
        run = Run(program, "reuse", "trace_class=Cart", place)
        expect(run.steps("overRelease"), over_release_steps())
    return test


def threads(program):
    def test(place):
        steps = Run(program, "threads", "history_per_object=32", place).steps("threads")
        expect([(event, strong, thread) for event, strong, _, thread in steps],
               [("retain", 1, 2), ("release", 2, 1), ("release", 1, 1), ("dealloc", None, 1)])
    return test


def references(program):
    def test(place):
        events = [change["event"] for change in Run(program, "references", "history_per_object=32", place).history]
        # The optimizer may remove unowned references to an object that it knows to be alive.
        assert events.count("dealloc") == 1 and "release" in events, events
        if "Onone" in str(program):
            assert "unowned_retain_strong" in events, events
    return test


def said_in_text(program):
    def test(_):
        _, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "-o", "trace_class=Cart", "--", program, "over-release", "cart"], env=scrubbed())
        lines = errors.splitlines()
        begin = next((number for number, line in enumerate(lines) if "retains and releases, newest first" in line), None)
        assert begin is not None, errors[-1500:]
        shown = lines[begin + 1:begin + 5]
        for line, event in zip(shown, ("deallocated", "release  1 → 0", "release  2 → 1", "retain  1 → 2")):
            assert line.strip().startswith(event) and "overRelease" in line, shown
    return test


def said_by_history(program):
    """`zguard history` shows the history of a live object of another process."""
    def test(_):
        process = subprocess.Popen([ZGUARD, "run", "-o", "trace_class=Cart", "--", program, "wait"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=scrubbed())
        try:
            address = process.stdout.readline().strip()
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            answers = [json.loads(out) for child in children
                       for status, out, _ in [run_within(20, [ZGUARD, "history", "--format", "json", child, address], env=scrubbed())] if out.startswith("{")]
            assert answers, f"no answer about {address} in {children}"
            history = answers[0]
            assert history["block"]["class"] == "Shop.Cart", history["block"]
            assert any(change["event"] == "retain" and any("main.swift" in frame.get("file", "") for frame in change["stack"])
                       for change in history["history"]), history["history"]
        finally:
            _, errors = process.communicate("\n", timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0 and "no findings" in errors, errors[-800:]
    return test


def does_the_same(program, options):
    def test(_):
        plain = run_within(TIMEOUT_SECONDS, [program, "workload"], env=scrubbed())
        guarded = run_within(TIMEOUT_SECONDS, [program, "workload"], env=guarded_by(LIBRARY, options))
        expect(guarded, plain)
        assert plain[0] == 0 and len(plain[1].split()) == 4, plain
    return test


def says_that_it_cannot(program):
    """In a stripped static program the Swift runtime's functions are not found: `zguard stats` says so, and there is no history."""
    def test(place):
        run = Run(program, "over-release cart", "trace_class=Cart", place)
        expect(run.history, [])
        process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=guarded_by(LIBRARY, "trace_class=Cart"))
        try:
            process.stdout.readline()
            _, out, _ = run_within(20, [ZGUARD, "stats", str(process.pid)], env=scrubbed())
        finally:
            process.communicate("\n", timeout=TIMEOUT_SECONDS)
        assert "retains and releases" in out, out
    return test


def threads_before_the_start(place):
    """While other threads may be running the Swift runtime's code, that code is not patched: a finding is reported without history."""
    library = builds.compiled(FOLDER / "libearly.so", [builds.find_clang(), "-shared", "-fPIC", "-O1", str(EARLY), "-o", str(FOLDER / "libearly.so"),
                              "-lpthread"], [EARLY])
    program = FOLDER / "early/lives"
    builds.compiled(program, [SWIFTC, "-swift-version", "6", "-module-name", "Shop", "-g", "-O", str(SOURCE), "-o", str(program), str(library),
                              "-Xlinker", "--no-as-needed", "-Xlinker", f"-rpath={FOLDER}"], [SOURCE, library])
    for _ in range(8):
        run = Run(program, "over-release cart", "profile=fence", place)
        expect((run.history, run.finding["block"]["class"]), ([], "Shop.Cart"))
        (place / "report.jsonl").unlink()


def finds(program, race, options):
    env = guarded_by(LIBRARY, options, SWIFT_BACKTRACE="enable=no")
    return bool(said_by_library(run_within(TIMEOUT_SECONDS, [program, "races", str(race), str(ROUNDS)], env=env)[2]))


def race_is_found(program, race):
    """At least one of RACE_RUNS runs must find the race."""
    def test(_):
        assert any(finds(program, race, "race_delay=20") for _ in range(RACE_RUNS)), f"not found in {RACE_RUNS} runs"
    return test


def tests_of(name):
    program = build(name)
    for kind, chosen in {"cart": ("Cart", "Shop.Cart", "Other, Cart", "Item"), "basket": ("Basket", "Shop.Basket<Swift.Int>", "Basket<Int>, Item"),
                         "book": ("Book", "Shelf.Book"), "item": ("Item",)}.items():
        for classes in chosen:
            yield f"{name}: {kind}, trace_class={classes}", kept(program, kind, f"trace_class={classes}")
    for kind, classes in (("item", "Cart"), ("cart", "art"), ("cart", "Shop"), ("basket", "Basket<Swift.String>"), ("cart", "Carts")):
        yield f"{name}: {kind}, trace_class={classes}", not_kept(program, kind, f"trace_class={classes}")
    yield f"{name}: nothing is kept by default", not_kept(program, "cart", "profile=guard")
    yield f"{name}: profile fence", kept(program, "cart", "profile=fence:history_per_object=32")
    yield f"{name}: the newest", newest_alone(program)
    yield f"{name}: one life", one_life_alone(program)
    yield f"{name}: threads", threads(program)
    yield f"{name}: weak and unowned references", references(program)
    yield f"{name}: text", said_in_text(program)
    yield f"{name}: zguard history", said_by_history(program)
    for options in ("history_per_object=8", "trace_class=Cart", "race_delay=20", "profile=fence", "profile=fence:race_delay=10:trace_class=Item"):
        yield f"{name}: a workload, {options}", does_the_same(program, options)
    for race in (3, 6):
        yield f"{name}: race {race}", race_is_found(program, race)
    if "static" in name:
        yield f"{name}: stripped", says_that_it_cannot(build(name, stripped=True))


def measure(runs):
    print(f"| program | {' | '.join(WAYS)} |\n|---|{'---:|' * len(WAYS)}")
    for name in BUILDS:
        for race in range(RACES):
            found = [sum(finds(build(name), race, options) for _ in range(runs)) for options in WAYS.values()]
            print(f"| {name}, race {race} | {' | '.join(f'{count}/{runs}' for count in found)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Checks what is known of retains and releases.")
    parser.add_argument("--quick", action="store_true", help="two of the four builds")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    parser.add_argument("--measure", type=int, metavar="N", help="print how often races are found in N runs")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if arguments.measure:
        return measure(arguments.measure)
    names = list(BUILDS)[:2] if arguments.quick else list(BUILDS)
    tests = [test for name in names for test in tests_of(name)]
    return run_tests([*tests, ("threads before the start", threads_before_the_start)], "counting-", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
