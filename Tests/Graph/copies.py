#!/usr/bin/env python3
"""zguard leaks copies a large process by fork, and reads the copy while the process runs. Closing line: N passed, N failed.

zguard finds the same leaks in the copy as in the stopped process. The process notices nothing (children, SIGCHLD, sleeps, registers, signal
masks, closed sockets). Nothing is left behind when zguard is killed at any moment. Where a copy might do harm, zguard stops the process.
Programs/copied.c checks itself and prints "good".
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import run_driver, run_within  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

BUILD = builds.BUILD / "graph"
TIMEOUT_SECONDS = 120
LOST = (3, 300)
FEW, MANY = 1000, 300_000
COPIES = os.uname().machine == "x86_64"
# For each case of copied.c: None if zguard copies the process, else the reason why it does not.
WAYS = {
    "plain": None, "shared": None, "left-out": None, "wiped": None, "children": None, "all-children": None, "child-signal": None, "sleeps": None, "computes": None,
    "timer": None, "threads": None, "left-out-blocks": "madvise keeps blocks from being copied", "much-shared": "much memory is shared",
    "few-processes": "RLIMIT_NPROC is low", "filtered": "a seccomp filter might forbid a system call",
    "reaper": "the process is a reaper of orphans", "io-uring": "the process uses io_uring",
}


def program():
    BUILD.mkdir(parents=True, exist_ok=True)
    source = TESTS / "Graph/Programs/copied.c"
    return builds.compiled(BUILD / "copied", ["gcc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", BUILD / "copied", source],
                           [source], cwd=BUILD)


@contextlib.contextmanager
def running(way, count=FEW, options=""):
    """Runs copied.c as a guarded process, which checks itself at its end. That check must pass."""
    process = subprocess.Popen([program(), way, str(count)], env=guarded_by(options=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        process.is_available = True
        while (line := process.stdout.readline()) != "ready\n":
            assert line == "unavailable\n", line
            process.is_available = False
        yield process
        out, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (out, process.returncode) == ("good\n", 0), (out, process.returncode)
    finally:
        process.kill()
        process.wait()


def look(process):
    """Calls zguard leaks. Returns its findings and its last line."""
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "leaks", process.pid, "--format", "json"], env=scrubbed())
    *found, summary = [json.loads(line) for line in out.splitlines()] or [None]
    assert summary and summary["schema"] == "zguard.leaks/1", out[:500] + err
    assert code == (99 if found else 0), f"status {code}: {err}"
    allowed = json.loads((ROOT / "docs/leaks.schema.json").read_text())
    assert set(allowed["required"]) <= set(summary) <= set(allowed["properties"]), summary
    return found, summary


def amounts(found):
    return sum(each["blocks"] for each in found), sum(each["bytes"] for each in found)


def family(process):
    """Other processes that run the process's program: its children, helpers and copies."""
    own, found = os.readlink(f"/proc/{process.pid}/exe"), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != process.pid and os.readlink(entry / "exe") == own:
                found.append(int(entry.name))
    return found


def wait_until(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def nothing_is_left(process):
    wait_until(lambda: not family(process), f"left behind: {family(process)}")
    wait_until(lambda: not "".join((task / "children").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()), "a child is left")


def way_case(way, reason):
    def test(directory):
        with running(way) as process:
            if not process.is_available:
                return
            for _ in range(3):
                found, summary = look(process)
                assert amounts(found) == LOST, (amounts(found), found)
                expected = reason if COPIES else "not on this processor"
                assert (summary["copied"], summary.get("not_copied")) == (expected is None, expected), summary
            if not way.endswith("children"):
                nothing_is_left(process)
            _, text, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "leaks", process.pid], env=scrubbed())
            said = f" (not copied: {expected})" if expected else ""
            assert re.search(rf"stopped for \d+ ms{re.escape(said)}$", text.strip()), text
    return test


def equal_results(options, count, reason=None):
    """zguard leaks finds the same leaks in a copy of the running process as in the process itself after SIGSTOP has stopped it."""
    def test(directory):
        with running("plain", count, options) as process:
            found, summary = look(process)
            assert summary["copied"] == (reason is None) and summary.get("not_copied") == reason, summary
            process.send_signal(signal.SIGSTOP)
            try:
                wait_until(lambda: "State:\tT" in Path(f"/proc/{process.pid}/status").read_text(), "the process does not stop")
                stopped, second = look(process)
            finally:
                process.send_signal(signal.SIGCONT)
            assert not second["copied"] and "not_copied" not in second, second
            assert amounts(found) == LOST, found
            for each in found + stopped:
                each.pop("time")
            assert found == stopped, (found, stopped)
            assert [summary[key] for key in ("blocks", "lost_blocks", "lost_bytes")] == [second[key] for key in ("blocks", "lost_blocks", "lost_bytes")]
    return test


def small_process(directory):
    """A small process is stopped instead of copied, because making a copy takes as long as reading the process."""
    with subprocess.Popen(["/bin/cat"], env=guarded_by(), stdin=subprocess.PIPE) as process:
        wait_until(lambda: "libzguard" in Path(f"/proc/{process.pid}/maps").read_text() and
                   Path(f"/proc/{process.pid}/wchan").read_text() != "0", "cat does not start")
        _, summary = look(process)
        assert summary["copied"] is False and "not_copied" not in summary, summary


