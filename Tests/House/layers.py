#!/usr/bin/env python3
"""Checks the layers of the runtime, which Sources/CZombie/README.md lists, by the includes of the sources and the symbols of their objects.

A file includes and calls only files of its own layer or of lower ones, and the call graph of the files has no cycle. Published functions
(malloc, pthread_sigmask …) are a layer above the runtime, so the runtime must not call them.
Closing line: N passed, N failed.

usage: Tests/House/layers.py [--list]    --list prints the files in order of calls instead, beginning with those that call none
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import PUBLISH, ROOT, RUNTIME  # noqa: E402

MAP = RUNTIME / "README.md"
ABOVE = "entry"  # the layer directly below CZombiePublish


def documented_layers():
    """The layers in the table of folders of the runtime's README, from the bottom to the top, each with the names of its files."""
    text = MAP.read_text()
    table = re.search(r"^\| folder \| files \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)
    rows = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in table[1].splitlines()] if table else []
    publish = {path.stem for path in PUBLISH.glob("*.c")}
    ordered = {}
    for name, files in rows:
        ordered[name] = set(files.split())
        if name == ABOVE:
            ordered["publish"] = publish
    return ordered


def retired_words():
    """The words in the third column of the glossary in the runtime's README."""
    table = re.search(r"^\| term \| meaning \| retired words \|\n\|[-|]+\|\n((?:\|.*\n)+)", MAP.read_text(), re.M)
    cells = [row.strip().strip("|").split("|")[2] for row in table[1].splitlines()] if table else []
    return [word.strip() for cell in cells for word in cell.split(",") if word.strip()]


# Names in published formats may contain retired words: counters of the statistics page, and old spellings of options.
PUBLISHED_NAMES = re.compile(r"fenced_(?:blocks|live_bytes)|contexts_fenced|\"fenced\"|\bfence_\w+")


def check_words(checks):
    """No retired word is in a comment or an identifier of Sources: as a part of a name (snake_case, camelCase) or as a word."""
    words = retired_words()
    checks.check("the glossary has retired words", [] if len(words) > 10 else [f"{len(words)} words"])
    rules = [(word, re.compile(rf"(?<![A-Za-z]){re.escape(word)}(?:s|ed)?(?![a-z])|(?<=[a-z]){re.escape(word.capitalize())}(?:s|ed)?(?![a-z])"))
             for word in words]
    found = []
    for path in sorted((ROOT / "Sources").rglob("*")):
        if path.suffix not in (".c", ".h", ".swift"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = PUBLISHED_NAMES.sub("", line)
            found += [f"{path.relative_to(ROOT)}:{number} says '{word}'" for word, rule in rules if rule.search(text)]
    checks.check("retired words of the glossary do not come back", found[:40])


def name_of(path):
    """Returns the name used in includes: heap/free.c; publish/calls.c for files of CZombiePublish."""
    path = Path(path)
    path = path if path.is_absolute() else ROOT / path
    return str(path.relative_to(RUNTIME)) if path.is_relative_to(RUNTIME) else f"publish/{path.name}"


def layer_of(name):
    return name.split("/")[0]


def symbols(objects):
    """Returns the symbols that each object defines, and those that it references, weak or not.

    The linker resolves a reference to a wrapped SYMBOL (--wrap) to __wrap_SYMBOL.
    """
    defined, taken = {}, {}
    wrapped = {flag.removeprefix("-Wl,--wrap=") for flag in builds.library_flags("link") if flag.startswith("-Wl,--wrap=")}
    for name, path in objects.items():
        taken[name] = set()
        for line in subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout.splitlines():
            *_, kind, symbol = line.split()
            if kind in "TDBRVWC":
                defined[symbol] = name
            elif kind in "Uwv":
                taken[name].add(f"__wrap_{symbol}" if symbol in wrapped else symbol)
    return defined, taken


def call_graph(objects):
    """Returns the call graph: {file: {called file: one of the called symbols}}."""
    defined, taken = symbols(objects)
    graph = {name: {} for name in objects}
    for caller in sorted(taken):
        for symbol in sorted(taken[caller]):
            called = defined.get(symbol, caller)
            if called != caller:
                graph[caller].setdefault(called, symbol)
    return graph


def circles(graph):
    """Returns each cycle of calls once: the call that closes it, and the path."""
    found, done, way = [], set(), []

    def visit(name):
        if name in way:
            around = way[way.index(name):]
            found.append(f"{way[-1]} takes {graph[way[-1]][name]} from {name}, which closes {' -> '.join([*around, name])}")
        elif name not in done:
            way.append(name)
            for called in graph[name]:
                visit(called)
            done.add(way.pop())

    for name in graph:
        visit(name)
    return found


def levels(graph):
    known = {}

    def level(name):
        if name not in known:
            known[name] = 1 + max((level(called) for called in graph[name]), default=-1)
        return known[name]

    return {name: level(name) for name in graph}


def check_list(checks, ranks, layers, files):
    problems = [f"{name} is no layer of {MAP.name}" for name in sorted({layer_of(file) for file in files} - ranks.keys())]
    problems += [f"{MAP.name} lists {name}, which has no files" for name in ranks if name not in {layer_of(file) for file in files}]
    stems = {file: re.sub("x86_64|aarch64", "<cpu>", Path(file).stem) for file in files}
    for file, stem in stems.items():
        if stem not in layers.get(layer_of(file), {stem}):
            problems.append(f"{MAP.name}'s map says nothing of {file}")
    for name, listed in layers.items():
        gone = listed - {stem for file, stem in stems.items() if layer_of(file) == name}
        problems += [f"{MAP.name}'s map has {name}/{stem}, which does not exist" for stem in sorted(gone)]
    checks.check("every file stands in a layer that is listed", problems)


def check_includes(checks, ranks):
    problems = []
    for source in sorted([*RUNTIME.rglob("*.[ch]"), *PUBLISH.rglob("*.[ch]")]):
        name = name_of(source)
        for included in re.findall(r'^#include "(\w+/\w+\.h)"', source.read_text(), re.M):
            if ranks.get(layer_of(included), -1) > ranks.get(layer_of(name), len(ranks)):
                problems.append(f"{name} includes {included}, which stands above it")
    checks.check("no file includes one of a higher layer", problems)


def check_calls(checks, ranks, graph):
    problems = [f"{caller} takes {symbol} from {called}, which stands above it"
                for caller, calls in graph.items() for called, symbol in calls.items()
                if ranks.get(layer_of(called), -1) > ranks.get(layer_of(caller), len(ranks))]
    checks.check("no file calls one of a higher layer", problems)
    checks.check("no circle of calls", circles(graph))


def main():
    layers = documented_layers()
    ranks = {name: rank for rank, name in enumerate(layers)}
    sources = [*builds.sources_of(RUNTIME), *builds.sources_of(PUBLISH)]
    flags, texts, _ = builds.FLAVOURS["checked"]()
    objects = dict(zip(map(name_of, sources), builds.objects_of(sources, flags, texts)))
    graph = call_graph(objects)
    if sys.argv[1:] == ["--list"]:
        for name, level in sorted(levels(graph).items(), key=lambda row: (row[1], row[0])):
            print(f"{level:3} {name}")
        return 0
    checks = Checks()
    check_words(checks)
    check_list(checks, ranks, layers, graph)
    check_includes(checks, ranks)
    check_calls(checks, ranks, graph)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
