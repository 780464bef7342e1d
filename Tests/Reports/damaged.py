#!/usr/bin/env python3
"""Fuzzes zguard with damaged reports: reports of real runs with bytes flipped, cut off, doubled and replaced, in all formats.

No call ends by a signal, takes more than 2 seconds of CPU time, or more than 200 MB of memory. The damage follows from the report's number
alone, so that --only repeats the damage. With an unoptimized zguard (a debug build, recognized by its size) calls may take 5 times as long.
Closing line: N passed, N failed."""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402

MOST_SECONDS = 2
DEBUG_FACTOR = 5
MOST_MEMORY_KIB = 200_000_000 // 1024
# Time limit after which a hanging call is killed; CPU time is checked separately.
HANGS_SECONDS = 120

BUGS = ["use-after-free/plain.c", "double-free/plain.c", "heap-overflow/plain.c", "write-after-free/plain.c", "invalid-free/plain.c"]


def real_lines(place):
    """Returns lines of real runs (raw and finished findings, crashes, run records) followed by made-up lines with other fields and schemas;
    and the number of the real lines."""
    lines = []
    chosen = []
    for kind in sorted((TESTS / "Bugs").iterdir()):
        programs = sorted(kind.glob("*.c")) if kind.is_dir() else []
        chosen += programs[:1]
    for number, source in enumerate(chosen):
        program = place / f"bug-{number}"
        built = subprocess.run(["gcc", "-g", "-O0", "-pthread", "-I", TESTS / "Bugs", "-o", program, source, "-lm"], capture_output=True)
        if built.returncode:
            continue
        report = place / f"report-{number}"
        words = [ZGUARD, "run", "--quiet", "--collect", "crashes", "--format", "json", "--report", report, "--", program]
        subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, timeout=HANGS_SECONDS, env=scrubbed())
        if report.exists():
            lines += report.read_text(errors="replace").splitlines()
        raw = place / f"raw-{number}"
        subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, timeout=HANGS_SECONDS,
                       env=scrubbed(LD_PRELOAD=str(LIBRARY), ZGUARD_OPTIONS=f"report_path={raw}"))
        if raw.exists():
            lines += raw.read_text(errors="replace").splitlines()
    found = len(lines)
    frames = [{"pc": hex(n + 1), "module": "/nowhere/lib.so", "offset": hex(n), "function": f"f{n}", "file": "/a/b.c", "line": n} for n in range(5)]
    base = {"schema": "zguard.finding/1", "kind": "stall", "access": "unknown", "count": 2, "pid": 5, "program": "/bin/x",
            "time": "2026-01-02T03:04:05.678Z", "stacks": {"access": frames, "free": frames, "alloc": []}}
    more = [
        {**base, "duration_ms": 900, "occurrences": 3, "samples": 4, "call": "futex", "threshold_ms": 100, "sampled": [
            {"count": 3, "stack": frames}, {"count": 1, "stack": frames[2:]}],
         "holder": {"id": 2, "tid": 3, "name": "worker", "stack": frames}},
        {**base, "kind": "use-after-free", "access": "retain", "block": {
            "start": "0x7f00", "size": 48, "offset": 16, "state": "quarantined", "class": "Shop.Cart", "member": "add(_:)", "language": "swift",
            "class_symbol": "_ZTIN4shop4CartE", "bases": ["Shop.Base"], "next": [{"access": "call", "member_symbol": "$s4Shop4CartC3addyySiF"}]},
         "history": [{"event": "retain", "strong": 2, "thread": 1, "stack": frames}, {"event": "release", "strong": 1, "thread": 2, "stack": frames}]},
        {"schema": "zguard.run/1", "program": "/bin/x", "pid": 7, "signal": "SIGKILL", "status": 137, "seconds": 3.2, "how": "killed"},
        {"schema": "zguard.unfinished/1", "has_begun": 1, "directory": "/tmp/zguard-nowhere"},
        {"schema": "zguard.timeline/1", "time": "2026-01-02T03:04:05.678Z", "pid": 5, "live_bytes": 1000, "quarantine_bytes": 50, "live_blocks": 3},
    ]
    return lines + [json.dumps(line, separators=(",", ":")) for line in more], found


NUMBERS = ["-1", "0", "-0", "1e400", "1E-400", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "1" * 400, "0.1", "+5", "0x10",
           "1e5", "NaN", "-Infinity", "00", "1.", "99999999999999999999"]
