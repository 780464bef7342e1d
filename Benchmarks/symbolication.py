#!/usr/bin/env python3
"""Time of `zguard report` for one finding of 3 x 32 frames in a program with 500 MB of debug information.

usage: python3 Benchmarks/symbolication.py [--zguard PATH] [--against PATH] [--runs N] [--megabytes N] [--units N] [--check]

The victim links many renamed copies of one C++ object: `gcc` with the address table that gcc writes (.debug_aranges), `clang`
without it. `swift` is the toolchain's swift-frontend, which has 300,000 symbols and no debug information. The frames lie in
random functions of --units copies of the object. Victims are kept in build/benchmarks/symbolication.

Each row is the median of several runs of the whole process: cold, with the victim dropped from the page cache before each run;
warm, with the victim in it. --against measures another zguard in turns with the first. --check ends with status 1 if a row
exceeds the documented bounds: 1,000 ms cold, 100 ms warm."""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "build/benchmarks/symbolication"
LIMITS = {"cold": 1000, "warm": 100}
FRAMES = 32
TIMEOUT_SECONDS = 600

SOURCE = r"""
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
namespace work {
template <int N> struct Item {
    std::map<std::string, std::vector<int>> table;
    std::variant<int, std::string, std::vector<double>> value;
    int sum(const std::string &key) const {
        int total = N;
        auto found = table.find(key);
        if (found != table.end()) std::for_each(found->second.begin(), found->second.end(), [&](int x) { total += x; });
        return total;
    }
    void add(const std::string &key, int x) { table[key].push_back(x + N); std::sort(table[key].begin(), table[key].end()); }
};
template <int N> int run(const std::string &text) {
    Item<N> item;
    std::unordered_map<std::string, std::shared_ptr<Item<N>>> all;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        item.add(word, N);
        all[word] = std::make_shared<Item<N>>(item);
        std::function<int()> later = [=] { return item.sum(word); };
        if (std::regex_match(word, std::regex("[a-z]+"))) item.value = later();
    }
    return item.sum(text) + (int)all.size();
}
}
#define R(n) work::run<n>(text) + work::run<n + 1>(text) + work::run<n + 2>(text) + work::run<n + 3>(text)
int everything(const std::string &text) { return R(0) + R(4) + R(8) + R(12); }
"""


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def debug_megabytes(path, *without):
    return sum(int(fields[2], 16) for line in run("objdump", "-hw", path).splitlines() if ".debug_" in line
               for fields in [line.split()] if fields[1] not in without) / 1e6


def victim(name, compiler, flags, megabytes):
    """Links renamed copies of one object."""
    folder = DIRECTORY / name
    program = folder / f"victim-{megabytes}.so"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "unit.cpp").write_text(SOURCE)
    run(compiler, "-std=c++17", "-g", *flags, "-fPIC", "-c", folder / "unit.cpp", "-o", folder / "unit.o")
    # Leave out the string sections: the linker merges equal strings, so these sections do not grow with the number of copies.
    own = debug_megabytes(folder / "unit.o", ".debug_str", ".debug_line_str")
    copies = max(2, round(megabytes / own))
    objects = [folder / f"unit-{number}.o" for number in range(copies)]
    for number, each in enumerate(objects):
        run("objcopy", f"--prefix-symbols=copy{number}_", folder / "unit.o", each)
    (folder / "objects").write_text("\n".join(map(str, objects)))
    # The victim never runs, so that undefined symbols do not matter.
    run("ld", "-shared", "--build-id", "--unresolved-symbols=ignore-all", f"@{folder}/objects", "-o", program)
    for each in objects:
        each.unlink()
    return program


def functions(program):
    """Returns addresses and sizes of functions, by the copy that contains them."""
    found = {}
    for line in run("nm", "-S", "--defined-only", program).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTwW" and int(fields[1], 16) > 32:
            found.setdefault(fields[3].partition("_")[0], []).append((int(fields[0], 16), int(fields[1], 16)))
    return found


def report(program, name, units):
    """Returns a raw report with three stacks in a program."""
    chance = random.Random(1)
    found = functions(program)
    if name == "swift":
        chosen = [each for group in found.values() for each in group]
    else:
        copies = sorted(group for group in found if group.startswith("copy"))
        chosen = [each for group in chance.sample(copies, min(units, len(copies))) for each in found[group]]
    frames = []
    for start, size in chance.sample(chosen, 3 * FRAMES):
        offset = start + chance.randrange(size)
        frames.append({"pc": hex(0x7f0000000000 + offset), "module": str(program), "offset": hex(offset)})
    stacks = {stack: frames[index * FRAMES:(index + 1) * FRAMES] for index, stack in enumerate(("access", "free", "alloc"))}
    path = DIRECTORY / f"{name}.jsonl"
    path.write_text(json.dumps({"schema": "zguard.finding/1", "kind": "use-after-free", "access": "read",
                                "address": "0x10", "stacks": stacks}) + "\n")
    return path


def forget(path):
    """Drops a file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def milliseconds(zguard, path):
    start = time.monotonic()
    result = subprocess.run([zguard, "report", "--format", "json", path], stdout=subprocess.PIPE, check=True,
                            timeout=TIMEOUT_SECONDS)
    elapsed = (time.monotonic() - start) * 1000
    frames = [frame for stack in json.loads(result.stdout)["stacks"].values() for frame in stack]
    named = sum("function" in frame for frame in frames)
    return elapsed, named, len(frames), sum("line" in frame for frame in frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zguard", type=Path, default=ROOT / "build/bin/zguard", metavar="PATH")
    parser.add_argument("--against", type=Path, metavar="PATH", help="another zguard")
    parser.add_argument("--runs", type=int, default=7, metavar="N")
    parser.add_argument("--megabytes", type=int, default=500, metavar="N", help="of debug information")
    parser.add_argument("--units", type=int, default=24, metavar="N", help="that the frames lie in (default: 24)")
    parser.add_argument("--only", metavar="NAME", help="gcc, clang or swift")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    swift = Path(shutil.which("swift") or "swift").resolve().with_name("swift-frontend")
    victims = {"gcc": lambda: victim("gcc", "g++", ["-O1"], arguments.megabytes),
               "clang": lambda: victim("clang", "clang++", ["-O1"], arguments.megabytes),
               "swift": lambda: swift}
    tools = {"zguard": arguments.zguard} | ({"against": arguments.against} if arguments.against else {})
    is_over = False
    print("| victim | debug MB | tool | cache | ms | named | with a line |\n|---|---:|---|---|---:|---:|---:|")
    for name, make in victims.items():
        if arguments.only not in (None, name):
            continue
        program = make()
        path = report(program, name, arguments.units)
        size = debug_megabytes(program)
        for cache in ("cold", "warm"):
            times = {tool: [] for tool in tools}
            for _ in range(arguments.runs):
                for tool, zguard in tools.items():
                    if cache == "cold":
                        forget(program)
                    elapsed, *counts = milliseconds(zguard, path)
                    times[tool].append((elapsed, *counts))
            for tool, samples in times.items():
                median = statistics.median(sample[0] for sample in samples)
                _, named, frames, lines = samples[0]
                print(f"| {name} | {size:.0f} | {tool} | {cache} | {median:.0f} | {named} of {frames} | {lines} |", flush=True)
                is_over |= tool == "zguard" and median > LIMITS[cache]
    return 1 if arguments.check and is_over else 0


if __name__ == "__main__":
    sys.exit(main())
