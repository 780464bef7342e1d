#!/usr/bin/env python3
"""Checks reports of stalled event loops (collect=stalls): thread, stack, whether the thread computes or waits, and the lock's holder.

Programs that do not hold up an event loop must have no finding. The programs are the functions of Tests/Stalls/ways.c, deadlocks.c and
ways.swift; a line in front of each states the expected finding.
Closing line: N passed, N failed."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import run_tests, run_within  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.processes import kill_session, running_in  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES, FOLDER = TESTS / "Stalls", builds.BUILD / "stalling"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
TIMEOUT_SECONDS = 60
FREEZE_MS = 2000
# Functions of libraries that the compiler specializes into the program.
OF_LIBRARIES = re.compile(r"(protocol witness for (static )?)?Swift[.]")


class Case:
    """A function that stalls, or does not, and its expected finding."""

    def __init__(self, program, name, words):
        self.program, self.name = program, name
        self.top = words[0]  # None: no finding expected
        self.flags = {word for word in words[1:] if "=" not in word}
        self.values = dict(word.split("=", 1) for word in words[1:] if "=" in word)

    @property
    def title(self):
        return f"{self.program.name} {self.name}"

    @property
    def kinds(self):
        """The case's properties. Every slice contains a case with each of them."""
        return ((self.program.name, self.top is None, "deadlock" in self.flags, re.match("pool|dispatchMain|", self.name)[0]),)


def cases_of(source, program):
    """The cases of a source: functions with a line `// stalls: …` or `// nothing` in front."""
    cases, said = [], None
    for line in source.read_text().splitlines():
        if found := re.match(r"// (?:stalls: (.*)|nothing(?:, (.*))?)$", line):
            said = [word.strip() for word in found[1].split(",")] if found[1] else [None, *filter(None, [found[2]])]
        elif said is not None and (found := re.search(r"^CASE (\w+)\(|^func (\w+)\(", line)):
            cases.append(Case(program, found[1] or found[2], said))
            said = None
    return cases


def built():
    """Builds and yields (source, program) for each language."""
    c, swift = SOURCES / "ways.c", SOURCES / "ways.swift"
    yield c, builds.compiled(FOLDER / "c", ["gcc", "-g", "-O1", "-pthread", "-Wall", "-Wextra", str(c), "-o", str(FOLDER / "c")], [c])
    locks = SOURCES / "deadlocks.c"
    yield locks, builds.compiled(FOLDER / "locks", ["gcc", "-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", str(locks), "-o", str(FOLDER / "locks")],
                                 [locks])
    yield swift, builds.compiled(FOLDER / "swift", [SWIFTC, "-swift-version", "5", "-suppress-warnings", "-g", "-O", str(swift), "-o", str(FOLDER / "swift")], [swift])


def stalls_as(case):
    def test(place):
        report = place / "report.jsonl"
        options = ["-o", case.values["options"]] if "options" in case.values else []
        asked = ["--profile", "sample"] if "profile" in case.flags else ["--collect", "stalls"]
        command = [ZGUARD, "run", *asked, *options, "--report", report, "--format", "json", "--", case.program, case.name]
        plain, _, _ = run_within(TIMEOUT_SECONDS, [case.program, case.name], env=scrubbed(), cwd=place)
        status, _, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place)
        findings = findings_of(report)
        if case.top is None:
            assert not findings and status == plain, (status, plain, errors[-2000:])
            return
        assert status == (128 - plain if plain else 0 if "profile" in case.flags else 99), (status, plain, errors[-1000:])
        assert [finding["kind"] for finding in findings] == ["deadlock" if "deadlock" in case.flags else "stall"], errors[-2000:]
        [finding] = findings
        own = [frame for frame in finding["stacks"]["access"]
               if frame.get("module") == str(case.program) and not OF_LIBRARIES.match(frame.get("function", ""))]
        assert any(case.top in frame.get("function", "") for frame in own[:2]), [frame.get("function") for frame in finding["stacks"]["access"]]
        assert finding["samples"] > ("pool" not in case.name) and finding["occurrences"] >= 1, finding
        assert sum(one["count"] for one in finding["sampled"]) <= finding["samples"], finding["sampled"]
        assert 250 <= finding["duration_ms"] < 60000, finding["duration_ms"]
        # On a busy machine any stall may last so long that it is reported as a freeze, before it ends.
        assert finding["freeze"] if "freeze" in case.flags else not finding["freeze"] or finding["duration_ms"] >= FREEZE_MS, finding
        assert finding["computing"] == ("computing" in case.flags), finding
        assert finding.get("call") == case.values.get("call"), finding.get("call")
        assert case.values.get("thread", case.program.name) in ("*", finding["thread"]["name"]), finding["thread"]
        holders = [frame.get("function") for frame in finding.get("holder", {"stack": []})["stack"]]
        assert case.values.get("held") in (holders or [None]), holders
        # If the waits lead from the stalled thread into a cycle of other threads, detail `circle` names the thread where the cycle closes.
        assert ("circle" in finding.get("detail", {})) == ("circle" in case.flags), finding.get("detail")
        others = [[frame.get("function") for frame in one["stack"]] for one in finding.get("waits", [])]
        assert len(others) == ("waits" in case.values) and all(case.values["waits"] in stack for stack in others), others

    return test


