#!/usr/bin/env python3
"""Compares text reports of real programs with stored ones, after normalizing what differs from run to run.

Each snapshot in Tests/Reports/Snapshots is NAME.txt: the command in the first line, then the output of `zguard`.
  {build}     the folder of the programs, which are built from the sources named in PROGRAMS
The test normalizes addresses, process ids, times, coverage, and what depends on the versions of libc and the Swift runtime (names and
numbers of folded runtime frames). --update writes the snapshots again; review the difference before committing it.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import close  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402

SNAPSHOTS = TESTS / "Reports/Snapshots"

C_FLAGS = ["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-fno-builtin", "-rdynamic"]
CXX_FLAGS = ["g++", "-O1", "-g", "-fno-optimize-sibling-calls"]
SWIFT_FLAGS = ["swiftc", "-O", "-g"]
# Executable: command with flags, source.
PROGRAMS = {
    "orders": (C_FLAGS, "Examples/orders.c"),
    "shop": (SWIFT_FLAGS, "Examples/shop.swift"),
    "shape": (CXX_FLAGS, "Tests/Reports/Snapshots/shape.cpp"),
    "twice": (C_FLAGS, "Tests/Reports/Snapshots/twice.c"),
}


def build(directory):
    for name, (command, source) in PROGRAMS.items():
        executable = directory / name
        # Compile from the root with relative paths, so that debug information names the sources the same way everywhere.
        builds.compiled(executable, [*command, "-o", executable, source], [ROOT / source], cwd=ROOT)


def normalise(text, directory):
    text = text.replace(str(directory), "{build}").replace(str(ROOT) + "/", "")
    text = re.sub(r"0x[0-9a-f]{5,}", "0xADDRESS", text)
    text = re.sub(r"\[\d{2,}\]", "[PID]", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    # Frames below main: their names depend on whether libc's debug information is installed.
    text = re.sub(r"(?m)#(\d+-#)?\d+ \S*(__libc_start|libc\.so)\S*( … \(\d+ runtime frames\)|  \S+$|$)", "#N {libc}", text)
    text = re.sub(r"(#N \{libc\}\n\s*)+(?=#N \{libc\})", "", text)
    # The number of runtime frames depends on the versions of libraries.
    text = re.sub(r"#\d+-#\d+ (.*) … \(\d+ runtime frames\)", r"#N-#N \1 … (N runtime frames)", text)
    text = re.sub(r"(?m)^((?:\x1b\[[0-9;]*m|\s)*)#\d+ ", r"\1#N ", text)
    # coverage.py tests the percentages and their reason.
    text = re.sub(r"(?m); (watched [\d,]+ of [\d,]+ allocation and free pairs?, [\d.]+ % of the frees at once"
                  r"(, [\d.]+ % within \S+ \S+ of other frees)?|no (?:guarded )?block was freed; [\d.]+ % of the blocks were isolated)"
                  r"( \([^)]*\))?(?=$|; )", "; {watched}", text)
    text = re.sub(r"\((\S+)\+0x[0-9a-f]+\)", r"(\1+0xOFFSET)", text)
    return text


def run(words, directory):
    environment = scrubbed()
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    command = [str(ZGUARD)] + [word.replace("{build}", str(directory)) for word in words[1:]]
    result = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=60)
    return normalise(result.stdout.decode(), directory) + f"exit status {result.returncode}\n"


def difference(expected, got):
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in (("expected", expected), ("got", got)):
            (Path(scratch) / name).write_text(text)
        return subprocess.run(["diff", "-u", "expected", "got"], cwd=scratch, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description="Compares text reports with stored ones.")
    parser.add_argument("--update", action="store_true", help="store what is printed now")
    parser.add_argument("--only", default="", metavar="TEXT", help="only snapshots whose name contains TEXT")
    arguments = parser.parse_args()
    directory = builds.BUILD / "snapshots"
    build(directory)
    passed = failed = 0
    for path in sorted(SNAPSHOTS.glob("*.txt")):
        if arguments.only not in path.name:
            continue
        command, _, expected = path.read_text().partition("\n")
        got = run(command.removeprefix("$ ").split(), directory)
        if arguments.update:
            path.write_text(f"{command}\n{got}")
        elif got != expected:
            failed += 1
            print(f"FAIL {path.name}\n{difference(expected, got)}", flush=True)
            continue
        passed += 1
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
