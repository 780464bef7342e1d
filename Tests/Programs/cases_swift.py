"""The Swift toolchain: compiler, package manager, formatter, documentation, language server, and programs that it builds."""

import json
import re
import shutil
import subprocess

from case import Case, Need
from generate_swift import swift_source
from harness import INPUTS


class Swiftc(Case):
    name = "swiftc"
    what = "compiler, linker and the program"
    needs = (Need("swiftc", None),)
    sees = (r"swift(-frontend|c)?", "inventory")

    def steps(self, run):
        run.step(["swiftc", "-O", "-parse-as-library", "-module-name", "Inventory", INPUTS / "Inventory.swift", "-o", "inventory"])
        run.step(["./inventory"])
        run.step(["swiftc", "-typecheck", "-parse-as-library", INPUTS / "work.lua"], status=1)


class SwiftScript(Case):
    """The interpreter: code is generated and executed in the compiler's own process."""
    name = "swift-script"
    what = "code made and run in the compiler's own process"
    version = ["swiftc", "--version"]
    needs = (Need("swift", None),)
    sees = ("swift-frontend",)

    def steps(self, run):
        run.step(["swift", "-O", INPUTS / "script.swift", "one", "two"], status=4)


class SwiftBuild(Case):
    name = "swift-build"
    what = "a package built, changed, built again"
    version = ["swiftc", "--version"]
    needs = (Need("swift", None),)
    sees = (r"swift-(build|package)", "swift-frontend")
    run_flags = ("--only", "*")  # otherwise the toolchain's own programs are exempt

    def setup(self, inputs):
        shutil.copytree(INPUTS / "package", inputs / "package")

    def steps(self, run):
        shutil.copytree(run.inputs / "package", run.dir / "package")
        run.step(["swift", "build", "--package-path", "package"], normalise=build_result)
        run.step(["package/.build/debug/draw"])
        run.step(["swift", "package", "--package-path", "package", "describe"])
        # Change one file and build again; then an error must be reported in the same way.
        source = run.dir / "package" / "Sources" / "draw" / "main.swift"
        source.write_text(source.read_text() + 'print("again")\n')
        run.step(["swift", "build", "--package-path", "package"], normalise=build_result)
        run.step(["package/.build/debug/draw"])


def build_result(text):
    """Removes times, and progress lines, which depend on the job that ends first."""
    lines = {re.sub(r" ?\([0-9.]+ ?s\)", "", line) for line in text.splitlines() if not re.match(r"\[\d+/\d+\]|Planning build", line)}
    return "\n".join(sorted(lines))


class SwiftTest(Case):
    """A package's tests, in Swift Testing and XCTest. The test processes are guarded like any other."""
    name = "swift-test"
    what = "Swift Testing and XCTest, serially and in parallel"
    version = ["swiftc", "--version"]
    needs = (Need("swift", None),)
    sees = (r"swift-(test|package)", "swift-frontend", r"testedPackageTests\.xctest")
    run_flags = ("--only", "*")

    def steps(self, run):
        shutil.copytree(INPUTS / "tested", run.dir / "tested")
        run.step(["swift", "build", "--build-tests", "--package-path", "tested"], normalise=build_result)
        for order in ("--no-parallel", "--parallel"):
            run.step(["swift", "test", "--skip-build", "--package-path", "tested", order], normalise=test_result)


def test_result(text):
    """Sorts the lines, without times and running counts."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "TIME", text)
    text = re.sub(r"\(?[0-9.]+( \([0-9.]+\))? ?(s|seconds)\b\)?", "SECONDS", text)
    return build_result("\n".join(re.sub(r"^\[\d+/\d+\] ", "", line) for line in text.splitlines()))


class SwiftFormat(Case):
    name = "swift-format"
    what = "6,000 lines formatted and linted in parallel"
    version = ["swiftc", "--version"]
    needs = (Need("swift-format", None),)
    sees = ("swift-format",)

    def setup(self, inputs):
        # Badly formatted on purpose: odd indentation, long lines, semicolons. About 6,000 lines.
        text = (INPUTS / "Inventory.swift").read_text()
        for number in range(3):
            changed = re.sub(r"^( +)", lambda match: " " * (len(match.group(1)) * (number + 1) // 3), text, flags=re.M)
            changed = changed.replace("{ ", "{" + " " * number).replace("\n\n", "\n" * (2 + number % 3))
            (inputs / f"Part{number}.swift").write_text(changed)
        for number in range(8):
            (inputs / f"Corpus{number}.swift").write_text(swift_source(number, pieces=40))

    def steps(self, run):
        files = sorted(run.inputs.glob("*.swift"))
        run.step(["swift-format", "format", *files])
        run.step(["swift-format", "lint", "--parallel", *files],
                 normalise=lambda text: "\n".join(sorted(text.splitlines())))
        run.step(["swift-format", "dump-configuration"])


class Docc(Case):
    """A documentation catalog with articles and a tutorial, and a module's symbols."""
    name = "docc"
    what = "a catalogue with articles and a tutorial"
    version = ["swiftc", "--version"]
    needs = (Need("docc", None), Need("swiftc", None))
    sees = ("docc",)

    def setup(self, inputs):
        (inputs / "symbols").mkdir()
        subprocess.run(["swiftc", "-module-name", "Library", "-parse-as-library", "-emit-module", "-emit-module-path", "Library.swiftmodule",
                        "-emit-symbol-graph", "-emit-symbol-graph-dir", "symbols", str(INPUTS / "tested/Sources/Library/Library.swift")],
                       cwd=inputs, check=True, capture_output=True)

    def steps(self, run):
        catalogue = ["docc", "convert", INPUTS / "Library.docc", "--additional-symbol-graph-dir", run.inputs / "symbols",
                     "--fallback-display-name", "Library", "--fallback-bundle-identifier", "org.example.library"]
        in_any_order = {"normalise": lambda text: "\n".join(sorted(text.splitlines()))}
        run.step([*catalogue, "--output-dir", "archive"], **in_any_order)
        run.step([*catalogue, "--output-dir", "analysed", "--analyze"], **in_any_order)
        run.step(["docc", "process-archive", "index", "archive", "--bundle-identifier", "org.example.library"], **in_any_order)
        run.keep("archive/**/*.json", "analysed/**/*.json", normalise=lambda data: json.dumps(json.loads(data), sort_keys=True).encode())


class LanguageServer(Case):
    """A client's session: symbols, hover texts, completion, and diagnostics of a file that is then edited."""
    name = "sourcekit-lsp"
    what = "symbols, explanations, completion, diagnostics"
    version = ["swiftc", "--version"]
    needs = (Need("sourcekit-lsp", None), Need("python3", "python3"))
    sees = ("sourcekit-lsp",)

    def steps(self, run):
        shutil.copy(INPUTS / "Inventory.swift", run.dir)
        run.step(["python3", INPUTS / "language_client.py", "Inventory.swift", "sourcekit-lsp"], stderr="any")
