#!/usr/bin/env python3
"""Checks crash reports (collect=crashes): kind, signal, message, innermost frame, number of threads.

The programs must end as without the runtime, and still leave a core file. `zguard report CORE` must give the same finding for the core
files that the kernel and gdb write, except for the differences that --table prints. For some cases, and with --programs for eleven real
programs, the stacks of all threads must be those that gdb finds. --random N kills a program under load N times at random moments;
--stopped also tests a crash while zguard is stopped.

The programs are the functions of Tests/Crashes/ways.c, ways.cc and ways.swift; a line in front of each states the expected finding.
Closing line: N passed, N failed."""

import argparse
import ctypes
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, cores  # noqa: E402
from Support.checks import as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, ROOT, RUNTIME, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES, FOLDER = TESTS / "Crashes", builds.BUILD / "crashing"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
TIMEOUT_SECONDS = 60
# Signal of a Swift trap.
TRAP = {"x86_64": "SIGILL"}.get(os.uname().machine, "SIGTRAP")
FOUND_NOTHING = "nothing"


class Case:
    """A function that crashes, and its expected finding."""

    def __init__(self, program, name, words):
        self.program, self.name = program, name
        (self.signal, self.kind), options = words[:2], dict(word.split("=", 1) for word in words[2:])
        self.signal = TRAP if self.signal == "TRAP" else self.signal
        self.message, self.threads, self.top = options.get("message"), options.get("threads", "1"), options.get("top", name)
        self.fault = options.get("fault")
        self.notes, self.thrown = json.loads(options.get("notes", "{}")), options.get("thrown")

    @property
    def title(self):
        return f"{self.program.name} {self.name}"

    @property
    def kinds(self):
        """The case's properties. Every slice contains a case with each of them."""
        return (self.program.name, self.kind), (self.program.name, self.signal)

    @property
    def status(self):
        """Exit status as a shell reports it: 128 + signal, or what the program returns."""
        return int(self.signal) if self.signal.isdecimal() else 128 + signal.Signals[self.signal]


def words_of(said):
    # A message may contain commas. It ends only at a comma in front of a key or of a further word.
    return [word.strip() for word in re.split(r",\s+(?=message=|threads=|top=|notes=|thrown=|fault=|[\w-]+$|[\w-]+,)", said)]


def cases_of(source, program):
    """The cases of a source: functions with a line `// dies: …` in front."""
    cases, said = [], None
    for line in source.read_text().splitlines():
        if found := re.match(r"// dies: (.*)", line):
            said = words_of(found[1])
        elif said and (found := re.search(r"^CASE (\w+)\(|^(?:@inline\(never\) )?(?:func|fn) (\w+)\(|^if name == \"(\w+)\"", line)):
            cases.append(Case(program, next(filter(None, found.groups())), said))
            said = None
    # A line without a function behind it would be a case that never runs.
    said = re.findall(r"^// dies: (?!SIGNAL)", source.read_text(), re.MULTILINE)
    assert len(cases) == len(said), f"{source.name}: not every line is in front of a function"
    return cases


def built():
    """Builds and yields (source, program) for each language and way to link."""
    c, cc, swift = SOURCES / "ways.c", SOURCES / "ways.cc", SOURCES / "ways.swift"
    load = SOURCES / "load.c"
    builds.compiled(FOLDER / "load", ["gcc", "-g", "-O1", "-pthread", "-w", str(load), "-o", str(FOLDER / "load")], [load])
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
    """Runs a case with crash collection; returns status, findings and standard error."""
    report = place / "report.jsonl"
    how.setdefault("preexec_fn", forbid_core)
    command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", *options, "--", case.program, case.name]
    status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place, **how)
    return status, findings_of(report), errors


# Functions of libraries that are compiled or linked into the program.
OF_LIBRARIES = re.compile(r"std::|[Ss]wift[ .:_]|(partial apply for )?reabstraction thunk|_*dispatch_|__DISPATCH_|Dispatch\.|core::|_ZN3std|runtime\.")


