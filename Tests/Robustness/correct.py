#!/usr/bin/env python3
"""Runs generated correct programs in all profiles: status and output are those of the unguarded run, and there is no finding.

A program is a random series of parts (Correct/parts.c, parts.cpp) with random sizes. Each part uses its blocks up to the first and the last byte,
as correct programs may: strings that fill their block, libc's functions with larger limits than the data, vector instructions, headers with
strings behind them, tags in pointers, blocks that other threads and forked processes free.
Closing line: N passed, N failed.

usage: correct.py [--count 60] [--first 0] [--keep DIRECTORY]"""

import argparse
import concurrent.futures
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, run_within, said_by_library  # noqa: E402
from Support.environment import LIBRARY, TESTS, guarded_by, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

PARTS = TESTS / "Robustness/Correct"
PROFILES = {"guard": "", "fence": "profile=fence", "fence, private": "profile=fence:isolated_windows=off", "more isolated": "isolated_overhead=100%",
            "sample": "profile=sample:sample_rate=20", "overhead": "overhead=5%"}
# Compilers and flags, used in turn for successive programs; one program in six is C++.
WAYS = (["gcc", "-O0"], ["gcc", "-O2"], ["clang", "-O2"], ["gcc", "-O3", "-march=native"], ["g++", "-O1"], ["gcc", "-O3"], ["clang", "-O0"],
        ["gcc", "-O2", "-fno-builtin"], ["gcc", "-Os"], ["clang", "-O3", "-march=native"], ["clang++", "-O2"], ["gcc", "-O1", "-fno-builtin"])
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 40, 45, 48, 63, 64, 65, 72, 100, 127, 128, 129, 200, 250, 256, 300,
         500, 511, 512, 513, 700, 1000, 1024, 1500, 2000, 2047, 2048, 2049, 3000, 4000, 4095, 4096, 4097, 5000, 8191, 8192, 8200, 12000, 20000)
TIMEOUT_SECONDS = 120


def names_of(source):
    """Returns the names of a source file's parts, which are functions `part_NAME(long size, long count)`."""
    return re.findall(r"^PART\((\w+)\)", (PARTS / source).read_text(), re.MULTILINE)


def text_of(number, source):
    """Returns the source text of program `number`."""
    numbers = random.Random(number)
    parts = names_of(source)
    calls = []
    for _ in range(numbers.randint(6, 16)):
        size, count = numbers.choice(SIZES), numbers.choice((1, 2, 3, 5, 9, 17, 40, 100, 300))
        calls.append(f"    sum = sum * 31 + {numbers.choice(parts)}({size}, {min(count, 4_000_000 // (size * 8 + 1) + 1)});")
    return "\n".join([f'#include "{PARTS / source}"', "int main(void) {", "    unsigned long sum = 0;", *calls, '    printf("%lu\\n", sum);', "}", ""])


def build(number, folder):
    compiler, *flags = WAYS[number % len(WAYS)]
    is_cxx = compiler.endswith("++")
    source = folder / f"program{number}.{'cpp' if is_cxx else 'c'}"
    source.write_text(text_of(number, "parts.cpp" if is_cxx else "parts.c"))
    program = source.with_suffix("")
    subprocess.run([compiler, "-g", *flags, "-std=gnu++17" if is_cxx else "-std=gnu17", "-pthread", source, "-o",
                    program], check=True)
    return program


def problems_of(number, folder):
    program = build(number, folder)
    plain = run_within(TIMEOUT_SECONDS, [program], env=scrubbed())
    if plain[0] != 0:
        return [f"without the runtime: {plain}"]
    problems = []
    for profile, options in PROFILES.items():
        status, out, err = run_within(TIMEOUT_SECONDS, [program], env=guarded_by(LIBRARY, options))
        if (status, out) != plain[:2] or said_by_library(err):
            problems.append(f"{profile}: status {status}, {out.strip()} instead of {plain[1].strip()}, {err[-1500:]}")
    if not problems:
        program.unlink()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60, help="number of programs (default: 60)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: 0)")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where sources, and programs with problems, are kept")
    add_slice_option(parser)
    arguments = parser.parse_args()
    checks = Checks()
    everything = range(arguments.first, arguments.first + arguments.count)
    numbers = arguments.slice.deal(everything)
    arguments.slice.say(len(numbers), len(everything), "programs")
    with tempfile.TemporaryDirectory(prefix="zguard-correct.") as work, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = arguments.keep or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        for number, problems in zip(numbers, pool.map(lambda number: problems_of(number, folder), numbers)):
            checks.check(f"program {number} ({' '.join(WAYS[number % len(WAYS)])})", problems)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