VALUES = ["null", "true", "[]", "{}", '""', '"x"', "[[]]", "[null]", '{"a":1}', '"0x"', '"0x+1f"', '"0xffffffffffffffff"', '"\\u0000"', '"\\ud800"', '"\\u001b[2J"']


def some_value(random_, depth=0):
    choice = random_.randrange(9)
    if choice == 0:
        return random_.choice(NUMBERS)
    if choice == 1:
        return "[" * (count := random_.choice([3, 100, 511, 512, 513, 5000, 200_000])) + "]" * count
    if choice == 2:
        return '{"a":' * (count := random_.choice([3, 100, 511, 512, 5000, 100_000])) + "1" + "}" * count
    if choice == 3:
        return '"' + random_.choice(["user", "(", "<", "_ ", "f() in ", ".1", "/a", "a", "é́", "::", "\\u202e", "operator<"]) * random_.choice([10, 5000, 100_000]) + '"'
    if choice == 4:
        return "{" + ",".join(f'"k{n}":"v"' for n in range(random_.choice([3, 1000, 30_000]))) + "}"
    if choice == 5:
        return "[" + ",".join(['"x"', "0", "{}", '{"pc":"0x1"}'][random_.randrange(4)] for _ in range(random_.choice([3, 1000, 50_000]))) + "]"
    if choice == 6:
        return '"' + doubled(random_.choice([5, 25, 60]), random_.random() < 0.5) + '"'
    return random_.choice(VALUES)


