#!/usr/bin/env python3
"""Runs the test suites of third-party programs plain and guarded: every single test must have the same outcome.

Tests/Suites has one module for each suite; Tests/Suites/suite.py defines what a suite is. Plain outcomes are kept in build/tests/suites
while the package versions stay the same. A test whose outcome differs is run again alone, alternately plain and guarded; it counts as
unsteady only if plain runs show every outcome that guarded ones show, otherwise it differs, which is a failure. A finding that
Tests/Suites/known.supp does not explain is a failure too.
The closing line counts units: modules or scripts of a suite.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import close  # noqa: E402
from Support.environment import ROOT, TESTS  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

sys.dont_write_bytecode = True

from suite import Guard, Place, SuiteError, all_suites, end_all_sessions  # noqa: E402

KNOWN = TESTS / "Suites" / "known.supp"
ATTEMPTS = 3  # runs of a unit that has only known defects
ALONE = 3  # number of repetitions of a differing test, plain and guarded each
print_lock = threading.Lock()


def say(text):
    with print_lock:
        print(text, flush=True)


# MARK: stored outcomes


class Kept:
    """Plain outcomes of a suite by unit, in a file that several runs may extend; discarded if a package version or the suite's revision
    differs."""

    def __init__(self, suite):
        self.path = suite.build / "plain.json"
        self.key = {"versions": suite.versions(), "revision": suite.revision}
        self.units, self.lock = self.read(), threading.Lock()

    def read(self):
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        return kept["units"] if kept.get("key") == self.key else {}

    def add(self, unit, outcomes):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.lock, open(self.path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.units = {**self.units, **self.read(), unit.name: outcomes}
            draft = self.path.with_suffix(".new")
            draft.write_text(json.dumps({"key": self.key, "units": self.units}))
            draft.rename(self.path)


class UnitRecord:
    """One unit, plain and guarded: differing tests, findings, and counts of outcomes."""

    def __init__(self, plain, guarded):
        self.plain, self.guarded = Counter(plain.values()), Counter(guarded.values())
        self.faults, self.unsteady, self.explained, self.known, self.seen = [], [], [], [], True
        self.differing = self.findings = 0

    def told(self):
        return {"plain": self.plain, "guarded": self.guarded, "differing": self.differing, "findings": self.findings,
                "known": len(self.known), "unsteady": len(self.unsteady), "explained": len(self.explained)}


# MARK: one unit


def run_unit(suite, unit, guard, kept, options):
    home = Path(tempfile.mkdtemp(prefix="zgs-", dir=options.tmp))
    try:
        def once(with_guard, only=()):
            place = Place(home / "run", guard if with_guard else None)
            result = suite.run(unit, place, only)
            result.hung = place.hung
            return result

        outcomes = kept.units.get(unit.name)
        if outcomes is None or options.fresh:
            outcomes = once(False).outcomes
            if "hung" not in outcomes.values():
                kept.add(unit, outcomes)
        for _ in range(ATTEMPTS):
            guarded = once(True)
            record = UnitRecord(outcomes, guarded.outcomes)
            record.seen = guarded.seen
            ended_by = note_findings(record, guarded, home, guard)
            if not record.known or record.faults:
                break
        differing = [name for name in sorted({*outcomes, *guarded.outcomes}) if outcomes.get(name) != guarded.outcomes.get(name)]
        reasons = {**suite.differs, **suite.differs_in.get(guard.profile, {})}
        for name in differing:
            before, after = outcomes.get(name, "absent"), guarded.outcomes.get(name, "absent")
            said = f"{name}: {before} became {after}"
            if f"{unit.name}/{name}" in reasons or name in ended_by or None in ended_by:
                record.explained.append(said)
            elif len(differing) <= 30 and is_unsteady(name, before, after, once):
                record.unsteady.append(said)
            else:
                record.differing += 1
                record.faults.append(said)
        if record.faults:
            record.faults.append("the guarded run's last words:\n" + guarded.output[-options.words:])
            if guarded.hung:
                record.faults.append("what hung in it:\n" + guarded.hung)
        return record
    except (SuiteError, OSError, ValueError, subprocess.SubprocessError):
        record = UnitRecord({}, {})
        record.faults.append(traceback.format_exc())
        return record
    finally:
        shutil.rmtree(home, ignore_errors=True)


def is_unsteady(name, before, after, once):
    """Returns whether plain runs show every outcome of guarded ones, or both agree each time that the test runs alone."""
    plain, guarded, agreed = {before}, {after}, 0
    times = 1 if "hung" in (before, after) else ALONE  # each run may last until the deadline
    for _ in range(times):
        one, other = (once(way, (name,)).outcomes.get(name, "absent") for way in (False, True))
        plain.add(one)
        guarded.add(other)
        agreed += one == other
    return guarded <= plain or agreed == times


def note_findings(record, guarded, home, guard):
    """Adds the findings to the record. Returns the tests that a known defect may have ended; contains None if a finding names no test."""
    ended_by = set()
    for finding in guarded.findings:
        test = finding.pop("test", None)
        path = home / "one.json"
        path.write_text(json.dumps(finding) + "\n")
        shown = subprocess.run([guard.zguard, "report", "--suppressions", KNOWN, path], capture_output=True, text=True, timeout=120)
        if shown.returncode == 0 and "==zguard== no findings (" in shown.stdout:
            record.known.append(f"{test or 'this unit'}: {finding['kind']}")
            ended_by |= {test, "(module)", "(script)"}
        else:
            record.findings += 1
            record.faults.append(f"finding in {test or 'this unit'}:\n" + shown.stdout[:4000])
    return ended_by


# MARK: a suite


def run_suite(suite, profile, options):
    """Runs the suite's units and stores their results for the document; returns the numbers of passed and of failed units."""
    guard = Guard(options.zguard, profile, options.option)
    started = time.monotonic()
    suite.prepare()
    units = [unit for unit in suite.units() if profile in unit.profiles]
    if options.quick:
        units = [unit for unit in units if unit.quick]
    if options.unit:
        units = [unit for unit in units if unit.name in options.unit]
    kept, met = Kept(suite), Met(suite, profile)
    total, passed, failed, seen = [], 0, 0, 0

    def timed(unit):
        begin = time.monotonic()
        return unit, run_unit(suite, unit, guard, kept, options), time.monotonic() - begin

    pool = concurrent.futures.ThreadPoolExecutor(max(1, options.jobs))
    try:
        for future in concurrent.futures.as_completed([pool.submit(timed, unit) for unit in units]):
            unit, record, seconds = future.result()
            total.append((unit, record))
            met.units[unit.name] = record.told()
            seen += record.seen
            failed += bool(record.faults)
            passed += not record.faults
            if record.faults or options.verbose:
                say(f"{'FAIL' if record.faults else 'pass'}   {suite.name} {unit.name}, {profile} ({seconds:.1f} s)")
            for fault in record.faults:
                say("       " + fault.replace("\n", "\n       "))
            for said in record.unsteady:
                say(f"       {unit.name}/{said}: unsteady without the guard, too, or equal alone")
            for said in record.known:
                say(f"       {unit.name}/{said}: a known defect")
    finally:
        met.keep()
        pool.shutdown(wait=False, cancel_futures=True)
    if units and not seen:
        failed += 1
        say(f"FAIL   {suite.name}: no guarded process was seen")
    say(f"{suite.name}, {profile}: {line_of(summarise([record.told() for _, record in total]))}; {time.monotonic() - started:.0f} s")
    return passed, failed


