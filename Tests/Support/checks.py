"""Helpers of all test drivers: count checks, run programs with a deadline, run tests in directories of their own, find the library's
messages."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from Support.environment import LIBRARY, ZGUARD
from Support.slices import add_slice_option


class Failed(Exception):
    """An expectation was not met, or a program could not be built or run."""


notes = []  # functions; their results, if not empty, are printed before the closing line


def close(passed, failed, skipped=0):
    """Prints the closing line, which scripts/test parses; returns the exit status. A driver that skips something must have printed the
    reason before."""
    for note in notes:
        if text := note():
            print(text)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed or not (passed or skipped) else 0


class Checks:
    """Counts passed and failed checks, and prints the problems of failed ones."""

    passed = failed = skipped = 0

    def check(self, name, problems, shows_passed=False):
        """`problems`: lines of text; empty if the check passed."""
        if problems:
            self.failed += 1
            print(f"FAILED {name}")
            for problem in problems:
                print(f"    {problem}")
        else:
            self.passed += 1
            if shows_passed:
                print(f"passed {name}")
        sys.stdout.flush()

    def close(self):
        """Prints the closing line; returns the exit status."""
        return close(self.passed, self.failed, self.skipped)


def said_by_library(errors):
    """Returns the lines of standard error, text or bytes, that the library wrote. ("zguard" alone may be part of a directory's name.)"""
    if isinstance(errors, bytes):
        errors = errors.decode(errors="replace")
    return [line for line in errors.splitlines() if "==zguard==" in line or "zguard: " in line]


def run_within(seconds, command, text=True, started=None, **how):
    """Runs a command in a session of its own, with empty standard input. Returns its status (negative if it died of a signal), standard
    output and standard error. After a timeout kills the whole session; the status is then None. Calls `started` with the process id."""
    how = {"errors": "replace" if text else None, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    process = subprocess.Popen([str(word) for word in command], start_new_session=True, text=text, **how)
    if started:
        started(process.pid)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err
    return process.returncode, out, err


def as_shell(status):
    """Returns a status as a shell does: 128 + the signal number."""
    return status if status is None or status >= 0 else 128 - status


def run_tests(tests, prefix, only="", workplace=Path, shows_passed=False, part=None, kinds=lambda name: ()):
    """Calls each of `tests`, pairs of a name and a function, with `workplace(new directory)`. A test fails by AssertionError, or if an
    operation that it needs fails. `part`: the slice to run; it also runs the first test of each of the `kinds`. Without it, runs all tests.
    Returns the exit status."""
    checks = Checks()
    if part:
        chosen = part.choose(tests, name=lambda test: test[0], kinds=lambda test: kinds(test[0]))
        part.say(len(chosen), len(tests), "tests")
        tests = chosen
    for name, test in tests:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix=prefix) as directory:
            try:
                test(workplace(directory))
                problems = []
            except (AssertionError, Failed, subprocess.SubprocessError, OSError, ValueError, KeyError) as fault:
                problems = [f"{type(fault).__name__}: {fault}"]
        checks.check(name, problems, shows_passed)
    return checks.close()


def run_driver(description, tests, prefix):
    """The command line of a driver that needs zguard: runs the pairs that `tests` yields (run_tests). Returns the exit status.
    The first word of a test's name is its kind: each slice has the first test of each kind."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--filter", default="", help="run only the tests whose name contains this")
    parser.add_argument("--verbose", action="store_true")
    add_slice_option(parser)
    options = parser.parse_args()
    if not LIBRARY.exists() or not ZGUARD.exists():
        sys.exit(f"{Path(sys.argv[0]).name}: error: zguard is not built\nhint: scripts/build")
    return run_tests(list(tests()), prefix, options.filter, shows_passed=options.verbose, part=options.slice, kinds=lambda name: (name.split()[0],))
