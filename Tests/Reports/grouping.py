#!/usr/bin/env python3
"""Tests that the signature of a bug is the same in every build and run, and that different bugs have different signatures.

Builds the programs of Tests/Reports/Grouping repeatedly and runs their bugs under zguard. Each build differs as in practice: lines move,
functions, closures and lambdas are added before and after, the sources are in another directory, the program is built with or without
optimization, by another compiler. Addresses are random anyway.
Closing line: N passed, N failed."""

import argparse
import concurrent.futures
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 60

# Language: bugs with their arguments; entries with the same name before the slash are the same bug.
BUGS = {
    "c": ["show", "again", "other-free", "twice", "write", "walk", "walk/5", "walk/20"],
    "cpp": ["lambda", "method", "template", "twice"],
    "swift": ["method", "closure", "other-free", "release"],
}

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
# Compilers and flags; each builds the sources unchanged and changed. The signatures of the first build of a language are the expected ones.
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
    ("cpp", "lambda"): "compilers name lambdas differently, and g++ inlined functions without what they are members of",
    ("cpp", "method"): "the call through the virtual table, which is the access, is gone where the class is known",
    ("cpp", "template"): "g++ names an inlined destructor without its class",
    ("cpp", "twice"): "as before",
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


def build(language, place, number, row):
    name, compiler, flags, is_changed = row
    # Each build has a directory of its own, with a path of another length.
    directory = place / f"{language}-{number}" / ("deep" * number)
    directory.mkdir(parents=True)
    text = (TESTS / "Reports/Grouping" / f"bugs.{language}").read_text()
    source = directory / ("main.swift" if language == "swift" else f"bugs.{language}")
    source.write_text(changed(text, language) if is_changed else text)
    command = [compiler, *flags, *(["-g", "-module-name", "Shop"] if language == "swift" else COMMON_C), str(source), "-o",
               str(directory / "bugs")]
    with builds.clock:
        builds.run_compiler(command, cwd=directory)
    return directory / "bugs"


def signature(program, bug, report):
    """Returns the signature of the first finding and its frames, or None and an error."""
    words = bug.split("/")
    result = subprocess.run([ZGUARD, "run", "--report", report, "--", program, *words], env=scrubbed(),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                            timeout=TIMEOUT_SECONDS)
    lines = report.read_text().splitlines() if report.exists() else []
    if not lines:
        return None, f"no finding: {result.stdout}"
    finding = json.loads(lines[0])
    stacks = {name: [frame.get("function") for frame in stack] for name, stack in finding["stacks"].items()}
    return finding["signature"], f"{finding['kind']} {stacks}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--language", action="append", choices=list(BUGS))
    arguments = parser.parse_args()
    run = Checks()
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        place = Path(temporary)
        for language in arguments.language or BUGS:
            rows = BUILDS[language]
            programs = list(pool.map(lambda item: build(language, place, *item), enumerate(rows)))
            jobs = [(row, program, bug, round) for row, program in zip(rows, programs) for bug in BUGS[language]
                    for round in range(2)]
            results = list(pool.map(
                lambda job: signature(job[1], job[2], job[1].parent / f"{job[2].replace('/', '-')}-{job[3]}.json"), jobs))
            known = {}
            for (row, _, bug, round), (found, text) in zip(jobs, results):
                # Compare with the first build, or with the first build of the same compiler and level.
                group = row[0].removesuffix(", changed") if (language, bug) in COMPARED_APART else ""
                expected, where, first = known.setdefault((bug.split("/")[0], group), (found, row[0], text))
                problems = []
                if found is None:
                    problems.append(text)
                elif found != expected:
                    problems += [f"is {found}, not {expected} as in '{where}'", f"here:  {text}", f"there: {first}"]
                run.check(f"{language} {bug}, {row[0]}, run {round + 1}", problems)
            owners = {}
            for (bug, _), (found, _, _) in known.items():
                owners.setdefault(found, set()).add(bug)
            run.check(f"{language}: different bugs differ",
                      [f"{' and '.join(sorted(bugs))} have the same signature" for bugs in owners.values() if len(bugs) > 1])
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
