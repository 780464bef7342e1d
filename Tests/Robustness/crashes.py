#!/usr/bin/env python3
"""Tests crashes of all kinds in guarded programs, mostly at random moments, and programs killed while they report.
A fault ends in a complete report or in the program's own crash, never in a hang. The program's own signal handlers act as they do without
the library. Findings announced before a kill can be read afterwards.
Each case follows from the seed and its number, so that `--seed S --only N` repeats it. Closing line: N passed, N failed."""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Robustness/Crashes"
PROGRAMS = builds.BUILD / "crashes"
DEADLINE_SECONDS = 30

# Faults that occur without the library, too: an unguarded run gives the expected status.
SEGMENT = ["null", "wild", "garbage", "protected", "libc", "jump-null", "jump-wild", "jump-garbage", "jump-data", "bus", "overflow",
           "stack-garbage"]
OTHER = ["illegal", "divide", "abort", "sent"]
# Errors that only the library detects, each with the kind of its finding and a fault that ends the program in the same way.
FREED = {"freed-read": ("use-after-free", "wild"), "freed-write": ("use-after-free", "wild"), "freed-call": ("use-after-free", "wild"),
         "freed-jump": ("use-after-free", "wild"), "freed-pointer": ("use-after-free", "wild"),
         "freed-large": ("use-after-free", "wild"), "beyond": ("heap-overflow", "wild"),
         "free-twice": ("double-free", "abort"), "free-inside": ("invalid-free", "abort")}
PLACES = ["main", "thread", "tiny", "coroutine", "signal", "blocked", "child", "exit", "unload", "key", "forking", "all"]
HANDLERS = ["default", "default", "default", "exit", "jump", "fix", "reset", "again", "ignore"]
SHORT = ["none"] * 8 + ["memory", "data", "files", "no-files", "size", "disk", "processes"]
OWN_KINDS = {"null-access", "wild-access", "stack-overflow"}
BLOCK_BYTES, LARGE_BYTES = 48, 2 << 20

Result = collections.namedtuple("Result", "status output errors hung")


def chosen(seed, number):
    """Returns case `number`: arguments for the program, and how to run it."""
    chance = random.Random(f"{seed}-{number}")
    case = {"number": number, "seed": chance.randrange(1 << 31), "to": chance.choice(["file", "file", "file", "terminal"]),
            "options": chance.choice(["", "", "profile=fence", "protect=mprotect", "isolated_per_context=0", "stack_depth=0"])}
    kind = chance.random()
    if kind < 0.35:
        case |= {"program": "storm", "what": chance.choice(["sent", "page", "heap", "code", "scribble", "trace", "trace", "touch"]),
                 "where": chance.choice(["heap", "reports", "forks"]), "handler": chance.choice(["default", "default", "exit"]), "short": "none"}
        if case["where"] == "reports" or chance.random() < 0.3:
            case["options"] += ":on_finding=continue"
    else:
        case |= {"program": "fault", "what": chance.choice(SEGMENT * 2 + OTHER + list(FREED) * 2), "where": chance.choice(PLACES),
                 "handler": chance.choice(HANDLERS), "short": chance.choice(SHORT)}
        if chance.random() < 0.2:
            case["options"] += ":on_finding=continue"
        if case["what"] not in FREED and chance.random() < 0.1:
            case["options"] = chance.choice(["profile=sample", "overhead=5%", "handle_signals=0"])
    return case


def kinds_of(case):
    """Returns the kinds that a case belongs to. Each slice contains at least one case of every kind."""
    return [(key, case["program"], case[key]) for key in ("what", "where", "handler", "short", "options")]


def words_of(case, folder, what=None):
    words = [PROGRAMS / case["program"], what or case["what"], case["where"], case["handler"]]
    words += [case["short"], case["seed"], PROGRAMS / "unload.so"] if case["program"] == "fault" else [case["seed"]]
    return [str(word) for word in words]


def describe(case):
    how = " ".join(str(case[key]) for key in ("program", "what", "where", "handler", "short", "seed"))
    return f"case {case['number']}: {how}, report to a {case['to']}, options '{case['options']}'"


