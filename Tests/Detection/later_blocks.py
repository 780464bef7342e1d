#!/usr/bin/env python3
"""Checks bugs that do not hit the first blocks of a stack.

rare: one of many blocks of an allocation site is freed at a place that frees no other block, and read some iterations later. Profile fence
finds each such read; profile guard finds at least half of them, if the kernel has watchpoints.
overrun: the K-th block of a site is read or written beyond its end. Profile fence finds each overrun that the default profile finds.
If a free was not guarded at once, the closing line must not say that all frees were guarded at once.
Closing line: N passed, N failed."""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, run_within  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 120
COMPILE = ["gcc", "-std=gnu17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Wno-use-after-free"]

# usage: rare BLOCKS AFTER: makes BLOCKS blocks, of which 64 are live at a time. Halfway, frees one of them at a place that frees no other
# block, and reads it AFTER iterations later.
RARE = r"""
#include <stdio.h>
#include <stdlib.h>
struct node { long a, b, c; struct node *next; };
static __attribute__((noinline)) struct node *make(long i) {
    struct node *node = malloc(sizeof *node);
    *node = (struct node){i, 2 * i, 3, NULL};
    return node;
}
static __attribute__((noinline)) void drop(struct node *node) { free(node); __asm__(""); }
static __attribute__((noinline)) void drop_rarely(struct node *node) { free(node); __asm__(""); }
static __attribute__((noinline)) long use(const struct node *node) { return node->b; }
int main(int count, char **words) {
    (void)count;
    long blocks = atol(words[1]), after = atol(words[2]), rare = blocks / 2, sum = 0;
    struct node *recent[64] = {0}, *stale = NULL;
    for (long i = 0; i < blocks || i <= rare + after; i++) {
        struct node *node = make(i);
        if (recent[i % 64]) drop(recent[i % 64]);
        recent[i % 64] = node;
        if (i == rare) {
            stale = recent[(i + 7) % 64];
            recent[(i + 7) % 64] = NULL;
            drop_rarely(stale);
        }
        if (i == rare + after) sum += use(stale);
    }
    printf("%ld\n", sum);
}
"""

# usage: overrun NUMBER SIZE BYTES r|w [OTHERS]: makes blocks of SIZE bytes at one site, and accesses the BYTES bytes behind the end of the
# NUMBER-th block. Before that, OTHERS other stacks make 16 blocks each. No block is freed before the access.
OVERRUN = r"""
#include <stdlib.h>
#include <string.h>
static __attribute__((noinline)) char *make(size_t size) { return memset(malloc(size), 1, size); }
static __attribute__((noinline)) void make_others(int depth) {
    for (int i = 0; !depth && i < 16; i++) make(40);
    if (depth) make_others(depth - 1);
    __asm__("");
}
int main(int count, char **words) {
    for (int i = count > 5 ? atoi(words[5]) : 0; i > 0; i--) make_others(i);
    int number = atoi(words[1]), bytes = atoi(words[3]), sum = 0;
    size_t size = strtoul(words[2], NULL, 10);
    char *blocks[200];
    for (int i = 0; i < number + 20; i++) {
        blocks[i] = make(size);
        volatile char *end = blocks[i] + size;
        for (int at = 0; i == number - 1 && at < bytes; at++)
            if (*words[4] == 'w') end[at] = 7;
            else sum += end[at];
    }
    for (int i = 0; i < number + 20; i++) free(blocks[i]);
    return sum == 12345;
}
"""


class Programs:
    def __init__(self, directory):
        self.directory = Path(directory)
        for name, source in ("rare", RARE), ("overrun", OVERRUN):
            (self.directory / f"{name}.c").write_text(source)
            subprocess.run([*COMPILE, "-o", self.directory / name, self.directory / f"{name}.c"], check=True)

    def run(self, profile, name, *words):
        """Runs a program guarded; returns (count, kind) of its findings as stated in the closing line, and the closing line."""
        code, _, said = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--profile", profile, "--", self.directory / name, *map(str, words)],
                                   env=scrubbed())
        closing = said.splitlines()[-1] if code is not None and said else "no closing line"
        return re.findall(r"\((\d+) (use-after-free|heap-overflow|wild-access)\)", closing), closing


def has_watchpoints():
    return re.search(r"^ok +watchpoints ", run_within(TIMEOUT_SECONDS, [ZGUARD, "doctor"], env=scrubbed())[1], re.MULTILINE)


def rare(programs, checks, sizes, times):
    lost = runs = 0
    for blocks in sizes:
        for after in (0, 100, 10_000):
            for profile in ("fence", "guard"):
                missed = [closing for _ in range(times) for found, closing in [programs.run(profile, "rare", blocks, after)] if not found]
                if profile == "guard":
                    lost, runs = lost + len(missed), runs + times
                problems = [f"{len(missed)} of {times} missed: {missed[0]}"] if missed and profile == "fence" else []
                problems += [f"says too much: {line}" for line in missed if " 100 % of the frees at once" in line
                             or re.search(r"watched ([\d,]+) of \1 ", line)]
                checks.check(f"rare free among {blocks}, read {after} later, profile {profile}", problems)
    if has_watchpoints():
        checks.check("rare frees in profile guard", [f"{lost} of {runs} missed"] if 2 * lost > runs else [])
    else:
        print("skipped: rare frees in profile guard: no watchpoints here")


def overrun(programs, checks, numbers):
    for number in numbers:
        for size, byte_count, access in ((24, 64, "r"), (504, 8, "r"), (100, 24, "w")):
            words = number, size, byte_count, access
            found, closing = programs.run("fence", "overrun", *words)
            problems = [] if found or not programs.run("guard", "overrun", *words)[0] else [f"fence missed it, the default did not: {closing}"]
            checks.check(f"overrun of block {number} of {size} bytes by {byte_count}, {access}", problems)


def overrun_of_first(programs, checks):
    """In profile fence, the first blocks of new code get private pages and no windows, even if private pages already take 2 MiB."""
    for size in 1, 2, 5, 8:
        found, closing = programs.run("fence", "overrun", 1, size, 8, "r", 40)
        checks.check(f"overrun of the first block of {size} bytes after 40 other stacks", [] if found else [closing])


def main():
    parser = argparse.ArgumentParser(description="Checks bugs that do not hit the first blocks of a stack.")
    parser.add_argument("--times", type=int, default=1, help="runs of each rare free (default: 1)")
    parser.add_argument("--whole", action="store_true", help="2,000,000 blocks, too, and every number of a block up to 64")
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-later-") as directory:
        programs = Programs(directory)
        rare(programs, checks, (20_000, 300_000, 2_000_000) if arguments.whole else (20_000, 300_000), arguments.times)
        overrun(programs, checks, range(1, 65) if arguments.whole else (1, 2, 5, 6, 9, 16, 17, 33, 40, 64))
        overrun_of_first(programs, checks)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
