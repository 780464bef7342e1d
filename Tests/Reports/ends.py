#!/usr/bin/env python3
"""Tests that the closing line and every report format say how the program ended.
Cases: SIGKILL, a limit on CPU time, a seccomp filter. If a run was cut short, "no findings" appears only together with
how the run ended, and the run's test suite does not pass. Closing line: N passed, N failed."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import run_driver, run_within  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402

SOURCE, FOLDER = TESTS / "Reports/Ends/ends.c", builds.BUILD / "ends"
TIMEOUT_SECONDS = 60
# Way to end the program, exit status, `by`, and text of the closing line.
WAYS = [
    ("sigkill", 137, "unknown", r"killed by SIGKILL after \d\.\d+ s"),
    ("sigterm", 143, "unknown", r"killed by SIGTERM after \d\.\d+ s"),
    ("soft", 152, "processor_limit", r"killed by SIGXCPU after [\d.]+ s \(its limit on processor time\)"),
    ("hard", 137, "processor_limit", r"killed by SIGKILL after [\d.]+ s \(its limit on processor time\)"),
    ("near", 137, "unknown", r"killed by SIGKILL after [\d.]+ s"),
    ("children", 137, "unknown", r"killed by SIGKILL after [\d.]+ s"),
    ("filter", 159, "seccomp", r"killed by a seccomp filter \(SIGSYS\) after \d\.\d+ s"),
    ("strict", 137, "seccomp", r"killed by a seccomp filter \(SIGKILL\) after \d\.\d+ s"),
]


def built():
    program = FOLDER / "ends"
    return builds.compiled(program, ["gcc", "-g", "-O1", "-w", str(SOURCE), "-o", str(program)], [SOURCE])


def run(place, words, *options):
    status, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", *options, "--", *words], env=scrubbed(), cwd=place)
    return status, errors.splitlines()


def in_closing_line(program, way, status, clause):
    def test(place):
        ended, lines = run(place, [program, way])
        assert ended == status, (ended, lines)
        assert re.fullmatch(rf"==zguard== no findings; .*; {clause}", lines[-1]), lines
    return test


def in_every_form(program, way, status, by, clause):
    def test(place):
        for form in ("json", "sarif", "junit", "html"):
            ended, lines = run(place, [program, way], "--report", place / form, "--format", form)
            assert ended == status, (form, lines)
        lines = [json.loads(line) for line in (place / "json").read_text().splitlines()]
        assert [line["schema"] for line in lines] == ["zguard.run/1"], lines
        schema = json.loads((ROOT / "docs/run.schema.json").read_text())
        assert lines[0].keys() == schema["properties"].keys() and lines[0]["end"].keys() == schema["properties"]["end"]["properties"].keys(), lines
        end = lines[0]["end"]
        signal = clause.split("SIG")[1].split(" ")[0].rstrip(")").rstrip("\\")
        assert end["status"] == status and end["by"] == by and end["signal"] == f"SIG{signal}" and re.fullmatch(clause, end["text"]), end
        sarif = json.loads((place / "sarif").read_text())["runs"][0]
        call = sarif["invocations"][0]
        assert call["exitSignalName"] == end["signal"] and call["exitSignalNumber"] == status - 128 and call["executionSuccessful"] is False, call
        assert sarif["properties"]["end"]["by"] == by, sarif["properties"]
        suite = xml.parse(place / "junit").getroot()
        assert suite.get("errors") == "1" and suite.get("failures") == "0", suite.attrib
        errors = suite.findall(".//testcase[@name='program ended by itself']/error")
        assert len(errors) == 1 and re.fullmatch(clause, errors[0].get("message")), errors
        assert re.search("How the program ended: " + clause, (place / "html").read_text()), "html"
        # Reading the report again gives the same text.
        text = subprocess.run([ZGUARD, "report", place / "json"], capture_output=True, text=True, env=scrubbed())
        assert re.search(rf"==zguard== {re.escape(str(program))} \[\d+\]: {clause}\n==zguard== no findings", text.stdout), text
        again = subprocess.run([ZGUARD, "report", place / "json", "--format", "junit"], capture_output=True, text=True, env=scrubbed())
        assert xml.fromstring(again.stdout).get("errors") == "1", again
    return test


def own_end_is_left_alone(program):
    def test(place):
        for form in ("json", "sarif", "junit", "html"):
            ended, lines = run(place, [program, "none"], "--report", place / form, "--format", form)
            assert ended == 3 and "killed" not in lines[-1] and "ended" not in lines[-1], lines
        assert (place / "json").read_text() == "", "a line of the run"
        call = json.loads((place / "sarif").read_text())["runs"][0]["invocations"][0]
        assert call["executionSuccessful"] is True and "exitSignalName" not in call, call
        assert xml.parse(place / "junit").getroot().get("errors") == "0"
        assert "How the program ended" not in (place / "html").read_text()
    return test


def signal_of_own(program, way, status, name, kinds, counts):
    """A signal that the program raised itself, or that a finding explains: no run record in JSON, but one failing suite in JUnit."""
    def test(place):
        for form in ("json", "junit"):
            ended, lines = run(place, [program, way], "--report", place / form, "--format", form)
            assert ended == status and lines[-1].endswith(f"; ended by {name}"), lines
        assert [json.loads(line)["kind"] for line in (place / "json").read_text().splitlines()] == kinds
        suite = xml.parse(place / "junit").getroot()
        assert (suite.get("errors"), suite.get("failures")) == counts, suite.attrib
    return test


def shell_cannot_know(program):
    def test(place):
        ended, lines = run(place, ["/bin/sh", "-c", f"{program} sigkill; exit $?"])
        assert ended == 137 and lines[-1].endswith("; ended with status 137, which shells return where SIGKILL ended a program"), lines
    return test


def tests():
    program = built()
    for way, status, by, clause in WAYS:
        yield f"closing line, {way}", in_closing_line(program, way, status, clause)
        yield f"reports, {way}", in_every_form(program, way, status, by, clause)
    yield "own end", own_end_is_left_alone(program)
    yield "explained by a finding", signal_of_own(program, "null", 139, "SIGSEGV", ["null-access"], ("0", "1"))
    yield "abort", signal_of_own(program, "abort", 134, "SIGABRT", [], ("1", "0"))
    yield "shell", shell_cannot_know(program)


if __name__ == "__main__":
    sys.exit(run_driver(__doc__.splitlines()[0], tests, "zguard-ends-"))
