#!/usr/bin/env python3
"""Checks `zguard run --pinpoint` and `--focus`: if a write is found late, a further run finds the instruction that wrote.

Tests/Detection/Pinpointing/late.c writes to a freed block or beside a block. A busy allocation stack has allocated the block, late in the
run. The first run finds the write late; one of three runs must name the function `plant` as the innermost frame of the access.
Closing line: N passed, N failed."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, run_within  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402

SOURCE = TESTS / "Detection/Pinpointing/late.c"
PROGRAM = builds.BUILD / "pinpointing" / "late"
TAGGED = builds.BUILD / "pinpointing" / "tagged"
TIMEOUT_SECONDS = 120
SEGV = 139

# Arguments BUG and NUMBER of late.c, kind of the late finding, argument WHERE of late.c.
LATE = [(bug, number, kind, where)
        for bug, number, kind in [("freed", 20000, "write-after-free"), ("freed", 3, "write-after-free"), ("freed-shared", 20000, "write-after-free"),
                                  ("freed-exit", 59900, "write-after-free"),
                                  ("behind", 1, "heap-overflow"), ("behind", 2, "heap-overflow"), ("front", 1, "heap-overflow"),
                                  ("front", 2, "heap-overflow")]
        for where in ("main", "thread", "child", "program")]


class Runs:
    def __init__(self, work):
        self.work = Path(work)
        self.report = self.work / "report.jsonl"

    def run(self, *words, stdin=None, options=()):
        """Runs zguard; returns its status, standard output and standard error, and the findings of the report."""
        self.report.unlink(missing_ok=True)
        command = [ZGUARD, "run", "--report", self.report, *options, "--", PROGRAM, *words]
        status, out, err = run_within(TIMEOUT_SECONDS, command, cwd=self.work, env=scrubbed(), **({"stdin": stdin} if stdin else {}))
        return status, out, err, findings_of(self.report)


def innermost(finding):
    stack = finding["stacks"]["access"]
    return stack[0].get("function", "") if stack else ""


def is_exact(finding):
    return innermost(finding) == "plant" and finding["access"] == "write" and "found_by" not in finding.get("detail", {})


def problems_of_pinpointing(runs, bug, number, kind, where):
    """Without --pinpoint the bug is found late; with --pinpoint its instruction is found within three runs."""
    words = [bug, str(number), where]
    problems = []
    status, _, err, findings = runs.run(*words)
    if not findings:
        return [f"the bug is not found at all: status {status}, {err[-300:]}"]
    if [f["kind"] for f in findings] != [kind] and not is_exact(findings[0]):
        problems.append(f"without --pinpoint: {[(f['kind'], innermost(f)) for f in findings]}")
    found_by = findings[0].get("detail", {}).get("found_by")
    if number >= 20000 and found_by != ("exit" if bug == "freed-exit" else "eviction"):
        problems.append(f"without --pinpoint: found by {found_by}")
    was_late = not is_exact(findings[0])
    status, _, err, findings = runs.run(*words, options=["--pinpoint"])
    if len(findings) != 1 or not is_exact(findings[0]):
        problems.append(f"not pinpointed: {[(f['kind'], innermost(f)) for f in findings]}, {err[-400:]}")
    said = re.search(r"pinpointed in run ([23]): ", err)
    if was_late and not said:
        problems.append(f"no line about the runs: {err[-300:]}")
    expected = SEGV if where in ("main", "thread") else 99
    if status != expected:
        problems.append(f"status {status}, expected {expected}")
    return problems


def check_pinpointing(checks, runs, chosen, verbose):
    for case in LATE:
        name = f"{case[0]} {case[1]} {case[3]}"
        if chosen in name:
            checks.check(name, problems_of_pinpointing(runs, *case), verbose)


def problems_of_correct(runs):
    status, out, err, findings = runs.run("none", "5", options=["--pinpoint"])
    problems = [] if status == 0 and not findings and out.endswith("end\n") else [f"status {status}, {findings}"]
    if out.count("end") != 1 or "run 1" in err or "pinpoint" in err:
        problems.append(f"a correct program is run once, and nothing is said: {err}")
    return problems


def problems_of_exact(runs):
    """If the first run finds the instruction of an access, the program is not run again."""
    _, _, err, findings = runs.run("far-behind", "0", options=["--pinpoint"])
    if not findings or not is_exact(findings[0]):
        return [f"not exact: {findings}"]
    return ["the program is run again"] if "run 1" in err or "pinpointed" in err else []


def problems_of_vanished(runs, count):
    mark = runs.work / "mark"
    mark.unlink(missing_ok=True)
    options = ["--pinpoint"] + ([] if count == 3 else ["--runs", str(count)])
    status, out, err, findings = runs.run("freed", "20000", "main", str(mark), options=options)
    problems = []
    if [f["kind"] for f in findings] != ["write-after-free"]:
        problems.append(f"the late finding is lost: {findings}")
    if out.count("end") != count - 1:
        problems.append(f"{out.count('end')} runs came to their end, expected {count - 1}")
    if f"not reproduced in {count} run" not in err:
        problems.append(f"not said: {err}")
    return problems + ([] if status == 134 else [f"status {status}: that of the reported run is 134"])


def problems_of_input(runs):
    """If standard input is a file, each run reads it from the offset at which the first run began. Later runs lack data that an earlier run
    has read from a pipe."""
    mark, source = runs.work / "mark", runs.work / "input"
    source.write_text("first\nsecond\n")
    options = ["--pinpoint", "-o", "on_finding=continue", "--runs", "2"]
    problems = []
    mark.unlink(missing_ok=True)
    with open(source, "rb", buffering=0) as stdin:
        stdin.read(len("first\n"))
        _, out, err, _ = runs.run("freed", "20000", "main", str(mark), stdin=stdin, options=options)
    if out.count("read second") != 2 or "standard input" in err:
        problems.append(f"file: {out!r}, {err}")
    mark.unlink()
    with subprocess.Popen(["cat", str(source)], stdout=subprocess.PIPE) as pipe:
        _, out, err, _ = runs.run("freed", "20000", "main", str(mark), stdin=pipe.stdout, options=options)
    if out.count("read first") != 1 or "what it has read from standard input is gone" not in err:
        problems.append(f"pipe: {out!r}, {err}")
    return problems


def problems_of_destinations(runs):
    """The report has the exact finding in place of the late one: in every format on standard error and in a file, and in a store."""
    problems = []
    for form in ("text", "json", "sarif", "html", "junit", "github"):
        path = runs.work / f"report.{form}"
        command = [ZGUARD, "run", "--pinpoint", "--format", form]
        for where in ([], ["--report", path]):
            status, _, err = run_within(TIMEOUT_SECONDS, [*command, *where, "--", PROGRAM, "freed", "20000"], cwd=runs.work, env=scrubbed())
            text = path.read_text() if where else err
            found = text.replace("use-after-free", "").count("plant") + text.count("use-after-free")
            late = [line for line in text.splitlines() if "write-after-free" in line and not line.startswith("==zguard== run 1: ") and form != "sarif"]
            if status != SEGV or not found or late:
                problems.append(f"{form}, {where}: status {status}, {late} in {text[:300]}")
    store = runs.work / "reports"
    run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--pinpoint", "--report", f"{store}/", "--", PROGRAM, "freed", "20000"], cwd=runs.work, env=scrubbed())
    kinds = [finding["kind"] for path in store.iterdir() for finding in findings_of(path)]
    return problems + ([] if kinds == ["use-after-free"] else [f"store: {kinds}"])


def problems_of_end(runs):
    """If zguard gets SIGTERM while the program runs, the program is not run again, and its finding is reported."""
    started = runs.work / "started"
    started.unlink(missing_ok=True)
    script = f"{PROGRAM} freed 20000 </dev/null; trap 'exit 0' TERM; touch {started}; while :; do sleep 0.1; done"
    runs.report.unlink(missing_ok=True)
    with subprocess.Popen([ZGUARD, "run", "--pinpoint", "--report", runs.report, "--", "sh", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=scrubbed()) as run:
        while not started.exists() and run.poll() is None:
            time.sleep(0.05)
        run.terminate()
        _, err = run.communicate()
    kinds = [finding["kind"] for finding in findings_of(runs.report)]
    good = run.returncode == 99 and kinds == ["write-after-free"] and "was run only once" in err and "again" not in err
    return [] if good else [f"status {run.returncode}, {kinds}, {err}"]


def problems_of_focus(runs):
    """One run with --focus finds the instruction, for each way to name the finding and each profile that isolates blocks."""
    saved, store = runs.work / "saved.jsonl", runs.work / "store"
    runs.run("freed", "20000")
    saved.write_bytes(runs.report.read_bytes())
    store.mkdir(exist_ok=True)
    (store / "one.jsonl").write_bytes(saved.read_bytes())
    signature = json.loads(saved.read_text().splitlines()[0])["signature"]
    problems = []
    for name in (saved, f"{saved}#{signature}", store, f"{store}#{signature}"):
        for profile in ("guard", "fence"):
            status, _, err, findings = runs.run("freed", "20000", options=["--focus", name, "--profile", profile])
            if status != SEGV or len(findings) != 1 or not is_exact(findings[0]):
                problems.append(f"--focus {name}, {profile}: status {status}, {[(f['kind'], innermost(f)) for f in findings]}")
    status, _, err, findings = runs.run("freed", "20000", options=["--focus", saved, "-o", "isolated_per_context=0"])
    if not findings or not is_exact(findings[0]):
        problems.append(f"isolated_per_context=0: {findings}")
    command = [ZGUARD, "run", "--report", saved, "--focus", signature, "--", PROGRAM, "freed", "20000"]
    status, _, err = run_within(TIMEOUT_SECONDS, command, cwd=runs.work, env=scrubbed())
    if status != SEGV or not is_exact(findings_of(saved)[0]):
        problems.append(f"a signature in the report of --report: status {status}, {err[-300:]}")
    return problems


def problems_of_other_program(runs):
    """A program without any of the focused stacks runs as without --focus, and a warning says so."""
    saved = runs.work / "other.jsonl"
    runs.run("freed", "20000")
    saved.write_bytes(runs.report.read_bytes())
    command = [ZGUARD, "run", "--focus", saved, "--", "/bin/echo", "text"]
    status, out, err = run_within(TIMEOUT_SECONDS, command, cwd=runs.work, env=scrubbed())
    good = status == 0 and out == "text\n" and "no block of a focused allocation stack was allocated" in err
    return [] if good else [f"status {status}, {out!r}, {err}"]


def problems_of_lack(runs):
    """Where address space is short, the program runs to its end, and a warning says how many blocks were not watched."""
    saved = runs.work / "lack.jsonl"
    runs.run("freed", "20000")
    saved.write_bytes(runs.report.read_bytes())
    command = [ZGUARD, "run", "--focus", saved, "--", "sh", "-c", f"ulimit -v 1000000; exec {PROGRAM} held 0"]
    status, out, err = run_within(TIMEOUT_SECONDS, command, cwd=runs.work, env=scrubbed())
    said = re.search(r"(\d+) of (\d+) blocks of focused allocation stacks got no pages of their own", err)
    good = status == 0 and out == "end\n" and said and 0 < int(said[1]) < int(said[2]) <= 60000
    return [] if good else [f"status {status}, {out!r}, {err}"]


def problems_of_wrong_words(runs):
    empty, wild = runs.work / "empty.jsonl", runs.work / "wild.jsonl"
    empty.write_text("")
    wild.write_text(json.dumps({"schema": "zguard.finding/1", "kind": "wild-access", "stacks": {"access": [], "free": [], "alloc": []}}) + "\n")
    problems = []
    for options, said in [(["--focus", runs.work / "missing"], "cannot read report"), (["--focus", empty], "no finding with an allocation stack"),
                          (["--focus", wild], "no finding with an allocation stack"), (["--focus", "0123456789abcdef"], "cannot read report"),
                          (["--focus", f"{wild}#0123456789abcdef"], "no finding with signature 0123456789abcdef"),
                          (["--focus", SOURCE], "holds no finding"), (["--focus"], "needs a value"), (["--runs", "3"], "needs '--pinpoint'"),
                          (["--pinpoint", "--runs", "0"], "expected 1 to 1000"), (["--pinpoint", "--runs", "x"], "expected 1 to 1000")]:
        status, out, err, _ = runs.run("none", "5", options=options)
        if status != 64 or said not in err or out:
            problems.append(f"{options}: status {status}, {err}")
    status, _, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--focus", "0123456789abcdef", "--", PROGRAM], cwd=runs.work, env=scrubbed())
    if status != 64 or "no report is named" not in err or "hint: --focus PATH#0123456789abcdef" not in err:
        problems.append(f"a signature alone: status {status}, {err}")
    status, _, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--pinpoint", "--", runs.work / "missing"], cwd=runs.work, env=scrubbed())
    if status != 127:
        problems.append(f"a missing program: status {status}, {err}")
    return problems


def problems_of_tags(runs):
    """If the lowest bit of pointers is a tag, no block begins at an odd address, so each run finds the write late."""
    command = [ZGUARD, "run", "--pinpoint", "--report", runs.report, "--", TAGGED, "behind", "1"]
    runs.report.unlink(missing_ok=True)
    status, out, err = run_within(TIMEOUT_SECONDS, command, cwd=runs.work, env=scrubbed())
    kinds = [finding["kind"] for finding in findings_of(runs.report)]
    good = status == 134 and kinds == ["heap-overflow"] and "found late again in 2 of them" in err
    return [] if good else [f"status {status}, {kinds}, {err}"]


OTHERS = {
    "a correct program": problems_of_correct,
    "an exact finding": problems_of_exact,
    "a bug that does not come back": lambda runs: problems_of_vanished(runs, 3),
    "a bug that does not come back in two runs": lambda runs: problems_of_vanished(runs, 2),
    "standard input": problems_of_input,
    "destinations": problems_of_destinations,
    "a program that is asked to end": problems_of_end,
    "--focus": problems_of_focus,
    "--focus on another program's finding": problems_of_other_program,
    "too many blocks": problems_of_lack,
    "wrong words": problems_of_wrong_words,
    "tags in pointers": problems_of_tags,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what passes")
    arguments = parser.parse_args()
    for program, flags in (PROGRAM, []), (TAGGED, ["-DTAGGED", "-rdynamic"]):
        command = ["gcc", "-std=gnu17", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", *flags, SOURCE, "-o", program]
        builds.compiled(program, command, [SOURCE])
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-pinpointing.") as work:
        runs = Runs(work)
        check_pinpointing(checks, runs, arguments.filter, arguments.verbose)
        for name, problems in OTHERS.items():
            if arguments.filter in name:
                checks.check(name, problems(runs), arguments.verbose)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
