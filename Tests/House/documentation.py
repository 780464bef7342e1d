#!/usr/bin/env python3
"""Tests the documentation of the libraries: symbols, catalogs, code samples and the tutorial.
Every public symbol of a debug build is documented. docc converts the catalogs without a warning. The Swift code in the catalogs, in
README.md and in docs compiles in Swift 6 and with every upcoming feature. --built: follows the tutorial step by step and compares the
output. Closing line: N passed, N failed."""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import ROOT, ZGUARD, scrubbed  # noqa: E402

# The directory and flags with which scripts/test builds the package's own tests, so that nothing is compiled twice.
DEBUG = ["-Xswiftc", "-warnings-as-errors", "--scratch-path", str(ROOT / "build/debug"), "--disable-build-manifest-caching"]
PRODUCTS = ROOT / "build/debug/debug"
MODULES = ("ZombieGuard", "ZombieGuardTesting")
KEPT = ROOT / "build/tests/documentation"  # the converted archives, for inspection
TIMEOUT_SECONDS = 900
WIDEST = 90  # most characters in a line of code; a page shows about 80

# Declarations that the samples of the articles assume.
PRELUDE = """\
final class Shop { func checkout() -> Int { 0 } }
"""
# Declarations that the samples of README.md and docs assume in addition to PRELUDE.
PAGE_PRELUDE = """\
let shop = BusyShop()
let model = Model()
let order = (id: 17, total: 0)
final class BusyShop: Sendable {
    func checkout() async throws {}
    func closeTwice() async {}
}
final class Model: Sendable { func reload() async {} }
"""
CART = """\
final class Cart {
    var items: [String] = []
    func add(_ item: String) { items.append(item) }
}
"""


def command(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=scrubbed(**options.pop("environment", {})), timeout=TIMEOUT_SECONDS, **options)


def toolchain():
    info = json.loads(command("swift", "-print-target-info").stdout)
    return Path(info["paths"]["runtimeResourcePath"]).parents[1], info["target"]["triple"]


def catalogue(module):
    return ROOT / f"Sources/{module}/{module}.docc"


def maps():
    """Returns flags with the module maps of the C modules."""
    found = [PRODUCTS / f"{name}.build/module.modulemap" for name in ("CSystem", "CUnwind", "CZombiePublish", "CZombieTesting")]
    found += [ROOT / f"Sources/{name}/module.modulemap" for name in ("CZombie/include", "CDwarf", "CZlib")]
    return [flag for path in found if path.exists() for flag in ("-Xcc", f"-fmodule-map-file={path}")]


# MARK: symbols

# The module that ZombieGuard re-exports. ZombieGuardTesting re-exports two of its types, which the pages of ZombieGuard document.
REEXPORTED = "ZombieGuardCore"


def symbols(run, module, directory):
    """Writes the symbol graphs of a module's public symbols into the directory; returns the symbols."""
    prefix, triple = toolchain()
    reexported = [f"-experimental-allowed-reexported-modules={REEXPORTED}"] if module == "ZombieGuard" else []
    result = command(prefix / "bin/swift-symbolgraph-extract", "-module-name", module, "-target", triple, "-I", PRODUCTS / "Modules", *maps(),
                     "-minimum-access-level", "public", "-skip-synthesized-members", "-emit-extension-block-symbols",
                     *reexported, "-output-dir", directory)
    graphs = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    found = [symbol for graph in graphs for symbol in graph["symbols"]]
    run.check(f"{module} has public symbols", [] if len(found) > 10 else [result.stderr[-1000:]])
    return found


