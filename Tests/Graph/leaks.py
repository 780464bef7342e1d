#!/usr/bin/env python3
"""Finds leaks and retain cycles in programs that have them, and none in programs that do not. Closing line: N passed, N failed.

lost.c loses blocks in each way, or keeps them; zguard must find the same blocks as LeakSanitizer. containers.cpp loses and keeps C++
objects, which are not compared with LeakSanitizer.
cycles.swift, value_cycles.swift and service_cycles.swift have one retain cycle of each kind and a corrected twin of each, which must be
silent; the path of the cycle stands in the comment above each case. xctests.swift has tests of XCTest. correct.swift, and real programs
that LeakSanitizer or Valgrind finds clean, must be silent.
"""

import json
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
from Support.checks import run_driver, run_within  # noqa: E402
from Support.cores import kernel_writes_here, kernels_core, may_leave_core  # noqa: E402
from Support.environment import ARCH, ROOT, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

PROGRAMS = TESTS / "Graph/Programs"
BUILD = builds.BUILD / "graph"
TIMEOUT_SECONDS = 120
TRIES = 5
UNSTOPPED_SECONDS = 60  # time limit; a process that zguard keeps from ending would never end
BUILDS = {"-Onone": ["-Onone"], "-O": ["-O"], "static": ["-O", "-static-stdlib"]}
# Swift programs with many cases, and the first word of the names of their tests.
SWIFT = {"cycles": "cycle", "value_cycles": "cycle", "service_cycles": "cycle", "correct": "correct"}

# Cases of lost.c: lost blocks and bytes, and blocks and bytes that only lost blocks refer to.
LOST = {
    "direct": (3, 300, 0, 0), "indirect": (1, 64, 1, 40), "ring": (1, 64, 2, 128), "large-lost": (1, 8 << 20, 1, 48),
    "many": (5000, 5000 * 64, 0, 0), "ended-thread": (1, 64, 0, 0),
}
KEPT = ["global", "static", "thread-local", "interior", "chain", "mapping", "tag", "other-thread", "large", "local"]


def build_c(flags=(), name="lost"):
    BUILD.mkdir(parents=True, exist_ok=True)
    source = PROGRAMS / "lost.c"
    return builds.compiled(BUILD / name, ["gcc", "-g", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread", *flags, "-o", BUILD / name, source],
                           [source], cwd=BUILD)


def build_cxx():
    BUILD.mkdir(parents=True, exist_ok=True)
    source = PROGRAMS / "containers.cpp"
    return builds.compiled(BUILD / "containers", ["g++", "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", BUILD / "containers",
                                                  source], [source], cwd=BUILD)


def build_swift(source, kind):
    BUILD.mkdir(parents=True, exist_ok=True)
    sources, name = [PROGRAMS / f"{source}.swift", PROGRAMS / "case_runner.swift"], f"{source}{kind}"
    return builds.compiled(BUILD / name, ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-parse-as-library", "-g", *BUILDS[kind],
                                          "-o", BUILD / name, *sources], sources, cwd=BUILD)


def findings_at_end(directory, *command, status=None):
    """Runs a program with --leaks. Returns its findings."""
    report = Path(directory) / "report.jsonl"
    report.unlink(missing_ok=True)
    code, _, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--leaks", "--report", report, "--", *command], env=scrubbed())
    found = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    found = [finding for finding in found if finding["schema"] == "zguard.finding/1"]
    assert code == (status or 0 if not found else status or 99), f"status {code}: {err}"
    assert "was not searched" not in err, err
    return found


def looked_at(program, *words):
    """Starts a guarded program and calls zguard leaks when it is ready. Returns the findings and the summary. The program must go on."""
    process = subprocess.Popen([program, *words], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "leaks", process.pid, "--format", "json"], env=scrubbed())
        *found, summary = [json.loads(line) for line in out.splitlines()]
        assert summary["schema"] == "zguard.leaks/1" and summary["stopped_ms"] >= 0 and summary["copied"] is False, summary
        assert code == (99 if found else 0), f"status {code}: {err}"
        state = re.search(r"^State:\s+(\S)", Path(f"/proc/{process.pid}/status").read_text(), re.M)[1]
        assert state in "RS", f"the program's state is {state}"
        process.stdin.close()
        assert process.wait(10) in (0, 1)
        return found
    finally:
        process.kill()
        process.wait()


