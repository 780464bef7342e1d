#!/usr/bin/env python3
"""Checks that crash reports of uncaught C++ and Swift errors have the stack of the throw (collect=crashes).

The language runtimes are linked statically and dynamically. Programs that throw often and catch must behave as without the runtime,
with no finding. The programs are the functions of Tests/Crashes/thrown*; a line in front of each states the expected finding, as in
crashing.py.
Closing line: N passed, N failed."""

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import crashing  # noqa: E402
from Support import builds  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES, FOLDER = TESTS / "Crashes", builds.BUILD / "uncaught"


def program(name, source, *command):
    return source, builds.compiled(FOLDER / name, [*command, str(source), "-o", str(FOLDER / name)], [source])


def headers_of_libcxx():
    """Headers of libc++, extracted from Debian's package, which conflicts with the headers of libunwind."""
    place = FOLDER / "libc++"
    headers = place / "usr/lib/llvm-14/include/c++/v1"
    if not (headers / "vector").exists():
        place.mkdir(parents=True, exist_ok=True)
        download = "apt-get -q -o APT::Sandbox::User=root download libc++-14-dev"
        builds.run_compiler(["sh", "-c", f"{download} || {{ apt-get -q update && {download}; }}"], place)
        builds.run_compiler(["dpkg-deb", "-x", *place.glob("libc++-14-dev_*.deb"), place], place)
    return headers


def built():
    """Builds and yields (source, program) for each language and each way to link its runtime."""
    cc, swift, main = (SOURCES / name for name in ("thrown.cc", "thrown.swift", "thrown_main.swift"))
    gxx = ["g++", "-std=c++17", "-g", "-O1", "-pthread", "-w"]
    yield program("cc", cc, *gxx)
    yield program("cc-static", cc, *gxx, "-static-libstdc++", "-static-libgcc")
    yield program("cc-libc++", cc, "clang++", "-nostdinc++", "-isystem", headers_of_libcxx(), "-std=c++17", "-g", "-O1", "-pthread", "-w",
                  "-nostdlib++", "-l:libc++.so.1", "-l:libc++abi.so.1")
    swiftc = [crashing.SWIFTC, "-swift-version", "6", "-module-name", "Thrown", "-g"]
    yield program("swift", swift, *swiftc, "-Onone")
    yield program("swift-static", swift, *swiftc, "-O", "-static-stdlib")
    yield program("swift-main", main, *swiftc, "-Onone", "-parse-as-library")


def cases_of(source, built_program):
    if source.name == "thrown_main.swift":
        said = re.search(r"// dies: (.*)", source.read_text())[1]
        return [crashing.Case(built_program, "main", crashing.words_of(said))]
    # libc++ 14 implements make_exception_ptr with a throw, so the finding of this case would have the stack of that throw.
    return [case for case in crashing.cases_of(source, built_program) if case.title != "cc-libc++ made"]


def functions(stack):
    return [frame.get("function", "") for frame in stack]


def check_thrown(case, finding):
    thrown, access = finding["stacks"].get("thrown", []), functions(finding["stacks"]["access"])
    assert not thrown or thrown != finding["stacks"]["access"], access
    name = case.thrown.removesuffix("?")
    is_shown = name != case.thrown and any(name in function for function in access)
    if is_shown or name in ("shown", "none"):
        assert not thrown, functions(thrown)
        assert name != "shown" or any(case.top in function for function in access), access
        return
    own = crashing.own_frames(thrown, case.program)
    assert own and name in own[0].get("function", ""), f"thrown {functions(thrown)}, died in {access}"
    assert len(own) > 1 or case.name == "main", functions(thrown)  # the stack must be complete, except in an async main
    assert own[0]["line"] and own[0]["file"].endswith(tuple(path.name for path in SOURCES.glob("thrown*"))), own[0]


