#!/usr/bin/env python3
"""Tests the test runner itself: its table, queue and slices lose no part. Closing line: N passed, N failed."""

import argparse
import contextlib
import io
import re
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import run  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ROOT, TESTS  # noqa: E402
from Support.parts import BUILD, PARTS, SWIFT, Part, elsewhere  # noqa: E402
from Support.slices import Slice, slice_of  # noqa: E402

CASES = [f"{kind} {number}" for kind in ("read", "write", "free") for number in range(400)]


def kinds(case):
    return [case.split()[0]]


def slices_are_everything(_):
    for count in range(1, 9):
        for take in (Slice.choose, Slice.deal):
            parts = [take(Slice(number, count), CASES) for number in range(1, count + 1)]
            assert sorted(sum(parts, [])) == sorted(CASES), f"{count} slices are not all cases, each once"
        for number in range(1, count + 1):
            part = Slice(number, count)
            chosen = part.choose(CASES, kinds=kinds)
            assert {case for case in CASES if part.takes(case)} <= set(chosen), "a case of the slice is left out"
            assert {case.split()[0] for case in chosen} == {"read", "write", "free"}, "a slice lacks a kind"
        for case in CASES:
            assert sum(Slice(1, count).takes(case, way) for way in range(count)) == 1, "a slice has a case in each way, or in none"


def slices_are_read(_):
    assert str(slice_of("2/4")) == "2/4" and slice_of("1/1").is_whole
    for text in ("", "1", "0/4", "5/4", "1/0", "-1/4", "a/4", "1/4/2", "1.5/4"):
        try:
            slice_of(text)
        except argparse.ArgumentTypeError:
            continue
        raise AssertionError(f"'{text}' is no slice")


def slice_is_the_same_for_all(_):
    for given, number in ((None, 1), (Slice(3, 8), 3)):
        arguments = argparse.Namespace(full=False, long=False, slice=given)
        slice_for = run.slices(arguments)
        for part in PARTS:
            wanted = None if part.slices == 1 else str(given or Slice(1, part.slices))
            taken = slice_for(part)
            assert (taken and str(taken)) == wanted and (not taken or taken.number == number), f"{part.name}: {taken}"
    for option in ("full", "long"):
        arguments = argparse.Namespace(**{"full": False, "long": False, "slice": None, option: True})
        assert not any(run.slices(arguments)(part) for part in PARTS), "--full leaves cases out"


def table_is_whole(_):
    tables = [PARTS, elsewhere("aarch64")]
    for table in tables:
        names = [part.name for part in table]
        assert len(set(names)) == len(names), "two parts have one name"
        for part in table:
            assert set(part.needs) <= set(names), f"{part.name} needs what is not there"
            for word in part.command:
                assert not word.startswith(("Tests/", "scripts/")) or (ROOT / word).exists(), f"{part.name}: there is no {word}"
    commands = " ".join(word for table in tables for part in table for word in part.command)
    for path in TESTS.glob("*/*.py"):
        is_driver = "__main__" in path.read_text() and path.parent.name not in ("Support", "Crashes")
        # scripts/soak runs soak.py, and the CPython suite runs cpython_events.py.
        is_elsewhere = path.name in ("soak.py", "cpython_events.py")
        assert not is_driver or is_elsewhere or str(path.relative_to(ROOT)) in commands, f"no part runs {path.relative_to(ROOT)}"
    # If a part is sliced, its driver must have the option --slice. If a driver has the option, its part must be sliced.
    for part in PARTS:
        driver = next((ROOT / word for word in part.command if word.startswith(("Tests/", "scripts/")) and (ROOT / word).is_file()), None)
        sliced = driver and re.search(r"add_slice_option\(parser\)|import .*\brun_driver\b|^ *--slice\)", driver.read_text(), re.M)
        assert sliced or part.slices == 1, f"{part.name} knows no --slice"
        assert not sliced or part.slices > 1 or part.when != "always" or part.name != driver.stem, f"{part.name} is never sliced"


def needs_are_declared(_):
    """A part whose driver uses zguard or the library waits for their builds: the order of the parts changes with their times."""
    by_name = {part.name: part for part in PARTS}

    def all_needs(part):
        return {name for need in part.needs for name in (need, *all_needs(by_name[need]))}
    problems = []
    for part in PARTS:
        driver = next((Path(word) for word in part.command if re.match(r"Tests/.*\.py$", word)), None)
        if not driver or (driver.stem == "documentation" and "--built" not in part.command):  # only that option needs zguard
            continue
        text = (ROOT / driver).read_text()
        problems += [f"{part.name} does not wait for {build}" for build in ("library", "zguard")
                     if re.search(rf"\b{build.upper()}\b", text) and build not in all_needs(part)]
    assert not problems, problems


def finished(parts, work, **how):
    """Runs some parts; returns the outcomes by name, and the output."""
    run.LOGS = work
    queue, said = run.Queue(parts, lambda part: None, **how), io.StringIO()
    with contextlib.redirect_stdout(said):
        queue.run()
    return queue.outcomes, said.getvalue()


def shell(name, script, **keywords):
    return Part(name, ["sh", "-c", script], 1, **{"needs": (), **keywords})


