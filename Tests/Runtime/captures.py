#!/usr/bin/env python3
"""Compares the stacks that the runtime captures in real programs with libunwind's, and the time that both take.

Builds the library with the observer Tests/Runtime/Captures/compare_unwinder.c, runs compilers, interpreters and other programs with
it on the inputs of Benchmarks/targets.py, and prints one table. Fails if more than one in ten thousand captures is shorter than
libunwind's stack or has a different frame. Times are reported and never fail.
Closing line: N passed, N failed: one for each program, and two for the sums.

Columns: the source of a capture (stack cache, stack diff cache, or walk); the results of the compared captures:
  equal            equal to libunwind's stack; `by cursor`: equal to that of unw_step, but not to that of unw_backtrace
  longer           libunwind's stack ends earlier
  invented         libunwind's first additional frame is not code: in a function without unwind information it follows the
                   frame pointer register, whatever that holds
  generated        the capture ends where generated code begins, which libunwind crosses by frame pointers
  shorter, different   all others
and the times. libunwind's time covers the frames from malloc's caller outwards. The runtime's time includes the lookup of the
stack's id in the depot; `its depot` is the time of that lookup for libunwind's stack.
"""

import argparse
import json
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, close  # noqa: E402
from Support.environment import ROOT, TESTS, scrubbed  # noqa: E402

sys.path[:0] = [str(ROOT / "Benchmarks"), str(ROOT / "Tests" / "Programs")]
sys.dont_write_bytecode = True

import building  # noqa: E402
import programs  # noqa: E402
import targets  # noqa: E402
import tools  # noqa: E402
from cases import all_cases  # noqa: E402
from harness import Guard  # noqa: E402

OBSERVER = TESTS / "Runtime/Captures" / "compare_unwinder.c"
PROGRAMS = ("gcc", "clang++", "swiftc", "python3", "python3-malloc", "perl", "sqlite3", "git-log", "swift-program",
            "swift-workload", "containers")
GROUP = PROGRAMS[:6]
GROUP_NAME = "compilers and interpreters"
ANSWERS = ("cache", "trail", "walk")
VERDICTS = ("equal", "equal_to_cursor", "longer", "invented", "generated", "shorter", "different")
SUSPICIOUS = ("generated", "shorter", "different")
UNFIT_CASE = "limits"  # closes descriptors, and libunwind's pipe takes their numbers
MOST_SUSPECTS = 1e-4
LOGGED_SUSPECTS = 10
TIMEOUT = 900


def fail(text):
    sys.exit(f"captures: error: {text}")


def progress(text):
    print(f"captures: {text}", file=sys.stderr, flush=True)


# MARK: counters of a process


def count_names(table):
    """Returns the names of the counters in a table of the observer, in the order in which its files hold them."""
    body = re.search(rf"#define {table}\(X\)((?:.*\\\n)*.*\n)", OBSERVER.read_text()).group(1)
    return re.findall(r"X\((\w+)\)", body)


ANSWER_COUNTS, PROCESS_COUNTS = count_names("ANSWER_COUNTS"), count_names("PROCESS_COUNTS")
NAMES = [(answer, name) for answer in ANSWERS for name in ANSWER_COUNTS] + [("process", name) for name in PROCESS_COUNTS]


def read_counts(path):
    data = memoryview(path.read_bytes())
    if len(data) != 8 * len(NAMES):
        fail(f"{path.name} has {len(data)} bytes, not {8 * len(NAMES)}")
    return Counter(dict(zip(NAMES, data.cast("Q"))))


class Sums:
    """Sums of the counters of one or more processes. `ns` values are None if nothing was timed."""

    def __init__(self):
        self.counts = Counter()
        self.processes = defaultdict(Counter)  # key: program name without its version suffix

    def add_folder(self, folder):
        for path in folder.glob("*.counts"):
            counts = read_counts(path)
            self.counts.update(counts)
            self.processes[path.name.rsplit(".", 3)[0]].update(counts)

    def add(self, other):
        self.counts.update(other.counts)

    def of(self, name, answers=ANSWERS):
        return sum(self.counts[answer, name] for answer in answers)

    def process(self, name):
        return self.counts["process", name]

    def share(self, answer):
        return self.of("captures", [answer]) / max(1, self.of("captures"))

    def suspects(self):
        return sum(self.of(verdict) for verdict in SUSPICIOUS)

    def agreed(self):
        return self.of("equal") + self.of("equal_to_cursor")

    def depth(self):
        return self.of("frames") / max(1, self.of("compared"))

    def ns(self, ticks, events):
        clock = self.process("clock_ticks")
        return ticks * self.process("clock_ns") / clock / events if clock and events else None

    def ns_ours(self, answers=ANSWERS):
        return self.ns(self.of("ticks", answers), self.of("timed", answers))

    def ns_unwinder(self):
        return self.ns(self.process("unwinder_ticks"), self.process("unwinder_timed"))

    def ns_put(self):
        return self.ns(self.process("put_ticks"), self.process("unwinder_timed"))


# MARK: runs


