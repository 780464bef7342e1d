#!/usr/bin/env python3
"""Runs the runtime under ThreadSanitizer and UndefinedBehaviorSanitizer.

usage: Tests/Runtime/sanitizers.py [--operations N] [--seed S] [--filter TEXT]

  thread     the heap with four threads (Tests/Runtime/Model/threads.c says what cannot be under it), under several sets of options
  undefined  the model test, and the preload tests of Tests/Runtime, with a library in which every report is a trap

The runtime's white-box tests are built with UBSan anyway (runtime.py), its fuzzers too (scripts/fuzz).
"""

import argparse
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Runtime.model import BUILD, build_library, is_older, run_command  # noqa: E402
from Support.checks import Checks, find_clang  # noqa: E402
from Support.environment import ROOT, TESTS  # noqa: E402

OPTIONS = [
    ("default", ""),
    ("retiring", "fence_overhead=100%:retired_bytes=1M"),
    ("small quarantine", "quarantine_bytes=64K:fence_per_context=0"),
    ("no quarantine", "quarantine_bytes=0"),
    ("fence", "profile=fence:fence_bytes=64M:retired_bytes=16M"),
    ("continue", "on_finding=continue"),
    ("mappings", "protect=mprotect:fence_overhead=100%:retired_bytes=4M"),
]
# No stacks, no handlers, no thread of the runtime's own: see threads.c.
ALWAYS = "stack_depth=0:handle_signals=0:pressure_thread=0:report_path=/dev/null"

# The preload tests that are about the heap and its callers, and take no longer than a few seconds.
RUNTIME_TESTS = ["semantics", "threads_end", "gone_images", "little_space", "signal_calls"]


def build_threads():
    program = BUILD / "threads"
    sources = [TESTS / "Runtime/Model" / "threads.c", *(ROOT / "Sources" / "CZombie").glob("*/*")]
    if is_older(program, sources):
        BUILD.mkdir(parents=True, exist_ok=True)
        clang = find_clang()
        # Swift's own clang comes with a TSan that knows libdispatch, and needs it.
        libraries = Path(clang).resolve().parent.parent / "lib" / "swift" / "linux"
        dispatch = [f"-L{libraries}", "-ldispatch", "-lBlocksRuntime", f"-Wl,-rpath,{libraries}"] if libraries.exists() else []
        run_command([clang, "-std=gnu17", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-fuse-ld=lld",
                     "-fsanitize=thread", "-DZG_DESTRUCTOR_ROUNDS=1", '-DZG_VERSION="tsan"', "-fno-builtin-malloc", "-fexceptions",
                     f"-I{ROOT / 'Sources' / 'CZombie'}", TESTS / "Runtime/Model" / "threads.c",
                     *sorted((ROOT / "Sources" / "CZombie").glob("*/*.c")), *dispatch, "-ldl", "-lpthread", "-o", program])
    return program


def run_threads(program, options, arguments):
    """What went wrong, or None."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ZGUARD_", "MALLOC_", "LD_", "TSAN_"))}
    environment["ZGUARD_OPTIONS"] = ":".join(filter(None, [ALWAYS, options]))
    command = [str(program), str(int(arguments.operations)), str(arguments.seed)]
    try:
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", timeout=120 + arguments.operations / 1000)
    except subprocess.TimeoutExpired:
        return "hangs"
    if result.returncode or "findings 0" not in result.stdout or "WARNING" in result.stdout:
        return f"status {result.returncode}\n{result.stdout[:4000]}"
    return None


def run_driver(name, words):
    """The same, of another driver."""
    result = subprocess.run([sys.executable, str(TESTS / "Runtime" / name), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    closing = re.search(r"^(\d+) passed, 0 failed$", result.stdout, re.M)
    if result.returncode or not closing or closing.group(1) == "0":
        return f"status {result.returncode}\n{result.stdout[-4000:]}"
    return None


def main():
    parser = argparse.ArgumentParser(description="The runtime under sanitizers.")
    parser.add_argument("--operations", type=float, default=1e5, help="of each run; 1e5 by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only runs whose name contains TEXT")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    runs = [(f"thread, {name}", lambda options=options: run_threads(build_threads(), options, arguments)) for name, options in OPTIONS]
    runs.append(("undefined, model", lambda: run_driver("model.py", ["--build", "undefined", "--operations", str(arguments.operations * 5),
                                                                     "--seed", str(arguments.seed)])))
    runs += [(f"undefined, {test}", lambda test=test: run_driver("runtime.py", ["--library", str(build_library("undefined")), "--filter", test]))
             for test in RUNTIME_TESTS]
    checks = Checks()
    for name, run in runs:
        if arguments.filter not in name:
            continue
        wrong = run()
        checks.check(name, wrong.splitlines() if wrong else [], shows_passed=True)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