def summarise(records):
    """Adds up the results of UnitRecord.told."""
    sums = {"units": len(records), "plain": Counter(), "guarded": Counter(), "differing": 0, "findings": 0, "known": 0,
            "unsteady": 0, "explained": 0}
    for record in records:
        for key, value in record.items():
            sums[key] += Counter(value) if isinstance(value, dict) else value
    sums["tests"] = sum(sums["plain"].values())
    return sums


def line_of(sums):
    return (f"{sums['units']} units, {sums['tests']} tests: plain {spell(sums['plain'])}; guarded {spell(sums['guarded'])}; "
            f"{sums['differing']} differ, {sums['explained']} differ for known reasons, {sums['unsteady']} unsteady, "
            f"{sums['findings']} findings, {sums['known']} known defects")


def spell(counter):
    """Returns passed, failed and skipped as text; every other outcome counts as failed."""
    passed = sum(number for outcome, number in counter.items() if outcome in ("passed", "failed as expected"))
    skipped = counter["skipped"]
    return f"{passed:,} passed, {sum(counter.values()) - passed - skipped:,} failed, {skipped:,} skipped"


# MARK: the document


class Met:
    """The results of the last run of each unit in a profile, summed up in the document."""

    def __init__(self, suite, profile):
        self.path = suite.build / f"{profile}.json"
        self.versions, self.units = suite.versions(), {}
        if self.path.exists():
            met = json.loads(self.path.read_text())
            if met["versions"] == self.versions:
                self.units = met["units"]

    def keep(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"versions": self.versions, "units": self.units}))