def problems_of(symbol):
    """Returns what is missing in the comment of a symbol."""
    kind, place = symbol["kind"]["identifier"], symbol.get("location")
    name = ".".join(symbol["pathComponents"])
    name += f" ({place['uri'].split('/')[-1]}:{place['position']['line'] + 1})" if place else ""
    if kind == "swift.extension":
        return []
    if "docComment" not in symbol:
        return [f"{name} has no comment"]
    text = "\n".join(line["text"] for line in symbol["docComment"]["lines"])
    if kind not in ("swift.func", "swift.method", "swift.type.method", "swift.init") or not place:
        return []
    # Nothing can be missing: the standard library documents the requirements of its protocols, and the properties document the parameters
    # of a memberwise initializer.
    if symbol["pathComponents"][-1] in ("init(from:)", "encode(to:)") or "Each parameter sets the property of the same name" in text:
        return []
    signature = symbol.get("functionSignature", {})
    parameters = [each.get("internalName") or each["name"] for each in signature.get("parameters", [])]
    missing = [f"{name}: parameter {each}" for each in parameters if not re.search(rf"- (Parameter )?{each}:", text)]
    returns = "".join(fragment["spelling"] for fragment in signature.get("returns", []))
    if returns not in ("", "()", "Void") and kind != "swift.init" and "- Returns:" not in text:
        missing.append(f"{name}: what it returns")
    # Search for `throws` outside parentheses: inside, it belongs to a closure type.
    outside, inside = "".join(fragment["spelling"] for fragment in symbol["declarationFragments"]), None
    while outside != inside:
        inside, outside = outside, re.sub(r"\([^()]*\)", "", outside)
    if re.search(r"\b(re)?throws\b", outside) and "- Throws:" not in text:
        missing.append(f"{name}: what it throws")
    return missing


# MARK: conversion


def convert(source, module, graphs, output):
    """Runs docc; returns its warnings and errors."""
    result = command(toolchain()[0] / "bin/docc", "convert", source, "--additional-symbol-graph-dir", graphs, "--fallback-display-name", module,
                     "--fallback-bundle-identifier", f"zombieguard.{module}", "--output-dir", output, "--warnings-as-errors")
    said = [line for line in (result.stdout + result.stderr).splitlines() if re.search(r"\b(warning|error):", line, re.I)]
    return said or ([f"status {result.returncode}"] if result.returncode else [])


