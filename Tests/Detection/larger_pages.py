#!/usr/bin/env python3
"""Checks, in a whole emulated machine, that on a kernel with 16 KiB pages nothing is guarded and programs run unchanged.
zguard run refuses, and the library prints one line that says why.

usage: ZG_TEST_MACHINE=sid-16k Tests/Detection/larger_pages.py --arch aarch64
Closing line: N passed, N failed."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import processors  # noqa: E402
from Support.checks import Checks, run_within, said_by_library  # noqa: E402
from Support.environment import LIBRARY, ZGUARD, guarded_by, scrubbed  # noqa: E402

SECONDS = 300
COMMANDS = {
    "sh": ["/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); echo $i; done | sort | tail -1; exit 7"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 977} .= $_ for 1 .. 20000; print scalar(keys %h), length(join q(), values %h), qq(\\n)"],
    "python3": ["python3", "-c", "import threading; t = [threading.Thread(target=sorted, args=(range(9999),)) for _ in range(8)];"
                                 " [x.start() for x in t]; [x.join() for x in t]; print(sum(len(str(i) * 3) for i in range(9999)))"],
}


def check_page_size(checks):
    size = os.sysconf("SC_PAGESIZE")
    checks.check("pages are of 16 KiB", [] if size == 16384 else [f"they are of {size} bytes"])


def check_run(checks):
    status, out, err = run_within(SECONDS, [ZGUARD, "run", "--", "/bin/echo", "done"], env=scrubbed())
    checks.check("zguard run refuses", [] if status == 125 and not out else [f"status {status}, output {out!r}"])
    said = said_by_library(err)
    checks.check("and says why in one line", [] if len(said) == 1 and "16 KiB" in said[0] and err.count("\n") <= 2 else [repr(err)])
    status, out, err = run_within(SECONDS, [ZGUARD, "doctor"], env=scrubbed())
    checks.check("zguard doctor says so, too", [] if status != 0 and "16 KiB" in out + err else [f"status {status}", out, err])


def check_preloaded(name, command, checks):
    plain = run_within(SECONDS, command, env=scrubbed())
    guarded = run_within(SECONDS, command, env=guarded_by(LIBRARY))
    problems = [] if plain[:2] == guarded[:2] and plain[1] else [f"{plain}, with the library {guarded}"]
    lines = guarded[2].splitlines()
    if not lines or any("pages are not of 4 KiB" not in line for line in lines):
        problems.append(f"it says {guarded[2]!r}")
    checks.check(f"{name} does the same with the library", problems)


def main():
    parser = argparse.ArgumentParser(description="A kernel with pages of 16 KiB.")
    processors.add_option(parser)
    arguments = parser.parse_args()
    if processors.is_elsewhere(arguments.arch):
        if not processors.WHOLE:
            parser.error("only in a whole machine: ZG_TEST_MACHINE=sid-16k")
        return processors.run(__file__, arguments.arch, [])
    checks = Checks()
    if processors.stage() == processors.BUILD:
        return checks.close()
    check_page_size(checks)
    check_run(checks)
    for name, command in COMMANDS.items():
        check_preloaded(name, command, checks)
    processors.record("larger_pages", "pages of 16 KiB, refused", checks.passed, checks.failed)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