def own_frames(stack, program):
    return [frame for frame in stack if frame.get("module") == str(program) and not OF_LIBRARIES.match(frame.get("function", ""))]


def check_finding(case, finding):
    assert finding["kind"] == case.kind, finding["kind"]
    # If the program's own handler of a fault ends the program, the finding has the signal of the fault.
    expected = case.fault or ("SIGABRT" if case.signal.isdecimal() else case.signal)
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
        # The program must end in its own way, and not by the SIGABRT that ends programs with findings.
        assert status == case.status, f"status {status}: {errors[-800:]}"
        if case.kind == FOUND_NOTHING:
            assert not findings, findings
            return
        assert len(findings) == 1, f"{[finding['kind'] for finding in findings]}: {errors[-800:]}"
        check_finding(case, findings[0])
    return test


# MARK: core files


def own_pcs(stack):
    """Program counters of the frames that are not inlined."""
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
    """Whether both stacks are equal. A program counter of `ours` may be one less, inside the call instruction."""
    return len(ours) == len(gdbs) and all(theirs - own in (0, 1) for own, theirs in zip(ours, gdbs))


# Expected differences between the finding from the core file and the finding from the live process: (names of differences as in
# Support/cores.py, reason). None in place of the names: there is no core file.
RAISED_AGAIN = ({"stack"}, "`abort` raises the signal once more, from another place")
THROWN_ELSEWHERE = ({"thrown"}, "where it was thrown, the runtime looks up when the signal comes, and gdb stops before that")
NOT_AS_DEEP = ({"stack"}, "it has the 128 innermost frames of the fault, whose own handler ended the program")
NOT_SAID_YET = ({"message"}, "gdb stops at the fault, before the program's own handler says anything")
NO_MEMORY = ({"stack"}, "gdb writes no memory of a program whose first thread has ended")
ORIGINS = ("kernel", "gdb")
DIFFERENCES = {
    "kernel": {"abort_ignored": RAISED_AGAIN, "abort_handled": RAISED_AGAIN, "file_too_long": (None, "the limit is one on core files, too"),
               "handler_without_room": NOT_AS_DEEP, "deep": NOT_AS_DEEP},
    "gdb": {"tryBang": THROWN_ELSEWHERE, "topLevel": THROWN_ELSEWHERE, "first_thread_left": NO_MEMORY, "handler_without_room": NOT_SAID_YET},
}
# gdb stops these programs twice: first at a signal whose handler continues the program, then at the signal that ends the program.
SECOND_STOP = {"raised_by_handler"}


# Programs that die at a different instruction each time.
LOOPS = {"too_long"}


def expected_differences(origin, case):
    return DIFFERENCES[origin].get(case.name, (set(), ""))


def core_of(origin, case, place):
    if origin == "kernel":
        return cores.kernels_core(place)
    core, said = cores.gdbs_core(case.program, [case.name], "collect=crashes", place, 2 if case.name in SECOND_STOP else 1,
                                 "child" if case.name == "child_dies" else "parent")
    assert core, f"gdb wrote no core file: {said[-800:]}"
    return core


WITH_GDB = {"abort_plain", "assert_false", "null_write", "illegal", "division", "abort_among_threads", "null_among_threads", "abort_in_handler",
            "throw_error", "pure_virtual", "fatal"}


def report_of(core):
    _, out, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", core, "--format", "json"], env=scrubbed())
    assert out, errors[-800:]
    return json.loads(out)