class ObservedGuard(Guard):
    variables = {}

    def environment(self):
        return {**super().environment(), **self.variables}


class Runner:
    def __init__(self, work, options):
        self.work, self.options = work, options
        self.compilers = building.Compilers(with_asan=False)
        self.environment = scrubbed(LC_ALL="C.UTF-8", TZ="UTC", PYTHONHASHSEED="0", PERL_HASH_SEED="0")
        self.library = builds.library("captures")

    def prepare(self, target):
        folder = self.work / target.name
        folder.mkdir()
        target.build(self.compilers)
        target.prepare(folder, self.options.size)
        return folder

    def watch(self, mode, every, run):
        """Returns the sums over all processes that `run` starts under a guard, and the problems that `run` returns. Prints suspect
        captures to standard error."""
        counts, sums = Path(tempfile.mkdtemp(prefix=f"{mode}-", dir=self.work)), Sums()
        guard = ObservedGuard(preload=self.library)
        guard.variables = {"ZG_CAPTURES": str(counts), "ZG_CAPTURES_MODE": mode, "ZG_CAPTURES_EVERY": str(every),
                           "ZGUARD_OPTIONS": "stack_bytes=16g:stack_overhead=100%"}  # no stack is shortened
        problems = run(guard)
        sums.add_folder(counts)
        self.show_suspects(counts)
        shutil.rmtree(counts)
        return sums, problems

    def run_target(self, target, folder, guard):
        environment = {**self.environment, **target.environment, **guard.environment()}
        command = [str(word) for word in target.command(folder, self.options.size, "plain")]
        try:
            result = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return [f"not done after {TIMEOUT} s"]
        return [f"status {result.returncode}: {result.stderr.decode(errors='replace').strip()[-300:]}"] if result.returncode else []

    def show_suspects(self, counts):
        seen = Counter()
        for path in sorted(counts.glob("*.log")):
            for suspect in re.split(r"^(?=\S)", path.read_text(errors="replace"), flags=re.M)[1:]:
                kind = suspect.split(",")[0]
                seen[kind] += 1
                if seen[kind] <= LOGGED_SUSPECTS:
                    progress(f"{path.name.rsplit('.', 3)[0]}: {suspect.rstrip()}")


def found_problems(mode, sums):
    if sums.process("nested"):
        return [f"{mode}: {sums.process('nested')} captures while libunwind was at work"]
    if mode == "compare" and not sums.of("compared"):
        return ["nothing was compared"]
    return []


def run_target(runner, target):
    """Returns {mode: sums} and the problems."""
    if target.missing():
        return {}, [f"not installed: {', '.join(target.missing())}"]
    folder = runner.prepare(target)
    modes = {"compare": runner.options.every}
    if runner.options.alone:
        modes.update(ours=runner.options.alone, libunwind=runner.options.alone)
    found, problems = {}, []
    for mode, every in modes.items():
        found[mode], more = runner.watch(mode, every, lambda guard: runner.run_target(target, folder, guard))
        problems += more + found_problems(mode, found[mode])
    return found, problems


def run_case(runner, case):
    """Like run_target, for a case of Tests/Programs. The case runs plain and guarded, and must behave the same."""
    options = argparse.Namespace(tmp=runner.work, keep=False, verbose=False)
    sums, problems = runner.watch("compare", runner.options.every, lambda guard: programs.run_case(case, guard, options))
    return {"compare": sums}, problems + found_problems("compare", sums)


# MARK: the table


def shown(value, digits=0):
    return "" if value is None else f"{value:.{digits}f}"


def quotient(a, b):
    return a / b if a is not None and b else None


def percent(part, whole, digits):
    value = 100 * part / whole if whole else 0
    return f"{value if part == whole else min(value, 100 - 10 ** -digits):.{digits}f}"  # a part never rounds to 100 %


def row(name, found):
    sums = found["compare"]
    compared = sums.of("compared")
    ours, theirs = sums.ns_ours(), sums.ns_unwinder()
    cells = [name, shown(sums.depth(), 1), f"{sums.of('captures'):,}", *(percent(sums.share(answer), 1, 1) for answer in ANSWERS),
             f"{compared:,}", percent(sums.agreed(), compared, 4),
             *(f"{sums.of(verdict):,}" for verdict in VERDICTS[1:]),
             *(shown(sums.ns_ours([answer])) for answer in ANSWERS), shown(ours), shown(theirs), shown(quotient(ours, theirs), 2)]
    if "ours" in found:
        alone, their_own, put = found["ours"].ns_ours(), found["libunwind"].ns_unwinder(), found["libunwind"].ns_put()
        cells += [shown(alone), shown(their_own), shown(quotient(alone, their_own), 2), shown(put)]
    return "| " + " | ".join(cells) + " |"


def merged(results, names):
    found = {}
    for name in names:
        for mode, sums in results.get(name, {}).items():
            found.setdefault(mode, Sums()).add(sums)
    return found


