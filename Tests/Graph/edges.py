#!/usr/bin/env python3
"""Compares how zguard and the toolchain's libswiftRemoteMirror classify the words of Swift objects. Closing line: N passed, N failed.

zguard's kinds come from Tests/Graph/ObjectEdges, a program that `swift build --scratch-path build/debug` makes. Words whose kind one of the
two does not know are counted, not compared.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import leaks  # noqa: E402
from remote_mirror import RemoteMirror, find_library  # noqa: E402
from Support import builds, checks  # noqa: E402
from Support.checks import run_driver, run_within  # noqa: E402
from Support.environment import ROOT, guarded_by, scrubbed  # noqa: E402

OBJECT_EDGES = ROOT / "build/debug/debug/ObjectEdges"
MOST_OBJECTS = 1000
LEAST_OBJECTS = 10_000  # in all programs together
LEAST_KNOWN = 0.999  # share of the references known to the library that zguard must know, too
ZOOS = 8  # seeds for each build
# Cases of other programs, by their source.
CASES = {
    "cycles": ["selfInClosure", "throughDictionary", "throughSet", "boxedExistential", "generic", "actors", "indirectEnum", "closuresInArray"],
    "value_cycles": ["nestedContainers", "amongUnowned", "indirectCase", "genericWithKeyPath", "managedBuffer", "mutex", "combineLike",
                     "propertyWrapper", "observable", "variadic", "unownedInStruct", "unownedCapture"],
    "service_cycles": ["streamInTask", "workItem", "notification", "blockOperation", "mutableArray", "progress"],
}
totals = Counter()


def build_zoo(kind):
    leaks.BUILD.mkdir(parents=True, exist_ok=True)
    source, target = leaks.PROGRAMS / "zoo.swift", leaks.BUILD / f"zoo{kind}"
    return builds.compiled(target, ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-parse-as-library", *leaks.BUILDS[kind], "-o", target,
                                    source], [source], cwd=leaks.BUILD)


def compared(program, *words, seed=1):
    """Starts a program, compares random objects of it, and returns the differences."""
    process = subprocess.Popen([program(), *words], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        code, out, err = run_within(leaks.TIMEOUT_SECONDS, [OBJECT_EDGES, process.pid, seed, MOST_OBJECTS], env=scrubbed())
        assert code == 0 and out, err
        mirror = RemoteMirror(process.pid)
        try:
            return [line for object_ in out.splitlines() for line in differences(mirror, object_.split())]
        finally:
            mirror.close()
    finally:
        process.kill()
        process.wait()


def differences(mirror, ours):
    start, metadata, name, *kinds = ours
    theirs = mirror.words(int(start))
    totals["objects" if theirs else "objects that the library does not know"] += 1
    size, known = theirs or (0, {})
    found = []
    for index, kind in enumerate(kinds):
        offset = 16 + 8 * index
        if offset >= size:
            break
        other = known.get(offset, "number")
        if "unknown" in (kind, other):
            totals["words that zguard does not know" if other != "unknown" else "words that the library does not know"] += 1
            totals["references that zguard does not know"] += other not in ("number", "unknown")
        elif kind == other:
            totals["words equal"] += 1
            totals["references equal"] += kind != "number"
        else:
            found.append(f"{name} at {offset}: {kind}, the library: {other}")
    return found


def edges_case(program, *words, seed=1):
    def test(directory):
        found = Counter(compared(program, *words, seed=seed))
        assert not found, "\n".join(f"{line} ({count} objects)" for line, count in found.items())
        totals["programs"] += 1
    return test


def enough(directory):
    """The comparison is not empty."""
    assert totals["references equal"] > LEAST_KNOWN * (totals["references equal"] + totals["references that zguard does not know"]), totals
    assert totals["programs"] < len(list(programs())) or totals["objects"] >= LEAST_OBJECTS, totals


def programs():
    for kind in ("-Onone", "-O"):
        yield from ((f"edges zoo {seed} {kind}", edges_case(lambda kind=kind: build_zoo(kind), str(seed), seed=seed)) for seed in range(1, ZOOS + 1))
    for source, names in CASES.items():
        yield from ((f"edges {name}", edges_case(lambda source=source: leaks.build_swift(source, "-Onone"), name, "wait")) for name in names)


def tests():
    yield from programs()
    yield "enough", enough


def main():
    if not find_library():
        sys.exit("edges.py: error: the Swift toolchain has no libswiftRemoteMirror.so")
    if not OBJECT_EDGES.exists():
        sys.exit("edges.py: error: ObjectEdges is not built\nhint: swift build --product ObjectEdges --scratch-path build/debug")
    checks.notes.append(lambda: "; ".join(f"{count:,} {what}" for what, count in sorted(totals.items())))
    return run_driver(__doc__, tests, "zguard-edges-")


if __name__ == "__main__":
    sys.exit(main())
