#!/usr/bin/env python3
"""Tests that the signature of a bug is the same in every build and run, and that different bugs have different signatures, also if
stripped builds get their symbols later.

Builds the programs of Tests/Reports/Grouping repeatedly and runs their bugs under zguard. Each build differs as in practice: lines move,
functions, closures and lambdas are added before and after, the sources are in another directory, the program is built with or without
optimization, by another compiler. Addresses are random anyway.
Closing line: N passed, N failed."""

import argparse
import concurrent.futures
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import bugs  # noqa: E402
from Support import builds  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

TIMEOUT_SECONDS = 60

# For each source in Tests/Reports/Grouping: the arguments that choose its bugs. Arguments with the same name before a slash are one bug.
BUGS = {
    "bugs.c": ["show", "again", "other-free", "twice", "write", "walk", "walk/5", "walk/20"],
    "bugs.cpp": ["lambda", "method", "template", "twice"],
    "bugs.swift": ["method", "closure", "other-free", "release"],
    "deaths.cpp": ["segv", "bus", "abort", "ill", "divide", "runtime/17", "runtime/18", "runtime-other", "logic", "number/3",
                   "number/4", "cart", "cart-many/5", "cart-many/6", "basket", "say-file/17", "say-file/18", "say-list/17",
                   "say-list/77", "turns/3", "turns/4", "turns/8", "outer", "dock",
                   "dock-lambda"],
    "deaths.swift": ["fatal/17", "fatal/18", "fatal-other", "index/7", "index/8", "add", "divide", "nil", "error/17", "error/18",
                     "error-other", "cart/3", "cart/4"],
}
LANGUAGES = {source: source.split(".")[1] for source in BUGS}

UNRELATED = {
    "c": {
        "1": "int unrelated_before(int a) { return a * 3; }\n#define LINES \\\n    0",
        "2": "int unrelated_behind(int a) { return a + LINES; }",
        "line": "static volatile int unrelated; unrelated++;",
    },
    "cpp": {
        "1": "template <typename T> T unrelated(T a) { return a; }\n"
             "int unrelated_before() { auto one = [](int a) { return a; }; auto two = [] { return 2; }; return one(two()); }",
        "2": "int unrelated_behind() { return unrelated(5) + [] { return 1; }(); }",
        "line": "static volatile int unrelated_count; unrelated_count = unrelated_count + 1;",
        "lambda": "std::vector<int> none; std::for_each(none.begin(), none.end(), [&](int n) { sum += n; });",
    },
    "swift": {
        "1": "struct Unrelated { var a = { (n: Int) in n + 1 } }\nlet unrelatedClosure = { (n: Int) in Unrelated().a(n) }",
        "2": "func unrelatedBehind() -> Int { [1, 2].map { $0 + 1 }.reduce(0) { $0 + $1 } }",
        "line": "let unrelated = items.count; if unrelated > 100 { return 0 }",
        "closure": "_ = perform { 5 }\n    return",
    },
}

COMMON_C = ["-g", "-fno-omit-frame-pointer"]
# Compilers and flags; each builds the sources unchanged and changed. The signatures of the first build of a source are the expected ones.
COMPILERS = {
    "c": [("gcc", ["-O0"]), ("gcc", ["-O2", "-fno-optimize-sibling-calls"]),
          ("clang", ["-O0"]), ("clang", ["-O1", "-fno-optimize-sibling-calls"])],
    "swift": [("swiftc", ["-Onone"]), ("swiftc", ["-O"])],
}
COMPILERS["cpp"] = [({"gcc": "g++", "clang": "clang++"}[compiler], flags) for compiler, flags in COMPILERS["c"]]
BUILDS = {language: [(f"{compiler} {flags[0]}{', changed' if is_changed else ''}", compiler, flags, is_changed)
                     for compiler, flags in rows for is_changed in (False, True)]
          for language, rows in COMPILERS.items()}