def markdown(results, notes):
    heads = ["program", "mean depth", "captures", "cache %", "trail %", "walk %", "compared", "equal %", "of these by cursor",
             *VERDICTS[2:], "cache ns", "trail ns", "walk ns", "ours ns", "libunwind ns", "ratio"]
    if any("ours" in found for found in results.values()):
        heads += ["ours alone ns", "libunwind alone ns", "ratio", "its depot ns"]
    lines = [f"- {name}: {value}" for name, value in notes]
    lines += ["", "| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    lines += [row(name, found) for name, found in results.items()]
    group = [name for name in GROUP if name in results]
    if len(group) > 1:
        lines.append(row(f"**{GROUP_NAME}**", merged(results, group)))
    lines.append(row("**all**", merged(results, results)))
    if len(group) > 1:
        ratios = [quotient(results[name]["compare"].ns_ours(), results[name]["compare"].ns_unwinder()) for name in group]
        if all(ratios):
            lines += ["", f"Geometric mean of the ratios, {GROUP_NAME}: {statistics.geometric_mean(ratios):.2f}."]
    return "\n".join(lines) + "\n"


def as_json(found):
    def values(counts):
        return {part: {name: counts[part, name] for at, name in NAMES if at == part} for part in (*ANSWERS, "process")}

    return {mode: {"ns_ours": sums.ns_ours(), "ns_by_answer": {answer: sums.ns_ours([answer]) for answer in ANSWERS},
                   "ns_libunwind": sums.ns_unwinder(), "ns_libunwind_depot": sums.ns_put(), "depth": sums.depth(),
                   "counts": values(sums.counts), "processes": {name: values(counts) for name, counts in sums.processes.items()}}
            for mode, sums in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the work, a million comparisons")
    parser.add_argument("--size", metavar="FACTOR", type=float, help="so much of the work (default 1)")
    parser.add_argument("--least", metavar="N", type=int, help="comparisons that must be made (default 10 million)")
    parser.add_argument("--only", metavar="NAME", action="append", help="only this program (repeatable)")
    parser.add_argument("--cases", metavar="TEXT", action="append", default=[],
                        help="also the cases of Tests/Programs whose name contains TEXT, '' for all (repeatable)")
    parser.add_argument("--every", metavar="K", type=int, default=1, help="compare every K-th capture only")
    parser.add_argument("--alone", metavar="K", type=int, default=0,
                        help="also time every K-th capture in runs where only the runtime, and only libunwind, takes stacks")
    parser.add_argument("--json", metavar="OUT", help="write all counts there")
    parser.add_argument("--markdown", metavar="OUT", help="write the table there, too")
    options = parser.parse_args()
    size, least = (0.05, 1_000_000) if options.quick else (1.0, 10_000_000)
    options.size = size if options.size is None else options.size
    options.least = least if options.least is None else options.least
    known = {target.name: target for target in targets.all_targets()}
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        fail(f"no program is called '{unknown[0]}'")
    chosen = [known[name] for name in options.only or PROGRAMS]
    cases = [case for case in all_cases() if case.name != UNFIT_CASE and any(text in case.name for text in options.cases)]

    results, passed, failed, started = {}, 0, 0, time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="zguard-captures-"))
    try:
        try:
            runner = Runner(work, options)
        except Failed as failure:
            fail(failure)
        steps = [(target.name, run_target, target) for target in chosen]
        steps += [(f"case {case.name}", run_case, case) for case in cases]
        for name, run, what in steps:
            begin = time.monotonic()
            found, problems = run(runner, what)
            if found:
                results[name] = found
            passed, failed = passed + (not problems), failed + bool(problems)
            print(f"{'FAIL' if problems else 'pass'}   {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            for problem in problems:
                print(f"       {problem}")
    finally:
        shutil.rmtree(work, ignore_errors=True)

    versions = {tools.program_version(target.needs[0]) for target in chosen if target.needs and not target.missing()}
    notes = tools.machine() + [("programs", "; ".join(sorted(versions)) or "none"),
                               ("command", "`Tests/Runtime/captures.py " + shlex.join(sys.argv[1:]) + "`"),
                               ("date", time.strftime("%Y-%m-%d"))]
    page = markdown(results, notes)
    print("\n" + page)
    if options.markdown:
        Path(options.markdown).write_text(page)
    total = merged(results, results).get("compare", Sums())
    if options.json:
        document = {"notes": dict(notes), "programs": {name: as_json(found) for name, found in results.items()},
                    "total": as_json({"compare": total})}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    compared, suspects = total.of("compared"), total.suspects() + total.process("unreached")
    for holds, text in ((compared >= options.least, f"{compared:,} captures compared, at least {options.least:,} are wanted"),
                        (suspects <= MOST_SUSPECTS * compared,
                         f"{suspects:,} of them {', '.join(SUSPICIOUS)}, or out of libunwind's reach, at most {MOST_SUSPECTS:.2%} may be")):
        passed, failed = passed + holds, failed + (not holds)
        print(f"{'pass' if holds else 'FAIL'}   {text}")
    print(f"{time.monotonic() - started:.0f} s")
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
