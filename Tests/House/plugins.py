#!/usr/bin/env python3
"""Tests the command plugins, `swift package zguard-test` and `zguard-run`, in a package that only depends on ZombieGuard.
They use an installed zguard, or the one that they build (--built). Closing line: N passed, N failed."""

import argparse
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import ROOT, ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 900

FILES = {
    "Package.swift": """\
// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "user",
    dependencies: [.package(name: "ZombieGuard", path: "%s")],
    targets: [
        .target(name: "Shop"),
        .executableTarget(name: "till", dependencies: ["Shop"]),
        .testTarget(name: "ShopTests", dependencies: ["Shop"]),
    ]
)
""" % ROOT,
    "Sources/Shop/Cart.swift": """\
public final class Cart {
    var items: [String] = []
    public init() {}
    public func add(_ item: String) { items.append(item) }
}

public final class Customer {
    unowned(unsafe) var cart: Cart
    init(_ cart: Cart) { self.cart = cart }
    public static func leave() -> Customer { Customer(Cart()) }
    public func buy() { cart.add("tea") }
}
""",
    "Sources/till/main.swift": """\
import Foundation
import Shop

print("words", CommandLine.arguments.dropFirst().joined(separator: "|"))
if CommandLine.arguments.contains("read") { print("read", readLine() ?? "nothing") }
if CommandLine.arguments.contains("mask") {
    print(try String(contentsOfFile: "/proc/self/status", encoding: .utf8).split(separator: "\\n").filter { $0.hasPrefix("SigBlk") })
}
if CommandLine.arguments.contains("wait") { while true { sleep(60) } }
if CommandLine.arguments.contains("bug") { Customer.leave().buy() }
FileHandle.standardError.write(Data("complaint\\n".utf8))
exit(CommandLine.arguments.contains("seven") ? 7 : 0)
""",
    "Tests/ShopTests/ShopTests.swift": """\
import Glibc
import Testing
import XCTest

@testable import Shop

@Suite struct CartTests {
    @Test func addsOne() {
        let cart = Cart()
        cart.add("tea")
        #expect(cart.items == ["tea"])
    }
    @Test func buysLate() { Customer.leave().buy() }
    @Test func saysOptions() { print("options", String(cString: getenv("ZGUARD_OPTIONS"))) }
    @Test func isWrong() { #expect(Bool(false)) }
}

final class OldTests: XCTestCase {
    func testAddsOne() { Cart().add("tea") }
    func testBuysLate() { Customer.leave().buy() }
    func testIsWrong() { XCTFail("wrong") }
}
""",
}

ENTRY_POINT = """\
import XCTest

@testable import ShopTests

@main struct Main { static func main() { XCTMain([testCase([("testAddsOne", OldTests.testAddsOne)])]) } }
"""

# Options of `zguard run` that the plugins do not forward.
NOT_FORWARDED = {"--help"}


class Package:
    def __init__(self, directory, zguard):
        self.directory, self.zguard = directory, zguard
        for name, text in FILES.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def __call__(self, *words, before=(), typed="", **variables):
        """Runs `swift package` with pipes for its streams."""
        environment = scrubbed(**({"ZGUARD": str(self.zguard)} if self.zguard else {}), **variables)
        if not self.zguard:
            environment.pop("ZGUARD", None)
            environment["PATH"] = os.pathsep.join(
                folder for folder in environment["PATH"].split(os.pathsep) if not (Path(folder) / "zguard").exists())
        return subprocess.run(["swift", "package", *before, *map(str, words)], cwd=self.directory, env=environment, input=typed, text=True,
                              capture_output=True, timeout=TIMEOUT_SECONDS)


def in_terminal(package, words, typed):
    """Runs `swift package` in a terminal, and types once the program has started. Returns the terminal's output, and the remaining
    processes of its session."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(package.directory)
        os.execvpe("swift", ["swift", "package", *words], scrubbed(ZGUARD=str(package.zguard)))
    shown, is_typed, deadline = b"", False, time.monotonic() + TIMEOUT_SECONDS / 15
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # no process has the terminal open any more
                part = b""
            if not part:
                break
            shown += part
        if b"words " in shown and not is_typed:
            os.write(terminal, typed)
            is_typed = True
    left = []
    while True:  # processes that were asked to end may take a moment
        left = [each for each in map(int, filter(str.isdigit, os.listdir("/proc"))) if each != pid and session_of(each) == pid]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for each in [*left, pid]:
        os.kill(each, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode(errors="replace"), left


def session_of(pid):
    """Returns the session of a running process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[3])


