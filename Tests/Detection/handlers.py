#!/usr/bin/env python3
"""Checks programs with their own fault handlers: a fault is reported if its handler ends the program, and not if the program recovers.

The report must have kind, address and stack of the fault itself, and closing line and reports must state how the run ended. Each case
runs with the handler on the interrupted stack and on an alternate stack, with and without crash collection, and without zguard.
The programs are the functions of Tests/Crashes/handlers.c; a line in front of each states the expected finding.
Closing line: N passed, N failed."""

import argparse
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.reports import ends_of, findings_of  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402
from crashing import forbid_core  # noqa: E402

SOURCE, FOLDER = TESTS / "Crashes/handlers.c", builds.BUILD / "handlers"
TIMEOUT_SECONDS = 60
HANDLED = "in one of its own signal handlers"
# For each flag, SA_RESETHAND and SA_NODEFER: the cases that would end differently with this flag, and are therefore not run with it.
OTHERWISE = {"resethand": {"probes", "recovers_in_handler", "sent_and_faults", "faults_again"}, "nodefer": {"faults_again", "sent_and_faults"}}


class Case:
    def __init__(self, name, said):
        words = [word.strip().replace("\\,", ",") for word in re.split(r"(?<!\\),", said)]
        self.name, self.end, self.kind = name, words[0], words[1]
        options = dict(word.split("=", 1) for word in words[2:])
        self.by, self.clause, self.top = options.get("by"), options.get("clause"), options.get("top", name)
        self.is_seen_by_run = options.get("seen") == "run"

    @property
    def status(self):
        return int(self.end) if self.end.isdecimal() else 128 + signal.Signals[self.end]

    @property
    def closing(self):
        """The clause that the closing line must have about how the run ended; empty if the line must have no such clause."""
        if self.clause is not None:
            return self.clause
        if self.end.isdecimal():
            return f"ended with status {self.end}, {HANDLED}" if self.by else ""
        return f"ended by {self.end}, {HANDLED}" if self.by else f"ended by {self.end}"

    @property
    def is_nothing_without_collecting(self):
        return self.kind in ("nothing", "crash")


def cases():
    found = re.findall(r"^// ends: (?!STATUS)(.*)\nCASE (\w+)", SOURCE.read_text(), re.MULTILINE)
    assert len(found) == len(re.findall(r"^// ends: (?!STATUS)", SOURCE.read_text(), re.MULTILINE)), "not every line is in front of a function"
    return [Case(name, said) for said, name in found]


def built():
    program = FOLDER / "handlers"
    return builds.compiled(program, ["gcc", "-g", "-O1", "-pthread", "-w", str(SOURCE), "-o", str(program)], [SOURCE])


def check(case, findings, kind, program):
    if kind == "nothing":
        assert not findings, [(finding["kind"], finding["address"]) for finding in findings]
        return
    assert len(findings) == 1 and findings[0]["count"] == 1, [(finding["kind"], finding["count"]) for finding in findings]
    finding = findings[0]
    assert finding["kind"] == kind, finding["kind"]
    assert finding.get("detail", {}).get("ended_by") == case.by, finding.get("detail")
    own = [frame.get("function", "") for frame in finding["stacks"]["access"] if frame.get("module") == str(program)]
    if case.name == "forks_aborter":
        return
    # Raw reports have no function names.
    assert not any("function" in frame for frame in finding["stacks"]["access"]) or (own and case.top in own[0]), own
    if kind == "null-access" and case.top == "fall":
        assert finding["address"] == "0x10", finding["address"]


def under_zguard(case, program, words, options):
    def test(place):
        report = place / "report.jsonl"
        command = [ZGUARD, "run", *options, "--report", report, "--format", "json", "--", program, case.name, *words]
        status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place, preexec_fn=forbid_core)
        assert status == case.status, f"status {status}: {errors[-800:]}"
        findings, runs = findings_of(report), ends_of(report)
        is_collected = "--collect" in options
        kind = case.kind if is_collected or case.kind != "crash" else "nothing"
        check(case, findings, kind, program)
        closing = errors.splitlines()[-1]
        if case.kind == "crash" and not is_collected:
            return  # without crash collection the runtime does not know which signal's handler ended the program
        clause = closing.rpartition("; ")[2] if "; ended" in closing or "; killed" in closing else ""
        assert clause.startswith(case.closing) and bool(clause) == bool(case.closing), f"{closing!r}, not {case.closing!r}"
        # The report contains the end of the run only if no finding explains the end.
        assert len(runs) == (bool(clause) and not findings), runs
        for run in runs:
            assert run["end"]["text"] == clause and run["end"]["status"] == status, run
        if is_collected and findings:
            expected = {"division": "SIGFPE", "illegal": "SIGILL", "aborts_and_exits": "SIGABRT", "aborts_and_raises": "SIGABRT", "jumps_and_aborts": "SIGABRT",
                        "forks_aborter": "SIGABRT"}
            assert findings[0]["signal"] == expected.get(case.name, "SIGSEGV"), findings[0]["signal"]
            assert case.is_seen_by_run or case.name == "another_thread_exits" or findings[0]["threads"], findings[0].get("detail")
    return test


def by_itself(case, program, words):
    """Without zguard, the runtime writes the finding as a raw report, unless it is a finding that only zguard can report."""
    def test(place):
        report = place / "raw"
        status, _, errors = run_within(TIMEOUT_SECONDS, [program, case.name, *words], env=guarded_by(LIBRARY, f"report_path={report}"), cwd=place,
                                       preexec_fn=forbid_core)
        assert as_shell(status) == case.status, f"status {status}: {errors[-800:]}"
        findings = findings_of(report)
        check(case, findings, "nothing" if case.is_seen_by_run or case.is_nothing_without_collecting else case.kind, program)
    return test


def unguarded(case, program, words):
    def test(place):
        status, _, errors = run_within(TIMEOUT_SECONDS, [program, case.name, *words], env=scrubbed(), cwd=place, preexec_fn=forbid_core)
        assert as_shell(status) == case.status, f"status {status}: {errors[-800:]}"
    return test


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    program, tests = built(), []
    for case in cases():
        for words in ([], ["onstack"], ["nodefer"], ["onstack", "resethand"]):
            if any(case.name in OTHERWISE.get(word, ()) for word in words):
                continue
            title = " ".join([case.name, *words])
            tests.append((f"{title} unguarded", unguarded(case, program, words)))
            tests.append((f"{title} run", under_zguard(case, program, words, [])))
            tests.append((f"{title} collect", under_zguard(case, program, words, ["--collect", "crashes"])))
            tests.append((f"{title} library", by_itself(case, program, words)))
    return run_tests(tests, "zguard-handlers-", arguments.filter, part=arguments.slice,
                     kinds=lambda name: [name.split()[0], " ".join(name.split()[1:])])


if __name__ == "__main__":
    sys.exit(main())
