#!/usr/bin/env python3
"""Runs long random sequences of all allocation functions, and checks blocks against a model (Tests/Runtime/Model/model.c).

usage: Tests/Runtime/model.py [--operations N] [--threads N] [--seed S] [--filter TEXT] [--library PATH] [--build WHAT]

Runs one program under each set of options below, and once unguarded (the control); the operations are divided among the runs.
A run fails if the program sees a wrong result or does not end in time, if there is a finding, or if the library prints
anything. Meanwhile `zguard trim` makes the process give memory back. A failure prints its seed.

--build takes another runtime than build/lib/libzguard.so, in which undefined behavior traps:
  checked     verifies the invariants of slabs, spans, quarantine, retired runs and isolated blocks between rounds, while no
              thread is in the runtime
  undefined   does not verify them: the runtime's own thread may run
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

BUILDS = ("checked", "undefined")

# Name, share of the operations, options, and arguments of the program. Isolated blocks cost system calls, so runs with isolated blocks
# have fewer operations. Memory must not be given back in runs that read freed blocks (`fill`).
CONFIGURATIONS = [
    ("default", 120, "", []),
    ("continue", 48, "on_finding=continue", []),
    ("unfenced", 96, "isolated_per_context=0:pressure=0", ["fill"]),
    ("no quarantine", 24, "quarantine_bytes=0:isolated_per_context=0", []),
    ("small quarantine", 32, "quarantine_bytes=64K:isolated_per_context=0", []),
    ("large quarantine", 24, "quarantine_bytes=64M:isolated_per_context=0:quarantine_per_context=16:pressure=0", ["fill"]),
    ("no rows", 20, "quarantine_per_context=0:isolated_per_context=0", []),
    ("retiring", 8, "isolated_overhead=100%:retired_bytes=64M:pressure_thread_bytes=1M", []),
    ("few addresses", 6, "isolated_overhead=100%:retired_bytes=1M:isolated_per_context=2", []),
    ("mappings", 4, "protect=mprotect:isolated_overhead=20%:retired_bytes=16M", []),
    ("filled", 16, "fill_new=1:fill_freed_bytes=64:stack_depth=4", []),
    ("fence", 1, "profile=fence:isolated_bytes=256M:retired_bytes=1G", ["huge=16"]),
    ("sample", 24, "profile=sample:sample_rate=100", []),
    ("budget", 16, "overhead=5%", []),
]

FENCE_COST = 6  # how many times longer operations take with isolated blocks, for deadlines


def build_program():
    source, target = TESTS / "Runtime/Model/model.c", builds.BUILD / "model/model"
    return builds.compiled(target, [builds.find_clang(), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", source,
                                    "-lstdc++", "-lpthread", "-ldl", "-o", target], [source])


class Trimmer(threading.Thread):
    """Makes a process give memory back again and again, like a user at another terminal."""

    def __init__(self):
        super().__init__(daemon=True)
        self.pid, self.ended = None, threading.Event()

    def begin(self, pid):
        self.pid = pid
        self.start()

    def end(self):
        self.ended.set()
        self.join()

    def run(self):
        while not self.ended.wait(1.5):
            subprocess.run([str(ZGUARD), "trim", str(self.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_one(name, options, words, operations, arguments, program, library):
    """Returns the error or None, and the program's output."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        environment = scrubbed()
        if library:
            # The runtime's own thread must not run while invariants are checked.
            alone = "pressure_thread=0" if arguments.build == "checked" else ""
            environment = guarded_by(library, ":".join(filter(None, [f"report_path={report}", options, alone])))
        command = [program, operations, arguments.threads, arguments.seed, *words]
        # A slow machine with other load does some 200,000 operations a second.
        deadline = arguments.timeout or 60 + operations / 100000 * (FENCE_COST if name in ("fence", "mappings", "few addresses") else 1)
        # Memory that was given back does not hold the fill.
        trimmer = Trimmer() if library and ZGUARD.exists() and "fill" not in words else None
        code, out, err = run_within(deadline, command, started=trimmer and trimmer.begin, env=environment, cwd=directory)
        if trimmer:
            trimmer.end()
        if code is None:
            return f"hangs, still running after {deadline:.0f} s\n{err}", out
        if code:
            reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            found = report.read_text(errors="replace")[:3000] if report.exists() else ""
            return f"{reason}\n{err[-3000:]}{found}", out
        if report.exists() and report.read_text(errors="replace"):
            return f"a finding in a correct program\n{report.read_text(errors='replace')[:3000]}", out
        if err.strip():
            return f"something was said\n{err[-3000:]}", out
        ended = re.search(r"^operations (\d+) seconds ([\d.]+) invariants (\d+)$", out, re.M)
        if not ended or int(ended.group(1)) < operations:
            return f"it ended too soon\n{out}", out
        if arguments.build == "checked" and library and not int(ended.group(3)):
            return "the invariants were never checked", out
        return None, out


def main():
    parser = argparse.ArgumentParser(description="Random sequences of all allocation functions against a model.")
    parser.add_argument("--operations", type=float, default=3e6, help="in all; 3e6 by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filter", metavar="TEXT", help="only configurations whose name contains TEXT")
    parser.add_argument("--library", help="another runtime than build/lib/libzguard.so")
    parser.add_argument("--build", choices=BUILDS, help="a runtime built for this run")
    parser.add_argument("--round", type=int, help="operations of a thread from its beginning to its end")
    parser.add_argument("--timeout", type=float, help="seconds for each configuration")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        program = build_program()
        library = Path(arguments.library).resolve() if arguments.library else builds.library("checked") if arguments.build else LIBRARY
    except Failed as failure:
        sys.exit(f"model.py: error: {failure}")
    chosen = [row for row in [*CONFIGURATIONS, ("control", 8, None, [])] if not arguments.filter or arguments.filter in row[0]]
    if not chosen:
        sys.exit(f"model.py: error: no configuration contains '{arguments.filter}'")
    shares = sum(row[1] for row in chosen)
    checks = Checks()
    total = 0
    # A checked build verifies the invariants after each round of fixed length. Otherwise rounds grow with the number of operations.
    round_operations = arguments.round or (20000 if arguments.build == "checked" else max(20000, min(500000, int(arguments.operations / 40))))
    for name, share, options, words in chosen:
        operations = max(int(arguments.operations * share / shares), 10000)
        started = time.monotonic()
        more = [f"round={round_operations}", *(["unchecked"] if arguments.build == "undefined" else [])]
        wrong, out = run_one(name, options or "", [*words, *more], operations, arguments, program, None if name == "control" else library)
        said = re.search(r"operations (\d+)", out)
        total += int(said.group(1)) if said else 0
        title = f"{name} (seed {arguments.seed})" if wrong else f"{name}: {out.strip()}, {time.monotonic() - started:.1f} s"
        checks.check(title, wrong.splitlines() if wrong else [], shows_passed=True)
    print(f"{total} operations, seed {arguments.seed}, {arguments.threads} threads")
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
