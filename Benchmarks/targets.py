"""The programs that are measured as whole processes: allocation micro-benchmarks in micro/, Swift objects in swift/, real programs,
and, on demand, programs built from source."""

import sys
from pathlib import Path

import building
import built_programs
import real_programs
from target import SwiftTarget, Target

HERE = Path(__file__).resolve().parent
PAIR_BYTES = (16, 64, 256, 1024, 4096, 16384)


class Micro(Target):
    """A C or C++ file in micro/. `arguments` follow the size on its command line."""
    kind = "micro"
    is_allocating = True

    def __init__(self, source, name=None, arguments=()):
        super().__init__(name or source.stem)
        self.source, self.arguments = source, arguments

    def build(self, compilers):
        """Compiles the plain program, and the AddressSanitizer build if a compiler can make one."""
        self.programs = {variant: compilers.program(self.source, variant) for variant in ("plain", "asan")}

    def supports(self, tool):
        return tool != "asan" or self.programs["asan"] is not None

    def command(self, work, size, tool):
        return [self.programs["asan" if tool == "asan" else "plain"], size, *self.arguments]


class SwiftMicro(SwiftTarget):
    """A Swift file in swift/, compiled like a release build."""

    def __init__(self, source):
        super().__init__(source.stem)
        self.source = source
        self.kind = "real" if self.name == "swift-workload" else "micro"

    def build(self, compilers):
        self.program = building.FOLDER / self.name
        if not self.missing():
            building.make(self.program, ["swiftc", "-O", "-parse-as-library", self.source, "-o", self.program], (self.source,))

    def command(self, work, size, tool):
        return [self.program, size]


class Starts(Target):
    """Cost of loading: short processes, one after the other."""
    kind = "micro"
    needs = ("bash",)

    def command(self, work, size, tool):
        return ["bash", "-c", f"for ((i = 0; i < {int(400 * size)}; i++)); do /bin/true; done"]


def micro_targets():
    sources = sorted((HERE / "micro").glob("*.c*"))
    pair = HERE / "micro" / "pair.c"
    pairs = [Micro(pair, f"pair-{size}", (size,)) for size in PAIR_BYTES]
    return [*(Micro(source) for source in sources if source != pair), *pairs]


def swift_targets():
    return [SwiftMicro(source) for source in sorted((HERE / "swift").glob("*.swift"))]


def all_targets():
    """Returns all targets in the order of the tables: micro-benchmarks, then real programs. Targets of kind "built" are measured only
    on request, because their sources have to be fetched."""
    swift = swift_targets()
    small = [target for target in swift if target.kind == "micro"]
    return [*micro_targets(), Starts("starts"), *small, *real_programs.all_programs(), *(target for target in swift if target.kind == "real"),
            *built_programs.all_built()]


def built(known, name, program):
    """Returns the target of this name, built. Ends `program` with an error if it is not known or not installed."""
    if name not in known or known[name].missing():
        sys.exit(f"{program}: error: {name} is not known or not installed")
    known[name].build(building.Compilers(with_asan=False))
    return known[name]