def markdown(suites):
    print("| suite | packages | a unit is | tests | plain | guarded, default | guarded, fence | findings |")
    print("|---|---|---|---|---|---|---|---|")
    for suite in suites:
        done = {profile: summarise(list(Met(suite, profile).units.values())) for profile in ("default", "fence")}
        if not any(sums["units"] for sums in done.values()):
            continue
        first = max(done.values(), key=lambda sums: sums["units"])
        tested = [f"{name} {version}" for name, version in suite.versions().items() if name in suite.tested_packages]
        cells = [suite.title, "<br>".join(tested), f"`{suite.command}`", f"{first['tests']:,} in {first['units']:,} of {count_units(suite)} units",
                 spell(first["plain"]), *[told(sums, first) for sums in done.values()]]
        found, known = (sum(sums[kind] for sums in done.values()) for kind in ("findings", "known"))
        cells.append(f"{found}" + (f", {known} known" if known else ""))
        print("| " + " | ".join(cells) + " |")


def count_units(suite):
    suite.prepare()
    return f"{len(suite.units()):,}"


def told(sums, first):
    if not sums["units"]:
        return "–"
    words = [f"{sums['differing']} differ" if sums["differing"] else "the same"]
    if sums["explained"]:
        words.append(f"{sums['explained']} for known reasons")
    if sums["unsteady"]:
        words.append(f"{sums['unsteady']} unsteady")
    some = f" ({sums['tests']:,} tests of {sums['units']:,} units)" if sums["units"] != first["units"] else ""
    return f"{spell(sums['guarded'])}: {', '.join(words)}{some}"


# MARK: the command


def install(suites):
    packages = sorted({package for suite in suites for package in suite.packages if not suite.versions()[package]})
    if not packages:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0:
        sys.exit("suites: error: packages are missing and this is not root\nhint: sudo " + " ".join(command))
    say("suites: installing " + " ".join(packages))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for attempt in (command, ["apt-get", "update"], command):
        result = subprocess.run(attempt, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if attempt is command and result.returncode == 0:
            return
    sys.exit(f"suites: error: {' '.join(command)} failed\n{result.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the units that every change can wait for; nothing is built")
    parser.add_argument("--install", action="store_true", help="fetch missing packages with apt-get first")
    parser.add_argument("--install-only", action="store_true", help="that, then end")
    parser.add_argument("--filter", metavar="NAME", action="append", help="only the suite NAME (repeatable)")
    parser.add_argument("--unit", metavar="NAME", action="append", help="only this unit (repeatable)")
    parser.add_argument("--profile", choices=("default", "fence"), action="append", help="both where not said (--quick: default)")
    parser.add_argument("--option", "-o", metavar="KEY=VALUE", action="append", default=[], help="option for `zguard run`")
    parser.add_argument("--list", action="store_true", help="names of suites and units, then end")
    parser.add_argument("--markdown", action="store_true", help="print the table of what was run last, then end")
    parser.add_argument("--fresh", action="store_true", help="do not take plain outcomes of earlier runs")
    parser.add_argument("--zguard", metavar="PATH", default=str(ROOT / "build" / "bin" / "zguard"))
    parser.add_argument("--jobs", metavar="N", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--tmp", metavar="DIR", help="where units put their files; a short path")
    parser.add_argument("--words", metavar="N", type=int, default=1500, help="how much of a differing unit's output to show")
    parser.add_argument("-v", "--verbose", action="store_true")
    add_slice_option(parser)
    options = parser.parse_args()

    suites = [suite for suite in all_suites() if not options.filter or suite.name in options.filter]
    if not suites:
        sys.exit("suites: error: no suite has a name like that")
    if options.markdown:
        markdown(suites)
        return 0
    if options.install or options.install_only:
        install(suites)
    if options.install_only:
        return 0
    if options.quick:
        suites = [suite for suite in suites if suite.is_quick]
    whole, suites = suites, options.slice.deal(suites)
    options.slice.say(len(suites), len(whole), "suites")
    if options.list:
        for suite in suites:
            suite.prepare()
            for unit in suite.units():
                print(suite.name, unit.name, "quick" if unit.quick else "")
        return 0
    if not os.path.exists(options.zguard):
        sys.exit(f"suites: error: cannot find '{options.zguard}'\nhint: scripts/build makes build/bin/zguard")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    passed = failed = 0
    for suite in suites:
        missing = [package for package, version in suite.versions().items() if not version]
        for profile in options.profile or (("default",) if options.quick else ("default", "fence")):
            try:
                if missing:
                    raise SuiteError(f"not installed: {', '.join(missing)} (--install fetches packages)")
                good, bad = run_suite(suite, profile, options)
            except SuiteError as error:
                say(f"FAIL   {suite.name}: {error}")
                good, bad = 0, 1
            passed, failed = passed + good, failed + bad
    return close(passed, failed)


if __name__ == "__main__":
    try:
        status = main()
    except BaseException:
        end_all_sessions()  # before the threads that wait for them are joined
        raise
    sys.exit(status)
