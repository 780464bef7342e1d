#!/usr/bin/env python3
"""Programs in a control group whose memory is limited: a program that needs so much of it plain survives with 1.3 times as much under the
default profile, and with 1.6 times as much under `fence`. The need is measured first: the least limit with which the plain program
survives. One process and several, threads, limits of the group, of one above it, and limits that come while the program runs.

Where no control group can be made the cases are skipped; Tests/Runtime/pressure.c and narrow_memory.c then show the same with a
hierarchy of files of their own.

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

DEADLINE_SECONDS = 120
MIB = 1 << 20
KIB_HELD = "40960"
BOUNDS = {"guard": 1.3, "fence": 1.6}
LARGE = 400 * MIB  # more than any of them takes
STEP = MIB // 4    # to which a need is known
# Name, and what hold.c is told: processes, threads, rounds, shape.
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
# How the limit is set: on the group; on the one above it; by memory.high; once the program holds half of what it will, by one thread or
# more.
LIMITS = (("limit", SHAPES), ("limit above", ("one process",)), ("high", ("one process", "four threads")),
          ("lowered", ("one process", "four threads")))


class Hierarchy:
    """Where the memory controller is, and what its files are called."""

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
    """A control group, with one in it that the program runs in. It is removed at the end, with whoever is left in it."""
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
        """What is wrong with the program's end in a group with this limit; nothing where it survives."""
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
        """The least limit with which the plain program survives. By memory.high nobody is killed: there it is that of memory.max."""
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
    parser.add_argument("--trials", type=int, default=2, help="how often each has to survive")
    arguments = parser.parse_args()
    checks = Checks()
    hierarchy = next((one for one in HIERARCHIES if one.works()), None)
    needs = {}
    with tempfile.TemporaryDirectory(prefix="zguard-groups.") as folder:
        program = Path(folder) / "hold"
        subprocess.run(["gcc", "-O1", "-g", "-Wall", "-pthread", TESTS / "Robustness/Groups/hold.c", "-o", program], check=True)
        for kind, shapes in LIMITS:
            for shape in shapes:
                if arguments.filter not in f"{kind}: {shape}":
                    continue
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
