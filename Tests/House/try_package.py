#!/usr/bin/env python3
"""Tests scripts/try-package in a package of its own: the table, findings, and the exit status. Closing line: N passed, N failed."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import ROOT, ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 900
MANIFEST = """\
// swift-tools-version: 6.0
import PackageDescription

let package = Package(name: "Shop", targets: [.target(name: "Shop"), .testTarget(name: "ShopTests", dependencies: ["Shop"])])
"""
SHOP = """\
public final class Cart {
    var items: [String] = []
    public init() {}
    public func add(_ item: String) { items.append(item) }
}
public func leave() -> Unmanaged<Cart> {
    let cart = Unmanaged.passRetained(Cart())
    cart.release()
    return cart
}
"""
TESTS = """\
import Glibc
import Shop
import Testing
import XCTest

@Test func adds() { Cart().add("tea") }
@Test func addsAgain() { for _ in 0..<1000 { Cart().add("tea") } }
@Test func special() { SPECIAL }

final class OldTests: XCTestCase {
    func testAdds() { Cart().add("tea") }
}
"""
ENTRY_POINT = """\
import XCTest

@testable import ShopTests

@main struct Main { static func main() { XCTMain([testCase([("testAdds", OldTests.testAdds)])]) } }
"""


def tried(work, special, *words):
    for name, text in (("Package.swift", MANIFEST), ("Sources/Shop/Cart.swift", SHOP),
                       ("Tests/ShopTests/CartTests.swift", TESTS.replace("SPECIAL", special))):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    result = subprocess.run([ROOT / "scripts/try-package", work, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env=scrubbed(ZGUARD=str(ZGUARD)), timeout=TIMEOUT_SECONDS)
    rows = {line.split("  ")[0]: re.split(r"\s{2,}", line)[1:] for line in result.stdout.splitlines() if not line.startswith("finding: ")}
    found = [line[9:] for line in result.stdout.splitlines() if line.startswith("finding: ")]
    return result, rows, found


def every_end(work):
    """All cases change one package, so that most of it is built only once."""
    result, rows, found = tried(work, "Cart().add(\"milk\")")
    assert result.returncode == 0 and rows["status"] == ["0", "0"] and rows["tests"] == ["4", "4"] and not found, result
    assert rows["findings"] == ["–", "0"] and re.fullmatch(r"\d+ %", rows["coverage"][1]) and rows["coverage"] != ["–", "0 %"], result
    times, sizes = ([float(cell.split(" ")[0]) for cell in rows[name]] for name in ("time", "memory"))
    assert abs(times[1] / times[0] - times[2]) < 0.2 * times[2] and min(sizes) > 0, result
    result, rows, found = tried(work, "_ = leave().retain()", "--runs", "1")
    assert result.returncode in (1, 99) and rows["findings"] == ["–", "1"], result
    assert len(found) == 1 and found[0].startswith("use-after-free Shop.Cart"), result
    # A test that fails only under zguard is a difference.
    result, rows, found = tried(work, "#expect(getenv(\"ZGUARD_OPTIONS\") == nil)", "--runs", "1")
    assert result.returncode == 1 and rows["status"][0] == "0" != rows["status"][1], result
    # A test that fails with and without zguard is no difference.
    result, rows, found = tried(work, "#expect(Bool(false))", "--runs", "1")
    assert result.returncode == 0 and rows["status"] == ["1", "1"], result
    # A package's own entry point runs all tests, whichever testing library is asked for.
    (work / "Tests/XCTMain.swift").write_text(ENTRY_POINT)
    result, rows, _ = tried(work, "Cart().add(\"milk\")", "--runs", "1")
    assert result.returncode == 0 and rows["tests"] == ["1", "1"], result
    (work / "Tests/XCTMain.swift").unlink()
    result, _, _ = tried(work, "nonsense", "--runs", "1")
    assert result.returncode == 1 and "'swift build' failed" in result.stderr, result


def wrong_calls(work):
    for words, says in (([work], "has no Package.swift"), ([], "usage:"), ([ROOT, "--runs", "0"], "--runs")):
        result = subprocess.run([ROOT / "scripts/try-package", *words], capture_output=True, text=True, env=scrubbed(ZGUARD=str(ZGUARD)))
        assert result.returncode in (1, 2) and says in result.stderr, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    arguments = parser.parse_args()
    tests = [(test.__name__, test) for test in (wrong_calls, every_end)]
    return run_tests(tests, "zguard-try-package-", arguments.filter, Path, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