def stacks_of(group):
    """Returns the state of each process of a process group, and where its threads wait, to diagnose a hang; with gdb also their stacks."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) != group:
                continue
            lines.append(f"process {entry.name}, state {fields[0]}:")
            for task in (entry / "task").iterdir():
                lines.append(f"  thread {task.name}: {(task / 'wchan').read_text()} {(task / 'syscall').read_text().strip()}")
        except (OSError, ValueError, IndexError):
            continue
        if shutil.which("gdb"):
            try:
                found = subprocess.run(["gdb", "-p", entry.name, "-batch", "-ex", "thread apply all bt 12"], capture_output=True,
                                       text=True, timeout=60, errors="replace", stdin=subprocess.DEVNULL)
                lines += [line for line in found.stdout.splitlines() if line.startswith(("#", "Thread"))]
            except subprocess.SubprocessError:
                pass
    return lines


def run(words, environment, folder):
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                               cwd=folder, start_new_session=True)
    hung = []
    try:
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        hung = ["it hangs:"] + stacks_of(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    try:
        os.killpg(process.pid, signal.SIGKILL)  # kill remaining children
    except ProcessLookupError:
        pass
    return Result(process.returncode, output, errors, hung)


def findings_of(data, may_be_cut, may_end_cut):
    """Returns the findings in a report's bytes, and problems with their format."""
    *lines, rest = data.split(b"\n")
    found, problems = [], []
    if rest and not may_end_cut:
        problems.append(f"the report ends in half a line: {rest[-80:]!r}")
    for line in lines:
        try:
            finding = json.loads(line)
            if finding["schema"] != "zguard.finding/1" or not isinstance(finding["stacks"]["access"], list):
                raise ValueError
            found.append(finding)
        except (ValueError, KeyError):
            if not may_be_cut:
                problems.append(f"a line of the report is torn: …{line[-80:]!r}")
    return found, problems


def texts_of(errors):
    """Returns the findings on standard error, as kind and block size, and problems with their format."""
    lines = errors.decode(errors="replace").splitlines()
    heads = [line for line in lines if line.startswith("==zguard== ") and " at 0x" in line]
    ends = [line for line in lines if line == "==zguard== for function names, run the program with 'zguard run'"]
    problems = []
    if len(heads) != len(ends):
        problems.append(f"{len(heads)} findings begin on standard error, {len(ends)} end: {lines[-3:]}")
    if any(not line.endswith("]") for line in heads):
        problems.append(f"half a headline: {heads}")
    found = []
    for head in heads:
        size = re.search(r" block of (\d+) ", head)
        if " block of " in head and not size:
            problems.append(f"half a headline, and another: {head}")
        found.append({"kind": head.split()[1], "block": {"size": int(size[1]) if size else None}})
    return found, problems