def doubled(levels, is_swift):
    """Returns a mangled symbol whose expansion doubles with each level."""
    if is_swift:
        levels = min(levels, 20)
        return "$s1M1fyyAA1PVy" + "ADy" * levels + "S2iG" + "".join(f"A{chr(ord('E') + n)}G" for n in range(levels)) + "F"
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    number = (lambda n: digits[n] if n < 36 else digits[n // 36] + digits[n % 36])
    return "_Z1f1aIiiE" + "".join(f"S_IS{number(n)}_S{number(n)}_E" for n in range(levels))


def values_of(node, path=()):
    """Yields the paths of all values in a document."""
    yield path
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in entries:
        yield from values_of(child, (*path, key))


def swapped(random_, line):
    """Returns a line of JSON with one or several values replaced by arbitrary text."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return line
    marks = []
    for _ in range(random_.choice([1, 1, 1, 2, 5])):
        path = random_.choice([path for path in values_of(document) if path] or [()])
        if not path or path[-1:] == ("schema",) and random_.random() < 0.9:
            continue
        node = document
        for key in path[:-1]:
            node = node[key]
        marks.append((f'"@{len(marks)}@"', some_value(random_)))
        node[path[-1]] = f"@{len(marks) - 1}@"
    text = json.dumps(document, separators=(",", ":"))
    for mark, value in marks:
        text = text.replace(mark, value)
    return text


def damaged(number, lines):
    """Returns the bytes of the report with this number."""
    random_ = random.Random(number)
    chosen = [random_.choice(lines) for _ in range(random_.choice([1, 2, 5, 20]))]
    for _ in range(random_.choice([0, 1, 1, 3])):
        place = random_.randrange(len(chosen))
        chosen[place] = swapped(random_, chosen[place])
    report = bytearray("\n".join(chosen).encode(errors="surrogatepass") + (b"" if random_.random() < 0.2 else b"\n"))
    for _ in range(random_.choice([0, 1, 1, 2, 10])):
        at = random_.randrange(len(report) + 1)
        choice = random_.randrange(10)
        if choice == 0:
            for _ in range(random_.choice([1, 20])):
                spot = random_.randrange(len(report))
                report[spot] ^= 1 << random_.randrange(8)
        elif choice == 1:
            del report[at:]
        elif choice == 2:
            del report[at:at + random_.choice([1, 10, 1000])]
        elif choice == 3:
            part = report[at:at + random_.choice([1, 30, 3000])]
            report[at:at] = part * random_.choice([1, 3, 50])
        elif choice == 4:
            report[at:at] = random_.choice([b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r", b"\n", b"\x1b", b"\xef\xbb\xbf", b'"', b"\\"]) \
                * random_.choice([1, 3, 100_000])
        elif choice == 5:
            report[at:at] = bytes(random_.randrange(256) for _ in range(random_.choice([1, 100])))
        elif choice == 6:
            report[at:at] = random_.choice([b"[", b'{"schema":"zguard.finding/1"', b"x"]) * random_.choice([10, 10_000, 300_000])
        elif choice == 7:
            report = report.replace(b"\n", b"")
        elif choice == 8:
            text = report.decode(errors="replace")
            places = [index for index, letter in enumerate(text) if letter.isdigit()]
            if places:
                spot = random_.choice(places)
                report = bytearray((text[:spot] + random_.choice(NUMBERS) + text[spot + 1:]).encode())
        elif len(report) < 1 << 20:
            report *= random_.choice([2, 30])
        report = report[:6 << 20] or bytearray(b"\n")
    return bytes(report)


def call(words):
    """Returns exit status, CPU seconds, KiB of memory and the end of standard error of a call. Memory counts from the fork on, so the
    forking process must be small."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=scrubbed(), preexec_fn=limit)
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        errors.seek(0)
        return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, errors.read()[-300:]


class Damaged:
    def __init__(self, work, lines, seconds, callers):
        self.work, self.lines, self.seconds, self.callers = work, lines, seconds, callers
        self.rules = work / "redact"
        self.rules.write_text("replace user usr\nreplace /home/*/ ~/\nreplace a*b*c x\ndrop thread pid\n")
        self.suppressions = work / "suppressions"
        self.suppressions.write_text("use-after-free\n  nothing*a*b*\n\nheap-overflow\n  ...\n  *x*y*z\n")

    def call(self, words):
        """Yields the problems of a call."""
        status, seconds, memory, errors = self.callers.submit(call, [str(word) for word in words]).result()
        what = " ".join(str(word) for word in words[1:])
        if status < 0:
            yield f"ended by {signal.Signals(-status).name} after {seconds:.1f} s: {what}: {errors!r}"
        elif seconds > self.seconds:
            yield f"took {seconds:.1f} s: {what}"
        if memory > MOST_MEMORY_KIB:
            yield f"took {memory >> 10} MiB: {what}"

    def problems(self, number):
        place = self.work / f"{number}"
        place.mkdir()
        report = place / "app-20260102T030405.678Z-5-0123abcd.jsonl"
        report.write_bytes(damaged(number, self.lines))
        problems = []
        for form in ("text", "json", "html", "junit") if number % 8 == 0 else (("text", "json", "html", "junit", "sarif", "github")[number % 6],):
            problems += self.call([ZGUARD, "report", "--format", form, *(["--suppressions", self.suppressions] if number % 2 else []),
                                   *(["--full"] if number % 5 == 0 else []), report])
        if number % 7 == 0:
            problems += self.call([ZGUARD, "report", "--suggest", report])
        target = place / "to" if number % 3 else f"sqlite:{place}/to.sqlite"
        if number % 3:
            target.mkdir()
        problems += self.call([ZGUARD, "collect", "--quiet", "--from", place, "--to", target, *(["--redact", self.rules] if number % 2 else [])])
        # `zguard serve` makes its pages of collected reports with the same code.
        problems += self.call([ZGUARD, "report", "--format", "html", target])
        if problems and len(self.lines) and os.environ.get("KEEP_DAMAGED"):
            shutil.copy(report, Path(os.environ["KEEP_DAMAGED"]) / f"damaged-{number}.jsonl")
        shutil.rmtree(place)
        return number, problems


def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (HANGS_SECONDS, HANGS_SECONDS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=150, help="how many (default: 150)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", type=int, help="this one alone")
    parser.add_argument("--debug", action="store_true", help="zguard was not optimised")
    arguments = parser.parse_args()
    # A release build contains Swift's libraries, so it is larger.
    is_debug = arguments.debug or ZGUARD.stat().st_size < 30 << 20
    numbers = [arguments.only] if arguments.only is not None else range(arguments.first, arguments.first + arguments.reports)
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-damaged-") as temporary:
        work = Path(temporary)
        lines, found = real_lines(work)
        checks.check("real reports", [] if found >= 10 else [f"the programs have written {found} lines only"])
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as callers, \
                concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            callers.submit(call, ["true"]).result()  # forks the workers before this process grows
            run = Damaged(work, lines, MOST_SECONDS * (DEBUG_FACTOR if is_debug else 1), callers)
            for number, problems in pool.map(run.problems, numbers):
                checks.check(f"report {number}", problems)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
