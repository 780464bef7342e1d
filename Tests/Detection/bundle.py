#!/usr/bin/env python3
"""Checks that a plain read of a freed buffer in one of 300 tests of a Swift test bundle is found when the whole bundle runs.

The package is generated under build/ and depends on ZombieGuardTesting as docs/TESTING.md describes. Each test uses objects,
collections, text, JSON and buffers in functions of its own, so that each has its own allocation stacks. An environment variable
selects the test with the bug (none, the 10th, the 150th or the 290th), so that one build serves all runs. Runs alternate between
parallel and serial tests. The bug must be found in 19 of 20 runs, and no other test may fail. The bug must be found as often if twenty
further tests have findings: the process then looks up symbols, and these lookups must not use up the budget of isolated blocks. Finally
the driver prints how many blocks and allocation stacks of the bundle were isolated; with --tree it compares several checkouts.
Closing line: N passed, N failed."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Benchmarks"))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_within  # noqa: E402
from Support.environment import ROOT, scrubbed  # noqa: E402

import coverage  # noqa: E402

TESTS, PER_FILE = 300, 30
BUGS = (10, 150, 290)
NOISY = range(7, TESTS, 15)  # tests that free a block twice if BUNDLE_NOISE is set
MOST_NEW_STACKS = 3  # allocation stacks that each finding of a noisy test may bring, including the stack of the test's own block
WAYS = ((), ("--no-parallel",))
SHARE = 0.95
# Tests/Support/parts.py builds the package's own tests with the same flags, so nothing is compiled twice.
FLAGS = ["-Xswiftc", "-warnings-as-errors", "--disable-build-manifest-caching"]
TIMEOUT_SECONDS = 3600

PACKAGE = """// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "ThreeHundred",
    dependencies: [.package(name: "ZombieGuard", path: "%s")],
    targets: [
        .testTarget(name: "ThreeHundredTests", dependencies: [.product(name: "ZombieGuardTesting", package: "ZombieGuard")])
    ],
    swiftLanguageModes: [.v6]
)
"""

SHARED = """import Foundation

let planted = Int(ProcessInfo.processInfo.environment["BUNDLE_BUG"] ?? "") ?? 0
let isNoisy = ProcessInfo.processInfo.environment["BUNDLE_NOISE"] != nil

final class Node {
    let value: Int
    var next: Node?
    var children: [Node] = []
    init(_ value: Int, next: Node? = nil) {
        self.value = value
        self.next = next
    }
}

