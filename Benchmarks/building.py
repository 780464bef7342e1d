"""Compiles the benchmarks' C and C++ programs, both measured and measuring ones, if they are missing or older than their sources."""

import subprocess
import sys
from pathlib import Path

import tools

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "benchmarks"
HEADERS = tuple((Path(__file__).resolve().parent / "micro").glob("*.h"))


class Compilers:
    """Compiler commands by variant ("plain", "asan") and by suffix of the source file; None if there is no compiler."""

    def __init__(self, with_asan):
        self.commands = {"plain": {suffix: tools.plain_compiler(suffix) for suffix in (".c", ".cpp")},
                         "asan": {suffix: tools.asan_compiler(suffix) if with_asan else None for suffix in (".c", ".cpp")}}
        if not self.commands["plain"][".c"]:
            sys.exit("benchmarks: error: no C compiler found")

    def program(self, source, variant="plain"):
        """Returns the path of the compiled program, or None if no compiler can make this variant."""
        compiler = self.commands[variant][source.suffix]
        if not compiler:
            return None
        standard = "-std=c++17" if source.suffix == ".cpp" else "-std=c17"
        target = FOLDER / f"{source.stem}-{variant}"
        make(target, [*compiler, standard, "-O2", "-g", source, "-o", target, "-pthread"], (source, *HEADERS))
        return target


def make(target, command, sources):
    """Runs the command if the target is missing or older than a source. Prints the command's output only if the command fails."""
    if target.exists() and target.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"benchmarks: error: cannot build {target.name}\n{(result.stdout + result.stderr)[-2000:]}")
