#!/usr/bin/env python3
"""Tests that the time of zguard is linear in the size of a report: callgrind counts instructions at three sizes.

Each case makes an input of n, 2n and 4n parts. From 2n to 4n there are twice as many new parts as from n to 2n: a linear algorithm takes
twice the additional instructions, a quadratic one four times. More than 2.5 times is a failure. Applying a rules file takes time in
proportion to rules times findings: one case has more rules each time, another more findings.
Closing line: N passed, N failed."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

MOST_GROWTH = 2.5
# So many further instructions are noise, because tables double their sizes.
NOISE = 1_000_000
TIMEOUT_SECONDS = 300

SHORT = {"schema": "zguard.finding/1", "kind": "use-after-free", "access": "read", "address": "0x7f10", "count": 1, "pid": 5,
         "program": "/home/ann/app", "time": "2026-01-02T03:04:05.678Z"}


def frame(number=0, **more):
    return {"pc": hex(0x1000 + number), "module": "/nowhere/lib.so", "offset": hex(number), **more}


def finding(access=(), block=None, **more):
    block = {"start": "0x7f00", "size": 48, "offset": 16, "state": "quarantined", **(block or {})}
    return {**SHORT, "block": block, "stacks": {"access": list(access), "free": [], "alloc": []}, **more}


def function(text):
    return [finding([frame(1, function=text)])]


def nested(count):
    return '{"schema":"zguard.finding/1","kind":"crash","more":' + '{"a":[' * count + "]}" * count + "}"


def stall(stacks):
    return [finding(kind="stall", duration_ms=900, occurrences=1, samples=len(stacks),
                    sampled=[{"count": 1, "stack": stack} for stack in stacks])]


def numbered(count, **more):
    return [frame(number, function=f"f{number}", **more) for number in range(count)]


def crash(count):
    return [finding(kind="crash", signal="SIGSEGV", code=1, registers={}, annotations={f"k{n}": "v" for n in range(count)},
                    threads=[{"id": n, "tid": n, "stack": [frame(n, function=f"f{n}")]} for n in range(count)])]


def changes(count):
    return [finding(history=[{"event": "retain", "strong": n, "thread": n % 3, "stack": [frame(n, function=f"f{n}")]} for n in range(count)])]


def next_uses(count):
    return [finding(access="retain", block={"class": "Shop.Cart", "next": [
        {"access": "call", "member_symbol": f"$s4Shop{len(str(n)) + 1}C{n}C3addyyF"} for n in range(count)]})]


REPORT = ("report", "--format")
REDACT = "collect"
RULES = "replace user usr\nreplace /home/*/ ~/\nreplace a*b*c x\nreplace user*user*user y\nreplace @*.* mail\n"
SUPPRESSIONS = "use-after-free\n  nothing*a*b*c*\n  *x*y*z\n\nuse-after-free\n  ...\n  g*aa*ab*\n"

# Name, command that reads the input, number of parts of the smallest input, and the function that makes the input.
CASES = [
    ("redaction of 'user'", REDACT, 600, lambda n: function("user" * n)),
    ("redaction of mail addresses", REDACT, 300, lambda n: function("user@host " * n)),
    ("redaction of paths", REDACT, 300, lambda n: function("/home/user" * n)),
    ("redaction of tokens", REDACT, 600, lambda n: function("abab" * n)),
    ("findings of one group", (*REPORT, "text"), 100, lambda n: [finding(numbered(3))] * n),
    ("different findings", (*REPORT, "text"), 60, lambda n: [finding(numbered(1, file=f"/a/{m}.c", line=m)) for m in range(n)]),
    ("different findings as HTML", (*REPORT, "html"), 30, lambda n: [finding([frame(m, function=f"g{m}")]) for m in range(n)]),
    ("different findings as JUnit", (*REPORT, "junit"), 60, lambda n: [finding([frame(m, function=f"g{m}")]) for m in range(n)]),
    ("findings that are shipped", REDACT, 30, lambda n: [finding([frame(m, function=f"g{m}")]) for m in range(n)]),
    ("frames", (*REPORT, "text"), 200, lambda n: [finding(numbered(n, file="/a/b.c", line=1))]),
    ("frames as HTML", (*REPORT, "html"), 100, lambda n: [finding(numbered(n, file="/a/b.c", line=1))]),
    ("modules", (*REPORT, "text"), 50, lambda n: [finding([{**frame(m), "module": f"/nowhere/{m}.so"} for m in range(n)])]),
    ("one long text", (*REPORT, "text"), 3000, lambda n: function("a" * n)),
    ("one long text as HTML", (*REPORT, "html"), 3000, lambda n: function("<é>" * n)),
    ("words with underscores", (*REPORT, "text"), 400, lambda n: function("_ " * n)),
    ("open brackets", (*REPORT, "text"), 500, lambda n: function("(<" * n)),
    ("names inside of names", (*REPORT, "text"), 400, lambda n: function("f() in " * n)),
    ("a class of brackets", (*REPORT, "text"), 500, lambda n: [finding(block={"class": "(." * n, "member": "x", "language": "swift"})]),
    ("symbols of members", (*REPORT, "text"), 30, next_uses),
    ("nested JSON", (*REPORT, "text"), 3000, lambda n: [nested(n)]),
    ("keys", (*REPORT, "json"), 200, lambda n: [finding(detail={f"k{m}": "v" for m in range(n)})]),
    ("beginnings of lines", (*REPORT, "text"), 400, lambda n: ['{"schema":"zguard.finding/1"' * n]),
    ("lines that are none", (*REPORT, "text"), 400, lambda n: ["x"] * n),
    ("threads of a crash", (*REPORT, "text"), 60, crash),
    ("samples of a stall", (*REPORT, "text"), 60, lambda n: stall([[frame(0, function=f"g{m}"), *numbered(3)] for m in range(n)])),
    ("a deep stall", (*REPORT, "text"), 200, lambda n: stall([numbered(n), numbered(n)[1:]])),
    ("changes of a count", (*REPORT, "text"), 60, changes),
    ("suppressed by patterns with many stars", ("report", "--suppressions", "RULES"), 500, lambda n: function("gaxyab" * n)),
    ("findings against rules", ("report", "--suppressions", "RULES"), 60, lambda n: [finding([frame(m, function=f"g{m}")]) for m in range(n)]),
    ("rules", ("report", "--suppressions", "INPUT", "ONE"), 60, lambda n: [f"use-after-free\n  function{m}*x\n" for m in range(n)]),
]


def write(path, parts):
    path.write_text("".join((part if isinstance(part, str) else json.dumps(part, separators=(",", ":"))) + "\n" for part in parts))


def command(how, place, parts):
    """Prepares a directory; returns the arguments of `zguard`."""
    (place / "rules").write_text(SUPPRESSIONS)
    write(place / "one.jsonl", [finding(numbered(3))])
    if how == REDACT:
        (place / "from").mkdir()
        (place / "to").mkdir()
        (place / "redact").write_text(RULES)
        write(place / "from" / "app-20260102T030405.678Z-5-0123abcd.jsonl", parts)
        return ["collect", "--quiet", "--from", place / "from", "--to", place / "to", "--redact", place / "redact"]
    write(place / "input", parts)
    places = {"INPUT": place / "input", "ONE": place / "one.jsonl", "RULES": place / "rules"}
    words = [places.get(word, word) for word in how]
    return words if "ONE" in how else [*words, place / "input"]


def count(zguard, how, parts):
    """Returns the instructions of one call, or an error."""
    with tempfile.TemporaryDirectory(prefix="zguard-linear-") as temporary:
        place = Path(temporary)
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", zguard, *command(how, place, parts)]
        result = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env=scrubbed(SWIFT_DETERMINISTIC_HASHING="1"), timeout=TIMEOUT_SECONDS)
        errors = result.stderr.decode(errors="replace")
        found = re.search(r"Collected : (\d+)", errors)
        if result.returncode not in (0, 1) or not found:
            return f"status {result.returncode}: {errors[-500:]}"
        if how == REDACT and not list((place / "to").glob("*.jsonl*")):
            return f"nothing was shipped: {errors[-500:]}"
        return int(found.group(1))


def measure(zguard, case):
    name, how, size, make = case
    counts = []
    for times in (1, 2, 4):
        try:
            counts.append(count(zguard, how, make(size * times)))
        except subprocess.TimeoutExpired:
            counts.append(f"over {TIMEOUT_SECONDS} s")
        if isinstance(counts[-1], str):
            return name, counts, [f"{times} times {size} parts: {counts[-1]}"]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    if second <= MOST_GROWTH * max(first, 0) + NOISE:
        return name, counts, []
    return name, counts, [f"{first:,} instructions from {size} to {2 * size} parts, {second:,} from {2 * size} to {4 * size}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="cases whose names contain this")
    parser.add_argument("--zguard", default=ZGUARD, type=Path, help="another zguard")
    parser.add_argument("--counts", action="store_true", help="show all counts")
    add_slice_option(parser)
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-linear-") as temporary:
        # valgrind cannot read zguard's debug information.
        stripped = Path(temporary) / "zguard"
        subprocess.run(["strip", "--strip-debug", "-o", str(stripped), str(arguments.zguard)], check=True)
        whole = [case for case in CASES if arguments.filter in case[0]]
        cases = arguments.slice.deal(whole)
        arguments.slice.say(len(cases), len(whole), "cases")
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for name, counts, problems in pool.map(lambda case: measure(stripped, case), cases):
                checks.check(name, problems)
                if arguments.counts:
                    print(f"{name}: {counts}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
