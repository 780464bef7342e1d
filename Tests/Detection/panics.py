#!/usr/bin/env python3
"""Checks crash reports of Go and Rust panics that end a program by a signal (collect=crashes), and of the kernel's core files.

The programs are the functions of Tests/Crashes/panics.go and panics.rs; a line in front of each states the expected finding, as in
crashing.py. A compiler that is not installed is a failure; --install-only installs missing compilers.
Closing line: N passed, N failed."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path[1:1] = [str(Path(__file__).resolve().parents[1] / "Programs")]

from Support import builds, cores  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from case import Case as Program, Need  # noqa: E402
from crashing import SOURCES, cases_of, core_says_the_same, dies_as  # noqa: E402
from programs import exit_if_missing, install_packages  # noqa: E402

FOLDER = builds.BUILD / "panics"
GO, RUST = "/usr/bin/go", "/usr/bin/rustc"  # Debian's


class Compilers(Program):
    needs = (Need(GO, "golang-go"), Need("gcc", "gcc"), Need(RUST, "rustc"))


def built():
    """Builds and yields (source, program) for each language."""
    go, rust = SOURCES / "panics.go", SOURCES / "panics.rs"
    os.environ["GOCACHE"], os.environ["CGO_ENABLED"] = str(FOLDER / "go-cache"), "1"
    yield go, builds.compiled(FOLDER / "go", [GO, "build", "-o", str(FOLDER / "go"), str(go)], [go])
    yield rust, builds.compiled(FOLDER / "rust", [RUST, "-g", "-o", str(FOLDER / "rust"), str(rust)], [rust])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    parser.add_argument("--install-only", action="store_true", help="fetch missing compilers with apt-get, then end")
    arguments = parser.parse_args()
    if arguments.install_only:
        install_packages([Compilers()])
        return 0
    exit_if_missing("panics", [Compilers()])
    cases = [case for source, program in built() for case in cases_of(source, program)]
    tests = [(case.title, dies_as(case)) for case in cases]
    if cores.kernel_writes_here():
        tests += [(f"{case.title} core", core_says_the_same("kernel", case)) for case in cases]
    return run_tests(tests, "zguard-panics-", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
