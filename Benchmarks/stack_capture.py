"""Time of one stack capture: the runtime's own methods, libunwind and glibc, at several depths, interleaved."""

import statistics
from pathlib import Path

import building
import tools as with_tools

ROOT = building.ROOT
SOURCES = Path(__file__).resolve().parent / "capture"
DEPTHS = (5, 10, 20, 40)
ROUNDS = 15
METHODS = {"hit": "zguard, cache hit", "trail": "zguard, cache miss, along the trail", "walk": "zguard, from scratch",
           "libunwind": "libunwind, unw_backtrace", "backtrace": "glibc, backtrace"}
# build_library builds the product's library; here it adds capture.c, which contains the capture methods.
BUILD = """source scripts/common.sh
find_toolchain
build_library "$LIBRARY" Benchmarks/capture/capture.c -lunwind"""


def build(compilers):
    """Builds frames.c, linked with a library of the product's sources and capture.c. Returns the program."""
    folder = building.FOLDER / "capture"
    library, program = folder / "libzguard.so", folder / "frames"
    sources = [*SOURCES.iterdir(), *ROOT.glob("Sources/CZombie*/**/*.[ch]"), ROOT / "scripts" / "common.sh"]
    folder.mkdir(parents=True, exist_ok=True)
    building.make(library, ["env", f"--chdir={ROOT}", f"LIBRARY={library}", "bash", "-c", BUILD], sources)
    compiler = compilers.commands["plain"][".c"]
    building.make(program, [*compiler, "-std=c17", "-O2", "-pthread", SOURCES / "frames.c", library, f"-Wl,-rpath,{folder}",
                            "-o", program], [*sources, library])
    return program


def measure(compilers, progress):
    """Returns {depth: {method: [nanoseconds of one capture, in each round]}}. The order of depths changes between rounds."""
    program = build(compilers)
    environment = {**with_tools.clean_environment(), "ZGUARD_OPTIONS": "stack_depth=64:stack_overhead=100%"}
    results = {str(depth): {method: [] for method in METHODS} for depth in DEPTHS}
    for number in range(ROUNDS):
        result = with_tools.run_quietly([program, *with_tools.turns(DEPTHS, number)], environment)
        if result.returncode != 0:
            progress(f"capture: error: {result.stderr.strip()}")
            return {}
        for line in result.stdout.splitlines():
            depth, method, nanoseconds = line.split()
            results[depth][method].append(float(nanoseconds))
    progress("capture")
    return results


def summarise(results):
    """Returns {depth: {method: median nanoseconds of one capture}}."""
    return {depth: {method: statistics.median(samples) for method, samples in by_method.items()} for depth, by_method in results.items()}


def markdown(results):
    summary = summarise(results)
    lines = ["### One stack capture", "", f"Nanoseconds, medians of {ROUNDS} interleaved rounds, by the number of frames.", "",
             "| method | " + " | ".join(summary) + " |", "|---|" + "---:|" * len(summary)]
    lines += [f"| {title} | " + " | ".join(f"{by_method[method]:.0f}" for by_method in summary.values()) + " |"
              for method, title in METHODS.items()]
    return [*lines, ""]
