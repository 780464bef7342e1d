#!/usr/bin/env python3
"""Tests the helpers for test servers: ports, explanations of hanging servers, ends of sessions.
No other process gets a reserved port. For a server that ends before it listens, one that never listens and a program that does not end, the
error must have the last output, the stacks of the threads and the holder of the port. Closing line: N passed, N failed."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path[1:1] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("Programs", "Suites")]

from Support import ports, processes  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ROOT, TESTS  # noqa: E402
from case import Case  # noqa: E402
from harness import Explained, Guard, Run  # noqa: E402
from suite import Guard as SuiteGuard  # noqa: E402
from suite import Place  # noqa: E402

ZGUARD = ROOT / "build/bin/zguard"
PYTHON = "/usr/bin/python3"  # the system's
TAKERS, PORTS_EACH = 4, 150

TAKER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from Support.ports import Ports
ports = Ports()
print(*[ports.take() for _ in range({PORTS_EACH})], flush=True)
sys.stdin.read()
"""

# Two threads that wait for ever, each in a function of its own.
WAITER = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void waits_for_a_lock(void) { pthread_mutex_lock(&lock); puts("never"); }
static void *second_thread(void *unused) { waits_for_a_lock(); return unused; }
__attribute__((noinline)) static void waits_for_signals(void) { for (;;) pause(); }
int main(void) {
    pthread_t thread;
    free(malloc(10));
    pthread_mutex_lock(&lock);
    if (pthread_create(&thread, NULL, second_thread, NULL)) return 2;
    fputs("the last words\\n", stderr);
    waits_for_signals();
}
"""


def waiter(work):
    (work / "waiter.c").write_text(WAITER)
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", work / "waiter", work / "waiter.c"], check=True, timeout=60)
    return work / "waiter"


def passes(work):
    """Yields an unguarded run and a guarded one."""
    work.chmod(0o711)
    for guard in (None, Guard(zguard=ZGUARD)):
        run = Run(Case(), work, guard)
        try:
            yield run
        finally:
            run.stop()


def explained(action):
    """Calls an action that must fail; returns its error text and its duration."""
    started = time.monotonic()
    try:
        action()
    except Explained as error:
        return str(error), time.monotonic() - started
    raise AssertionError("it did not fail")


def must_say(text, *words):
    for word in words:
        assert word in text, f"{word!r} is missing in:\n{text}"


# MARK: ports


def ports_of_several_processes(_):
    takers = [subprocess.Popen([sys.executable, "-c", TAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
              for _ in range(TAKERS)]
    taken = [int(word) for taker in takers for word in taker.stdout.readline().split()]
    first, last = ports.kernels_range()
    mine = ports.Ports()
    more = [mine.take() for _ in range(PORTS_EACH)]
    for taker in takers:
        taker.communicate(timeout=60)
    assert len(taken) == TAKERS * PORTS_EACH, f"{len(taken)} ports were taken"
    assert len({*taken, *more}) == len(taken) + len(more), "two processes got the same port"
    assert not [port for port in taken if first <= port <= last], "one that the kernel gives to others"
    mine.close()


def a_port_in_use(_):
    """A port is not handed out while it is bound, connected or in TIME-WAIT, nor while another test holds it."""
    mine = ports.Ports()
    port = mine.take()
    only, kept = (lambda *_: [port]), ports.candidates
    ports.candidates = only
    try:
        def is_refused():
            try:
                with ports.Ports() as others:
                    others.take()
            except ports.NoPort:
                return True
            return False

        assert is_refused(), "another test got it"
        mine.close()
        assert not is_refused(), "it is not free again"
        with socket.socket() as server, socket.socket() as client:
            client.bind(("127.0.0.1", port))
            assert is_refused(), "it is bound"
            server.bind(("127.0.0.1", 0))
            server.listen()
            client.connect(server.getsockname())
            assert is_refused(), "it is connected"
            client.shutdown(socket.SHUT_WR)
            server.accept()[0].close()
        assert is_refused(), "it is in TIME-WAIT"
        must_say(processes.holders(port), f"port {port} is held", "TIME-WAIT")
    finally:
        ports.candidates = kept


def ranges_of_the_kernel(_):
    assert ports.kernels_range("32768\t60999\n") == (32768, 60999)
    assert not [port for port in ports.candidates(32768, 60999) if 32768 <= port <= 60999]
    assert len(ports.candidates(1024, 65535)) > ports.FEWEST, "no ports where the kernel gives away all"
    with ports.Ports() as some:
        first = some.take_row(200)
        low, high = ports.kernels_range()
        assert first + 199 < low or first > high, "the row reaches into the kernel's range"


# MARK: servers and programs


def a_server_whose_port_is_taken(work):
    for run in passes(work):
        port = run.port()
        with socket.socket() as other, socket.socket() as mine:
            other.bind(("127.0.0.1", 0))
            other.listen()
            mine.bind(("127.0.0.1", port))
            mine.connect(other.getsockname())
            server = run.spawn([PYTHON, "-m", "http.server", port, "--bind", "127.0.0.1"])
            text, seconds = explained(lambda: server.wait_for(port))
        must_say(text, run.mode, "ended with 1", "Address already in use", f"port {port} is held", "established, to port",
                 f"process {os.getpid()}")
        assert seconds < 60, f"was noticed after {seconds:.0f} s"


def a_server_that_never_listens(work):
    program = waiter(work)
    for run in passes(work):
        port = run.port()
        server = run.spawn([program])
        text, _ = explained(lambda: server.wait_for(port, seconds=3))
        must_say(text, run.mode, "something listens", "the last words", f"nobody holds port {port}", "waits_for_a_lock",
                 "waits_for_signals", "second_thread", "thread ")
        assert not server.has_ended(), "looking at it ended it"


def a_program_that_does_not_end(work):
    program = waiter(work)
    for run in passes(work):
        text, _ = explained(lambda: run.step([program], timeout=3))
        must_say(text, run.mode, "still running after 3 s", "the last words", "waits_for_a_lock", "waits_for_signals")


def stacks_without_gdb(work):
    with subprocess.Popen([waiter(work)], stderr=subprocess.PIPE) as process:
        kept, processes.shutil.which = processes.shutil.which, lambda name: None
        try:
            process.stderr.readline()
            time.sleep(0.2)
            text = processes.stacks([process.pid])
        finally:
            processes.shutil.which = kept
            process.kill()
    must_say(text, f"process {process.pid}: ", "waiter, S (sleeping)", "no gdb")
    assert text.count("    thread ") == 2, text


def a_unit_of_a_suite_past_its_deadline(work):
    program = waiter(work)
    place = Place(work / "place", SuiteGuard(ZGUARD, "default"))
    ended = place.run([program], deadline=3.0)
    assert ended.status is None and ended.seen, f"status {ended.status}"
    must_say(place.hung, "waits_for_a_lock", "waits_for_signals")


def status_without_reaping(_):
    for command, status in (("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM)):
        with subprocess.Popen(["sh", "-c", command], start_new_session=True) as process:
            for _ in range(2):
                found = processes.wait_without_reaping(process.pid, 60)
                assert found == status, f"{command}: {found}"
            assert Path(f"/proc/{process.pid}").exists(), "its number is free for others"
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        started = time.monotonic()
        assert processes.wait_without_reaping(process.pid, 0.2) is None and time.monotonic() - started < 30
        process.kill()


def ends_of_sessions(_):
    script = "sleep 60 & sleep 60 & echo; exit 0"
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other, \
         subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        assert processes.wait_without_reaping(process.pid, 60) == 0
        assert len(processes.session_members(process.pid)) == 2, processes.session_members(process.pid)
        processes.kill_session(process.pid)
        assert not processes.session_members(process.pid), "some are left"
        assert other.poll() is None, "somebody else was killed"
        other.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", metavar="TEXT", default="")
    options = parser.parse_args()
    tests = [(test.__name__.replace("_", " "), test) for test in (
        ports_of_several_processes, a_port_in_use, ranges_of_the_kernel, a_server_whose_port_is_taken,
        a_server_that_never_listens, a_program_that_does_not_end, stacks_without_gdb, a_unit_of_a_suite_past_its_deadline,
        status_without_reaping, ends_of_sessions)]
    return run_tests(tests, "zguard-servers-", options.filter, shows_passed=True)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