def tests_of(result):
    """Returns the names of the tests that ran, in either library's format, and whether they passed."""
    text = result.stdout + result.stderr
    ran = {name: sign == "✔" for sign, name in re.findall(r"([✔✘])(?:\x1b\[0m)? Test (\w+)\(\) (?:passed|failed) after", text)}
    return ran | {name: word == "passed" for name, word in re.findall(r"^Test Case '(\w+\.\w+)' (passed|failed)", text, re.M)}


def expect(run, name, result, status=None, tests=None, says=(), never=(), out=None):
    """Checks the result of one call. `status`: the exit status that the plugin must have, as text; None if the call must succeed."""
    problems = []
    text = result.stdout + result.stderr
    if (result.returncode == 0) != (status is None):
        problems.append(f"status {result.returncode}")
    if status and f"Plugin ended with exit code {status}" not in result.stderr:
        problems.append(f"the plugin did not end with {status}")
    if tests is not None and tests_of(result) != tests:
        problems.append(f"ran {tests_of(result)}")
    problems += [f"does not say {part!r}" for part in says if part not in text]
    problems += [f"says {part!r}" for part in never if part in text]
    if out is not None and result.stdout != out:
        problems.append(f"standard output is {result.stdout!r}")
    run.check(name, problems and [*problems, *text.splitlines()[-12:]])


def check_testing(run, package):
    new = {"addsOne": True, "buysLate": True, "saysOptions": True, "isWrong": False}
    old = {"OldTests.testAddsOne": True, "OldTests.testBuysLate": True, "OldTests.testIsWrong": False}
    found = "method Cart.add(_:) was called on a deallocated Shop.Cart", "a deallocated Shop.Cart was retained"
    everything = package("zguard-test")
    expect(run, "both libraries' tests run, and fail", everything, status=1, tests=new | old)
    run.check("the findings of both are in one report", [everything.stderr] if not re.search(
        r"^==zguard== \d findings? .*userPackageTests \[\d+\]; ", everything.stderr, re.M) or not any(
            text in everything.stderr for text in found) else [])
    expect(run, "what passes with a finding fails", package("zguard-test", "[bB]uysLate"), status=99,
           tests={"buysLate": True, "OldTests.testBuysLate": True})
    expect(run, "what is clean passes", package("zguard-test", "[aA]ddsOne"), tests={"addsOne": True, "OldTests.testAddsOne": True},
           says=("==zguard== no findings",))
    expect(run, "several filters", package("zguard-test", "CartTests/addsOne", "--filter", "OldTests/testAdds", "--quiet"),
           tests={"addsOne": True, "OldTests.testAddsOne": True}, never=("==zguard==",))
    expect(run, "skipped tests", package("zguard-test", "--skip", "Wrong", "--skip=uysLate", "--no-parallel"),
           tests={"addsOne": True, "saysOptions": True, "OldTests.testAddsOne": True})
    expect(run, "one library", package("zguard-test", "--disable-swift-testing", "ddsOne"), tests={"OldTests.testAddsOne": True})
    expect(run, "the other", package("zguard-test", "--disable-xctest", "ddsOne"), tests={"addsOne": True})
    expect(run, "refused: a run in which nothing would be guarded", package("zguard-test", "-o", "children=ignore"), status="",
           says=("--disable-xctest",), tests={})
    expect(run, "one library without children", package("zguard-test", "-o", "children=ignore", "CartTests/addsOne"), tests={"addsOne": True})
    expect(run, "a filter that matches nothing", package("zguard-test", "noSuchTest"), status="", says=("no test matches",), tests={})
    expect(run, "the exit status that is asked for", package("zguard-test", "--exit-code", "0", "CartTests/buysLate"), tests={"buysLate": True})
    for words, has, lacks in (
            ((), ["on_finding=continue", "quarantine_bytes=32m"], ["profile="]),
            (("--profile", "fence"), ["profile=fence", "on_finding=continue"], ["isolated_overhead", "quarantine_bytes"]),
            (("--profile=sample", "-o", "sample_rate=7"), ["profile=sample", "sample_rate=7"], ["quarantine_bytes"])):
        said = re.search(r"^options (.*)", package("zguard-test", "--quiet", *words, "saysOptions").stdout, re.M)
        said = said[1] if said else "nothing"
        run.check(f"options with {' '.join(words) or 'no profile'}", [
            said] if any(part not in said for part in has) or any(part in said for part in lacks) else [])
    # A package's own entry point runs all tests, whichever testing library is asked for.
    entry = package.directory / "Tests/LinuxMain.swift"
    entry.write_text(ENTRY_POINT)
    result = package("zguard-test", "--quiet")
    expect(run, "a package with its own entry point", result, tests={"OldTests.testAddsOne": True})
    run.check("it runs once", [] if (result.stdout + result.stderr).count("Test Case 'OldTests.testAddsOne' passed") == 1 else [result.stdout])
    entry.unlink()
    report = package.directory / "tests.xml"
    package("zguard-test", "--format", "junit", "--report", report, "uysLate")
    run.check("one report of both libraries", [] if report.exists() and int(
        xml.fromstring(report.read_bytes()).get("failures")) in (1, 2) else ["there is none"])


