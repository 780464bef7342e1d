#!/usr/bin/env python3
"""Tests that scripts/compatibility makes the table of systems in docs/COMPATIBILITY.md from recorded results. Closing line: N passed, N
failed."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import compatibility  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ROOT  # noqa: E402


def command():
    loader = importlib.machinery.SourceFileLoader("command", str(ROOT / "scripts/compatibility"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("command", loader))
    loader.exec_module(module)
    return module


def result(**changed):
    return {"distribution": "Debian 12", "architecture": "x86_64", "kernel": "6.1.2", "glibc": "2.36", "swift": "6.3.1", "emulator": "",
            "what": "bugs", "passed": 3, "failed": 0, "skipped": 0, "date": "2026-01-02", **changed}


def table_is_that_of_the_results(_):
    made = command()
    document = (ROOT / "docs/COMPATIBILITY.md").read_text()
    assert made.with_table(document, compatibility.read(made.STORED)) == document, "run scripts/compatibility"


def stored_results_are_in_order(_):
    entries = compatibility.read(command().STORED)
    assert entries == compatibility.newest(entries), "run scripts/compatibility"


def cells_say_what_was_run(_):
    table = command().table([
        result(), result(what="clean programs", passed=1200, failed=2, skipped=1),
        result(distribution="Debian 13", architecture="aarch64", glibc="2.41", swift="6.0.3", emulator="qemu-user 7.2"),
        result(distribution="Debian unstable", glibc="2.43", swift=""), result(distribution="Debian 9", swift="")])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[0] == ["distribution", "processor", "with", "C, C++", "Swift 6.0.3", "Swift 6.3.1"], rows[0]
    assert [row[0] for row in rows[2:]] == ["Debian 9", "Debian 12", "Debian 13", "Debian unstable"], rows
    assert rows[3][3:] == ["–", "–", "bugs: 3 of 3 (2026-01-02)<br>clean programs: 1,200 of 1,202, 1 skipped (2026-01-02)"], rows[3]
    assert rows[4][1:5] == ["aarch64", "glibc 2.41, Linux 6.1.2, qemu-user 7.2", "–", "bugs: 3 of 3 (2026-01-02)"], rows[4]


def order_is_that_of_every_run(_):
    """The order of the table must not depend on the order of a set of strings, which differs from process to process."""
    script = ("import sys; sys.path[:0] = ['Tests', 'Tests/House']; import systems; print(systems.command().table("
              "[systems.result(emulator=name + ' 10.0', what=name) for name in ('qemu-user', 'qemu-system', 'other')]))")
    tables = {subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True,
                             env={**os.environ, "PYTHONHASHSEED": str(seed)}).stdout for seed in range(8)}
    assert len(tables) == 1, tables


def newer_results_replace_older_ones(_):
    kept = compatibility.newest([result(date="2026-02-01", passed=9), result(), result(what="other")])
    assert [(entry["what"], entry["passed"]) for entry in kept] == [("bugs", 9), ("other", 3)], kept
    kept = compatibility.newest([result(), result(passed=5)])  # on the same day the later line counts
    assert [entry["passed"] for entry in kept] == [5], kept


def other_lines_are_refused(work):
    path = work / "x.json"
    for text in ("no json", "[]", json.dumps({"what": "bugs"}), json.dumps(result(passed="3")), json.dumps(result(more=1))):
        path.write_text(json.dumps(result()) + "\n" + text + "\n")
        try:
            compatibility.read(path)
        except ValueError as fault:
            assert f"{path}:2: not a result" in str(fault), fault
            continue
        raise AssertionError(f"read: {text}")
    try:
        command().with_table("no marks", [result()])
    except ValueError:
        return
    raise AssertionError("a document without marks is filled")


def results_are_kept(work):
    kept, compatibility.FOLDER = compatibility.FOLDER, work / "results"
    try:
        root = work / "root"
        (root / "etc").mkdir(parents=True)
        (root / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
        (root / "etc/os-release").write_text('PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nNAME="Debian GNU/Linux"\nVERSION_ID="11"\n')
        (root / "usr/lib/x86_64-linux-gnu/libc.so.6").write_bytes(b"\0GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\0")
        compatibility.record("driver", "bugs", 4, 1, 2, root=root, swift="6.0.3")
        compatibility.record("driver", "nothing", 0, 0, 7, root=root)
        (entry,) = compatibility.read(work / "results/driver.json")
    finally:
        compatibility.FOLDER = kept
    said = {name: entry[name] for name in ("distribution", "glibc", "swift", "what", "passed", "failed", "skipped")}
    assert said == {"distribution": "Debian 11", "glibc": "2.31", "swift": "6.0.3", "what": "bugs", "passed": 4, "failed": 1, "skipped": 2}, entry


def main():
    return run_tests([(test.__name__, test) for test in (
        table_is_that_of_the_results, stored_results_are_in_order, cells_say_what_was_run, order_is_that_of_every_run,
        newer_results_replace_older_ones, other_lines_are_refused, results_are_kept)], "zguard-systems-")


if __name__ == "__main__":
    sys.exit(main())
