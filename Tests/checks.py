"""What the test drivers share: counting checks, and running tests each in a directory of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path


class Checks:
    """Counts what passed and failed, and says what was wrong with the rest."""

    passed = failed = 0

    def check(self, name, problems):
        """`problems`: lines of text; none where all is well."""
        if problems:
            self.failed += 1
            print(f"FAILED {name}")
            for problem in problems:
                print(f"    {problem}")
        else:
            self.passed += 1
        sys.stdout.flush()

    def close(self):
        """Prints the closing line; returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


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
        checks.check(name, problems)
        if shows_passed and not problems:
            print(f"passed {name}", flush=True)
    return checks.close()