class Crashes:
    def __init__(self, folder, library, seed):
        self.folder, self.library, self.seed = folder, library, seed
        self.environment = scrubbed()
        self.disk = folder / "disk"
        self.statistics = collections.Counter()
        self.lock = threading.Lock()

    def report_path(self, case):
        if case["short"] == "disk":
            return Path("/dev/full")  # every write there fails with ENOSPC
        return self.folder / f"report-{case['number']}"

    def guarded(self, case):
        options = [case["options"]]
        path = self.report_path(case)
        if case["to"] == "file":
            options.append(f"report_path={path}")
        environment = {**self.environment, "ZGUARD_OPTIONS": ":".join(option for option in options if option)}
        environment["GUARD" if case["what"] == "trace" else "LD_PRELOAD"] = str(self.library)
        result = run(words_of(case, self.folder), environment, self.folder)
        data = b""
        if case["to"] == "file" and path.is_file():
            data = path.read_bytes()
            path.unlink()
        return result, data

    def try_case(self, case):
        result, data = self.guarded(case)
        if result.hung:
            return result.hung
        # RLIMIT_FSIZE cuts lines. The last line may also be cut if the process exits from a handler, or if the fault was a changed
        # register, overwritten memory, or an inaccessible page.
        at_once = case["program"] == "storm" and (result.status >= 0 or case["what"] in ("trace", "scribble", "code", "page", "heap"))
        may_be_cut = case["short"] == "size"
        found, problems = findings_of(data, may_be_cut, may_be_cut or at_once)
        texts, more = texts_of(result.errors)
        problems += more if case["short"] != "size" or case["to"] == "terminal" else []
        # A tracer corrupts a register of one or two threads. If such a thread is writing a finding, the finding is incomplete.
        if case["what"] == "trace" and len(problems) <= 2:
            problems = []
        found += texts
        with self.lock:
            self.statistics["faults"] += 1
            self.statistics["findings"] += len(found)
            self.statistics[f"{case['program']} {case['what']}"] += 1
            self.statistics["deaths"] += result.status < 0
        (self.judge_storm if case["program"] == "storm" else self.judge_fault)(case, result, found, problems)
        return problems

    def judge_fault(self, case, result, found, problems):
        what, handler = case["what"], case["handler"]
        kind, as_if = FREED.get(what, (None, what))
        own = run(words_of(case, self.folder, as_if), self.environment, self.folder)
        problems += ["without the library: " + line for line in own.hung]
        kinds = {finding["kind"] for finding in found}
        goes_on = "on_finding=continue" in case["options"]
        allowed = {own.status}
        if kind:
            # The runtime may restore the contents or make the pages accessible, so the program continues. Likewise nothing faults if the
            # kernel refused to protect the pages.
            if goes_on or "isolated_per_context=0" in case["options"] or case["short"] in ("memory", "data"):
                allowed |= {0, -signal.SIGSEGV, 20 + signal.SIGSEGV}
            if case["where"] == "all":
                # All other threads find the block freed already.
                allowed |= {-signal.SIGSEGV, -signal.SIGABRT}
        if case["handler"] == "fix" and case["short"] in ("memory", "data"):
            allowed.add(75)
        if what == "overflow":
            # On the last stack page the kernel has no room for a signal frame; a handler called from the runtime's handler may have room.
            allowed |= {76, 77, 78} | ({-signal.SIGSEGV} if case["where"] == "all" else set())
        if (what, case["where"]) == ("stack-garbage", "all"):
            allowed |= {76, 77, 78} # the runtime's alternate stack serves threads that have none of their own
        if case["where"] == "all" and handler == "again":
            allowed |= {70, 76} # which thread faults again, and with which signal information, is random
        # If all threads fault at once, the order of the faults is random, without the library as well.
        for _ in range(100 if case["where"] == "all" else 0):
            if result.status in allowed:
                break
            allowed.add(run(words_of(case, self.folder, as_if), self.environment, self.folder).status)
        if result.status not in allowed:
            problems.append(f"status {result.status}, without the library {own.status}: {result.errors[-300:]!r}")
        if kind:
            sizes = {finding["block"].get("size") for finding in found if finding["kind"] == kind and finding.get("block")}
            expected = LARGE_BYTES if what == "freed-large" else BLOCK_BYTES
            reached = own.status not in (60, 61, 62, 20 + 60)
            if reached and expected not in sizes and self.must_be_found(case):
                problems.append(f"no {kind} of a block of {expected} bytes, but {[(f['kind'], f.get('block')) for f in found]}")
            return
        # A coroutine's stack is a block: an overflow touches the memory in front of the block.
        in_block = {"heap-overflow", "use-after-free", "write-after-free"} if (what, case["where"]) == ("overflow", "coroutine") else set()
        if not kinds <= OWN_KINDS | in_block:
            problems.append(f"a false finding: {kinds}")
        if found and own.status >= 0 and own.status < 20:
            problems.append(f"a finding, and the program goes on: {kinds}")
        # A thread whose blocks all bypass the guard gets no thread state and no alternate signal stack.
        has_no_stack = what in ("overflow", "stack-garbage") and case["options"] == "profile=sample"
        if what in SEGMENT and handler == "default" and not found and not has_no_stack and case["options"] != "handle_signals=0" and own.status != 60 and \
                case["short"] in ("none", "files", "processes") and case["where"] != "blocked" and own.status not in (60, 61, 62):
            problems.append("the program died of a fault, and there is no report")

    @staticmethod
    def must_be_found(case):
        if case["short"] in ("size", "disk") and case["to"] == "file" or case["where"] == "blocked" and FREED[case["what"]][1] == "wild":
            return False
        if case["short"] in ("memory", "data") and FREED[case["what"]][1] == "wild":
            return False
        return "isolated_per_context=0" not in case["options"] or case["what"] in ("free-twice", "free-inside", "freed-large", "freed-pointer")

    def judge_storm(self, case, result, found, problems):
        what = case["what"]
        deaths = {-signal.SIGSEGV, -signal.SIGBUS}
        if what in ("trace", "scribble", "code"):
            # Corrupted memory may end the program in any way: its own or libc's checks, an invalid instruction, an exit.
            if what == "trace" and result.status in (60, 61, 62, 63, 64, 127):
                problems.append(f"status {result.status}: {result.errors[-300:]!r}")
            return
        allowed = deaths | {0} | ({77} if case["handler"] == "exit" else set())
        if what == "touch" or case["where"] == "reports" and "continue" not in case["options"]:
            allowed.add(-signal.SIGABRT)
        if result.status not in allowed:
            problems.append(f"status {result.status}: {result.errors[-300:]!r}")
        kinds = {finding["kind"] for finding in found} - ({"double-free"} if case["where"] == "reports" else set())
        if what in ("sent", "page") and not kinds <= OWN_KINDS:
            problems.append(f"a false finding: {kinds}")
        if what == "sent" and kinds:
            problems.append(f"a signal that was sent is no finding: {kinds}")