def core_says_the_same(origin, case, with_gdb=False):
    def test(place):
        status, findings, errors = collected(case, place, preexec_fn=allow_core)
        assert status == case.status, f"status {status}: {errors[-800:]}"
        expected, _ = expected_differences(origin, case)
        if expected is None:
            core = cores.kernels_core(place)
            assert not core or core.stat().st_size < 64, f"there is one of {core.stat().st_size} bytes"
            return
        core = core_of(origin, case, place)
        assert core, f"no core file: {errors[-800:]}"
        live, dead = findings[0], report_of(core)
        found = cores.differences(live, dead)
        if case.threads == "any":
            found.pop("threads", None)
        if case.name in LOOPS and case.top in dead["stacks"]["access"][0]["function"]:
            found.pop("stack", None)
        assert found.keys() == expected, {name: tuple(map(cores.shortened, pair)) for name, pair in found.items()}
        if origin == "kernel" and not expected:
            # The kernel wrote the core file of the process that zguard watched: addresses, registers and the crashed thread's name must be
            # equal, too.
            assert dead["threads"][0].get("name") == live["threads"][0]["name"], dead["threads"][0]
            assert dead["registers"] == live["registers"], (dead["registers"], live["registers"])
            stacks = [{thread["tid"]: own_pcs(thread["stack"]) for thread in finding["threads"]} for finding in (live, dead)]
            first = live["threads"][0]["tid"]
            assert stacks[0].keys() == stacks[1].keys() and stacks[0][first] == stacks[1][first], stacks
        if with_gdb:
            are_as_gdb_has_them(dead, case.program, core, place)
    return test


def are_as_gdb_has_them(finding, program, core, place):
    gdbs = gdbs_stacks(program, core, place)
    for thread in finding["threads"]:
        ours, theirs = own_pcs(thread["stack"]), gdbs[thread["tid"]]
        assert is_as_gdb_has_it(ours, theirs), f"thread {thread['tid']}: {[hex(pc) for pc in ours]}, gdb {[hex(pc) for pc in theirs]}"


DOCUMENT = ROOT / "docs/CORE-FILES.md"


def table(cases):
    """The differences of core files from live findings as a Markdown table, with equal cases in one row."""
    def said(origin, case):
        expected, why = expected_differences(origin, case)
        if expected is None:
            return f"none: {why}"
        return "the same" if not expected else f"but {', '.join(sorted(expected))}: {why}"

    rows = {}
    for case in cases:
        if case.kind != FOUND_NOTHING:
            rows.setdefault((case.kind, *(said(origin, case) for origin in ORIGINS)), []).append(case)
    lines = ["| ways to die | live | the kernel's core file | gdb's |", "|---|---|---|---|"]
    for (kind, kernels, gdbs), ways in rows.items():
        names = ", ".join(dict.fromkeys(f"`{case.name}`" for case in ways))
        signals = ", ".join(dict.fromkeys("SIGABRT" if case.signal.isdecimal() else case.signal for case in ways))
        lines.append(f"| {names} | {kind}, {signals} | {kernels} | {gdbs} |")
    return "\n".join(lines) + "\n"


def table_is_documented(cases):
    def test(place):
        assert TRAP != "SIGILL" or table(cases) in DOCUMENT.read_text(), "docs/CORE-FILES.md has another table than crashing.py --table"
    return test


PACKERS = {"zst": ["zstd", "-q", "-T1"], "lz4": ["lz4", "-q", "-z"], "xz": ["xz", "-0", "-k"], "gz": ["gzip", "-1", "-k"]}