@contextlib.contextmanager
def with_copy(process):
    """Stops `zguard leaks` while its copy of the process exists. Yields zguard and the copy."""
    for _ in range(20):
        looker = subprocess.Popen([ZGUARD, "leaks", str(process.pid), "--format", "json"], env=scrubbed(), stdout=subprocess.PIPE, text=True)
        try:
            while looker.poll() is None:
                copies = family(process)
                if len(copies) == 1 and "TracerPid:\t0" in Path(f"/proc/{process.pid}/status").read_text():
                    looker.send_signal(signal.SIGSTOP)
                    if len(family(process)) == 1 and Path(f"/proc/{copies[0]}").exists():
                        yield looker, copies[0]
                        return
                    looker.send_signal(signal.SIGCONT)
        finally:
            looker.kill()
            looker.wait()
    raise AssertionError("no copy was seen")


def copy_holds_nothing(directory):
    """The copy has no descriptor, session or parent of the process, and if the process closes a socket, the peer sees that at once."""
    with running("plain", MANY) as process, with_copy(process) as (looker, copy):
        assert not list(Path(f"/proc/{copy}/fd").iterdir()), "the copy has descriptors"
        assert os.getsid(copy) != os.getsid(process.pid) and os.getpgid(copy) != os.getpgid(process.pid)
        status = Path(f"/proc/{copy}/status").read_text()
        assert re.search(r"^State:\s+t", status, re.M) and f"TracerPid:\t{looker.pid}" in status, status
        assert f"PPid:\t{process.pid}\n" not in status, status
        assert Path(f"/proc/{copy}/oom_score_adj").read_text() == "1000\n"
        process.stdin.write("c")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        looker.send_signal(signal.SIGCONT)
        out, _ = looker.communicate(timeout=TIMEOUT_SECONDS)
        *found, summary = [json.loads(line) for line in out.splitlines()]
        assert summary["copied"] and amounts(found) == LOST, out
        nothing_is_left(process)


def copy_is_killed(directory):
    """The kernel may kill the copy when memory is short. Then zguard stops the process and reads it instead."""
    with running("plain", MANY) as process, with_copy(process) as (looker, copy):
        os.kill(copy, signal.SIGKILL)
        looker.send_signal(signal.SIGCONT)
        out, _ = looker.communicate(timeout=TIMEOUT_SECONDS)
        *found, summary = [json.loads(line) for line in out.splitlines()]
        assert summary.get("not_copied") == "the kernel has killed the copy" and amounts(found) == LOST, out
        nothing_is_left(process)


def zguard_is_killed(directory):
    with running("children", MANY) as process:
        for delay in (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3):
            looker = subprocess.Popen([ZGUARD, "leaks", str(process.pid)], env=scrubbed(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            looker.kill()
            looker.wait()
    with running("plain", MANY) as process:
        with with_copy(process) as (looker, _):
            looker.kill()
            looker.wait()
            nothing_is_left(process)


def zguard_is_killed_at(way):
    """zguard is killed at each of its calls of ptrace. The thread that made the copy gets its registers and its signal mask back."""
    def test(directory):
        trace = Path(directory) / "trace"
        strace = ["strace", "-qq", "-o", trace, "-e", "trace=ptrace"]
        with running(way) as process:
            run_within(TIMEOUT_SECONDS, [*strace, ZGUARD, "leaks", process.pid], env=scrubbed())
            calls = trace.read_text().splitlines()
            # Many calls write one word each (POKEDATA): try one in nine of them.
            places = [number for number, call in enumerate(calls, 1) if "POKEDATA" not in call or number % 9 == 0]
            assert len(places) > 20 and any("PTRACE_O_EXITKILL" in call for call in calls), len(calls)
            for place in places:
                run_within(TIMEOUT_SECONDS, [*strace, "-e", f"inject=ptrace:signal=SIGKILL:when={place}", ZGUARD, "leaks", process.pid],
                           env=scrubbed())
                if not way.endswith("children"):
                    nothing_is_left(process)
            found, summary = look(process)
            assert amounts(found) == LOST and summary["copied"], (found, summary)
    return test


def tests():
    yield from ((f"way {way}", way_case(way, reason)) for way, reason in WAYS.items())
    yield "a small process", small_process
    if not COPIES:
        return
    yield "equal results", equal_results("", MANY)
    yield "equal results with windows", equal_results("profile=fence", FEW)
    yield "equal results with many windows", equal_results("profile=fence", MANY, "many blocks are in windows")
    yield "the copy holds nothing", copy_holds_nothing
    yield "the copy is killed", copy_is_killed
    yield "zguard is killed", zguard_is_killed
    yield from ((f"zguard is killed at each call, {way}", zguard_is_killed_at(way)) for way in ("plain", "computes", "sleeps", "timer", "children"))


if __name__ == "__main__":
    sys.exit(run_driver(__doc__, tests, "zguard-graph-"))
