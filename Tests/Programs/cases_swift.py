"""The Swift toolchain: compiler, package manager, formatter, and programs that it made."""

import re
import shutil

from case import Case, Need
from harness import INPUTS


class Swiftc(Case):
    name = "swiftc"
    needs = (Need("swiftc", None),)
    sees = (r"swift(-frontend|c)?", "inventory")

    def steps(self, run):
        run.step(["swiftc", "-O", "-parse-as-library", "-module-name", "Inventory", INPUTS / "Inventory.swift", "-o", "inventory"])
        run.step(["./inventory"])
        run.step(["swiftc", "-typecheck", "-parse-as-library", INPUTS / "work.lua"], status=1)


class SwiftScript(Case):
    """The interpreter: code made and run in the compiler's own process."""
    name = "swift-script"
    needs = (Need("swift", None),)
    sees = ("swift-frontend",)

    def steps(self, run):
        run.step(["swift", "-O", INPUTS / "script.swift", "one", "two"], status=4)


class SwiftBuild(Case):
    name = "swift-build"
    needs = (Need("swift", None),)
    sees = (r"swift-(build|package)", "swift-frontend")

    def setup(self, inputs):
        shutil.copytree(INPUTS / "package", inputs / "package")

    def steps(self, run):
        shutil.copytree(run.inputs / "package", run.dir / "package")
        run.step(["swift", "build", "--package-path", "package"], normalise=build_result)
        run.step(["package/.build/debug/draw"])
        run.step(["swift", "package", "--package-path", "package", "describe"])
        # A change in one file, built again; then an error that must be reported the same way.
        source = run.dir / "package" / "Sources" / "draw" / "main.swift"
        source.write_text(source.read_text() + 'print("again")\n')
        run.step(["swift", "build", "--package-path", "package"], normalise=build_result)
        run.step(["package/.build/debug/draw"])


def build_result(text):
    """The lines without times and without progress, which depends on which job ends first."""
    lines = {re.sub(r" ?\([0-9.]+ ?s\)", "", line) for line in text.splitlines() if not re.match(r"\[\d+/\d+\]", line)}
    return "\n".join(sorted(lines))


class SwiftFormat(Case):
    name = "swift-format"
    needs = (Need("swift-format", None),)
    sees = ("swift-format",)

    def setup(self, inputs):
        # Badly laid out on purpose: odd indentation, long lines, semicolons.
        text = (INPUTS / "Inventory.swift").read_text()
        for number in range(6):
            changed = re.sub(r"^( +)", lambda match: " " * (len(match.group(1)) * (number + 1) // 3), text, flags=re.M)
            changed = changed.replace("{ ", "{" + " " * number).replace("\n\n", "\n" * (2 + number % 3))
            (inputs / f"Part{number}.swift").write_text(changed)

    def steps(self, run):
        files = sorted(run.inputs.glob("*.swift"))
        run.step(["swift-format", "format", *files])
        run.step(["swift-format", "lint", "--parallel", *files],
                 normalise=lambda text: "\n".join(sorted(text.splitlines())))
        run.step(["swift-format", "dump-configuration"])