def amounts(found):
    direct = [finding for finding in found if finding["kind"] == "leak"]
    indirect = [finding.get("indirect", {"blocks": 0, "bytes": 0}) for finding in direct]
    return (sum(finding["blocks"] for finding in direct), sum(finding["bytes"] for finding in direct),
            sum(part["blocks"] for part in indirect), sum(part["bytes"] for part in indirect))


def lost_case(name):
    def test(directory):
        program, expected = build_c(), LOST[name]
        for where, found in (("at the end", findings_at_end(directory, program, name, "end")), ("from outside", looked_at(program, name))):
            assert amounts(found) == expected, f"{where}: {amounts(found)} in place of {expected}: {found}"
            functions = [frame.get("function") for finding in found for frame in finding["stacks"]["alloc"]]
            assert {name.replace("-", "_").replace("large_lost", "large_lost").replace("ended_thread", "use_local")} & set(functions), functions
    return test


def kept_case(name):
    def test(directory):
        program = build_c()
        found = looked_at(program, name)
        assert not found, found
        # At the program's end, locals of other threads still exist, but those of main do not.
        found = findings_at_end(directory, program, name, "end") if name != "local" else []
        assert not found, found
    return test


def compared_with_sanitizer(directory):
    program, reference = build_c(), build_c(["-fsanitize=leak"], "lost-lsan")
    problems = []
    for name in [*LOST, *KEPT]:
        _, _, err = run_within(TIMEOUT_SECONDS, [reference, name, "end"], env=scrubbed())
        assert "LeakSanitizer has encountered a fatal error" not in err, err
        theirs = [[int(number) for number in match] for match in re.findall(r"(?:Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object", err)]
        theirs = (sum(blocks for _, blocks in theirs), sum(size for size, _ in theirs))
        ours = amounts(findings_at_end(directory, program, name, "end"))
        ours = (ours[0] + ours[2], ours[1] + ours[3])
        # LeakSanitizer knows neither tagged pointers nor mapped memory.
        if ours != theirs and name not in ("tag", "mapping"):
            problems.append(f"{name}: {ours} blocks and bytes, LeakSanitizer: {theirs}")
    assert not problems, problems


def containers(directory):
    program = build_cxx()
    assert not (found := findings_at_end(directory, program, "kept")), found
    found = findings_at_end(directory, program, "object")
    assert [(each["kind"], each["block"].get("class")) for each in found] == [("leak", "shop::Item")], found
    # A pointer to the last block may still be in a register or a dead stack slot, as with LeakSanitizer.
    assert found[0]["blocks"] in (9, 10), found
    found = findings_at_end(directory, program, "array")
    assert [(each["kind"], each["blocks"]) for each in found] == [("leak", 1)], found
    # Four items (one is shared by an item of the array) have names in blocks of their own; the shared item has a block, too.
    assert found[0]["indirect"]["blocks"] == 5, found
    found = findings_at_end(directory, program, "ring")
    assert [each["kind"] for each in found] == ["leak"] and found[0]["blocks"] in (9, 10), found
    assert found[0]["indirect"]["blocks"] == 3 * found[0]["blocks"], found


def swift_cases(source):
    """Returns {case: expected paths of its cycle} of a Swift program. "-" in place of the paths: the case is correct. "- leak":
    it loses blocks, but has no cycle."""
    text = (PROGRAMS / f"{source}.swift").read_text()
    found = re.findall(r"^// case: (.*)\n(?:.*\n)*?^func (\w+)\(_ isFixed: Bool\)", text, re.M)
    listed = re.search(r"let cases: .*?\n\]", text, re.S)[0]
    names = re.findall(r'\("(\w+)", \w+\)', listed)
    assert sorted(names) == sorted(name for _, name in found), "a case is not in the list, or has no comment"
    return {name: path if path in ("-", "- leak") else path.split(" | ") for path, name in found}


def swift_case(source, kind, name, paths):
    def test(directory):
        program = build_swift(source, kind)
        # A stale reference in main's own frame or in a register may hide the cycle. This varies from run to run, as addresses do.
        for _ in range(TRIES if paths != "-" else 1):
            found = findings_at_end(directory, program, name)
            cycles = [finding for finding in found if finding["kind"] == "retain-cycle"]
            if found:
                break
        if paths == "- leak":
            assert found and not cycles, found
        elif paths != "-":
            assert cycles, f"no cycle: {found}"
            said = paths_said(directory)
            wanted = [plain(path) for path in paths]
            assert any(plain(text).startswith(path) for text in said for path in wanted), f"another cycle: {said}, not {paths}"
            # Optimized code may have no line for a closure that was inlined, and code of libraries has none.
            closures = [part for text in said for part in text.split(" → ") if part.startswith("closure #") and " static Observation." not in part]
            for closure in closures if kind == "-Onone" else ():
                assert f"({source}.swift:" in closure, f"a closure without its line: {said}"
            for step in cycles[0]["cycle"]:
                assert step["stacks"]["alloc"], f"an object without its allocation: {step}"
        else:
            assert not found, found
        found = findings_at_end(directory, program, name, "fixed")
        assert not found, f"the corrected twin is not silent: {found}"
    return test


