#!/usr/bin/env python3
"""Runs the test suite, which is all parts of Support/parts.py: builds first, then the longest. Two parts run at a time, and beside them
two that mostly wait.
scripts/test prepares the machine and calls this script; CONTRIBUTING.md describes --full and --long, and the slices.

A part's output goes to build/tests/NAME.log; when it ends, one line shows its result, followed by the failures. A part that exceeds its
time limit is killed and has failed. The last line that is not empty is the sum "N passed, N failed" of all parts except `swift test`, whose
own output is shown completely."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from Support import compatibility  # noqa: E402
from Support.environment import HERE, ROOT  # noqa: E402
from Support.parts import BUILD, LINE, PARTS, SWIFT, elsewhere  # noqa: E402
from Support.processors import DEBIAN  # noqa: E402
from Support.slices import Slice, slice_of  # noqa: E402

LOGS = ROOT / "build" / "tests"
SLOTS = 2
WAITING_SLOTS = 2  # for parts that spend most of their time waiting, beside the others
FAILED_LINES = 12  # maximum number of indented lines shown below a FAIL line
LAST_LINES = 15


class Outcome:
    """The result of a part: the sum of its closing line, and its time."""

    def __init__(self, part, log):
        self.part, self.log = part, log
        self.passed = self.failed = self.skipped = 0
        self.seconds = self.processor = 0.0
        self.status, self.slice, self.trouble = None, "", []
        self.limit = None  # time limit after which the part was killed, if it was

    def read(self):
        text = self.log.read_text(errors="replace")
        self.slice = "; ".join(re.findall(r"^slice (\d+/\d+: .*)$", text, re.M))
        if self.part.says == LINE:
            ends = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", text, re.M)
            if not ends:
                self.passed, self.failed = 0, 1
                self.trouble = [f"{self.part.name} ended with status {self.status} and without its closing line"]
            else:
                self.passed, self.failed, self.skipped = (int(number or 0) for number in ends[-1])
                if self.status and not self.failed:
                    self.failed, self.trouble = 1, [f"status {self.status}"]
        elif self.part.says == BUILD:
            self.failed = int(self.status != 0)
        if self.limit:
            self.failed += not self.failed
            self.trouble.insert(0, f"ended after {self.limit:.0f} s, since it did not end itself")
        if not self.is_good:
            self.trouble += failures_in(text, self.part)

    @property
    def is_good(self):
        return self.status == 0 and not self.failed

    def line(self):
        said = {LINE: f"{self.passed:,} passed, {self.failed:,} failed" + (f", {self.skipped:,} skipped" if self.skipped else "")}
        said = said.get(self.part.says) or ("passed" if self.is_good else f"FAILED with status {self.status}")
        return f"== {self.part.name}: {said} ({self.seconds:.0f} s, {self.processor:.0f} s of the processor)" + \
            (f", slice {self.slice}" if self.slice else "")


def failures_in(text, part):
    """Returns the failures in a log: each line that begins with FAIL with the indented lines below it, or the end of the log."""
    lines = text.splitlines()
    if part.says != LINE:
        return [line for line in lines if re.search(r"^✘|\b(error|warning):", line)] or lines[-LAST_LINES:]
    found, left = [], 0
    for line in lines:
        if line.startswith("FAIL"):
            found.append(line)
            left = FAILED_LINES
        elif left and line[:1] in (" ", "\t"):
            found.append(line[:400])
            left -= 1
        else:
            left = 0
    return found or lines[-LAST_LINES:]


def time_limit(part, is_whole):
    """Returns the seconds after which a part counts as hung: far more than needed on a slow, busy machine that first downloads packages."""
    return 600 + 6 * part.seconds * (part.slices if is_whole else 1)


def end_part(process, signal_number=signal.SIGTERM):
    """Sends a signal to all processes of a part: to its session, because compilers and servers create process groups of their own, and to
    descendants in other sessions."""
    parents, found = {}, {process}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            _, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # the process has ended meanwhile
        parents[int(entry.name)] = int(parent)
        if int(session) == process:
            found.add(int(entry.name))
    while more := {number for number, parent in parents.items() if parent in found} - found:
        found |= more
    for number in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal_number)


class Queue:
    """Runs parts, SLOTS at a time and WAITING_SLOTS beside them: first builds, then parts whose chain of dependents takes longest."""

    def __init__(self, parts, slice_for, logs=None, limit_for=time_limit):
        self.parts, self.slice_for, self.logs, self.limit_for = parts, slice_for, logs or LOGS, limit_for
        self.by_name = {part.name: part for part in parts}
        self.outcomes, self.running, self.processes = {}, {}, {}
        self.changed = threading.Condition()

    def weight(self, part):
        return part.seconds + max((self.weight(other) for other in self.parts if part.name in other.needs), default=0)

    def in_order(self):
        """Returns the parts in order of priority: builds, then the longest."""
        return sorted(self.parts, key=lambda part: (part.says == BUILD, self.weight(part)), reverse=True)

    def run(self):
        waiting = self.in_order()
        with self.changed:
            while waiting or self.running:
                for part in [part for part in waiting if self.lacks(part)]:
                    waiting.remove(part)
                    self.give_up(part)
                while part := self.next_of(waiting):
                    waiting.remove(part)
                    self.running[part.name] = part
                    threading.Thread(target=self.work, args=(part,), daemon=True).start()
                assert self.running or not waiting, f"these wait for each other: {[part.name for part in waiting]}"
                if self.running:
                    self.changed.wait()

    def lacks(self, part):
        return [name for name in part.needs if name in self.outcomes and not self.outcomes[name].is_good and self.by_name[name].says == BUILD]

    def next_of(self, waiting):
        """Returns the first part that may start, or None."""
        running = self.running.values()
        if any(part.quiet for part in running):
            return None
        held = {name for part in running for name in part.holds}
        waits = sum(part.waits for part in running)
        for part in waiting:
            if (waits >= WAITING_SLOTS) if part.waits else (len(running) - waits >= SLOTS):
                continue
            if part.quiet and (running or any(not other.quiet for other in waiting)):
                continue
            if held.isdisjoint(part.holds) and all(name in self.outcomes or name not in self.by_name for name in part.needs):
                return part
        return None

    def give_up(self, part):
        outcome = Outcome(part, self.logs / f"{part.name}.log")
        outcome.status, outcome.failed = 1, 1
        outcome.trouble = [f"not run: {', '.join(self.lacks(part))} failed"]
        self.outcomes[part.name] = outcome
        print(f"== {part.name}: {outcome.trouble[0]}", flush=True)

    def work(self, part):
        outcome = Outcome(part, self.logs / f"{part.name.replace(' ', '-')}.log")
        try:
            self.start(part, outcome)
            outcome.read()
        except OSError as error:
            outcome.status, outcome.failed, outcome.trouble = 1, 1, [str(error)]
        with self.changed:
            self.say(outcome)
            self.outcomes[part.name] = outcome
            del self.running[part.name]
            self.changed.notify()

    def start(self, part, outcome):
        taken = self.slice_for(part)
        command = [*part.command, *(["--slice", str(taken)] if taken else [])]
        limit = self.limit_for(part, not taken)
        began = time.monotonic()
        with open(outcome.log, "wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, **part.environment})
        self.processes[part.name] = process
        timers = [threading.Timer(limit + after, end_part, (process.pid, number)) for after, number in ((0, signal.SIGTERM), (30, signal.SIGKILL))]
        for timer in timers:
            timer.daemon = True
            timer.start()
        _, status, used = os.wait4(process.pid, 0)
        for timer in timers:
            timer.cancel()
        process.returncode = outcome.status = os.waitstatus_to_exitcode(status)
        outcome.seconds, outcome.processor = time.monotonic() - began, used.ru_utime + used.ru_stime
        outcome.limit = limit if outcome.seconds >= limit else None

    def say(self, outcome):
        print(outcome.line())
        if outcome.part.says == SWIFT:
            print(outcome.log.read_text(errors="replace").rstrip())
        else:
            for line in outcome.trouble:
                print(f"    {line}")
        sys.stdout.flush()

    def stop(self):
        """Kills the running parts, and prints their names."""
        for name in list(self.running):
            process = self.processes.get(name)
            if process and process.returncode is None:
                print(f"== {name}: stopped; its output so far is in build/tests", flush=True)
                end_part(process.pid)


def print_table(outcomes, seconds):
    print(f"\n{'part':20} {'seconds':>8} {'processor':>10}")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.seconds, reverse=True):
        print(f"{outcome.part.name:20} {outcome.seconds:8.1f} {outcome.processor:10.1f}")
    print(f"{'the whole':20} {seconds:8.1f} {sum(outcome.processor for outcome in outcomes):10.1f}")


def print_left_out(arguments, outcomes, parts, table):
    sliced = [outcome for outcome in outcomes if outcome.slice]
    if sliced:
        print("\nOf these parts a slice was run; scripts/test --full runs all of them, and --slice K/N another slice:")
        for outcome in sliced:
            print(f"    {outcome.part.name}: slice {outcome.slice}")
    names = {part.name for part in parts}
    for option in ("full", "long"):
        left = [part.name for part in table if part.when == option and part.name not in names]
        if left and not arguments.part:
            print(f"\nNot run without --{option}: {', '.join(left)}")


def chosen_parts(arguments, table):
    times = {"always"} | ({"full"} if arguments.full or arguments.long else set()) | ({"long"} if arguments.long else set())
    if not arguments.part:
        return [part for part in table if part.when in times]
    wanted, by_name = list(arguments.part), {part.name: part for part in table}
    for name in wanted:
        wanted += [need for need in by_name[name].needs if need not in wanted and by_name[need].says == BUILD]
    return [part for part in table if part.name in wanted]


def keep_for_table(arguments, passed, failed, skipped):
    """Records the whole suite on this system for docs/COMPATIBILITY.md. Parts for another processor record their results themselves."""
    if arguments.arch != HERE or arguments.part:
        return
    how = "long" if arguments.long else "full" if arguments.full else ""
    said = subprocess.run(["swift", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    swift = re.search(r"Swift version (\d+\.\d+(?:\.\d+)?)", said)
    compatibility.record("suite", f"scripts/test{f' --{how}' if how else ''}", passed, failed, skipped, swift=swift[1] if swift else "")


def slices(arguments):
    """Returns a function from a part to its slice, None to run it whole. Every run takes the same slice, so that a regression shows at
    the commit that made it."""
    if arguments.full or arguments.long:
        return lambda part: None
    return lambda part: arguments.slice or Slice(1, part.slices) if part.slices > 1 else None


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"test: error: {message}\nhint: scripts/test --list names the parts", file=sys.stderr)
        sys.exit(1)


def main():
    parser = Parser(prog="scripts/test", description="Sets everything up, builds, and runs the test suite.", allow_abbrev=False)
    parser.add_argument("--full", action="store_true", help="all cases of the parts of which otherwise one slice is run")
    parser.add_argument("--long", action="store_true", help="that, and what takes too long for every change")
    parser.add_argument("--slice", type=slice_of, metavar="K/N", help="this slice of each sliced part, instead of the first")
    parser.add_argument("--part", action="append", metavar="NAME", help="only this part and what it needs built; repeatable")
    parser.add_argument("--list", action="store_true", help="list the parts, then end")
    parser.add_argument("--arch", default=HERE, choices=[HERE, *DEBIAN], help="the parts that are run for this processor, under qemu")
    arguments = parser.parse_args()
    table = PARTS if arguments.arch == HERE else elsewhere(arguments.arch)
    for name in arguments.part or ():
        if name not in {part.name for part in table}:
            parser.error(f"there is no part '{name}'")
    if arguments.slice and (arguments.full or arguments.long):
        parser.error("--slice is for a run that is not --full or --long")
    if arguments.list:
        for part in table:
            how = [part.when, f"one slice of {part.slices}" if part.slices > 1 else "", "alone" if part.quiet else "",
                   "needs " + ", ".join(part.needs) if part.needs else ""]
            print(f"{part.name:18} {part.seconds:5} s  {'; '.join(filter(None, how))}")
        return 0
    logs = LOGS / (arguments.arch if arguments.arch != HERE else "")
    logs.mkdir(parents=True, exist_ok=True)
    parts = chosen_parts(arguments, table)
    queue = Queue(parts, slices(arguments), logs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    try:
        queue.run()
    except BaseException:
        queue.stop()
        raise
    outcomes = [queue.outcomes[part.name] for part in parts]
    print_table(outcomes, time.monotonic() - began)
    bad = [outcome for outcome in outcomes if not outcome.is_good]
    if bad:
        print("\nWhat failed (whole logs are in build/tests):")
        for outcome in bad:
            print(f"== {outcome.part.name}", *outcome.trouble, sep="\n")
    print_left_out(arguments, outcomes, parts, table)
    passed, failed, skipped = (sum(getattr(outcome, key) for outcome in outcomes) for key in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    keep_for_table(arguments, passed, failed, skipped)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