def text_says_it(place):
    """The text report of a stall at a lock names the thread that holds the lock, and shows the holder's stack."""
    _, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--collect", "stalls", "--", FOLDER / "c", "waits_for_lock"], env=scrubbed(), cwd=place)
    assert re.search(r"stall: thread 1 \(c\) was busy for \d+ ms in take_lock \(ways\.c:\d+\): waiting in futex for a lock that .*\(holder\) holds", errors), errors
    assert "meanwhile the holder of the lock (holder):" in errors and "hold  " in errors, errors


def profile_sample_has_it(place):
    """Profile sample reports stalls and keeps the program's exit status. With --collect stalls, findings set the exit status to 99; with
    --collect crashes, stalls are not reported."""
    for words, expected in (([], 0), (["--collect", "crashes"], 0), (["--collect", "stalls"], 99)):
        status, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--profile", "sample", *words, "--", FOLDER / "c", "poll_computes"], env=scrubbed(), cwd=place)
        assert status == expected and ("stall: thread 1" in errors) == (words != ["--collect", "crashes"]), (words, status, errors)


def time_that_nobody_saw_is_nobodys_fault(place):
    """No stall is reported if zguard itself was stopped for most of the stall, as on a busy or suspended machine."""
    source = SOURCES / "on_request.c"
    program = builds.compiled(FOLDER / "on_request", ["gcc", "-O1", "-g", "-Wall", "-Wextra", source, "-o", FOLDER / "on_request"], [source])
    moments = [(b"s", 0.02 + 0.02 * number) for number in range(5)] + [(b"c", 0.14 + 0.01 * number) for number in range(5)]
    for number, (what, moment) in enumerate(moments):
        report = place / f"report{number}.jsonl"
        process = subprocess.Popen([ZGUARD, "run", "--collect", "stalls", "--report", report, "--format", "json", "--", program], env=scrubbed(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, bufsize=0)
        try:
            for _ in range(3):
                process.stdin.write(b"-")
                assert process.stdout.read(1) == b"-"
            watchers = running_in(process.pid, "zguard")
            time.sleep(0.2)  # gives all of zguard's processes time to start
            process.stdin.write(what)
            time.sleep(moment)
            for signal_number, pause in ((signal.SIGSTOP, 0.68), (signal.SIGCONT, 0)):
                for pid in watchers:
                    os.kill(pid, signal_number)
                time.sleep(pause)
            assert process.stdout.read(1) == what
            time.sleep(0.2)
            process.stdin.close()
            assert process.wait(TIMEOUT_SECONDS) == 0 and watchers, (process.returncode, report.read_text() if report.exists() else "")
        finally:
            kill_session(process.pid)
            process.wait()


def on_processor():
    source = SOURCES / "on_processor.c"
    return builds.compiled(FOLDER / "on_processor", ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", source, "-o", FOLDER / "on_processor"], [source])


def stalls_of(place, command):
    """Runs a command under zguard; returns its findings."""
    report = place / "report.jsonl"
    report.unlink(missing_ok=True)
    status, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--collect", "stalls", "--report", report, "--format", "json", "--", *command], env=scrubbed(), cwd=place)
    findings = findings_of(report)
    assert status == (99 if findings else 0), (status, errors[-1000:])
    return findings


class Cgroup:
    """A new cgroup whose processes together get `quota` of every `period` microseconds of processor time. `with` gives None if the cgroup
    cannot be made."""

    V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")

    def __init__(self, quota, period=100_000):
        self.folder = (self.V1 if self.V1.is_dir() else self.V2) / f"zguard-stalling-{os.getpid()}"
        self.limits = {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota} if self.V1.is_dir() else {"cpu.max": f"{quota} {period}"}

    def __enter__(self):
        try:
            self.folder.mkdir()
            for name, value in self.limits.items():
                (self.folder / name).write_text(str(value))
        except OSError as fault:
            print(f"no cgroup with a CPU quota can be made here: {fault}")
            self.__exit__()
            return None
        return self

    def __exit__(self, *_):
        for _ in range(100):  # until the kernel has removed the last process
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)
                continue
            return


def a_quota_counts(place):
    """Time in which the CPU quota is used up is part of the stall and is shown separately, even if the thread itself computed little."""
    program = on_processor()
    with Cgroup(quota=10_000) as group:
        if group is None:
            return
        for seconds in (0.4, 0.1):
            [finding] = stalls_of(place, [program, str(seconds), group.folder / "cgroup.procs"]) or [None]
            without = finding["without_processor_ms"]
            assert finding["duration_ms"] >= seconds * 1000 * 5 and seconds * 1000 * 4 <= without <= finding["duration_ms"], finding
            # If a wait for a processor begins between two samples, it is counted as the thread's own time. With 0.1 s of work, such waits
            # may hide that the thread computed.
            assert finding["without_processor_for"] == "quota" and (finding["computing"] or seconds == 0.1), finding
            assert finding["detail"]["cpu_quota"] == f"10 ms in every 100 ms, of cgroup /{group.folder.name}", finding["detail"]
        _, _, errors = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--collect", "stalls", "--", program, "0.3", group.folder / "cgroup.procs"], env=scrubbed())
        assert re.search(r"was busy for \d+ ms, of them \d+ ms without a processor \(CPU quota: 10 ms in every 100 ms, of cgroup /\S+\), in ", errors), errors


def zguard_shares_the_quota(place):
    """zguard shares the program's CPU quota, as in a container. While the quota is used up, zguard cannot run either."""
    program = on_processor()
    with Cgroup(quota=20_000) as group:
        if group is None:
            return
        script = f"echo 0 >{group.folder}/cgroup.procs && exec \"$@\""
        report = place / "report.jsonl"
        run_within(TIMEOUT_SECONDS, ["sh", "-c", script, "sh", ZGUARD, "run", "--collect", "stalls", "--report", report, "--format", "json", "--", program, "0.3"],
                   env=scrubbed())
        [finding] = findings_of(report) or [None]
        assert finding["duration_ms"] >= 900 and finding["without_processor_for"] == "quota", finding


def a_generous_quota_is_none(place):
    """A quota that is not used up is not reported as the cause of a stall, and does not turn short work into a stall."""
    program = on_processor()
    with Cgroup(quota=400_000) as group:
        if group is None:
            return
        assert not stalls_of(place, [program, "0.1", group.folder / "cgroup.procs"])
        [finding] = stalls_of(place, [program, "0.8", group.folder / "cgroup.procs"]) or [None]
        assert finding.get("without_processor_for") != "quota" and "cpu_quota" not in finding.get("detail", {}), finding


def load_counts_for_work_only(place):
    """On a busy processor, a thread with work of its own stalls for as long as its events wait; a thread with little work does not."""
    program = on_processor()
    processor = str(min(os.sched_getaffinity(0)))
    others = [subprocess.Popen(["taskset", "-c", processor, "sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(3)]
    try:
        busy = ["taskset", "-c", processor, program]
        [finding] = stalls_of(place, [*busy, "0.4"]) or [None]
        assert finding["duration_ms"] >= 1000 and finding["without_processor_ms"] >= finding["duration_ms"] / 2, finding
        assert finding.get("without_processor_for", "load") == "load" and finding["computing"], finding
        # Events wait for 0.6 s and more, but the thread works only for 0.06 s, so it does not stall.
        assert not stalls_of(place, ["nice", "-n", "15", *busy, "0.06"])
    finally:
        for process in others:
            kill_session(process.pid)
            process.wait()


def places(stack):
    return [(frame.get("function"), Path(frame.get("file", "")).name, frame.get("line")) for frame in stack]


def python_is_named(place):
    """Tests Debian's Python, and later versions if they are installed."""
    functions_are_named(place, ["/usr/bin/python3"])
    for name in ("python3.12", "python3.13"):
        # The command may be a tool that chooses one of several interpreters.
        found = subprocess.run([name, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True) if shutil.which(name) else None
        if found and found.returncode == 0:
            functions_are_named(place, [found.stdout.strip()])
        else:
            print(f"{name} is not installed: names of its functions are not checked")


def functions_are_named(place, python):
    """In native stacks, Python's functions replace the interpreter's frames, with files and lines, also if C code calls them."""
    shop = SOURCES / "shop.py"
    [finding] = stalls_of(place, [*python, shop, "computes"])
    stacks = [places(one["stack"]) for one in finding["sampled"]]
    own = [[frame for frame in stack if frame[1] == "shop.py"] for stack in stacks]
    outer = [("größe.<locals>.<lambda>", "shop.py", 24), ("größe", "shop.py", 24), ("<module>", "shop.py", 48)]
    assert all(stack[-3:] == outer for stack in own), own
    assert all(stack[-4][0] == "Cart.total" and 14 <= stack[-4][2] <= 19 for stack in own if len(stack) > 3) and max(map(len, own)) > 3, own
    # The frame of `sorted`, a C function, is between these two.
    names = [frame[0] for frame in stacks[0]]
    assert names.index("größe") - names.index("größe.<locals>.<lambda>") > 1, names
    [finding] = stalls_of(place, [*python, shop, "waits"])
    assert [frame[:2] for frame in places(finding["stacks"]["access"]) if frame[1] == "shop.py"] == [("take", "shop.py"), ("<module>", "shop.py")], finding["stacks"]


def javascript_is_named(place):
    """Functions that V8 has compiled have the names, files and lines of the perf map that V8 writes."""
    if not shutil.which("node"):
        print("node is not installed: names of its functions are not checked")
        return
    [finding] = stalls_of(place, ["node", "--perf-basic-prof", "--interpreted-frames-native-stack", SOURCES / "shop.mjs"])
    own = {frame[:2] for one in finding["sampled"] for frame in places(one["stack"]) if frame[1] == "shop.mjs"}
    assert {("price", "shop.mjs"), ("total", "shop.mjs")} <= own, finding["sampled"]
    Path(f"/tmp/perf-{finding['pid']}.map").unlink(missing_ok=True)


def maps_of_others_do_not_count(place):
    """Any user can write to /tmp, so a perf map must be a regular file of the process's user. Partial lines are not used."""
    source = SOURCES / "unnamed_code.c"
    program = builds.compiled(FOLDER / "unnamed_code", ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", source, "-o", FOLDER / "unnamed_code"], [source])
    for how, expected in (("file", True), ("grows", True), ("link", False), *((("other", False),) if os.geteuid() == 0 else ())):
        [finding] = stalls_of(place, [program, how, place / "elsewhere"])
        names = [frame.get("function") for one in finding["sampled"] for frame in one["stack"]]
        assert ("compiled total" in names) == expected and "compiled" not in names, (how, names)


def own_threads_are_looked_at(place):
    """Samples threads of the own process as StallMonitor does: no system call returns early, and no signal is lost."""
    folder = ROOT / "Sources/CUnwind"
    sources = [SOURCES / "own_threads.c", *folder.glob("*.c")]
    program = builds.compiled(FOLDER / "own_threads", ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{folder}/include", *sources,
                                                       "-o", FOLDER / "own_threads"], sources)
    for command in ([program, "1000"], [ZGUARD, "run", "--quiet", "--", program, "1000"]):
        status, out, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed())
        assert status == 0 and out == "looked at 1000 of 1000\n", (status, out, errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    add_slice_option(parser)
    arguments = parser.parse_args()
    cases = [case for source, program in built() for case in cases_of(source, program)]
    chosen = arguments.slice.choose(cases, name=lambda case: case.title, kinds=lambda case: case.kinds)
    return run_tests([(case.title, stalls_as(case)) for case in chosen] + [("text says it", text_says_it), ("profile sample has it", profile_sample_has_it), ("time that nobody saw", time_that_nobody_saw_is_nobodys_fault), ("own threads are looked at", own_threads_are_looked_at)]
                     + [(function.__name__.replace("_", " "), function)
                        for function in (python_is_named, javascript_is_named, maps_of_others_do_not_count, a_quota_counts, zguard_shares_the_quota, a_generous_quota_is_none, load_counts_for_work_only)], "zguard-stalling-", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