def build_xctests():
    BUILD.mkdir(parents=True, exist_ok=True)
    source = PROGRAMS / "xctests.swift"
    return builds.compiled(BUILD / "xctests", ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-g", "-o", BUILD / "xctests", source],
                           [source], cwd=BUILD)


def test_cases(directory):
    """What XCTest keeps is not lost; a cycle that a test loses is. Cycles that only the lost cycle refers to are no findings."""
    program = build_xctests()
    assert not findings_at_end(directory, program)
    for _ in range(TRIES):
        found = findings_at_end(directory, "env", "LOST=1", program)
        if found:
            break
    assert paths_said(directory) == ["Cart.other → Cart.other → Cart"], paths_said(directory)
    assert found[0]["blocks"] == 5, found


def plain(text):
    """A path without what is in parentheses: arguments and lines."""
    return re.sub(r" +", " ", re.sub(r"\([^()]*\)", "", text))


def paths_said(directory):
    """The paths of the cycles in the last report, as the text report shows them."""
    _, out, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", Path(directory) / "report.jsonl"], env=scrubbed())
    return re.findall(r"retain-cycle: .* alive: (.*); \d+ block", out)


def real_program(*command, needs=None):
    def test(directory):
        if not shutil.which(command[0]):
            raise AssertionError(f"{command[0]} is not installed")
        found = findings_at_end(directory, *command)
        assert not found, [(each["program"], each["kind"], each["blocks"], each["bytes"], [frame.get("function") for frame in
                            each["stacks"]["alloc"]][:8]) for each in found]
    return test


def core_file(directory):
    """zguard finds the same leaks in gdb's core file as in the process, or says that the file lacks memory."""
    core = Path(directory) / "core"
    process = subprocess.Popen([build_c(), "indirect"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", process.pid, "-ex", f"generate-core-file {core}"]
        _, out, err = run_within(TIMEOUT_SECONDS, command, env=scrubbed())
        assert core.exists(), out + err
    finally:
        process.kill()
        process.wait()
    # gdb writes zeros for the memory around guard pages, which hides the references there.
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "leaks", core, "--format", "json"], env=scrubbed())
    if code != 1 or "lacks the contents of" not in err:
        assert code == 99 and amounts([json.loads(line) for line in out.splitlines()][:-1]) == LOST["indirect"], out + err
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "heap", core], env=scrubbed())
    assert code == 0 and "make_node (lost.c:" in out, out + err


def kernels_core_file(directory):
    """zguard finds the same leaks in the kernel's core file as in the process."""
    if not kernel_writes_here():
        return
    process = subprocess.Popen([build_c(), "indirect"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=directory,
                               preexec_fn=may_leave_core)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGQUIT)
    assert process.wait(TIMEOUT_SECONDS) == -signal.SIGQUIT, process.returncode
    core = kernels_core(Path(directory))
    assert core, "no core file"
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "leaks", core, "--format", "json"], env=scrubbed())
    assert code == 99 and amounts([json.loads(line) for line in out.splitlines()][:-1]) == LOST["indirect"], out + err


