#!/usr/bin/env python3
"""Breaks down the memory of guarded real programs: blocks, records, quarantine, threads, stack depot, isolated blocks, windows.

Each program runs plain and guarded. Whenever its largest process has grown by a fiftieth, that process is stopped briefly, and each
of its pages is assigned to a row by the addresses in the library's own variables. The table shows the last, largest snapshot.
Pages that are mapped several times count once; further mappings of them have a row of their own. Needs root."""

import argparse
import bisect
import contextlib
import ctypes
import json
import mmap
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402
import targets  # noqa: E402
import tools as with_tools  # noqa: E402

LIBRARY = building.ROOT / "build" / "lib" / "libzguard.so"
PAGE = 4096
GROWTH = 1.02  # least ratio of a process's sizes in two successive snapshots
EVERY = 0.002  # seconds between two readings of a process's size
PRESENT, NUMBER = 1 << 63, (1 << 55) - 1  # bits of an entry in /proc/PID/pagemap

# Layouts of the library's structures, with the fields that this benchmark reads: struct zg_slab, zg_span_map and zg_alias_area, struct
# chunk and struct window (pages/window.c), struct table (stacks/depot.c).
SLAB = struct.Struct("<QQQQIIQ88xQQQ96x")
SPAN_MAP = struct.Struct("<QQIxxxxQQ")
SHARD = struct.Struct("<48xQQQQ")  # of the quarantine
SPAN = struct.Struct("<I20xQ20xH10x")
ALIAS_AREA = struct.Struct("<QQQQ")
WINDOW_TABLES = struct.Struct("<QQQQ")
ROWS_OF_SHARD, ROW_SLOTS, SLOT_BYTES = 2048, 4, 8  # of the quarantine
BLOCK_BYTES, DEATH_BYTES, NODE_BYTES, ALIAS_BYTES, SPAN_BYTES = 16, 8, 16, 32, 64
GROUP_SLOTS, GROUP_BYTES = 4096, 520  # of free slots (blocks/free_slots.h)
LIVE, DEAD, REUSABLE, RETIRED = 1, (2, 3, 6), 5, 4

AGAIN = "windows: pages mapped again"
# Rows of the table in order. A row that begins with "·" is a part of the nearest row above that does not.
ROWS = ("files", "own memory: stacks, data, libc's heap", "slots", "· requested by live blocks", "· rounding up to slots",
        "· dead blocks, quarantined or held", "· reusable", "· the rest of the pages", "records of slots", "death records", "bits of free slots",
        "large blocks", "· of it in live ones", "records of large blocks", "private pages of fenced blocks", "· requested by live ones up to 2,040 bytes", "· requested by larger ones", "windows: memory of the chunks", "· of it in live blocks",
        "records of windows", "depot: nodes", "depot: tables", "unwind rules", "thread states", "quarantine: rows and queues",
        "tables of the library", "library: relocated", "other", "page tables", "sum", AGAIN, "· pages of live blocks in windows")


def symbols(library):
    """Returns {name: (address, bytes)} of the library's variables, and the size of a thread's state. Of variables with equal names,
    which the linker distinguishes by numbers, the largest one is returned."""
    said = subprocess.run(["nm", "-S", str(library)], capture_output=True, text=True, check=True).stdout
    found = {}
    for address, size, name in re.findall(r"^(\w+) (\w+) [bBdD] (\w+)\S*$", said, re.M):
        found[name] = max(found.get(name, (0, 0)), (int(address, 16), int(size, 16)), key=lambda place: place[1])
    types = subprocess.run(["readelf", "--debug-dump=info", str(library)], capture_output=True, text=True, check=True).stdout
    size = re.search(r"DW_TAG_structure_type\)\n[^\n]*DW_AT_name[^\n]*: zg_thread\n[^\n]*DW_AT_byte_size *: (\w+)\n", types)
    found["struct zg_thread"] = (0, int(size[1], 0))
    return found


