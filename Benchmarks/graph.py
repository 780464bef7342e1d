#!/usr/bin/env python3
"""Cost of `zguard leaks` and `zguard heap` for a process with many blocks: time, memory of zguard, and how long the process is stopped.

graph/blocks.c writes to its blocks without pause, and prints its longest pause at its end. On a loaded machine, pauses have other causes,
too. Each round measures a running process, which zguard copies, and a process that SIGSTOP has stopped, which zguard reads directly. The
"stopped" time of the second process is the cost for a process that cannot be copied.

usage: Benchmarks/graph.py [--blocks 10000000] [--bytes 176] [--rounds 3]"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests"))

from Support.environment import ZGUARD, guarded_by, scrubbed  # noqa: E402


def look(*command):
    """Runs zguard. Returns its output, and its wall-clock seconds, processor seconds and peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], env=scrubbed(), stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, out
    return out, (time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


@contextlib.contextmanager
def running(program, options):
    """A guarded process with `options.blocks` blocks that is killed at the end; a context manager."""
    process = subprocess.Popen([program, str(options.blocks), str(options.bytes), "writes"], env=guarded_by(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10_000_000)
    parser.add_argument("--bytes", type=int, default=176)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "blocks"
        subprocess.run(["gcc", "-O2", "-pthread", "-o", program, HERE / "graph/blocks.c"], check=True)
        for _ in range(options.rounds):
            with running(program, options) as process:
                out, costs = look(ZGUARD, "leaks", process.pid, "--format", "json")
                summary = json.loads(out.splitlines()[-1])
                name = "leaks, copied" if summary["copied"] else f"leaks, not copied: {summary['not_copied']}"
                rows.setdefault(name, []).append((*costs, summary["stopped_ms"]))
                _, costs = look(ZGUARD, "heap", process.pid, "--format", "json")
                rows.setdefault("heap", []).append((*costs, 0))
                process.stdin.close()
                rows.setdefault("longest pause of the program, ms", []).append((float(process.stdout.read()),))
            with running(program, options) as process:
                process.send_signal(signal.SIGSTOP)
                while "State:\tT" not in Path(f"/proc/{process.pid}/status").read_text():
                    time.sleep(0.01)
                out, costs = look(ZGUARD, "leaks", process.pid, "--format", "json")
                rows.setdefault("leaks, stopped", []).append((*costs, json.loads(out.splitlines()[-1])["stopped_ms"]))
    print(f"{options.blocks:,} blocks of {options.bytes} bytes; medians of {options.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'':34}{'seconds':>9}{'CPU s':>9}{'MB':>9}{'stopped ms':>12}")
    for name, samples in rows.items():
        medians = [statistics.median(column) for column in zip(*samples)]
        print(f"{name:34}" + (f"{medians[0]:9.2f}{medians[1]:9.2f}{medians[2]:9.0f}{medians[3]:12.0f}" if len(medians) > 1 else f"{medians[0]:39.0f}"))


if __name__ == "__main__":
    main()
