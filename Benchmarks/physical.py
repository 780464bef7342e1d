"""Peak physical memory of a program and its children: their pages, each counted once.

Resident size (ru_maxrss) counts a page once for each mapping, which is too much if a process maps shared memory several times.
It also leaves out page tables, which are large if mappings are sparse. A control group of the kernel's memory controller counts
all of that: anonymous and shared memory, page tables, and other kernel memory for the program. It also counts files that the
program reads first or writes; these are subtracted here.

    memory = meter.start()      None if nothing can be measured
    … launch RESULT memory.procs …
    kib = memory.end()
"""

import contextlib
import os
import threading
import time
from pathlib import Path

CONTROLLERS = Path("/sys/fs/cgroup")
EVERY = 0.01  # seconds between two samples


def number(path):
    return int(path.read_text())


def fields(path):
    """Returns name and number of each line of a file such as memory.stat."""
    return {line.split()[0]: int(line.split()[1]) for line in path.read_text().splitlines()}


class Layout:
    """Names of the controller's files and fields, in version 1 and version 2 of the hierarchy."""

    def __init__(self, root, peak, current, file, kills):
        self.root, self.peak, self.current, self.file, self.kills = root, peak, current, file, kills


LEGACY = Layout(CONTROLLERS / "memory", "memory.max_usage_in_bytes", "memory.usage_in_bytes", "cache", "memory.oom_control")
UNIFIED = Layout(CONTROLLERS, "memory.peak", "memory.current", "file", "memory.events")


class Group:
    """A control group for one run. `end` removes it."""
    is_sampled = False

    def __init__(self, layout, name):
        self.layout, self.folder = layout, layout.root / name
        self.folder.mkdir()
        self.procs = self.folder / "cgroup.procs"
        self.largest = self.files = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def begin(self):
        self.thread.start()
        return self

    def look(self):
        """Samples the group's memory for files and its other memory."""
        statistics = fields(self.folder / "memory.stat")
        file = statistics[self.layout.file] - statistics.get("shmem", 0)
        self.files = max(self.files, file)
        self.largest = max(self.largest, number(self.folder / self.layout.current) - file)

    def watch(self):
        above_all()
        while not self.ended.wait(EVERY):
            with contextlib.suppress(OSError):
                self.look()

    def end(self):
        """Returns the peak in KiB, and the number of processes that the kernel killed for lack of memory.

        The group's own peak is exact, but includes files, and their share at that moment is unknown. So the largest sampled share is
        subtracted. This is too much if the share of files varies, as in sort. The largest sample without files may then be larger: the
        larger of the two is returned."""
        self.ended.set()
        self.thread.join()
        self.look()
        peak = max(self.largest, number(self.folder / self.layout.peak) - self.files)
        kills = fields(self.folder / self.layout.kills).get("oom_kill", 0)
        self.remove()
        return peak // 1024, kills

    def remove(self):
        """Removes the group. Kills processes that have outlived their program."""
        for _ in range(200):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            if not self.folder.exists():
                return
            with contextlib.suppress(OSError):
                for pid in self.procs.read_text().split():
                    os.kill(int(pid), 9)
            time.sleep(0.01)


def above_all():
    """Raises the calling thread's priority, so that it samples even while a measured real-time program uses the processor."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    policy = os.sched_getscheduler(0)
    if policy in (os.SCHED_FIFO, os.SCHED_RR):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(os.sched_getparam(0).sched_priority + 1))


class Shares:
    """Without a control group: samples the proportional set size (Pss) and the page tables of all processes of a session, and sums
    them up. Misses peaks between two samples."""
    is_sampled = True
    procs = "-"

    def __init__(self):
        self.session, self.largest = None, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def begin(self):
        self.thread.start()
        return self

    def look(self):
        total = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and self.session is not None:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    if os.getsid(int(entry.name)) == self.session:
                        total += self.share(entry)
        self.largest = max(self.largest, total)

    @staticmethod
    def share(process):
        sizes = {}
        for name in ("smaps_rollup", "status"):
            for line in (process / name).read_text().splitlines():
                key, _, value = line.partition(":")
                if value.strip().endswith("kB"):
                    sizes[key] = int(value.split()[0])
        return sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0) + sizes.get("VmPTE", 0)

    def watch(self):
        above_all()
        pause = EVERY
        while not self.ended.wait(pause):
            began = time.monotonic()
            self.look()
            pause = max(EVERY, 20 * (time.monotonic() - began))  # samples at most 5 % of the time, because sampling delays the program

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.largest or None, 0


class Meter:
    """Determines once how this machine can be measured. `how` describes it."""

    def __init__(self):
        self.made = 0
        self.layout = next((layout for layout in (LEGACY, UNIFIED) if self.works(layout)), None)
        self.how = ("a control group, files left out" if self.layout
                    else "no control group can be made here: the sum of the processes' shares (Pss), sampled")

    def name(self):
        self.made += 1
        return f"zguard-bench-{os.getpid()}-{self.made}"

    def works(self, layout):
        if not (layout.root / "cgroup.procs").exists():
            return False
        group = None
        try:
            group = Group(layout, self.name())
            group.look()
            return (group.folder / layout.peak).exists() and (group.folder / layout.kills).exists() and os.access(group.procs, os.W_OK)
        except (OSError, KeyError, ValueError):
            return False
        finally:
            if group:
                group.remove()

    def start(self):
        return (Group(self.layout, self.name()) if self.layout else Shares()).begin()
