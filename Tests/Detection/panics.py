#!/usr/bin/env python3
"""Checks crash reports of panics and of exceptions that nobody caught, which end a program by a signal or a status (collect=crashes).

The programs that a signal ends are the functions of Tests/Crashes/panics.go and panics.rs; a line in front of each states the expected
finding, as in crashing.py. For the kernel's core files of these programs, `zguard report` must give the same finding. The programs that end
by a status are the functions of Tests/Crashes/exits.*, in Rust, Python, JavaScript and C. Half of these functions print the message of an
uncaught exception, or end with its status, on purpose; they must have no finding.
A compiler or interpreter that is not installed is a failure; --install-only installs missing ones.
Closing line: N passed, N failed."""

import argparse
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path[1:1] = [str(Path(__file__).resolve().parents[1] / "Programs")]

from Support import builds, cores  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from case import Case as Program, Need  # noqa: E402
from crashing import SOURCES, TIMEOUT_SECONDS, cases_of, core_says_the_same, dies_as  # noqa: E402
from programs import exit_if_missing, install_packages  # noqa: E402

FOLDER = builds.BUILD / "panics"
GO, RUST = "/usr/bin/go", "/usr/bin/rustc"  # Debian's
PYTHON, NODE = "/usr/bin/python3", "/usr/bin/node"


class Compilers(Program):
    needs = (Need(GO, "golang-go"), Need("gcc", "gcc"), Need(RUST, "rustc"), Need(PYTHON, "python3"), Need(NODE, "nodejs"))


def built():
    """Builds and yields (source, program) for each language."""
    go, rust = SOURCES / "panics.go", SOURCES / "panics.rs"
    os.environ["GOCACHE"], os.environ["CGO_ENABLED"] = str(FOLDER / "go-cache"), "1"
    yield go, builds.compiled(FOLDER / "go", [GO, "build", "-o", str(FOLDER / "go"), str(go)], [go])
    yield rust, builds.compiled(FOLDER / "rust", [RUST, "-g", "-o", str(FOLDER / "rust"), str(rust)], [rust])


def endings():
    """Yields (name, command, status, message or None, innermost function) for each program that ends by a status."""
    rust, c = SOURCES / "exits.rs", SOURCES / "exits.c"
    program = builds.compiled(FOLDER / "exits-rust", [RUST, "-g", "-o", str(FOLDER / "exits-rust"), str(rust)], [rust])
    stripped = builds.compiled(FOLDER / "exits-rust-O", [RUST, "-O", "-C", "strip=symbols", "-o", str(FOLDER / "exits-rust-O"), str(rust)], [rust])
    of_c = builds.compiled(FOLDER / "exits-c", ["gcc", "-o", str(FOLDER / "exits-c"), str(c)], [c])
    languages = [("rust", rust, [program]), ("rust-stripped", rust, [stripped]), ("c", c, [of_c]),
                 ("python", SOURCES / "exits.py", [PYTHON, SOURCES / "exits.py"]),
                 ("python-module", SOURCES / "exits.py", [PYTHON, "-m", "exits"]), ("node", SOURCES / "exits.js", [NODE, SOURCES / "exits.js"])]
    for language, source, command in languages:
        said = r"^(?://|#) (ends|quiet): (\d+)(?:, (.*), (\S+))?\n(?:static )?(?:fn|def|int|function) (\w+)"
        found = re.findall(said, source.read_text(), re.MULTILINE)
        assert len(found) == len(re.findall(r"^(?://|#) (?:ends|quiet): ", source.read_text(), re.MULTILINE)), source
        for kind, status, message, top, name in found:
            top = "" if language == "rust-stripped" else top
            yield f"{language} {name}", [*command, name], int(status), message if kind == "ends" else None, top


def surroundings(place):
    return {"env": scrubbed(RUST_BACKTRACE="0", PYTHONPATH=str(SOURCES), PYTHONDONTWRITEBYTECODE="1"), "cwd": place}


def collected(command, place):
    """Returns status, standard output, standard error and findings of a guarded program."""
    report = place / "report.jsonl"
    report.unlink(missing_ok=True)
    run = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", *command]
    return *run_within(TIMEOUT_SECONDS, run, **surroundings(place)), findings_of(report)


def signatures(place):
    """The signature of an uncaught Python error does not depend on how the interpreter is called. It depends on the raising function."""
    exits = SOURCES / "exits.py"
    commands = [[PYTHON, exits, "raises"], [PYTHON, "-m", "exits", "raises"], [PYTHON, exits, "lines"], [PYTHON, exits, "chained"]]
    signed = [[finding["signature"] for finding in collected(command, place)[3]] for command in commands]
    assert signed[0] == signed[1] and [len(one) for one in signed] == [1, 1, 1, 1], signed
    assert len({one for one, in signed}) == 3, signed


def ends_as(command, expected, message, top):
    def test(place):
        plain = run_within(TIMEOUT_SECONDS, command, **surroundings(place))
        assert as_shell(plain[0]) == expected, f"unguarded it ends with {plain[0]}: {plain[2][-800:]}"
        status, out, errors, findings = collected(command, place)
        assert (status, out) == (expected, plain[1]), f"{status}, {out!r}: {errors[-800:]}"
        if message is None:
            assert not findings, findings
            return
        assert [finding["kind"] for finding in findings] == ["crash"], f"{findings}: {errors[-800:]}"
        finding = findings[0]
        assert finding["status"] == expected and "signal" not in finding, finding
        assert re.search(message, finding["message"], re.S), f"message {finding['message']!r}"
        if command[0] in (PYTHON, NODE):
            raised = f"{finding['detail']['raised_in']} at {finding['detail']['said_at']}"
            assert re.fullmatch(r"\S+ at /\S+/exits\.(py|js):\d+", raised), raised
        names = [frame.get("function", "") for frame in finding["stacks"]["access"]]
        assert any(top in name for name in names) if top else names, names
        status, text, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", place / "report.jsonl"], env=scrubbed())
        assert f"crash: status {expected}" in text and not errors, f"{text}{errors}"
    return test


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
    tests += [(name, ends_as(*words)) for name, *words in endings()] + [("python signatures", signatures)]
    return run_tests(tests, "zguard-panics-", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