def check_conversion(run, module, graphs, temporary):
    output = KEPT / f"{module}.doccarchive"
    shutil.rmtree(output, ignore_errors=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    run.check(f"{module} is converted without a warning", convert(catalogue(module), module, graphs, output))
    pages = {path.stem for path in output.glob("data/**/*.json")}
    missing = [path.stem for path in catalogue(module).glob("*.md") if path.stem.lower() not in pages]
    run.check(f"{module} has its articles", missing)
    broken = temporary / f"{module}.docc"
    shutil.copytree(catalogue(module), broken)
    (broken / "Broken.md").write_text("# Broken\n\nSee ``NoSuchSymbol`` and <doc:NoSuchArticle>.\n")
    run.check(f"{module}: a broken link is refused", [] if len(convert(broken, module, graphs, temporary / "broken")) > 1 else ["it is not"])


# MARK: samples


def samples(module):
    """Yields the Swift samples in the articles: a name for messages, and the text."""
    for path in sorted(catalogue(module).glob("*.md")):
        for number, text in enumerate(re.findall(r"^```swift\n(.*?)^```", path.read_text(), re.M | re.S), 1):
            yield f"{path.name}, sample {number}", text


def page_samples():
    """Yields the Swift samples of README.md and of docs, made complete: `{ … }` becomes `{}`, an import holds until the end of its page,
    and a part of a manifest gets the rest of the manifest."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        imports = []
        for number, (indent, text) in enumerate(re.findall(r"^( *)```swift\n(.*?)^ *```", path.read_text(), re.M | re.S), 1):
            text = re.sub(rf"^{indent}", "", text, flags=re.M).replace("{ … }", "{}")
            if ".package(" in text and "import PackageDescription" not in text:
                text = f'import PackageDescription\n\nlet package = Package(\n    name: "Shop",\n{text.rstrip().rstrip(",")})\n'
            elif "import PackageDescription" not in text:
                text = "".join(f"{line}\n" for line in imports if line not in text.splitlines()) + text
                imports += [line for line in re.findall(r"^import \w+$", text, re.M) if line not in imports]
            yield f"{path.relative_to(ROOT)}, sample {number}", text


def upcoming():
    """Flags that turn on every feature of a later language mode than Swift 6."""
    listed = json.loads(command("swiftc", "-print-supported-features").stdout)["features"]["upcoming"]
    return [word for each in listed if int(each["enabled_in"]) > 6 for word in ("-enable-upcoming-feature", each["name"])]


def check_samples(run, group, found, prelude, temporary):
    prefix, triple = toolchain()
    run.check(f"{group} has samples", [] if found else ["there is none"])
    features = upcoming()
    run.check("MemberImportVisibility is an upcoming feature", [] if "MemberImportVisibility" in features else [str(features)])
    (temporary / "Prelude.swift").write_text(prelude)
    for name, text in found:
        file = temporary / "main.swift"
        file.write_text(text)
        if "import PackageDescription" in text:
            words = ["-I", prefix / "lib/swift/pm/ManifestAPI", "-package-description-version", "6.0", file]
        else:
            words = ["-I", PRODUCTS / "Modules", *maps(), "-plugin-path", prefix / "lib/swift/host/plugins/testing", temporary / "Prelude.swift", file]
        for mode, flags in (("", []), (" with every upcoming feature", features)):
            result = command(prefix / "bin/swiftc", "-typecheck", "-swift-version", "6", "-warnings-as-errors", "-target", triple, *flags, *words)
            run.check(name + mode, [] if result.returncode == 0 else result.stderr.splitlines()[:6])


def check_addresses(run):
    """All pages have the same placeholder for the address of ZombieGuard, and TESTING.md says that it is a placeholder."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *(path for module in MODULES for path in sorted(catalogue(module).rglob("*"))
                                                                          if path.suffix in (".md", ".swift", ".tutorial"))]
    found = {url for path in pages for url in re.findall(r'package\(url: "([^"]*)"', path.read_text())}
    run.check("one placeholder for the address", [] if found == {"https://example.com/ZombieGuard.git"} else sorted(found))
    run.check("TESTING.md says that it is one", [] if "`example.com` is a placeholder" in (ROOT / "docs/TESTING.md").read_text() else ["it does not"])


def check_widths(run, module):
    """Code fits the column of its page, which cuts off wider code."""
    texts = [(path.name, code) for path in sorted(catalogue(module).glob("*.md"))
             for code in re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.M | re.S)]
    texts += [(path.name, path.read_text()) for path in sorted(catalogue(module).glob("Resources/*")) if path.suffix != ".svg"]
    run.check(f"code of {module} fits its column", [f"{name}: {line}" for name, text in texts for line in text.splitlines()
                                                    if len(line) > WIDEST])


def check_tutorial_files(run):
    folder = catalogue("ZombieGuard")
    text = (folder / "FromTheFirstZombie.tutorial").read_text() + (folder / "Zombies.tutorial").read_text()
    named = set(re.findall(r"file: ([\w.-]+)|source: \"([\w.-]+)\"", text))
    named = {first or second for first, second in named}
    run.check("the tutorial shows every file", sorted(named ^ {path.name for path in (folder / "Resources").iterdir()}))
    for path in sorted((folder / "Resources").glob("workflow-*.yml")):
        run.check(f"{path.name} calls what there is", [] if re.search(r"swift package zguard-test\b", path.read_text()) else ["it does not"])


# MARK: the tutorial, step by step


