#!/usr/bin/env python3
"""Programs that die (collect=crashes): kind, signal, message, the innermost frame, how many threads; and the program ends as it does
without us, core file included.

A core file of each says the same (`zguard report CORE`), and of ten the stacks of all threads are those that gdb has. --random N kills a
program under load N times at random moments; --stopped stops zguard before.

The programs are the functions of Tests/Crashes/ways.c, ways.cc and ways.swift; a line in front of each says what must be found.
Closing line: N passed, N failed."""

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, RUNTIME, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES, FOLDER = TESTS / "Crashes", builds.BUILD / "crashing"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
TIMEOUT_SECONDS = 60
# What Swift's traps are.
TRAP = {"x86_64": "SIGILL"}.get(os.uname().machine, "SIGTRAP")
FOUND_NOTHING = "nothing"


class Case:
    """One way to die."""

    def __init__(self, program, name, words):
        self.program, self.name = program, name
        (self.signal, self.kind), options = words[:2], dict(word.split("=", 1) for word in words[2:])
        self.signal = TRAP if self.signal == "TRAP" else self.signal
        self.message, self.threads, self.top = options.get("message"), options.get("threads", "1"), options.get("top", name)
        self.notes, self.thrown = json.loads(options.get("notes", "{}")), options.get("thrown")

    @property
    def title(self):
        return f"{self.program.name} {self.name}"

    @property
    def kinds(self):
        """What every slice has one of."""
        return (self.program.name, self.kind), (self.program.name, self.signal)

    @property
    def status(self):
        """As a shell has it: of a signal, or what the program returns."""
        return int(self.signal) if self.signal.isdecimal() else 128 + signal.Signals[self.signal]


def words_of(said):
    # A message, which may hold anything, ends at the next name.
    return [word.strip() for word in re.split(r",\s+(?=message=|threads=|top=|notes=|thrown=|[\w-]+$|[\w-]+,)", said)]


def cases_of(source, program):
    """The functions of a source with a line that says how they die."""
    cases, said = [], None
    for line in source.read_text().splitlines():
        if found := re.match(r"// dies: (.*)", line):
            said = words_of(found[1])
        elif said and (found := re.search(r"^CASE (\w+)\(|^@inline\(never\) func (\w+)\(|^if name == \"(\w+)\"", line)):
            cases.append(Case(program, next(filter(None, found.groups())), said))
            said = None
    return cases


def built():
    """(source, program) of each language."""
    c, cc, swift = SOURCES / "ways.c", SOURCES / "ways.cc", SOURCES / "ways.swift"
    yield c, builds.compiled(FOLDER / "c", ["gcc", "-g", "-O1", "-pthread", "-w", f"-I{RUNTIME}/include", str(c), "-o", str(FOLDER / "c")], [c])
    yield cc, builds.compiled(FOLDER / "cc", ["g++", "-std=c++17", "-g", "-O1", "-D_GLIBCXX_ASSERTIONS", "-pthread", "-w", str(cc), "-o", str(FOLDER / "cc")], [cc])
    for name, flags in (("swift-dynamic", ["-Onone"]), ("swift-static", ["-O", "-static-stdlib"])):
        yield swift, builds.compiled(FOLDER / name, [SWIFTC, "-swift-version", "6", "-module-name", "Ways", "-g", *flags, str(swift), "-o", str(FOLDER / name)],
                                     [swift])