struct Order: Codable, Equatable {
    var name: String
    var amounts: [Int]
    var notes: [String: String]
}
"""

# Bodies of the tests' functions, used in turn; # stands for the test's number.
BODIES = (
    """    var list: Node?
    for value in 0..<(20 + # % 7) { list = Node(value, next: list) }
    var sum = 0
    while let node = list { sum += node.value; list = node.next }
    return sum""",
    """    let words = (0..<(30 + # % 11)).map { "word number \\($0) of test # and more text" }
    let groups = Dictionary(grouping: words) { $0.count }
    return groups.values.map { $0.sorted().joined(separator: ", ").count }.reduce(0, +)""",
    """    let orders = (0..<5).map { Order(name: "order \\($0) of #", amounts: Array(0...$0), notes: ["key \\($0)": "a longer note, \\($0)"]) }
    guard let data = try? JSONEncoder().encode(orders), let back = try? JSONDecoder().decode([Order].self, from: data) else { return -1 }
    return back == orders ? data.count : -1""",
    """    let root = Node(#)
    for value in 0..<6 {
        let child = Node(value)
        child.children = (0..<value).map { Node($0) }
        root.children.append(child)
    }
    return root.children.reduce(0) { $0 + $1.children.count }""",
    """    let buffer = UnsafeMutablePointer<Int>.allocate(capacity: 16 + # % 50)
    defer { buffer.deallocate() }
    buffer.initialize(repeating: #, count: 16 + # % 50)
    let left = Set((0..<40).map { "left \\($0 % 13) with a long tail" })
    return left.union((0..<40).map { "right \\($0 % 17) with a long tail" }).count + buffer[3]""",
    """    var text = ""
    for value in 0..<25 { text += "\\(value): \\(String(repeating: "x", count: value + # % 5))\\n" }
    let lines = text.split(separator: "\\n").map { $0.uppercased() }
    return lines.filter { $0.hasSuffix("X") }.map { Data($0.utf8).base64EncodedString() }.reduce(0) { $0 + $1.count }""",
)

BUG = """        if planted == # { #expect(readsFreed#() != 1) }
"""
BUG_FUNCTION = """
// The buffer is read after its end.
@inline(never) private func readsFreed#() -> Int {
    let buffer = UnsafeMutablePointer<Int>.allocate(capacity: 12)
    buffer.initialize(repeating: #, count: 12)
    buffer.deallocate()
    return buffer[5]
}
"""


NOISE = """        if isNoisy { freesTwice#() }
"""
NOISE_FUNCTION = """
@inline(never) private func freesTwice#() {
    let block = malloc(40)
    free(block)
    free(block)
}
"""


def numbered(text, number):
    """`text` with each # replaced by the number, except in #expect."""
    return re.sub(r"#(?!expect)", str(number), text)


def test_file(first):
    tests, functions = [], []
    for number in range(first, first + PER_FILE):
        bug = numbered(BUG, number) if number in BUGS else ""
        bug += numbered(NOISE, number) if number in NOISY else ""
        tests.append(f"    @Test func test{number:03}() {{\n        #expect(works{number}() >= 0)\n{bug}    }}\n")
        functions.append(f"\n@inline(never) private func works{number}() -> Int {{\n{numbered(BODIES[number % len(BODIES)], number)}\n}}\n")
        functions += [numbered(BUG_FUNCTION, number)] if number in BUGS else []
        functions += [numbered(NOISE_FUNCTION, number)] if number in NOISY else []
    return ("import Foundation\nimport Testing\nimport ZombieGuardTesting\n\n"
            f"@Suite(.zombieGuarded) struct Tests{first:03} {{\n{''.join(tests)}}}\n{''.join(functions)}")


class Bundle:
    """The generated package, which depends on ZombieGuard of one checkout."""

    def __init__(self, tree):
        self.tree, self.folder = tree, tree / "build" / "bundle"
        sources = self.folder / "Tests" / "ThreeHundredTests"
        sources.mkdir(parents=True, exist_ok=True)
        builds.write_if_different(self.folder / "Package.swift", PACKAGE % tree)
        builds.write_if_different(sources / "Shared.swift", SHARED)
        for first in range(1, TESTS + 1, PER_FILE):
            builds.write_if_different(sources / f"Tests{first:03}.swift", test_file(first))

    def build(self):
        scratch = self.tree / "build" / "debug"
        command = ["swift", "build", "--build-tests", *FLAGS, "--scratch-path", scratch]
        status, out, err = run_within(TIMEOUT_SECONDS, command, cwd=self.folder, env=scrubbed())
        if status != 0:
            raise Failed(f"the bundle does not build: {(out + err)[-2000:]}")
        self.program = scratch / "debug" / "ThreeHundredPackageTests.xctest"
        if not self.program.exists():
            raise Failed(f"there is no {self.program}")

    def run(self, *arguments, bug=0, **variables):
        """Runs all tests once; returns status and output."""
        status, out, err = run_within(TIMEOUT_SECONDS, [self.program, "--testing-library", "swift-testing", *arguments], cwd=self.folder,
                                      env=scrubbed(BUNDLE_BUG=str(bug), NO_COLOR="1", SWIFT_BACKTRACE="enable=no", **variables))
        return status, out + err

    def run_clean(self, *arguments):
        """Runs the tests without the bug; returns the problems."""
        status, said = self.run(*arguments)
        problems = [] if status == 0 else [f"status {status}"]
        problems += [] if re.search(rf"Test run with {TESTS} tests in \d+ suites passed", said) else ["not all tests ran and passed"]
        return problems + [f"says: {line}" for line in said.splitlines() if re.search(r"✘|==zguard==(?! no findings)", line)][:5]

    def is_found(self, bug, *arguments, **variables):
        """Whether the test with the bug fails. Raises Failed if another test fails; with BUNDLE_NOISE, the NOISY tests must fail."""
        status, said = self.run(*arguments, bug=bug, **variables)
        if f"test{bug:03}()" not in said:
            raise Failed(f"the tests did not run (status {status}): {said[-500:]}")
        failed = set(re.findall(r"✘ Test (\w+)\(\) recorded", said))
        if "BUNDLE_NOISE" in variables:
            noise = {f"test{number:03}" for number in NOISY}
            if noise - failed:
                raise Failed(f"a block that was freed twice is not found in {noise - failed}")
            if failed - noise - {f"test{bug:03}"}:
                raise Failed(f"without a bug, {failed - noise} failed")
            return f"test{bug:03}" in failed
        is_reported = "use-after-free" in said
        if failed - {f"test{bug:03}"} or is_reported != bool(failed) or (status == 0) == is_reported:
            raise Failed(f"with the bug in test {bug}, status {status} and failures of {failed or 'none'}")
        return is_reported

    def counted(self, runs, **variables):
        """Runs all tests `runs` times; returns {counter: median} of the statistics pages."""
        numbers = coverage.counter_numbers(self.tree / "build" / "lib" / "libzguard.so")
        samples = []
        for number in range(runs):
            with tempfile.TemporaryDirectory(prefix="zguard-bundle-") as kept:
                self.run(*WAYS[number % len(WAYS)], LD_PRELOAD=str(coverage.keeper()), ZG_KEPT=kept, **variables)
                samples.append(coverage.counters(Path(kept), numbers))
        return coverage.median(samples)


def try_bundle(bundle, runs, checks):
    for way in WAYS:
        checks.check(f"without the bug {' '.join(way)}", bundle.run_clean(*way))
    for bug in BUGS:
        try:
            found = sum(bundle.is_found(bug, *WAYS[number % len(WAYS)]) for number in range(runs))
            text = f"found in {found} of {runs} runs"
            problems = [text] if found < SHARE * runs else []
        except Failed as failure:
            problems, text = [str(failure)], ""
        if not problems:
            print(f"bug in test {bug}: {text}", flush=True)
        checks.check(f"bug in test {bug}", problems)


def try_noise(bundle, runs, checks):
    """The bug must still be found if other tests have findings. These findings may bring only few further allocation stacks."""
    bug = BUGS[-1]
    found = sum(bundle.is_found(bug, *WAYS[number % len(WAYS)], BUNDLE_NOISE="1") for number in range(runs))
    print(f"bug in test {bug}, and {len(NOISY)} tests with findings besides: found in {found} of {runs} runs", flush=True)
    checks.check("with findings in other tests", [f"found in {found} of {runs} runs"] if found < SHARE * runs else [])
    quiet, noisy = bundle.counted(2), bundle.counted(2, BUNDLE_NOISE="1")
    stacks = noisy["contexts"] - quiet["contexts"]
    text = f"{stacks} more allocation stacks with {len(NOISY)} findings, of {quiet['contexts']}"
    print(text, flush=True)
    checks.check("findings bring few allocation stacks", [text] if stacks > MOST_NEW_STACKS * len(NOISY) + quiet["contexts"] / 50 else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="how often each (default 10)")
    parser.add_argument("--tree", type=Path, action="append", help="a checkout of ZombieGuard in which build/lib is built; repeatable (default this one)")
    parser.add_argument("--count-only", action="store_true", help="only count blocks and stacks")
    arguments = parser.parse_args()
    checks = Checks()
    found = {}
    for tree in arguments.tree or [ROOT]:
        try:
            bundle = Bundle(tree.resolve())
            bundle.build()
            if not arguments.count_only:
                try_bundle(bundle, arguments.runs, checks)
                try_noise(bundle, arguments.runs, checks)
            found[str(tree) if arguments.tree else "this tree"] = seen = bundle.counted(2)
            checks.check("stacks with pages of their own are counted", [] if seen["contexts_fenced"] else ["none"])
        except (Failed, OSError) as failure:
            checks.check(f"the bundle of {tree}", [str(failure)])
    if found:
        print("\n".join([*coverage.HEADING, *coverage.rows(f"bundle of {TESTS} tests", found)]))
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
