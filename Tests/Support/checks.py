"""What the test drivers share: counting checks, running programs within a time, tests each in a directory of its own, and what
the library says."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Failed(Exception):
    """An expectation that was not met, or a program that could not be built or run."""


notes = []  # functions; what they return is said before the closing line, unless it is nothing


def close(passed, failed, skipped=0):
    """Prints the closing line, which scripts/test reads; returns the exit status. Where something was skipped, the driver has
    said before what."""
    for note in notes:
        if text := note():
            print(text)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed or not (passed or skipped) else 0


class Checks:
    """Counts what passed and failed, and says what was wrong with the rest."""

    passed = failed = skipped = 0

    def check(self, name, problems, shows_passed=False):
        """`problems`: lines of text; none where all is well."""
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
    """The lines of standard error, text or bytes, that are the library's. (Its name alone may be a directory's.)"""
    if isinstance(errors, bytes):
        errors = errors.decode(errors="replace")
    return [line for line in errors.splitlines() if "==zguard==" in line or "zguard: " in line]


def run_within(seconds, command, text=True, started=None, **how):
    """Runs a command in a session of its own, without input. Returns its status, negative where it died of a signal, and what it
    wrote to standard output and standard error; the status is None where it had to be killed with all that it had started.
    `started` is called with the number of the process."""
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
    """A status as a shell gives it: 128 + the number of the signal."""
    return status if status is None or status >= 0 else 128 - status


def run_tests(tests, prefix, only="", workplace=Path, shows_passed=False):
    """Calls each of `tests`, pairs of a name and a function, with a `workplace` made of a new directory. Those fail that raise
    AssertionError or cannot do what they want. Returns the exit status."""
    checks = Checks()
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