def allow_core():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def forbid_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def collected(case, place, options=(), **how):
    """Status and findings of a run that collects crashes."""
    report = place / "report.jsonl"
    how.setdefault("preexec_fn", forbid_core)
    command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", *options, "--", case.program, case.name]
    status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place, **how)
    return status, [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else [], errors


# Of libraries, where they were compiled into the program.
OF_LIBRARIES = re.compile(r"std::|[Ss]wift[ .:_]|reabstraction thunk|_dispatch")


def own_frames(stack, program):
    return [frame for frame in stack if frame.get("module") == str(program) and not OF_LIBRARIES.match(frame.get("function", ""))]


def check_finding(case, finding):
    assert finding["kind"] == case.kind, finding["kind"]
    if case.kind == "double-free":
        return  # ours, and the program ends by it
    expected = "SIGABRT" if case.signal.isdecimal() else case.signal
    assert finding["signal"] == expected, finding["signal"]
    message = finding.get("message")
    assert (message is None) == (case.message is None) and (message is None or re.search(case.message, message, re.S)), f"message {message!r}"
    assert finding["registers"] and finding.get("annotations", {}) == case.notes, finding
    own = own_frames(finding["stacks"]["access"], case.program)
    assert own and case.top in own[0].get("function", ""), [frame.get("function") for frame in finding["stacks"]["access"]]
    assert "threads" in finding, f"no threads: {finding['detail'].get('threads')}"
    threads = finding["threads"]
    assert case.threads == "any" or len(threads) == int(case.threads), [thread["name"] for thread in threads]
    assert [thread["faulted"] for thread in threads] == [True] + [False] * (len(threads) - 1), threads
    assert all(thread["stack"] for thread in threads), threads
    assert threads[0]["id"] == finding["thread"]["id"] and len({thread["tid"] for thread in threads}) == len(threads), threads


def dies_as(case):
    def test(place):
        status, _, _ = run_within(TIMEOUT_SECONDS, [case.program, case.name], env=scrubbed(SWIFT_BACKTRACE="enable=no"), preexec_fn=forbid_core, cwd=place)
        assert as_shell(status) == case.status, f"unguarded it ends with {status}"
        status, findings, errors = collected(case, place)
        # Its findings end it by SIGABRT, the program's own way is another.
        assert status == case.status, f"status {status}: {errors[-800:]}"
        if case.kind == FOUND_NOTHING:
            assert not findings, findings
            return
        assert len(findings) == 1, f"{[finding['kind'] for finding in findings]}: {errors[-800:]}"
        check_finding(case, findings[0])
    return test


# MARK: core files


def core_in(place):
    """What the kernel wrote; None where it writes cores elsewhere."""
    return next(iter(sorted(place.glob("core*"))), None)


def kernel_writes_here():
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return pattern.startswith("core") and "/" not in pattern


def own_pcs(stack):
    """Addresses of the frames that are calls of the machine's, as the processor would return to them, but for the first."""
    return [int(frame["pc"], 16) for frame in stack if not frame["inlined"]]


GDB = """
import gdb, json
found = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, stack = gdb.newest_frame(), []
    while frame:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            stack.append(frame.pc())
        frame = frame.older()
    found[thread.ptid[1]] = stack
print("stacks " + json.dumps(found))
"""


def gdbs_stacks(program, core, place):
    script = place / "stacks.py"
    script.write_text(GDB)
    command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set backtrace past-main on",
               "-iex", "set backtrace past-entry on", "-ex", f"source {script}", program, core]
    _, out, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed())
    line = next((line for line in out.splitlines() if line.startswith("stacks ")), None)
    assert line, f"gdb: {errors[-500:]}"
    return {int(number): stack for number, stack in json.loads(line[7:]).items()}


def is_as_gdb_has_it(ours, gdbs):
    """Ours lie in the call; the frames in front of a signal's handler, and those beyond what there is unwind information for, aside."""
    return len(ours) == len(gdbs) and all(theirs - own in (0, 1) for own, theirs in zip(ours, gdbs))


def core_says_the_same(case, with_gdb):
    def test(place):
        status, findings, errors = collected(case, place, preexec_fn=allow_core)
        assert status == case.status, f"status {status}: {errors[-800:]}"
        core = core_in(place)
        assert core, f"no core file: {errors[-800:]}"
        _, out, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", core, "--format", "json"], env=scrubbed())
        assert out, errors[-800:]
        live, dead = findings[0], json.loads(out)
        assert dead["kind"] == live["kind"] and dead["signal"] == live["signal"] and dead["code"] == live["code"], (dead["kind"], dead["signal"], dead["code"])
        assert dead["registers"] == live["registers"], (dead["registers"], live["registers"])
        assert dead.get("block", {}).get("start") == live.get("block", {}).get("start"), (dead.get("block"), live.get("block"))
        stacks = [{thread["tid"]: own_pcs(thread["stack"]) for thread in finding["threads"]} for finding in (live, dead)]
        first = live["threads"][0]["tid"]
        assert stacks[0].keys() == stacks[1].keys() and stacks[0][first] == stacks[1][first], stacks
        if not with_gdb:
            return
        gdbs = gdbs_stacks(case.program, core, place)
        for number, stack in stacks[1].items():
            assert is_as_gdb_has_it(stack, gdbs[number]), f"thread {number}: {[hex(pc) for pc in stack]}, gdb {[hex(pc) for pc in gdbs[number]]}"
    return test


# Of those whose kind or whose first frame a core file cannot have, or that leave none, and why.
WITHOUT_CORE = {
    "freed_twice": "the program goes on to abort: the core file is of that",
    "null_call": "libunwind has no frame for an address without code; live, the runtime finds its caller",
    "abort_ignored": "libc raises the signal once more, at another place in abort", "abort_handled": "the same",
    "child_dies": "the child's, and the program's own directory has one name for both",
    "file_too_long": "the limit is one on core files, too",
    "recursion": "the kernel names the page behind the guard of another stack",
}
WITH_GDB = {"abort_plain", "assert_false", "null_write", "illegal", "division", "abort_among_threads", "null_among_threads", "abort_in_handler",
            "throw_error", "pure_virtual", "fatal"}


# MARK: random moments


