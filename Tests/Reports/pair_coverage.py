#!/usr/bin/env python3
"""Tests 'zguard run --coverage' and 'zguard coverage': pairs of a build over many runs. Closing line: N passed, N failed."""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 120

# usage: pairs WAYS [END]: makes and frees a block in each of 2^WAYS ways, each with an allocation stack and a free stack of its own. END
# fork: then each of three children makes and frees one block in a further way. END kill: the process kills itself.
SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) void work(int way, int depth);
static __attribute__((noinline)) void left(int way, int depth) { work(way >> 1, depth - 1); __asm__(""); }
static __attribute__((noinline)) void right(int way, int depth) { work(way >> 1, depth - 1); __asm__(""); }
static __attribute__((noinline)) void work(int way, int depth) {
    if (!depth) {
        void *volatile block = malloc(40);
        free(block);
    } else if (way & 1) right(way, depth);
    else left(way, depth);
    __asm__("");
}
int main(int count, char **words) {
    int depth = atoi(words[1]);
    for (int way = 0; way < 1 << depth; way++) work(way, depth);
    if (count > 2 && !strcmp(words[2], "fork"))
        for (int child = 0; child < 3; child++)
            if (!fork()) return work(child, depth + 1 + child), 0;
            else wait(NULL);
    if (count > 2 && !strcmp(words[2], "kill")) kill(getpid(), SIGKILL);
    return 0;
}
"""


class Workplace:
    def __init__(self, directory):
        self.path = Path(directory)
        (self.path / "pairs.c").write_text(SOURCE)
        self.program = self.path / "pairs"
        subprocess.run(["gcc", "-O0", "-g", "-o", self.program, self.path / "pairs.c"], check=True)

    def zguard(self, *words, status=0):
        result = subprocess.run([ZGUARD, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=TIMEOUT_SECONDS, env=scrubbed(), cwd=self.path)
        assert result.returncode == status, (words, result.returncode, result.stdout, result.stderr)
        return result

    def run(self, directory, *arguments, flags=(), status=0):
        return self.zguard("run", "--quiet", "--coverage", directory, *flags, "--", self.program, *arguments, status=status)

    def coverage(self, *directories):
        return json.loads(self.zguard("coverage", *directories, "--format", "json").stdout)


def each_run_watches_others(work):
    """With a budget too small for all pairs, each early run adds watched pairs, and ten runs watch at least twice as many as the first."""
    small = ["-o", "isolated_overhead=0.1%", "-o", "isolated_bytes=64m"]
    for _ in range(10):
        work.run("many", 11, flags=small)
    runs = [run["pairs_watched"] for run in work.coverage("many")["runs"]]
    assert work.coverage("many")["runs"][-1]["pairs"] == work.coverage("many")["runs"][0]["pairs"], runs
    assert all(after > before or after == 2048 for before, after in zip(runs, runs[1:5])), runs
    assert runs[-1] >= min(2 * runs[0], 2048), runs


def all_processes_count(work):
    work.run("forks", 3, "fork")
    assert work.coverage("forks")["pairs"] == 8 + 3, work.coverage("forks")
    work.run("killed", 3, "kill", status=137)
    found = work.coverage("killed")
    assert (found["pairs"], found["pairs_watched"]) == (8, 8), found


def places_are_named(work):
    work.run("named", 2)
    found = work.coverage("named")
    (place,) = found["files"]
    assert place["file"].endswith("pairs.c") and place["pairs"] == 4, found
    text = work.zguard("coverage", "named").stdout
    assert text.startswith("1 run: watched 4 of 4 allocation and free pairs\n") and "not watched" not in text, text
    work.run("off", 2, flags=["-o", "isolated_per_context=0"])
    text = work.zguard("coverage", "off").stdout
    assert "        4  work (pairs.c:13), work (pairs.c:14)" in text, text
    page = work.zguard("coverage", "off", "--format", "html").stdout
    assert page.startswith("<!DOCTYPE html>") and "work (pairs.c:13)" in page and "<script" not in page


def machines_are_merged(work):
    work.run("one", 2)
    work.run("two", 3)
    one, two, both = work.coverage("one"), work.coverage("two"), work.coverage("one", "two")
    assert both["pairs"] == one["pairs"] + two["pairs"] and len(both["runs"]) == 2, both
    work.run("three", 2)
    assert work.coverage("one", "three")["pairs"] == one["pairs"]


def wrong_directories(work):
    (work.path / "file").write_text("x\n")
    assert "Not a directory" in work.run("file", 1, status=64).stderr
    assert "No such file" in work.run("no/where", 1, status=64).stderr
    assert "holds no run" in work.zguard("coverage", "nothing", status=1).stderr
    os.mkdir(work.path / "other")
    (work.path / "other/pairs").write_text("x\n")
    assert "no coverage file" in work.run("other", 1, status=64).stderr
    assert (work.path / "other/pairs").read_text() == "x\n"
    work.zguard("coverage", "other", status=1)


def main():
    tests = each_run_watches_others, all_processes_count, places_are_named, machines_are_merged, wrong_directories
    return run_tests([(test.__name__, test) for test in tests], "zguard-pairs-", workplace=Workplace)


if __name__ == "__main__":
    sys.exit(main())
