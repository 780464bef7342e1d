#!/usr/bin/env python3
"""Runs the runtime under ThreadSanitizer and UndefinedBehaviorSanitizer.

usage: Tests/Runtime/sanitizers.py [--operations N] [--seed S] [--filter TEXT]

  thread     the heap with four threads, under several sets of options (Tests/Runtime/Model/threads.c lists what TSan cannot run)
  undefined  the model test, and the preload tests of Tests/Runtime, with a library in which every report is a trap

The white-box tests (runtime.py) and the fuzzers (scripts/fuzz) are always built with UBSan.
"""

import argparse
import re
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, run_within  # noqa: E402
from Support.environment import RUNTIME, TESTS, scrubbed  # noqa: E402

OPTIONS = [
    ("default", ""),
    ("retiring", "isolated_overhead=100%:retired_bytes=1M"),
    ("small quarantine", "quarantine_bytes=64K:isolated_per_context=0"),
    ("no quarantine", "quarantine_bytes=0"),
    ("fence", "profile=fence:isolated_bytes=64M:retired_bytes=16M"),
    ("continue", "on_finding=continue"),
    ("mappings", "protect=mprotect:isolated_overhead=100%:retired_bytes=4M"),
]
# Options that turn off stacks, signal handlers and the maintenance thread (see threads.c).
ALWAYS = "stack_depth=0:handle_signals=0:pressure_thread=0:report_path=/dev/null"

# The preload tests of the heap and its callers that take no longer than a few seconds.
RUNTIME_TESTS = ["semantics", "threads_end", "gone_images", "little_space", "signal_calls"]


def build_threads():
    source, runtime, target = TESTS / "Runtime/Model/threads.c", builds.archive("thread"), builds.BUILD / "model/threads"
    clang = builds.find_clang()
    # The TSan in Swift's clang needs libdispatch.
    libraries = Path(clang).resolve().parent.parent / "lib" / "swift" / "linux"
    dispatch = [f"-L{libraries}", "-ldispatch", "-lBlocksRuntime", f"-Wl,-rpath,{libraries}"] if libraries.exists() else []
    return builds.compiled(target, [clang, "-std=gnu17", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror",
                                    "-fuse-ld=lld", "-fsanitize=thread", "-fno-builtin-malloc", "-fexceptions", f"-I{RUNTIME}", source,
                                    "-Wl,--whole-archive", runtime, "-Wl,--no-whole-archive", *dispatch, "-ldl", "-lpthread",
                                    "-o", target], [source, runtime])


def run_threads(options, arguments):
    """Returns the error, or None."""
    program = build_threads()
    environment = scrubbed(ZGUARD_OPTIONS=":".join(filter(None, [ALWAYS, options])))
    code, out, _ = run_within(120 + arguments.operations / 1000, [program, int(arguments.operations), arguments.seed],
                              env=environment, stderr=subprocess.STDOUT)
    if code is None:
        return "hangs"
    if code or "findings 0" not in out or "WARNING" in out:
        return f"status {code}\n{out[:4000]}"
    return None


def run_driver(name, words):
    """Runs another test driver. Returns the error, or None."""
    result = subprocess.run([sys.executable, str(TESTS / "Runtime" / name), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    closing = re.search(r"^(\d+) passed, 0 failed", result.stdout, re.M)
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
    runs = [(f"thread, {name}", lambda options=options: run_threads(options, arguments)) for name, options in OPTIONS]
    runs.append(("undefined, model", lambda: run_driver("model.py", ["--build", "undefined", "--operations", str(arguments.operations * 5),
                                                                     "--seed", str(arguments.seed)])))
    runs += [(f"undefined, {test}", lambda test=test: run_driver("runtime.py", ["--library", str(builds.library("checked")), "--filter", test]))
             for test in RUNTIME_TESTS]
    checks = Checks()
    for name, run in runs:
        if arguments.filter not in name:
            continue
        try:
            wrong = run()
        except Failed as failure:
            wrong = str(failure)
        checks.check(name, wrong.splitlines() if wrong else [], shows_passed=True)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
