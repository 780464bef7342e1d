#!/usr/bin/env python3
"""Runs the tests of Examples/CartTests, a package that uses ZombieGuardTesting, with `swift test`, and checks their output.
In the files of FailingTests and MisuseTests the comment above a test, which is its only registration, states:
  passes                  no failure
    fails: TEXT             text in its failure; may be repeated
    at: FILE "PART"         the failure is at the line of FILE that contains PART
    times: N                number of failures (default: 1)
    test: NAME              name of the test in the output (default: its own name)
Closing line: N passed, N failed."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import ROOT, scrubbed  # noqa: E402

PACKAGE = ROOT / "Examples/CartTests"
# The scratch path and flags with which scripts/test builds the package's own tests, so that nothing is compiled twice.
SCRATCH = os.environ.get("ZG_TEST_SCRATCH", str(ROOT / "build/debug"))
ZGUARD = ROOT / "build/bin/zguard"
DEBUG = ["-Xswiftc", "-warnings-as-errors", "--scratch-path", SCRATCH, "--disable-build-manifest-caching"]
TIMEOUT_SECONDS = 600


def compiler():
    """Version of the Swift compiler, such as (6, 3)."""
    said = subprocess.run(["swift", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.search(r"Swift version (\d+)\.(\d+)", said).groups())


class Expected:
    def __init__(self, source, name, comments):
        self.source, self.name = source, name
        self.passes = "passes" in comments
        self.fails = [text[7:] for text in comments if text.startswith("fails: ")]
        keys = dict(text.split(": ", 1) for text in comments if ": " in text)
        self.shown = keys.get("test", name)
        self.times = int(keys.get("times", 1))
        self.file = self.line = None
        if "at" in keys:
            self.file, part = re.fullmatch(r'(\S+) "(.*)"', keys["at"]).groups()
            lines = [number for path in [*PACKAGE.rglob("Sources/**/*.swift"), *source.parent.glob("*.swift")]
                     if path.name == self.file
                     for number, text in enumerate(path.read_text().splitlines(), 1)
                     if part in text and "// at:" not in text]
            assert len(lines) == 1, f"{source.name}: {part!r} stands in {len(lines)} lines"
            self.line = lines[0]


class Failure:
    """A failure of a test, as parsed from the output."""

    def __init__(self, test, file, line, text):
        self.test, self.file, self.line, self.text = test, file, int(line), text


def expectations(folder):
    """Yields the tests with expectations. Leaves out tests that only a later compiler compiles."""
    version = compiler()
    for source in sorted((PACKAGE / "Tests" / folder).glob("*.swift")):
        comments = []
        suite = None
        is_compiled = True
        for text in source.read_text().splitlines():
            stripped = text.strip()
            if needed := re.match(r"#if compiler\(>=(\d+)\.(\d+)\)", stripped):
                is_compiled = version >= tuple(int(number) for number in needed.groups())
            is_compiled = is_compiled or stripped == "#endif"
            if not is_compiled:
                continue
            if declared := re.search(r"(?:struct|class) (\w+)", stripped):
                suite = declared[1] if "XCTestCase" in stripped else suite
            if stripped.startswith("// "):
                comments.append(stripped[3:])
            elif named := re.search(r"func (`[^`]*`|\w+)(\(.*?\))", stripped):
                labels = "".join(f"{part.split(':')[0].split()[0]}:" for part in named[2][1:-1].split(",") if part)
                name = f'"{named[1][1:-1]}"' if named[1].startswith("`") else f"{named[1]}({labels})"
                if suite:
                    name = f"{suite}.{named[1]}"
                if any(text == "passes" or text.startswith("fails: ") for text in comments):
                    yield Expected(source, name, comments)
                comments = []
            else:
                comments = []


def failures(output):
    lines = output.splitlines()
    for index, text in enumerate(lines):
        if found := re.match(r"✘ Test (.*?) recorded an issue(?: with .*)? at (\S+?):(\d+):\d+: (.*)", text):
            rest = [] if found[4] == "Issue recorded" else [found[4]]
            for follower in lines[index + 1:]:
                if not re.match(r"↳ |  ", follower):
                    break
                rest.append(follower[2:])
            yield Failure(found[1], found[2], found[3], "\n".join(rest))
        elif found := re.match(r"(/.*?):(\d+): error: (\w+\.\w+) : (.*)", text):
            rest = [found[4]]
            for follower in lines[index + 1:]:
                if re.match(r"/|Test (Case|Suite) '|==zguard==", follower):
                    break
                rest.append(follower)
            yield Failure(found[3], Path(found[1]).name, found[2], "\n".join(rest))


def swift(*arguments, temporary=None, **environment):
    if temporary:
        environment["TMPDIR"] = str(temporary)
    environment.setdefault("ZGUARD", str(ZGUARD))
    return subprocess.run(["swift", arguments[0], *DEBUG, *arguments[1:]], cwd=PACKAGE, env=scrubbed(**environment), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)


def built(run):
    result = swift("build", "--build-tests")
    problems = [text for text in result.stdout.splitlines() if re.search(r"\b(warning|error):", text)]
    if result.returncode != 0:
        problems.append(f"status {result.returncode}")
    run.check("the example builds without a warning", problems)
    return result.returncode == 0


def built_statically(run, temporary):
    """Tests cannot be built with --static-swift-stdlib: the only error must be the explanation of ZombieGuardTesting."""
    command = ["swift", "build", "--build-tests", "--static-swift-stdlib", "--scratch-path", f"{temporary}/static", "--disable-build-manifest-caching"]
    result = subprocess.run(command, cwd=PACKAGE, env=scrubbed(), stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)
    shutil.rmtree(f"{temporary}/static", ignore_errors=True)
    errors = {text for text in re.findall(r"^/.* error: (.*)", result.stdout, re.M)}
    wanted = "ZombieGuardTesting needs Swift Testing, which is a dynamic library: build the tests without --static-swift-stdlib"
    problems = [] if result.returncode != 0 else ["status 0"]
    problems += [] if errors == {wanted} else [f"says {sorted(errors)}"]
    run.check("a build with static libraries says why it cannot be", problems)


def passing(run, temporary, name, *more):
    result = swift("test", "--skip-build", "--filter", "^PassingTests", *more, temporary=temporary)
    problems = [] if result.returncode == 0 else [f"status {result.returncode}"]
    problems += [f"says: {text}" for text in result.stdout.splitlines() if re.search(r"✘|error:|==zguard==", text)]
    if not re.search(r"Test run with \d\d tests (in \d suites )?passed", result.stdout):
        problems.append("the tests of Swift Testing did not run")
    if "CartXCTests" not in result.stdout:
        problems.append("the tests of XCTest did not run")
    # Each process of a testing library prints one coverage line; the children of expectZombie print none.
    watched = re.findall(r"^ZombieGuard: watched ([\d,]+) of ([\d,]+) allocation and free pairs, ([\d.]+) % of the frees at once",
                         result.stdout, re.M)
    if not 1 <= len(watched) <= 2 or result.stdout.count("ZombieGuard: ") != len(watched) or any("0" in shares for shares in watched):
        problems.append(f"what was watched is said so: {watched}")
    run.check(name, problems)


def failing(run, temporary, folder, names):
    with tempfile.TemporaryDirectory() as attachments:
        # Before Swift 6.2, the parts of an issue are printed separately, and output of parallel tests would appear between them.
        kept = ["--attachments-path", attachments] if compiler() >= (6, 2) else ["--no-parallel"]
        result = swift("test", "--skip-build", "--filter", f"^{folder}.*({names})", *kept, temporary=temporary)
        reports = [path.read_text() for path in Path(attachments).iterdir()]
    found = list(failures(result.stdout))
    tests = [test for test in expectations(folder) if re.search(names, test.source.name)]
    known = {test.shown for test in tests}
    problems = [] if result.returncode == 1 else [f"status {result.returncode}"]
    problems += [f"unexpected failure of {failure.test}: {failure.text.splitlines()[0]}" for failure in found
                 if failure.test not in known]
    # An attached report must be complete.
    problems += ["an attachment is no report" for report in reports
                 if not re.match(r"==zguard== [\w-]+: .*(\n.*)*\n==zguard== .*signature [0-9a-f]{16}\n$", report)]
    attached = result.stdout.count("⎙ Attached")
    if attached != len(reports):
        problems.append(f"{attached} attachments are announced, {len(reports)} were written")
    # The output must have zguard's form of a finding, "KIND: …", not the runtime's own form, "KIND (ACCESS, CONFIDENCE) at ADDRESS, …".
    lines = re.findall(r"^==zguard== (?!thread |freed |allocated )(.*)", result.stdout, re.M)
    problems += [f"another sentence than everywhere: {line}" for line in lines if not re.match(r"[a-z-]+: ", line)]
    if folder == "FailingTests" and "CartTests" in names and not any("a deallocated Shop.Cart" in line for line in lines):
        problems.append(f"no line on standard error names the class: {lines}")
    run.check(f"{folder}: {names}", problems)
    for test in tests:
        same = sum(other.shown == test.shown for other in tests)
        own = [failure for failure in found if failure.test == test.shown
               and (test.passes or same == 1 or all(text in failure.text for text in test.fails))]
        problems = []
        if test.passes:
            problems = [f"failed: {failure.text}" for failure in own]
        elif len(own) != test.times * same and len(own) != test.times:
            problems.append(f"failed {len(own)} times, {test.times} expected")
        for failure in own if not test.passes else []:
            problems += [f"says {failure.text!r}, not {text!r}" for text in test.fails if text not in failure.text]
            if (failure.file, failure.line) != (test.file, test.line):
                problems.append(f"fails at {failure.file}:{failure.line}, not at {test.file}:{test.line}")
        run.check(f"{test.source.parent.name}/{test.source.name} {test.name}", problems)
    return result


def without_zguard(run, temporary):
    """Without zguard, the helpers that need zguard fail and say so. Nothing else fails."""
    result = swift("test", "--skip-build", "--filter", "^PassingTests.HeapTests/(losesNoBlock|leavesNoDanglingReference|knowsLiveObjects)",
                   temporary=temporary, ZGUARD="/nonexistent/zguard")
    problems = [] if result.returncode != 0 else ["status 0"]
    for helper in ["the trait .noLeaks", "expectNoLeaks", "expectNoDanglingReferences", "liveObjects(of:)"]:
        text = f"{helper} cannot look at the heap: ZGUARD is '/nonexistent/zguard', which is no program"
        if text not in result.stdout:
            problems.append(f"does not say {text!r}")
    run.check("without zguard, what needs it fails", problems)
    result = swift("test", "--skip-build", "--filter", "^PassingTests.HeapTests/knowsLiveObjects", temporary=temporary, ZGUARD="/bin/true")
    text = "liveObjects(of:) cannot look at the heap: zguard has ended without an answer (/bin/true)"
    problems = [] if text in result.stdout else [f"does not say {text!r}"]
    run.check("a program that is no zguard is named", problems)
    result = swift("test", "--skip-build", "--filter", "^FailingTests.PartlyGuardedTests/(isKept|holdsItself)", temporary=temporary, ZGUARD="/nonexistent/zguard")
    problems = [f"does not say {text!r}" for text in ["    property Customer.cart of a Shop.Customer (", "    property Clerk.work of a FailingTests.PartlyGuardedTests.Clerk ("]
                if text not in result.stdout]
    run.check("without zguard, assertDeallocated names properties", problems)


def no_process_left(run):
    """A zguard process that a test bundle started ends with the bundle."""
    time.sleep(1)
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline")
            if (words := read(path).split("\0"))[:1] == [str(ZGUARD)] and words[1:2] == ["test-heap"]]
    run.check("no zguard is left", left)


def read(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def unguarded(run, temporary):
    result = swift("test", "--skip-build", "--filter", "^MisuseTests.UnguardedTests", temporary=temporary)
    problems = [] if result.returncode != 0 else ["status 0"]
    for text in ["✔ Test addAfterClose() passed", "method Cart.add(_:) was called on a deallocated Shop.Cart",
                 "UnguardedTests.addAfterClose()  Tests/MisuseTests/UnguardedTests.swift:",
                 "zguard: error: 1 finding outside of tests with .zombieGuarded or expectNoZombies"]:
        if text not in result.stdout:
            problems.append(f"does not say {text!r}")
    run.check("a finding in a test that nobody guards fails the run", problems)


def crashing(run, temporary):
    """A crash of the test process gives one report, with names and source lines, and no crash report of the Swift runtime."""
    result = swift("test", "--skip-build", "--filter", "^MisuseTests.CrashTests", temporary=temporary)
    problems = [] if result.returncode != 0 else ["status 0"]
    heads = re.findall(r"^.*==zguard== [a-z-]+[: ].*$", result.stdout, re.M)
    if not [head for head in heads if re.search(r"==zguard== null-access: read at 0x\w+ \(SIGSEGV\), through a null pointer, in "
                                                r"CrashTests\.readNumber\(_:\) \(CrashTests\.swift:\d+\)$", head)]:
        problems.append(f"does not say what happened: {heads}")
    for text in ["UnsafePointer<Int>(bitPattern: address)!.pointee }", "CrashTests.readsNowhere()", ", signature "]:
        if text not in result.stdout:
            problems.append(f"does not say {text!r}")
    if result.stdout.count("null-access") != 1:
        problems.append("there is more than one report")
    problems += [f"says {text!r}" for text in ("Program crashed", "Backtrace took", "==zguard== function names") if text in result.stdout]
    if problems:
        problems.append(result.stdout[-3000:])
    run.check("what ends the test process is said once and whole", problems)
    # With SWIFT_BACKTRACE=enable=yes, the output has the reports of zguard and of the Swift runtime.
    result = swift("test", "--skip-build", "--filter", "^MisuseTests.CrashTests", temporary=temporary, SWIFT_BACKTRACE="enable=yes")
    both = [text for text in ("==zguard== null-access: ", "Backtrace took") if text not in result.stdout]
    run.check("both reports where SWIFT_BACKTRACE asks", [f"does not say {text!r}" for text in both])


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    began = time.monotonic()
    run = Checks()
    with tempfile.TemporaryDirectory() as temporary:
        if built(run):
            passing(run, temporary, "PassingTests")
            passing(run, temporary, "PassingTests, one after the other", "--no-parallel")
            failing(run, temporary, "FailingTests", "Cart|Stall")
            failing(run, temporary, "FailingTests", "Heap")
            without_zguard(run, temporary)
            no_process_left(run)
            failing(run, temporary, "MisuseTests", "Expectation")
            unguarded(run, temporary)
            crashing(run, temporary)
            built_statically(run, temporary)
            left = [path.name for path in Path(temporary).iterdir() if path.name.startswith("zguard")]
            run.check("no temporary files are left", left)
    print(f"{time.monotonic() - began:.0f} seconds")
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
