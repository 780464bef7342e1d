#!/usr/bin/env python3
"""Checks library, helper and plugins with other Swift versions, in debootstrap roots: 6.0 of Debian trixie, 6.2 of Debian sid.
The package and its tests are compiled with warnings as errors, and run. So are the tests of Examples/CartTests, by Detection/testing.py,
and the commands of the plugins. Skipped if such a root cannot be made. Closing line: N passed, N failed."""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import compatibility, roots  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import ROOT  # noqa: E402

VERSIONS = {"trixie": "6.0", "sid": "6.2"}
PACKAGES = ["binutils-gold", "clang", "dwz", "g++", "libc6-dev", "libdw1t64", "python3", "swiftlang", "xz-utils"]
SECONDS = 5400


def said(status, text, *, count=40):
    """Problems of a command: none if the status is 0; otherwise status, errors, and the last lines of the output."""
    if status == 0:
        return []
    lines = text.splitlines()
    errors = list(dict.fromkeys(line for line in lines if re.search(r"\berror:|✘|^FAILED|^FAIL ", line)))
    return [f"status {status}", *errors[:count], *lines[-10:]]


def complete(root):
    """Debian's Swift 6.2.3 links tests that import Foundation with a library that the package lacks. Creates this library, empty."""
    folder = "usr/libexec/swift/lib/swift/linux"
    if root.has(f"{folder}/_Testing_Foundation.swiftmodule") and not root.has(f"{folder}/lib_Testing_Foundation.so"):
        (root.path / folder / "lib_Testing_Foundation.a").write_bytes(b"!<arch>\n")


def check_in(root, suite, checks):
    name = f"Swift {VERSIONS[suite]}"
    scratch = ROOT / f"build/swift-{VERSIONS[suite]}"
    options = ["-Xswiftc", "-warnings-as-errors", "--scratch-path", scratch, "--disable-build-manifest-caching"]
    complete(root)

    def run(*command, directory=ROOT):
        status, out, err = root.run(command, SECONDS, {ROOT: ROOT}, directory, ZG_TEST_SCRATCH=str(scratch), PYTHONDONTWRITEBYTECODE="1",
                                    NO_COLOR="1")
        return status, out + err

    status, text = run("swift", "--version")
    version = re.search(r"Swift version ([\d.]+)", text)
    checks.check(f"{name}: the version", [] if version and version[1].startswith(VERSIONS[suite]) else [text])
    status, text = run("swift", "build", "--build-tests", *options)
    checks.check(f"{name}: library, helper, plugins and tests compile", said(status, text))
    if status != 0:
        return
    status, text = run("swift", "test", "--skip-build", *options)
    problems = said(status, text)
    count = re.search(r"Test run with (\d{3,}) tests .*passed", text)
    if not count:
        problems.append("the package's tests did not run")
    checks.check(f"{name}: the package's tests pass", problems)
    results = [(int(count[1]), 0)] if count else [(0, 1)]
    for what, driver in (("tests that are guarded say what they have to", ["Detection/testing.py"]),
                         ("the plugins' commands", ["House/plugins.py", "--quick"])):
        status, text = run("python3", ROOT / "Tests" / driver[0], *driver[1:])
        closing = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
        results.append(tuple(int(number) for number in closing[-1]) if closing else (0, 1))
        checks.check(f"{name}: {what} ({results[-1][0]} passed, {results[-1][1]} failed)", said(status, text))
    passed, failed = (sum(column) for column in zip(*results))
    compatibility.record(f"swift-{suite}", "the package's tests, its example's and the plugins'", passed, failed, root=root.path,
                         swift=version[1] if version else VERSIONS[suite])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=VERSIONS)
    suite = parser.parse_args().suite
    checks = Checks()
    try:
        check_in(roots.make(suite, PACKAGES), suite, checks)
    except roots.Unavailable as reason:
        print(f"skipped: the package with Swift {VERSIONS[suite]}: {reason}")
        checks.skipped += 1
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