def failures_are_counted(work):
    outcomes, said = finished([
        shell("good", "echo 3 passed, 0 failed"), shell("skips", "echo 2 passed, 0 failed, 4 skipped"),
        shell("bad", "echo 'FAIL one thing'; echo '    with a reason'; echo other; echo 2 passed, 1 failed; exit 1"),
        shell("silent", "echo 5 passed"), shell("liar", "echo 7 passed, 0 failed; exit 3"), shell("killed", "kill -9 $$"),
        shell("swift", "echo Test run with 2 tests passed", says=SWIFT), shell("swift bad", "echo '✘ Test f() failed'; exit 1", says=SWIFT),
        shell("build", "exit 1", says=BUILD), shell("built with it", "echo 1 passed, 0 failed", needs=("build",))], work)
    got = {name: (outcome.passed, outcome.failed, outcome.is_good) for name, outcome in outcomes.items()}
    assert got == {"good": (3, 0, True), "skips": (2, 0, True), "bad": (2, 1, False), "silent": (0, 1, False), "liar": (7, 1, False),
                   "killed": (0, 1, False), "swift": (0, 0, True), "swift bad": (0, 0, False), "build": (0, 1, False),
                   "built with it": (0, 1, False)}, got
    assert outcomes["skips"].skipped == 4
    assert "    FAIL one thing\n        with a reason\n" in said and "other" not in said, said
    assert "\nTest run with 2 tests passed\n" in said and "not run: build failed" in said, said


def what_hangs_is_ended(work):
    """The processes of a hanging part are killed in all of the part's sessions. The output of other parts is kept."""
    script = f"echo $$ > {work}/own; setsid sh -c 'echo $$ > {work}/other; sleep 600' & sleep 600; echo 1 passed, 0 failed"
    outcomes, said = finished([
        shell("good", "echo 3 passed, 0 failed"), shell("hangs", script), shell("hangs after its line", "echo 2 passed, 0 failed; sleep 600"),
        shell("swift", "exec sleep 600", says=SWIFT)], work, limit_for=lambda part, is_whole: 1)
    assert {name: (outcome.failed, outcome.is_good) for name, outcome in outcomes.items()} == \
        {"good": (0, True), "hangs": (1, False), "hangs after its line": (1, False), "swift": (1, False)}, said
    assert said.count("ended after 1 s, since it did not end itself") == 2 and "FAILED with status -15" in said, said
    deadline = time.monotonic() + 20
    for name in ("own", "other"):
        while (status := Path("/proc", (work / name).read_text().strip(), "stat")).exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline, f"{name} lives"
            time.sleep(0.05)
    part = shell("sliced", "true", slices=5)
    assert run.time_limit(part, True) > run.time_limit(part, False) > 10 * part.seconds


def two_at_a_time(work):
    span = "date +%s%N; sleep 0.2; date +%s%N; echo 1 passed, 0 failed"
    parts = [shell("first", span), shell("second", span, needs=("first",)), shell("one", span, holds=("x",)), shell("other", span, holds=("x",)),
             shell("more", span), shell("alone", span, quiet=True), shell("last", span, needs=("alone",), quiet=True),
             shell("waits", span, waits=True), shell("waits too", span, waits=True)]
    began = time.monotonic()
    finished(parts, work)
    elapsed = time.monotonic() - began
    times = {part.name: [int(line) for line in (work / f"{part.name.replace(' ', '-')}.log").read_text().split("\n")[:2]] for part in parts}

    def overlap(one, other):
        return times[one][0] < times[other][1] and times[other][0] < times[one][1]
    assert not overlap("first", "second") and times["first"][0] < times["second"][0], times
    assert not overlap("one", "other"), times
    for part in parts:
        assert part.name == "alone" or not overlap("alone", part.name), times
    for begin, _ in times.values():
        running = [name for name, other in times.items() if other[0] <= begin < other[1]]
        waiting = sum(name.startswith("waits") for name in running)
        assert waiting <= run.WAITING_SLOTS and len(running) - waiting <= run.SLOTS, times
    assert any(overlap("waits", part.name) for part in parts if not part.waits), "nothing runs beside a part that waits"
    assert elapsed < 0.2 * len(parts) or any(overlap(one, other) for one in times for other in times if one != other), "never two at a time"


def longest_first(work):
    parts = [Part("short", ["true"], 1, needs=()), Part("long", ["true"], 9, needs=()), Part("base", ["true"], 2, needs=()),
             Part("above", ["true"], 8, needs=("base",)), Part("build", ["true"], 1, needs=(), says=BUILD)]
    assert [part.name for part in run.Queue(parts, None).in_order()] == ["build", "base", "long", "above", "short"]


def whole_suites_are_kept_for_the_table(_):
    kept, before = [], run.compatibility.record
    run.compatibility.record = lambda *words, **named: kept.append(words)
    try:
        for arch, parts in ((run.HERE, None), (run.HERE, ["runner"]), ("another", None)):
            run.keep_for_table(argparse.Namespace(arch=arch, part=parts, full=True, long=False), 3, 2, 1)
    finally:
        run.compatibility.record = before
    assert kept == [("suite", "scripts/test --full", 3, 2, 1)], kept


def wrong_arguments(_):
    for words in (["--nonsense"], ["--slice"], ["--slice", "5/4"], ["--slice", "0/1"], ["--part"], ["--long", "more"]):
        result = subprocess.run([ROOT / "scripts/test", *words], capture_output=True, text=True, timeout=60)
        lines = result.stderr.splitlines()
        assert result.returncode == 1 and not result.stdout and len(lines) == 2, (words, result)
        assert re.match(r"test: error: ", lines[0]) and lines[1].startswith("hint: scripts/test ["), (words, result.stderr)


if __name__ == "__main__":
    sys.exit(run_tests([(test.__name__, test) for test in (
        slices_are_everything, slices_are_read, slice_is_the_same_for_all, table_is_whole, needs_are_declared, failures_are_counted,
        what_hangs_is_ended, two_at_a_time, longest_first, whole_suites_are_kept_for_the_table, wrong_arguments)], "zguard-runner-", shows_passed=True))