def packed(case):
    """Reads core files compressed as by systemd-coredump, and truncated and damaged ones."""
    def test(place):
        origin = "kernel" if cores.kernel_writes_here() else "gdb"
        collected(case, place, preexec_fn=allow_core)
        core = core_of(origin, case, place)
        wanted = report_of(core)
        for suffix, command in PACKERS.items():
            file = place / f"{core.name}.{suffix}"
            status, _, errors = run_within(TIMEOUT_SECONDS, [*command, core, *([file] if suffix == "lz4" else [])], cwd=place)
            assert status == 0 and file.exists(), f"{command[0]}: {errors}"
            assert report_of(file) == wanted, suffix
            half = place / f"half.{suffix}"
            half.write_bytes(file.read_bytes()[:file.stat().st_size // 2])
            status, out, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", half, "--format", "json"], env=scrubbed())
            if origin == "kernel":
                # The first half of the kernel's core file contains the threads and the signal.
                assert status == 0 and json.loads(out)["signal"] == wanted["signal"], (suffix, status, errors)
            else:
                assert status == 1 and "is truncated and has no statistics page of zguard" in errors and not out, (suffix, status, out, errors)
            broken = place / f"broken.{suffix}"
            broken.write_bytes(file.read_bytes()[:10] + random.Random(1).randbytes(5000))
            status, out, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", broken], env=scrubbed())
            if suffix == "gz":
                # A report may be a gzip file, so zguard takes this file for a damaged report.
                assert status == 0 and "is damaged" in errors, (suffix, status, out, errors)
            else:
                assert status == 1 and "zguard: error: " in errors and not out, (suffix, status, out, errors)
    return test


# Shell script that puts files of systemd-coredump into a new /var/lib, in a mount namespace.
KEPT = """
mount -t tmpfs none /var/lib && mkdir -p /var/lib/systemd/coredump && cd /var/lib/systemd/coredump || exit 99
cp {core} 'core.my\\x2eshop.0.0123456789abcdef.41.1700000002000000'
echo older > 'core.my\\x2eshop.0.0123456789abcdef.41.1700000001000000.zst'
echo other > core.shop.0.0123456789abcdef.411.1700000003000000.zst
{zguard} report coredump:41 --format json && {zguard} report coredump:my.shop --format json && {zguard} report coredump:nobody
"""


def kept_by_systemd(case):
    """Finds the newest core file of systemd-coredump by process and by program. Skipped if mount namespaces are not permitted."""
    def test(place):
        core = core_of("gdb", case, place)
        unshare = ["unshare", "--map-root-user", "--mount"] if os.geteuid() else ["unshare", "--mount"]
        status, out, errors = run_within(TIMEOUT_SECONDS, [*unshare, "sh", "-c", KEPT.format(core=core, zguard=ZGUARD)], env=scrubbed())
        if status == 1 and "unshare" in errors or status == 99:
            print(f"no mount namespace: {errors.strip()}")
            return
        assert status == 1 and "has kept no core file of 'nobody'" in errors, (status, errors)
        assert [json.loads(line) for line in out.splitlines()] == [report_of(core)] * 2, out
    return test


# MARK: real programs


# Each program prints that it is ready, and then waits or computes.
REAL = {
    "python3": [sys.executable, "-c", "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, args=[99]).start()\nprint('ready', flush=True)\ntime.sleep(99)"],
    "perl": ["perl", "-e", "$| = 1; print qq(ready\\n); sleep 99"],
    "ruby": ["ruby", "-e", "Thread.new { sleep }; puts :ready; $stdout.flush; sleep"],
    "node": ["node", "-e", "setTimeout(() => console.log('ready'), 50); setInterval(() => {}, 100000)"],
    "redis-server": ["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--crash-log-enabled", "no"],
    "php": ["php", "-r", "echo qq; sleep(99);".replace("qq", '"ready\\n"')],
    "lua": ["lua5.4", "-e", "print('ready') io.flush() while true do local a = ('x'):rep(20) end"],
    "sqlite3": ["sqlite3", ":memory:", ".system echo ready", "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n;"],
    "gawk": ["gawk", "BEGIN { print \"ready\"; fflush(); while (1) x = x substr(y, 1) }"],
    "bash": ["bash", "-c", "echo ready; read -r -t 99 < <(sleep 99)"],
    "memcached": ["memcached", "-u", "root", "-s", "socket", "-vv"],
}
READY = {"redis-server": "ready to accept", "memcached": "server listening"}


def wait_until_idle(process_id, ticks=os.sysconf("SC_CLK_TCK")):
    """Waits until the process has slept for 0.1 s, or has used one second of processor time."""
    def times():
        state, *fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
        return state, int(fields[10]) + int(fields[11])
    state, first = times()
    before, quiet = first, 0
    while quiet < 5 and before - first < ticks:
        time.sleep(0.02)
        state, now = times()
        quiet, before = (quiet + 1 if state == "S" and now == before else 0), now


def real_program(name):
    """Kills a real program by SIGABRT. Its core file must give the same finding as the live process, with the stacks that gdb finds."""
    def test(place):
        report = place / "report.jsonl"
        command = [ZGUARD, "run", "--collect", "crashes", "--report", report, "--format", "json", "--", *REAL[name]]
        process = subprocess.Popen(command, env=scrubbed(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   preexec_fn=allow_core, cwd=place, start_new_session=True)
        deadline = threading.Timer(TIMEOUT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        deadline.start()
        try:
            wanted, said = READY.get(name, "ready"), ""
            while wanted not in said:
                said = process.stdout.readline()
                assert said, "it has ended"
            program = child_of(process.pid)
            executable = os.readlink(f"/proc/{program}/exe")
            wait_until_idle(program)
            os.kill(program, signal.SIGABRT)
            rest, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            deadline.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 128 + signal.SIGABRT, f"status {process.returncode}: {rest[-500:]}"
        live = findings_of(report)[-1]
        core = cores.kernels_core(place)
        assert core, "no core file"
        dead = report_of(core)
        found = cores.differences(live, dead)
        assert not found, found
        are_as_gdb_has_them(dead, executable, core, place)
    return test


# MARK: random moments


def has_ended(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def child_of(process_id):
    return int(Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()[0])


def parent_of(process_id):
    return int(Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[1])


def random_deaths(number, seed):
    load = FOLDER / "load"
    choose = random.Random(seed)

    def test(place):
        killed = 0
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
                raise AssertionError(f"{what}: {'the program' if kills_zguard else 'zguard'} hangs") from None
            end = time.monotonic() + TIMEOUT_SECONDS
            while not has_ended(program):
                assert time.monotonic() < end, f"{what}: the program hangs"
                time.sleep(0.005)
            if kills_zguard:
                # The output of a killed zguard varies, so it is not checked.
                killed += 1
                continue
            assert as_shell(process.returncode) == 128 + signal.Signals[name], f"{what}: status {process.returncode}: {errors[-500:]}"
            findings = findings_of(report)
            assert len(findings) == 1 and findings[0]["signal"] == name, f"{what}: {findings}"
            assert findings[0]["detail"]["sender"] == str(os.getpid()), f"{what}: {findings[0]['detail']}"
            # The main thread and four allocating threads always exist; the main thread starts and joins one more in a loop.
            threads = findings[0].get("threads", [])
            assert len(threads) in (5, 6), f"{what}: {len(threads)} threads: {findings[0]['detail'].get('threads')}"
            assert all(thread["stack"] for thread in threads), f"{what}: {threads}"
        print(f"{number} deaths at random moments: {number - killed} with the stacks of all threads, {killed} in which zguard was killed (seed {seed})")
    return test


def dies_while_zguard_is_stopped(place):
    """A crashing program waits for a stopped zguard only for a limited time."""
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
    [finding] = findings_of(place / "report.jsonl")
    assert "did not answer" in finding["detail"]["threads"], finding["detail"]


PR_SET_CHILD_SUBREAPER = 36


def dies_after_zguard(place):
    """A killed zguard is a zombie process until its parent reaps it. A crashing program must not wait for an answer of this zguard."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    zguard = subprocess.Popen([ZGUARD, "run", "--collect", "crashes", "--report", place / "report.jsonl", "--", FOLDER / "load"], env=scrubbed(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=forbid_core)
    try:
        assert zguard.stdout.readline() == "ready\n"
        program = child_of(zguard.pid)
        zguard.kill()
        os.kill(program, signal.SIGABRT)
        end, ended = time.monotonic() + TIMEOUT_SECONDS, 0
        while not ended:
            assert time.monotonic() < end, "the program hangs"
            time.sleep(0.01)
            # This process is a subreaper: the program becomes its child when zguard has ended.
            ended, status = os.waitpid(program, os.WNOHANG) if parent_of(program) == os.getpid() else (0, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT, status
    finally:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        zguard.communicate(timeout=TIMEOUT_SECONDS)


def dies_after_its_parent(place):
    """zguard ends with the program that it ran. A daemon that crashes later must not wait for zguard."""
    start = time.monotonic()
    # run_within returns only when the daemon has ended, too, because the daemon holds the pipes open.
    status, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--collect", "crashes", "--report", place / "report.jsonl", "--", FOLDER / "c", "daemon_dies"],
                                   env=scrubbed(), preexec_fn=forbid_core)
    taken = time.monotonic() - start
    assert status == 0, (status, errors)
    # A daemon that waits for the ended zguard takes ten seconds; without this wait, the run takes half a second.
    assert taken < 8, f"{taken:.1f} s"


def alone(place):
    """The runtime without zguard reports only the thread that crashed, as text."""
    program = FOLDER / "c"
    status, _, errors = run_within(TIMEOUT_SECONDS, [program, "abort_among_threads"], env=guarded_by(LIBRARY, "collect=crashes"), preexec_fn=forbid_core,
                                   cwd=place)
    assert status == -signal.SIGABRT, status
    assert re.search(r"==zguard== crash: SIGABRT: too many cooks, threads only the crashed thread", errors), errors[-800:]


def off(place):
    """Without collect=crashes there is no crash finding, and other findings have no key of a crash finding."""
    for name, kinds in (("abort_plain", []), ("illegal", []), ("null_write", ["null-access"])):
        report = place / f"{name}.jsonl"
        run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--report", report, "--format", "json", "--", FOLDER / "c", name], env=scrubbed(), preexec_fn=forbid_core)
        findings = findings_of(report)
        assert [finding["kind"] for finding in findings] == kinds, findings
        assert all("threads" not in finding and "registers" not in finding for finding in findings), findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    parser.add_argument("--random", type=int, default=8, metavar="N", help="how many deaths at random moments (default 8)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000, help="of these moments")
    parser.add_argument("--table", action="store_true", help="print what core files say, for docs/CORE-FILES.md, and test nothing")
    parser.add_argument("--programs", action="store_true", help="also real programs, of which core files have the stacks that gdb has")
    parser.add_argument("--stopped", action="store_true", help="also let zguard be stopped, which takes ten seconds")
    add_slice_option(parser)
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # shells start background jobs with these signals ignored
    cases = [case for source, program in built() for case in cases_of(source, program)]
    every = cases
    if arguments.table:
        print(table(cases), end="")
        return 0
    chosen = arguments.slice.choose(cases, name=lambda case: case.title, kinds=lambda case: case.kinds)
    tests = [(case.title, dies_as(case)) for case in chosen]
    with_cores = [(origin, case) for case in cases if case.kind != FOUND_NOTHING for origin in ORIGINS]
    if not cores.kernel_writes_here():
        print("the kernel writes core files elsewhere (core_pattern): only gdb's are looked at")
        with_cores = [(origin, case) for origin, case in with_cores if origin != "kernel"]
    some = arguments.slice.choose(with_cores, name=lambda pair: f"{pair[0]} {pair[1].title}", kinds=lambda pair: [(pair[0], pair[1].program.name)])
    tests += [(f"core of {origin} {case.title}", core_says_the_same(origin, case, origin == "kernel" and case.name in WITH_GDB)) for origin, case in some]
    cases, chosen = cases + with_cores, chosen + some
    tests += [("random moments", random_deaths(arguments.random, arguments.seed)), ("zguard was killed", dies_after_zguard),
              ("zguard has ended", dies_after_its_parent),
              ("packed", packed(next(case for case in every if case.name == "abort_among_threads"))),
              ("kept by systemd", kept_by_systemd(next(case for case in every if case.name == "abort_plain"))),
              ("table", table_is_documented(every)), ("alone", alone), ("off", off)]
    if arguments.programs:
        tests += [(f"program {name}", real_program(name)) for name in REAL]
    if arguments.stopped:
        tests.append(("zguard is stopped", dies_while_zguard_is_stopped))
    arguments.slice.say(len(chosen), len(cases), "ways to die")
    return run_tests(tests, "zguard-crashing.", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