# Bugs whose signature is equal only among builds of one compiler and optimization level, with the reason.
COMPARED_APART = {
    ("deaths.cpp", "dock"): "clang calls the cold part of a function as a function of its own",
    ("deaths.cpp", "dock-lambda"): "clang calls the cold part of a function as a function of its own",
    ("bugs.cpp", "method"): "the call through the virtual table, which is the access, is gone where the class is known",
}


def changed(source, language):
    lines = ["// A comment.", "", "// Another one.", ""]
    for line in source.splitlines():
        stripped = line.strip()
        if stripped.startswith("// UNRELATED ") and stripped[13:] in UNRELATED[language]:
            lines += UNRELATED[language][stripped[13:]].splitlines()
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def build(source, place, number, row):
    name, compiler, flags, is_changed = row
    language = LANGUAGES[source]
    # Each build has a directory of its own, with a path of another length.
    directory = place / f"{source}-{number}" / ("deep" * number)
    directory.mkdir(parents=True)
    text = (TESTS / "Reports/Grouping" / source).read_text()
    path = directory / ("main.swift" if language == "swift" else source)
    path.write_text(changed(text, language) if is_changed else text)
    command = [compiler, *flags, *(["-g", "-module-name", "Shop"] if language == "swift" else COMMON_C), str(path), "-o",
               str(directory / "shop")]
    with builds.clock:
        builds.run_compiler(command, cwd=directory)
    return directory / "shop"


