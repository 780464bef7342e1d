#!/usr/bin/env python3
"""Tests programs under seccomp filters that were installed before their start, as systemd does for SystemCallFilter=.
Some filters kill the process, others return an error. `zguard run` runs under the filter, or starts the program that installs it. The
program is guarded as usual, crashes are collected, and zguard names the forbidden calls and the setting that allows them. If the filter
cannot be read, findings still have process, thread, names and time.
Closing line: N passed, N failed."""

import json
import os
import re
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

SOURCES, FOLDER = TESTS / "Robustness/Filters", builds.BUILD / "filters"
TIMEOUT_SECONDS = 60


def built(name):
    source = SOURCES / f"{name}.c"
    return builds.compiled(FOLDER / name, ["gcc", "-g", "-O1", "-pthread", "-w", str(source), "-o", str(FOLDER / name)], [source])


def findings_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_origin(finding, program, pid=None):
    assert finding["pid"] > 1 and (pid is None or finding["pid"] == pid), finding["pid"]
    assert finding["thread"]["id"] == 1 and finding["thread"]["name"] == program.name, finding["thread"]
    assert finding["program"] == str(program), finding["program"]
    age = time.time() - datetime.fromisoformat(finding["time"].replace("Z", "+00:00")).timestamp()
    assert -1 < age < 120, finding["time"]
    assert finding["stacks"]["access"][0]["module"] == str(program) or len(finding["stacks"]["access"]) > 1, finding["stacks"]["access"]


def check(findings, kind, way, program, errors):
    assert [finding["kind"] for finding in findings] == [kind], (findings, errors[-800:])
    finding = findings[0]
    check_origin(finding, program)
    assert finding["threads"][0]["stack"], finding.get("detail")
    if way == "abort":
        assert finding["signal"] == "SIGABRT" and finding["message"] == "out of cheese", finding


WAYS = {"null": ("null-access", 139), "abort": ("crash", 134), "twice": ("double-free", 134)}


def zguard_under_filter(launcher, program, answer, way):
    kind, expected = WAYS[way]

    def test(place):
        report = place / "report"
        command = [launcher, answer, "service", ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", program, way]
        status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place)
        assert status == expected, f"status {status}: {errors[-800:]}"
        findings = findings_of(report)
        if answer == "kill":
            # The filter kills a process that uses ptrace, so zguard must not stop threads.
            assert "forbids mincore, ptrace" in errors and "SystemCallFilter=mincore ptrace" in errors and "a seccomp filter " in errors, errors
            assert [finding["kind"] for finding in findings] == [kind], errors
            check_origin(findings[0], program)
            assert "a seccomp filter forbids ptrace" in findings[0]["detail"]["threads"], findings[0]["detail"]
        else:
            assert "forbids" not in errors.splitlines()[-1], errors
            assert [finding["kind"] for finding in findings] == [kind], errors
            check_origin(findings[0], program)
    return test


def zguard_over_launcher(launcher, program, answer, way):
    kind, expected = WAYS[way]

    def test(place):
        report = place / "report"
        command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", launcher, answer, "service", program, way]
        status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place)
        assert status == expected, f"status {status}: {errors[-800:]}"
        check(findings_of(report), kind, way, program, errors)
    return test


def library_alone(launcher, program, way):
    """Without zguard the library cannot know the filter, so it makes only system calls that every program start makes."""
    def test(place):
        report = place / "raw"
        environment = guarded_by(LIBRARY, f"report_path={report}:on_finding=continue")
        process = subprocess.Popen([launcher, "kill", "start", program, way], env=environment, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        findings = findings_of(report)
        assert process.returncode == 0 and len(findings) == 1, (process.returncode, findings, errors)
        check_origin(findings[0], program, process.pid)
    return test


def run_over_unreadable(launcher, program):
    """If neither the library nor zguard can read the filter, the closing line says that a program started under a filter."""
    def test(place):
        environment = scrubbed()
        # The launcher, which installs the filter, runs unguarded.
        script = place / "start"
        script.write_text(f"#!/bin/sh\nexec env LD_PRELOAD= {launcher} kill start /usr/bin/env LD_PRELOAD=\"$LD_PRELOAD\" {program} none\n")
        script.chmod(0o755)
        status, out, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", script], env=environment, cwd=place)
        assert status == 0 and "done" in out, (status, out, errors)
        clause = ", 1 program started under a seccomp filter, so that faults were not diagnosed: run zguard itself under the filter"
        assert clause in errors.splitlines()[-1], errors
    return test


def doctor_names_it(launcher):
    def test(place):
        for answer, expected in (("kill", r"kills programs for mincore, ptrace.*SystemCallFilter=mincore ptrace"),
                                 ("errno", "the seccomp filter allows all system calls that guarding needs")):
            status, out, errors = run_within(TIMEOUT_SECONDS, [launcher, answer, "service", ZGUARD, "doctor"], env=scrubbed(), cwd=place)
            row = next(line for line in out.splitlines() if "system calls" in line)
            assert status == 0 and re.search(expected, row), (status, out, errors)
    return test


def main():
    launcher, program = built("launcher"), built("misuse")
    tests = [(f"{answer} {way}: zguard under it", zguard_under_filter(launcher, program, answer, way)) for answer in ("kill", "errno") for way in WAYS]
    tests += [(f"{answer} {way}: zguard over it", zguard_over_launcher(launcher, program, answer, way)) for answer in ("kill", "errno") for way in WAYS]
    tests += [("twice: library alone", library_alone(launcher, program, "twice")), ("unreadable", run_over_unreadable(launcher, program)),
              ("doctor", doctor_names_it(launcher))]
    return run_tests(tests, "zguard-filters-", sys.argv[1] if len(sys.argv) > 1 else "")


if __name__ == "__main__":
    sys.exit(main())
