#!/usr/bin/env python3
"""Runs long random sequences of all allocation functions against a model of what every block is (Tests/Runtime/Model/model.c).

usage: Tests/Runtime/model.py [--operations N] [--threads N] [--seed S] [--filter TEXT] [--library PATH] [--build WHAT]

One program, guarded under each set of options below and once unguarded (the control); the operations are shared out among
them. It fails where the program sees something wrong, where it does not end in time, where there is a finding, or where the
library says anything. Meanwhile `zguard trim` asks the process to give memory back. A failure names its seed.

--build takes another runtime than build/lib/libzguard.so:
  checked     with the invariant checks compiled in: slabs, spans, quarantine, retired runs and fenced blocks are verified
              between rounds, when no thread is inside the runtime
  undefined   with -fsanitize=undefined, every report a trap: no runtime library is needed
"""

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, find_clang  # noqa: E402
from Support.environment import ROOT, TESTS  # noqa: E402

BUILD = ROOT / "build" / "tests" / "model"
LIBRARY = ROOT / "build" / "lib" / "libzguard.so"
ZGUARD = ROOT / "build" / "bin" / "zguard"
BUILDS = {
    "checked": ["-DZG_CHECK_INVARIANTS"],
    "undefined": ["-fsanitize=undefined", "-fsanitize-trap=undefined"],
}

# Name, share of the operations, options, and words for the program. Pages of one's own cost system calls: fewer operations.
# Where dead blocks are read nothing may be given back meanwhile.
CONFIGURATIONS = [
    ("default", 120, "", []),
    ("continue", 48, "on_finding=continue", []),
    ("unfenced", 96, "fence_per_context=0:pressure=0", ["fill"]),
    ("no quarantine", 24, "quarantine_bytes=0:fence_per_context=0", []),
    ("small quarantine", 32, "quarantine_bytes=64K:fence_per_context=0", []),
    ("large quarantine", 24, "quarantine_bytes=64M:fence_per_context=0:quarantine_per_context=16:pressure=0", ["fill"]),
    ("no rows", 20, "quarantine_per_context=0:fence_per_context=0", []),
    ("retiring", 8, "fence_overhead=100%:retired_bytes=64M:pressure_thread_bytes=1M", []),
    ("few addresses", 6, "fence_overhead=100%:retired_bytes=1M:fence_per_context=2", []),
    ("mappings", 4, "protect=mprotect:fence_overhead=20%:retired_bytes=16M", []),
    ("filled", 16, "fill_new=1:fill_freed_bytes=64:stack_depth=4", []),
    ("fence", 1, "profile=fence:fence_bytes=256M:retired_bytes=1G", ["huge=16"]),
    ("sample", 24, "profile=sample:sample_rate=100", []),
    ("budget", 16, "overhead=5%", []),
]

FENCE_COST = 6  # seconds for as many operations as take one second otherwise, for deadlines


def run_command(command):
    result = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        sys.exit(f"model.py: error: {' '.join(str(word) for word in command)}\n{result.stdout}")


def is_older(target, sources):
    return not target.exists() or any(source.stat().st_mtime > target.stat().st_mtime for source in sources)


def build_program():
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / "model"
    source = TESTS / "Runtime/Model" / "model.c"
    if is_older(program, [source]):
        run_command([find_clang(), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", source,
                     "-lstdc++", "-lpthread", "-ldl", "-o", program])
    return program


def build_library(name):
    library = BUILD / f"libzguard-{name}.so"
    sources = [*(ROOT / "Sources" / "CZombie").glob("*/*"), *(ROOT / "Sources" / "CZombiePublish").glob("**/*.*")]
    if is_older(library, sources):
        flags = " ".join(BUILDS[name])
        run_command(["bash", "-c", f"source scripts/common.sh; find_toolchain; build_library '{library}' {flags}"])
    return library


class Trimmer(threading.Thread):
    """Asks a process to give memory back, again and again, as somebody at another terminal would."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.ended, self.answers = pid, threading.Event(), 0

    def run(self):
        while not self.ended.wait(1.5):
            result = subprocess.run([str(ZGUARD), "trim", str(self.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.answers += result.returncode == 0


def run_one(name, options, words, operations, arguments, program, library):
    """What went wrong, or None; and what the program said."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("ZGUARD_", "MALLOC_", "LD_"))}
        environment["LC_ALL"] = "C"
        if library:
            environment["LD_PRELOAD"] = str(library)
            # While invariants are checked no thread of the runtime's own may be at work.
            alone = "pressure_thread=0" if arguments.build == "checked" else ""
            environment["ZGUARD_OPTIONS"] = ":".join(filter(None, [f"report_path={report}", options, alone]))
        command = [str(program), str(operations), str(arguments.threads), str(arguments.seed), *words]
        # A slow machine that others share does some 200,000 operations a second.
        deadline = arguments.timeout or 60 + operations / 100000 * (FENCE_COST if name in ("fence", "mappings", "few addresses") else 1)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment, cwd=directory, text=True, errors="replace", start_new_session=True)
        trimmer = Trimmer(process.pid)
        # What is given back is not to be read.
        if library and ZGUARD.exists() and "fill" not in words:
            trimmer.start()
        try:
            out, err = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return f"hangs, still running after {deadline:.0f} s\n{err}", out
        finally:
            trimmer.ended.set()
            if trimmer.is_alive():
                trimmer.join()
        if process.returncode:
            reason = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
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
    program = build_program()
    library = Path(arguments.library).resolve() if arguments.library else build_library(arguments.build) if arguments.build else LIBRARY
    chosen = [row for row in [*CONFIGURATIONS, ("control", 8, None, [])] if not arguments.filter or arguments.filter in row[0]]
    if not chosen:
        sys.exit(f"model.py: error: no configuration contains '{arguments.filter}'")
    shares = sum(row[1] for row in chosen)
    checks = Checks()
    total = 0
    # Checks take longer than what they check: short rounds only where there are few operations.
    round_operations = arguments.round or (20000 if arguments.build == "checked" else max(20000, min(500000, int(arguments.operations / 40))))
    for name, share, options, words in chosen:
        operations = max(int(arguments.operations * share / shares), 10000)
        started = time.monotonic()
        wrong, out = run_one(name, options or "", [*words, f"round={round_operations}"], operations, arguments, program,
                             None if name == "control" else library)
        said = re.search(r"operations (\d+)", out)
        total += int(said.group(1)) if said else 0
        title = f"{name} (seed {arguments.seed})" if wrong else f"{name}: {out.strip()}, {time.monotonic() - started:.1f} s"
        checks.check(title, wrong.splitlines() if wrong else [], shows_passed=True)
    print(f"{total} operations, seed {arguments.seed}, {arguments.threads} threads")
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