class Seen:
    """The finding of a run: its signature, its version 1 signature, and a text with its kind, signal, message and stacks."""

    def __init__(self, program, words, report, options=()):
        result = subprocess.run([ZGUARD, "run", "--report", report, "--collect", "crashes", *options, "--", program, *words],
                                env=scrubbed(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                timeout=TIMEOUT_SECONDS)
        lines = report.read_text().splitlines() if report.exists() else []
        self.finding = json.loads(lines[0]) if lines else None
        self.signature = self.former = None
        self.text = f"no finding: {result.stdout}"
        if self.finding:
            self.signature, self.former = self.finding["signature"], self.finding["former_signatures"][0]
            stacks = {name: [frame.get("function") for frame in stack] for name, stack in self.finding["stacks"].items()}
            self.text = f"{self.finding['kind']} {self.finding.get('signal')} {self.finding.get('message')!r} {stacks}"


class Figures:
    """Counts merges and splits under both versions of the signature."""

    def __init__(self):
        self.signatures = {}

    def add(self, bug, seen):
        for version, signature in (1, seen.former), (2, seen.signature):
            self.signatures.setdefault((bug, version), set()).add(signature)

    def said(self, version):
        bugs = [(bug, found) for (bug, known), found in self.signatures.items() if known == version]
        split = sum(len(found) > 1 for _, found in bugs)
        merged = sum(any(found & other for name, other in bugs if name != bug) for bug, found in bugs)
        return f"version {version}: of {len(bugs)} bugs {split} have several signatures, {merged} share one with another"

    def owners(self, version):
        owners = {}
        for (bug, known), found in self.signatures.items():
            if known == version:
                for signature in found:
                    owners.setdefault(signature, set()).add(bug)
        return owners


def compare_source(run, pool, place, source):
    rows = BUILDS[LANGUAGES[source]]
    programs = list(pool.map(lambda item: build(source, place, *item), enumerate(rows)))
    jobs = [(row, program, bug, round) for row, program in zip(rows, programs) for bug in BUGS[source] for round in range(2)]
    results = list(pool.map(
        lambda job: Seen(job[1], job[2].split("/"), job[1].parent / f"{job[2].replace('/', '-')}-{job[3]}.json"), jobs))
    known, figures = {}, Figures()
    for (row, _, bug, round), seen in zip(jobs, results):
        # Compare with the first build, or with the first build of the same compiler and level.
        name = bug.split("/")[0]
        group = row[0].removesuffix(", changed") if (source, name) in COMPARED_APART else ""
        first, where = known.setdefault((name, group), (seen, row[0]))
        figures.add(name, seen)
        problems = []
        if seen.signature is None:
            problems.append(seen.text)
        elif seen.signature != first.signature:
            problems += [f"is {seen.signature}, not {first.signature} as in '{where}'", f"here:  {seen.text}", f"there: {first.text}"]
        run.check(f"{source} {bug}, {row[0]}, run {round + 1}", problems)
    run.check(f"{source}: different bugs differ", [f"{' and '.join(sorted(bugs))} have the same signature"
                                                  for bugs in figures.owners(2).values() if len(bugs) > 1])
    print(f"{source}, {len(rows)} builds: {figures.said(1)}; {figures.said(2)}")
    if source == "deaths.cpp":
        other = programs[0].parent / "basket"
        shutil.copy(programs[0], other)
        seen = Seen(other, ["abort"], other.parent / "other.json")
        same = known[("abort", "")][0].signature == seen.signature
        run.check(f"{source}: the same end of two programs", ["has one signature"] if same or not seen.signature else [])


# MARK: stripped builds


def symbols_come_later(run, place):
    """The findings of two stripped builds of one source become one group once symbols are given, in any of three directory layouts."""
    rows = [("gcc -O2", "gcc", ["-O2", "-fno-optimize-sibling-calls", "-Wl,--build-id"], is_changed) for is_changed in (False, True)]
    forms = {name: place / name for name in ("tree", "tree/.build-id", "names")}
    for folder in forms.values():
        folder.mkdir(parents=True)
    seen = []
    for number, row in enumerate(rows):
        program = build("bugs.c", place / "stripped", number, row)
        debug = forms["names"] / f"v{number + 1}.debug"
        subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
        subprocess.run(["strip", program], check=True)
        seen.append(Seen(program, ["show"], place / f"stripped-{number}.json"))
        identity = seen[-1].finding["stacks"]["access"][0]["build_id"]
        kept = forms["tree/.build-id"] / identity[:2] / f"{identity[2:]}.debug"
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(debug, kept)
    run.check("stripped builds differ", [] if seen[0].signature != seen[1].signature else ["they have one signature"])
    whole = Seen(build("bugs.c", place / "whole", 0, rows[0]), ["show"], place / "whole.json")
    reports = [str(place / f"stripped-{number}.json") for number in range(2)]

    def groups(*words):
        said = subprocess.run([ZGUARD, "report", "--format", "json", *words, *reports], env=scrubbed(), capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS)
        return [json.loads(line) for line in said.stdout.splitlines()]

    run.check("without symbols there are two groups", [] if len(groups()) == 2 else [str(groups())])
    for name, folder in forms.items():
        found = groups("--symbols", str(folder))
        run.check(f"with --symbols {name} they are one group", [] if [one["count"] for one in found] == [2] else [str(found)[:800]])
        run.check(f"with --symbols {name} its signature is that of the whole build",
                  [] if {one["signature"] for one in found} == {whole.signature} else [f"not {whole.signature}: {found}"[:800]])
        for one in seen:
            asked = groups("--symbols", str(folder), "--signature", one.signature)
            run.check(f"with --symbols {name} the signature from before finds it", [] if len(asked) == 1 else [str(asked)[:400]])


# MARK: one-bug programs

# Programs of Tests/Bugs whose finding does not depend on the compiler, and the ways to build them. Sibling calls, which leave callers
# out of stacks, stay optimized.
PROGRAMS = """
double-free: alias.c aligned_alloc.c atexit_handler.c calloc.c copied_struct.cpp delete_array_twice.cpp delete_twice.cpp
    destructor_and_hand.cpp error_path.c large.c other_thread.c plain.c pointer_twice_in_vector.cpp posix_memalign.c realloc_to_zero.c
    shared_node.c shared_ptr_twice.cpp static_destructor.cpp strdup.c unique_ptr_twice.cpp virtual_destructor.cpp zero_size.c
invalid-free: advanced_cursor.c argument.c array_with_cookie.cpp function.c global.c interior_16.c literal.c misaligned.c
    one_past_end.c realloc_interior.c second_base.cpp smart_pointer_to_local.cpp stack_address.c thread_stack_address.c vector_element.cpp
null-access: call.c freed_and_cleared.c in_thread.c method.cpp struct_field.c write.c
stack-overflow: comparison.cpp mutual_recursion.c recursion.c small_thread_stack.c
use-after-free: array_of_pointers.c call_read.c call_write.c function_pointer.c large_read.c large_write.c list_iterator.cpp
    list_sum.c observer.cpp stale_this.cpp vector_reference.cpp virtual_call.cpp
wild-access: bad_pointer_read.c bad_pointer_write.c literal_write.c
"""
WAYS = [(compiler, level) for compiler in ("gcc", "clang") for level in ("-O0", "-O2", "-O3")]
# Maximum numbers of bugs that the matrix may split or merge. Three are split today: a sibling call removes a frame from their stacks.
MOST_SPLIT, MOST_MERGED = 3, 0


def programs():
    folder = ""
    for word in PROGRAMS.split():
        if word.endswith(":"):
            folder = word[:-1]
        else:
            yield TESTS / "Bugs" / folder / word


def run_program(path, place, way):
    compiler, level = way
    program = bugs.Program(path)
    program.read_header()
    directory = place / path.stem / f"{compiler}{level}"
    directory.mkdir(parents=True)
    if path.suffix == ".cpp":
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
    executable = directory / path.stem
    with builds.clock:
        builds.run_compiler([compiler, level, "-g", "-w", "-fno-builtin", "-rdynamic", str(path), "-o", str(executable),
                             *program.header.get("libs", "").split()], cwd=directory)
    return Seen(executable, [], directory / "report.json", program.option_arguments())


def compare_programs(run, pool, place):
    jobs = [(path, way) for path in programs() for way in WAYS]
    figures = Figures()
    by_program = {}
    for (path, way), seen in zip(jobs, pool.map(lambda job: run_program(job[0], place, job[1]), jobs)):
        # Compare findings of one kind only: with another kind, the compiler has turned the program's bug into another bug.
        if seen.signature:
            figures.add(f"{path.parent.name}/{path.name} as {seen.finding['kind']}", seen)
            by_program.setdefault(path, []).append((way, seen))
    for path, found in by_program.items():
        if len({seen.signature for _, seen in found}) > 1:
            print(f"{path.parent.name}/{path.name}:")
            for way, seen in found:
                print(f"    {' '.join(way)}: {seen.signature} {seen.text[:300]}")
    print(f"{len(by_program)} programs, {len(WAYS)} builds: {figures.said(1)}; {figures.said(2)}")
    split = sum(len(found) > 1 for (_, version), found in figures.signatures.items() if version == 2)
    merged = [owners for owners in figures.owners(2).values() if len(owners) > 1]
    run.check("matrix: bugs with several signatures", [f"{split}, not {MOST_SPLIT}"] if split > MOST_SPLIT else [])
    run.check("matrix: bugs that share a signature", [" and ".join(sorted(one)) for one in merged][MOST_MERGED:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="append", choices=list(BUGS))
    parser.add_argument("--matrix", action="store_true", help="compare one-bug programs over compilers and levels instead")
    add_slice_option(parser)
    arguments = parser.parse_args()
    sources = arguments.source or arguments.slice.deal(list(BUGS))
    arguments.slice.say(len(sources), len(BUGS), "sources")
    run = Checks()
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        if arguments.matrix:
            compare_programs(run, pool, Path(temporary))
        else:
            for source in sources:
                compare_source(run, pool, Path(temporary), source)
            if not arguments.source:
                symbols_come_later(run, Path(temporary))
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
