#!/usr/bin/env python3
"""Programs that die (collect=crashes): kind, signal, message, the innermost frame, how many threads; and the program ends as it does
without us, core file included.

The programs are the functions of Tests/Crashes/ways.c, ways.cc and ways.swift; a line in front of each says what must be found.
Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES, FOLDER = TESTS / "Crashes", builds.BUILD / "crashing"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
TIMEOUT_SECONDS = 60
# What Swift's traps are.
TRAP = {"x86_64": "SIGILL"}.get(os.uname().machine, "SIGTRAP")
FOUND_NOTHING = "nothing"


class Case:
    """One way to die."""

    def __init__(self, program, name, words):
        self.program, self.name = program, name
        (self.signal, self.kind), options = words[:2], dict(word.split("=", 1) for word in words[2:])
        self.signal = TRAP if self.signal == "TRAP" else self.signal
        self.message, self.threads, self.top = options.get("message"), options.get("threads", "1"), options.get("top", name)

    @property
    def title(self):
        return f"{self.program.name} {self.name}"

    @property
    def kinds(self):
        """What every slice has one of."""
        return (self.program.name, self.kind), (self.program.name, self.signal)

    @property
    def status(self):
        """As a shell has it: of a signal, or what the program returns."""
        return int(self.signal) if self.signal.isdecimal() else 128 + signal.Signals[self.signal]


def cases_of(source, program):
    """The functions of a source with a line that says how they die."""
    cases, said = [], None
    for line in source.read_text().splitlines():
        if found := re.match(r"// dies: (.*)", line):
            # A message, which may hold anything, ends at the next name.
            said = [word.strip() for word in re.split(r",\s+(?=message=|threads=|top=|[\w-]+$|[\w-]+,)", found[1])]
        elif said and (found := re.search(r"^CASE (\w+)\(|^@inline\(never\) func (\w+)\(|^if name == \"(\w+)\"", line)):
            cases.append(Case(program, next(filter(None, found.groups())), said))
            said = None
    return cases


def built():
    """(source, program) of each language."""
    c, cc, swift = SOURCES / "ways.c", SOURCES / "ways.cc", SOURCES / "ways.swift"
    yield c, builds.compiled(FOLDER / "c", ["gcc", "-g", "-O1", "-pthread", "-w", str(c), "-o", str(FOLDER / "c")], [c])
    yield cc, builds.compiled(FOLDER / "cc", ["g++", "-std=c++17", "-g", "-O1", "-D_GLIBCXX_ASSERTIONS", "-pthread", "-w", str(cc), "-o", str(FOLDER / "cc")], [cc])
    for name, flags in (("swift-dynamic", ["-Onone"]), ("swift-static", ["-O", "-static-stdlib"])):
        yield swift, builds.compiled(FOLDER / name, [SWIFTC, "-swift-version", "6", "-module-name", "Ways", "-g", *flags, str(swift), "-o", str(FOLDER / name)],
                                     [swift])


def allow_core():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def forbid_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def collected(case, place, options=(), **how):
    """Status and findings of a run that collects crashes."""
    report = place / "report.jsonl"
    how.setdefault("preexec_fn", forbid_core)
    command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", *options, "--", case.program, case.name]
    status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place, **how)
    return status, [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else [], errors


# Of libraries, where they were compiled into the program.
OF_LIBRARIES = re.compile(r"std::|[Ss]wift[ .:_]|reabstraction thunk|_dispatch")


def own_frames(stack, program):
    return [frame for frame in stack if frame.get("module") == str(program) and not OF_LIBRARIES.match(frame.get("function", ""))]


def check_finding(case, finding):
    assert finding["kind"] == case.kind, finding["kind"]
    if case.kind == "double-free":
        return  # ours, and the program ends by it
    expected = "SIGABRT" if case.signal.isdecimal() else case.signal
    assert finding["signal"] == expected, finding["signal"]
    message = finding.get("message")
    assert (message is None) == (case.message is None) and (message is None or re.search(case.message, message, re.S)), f"message {message!r}"
    assert finding["registers"], finding
    own = own_frames(finding["stacks"]["access"], case.program)
    assert own and case.top in own[0].get("function", ""), [frame.get("function") for frame in finding["stacks"]["access"]]
    assert "threads" in finding, f"no threads: {finding['detail'].get('threads')}"
    threads = finding["threads"]
    assert case.threads == "any" or len(threads) == int(case.threads), [thread["name"] for thread in threads]
    assert [thread["faulted"] for thread in threads] == [True] + [False] * (len(threads) - 1), threads
    assert all(thread["stack"] for thread in threads), threads
    assert threads[0]["id"] == finding["thread"]["id"] and len({thread["tid"] for thread in threads}) == len(threads), threads


def dies_as(case):
    def test(place):
        status, _, _ = run_within(TIMEOUT_SECONDS, [case.program, case.name], env=scrubbed(SWIFT_BACKTRACE="enable=no"), preexec_fn=forbid_core, cwd=place)
        assert as_shell(status) == case.status, f"unguarded it ends with {status}"
        status, findings, errors = collected(case, place)
        # Its findings end it by SIGABRT, the program's own way is another.
        assert status == case.status, f"status {status}: {errors[-800:]}"
        if case.kind == FOUND_NOTHING:
            assert not findings, findings
            return
        assert len(findings) == 1, f"{[finding['kind'] for finding in findings]}: {errors[-800:]}"
        check_finding(case, findings[0])
    return test


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    cases = [case for source, program in built() for case in cases_of(source, program)]
    chosen = arguments.slice.choose(cases, name=lambda case: case.title, kinds=lambda case: case.kinds)
    tests = [(case.title, dies_as(case)) for case in chosen]
    arguments.slice.say(chosen, len(cases), "ways to die")
    return run_tests(tests, "zguard-crashing.", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