def zguard_dies(directory):
    """A process that zguard has stopped goes on when zguard is killed."""
    process = subprocess.Popen([build_c(), "chain"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
            looker = subprocess.Popen([ZGUARD, "leaks", str(process.pid)], env=scrubbed(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                looker.wait(delay)
            except subprocess.TimeoutExpired:
                looker.send_signal(signal.SIGKILL)
                looker.wait()
        process.stdin.close()
        assert process.wait(10) in (0, 1)
    finally:
        process.kill()
        process.wait()


def zguard_dies_at_end(directory):
    """A program that waits for zguard at its end goes on when zguard is killed."""
    process = subprocess.Popen([ZGUARD, "run", "--leaks", "--", build_c(), "chain"], env=scrubbed(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        program = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        process.send_signal(signal.SIGSTOP)
        process.stdin.close()
        time.sleep(1)
        state = Path(f"/proc/{program}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state in "SR", f"the program does not wait: its state is {state}"
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while Path(f"/proc/{program}").exists() and Path(f"/proc/{program}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < deadline, "the program still waits"
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()


def thread_does_not_stop(directory):
    """A thread that does not stop for the search, and ends while it is traced, does not keep its process from ending."""
    source, program = PROGRAMS / "unstoppable.c", BUILD / "unstoppable"
    BUILD.mkdir(parents=True, exist_ok=True)
    builds.compiled(program, ["gcc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, source], [source], cwd=BUILD)
    for words, status in (([], 0), (["main"], 0), (["abort"], 134)):
        code, _, err = run_within(UNSTOPPED_SECONDS, [ZGUARD, "run", "--leaks", "--collect", "crashes", "--", program, *words], env=scrubbed())
        assert code == status, (words, code, err)
        assert words == ["abort"] or "did not stop in time" in err, (words, err)


def every_process(directory):
    """zguard searches for leaks in each process that exits by itself, except children that a process with several threads has forked."""
    program = build_c()
    found = findings_at_end(directory, "/bin/sh", "-c", f"{program} direct end; {program} indirect end; {program} chain end")
    assert sorted(each["blocks"] for each in found) == [1, 3], found


def no_search_is_said(directory):
    """If no process of the run was searched, zguard says so."""
    code, _, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--leaks", "--", "/bin/sh", "-c", "kill -9 $$"], env=scrubbed())
    assert code == 137 and "no process was searched for leaks" in err, err
    code, _, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--leaks", "--", "/bin/true"], env=scrubbed())
    assert code == 0 and "not searched" not in err, err


def heap_grows(directory):
    saved = Path(directory) / "heap.json"
    process = subprocess.Popen([build_c(), "many"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        command = [ZGUARD, "heap", process.pid]
        code, out, err = run_within(TIMEOUT_SECONDS, [*command, "--format", "json", "--save", saved], env=scrubbed())
        assert code == 0, err
        heap = json.loads(out)
        first = heap["stacks"][0]
        assert (first["blocks"], first["bytes"]) == (5000, 320000), first
        assert first["alloc"][0]["function"] == "make_node" or first["alloc"][1]["function"] == "make_node", first
        assert heap["classes"][0]["family"] == "malloc", heap["classes"]
        code, out, err = run_within(TIMEOUT_SECONDS, [*command, "--since", saved], env=scrubbed())
        assert code == 0 and "no class has grown" in out, out + err
        code, out, err = run_within(TIMEOUT_SECONDS, [*command], env=scrubbed())
        assert code == 0 and "make_node (lost.c:" in out and "(malloc)" in out, out + err
        saved.write_text("{}")
        code, _, err = run_within(TIMEOUT_SECONDS, [*command, "--since", saved], env=scrubbed())
        assert code == 1 and "is not a saved heap" in err, err
    finally:
        process.kill()
        process.wait()


def tests():
    yield from ((f"lost {name}", lost_case(name)) for name in LOST)
    yield from ((f"kept {name}", kept_case(name)) for name in KEPT)
    if ARCH == os.uname().machine:
        yield "compared with LeakSanitizer", compared_with_sanitizer
    yield "containers", containers
    for source, what in SWIFT.items():
        for kind in BUILDS if what == "cycle" else ("-Onone", "-O"):
            yield from ((f"{what} {name} {kind}", swift_case(source, kind, name, paths)) for name, paths in swift_cases(source).items())
    yield "test cases", test_cases
    yield "core file", core_file
    yield "kernel's core file", kernels_core_file
    yield "zguard dies", zguard_dies
    yield "zguard dies at the end", zguard_dies_at_end
    yield "thread does not stop", thread_does_not_stop
    yield "every process", every_process
    yield "no search is said", no_search_is_said
    yield "heap grows", heap_grows
    yield "real python3", real_program("/usr/bin/python3", "-c", "pass")
    yield "real git", real_program("git", "-C", ROOT, "--no-pager", "log", "--oneline", "-20")
    yield "real sqlite3", real_program("sqlite3", ":memory:", "create table t(x); insert into t values(1); select * from t;")
    yield "real awk", real_program("mawk", "{n += NF} END {print n}", ROOT / "CHANGELOG.md")
    yield "real xz", real_program("xz", "-c", ROOT / "CHANGELOG.md")
    yield "real ls", real_program("ls", "-l", "/usr/bin")


if __name__ == "__main__":
    sys.exit(run_driver(__doc__, tests, "zguard-graph-"))
