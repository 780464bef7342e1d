#!/usr/bin/env python3
"""Share of isolated blocks among a program's allocations in the default profile, for two builds of the library side by side.

Shows isolated blocks, allocation stacks with an isolated block, and all allocation stacks. The figures come from the statistics
page of each process at its end, summed over the processes of a program. Each figure is the median of the runs."""

import argparse
import re
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402
import real_programs  # noqa: E402
import targets  # noqa: E402
import tools as with_tools  # noqa: E402

SOURCE = HERE / "coverage" / "keep_statistics.c"
LIBRARY = building.ROOT / "build" / "lib" / "libzguard.so"
PROGRAMS = ("gcc", "perl", "git-log", "swift-workload")
MAGIC = 0x314452415547475A
# Fields of struct zg_stats_page: magic, version, bytes, pid, has_maintenance_thread, started_ns, program,
# runtime_version, options,
# degradations.
HEAD = struct.Struct("<QIIIIQ256s32s512sQ")
SHOWN = ("fenced_blocks", "contexts_fenced", "contexts")


def keeper():
    """Builds the library that saves statistics pages (keep_statistics.c). Returns its path."""
    target = building.FOLDER / "libkeepstatistics.so"
    building.make(target, ["gcc", "-std=c17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", SOURCE, "-o", target], (SOURCE,))
    return target


def counter_numbers(library):
    """Returns {counter: its index on the page} from the library's debug information, because builds differ."""
    said = subprocess.run(["readelf", "--debug-dump=info", str(library)], capture_output=True, text=True, check=True).stdout
    numbers = {name: int(value) for name, value in re.findall(r"zg_counter_(\w+)\n.*DW_AT_const_value *: (\d+)", said)}
    if missing := [name for name in SHOWN if name not in numbers]:
        sys.exit(f"coverage: error: {library} has no debug information of the counter {missing[0]}")
    return numbers


def counters(folder, numbers):
    """Returns {counter: sum over the pages in this folder}."""
    total = dict.fromkeys(numbers, 0)
    for path in folder.iterdir():
        page = path.read_bytes()
        if HEAD.unpack_from(page)[0] != MAGIC:
            sys.exit(f"coverage: error: {path.name} is no statistics page")
        for name, number in numbers.items():
            total[name] += struct.unpack_from("<Q", page, HEAD.size + 8 * number)[0]
    return total


def run_program(target, library, numbers, options, size, work):
    """Returns {counter: sum} of one run."""
    with tempfile.TemporaryDirectory(dir=work) as kept:
        variables = {**with_tools.clean_environment(), **target.environment, "LD_PRELOAD": f"{library}:{keeper()}", "ZG_KEPT": kept,
                     "ZGUARD_OPTIONS": options}
        status = subprocess.run([str(word) for word in target.command(work, size, "zguard")], cwd=work, env=variables, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        if status != 0:
            sys.exit(f"coverage: error: {target.name} ends with {status}")
        found = counters(Path(kept), numbers)
        if not found["allocations"]:
            sys.exit(f"coverage: error: no guarded process was seen in {target.name}")
        return found


def median(samples):
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}


def rows(name, found):
    """Table rows of one program: each library's counters, and their ratios to the first library's."""
    first = next(iter(found.values()))
    for label, seen in found.items():
        cells = [f"{seen[counter]:,.0f}" for counter in SHOWN]
        cells.append(f"{100 * seen['contexts_fenced'] / max(seen['contexts'], 1):.0f} %")
        cells.append(f"{100 * seen['fenced_blocks'] / max(seen['allocations'], 1):.2f} %")
        cells += ["" if seen is first else f"{seen[counter] / max(first[counter], 1):.2f}" for counter in SHOWN[:2]]
        yield f"| {name} | {label} | " + " | ".join(cells) + " |"


HEADING = ["| program | library | fenced blocks | stacks with one | stacks | of the stacks | of the blocks | × blocks | × stacks |",
           "|---|---|---:|---:|---:|---:|---:|---:|---:|"]


def too_few(name, found, least):
    """Compares the first two counters of each further library with those of the first. Returns a message for each that is below `least`
    times the first library's."""
    first, *others = found.items()
    return [f"{name}: {label} has {seen[counter] / max(first[1][counter], 1):.2f} × the {counter} of {first[0]}" for label, seen in others
            for counter in SHOWN[:2] if seen[counter] < least * first[1][counter]]


def labelled(text):
    label, is_labelled, path = text.rpartition("=")
    path = Path(path).absolute()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no {path}")
    return (label if is_labelled else path.name), path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--library", type=labelled, action="append", metavar="[LABEL=]PATH", help="repeatable; the first is what others are compared with")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"a real program of Benchmarks/run (default {', '.join(PROGRAMS)})")
    parser.add_argument("-o", "--options", default="", metavar="key=value:…")
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--least", type=float, metavar="FACTOR", help="fail where another library has fewer than so many times the first one's")
    arguments = parser.parse_args()
    libraries = dict(arguments.library or [("zguard", LIBRARY)])
    known = {target.name: target for target in [*real_programs.all_programs(), *targets.swift_targets()]}
    problems = []
    print("\n".join(HEADING), flush=True)
    for name in arguments.only or PROGRAMS:
        target = targets.built(known, name, "coverage")
        with tempfile.TemporaryDirectory(prefix="zguard-coverage-") as work:
            target.prepare(Path(work), arguments.size)
            found = {label: median([run_program(target, library, counter_numbers(library), arguments.options, arguments.size, Path(work))
                                    for _ in range(arguments.runs)]) for label, library in libraries.items()}
        print("\n".join(rows(name, found)), flush=True)
        problems += too_few(name, found, arguments.least) if arguments.least else []
    print("\n".join(["", *problems]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