def page_of_zeros():
    """Returns the page frame number of the kernel's zero page, which belongs to no process. Returns 0 if page frame numbers are hidden."""
    with mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory, open("/proc/self/pagemap", "rb", 0) as pagemap:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        ctypes.string_at(address, 1)
        return struct.unpack("<Q", os.pread(pagemap.fileno(), 8, address // PAGE * 8))[0] & NUMBER


ZEROS = page_of_zeros()


class Mapping:
    def __init__(self, start, end, mode, path):
        self.start, self.end, self.mode, self.path = start, end, mode, path
        self.resident = 0


class Look:
    """Snapshot of one process: bytes of its memory by row."""

    def __init__(self, pid, library, variables):
        self.folder = Path(f"/proc/{pid}")
        self.memory = open(self.folder / "mem", "rb", 0)
        self.pagemap = open(self.folder / "pagemap", "rb", 0)
        self.library, self.variables = str(library), variables
        self.mappings = list(self.read_mappings())
        self.claims = []  # start, end, row
        self.kept = []  # records of blocks, counted after the process continues
        self.sums = Counter()
        self.base = min((mapping.start for mapping in self.mappings if mapping.path == self.library), default=None)
        if self.base is not None:
            self.claim_all()
        self.count_pages()
        status = (self.folder / "status").read_text()
        self.sums["page tables"] = 1024 * int(re.search(r"VmPTE:\s*(\d+)", status)[1])
        self.resident = 1024 * int(re.search(r"VmRSS:\s*(\d+)", status)[1])
        self.memory.close()
        self.pagemap.close()

    def read_mappings(self):
        mapping = None
        for line in (self.folder / "smaps").read_text().splitlines():
            if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)", line):
                mapping = Mapping(int(head[1], 16), int(head[2], 16), head[3], head[4])
                yield mapping
            elif line.startswith("Rss:"):
                mapping.resident = 1024 * int(line.split()[1])

    def read(self, address, size):
        return os.pread(self.memory.fileno(), size, address)

    def words(self, name, layout, at=0):
        return layout.unpack(self.read(self.base + self.variables[name][0] + at, layout.size))

    def word(self, name):
        return self.words(name, struct.Struct("<Q"))[0]

    def claim(self, start, size, row):
        if start and size:
            self.claims.append((start, start + size, row))

    def claim_all(self):
        self.claim_slots()
        for name in ("zg_large_map", "zg_isolated_map"):
            base, units, shift, numbers, covered = self.words(name, SPAN_MAP)
            self.claim(base, units << shift, "large blocks" if name == "zg_large_map" else "private pages of fenced blocks")
            self.claim(numbers, 4 * units, "records of large blocks")
        self.claim(self.word("spans"), SPAN_BYTES * self.word("spans_limit"), "records of large blocks")
        records = self.read(self.word("spans"), SPAN_BYTES * self.word("spans_used"))
        for header, size, is_fenced in SPAN.iter_unpack(records):
            if header & 0xFF == LIVE:
                row = "· of it in live ones" if not is_fenced else "· requested by larger ones" if size > 2040 else "· requested by live ones up to 2,040 bytes"
                self.sums[row] += size
        self.claim_windows()
        limit = self.word("node_limit")
        self.claim(self.word("nodes"), NODE_BYTES * limit, "depot: nodes")
        table = struct.Struct("<QQ")
        for number in range(self.variables["sizes"][1] // table.size):
            entries, mask = self.words("sizes", table, number * table.size)
            self.claim(entries, 8 * (mask + 1) if entries else 0, "depot: tables")
        entries, shift = table.unpack(self.read(self.word("zg_unwind_rules"), table.size))
        self.claim(entries, 8 << (64 - shift), "unwind rules")
        self.claim_threads()
        self.claim_quarantine()

    def claim_slots(self):
        _, _, shift = struct.unpack("<QQI4x", self.read(self.base + self.variables["zg_slabs"][0], 24))
        for number in range(1, self.variables["zg_slabs"][1] // SLAB.size):  # other fields fill the first element's place
            base, blocks, deaths, _, slot_bytes, _, used, _, limit, free = self.words("zg_slabs", SLAB, number * SLAB.size)
            self.claim(base, 1 << shift, "slots")
            self.claim(blocks, BLOCK_BYTES * limit, "records of slots")
            self.claim(deaths, DEATH_BYTES * limit, "death records")
            bits = -(-limit // GROUP_SLOTS) * GROUP_BYTES
            self.claim(free - bits, bits, "bits of free slots")
            self.kept.append((slot_bytes, self.read(blocks, BLOCK_BYTES * used)))

    def claim_windows(self):
        base, pages, records, covered = self.words("zg_alias_area", ALIAS_AREA)
        if not pages:
            return
        self.claim(base, pages * PAGE, AGAIN)
        self.claim(records, pages * ALIAS_BYTES, "records of windows")
        chunks, windows, chunk_bytes, window_bytes = self.words("zg_windows", WINDOW_TABLES)
        self.claim(chunks, chunk_bytes, "records of windows")
        self.claim(windows, window_bytes, "records of windows")
        live = blocks = 0
        for header, slot_bytes in struct.iter_unpack("<I22xH4x", self.read(records, ALIAS_BYTES * covered)):
            live += slot_bytes if header & 0xFF == LIVE else 0
            blocks += header & 0xFF == LIVE
        self.sums["· of it in live blocks"], self.sums["· pages of live blocks in windows"] = live, PAGE * blocks

    def claim_threads(self):
        size = self.variables["struct zg_thread"][1]
        thread = self.word("zg_threads")
        while thread:
            self.claim(thread, size + PAGE, "thread states")
            thread = struct.unpack("<Q", self.read(thread + 48, 8))[0]

    def claim_quarantine(self):
        address, size = self.variables["shards"]
        shard = size // 8
        for number in range(8):
            head, _, spare, newest = SHARD.unpack(self.read(self.base + address + number * shard, SHARD.size))
            self.claim(newest, ROW_SLOTS * SLOT_BYTES * ROWS_OF_SHARD, "quarantine: rows and queues")
            for chunk in (head, spare):
                while chunk:
                    self.claim(chunk, PAGE, "quarantine: rows and queues")
                    chunk = struct.unpack("<Q", self.read(chunk, 8))[0]

    def row_of(self, mapping):
        """Returns the row of a mapping that no variable claims."""
        if mapping.path == self.library:
            return "library: relocated" if "w" in mapping.mode or mapping.mode.startswith("r--") and mapping.is_private_copy else "files"
        if mapping.path.startswith(("/dev/zero", "/memfd:zguard")):
            return "windows: memory of the chunks" if mapping.path.startswith("/dev/zero") else "other"
        return "files" if mapping.path.startswith("/") and "(deleted)" not in mapping.path else "unclaimed"

    def count_pages(self):
        self.claims.sort()
        starts = [start for start, _, _ in self.claims]
        seen = set()
        pages_again = []
        data_end = 0 if self.base is None else self.base + max(start + size for start, size in self.variables.values())
        for mapping in self.mappings:
            if not mapping.resident:
                continue
            is_data = self.base is not None and not mapping.path and self.base <= mapping.start < data_end
            count = (mapping.end - mapping.start) // PAGE
            entries = os.pread(self.pagemap.fileno(), 8 * count, mapping.start // PAGE * 8)
            mapping.is_private_copy = False
            for number, (entry,) in enumerate(struct.iter_unpack("<Q", entries)):
                address, frame = mapping.start + number * PAGE, entry & NUMBER
                if not entry & PRESENT or (ZEROS and frame == ZEROS):
                    continue
                at = bisect.bisect(starts, address) - 1
                row = self.claims[at][2] if at >= 0 and address < self.claims[at][1] else None
                if not row and mapping.path == self.library:
                    row = "files" if entry >> 61 & 1 else "library: relocated"
                elif not row:
                    row = "tables of the library" if is_data else self.row_of(mapping)
                if row == "unclaimed":
                    row = "other" if self.base is not None and not mapping.path and self.is_ours(mapping) else ROWS[1]
                if row.startswith("windows") and frame:
                    pages_again.append(frame)
                    continue
                self.sums[row] += PAGE
        seen = set(pages_again)
        self.sums["windows: memory of the chunks"] = PAGE * len(seen)
        self.sums[AGAIN] = PAGE * (len(pages_again) - len(seen))

    def is_ours(self, mapping):
        """True if some part of the mapping is claimed."""
        at = bisect.bisect(self.claims, (mapping.end,)) - 1
        return at >= 0 and self.claims[at][1] > mapping.start

    def finish(self):
        """Counts the blocks. Call after the process continues, because counting takes longer than the process should be stopped."""
        live = rounding = dead = reusable = 0
        for slot_bytes, records in self.kept:
            for header, in struct.iter_unpack("<I12x", records):
                state = header & 0xFF
                if state == LIVE:
                    live += slot_bytes - (header >> 16)
                    rounding += header >> 16
                elif state in DEAD:
                    dead += slot_bytes
                elif state == REUSABLE:
                    reusable += slot_bytes
        self.kept = []
        sums = self.sums
        if self.base is not None:
            sums["· requested by live blocks"], sums["· rounding up to slots"] = live, rounding
            sums["· dead blocks, quarantined or held"], sums["· reusable"] = dead, reusable
            sums["· the rest of the pages"] = sums["slots"] - live - rounding - dead - reusable
        sums["sum"] = sum(size for row, size in sums.items() if not row.startswith("·") and row not in ("sum", AGAIN))
        return self


class Watcher:
    """Takes a snapshot of a process of the session whenever the process is larger than in all earlier snapshots. `largest` is the last
    snapshot."""

    def __init__(self, library, variables):
        self.library, self.variables = library, variables
        self.session = self.largest = None
        self.bytes = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def members(self):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if os.getsid(int(entry.name)) == self.session:
                        yield int(entry.name)

    def watch(self):
        pids, looked = [], 0
        while not self.ended.wait(EVERY):
            if time.monotonic() - looked > 0.02:
                pids, looked = list(self.members()), time.monotonic()
            for pid in pids:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    resident = PAGE * int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    if resident > GROWTH * self.bytes:
                        self.look(pid, resident)

    def look(self, pid, resident):
        os.kill(pid, signal.SIGSTOP)
        try:
            found = Look(pid, self.library, self.variables)
            if found.resident > self.bytes:
                self.largest, self.bytes = found, found.resident
        finally:
            os.kill(pid, signal.SIGCONT)


def run(target, library, variables, options, size, work):
    """Returns {row: bytes} of the program's largest process, and the kernel's figure for its peak. `library` None: unguarded."""
    watcher = Watcher(library, variables)
    variables_of_run = {**with_tools.clean_environment(), **target.environment}
    if library:
        variables_of_run |= {"LD_PRELOAD": str(library), "ZGUARD_OPTIONS": options}
    command = [str(word) for word in target.command(work, size, "zguard" if library else "glibc")]
    process = subprocess.Popen(command, cwd=work, env=variables_of_run, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    watcher.session = process.pid
    watcher.thread.start()
    target.drive(process, work, size)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    watcher.ended.set()
    watcher.thread.join()
    if process.returncode or not watcher.largest:
        sys.exit(f"memory: error: {target.name} ends with {process.returncode}")
    return watcher.largest.finish().sums, 1024 * usage.ru_maxrss, watcher.bytes


def mebibytes(size):
    return f"{size / 1048576:.1f}" if size else ""


def rows_per_context(library):
    """Returns (0, bytes) of a shard's quarantine rows, in the form of symbols(): 2,048 rows of quarantine_per_context words."""
    text = (building.ROOT / "Sources" / "CZombie" / "include" / "zg_options.h").read_text()
    return 0, 2048 * 8 * int(re.search(r"quarantine_per_context,[^0-9]*(\d+)", text)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--library", type=Path, default=LIBRARY, metavar="PATH")
    parser.add_argument("--only", action="append", metavar="NAME", help="a program of Benchmarks/run (default: the real ones)")
    parser.add_argument("-o", "--options", default="", metavar="key=value:…")
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the bytes of each row as well")
    arguments = parser.parse_args()
    library = arguments.library.resolve()
    variables = symbols(library) | {"newest_row_bytes": rows_per_context(library)}
    known = {target.name: target for target in targets.all_targets()}
    names = arguments.only or [name for name, target in known.items() if target.kind == "real" and not target.missing()]
    found = {}
    for name in names:
        target = targets.built(known, name, "memory")
        with tempfile.TemporaryDirectory(prefix="zguard-memory-") as work:
            target.prepare(Path(work), arguments.size)
            plain = run(target, None, variables, "", arguments.size, Path(work))
            guarded = run(target, library, variables, arguments.options, arguments.size, Path(work))
        found[name] = {"plain": plain[0], "guarded": guarded[0], "peaks": [plain[1], guarded[1]], "seen": [plain[2], guarded[2]]}
        print(f"{name}: resident {mebibytes(plain[2])} → {mebibytes(guarded[2])} MiB", file=sys.stderr, flush=True)
    print("| MiB | " + " | ".join(found) + " |\n|---|" + "---:|" * len(found))
    print("| plain | " + " | ".join(mebibytes(seen["plain"]["sum"]) for seen in found.values()) + " |")
    for row in ROWS:
        if any(seen["guarded"].get(row) for seen in found.values()):
            print(f"| {row} | " + " | ".join(mebibytes(seen["guarded"].get(row)) for seen in found.values()) + " |")
    ratios = [seen["guarded"]["sum"] / seen["plain"]["sum"] for seen in found.values()]
    resident = [seen["seen"][1] / seen["seen"][0] for seen in found.values()]
    print("| sum, guarded over plain | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    print("| resident, guarded over plain | " + " | ".join(f"{ratio:.2f}" for ratio in resident) + " |")
    print(f"\nGeometric means: sum {statistics.geometric_mean(ratios):.2f}, resident {statistics.geometric_mean(resident):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
