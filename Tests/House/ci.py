#!/usr/bin/env python3
"""Tests docs/CI.md: its YAML files are valid, and their steps do what the page says, in a package with a bug and in its corrected twin.
Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import ROOT, ZGUARD, scrubbed  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

TIMEOUT_SECONDS = 900
PAGE = ROOT / "docs/CI.md"
FILES = {
    "Package.swift": f"""\
// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Shop",
    dependencies: [.package(name: "ZombieGuard", path: "{ROOT}")],
    targets: [.target(name: "Shop"), .testTarget(name: "ShopTests", dependencies: ["Shop"])]
)
""",
    "Sources/Shop/Cart.swift": """\
public final class Cart {
    var items: [String] = []
    public init() {}
    public func add(_ item: String) { items.append(item) }
}
public final class Customer {
    unowned(unsafe) var cart: Cart
    public init(_ cart: Cart) { self.cart = cart }
    public func buy() { cart.add("tea") }
}
""",
    "Tests/ShopTests/CartTests.swift": """\
import Shop
import Testing

@Test func buys() {
    let cart = Cart()
    CUSTOMER.buy()
    withExtendedLifetime(cart) {}
}
""",
}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def files():
    """Returns the workflow of GitHub and the file of GitLab."""
    github, gitlab = (yaml.safe_load(text) for text in blocks("yaml"))
    return github, gitlab


def made(folder, has_bug):
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("CUSTOMER", "Customer(Cart())" if has_bug else "Customer(cart)"))


def step(folder, command):
    """Runs a step as the CI servers do, and puts the zguard of this tree where the plugin would build one."""
    result = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=scrubbed(ZGUARD=str(ZGUARD)), text=True,
                            capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
    place = folder / ".build/debug/zguard"
    if place.parent.exists() and not place.exists():
        place.symlink_to(ZGUARD)
    return result


def is_well_formed(_):
    github, gitlab = files()
    (job,) = github["jobs"].values()
    for each in job["steps"]:
        assert ("run" in each) != ("uses" in each), each
        assert "uses" not in each or re.fullmatch(r"[\w-]+/[\w/-]+@v\d+", each["uses"]), each
    assert True in github or "on" in github  # YAML 1.1 reads `on` as a boolean
    assert github["permissions"]["security-events"] == "write"
    assert {"image", "script", "after_script", "artifacts"} == gitlab["zombies"].keys()


def options_exist(_):
    """Each option on the page exists in the command that the page gives it to."""
    helps = {command: subprocess.run([ZGUARD, command, "--help"], capture_output=True, text=True, check=True).stdout for command in ("run", "report")}
    seen = 0
    for line in PAGE.read_text().splitlines():
        command = "run" if "zguard-test" in line or "zguard run" in line else "report" if "zguard report" in line else None
        for option in re.findall(r" (--[a-z][\w-]*)", line) if command else []:
            assert re.search(rf"^  {option}\b", helps[command], re.M), f"{command} has no {option}: {line}"
            seen += 1
    assert seen >= 9, seen


def github_steps(work):
    github, _ = files()
    steps = [each for each in github["jobs"]["zombies"]["steps"] if "run" in each]
    made(work, True)
    test, show = (step(work, each["run"]) for each in steps)
    assert test.returncode and "a deallocated" not in test.stdout + test.stderr, test
    assert '"Shop.Cart"' in (work / "zombies.jsonl").read_text(), test
    assert show.returncode == 0, show
    assert re.search(r"^::error .*file=Sources/Shop/Cart\.swift,line=\d+", show.stdout, re.M), show.stdout
    sarif = json.loads((work / "zombies.sarif").read_text())
    assert sarif["version"] == "2.1.0" and sarif["runs"][0]["results"], sarif
    assert xml.parse(work / "zombies.xml").getroot().get("failures") != "0"
    assert "<html" in (work / "zombies.html").read_text()
    named = {path for each in github["jobs"]["zombies"]["steps"] for path in each.get("with", {}).values() if path.startswith("zombies.")}
    assert all(list(work.glob(path)) for path in named) and named, named
    made(work, False)
    test, show = (step(work, each["run"]) for each in steps)
    assert test.returncode == show.returncode == 0 and "::error" not in show.stdout, (test, show)


def gitlab_steps(work):
    job = files()[1]["zombies"]
    made(work, True)
    test = step(work, job["script"][0])
    assert test.returncode, test
    for command in job["after_script"]:
        result = step(work, command)
        assert result.returncode == 0, result
    assert xml.parse(work / job["artifacts"]["reports"]["junit"]).getroot().get("failures") != "0"
    assert "<html" in (work / "zombies.html").read_text()


def image(_):
    (text,) = blocks("dockerfile")
    steps = [line.split(" ", 1) for line in text.splitlines()]
    assert [name for name, _ in steps] == ["FROM", "ADD", "ENV"], steps
    version = re.search(r'^let version = "(.*)"$', (ROOT / "Package.swift").read_text(), re.M)[1]
    assert steps[1][1] == f"zguard-{version}-linux-x86_64.tar.xz /opt/", steps
    assert steps[2][1] == f"PATH=/opt/zguard-{version}-linux-x86_64/bin:$PATH", steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    arguments = parser.parse_args()
    tests = [(test.__name__, test) for test in (options_exist, image)]
    if yaml:
        tests += [(test.__name__, test) for test in (is_well_formed, github_steps, gitlab_steps)]
    else:
        print("skipped: the YAML files, for python3-yaml is not installed")
    os.environ.pop("ZGUARD_OPTIONS", None)
    return run_tests(tests, "zguard-ci-", arguments.filter, Path, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