# --- killed while it reports ----------------------------------------------------------------------------------------------


class Kills:
    """Guarded programs that report continuously and are killed at a moment given by the seed. The moment is a number of findings, so that
    a slow machine, too, is reporting when the kill comes."""

    routes = ["file", "file", "file", "each", "terminal", "run", "run-file", "run-store"]
    processes, threads, findings = 3, 2, 30

    def __init__(self, folder, library, zguard, seed):
        self.folder, self.library, self.zguard, self.seed = folder, library, zguard, seed
        self.environment = scrubbed(ZGUARD_LIBRARY=str(library), TMPDIR=str(folder))
        self.phases = {route: collections.Counter() for route in self.routes}
        self.announced = self.readable = self.cut = 0
        self.lock = threading.Lock()

    def start(self, route, place):
        program = [str(PROGRAMS / "reporter"), str(self.processes), str(self.threads), str(self.findings)]
        environment, words = dict(self.environment), program
        if route.startswith("run"):
            where = {"run": [], "run-file": ["--report", str(place / "report.jsonl")], "run-store": ["--report", f"{place}/store/"]}[route]
            words = [str(self.zguard), "run", *where, "-o", "on_finding=continue", "-o", "error_text=headline", "--", *program]
        else:
            path = {"file": f":report_path={place}/report.jsonl", "each": f":report_path={place}/%p.jsonl", "terminal": ""}[route]
            environment |= {"LD_PRELOAD": str(self.library), "ZGUARD_OPTIONS": f"on_finding=continue{path}"}
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=open(place / "announced", "wb"), stderr=open(place / "errors", "wb"),
                                env=environment, cwd=place, start_new_session=True)

    def wait_for_moment(self, process, place, chance):
        """Waits until a random moment: one in ten is before the first announced finding, one in ten after the last."""
        share = chance.uniform(-0.125, 1.125)
        wanted = share * self.processes * self.threads * self.findings
        end = time.monotonic() + 4 * DEADLINE_SECONDS
        while wanted > 0 and process.poll() is None and time.monotonic() < end:
            if (place / "announced").read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 0.003 if wanted > 0 else 0.015))

    def try_moment(self, number):
        """Returns a list of problems."""
        chance = random.Random(f"{self.seed}-kill-{number}")
        route = chance.choice(self.routes)
        place = self.folder / f"kill-{number}"
        place.mkdir()
        process = self.start(route, place)
        self.wait_for_moment(process, place, chance)
        victim = chance.choice(["all", "all", "first", "another"])
        seen = self.lines_in(place) if route.startswith("run-") else None
        ended_before = process.poll() is not None
        self.kill(process, victim)
        status = process.wait(timeout=DEADLINE_SECONDS)
        if victim != "all":
            self.wait_for_rest(process.pid)
        problems = self.judge(route, place, seen, status, ended_before, victim)
        shutil.rmtree(place)
        return problems

    def kill(self, process, victim):
        """Kills all processes ("all"), a child of the started process ("another"), or the started process."""
        target = process.pid
        if victim == "another":
            try:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                target = int(children[0]) if children else target
            except OSError:
                pass
        try:
            if victim == "all":
                os.killpg(process.pid, signal.SIGKILL)
            elif process.poll() is None:
                os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass

    @staticmethod
    def wait_for_rest(group):
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.002)
        os.killpg(group, signal.SIGKILL)
        raise subprocess.TimeoutExpired("the rest of the group", DEADLINE_SECONDS)

    @staticmethod
    def reports_in(place):
        return [path for path in [*place.glob("*.jsonl"), *place.glob("store/[0-9]*.jsonl")] if path.is_file()]

    def lines_in(self, place):
        try:
            return {line for path in self.reports_in(place) for line in path.read_bytes().split(b"\n")[:-1]}
        except FileNotFoundError:
            return set()

    def judge(self, route, place, seen, status, ended_before, victim):
        problems = []
        announced = collections.Counter((place / "announced").read_bytes().split(b"\n")[:-1])
        errors = (place / "errors").read_bytes()
        cut = 0
        if route in ("terminal", "run"):
            texts = errors.decode(errors="replace")
            # On the headline's line, partial output of another process that was killed may come first.
            readable = collections.Counter(number.encode() for number in re.findall(r"==zguard== double-free \([^=\n]*\[pid (\d+)\]$", texts, re.M))
            total = texts.count("==zguard== double-free")
            # Each process completes its texts; only the last text of a killed process may be incomplete.
            if route == "terminal" and sum((announced - readable).values()):
                torn = [line[:160] for line in texts.splitlines() if "==zguard==" in line[1:] or line.startswith("==") and not line.endswith("]")]
                problems.append(f"announced and not on the terminal: {dict(announced - readable)}, and {torn[:9]}")
        else:
            data = [path.read_bytes() for path in self.reports_in(place)]
            readable = collections.Counter()
            for report in data:
                *lines, rest = report.split(b"\n")
                cut += bool(rest)
                for line in lines:
                    start = line.rfind(b'{"schema":"zguard.finding/1"')
                    cut += start > 0
                    try:
                        finding = json.loads(line[max(start, 0):])
                    except ValueError:
                        cut += 1
                        continue
                    if finding["schema"] == "zguard.finding/1":
                        readable[str(finding["pid"]).encode()] += 1
            if not route.startswith("run") and sum((announced - readable).values()):
                problems.append(f"announced and not in the report: {dict(announced - readable)}")
            total = sum(readable.values())
        if seen is not None and not seen <= self.lines_in(place) and victim == "all" and not ended_before and not (place / "store").exists():
            problems.append("lines that stood in the report before the kill are gone")
        # A process that outlives the program may print a finding behind the closing line, so the report may contain more findings.
        if closing := re.search(rb"==zguard== (\d+) findings?\b[^\n]*, written to '", errors):
            count = int(closing[1])
            if total < count:
                problems.append(f"{count} findings were announced, {total} are in the report")
        if total and route not in ("terminal", "run"):
            problems += self.read_again(place, total, cut)
        with self.lock:
            self.announced += sum(announced.values()) if not route.startswith("run") else total
            self.readable += total
            self.cut += cut
            whole = self.processes * self.threads * self.findings
            phase = "after" if ended_before else "before" if not announced else "within"
            self.phases[route][phase] += 1
            if total > whole + self.processes:
                problems.append(f"{total} findings of {whole}")
        return problems

    def read_again(self, place, total, cut):
        result = subprocess.run([str(self.zguard), "report", "--format", "json", *map(str, self.reports_in(place))], capture_output=True,
                                timeout=120, env=self.environment, stdin=subprocess.DEVNULL)
        found = sum(json.loads(line).get("count", 0) for line in result.stdout.splitlines())
        problems = []
        if result.returncode != 0 or found < total:
            problems.append(f"zguard report reads {found} of {total} findings: {result.stderr[-300:]!r}")
        if result.stderr.count(b" is skipped: ") != cut:
            problems.append(f"{cut} lines are cut, and zguard report says {result.stderr[-300:]!r}")
        return problems


