"""What the test drivers share: counting checks, running programs within a time, tests each in a directory of its own, what the
library says, and the compiler."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Checks:
    """Counts what passed and failed, and says what was wrong with the rest."""

    passed = failed = 0

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
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def said_by_library(errors):
    """The lines of standard error, text or bytes, that are the library's. (Its name alone may be a directory's.)"""
    if isinstance(errors, bytes):
        errors = errors.decode(errors="replace")
    return [line for line in errors.splitlines() if "==zguard==" in line or "zguard: " in line]


def run_within(seconds, command, **how):
    """Runs a command in a session of its own, without input. Returns its status, negative where it died of a signal, and what it
    wrote to standard output and standard error; the status is None where it had to be killed with all that it had started."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, text=True, errors="replace", **how)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err
    return process.returncode, out, err


def find_clang():
    """The compiler that belongs to the installed Swift, as scripts/build takes it."""
    swift = shutil.which("swift")
    if swift:
        clang = Path(os.path.realpath(swift)).parent / "clang"
        if clang.exists():
            return str(clang)
        info = subprocess.run([swift, "-print-target-info"], stdout=subprocess.PIPE, text=True).stdout
        resources = json.loads(info)["paths"]["runtimeResourcePath"] if info else ""
        clang = Path(resources).parent.parent / "bin" / "clang"
        if clang.exists():
            return str(clang)
    return os.environ.get("CC", "clang")


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
            except (AssertionError, subprocess.SubprocessError, OSError, ValueError, KeyError) as fault:
                problems = [f"{type(fault).__name__}: {fault}"]
        checks.check(name, problems, shows_passed)
    return checks.close()
