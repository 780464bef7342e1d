#!/usr/bin/env python3
"""Tests programs in a memory-limited control group (cgroup).
A program that needs an amount of memory without the library survives with 1.3 times as much under the default profile, and with 1.6 times
as much under `fence`. The need is measured first: the lowest limit with which the unguarded program survives. Cases: one process and
several, threads, a limit on the group, on its parent, and limits that are set while the program runs.

If no control group can be made the cases are skipped; Tests/Runtime/pressure.c and narrow_memory.c then test the same with a fake cgroup
file hierarchy.

usage: groups.py [--filter WORD] [--trials N]     closing line: N passed, N failed, N skipped"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

DEADLINE_SECONDS = 120
MIB = 1 << 20
KIB_HELD = "40960"
BOUNDS = {"guard": 1.3, "fence": 1.6}
LARGE = 400 * MIB  # more than any of the programs needs
STEP = MIB // 4    # resolution of the binary search for a program's memory need
# Name, and the arguments of hold.c: processes, threads, rounds, shape.
SHAPES = {
    "one process": ("1", "1", "4", "mixed"),
    "in batches": ("1", "1", "4", "batch"),
    "nothing freed": ("1", "1", "0", "fill"),
    "many rounds": ("1", "1", "20", "mixed"),
    "other sizes": ("1", "1", "5", "phases"),
    "many stacks": ("1", "1", "3", "stacks"),
    "four processes": ("4", "1", "3", "batch"),
    "four threads": ("1", "4", "3", "mixed"),
}
# How the limit is set: on the group, on its parent, by memory.high, or on the group once the program holds half of its memory, with one
# thread or more.
LIMITS = (("limit", SHAPES), ("limit above", ("one process",)), ("high", ("one process", "four threads")),
          ("lowered", ("one process", "four threads")))


class Hierarchy:
    """The directory of the memory controller, and the names of its files."""

    def __init__(self, root, limit, high, swap):
        self.root, self.limit, self.high, self.swap = Path(root), limit, high, swap

    def works(self):
        try:
            with Group(self) as group:
                group.set(self.limit, LARGE)
            return True
        except OSError:
            return False


HIERARCHIES = (Hierarchy("/sys/fs/cgroup/memory", "memory.limit_in_bytes", None, None),
               Hierarchy("/sys/fs/cgroup", "memory.max", "memory.high", "memory.swap.max"))


class Group:
    """A control group with a child group in which the program runs. Removed at the end, with all remaining processes killed."""
    made = 0

    def __init__(self, hierarchy):
        self.hierarchy = hierarchy

    def __enter__(self):
        Group.made += 1
        self.outer = self.hierarchy.root / f"zguard-groups-{os.getpid()}-{Group.made}"
        self.inner = self.outer / "inner"
        self.outer.mkdir()
        try:
            if self.hierarchy.high:
                (self.outer / "cgroup.subtree_control").write_text("+memory")
            self.inner.mkdir()
            if self.hierarchy.swap:
                with contextlib.suppress(OSError):
                    (self.outer / self.hierarchy.swap).write_text("0")
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for folder in (self.inner, self.outer):
            for _ in range(500):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if not folder.exists():
                    break
                with contextlib.suppress(OSError, ValueError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.01)

    def set(self, name, value, above=False):
        ((self.outer if above else self.inner) / name).write_text(str(value))

    def enter(self):
        (self.inner / "cgroup.procs").write_text(str(os.getpid()))


class Case:
    def __init__(self, hierarchy, program, kind, shape):
        self.hierarchy, self.kind, self.words = hierarchy, kind, [str(program), KIB_HELD, *SHAPES[shape]]
        if kind == "lowered":
            self.words.append("waits")

    def run(self, bytes_, profile=None):
        """Runs the program in a group with this limit. Returns None if the program survived, otherwise how it failed."""
        command = self.words if profile is None else [ZGUARD, "run", "--profile", profile, "--", *self.words]
        environment = scrubbed(ZGUARD_LIBRARY=str(LIBRARY))
        with Group(self.hierarchy) as group:
            name = self.hierarchy.high if self.kind == "high" else self.hierarchy.limit
            group.set(name, LARGE if self.kind == "lowered" else bytes_, above=self.kind == "limit above")
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                                       preexec_fn=group.enter, start_new_session=True)
            try:
                if self.kind == "lowered":
                    process.stdout.readline()
                    group.set(name, bytes_)
                output, errors = process.communicate(b"on\n", timeout=DEADLINE_SECONDS)
            except OSError as fault:
                self.end(process)
                return f"the limit could not be lowered: {fault}"
            except subprocess.TimeoutExpired:
                self.end(process)
                return "took too long"
        if process.returncode == 0 and b"held" in output:
            return None
        return f"ended with {process.returncode}: {errors.decode(errors='replace')[-300:]}"

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def need(self):
        """Returns the lowest limit with which the plain program survives. Measured with memory.max even if the case uses memory.high, which
        kills no process."""
        kind, self.kind = self.kind, "limit"
        words, self.words = self.words, self.words[:6]
        low, high = 8 * MIB, 128 * MIB
        while high - low > STEP:
            middle = (low + high) // 2
            low, high = (middle, high) if self.run(middle) else (low, middle)
        self.kind, self.words = kind, words
        return high


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    add_slice_option(parser)
    parser.add_argument("--trials", type=int, default=2, help="how often each has to survive")
    arguments = parser.parse_args()
    checks = Checks()
    hierarchy = next((one for one in HIERARCHIES if one.works()), None)
    needs = {}
    with tempfile.TemporaryDirectory(prefix="zguard-groups.") as folder:
        program = Path(folder) / "hold"
        subprocess.run(["gcc", "-O1", "-g", "-Wall", "-pthread", TESTS / "Robustness/Groups/hold.c", "-o", program], check=True)
        whole = [(kind, shape) for kind, shapes in LIMITS for shape in shapes if arguments.filter in f"{kind}: {shape}"]
        cases = arguments.slice.choose(whole, name=": ".join, kinds=lambda case: [case[0]])
        arguments.slice.say(len(cases), len(whole), "cases")
        for kind, shape in cases:
            if not hierarchy or (kind == "high" and not hierarchy.high):
                print(f"{kind}: {shape}: skipped, no such control group can be made here")
                checks.skipped += 1
                continue
            case = Case(hierarchy, program, kind, shape)
            need = needs.setdefault(shape, 0) or case.need()
            needs[shape] = need
            for profile, factor in BOUNDS.items():
                faults = [fault for fault in (case.run(int(need * factor), profile) for _ in range(arguments.trials)) if fault]
                checks.check(f"{kind}: {shape}, {profile} with {factor} times {need / MIB:.1f} MiB", faults, shows_passed=True)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