def check_running(run, package):
    expect(run, "the program's words are its own", package("zguard-run", "--quiet", "till", "a b", "--profile", "--help"),
           out="words a b|--profile|--help\n", says=("complaint\n",))
    expect(run, "its input is that of swift package", package("zguard-run", "--quiet", "till", "read", typed="typed\n"),
           out="words read\nread typed\n")
    expect(run, "its status", package("zguard-run", "till", "seven"), status=7, says=("==zguard== no findings",))
    expect(run, "a finding", package("zguard-run", "-o", "on_finding=continue", "till", "bug"), status=99,
           says=("a deallocated Shop.Cart", "Sources/Shop/Cart.swift:", "==zguard== 1 finding"), out="words bug\n")


    expect(run, "no signal is blocked", package("zguard-run", "--quiet", "till", "mask"), says=("0000000000000000",))
    shown, left = in_terminal(package, ["zguard-run", "--quiet", "till", "read"], b"typed\n")
    run.check("it reads from the terminal", ([] if "read typed" in shown else [shown]) + left)
    shown, left = in_terminal(package, ["zguard-run", "till", "wait"], b"\x03")
    run.check("an interrupt ends it", ([] if "==zguard== no findings" in shown else [shown]) + left)


def check_package_manager(run, package):
    """`zguard run -- swift test` guards the tests, and not the package manager and its tools."""
    report = package.directory / "swift.json"

    def swift(*options, verb="test", more=()):
        result = subprocess.run([ZGUARD, "run", *options, "--", "swift", verb, *more], cwd=package.directory, text=True,
                                env=scrubbed(), capture_output=True, timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL)
        closing = re.search(r"^==zguard== (.*)", result.stderr.strip().splitlines()[-1])
        return result, closing[1] if closing else ""

    words = ("-o", "on_finding=continue")
    filters = ("--filter", "[bB]uysLate")
    source = package.directory / "Sources/Shop/Cart.swift"
    source.write_text(source.read_text() + "// changed\n")
    result, closing = swift(*words, more=filters)
    expect(run, "swift test: the finding in the tests", result, status="", tests={"buysLate": True, "OldTests.testBuysLate": True},
           says=("a deallocated Shop.Cart", "userPackageTests"), never=("Plugin ended",))
    count = re.search(r", (\d+) programs exempt$", closing)
    run.check("swift test: tools that compile are exempt", [] if count and int(count[1]) > 10 and result.returncode == 99 else [closing])
    stored = subprocess.run(["strace", "-f", "-qq", "-e", "trace=execve", "-e", "signal=none", "-s", "300", ZGUARD, "run", "--quiet", *words, "--",
                             "swift", "test", *filters], cwd=package.directory, env=scrubbed(), capture_output=True, text=True,
                            timeout=TIMEOUT_SECONDS) if shutil.which("strace") else None
    # Under strace, the first run may compile the manifests again, because strace changes the environment. The second run must not
    # compile them.
    if stored:
        stored = subprocess.run(stored.args, cwd=package.directory, env=scrubbed(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        run.check("swift test: the manifests are those of the run before", [
            line for line in stored.stderr.splitlines() if re.search(r'execve\("\S*-manifest"', line)])
    result, closing = swift("--only", "sh")
    run.check("--only: nothing is guarded that it does not name", [] if closing.startswith("no findings; no program was guarded, ") else [closing])
    result, closing = swift("--only", "sh", "--require-coverage", "1%", "--report", str(report))
    run.check("--only: and no coverage is claimed", [] if result.returncode in (1, 98) else [str(result.returncode)])
    result, closing = swift("--only", "*PackageTests.xctest", *words, more=filters)
    run.check("--only: a pattern", [] if result.returncode == 99 and "finding" in closing else [closing])
    result, closing = swift(*words, verb="run", more=("till", "bug"))
    expect(run, "swift run: a finding in the program", result, status="", says=("a deallocated Shop.Cart", "words bug"),
           never=("Plugin ended",))


def check_wrong_calls(run, package):
    for name, words, says in (
            ("an unknown option", ("zguard-test", "--bogus"), ("unknown option '--bogus'", "--profile guard|fence|sample", "--skip REGEX")),
            ("of the other plugin", ("zguard-run", "--skip", "x", "till"), ("unknown option '--skip'", "--profile")),
            ("an option without its value", ("zguard-test", "-o"), ("option '-o' needs a value: -o KEY=VALUE",)),
            ("a value for an option without", ("zguard-test", "--full=yes"), ("option '--full' takes no value",)),
            ("no regular expression", ("zguard-test", "("), ("'(' is no regular expression",)),
            ("no configuration", ("zguard-run", "-c", "fast", "till"), ("'fast'", "debug", "release")),
            ("no target", ("zguard-run",), ("no target is named; expected one of: till",)),
            ("an unknown target", ("zguard-run", "Shop"), ("there is no executable 'Shop'; expected one of: till",))):
        expect(run, f"refused: {name}", package(*words), status="", says=says)
    expect(run, "what zguard refuses", package("zguard-run", "--profile", "fast", "till"), status=64, says=("--profile", "fast"))
    if package.zguard:
        expect(run, "refused: a ZGUARD that is none", Package(package.directory, "/nowhere/zguard")("zguard-run", "till"), status="",
               says=("ZGUARD is '/nowhere/zguard'",))


def check_help(run, package):
    forwarded = set(re.findall(r"^  (-[-\w]+)", subprocess.run(
        [ZGUARD, "run", "--help"], capture_output=True, text=True, check=True).stdout, re.M)) - NOT_FORWARDED
    for verb, own in (("zguard-test", {"--filter", "--skip", "--parallel", "--no-parallel", "--disable-xctest", "--disable-swift-testing"}),
                      ("zguard-run", set())):
        result = package(verb, "--help")
        listed = set(re.findall(r"^  (-[-\w]+)", result.stdout, re.M))
        expect(run, f"{verb} --help", result, says=(f"usage: swift package {verb}",))
        run.check(f"{verb} has the options of zguard run", sorted(listed ^ (forwarded | own | {"-c", "--help"})))
    formats = re.search(r"--format ([^]\s]+)", subprocess.run([ZGUARD, "run", "--help"], capture_output=True, text=True).stdout)[1]
    run.check("and its formats", [] if f"--format {formats}" in result.stdout else [formats])


def check_built(run, directory):
    """Without an installed zguard, the plugins build it, here in a directory whose name LD_PRELOAD could not contain."""
    package = Package(directory / "a user's: packages", None)
    result = package("zguard-run", "till", "bug")
    expect(run, "zguard and its library are built", result, status=139, says=("building zguard", "a deallocated Shop.Cart"))
    library = package.directory / ".build/plugins/ZGuardRun/outputs/libzguard.so"
    needed = re.findall(r"NEEDED\)\s+Shared library: \[(.*)\]", subprocess.run(
        ["readelf", "-d", library], capture_output=True, text=True, env=scrubbed()).stdout)
    run.check("the library needs libc alone", [name for name in needed if not re.match(r"libc\.so|ld-linux", name)] or (
        [] if needed else ["it is not there"]))
    made = library.stat().st_mtime_ns if library.exists() else None
    expect(run, "they are kept", package("zguard-run", "till", "x"), out="words x\n",
           never=("building the runtime library", "building zguard"))
    run.check("the library is not built again", [] if library.exists() and library.stat().st_mtime_ns == made else ["it is"])
    expect(run, "tests run with them", package("zguard-test", "[aA]ddsOne"), tests={"addsOne": True, "OldTests.testAddsOne": True})
    expect(run, "optimised", package("zguard-test", "-c", "release", "addsOne"), tests={"addsOne": True})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="each plugin once or twice")
    parser.add_argument("--built", action="store_true", help="without an installed zguard: slow")
    arguments = parser.parse_args()
    run = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-plugins-") as temporary:
        if arguments.built:
            check_built(run, Path(temporary))
        elif arguments.quick:
            package = Package(Path(temporary), ZGUARD)
            check_help(run, package)
            expect(run, "a finding in a program", package("zguard-run", "-o", "on_finding=continue", "till", "bug"), status=99,
                   says=("a deallocated Shop.Cart",), out="words bug\n")
            check_package_manager(run, package)
            expect(run, "a finding in tests", package("zguard-test", "[bB]uysLate"), status=99,
                   tests={"buysLate": True, "OldTests.testBuysLate": True})
        else:
            package = Package(Path(temporary), ZGUARD)
            check_help(run, package)
            check_wrong_calls(run, package)
            check_running(run, package)
            check_package_manager(run, package)
            check_testing(run, package)
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