class Tutorial:
    def __init__(self, directory):
        self.directory, self.resources = directory, catalogue("ZombieGuard") / "Resources"

    def take(self, **files):
        """Copies files of the tutorial to their places in the package."""
        places = {"package": "Package.swift", "cart": "Sources/Shop/Cart.swift", "till": "Sources/Shop/Till.swift",
                  "tests": "Tests/ShopTests/TillTests.swift"}
        for name, source in files.items():
            path = self.directory / places[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(here((self.resources / source).read_text()))

    def swift(self, *words):
        return command("swift", words[0], *DEBUG, *words[1:], cwd=self.directory, environment={"ZGUARD": str(ZGUARD)})

    def shows(self, run, name, terminal, result):
        """Checks that the output contains the lines of a terminal text in order, with "…" for anything."""
        output = (result.stdout + result.stderr).splitlines()
        problems, at = [], 0
        for line in (self.resources / terminal).read_text().splitlines():
            if line.startswith("$") or line.strip() == "…":
                continue
            pattern = ".*".join(re.escape(part.strip() if number else part.rstrip()) for number, part in enumerate(line.split("…")))
            following = next((number for number in range(at, len(output)) if re.search(pattern, output[number])), None)
            if following is None:
                problems.append(f"there is no {line!r}")
            else:
                at = following + 1
        run.check(name, problems and [*problems, *output[-30:]])


def here(text):
    """Makes a manifest use this checkout of the package instead of the published one."""
    return re.sub(r"\.package\(url: [^)]*\)", f'.package(name: "ZombieGuard", path: "{ROOT}")', text)


def check_tutorial(run, directory):
    tutorial = Tutorial(directory)
    tutorial.take(package="package-2.swift", cart="cart.swift", till="till-1.swift", tests="tests-1.swift")
    result = tutorial.swift("package", "zguard-test")
    tutorial.shows(run, "the first zombie", "terminal-2.txt", result)
    run.check("the tests pass, with a finding", [] if "Test run with 1 test in 1 suite passed" in result.stdout + result.stderr
              and "exit code 99" in result.stderr else [result.stderr[-2000:]])
    tutorial.take(package="package-3.swift", tests="tests-3.swift")
    result = tutorial.swift("test")
    tutorial.shows(run, "the test fails", "terminal-3.txt", result)
    run.check("and so does the run", [] if result.returncode else ["status 0"])
    tutorial.take(till="till-4.swift", tests="tests-4.swift")
    result = tutorial.swift("test")
    tutorial.shows(run, "the suite is clean", "terminal-4.txt", result)
    run.check("and passes", [f"status {result.returncode}"] if result.returncode else [])
    # The tests in the articles of ZombieGuardTesting, in one suite: all pass.
    tests = directory / "Tests/ShopTests"
    (tests / "Prelude.swift").write_text("@_exported import Shop\n" + PRELUDE)
    count = 0
    for _, text in samples("ZombieGuardTesting"):
        if re.search("^import (Testing|XCTest)$", text, re.M):
            count += 1
            (tests / f"Sample{count}.swift").write_text(text)
    result = tutorial.swift("test")
    run.check("the tests in the articles pass", [] if result.returncode == 0 and count > 2 and re.search(
        r"Executed [1-9]\d* tests?, with 0 failures", result.stdout + result.stderr) else (result.stdout + result.stderr).splitlines()[-30:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", action="store_true", help="follow the tutorial")
    arguments = parser.parse_args()
    run = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-documentation-") as name:
        temporary = Path(name)
        if arguments.built:
            check_tutorial(run, temporary)
            return run.close()
        for module in MODULES:
            graphs = temporary / module
            graphs.mkdir()
            found = symbols(run, module, graphs)
            run.check(f"every public symbol of {module} is documented", [text for symbol in found for text in problems_of(symbol)])
            check_conversion(run, module, graphs, temporary)
            check_samples(run, module, list(samples(module)), PRELUDE + CART, temporary)
            check_widths(run, module)
        check_samples(run, "README.md and docs", list(page_samples()), PRELUDE + CART + PAGE_PRELUDE, temporary)
        check_tutorial_files(run)
        check_addresses(run)
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