def has_ended(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def child_of(process_id):
    return int(Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()[0])


def random_deaths(number, seed):
    load = builds.compiled(FOLDER / "load", ["gcc", "-g", "-O1", "-pthread", "-w", str(SOURCES / "load.c"), "-o", str(FOLDER / "load")], [SOURCES / "load.c"])
    choose = random.Random(seed)

    def test(place):
        with_threads = 0
        for turn in range(number):
            report = place / f"{turn}.jsonl"
            name = choose.choice(["SIGABRT", "SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGTRAP"])
            kills_zguard = choose.random() < 0.1
            process = subprocess.Popen([ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", load], env=scrubbed(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=forbid_core)
            assert process.stdout.readline() == "ready\n", process.communicate()
            program = child_of(process.pid)
            time.sleep(choose.random() * 0.03)
            what = f"turn {turn}, {name}, seed {seed}"
            os.kill(program, signal.Signals[name])
            if kills_zguard:
                time.sleep(choose.random() * 0.01)
                process.kill()
            try:
                _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{what}: zguard hangs") from None
            end = time.monotonic() + TIMEOUT_SECONDS
            while not has_ended(program):
                assert time.monotonic() < end, f"{what}: the program hangs"
                time.sleep(0.005)
            if kills_zguard:
                continue
            assert as_shell(process.returncode) == 128 + signal.Signals[name], f"{what}: status {process.returncode}: {errors[-500:]}"
            findings = [json.loads(line) for line in report.read_text().splitlines()]
            assert len(findings) == 1 and findings[0]["signal"] == name, f"{what}: {findings}"
            assert findings[0]["detail"]["sender"] == str(os.getpid()), f"{what}: {findings[0]['detail']}"
            with_threads += len(findings[0].get("threads", [])) > 4
        print(f"{number} deaths at random moments, {with_threads} with the stacks of all threads (seed {seed})")
    return test


def dies_while_zguard_is_stopped(place):
    """It is waited for, and not for ever."""
    case = subprocess.Popen([ZGUARD, "run", "--collect", "crashes", "--report", place / "report.jsonl", "--format", "json", "--", FOLDER / "load"],
                            env=scrubbed(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=forbid_core)
    assert case.stdout.readline() == "ready\n"
    program = child_of(case.pid)
    os.kill(case.pid, signal.SIGSTOP)
    try:
        os.kill(program, signal.SIGABRT)
        end = time.monotonic() + TIMEOUT_SECONDS
        while not has_ended(program):
            assert time.monotonic() < end, "the program hangs"
            time.sleep(0.05)
    finally:
        os.kill(case.pid, signal.SIGCONT)
    case.communicate(timeout=TIMEOUT_SECONDS)
    assert case.returncode == 128 + signal.SIGABRT, case.returncode
    finding = json.loads((place / "report.jsonl").read_text())
    assert "no answer" in finding["detail"]["threads"], finding["detail"]


def alone(place):
    """Without zguard: the thread that died, in text."""
    program = FOLDER / "c"
    status, _, errors = run_within(TIMEOUT_SECONDS, [program, "abort_among_threads"], env=guarded_by(LIBRARY, "collect=crashes"), preexec_fn=forbid_core,
                                   cwd=place)
    assert status == -signal.SIGABRT, status
    assert re.search(r"==zguard== crash: SIGABRT: too many cooks, threads only the one that died", errors), errors[-800:]


def off(place):
    """Nobody asked: no finding of a crash, and none of its keys elsewhere."""
    for name, kinds in (("abort_plain", []), ("illegal", []), ("null_write", ["null-access"])):
        report = place / f"{name}.jsonl"
        run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--report", report, "--format", "json", "--", FOLDER / "c", name], env=scrubbed(), preexec_fn=forbid_core)
        findings = [json.loads(line) for line in report.read_text().splitlines()]
        assert [finding["kind"] for finding in findings] == kinds, findings
        assert all("threads" not in finding and "registers" not in finding for finding in findings), findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    parser.add_argument("--random", type=int, default=8, metavar="N", help="how many deaths at random moments (default 8)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000, help="of these moments")
    parser.add_argument("--stopped", action="store_true", help="also let zguard be stopped, which takes ten seconds")
    add_slice_option(parser)
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # shells ignore them for what they start in the background
    cases = [case for source, program in built() for case in cases_of(source, program)]
    chosen = arguments.slice.choose(cases, name=lambda case: case.title, kinds=lambda case: case.kinds)
    tests = [(case.title, dies_as(case)) for case in chosen]
    if kernel_writes_here():
        cores = [case for case in cases if case.kind != FOUND_NOTHING and case.name not in WITHOUT_CORE]
        some = arguments.slice.choose(cores, name=lambda case: "core " + case.title, kinds=lambda case: [(case.program.name, case.kind)])
        tests += [(f"core {case.title}", core_says_the_same(case, case.name in WITH_GDB)) for case in some]
        cases, chosen = cases + cores, chosen + some
    else:
        print("the kernel writes core files elsewhere (core_pattern): none is looked at")
    tests += [("random moments", random_deaths(arguments.random, arguments.seed)), ("alone", alone), ("off", off)]
    if arguments.stopped:
        tests.append(("zguard is stopped", dies_while_zguard_is_stopped))
    arguments.slice.say(len(chosen), len(cases), "ways to die")
    return run_tests(tests, "zguard-crashing.", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