def dies_as(case):
    def test(place):
        status, _, _ = run_within(crashing.TIMEOUT_SECONDS, [case.program, case.name], env=scrubbed(SWIFT_BACKTRACE="enable=no"),
                                  preexec_fn=crashing.forbid_core, cwd=place)
        assert as_shell(status) == case.status, f"unguarded it ends with {status}"
        status, findings, errors = crashing.collected(case, place)
        assert status == case.status, f"status {status}: {errors[-800:]}"
        assert [finding["kind"] for finding in findings] == [case.kind], f"{findings}: {errors[-800:]}"
        message = findings[0].get("message", "")
        assert re.search(case.message or "", message, re.S), f"message {message!r}"
        assert "threads" in findings[0], findings[0]["detail"]
        check_thrown(case, findings[0])
    return test


def lives(built_program, name):
    def test(place):
        status, out, errors = run_within(crashing.TIMEOUT_SECONDS, [built_program, name], env=scrubbed(), cwd=place)
        assert status == 3, (status, errors)
        for options in ("collect=crashes", "collect=crashes:profile=sample", "collect=crashes:trace_class=Counter"):
            report = place / f"{len(options)}.jsonl"
            guarded = run_within(crashing.TIMEOUT_SECONDS, [built_program, name], cwd=place,
                                 env=guarded_by(LIBRARY, f"{options}:report_path={report}"))
            assert guarded == (status, out, errors), f"{options}: {guarded}"
            assert not report.exists() or not report.read_text(), report.read_text()
    return test


def in_words(place):
    """Text, SARIF, HTML and GitHub annotations of a report show where the error was thrown."""
    report = place / "report.jsonl"
    command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", FOLDER / "cc", "rethrown"]
    run_within(crashing.TIMEOUT_SECONDS, command, env=scrubbed(), preexec_fn=crashing.forbid_core, cwd=place)
    texts = {}
    for form in ("text", "sarif", "html", "github"):
        status, texts[form], errors = run_within(crashing.TIMEOUT_SECONDS, [ZGUARD, "report", report, "--format", form], env=scrubbed())
        assert status == 0, errors
    assert re.search(r"the error was thrown here:\n +#0 out_of_cheese\(\)", texts["text"]), texts["text"]
    result = json.loads(texts["sarif"])["runs"][0]["results"][0]
    assert "the error was [thrown here](1)" in result["message"]["text"], result["message"]
    assert "thrown here" in [stack["message"]["text"] for stack in result["stacks"]], result["stacks"]
    assert "Thrown here" in texts["html"] and "thrown here: out_of_cheese()" in texts["github"].replace("%0A", "\n"), texts["github"]


def alone(place):
    """The runtime without zguard prints the stack of the throw as addresses."""
    status, _, errors = run_within(crashing.TIMEOUT_SECONDS, [FOLDER / "cc", "rethrown"], env=guarded_by(LIBRARY, "collect=crashes"),
                                   preexec_fn=crashing.forbid_core, cwd=place)
    assert as_shell(status) == 128 + 6 and re.search(r"  thrown:\n    #0 \S*/cc\+0x", errors), errors[-800:]


def off(place):
    """Without collect=crashes the code of __cxa_throw is not patched, and Swift's hook _swift_willThrow is not set."""
    for options, count in (("", 0), ("collect=crashes", 1)):
        _, out, errors = run_within(crashing.TIMEOUT_SECONDS, [FOLDER / "cc", "changed"], env=guarded_by(LIBRARY, options), cwd=place)
        assert out == f"changed {count}\n", (options, out, errors)
        _, out, errors = run_within(crashing.TIMEOUT_SECONDS, [FOLDER / "swift", "changed"], env=guarded_by(LIBRARY, options), cwd=place)
        assert out == f"changed {count}\n", (options, out, errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    cases, clean = [], []
    for source, built_program in built():
        cases += cases_of(source, built_program)
        if "// lives: throws" in source.read_text():
            clean.append((f"{built_program.name} caught", lives(built_program, "caught")))
    chosen = arguments.slice.choose(cases, name=lambda case: case.title, kinds=lambda case: [case.program.name])
    tests = [(case.title, dies_as(case)) for case in chosen]
    tests += arguments.slice.deal(clean)
    tests += [("in words", in_words), ("alone", alone), ("off", off)]
    arguments.slice.say(len(chosen), len(cases), "uncaught errors")
    return run_tests(tests, "zguard-uncaught.", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
