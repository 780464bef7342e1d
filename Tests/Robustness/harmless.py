#!/usr/bin/env python3
"""Correct programs that a runtime could harm by what it leaves behind or takes up: floating-point flags and traps, descriptors, locked
memory, a system without /proc. Each runs plain and in every profile, and does the same. Closing line: N passed, N failed.

usage: harmless.py [--filter WORD]"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Failed, run_tests, run_within, said_by_library  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

PROFILES = {"default": "", "fence": "profile=fence", "sample": "profile=sample", "sample often": "profile=sample:sample_rate=20", "overhead": "overhead=5%"}
DEADLINE_SECONDS = 120


class Work:
    def __init__(self, path):
        """Where programs are made; another user reaches them there, and zguard and the library."""
        self.path = Path(path)
        self.path.chmod(0o755)
        for folder, file in (("bin", ZGUARD), ("lib", LIBRARY)):
            (self.path / folder).mkdir()
            shutil.copy(file, self.path / folder)
        self.zguard, self.library = self.path / "bin/zguard", self.path / "lib/libzguard.so"

    def build(self, name, *flags):
        program = self.path / name
        subprocess.run(["gcc", "-g", "-O1", "-Wall", "-Wextra", "-fno-builtin", "-pthread", TESTS / f"Robustness/Harmless/{name}.c", "-o", program, *flags, "-lm"],
                       check=True, timeout=DEADLINE_SECONDS)
        return program

    def run(self, command, **how):
        """Status, output and errors, without the guard."""
        return finished(command, run_within(DEADLINE_SECONDS, command, env=scrubbed(), **how))

    def preloaded(self, options, command, **how):
        """The same with the library alone."""
        return finished(command, run_within(DEADLINE_SECONDS, command, env=guarded_by(self.library, options), **how))

    def guarded(self, options, command, **how):
        """The same by `zguard run`."""
        given = [word for option in options.split(":") if option for word in ("-o", option)]
        return finished(command, run_within(DEADLINE_SECONDS, [self.zguard, "run", *given, "--", *command], env=scrubbed(), **how))


def finished(command, result):
    if result[0] is None:
        raise Failed(f"{' '.join(map(str, command))} does not end")
    return result


def same_everywhere(work, command, **how):
    """Plain, and in every profile by the library alone, the command ends and says the same, and the library finds nothing."""
    plain = work.run(command, **how)
    assert plain[0] == 0, plain
    problems = []
    for profile, options in PROFILES.items():
        guarded = work.preloaded(options, command, **how)
        if guarded != plain:
            problems.append(f"{profile}: {guarded} instead of {plain}")
    assert not problems, "\n    ".join(problems)
    return plain


def floating_point_flags_stay(work):
    program = work.build("float_traps")
    for mode in ("trap", "look"):
        plain = same_everywhere(work, [program, mode])
        assert plain[1] == "flags 0 0\n", plain


TESTS_IN_ORDER = [floating_point_flags_stay]


def main():
    parser = argparse.ArgumentParser(description="Runs correct programs that a runtime could harm.")
    parser.add_argument("--filter", default="", metavar="WORD", help="only tests whose name contains WORD")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the tests that pass, too")
    arguments = parser.parse_args()
    return run_tests([(test.__name__, test) for test in TESTS_IN_ORDER], "zguard-harmless-", arguments.filter, Work, arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