def build():
    flags = ["-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"]
    quiet = [f"-Wno-{name}" for name in ("use-after-free", "free-nonheap-object", "infinite-recursion", "array-bounds")]
    for output, more, source in [("fault", [], "fault.c"), ("storm", [], "storm.c"), ("reporter", [], "reporter.c"),
                                 ("unload.so", ["-shared", "-fPIC"], "unload.c")]:
        builds.compiled(PROGRAMS / output, ["gcc", *flags, *quiet, *more, "-o", PROGRAMS / output, SOURCES / source],
                        [SOURCES / source, *SOURCES.glob("*.h")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="faults (1000)")
    parser.add_argument("--seed", type=int, help="of what is chosen at random; 1, with --long another one each time")
    parser.add_argument("--only", type=int, default=None, help="the number of one case, to repeat it")
    parser.add_argument("--library", type=Path, default=LIBRARY)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=200, help="moments at which somebody is killed while reporting (200)")
    parser.add_argument("--long", action="store_true", help="10,000 faults and 1,000 kills")
    parser.add_argument("--only-kill", type=int, default=None, help="the number of one kill, to repeat it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 32) if arguments.long else 1
    faults, moments = (10_000, 1000) if arguments.long else (arguments.rounds, arguments.kills)
    numbers = arguments.slice.choose(range(faults), "fault {}".format, lambda number: kinds_of(chosen(seed, number)))
    kills = arguments.slice.choose(range(moments), "kill {}".format)
    arguments.slice.say(len(numbers) + len(kills), faults + moments, "faults and kills")
    if arguments.only is not None or arguments.only_kill is not None:
        numbers = [arguments.only] if arguments.only is not None else []
        kills = [arguments.only_kill] if arguments.only_kill is not None else []
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    checks = Checks()
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zguard-crashes-") as folder:
        folder = Path(folder)
        try:
            build()
        except Failed as failure:
            checks.check("the programs build", [str(failure)])
            return checks.close()
        if numbers:
            run_faults(checks, folder, arguments, seed, numbers)
        if kills:
            run_kills(checks, folder, arguments, seed, kills)
        litter = [entry.name for entry in folder.iterdir() if entry.name.startswith("core")]
        checks.check("no core files", litter)
    return checks.close()


def run_faults(checks, folder, arguments, seed, numbers):
    crashes = Crashes(folder, arguments.library.resolve(), seed)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        cases = [chosen(seed, number) for number in numbers]
        for case, problems in zip(cases, pool.map(crashes.try_case, cases)):
            checks.check(describe(case), problems)
    counted = crashes.statistics
    print(f"       {counted['faults']} faults, {counted['deaths']} deaths by a signal, {counted['findings']} findings, "
          f"{time.monotonic() - began:.0f} s")


def torn_line(kills, folder):
    """A line written after the partial line of a killed process is still read."""
    place = folder / "torn"
    place.mkdir()
    kills.start("file", place).wait(timeout=DEADLINE_SECONDS)
    line = (place / "report.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    (place / "report.jsonl").write_bytes(line[:500] + line[:300] + line + line + line[:200])
    return kills.read_again(place, 2, 2)


def run_kills(checks, folder, arguments, seed, numbers):
    kills = Kills(folder, arguments.library.resolve(), ZGUARD, seed)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, problems in zip(numbers, pool.map(kills.try_moment, numbers)):
            checks.check(f"kill {number}", problems)
    checks.check("half a line, and a whole one behind it", torn_line(kills, folder))
    sums = sum(kills.phases.values(), collections.Counter())
    print(f"       {len(numbers)} kills: {sums['before']} before the first finding, {sums['within']} within, {sums['after']} after the end; "
          f"{kills.announced} findings announced, {kills.readable} readable, {kills.cut} lines cut off, {time.monotonic() - began:.0f} s")
    if len(numbers) >= 40:
        checks.check("the moments lie within the reporting", [] if sums["within"] * 2 >= len(numbers) else [str(kills.phases)])


if __name__ == "__main__":
    sys.exit(main())
