#!/usr/bin/env python3
"""Commits thousands of faults on isolated blocks, and compares every field of the findings.

A fault is one combination of allocation function, size, alignment, way to free, and use: after free, or out of bounds.
Tests/Detection/Fences/matrix.c commits each fault in a child process. `Fault` computes the expected finding from the rules that
place isolated blocks. A part is a set of faults with options:
  fence       all faults, with --profile fence, where every block is isolated
  clean       the same blocks, used within their bounds and lifetimes: no finding
  guard, mprotect   a share of the faults, with freed pages protected by MADV_GUARD_INSTALL, or by mprotect
  continue    a share of the faults, with on_finding=continue: the program goes on, and its later free of the block is no finding
  default     a share of the faults, with default options: the first block of each context is isolated
  align16, align8, align1   a share of the faults, with isolated_align=16, 8 and 1 instead of auto, which moves the guard page nearer to the
                            block's end or farther away
  windows, windows-clean   small blocks in windows: uses after free and overflows of live blocks; and correct uses
  tags, tags-continue, tags-clean   only on arm64 (--arch aarch64), and the only parts there: blocks with memory tags (profile mte)
--slice runs a share of the faults, and in each mode keeps every use, every way to make and to free a block, and every size.
Every fault that is not found exactly as expected is a line of output. Closing line: N passed, N failed.
"""

import argparse
import bisect
import concurrent.futures
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, processors  # noqa: E402
from Support.checks import Failed, close, run_within  # noqa: E402
from Support.environment import ARCH, LIBRARY, TESTS, ZGUARD, guarded_by  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCE = TESTS / "Detection/Fences/matrix.c"
COMPILE_FLAGS = ["-std=gnu17", "-O1", "-g", "-fno-optimize-sibling-calls", "-fno-builtin", "-pthread", "-Wall",
                 "-Wextra", "-Werror", "-Wno-use-after-free"]
TIMEOUT_SECONDS = 240
EXAMPLES_SHOWN = 3

PAGE = 4096
OWN_PAGES = 128 << 10  # the program may remap pages of page-aligned blocks of at least this size
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 255, 256, 257, 512, 1000, 1024, 4095,
         4096, 4097, 5000, 8192, 16384, 32767, 32768, 32769, 65536, 100000, 131072, 262144, 1000000, 1048576]
PLAIN = ["malloc", "calloc", "realloc_null", "realloc_grown", "realloc_shrunk", "reallocarray", "strdup"]
ALIGNED = ["aligned_alloc", "posix_memalign", "memalign"]
ALIGNMENTS = [16, 32, 64, 256, 1024, 4096, 8192, 65536]
DROPS = ["free", "realloc", "realloc_zero", "thread"]
# Ways to end a block's use in which the red zones are checked while the block is live: `exit` does not free it, and the runtime checks at
# exit; `check` calls verify() before it frees the block. Values: found_by of the finding.
LATE_DROPS = {"exit": "exit", "check": "check"}
WITH_ALL_FORMS = [("exit", 0), ("check", 1)]
START_EVERY, START_AT = 4, 1  # blocks 1, 5, 9, … of a context (counted from 0) are placed at the start of their pages
EARLIER = [0, 1, 2, 3, 5]
NOTHING = ["malloc", "calloc", "realloc_null", "reallocarray", "valloc"]  # functions that can make blocks of 0 bytes

# Uses by one instruction: name, access, width in bytes.
SINGLE = [*((f"read_{width}", "read", width) for width in (1, 2, 4, 8, 16, 32, 64)),
          *((f"write_{width}", "write", width) for width in (1, 2, 4, 8, 16, 32, 64)),
          ("add_4", "write|read", 4), ("lock_add_4", "write", 4), ("xchg_8", "write", 8), ("cmpxchg_4", "write", 4),
          ("cmp_1", "read", 1), ("store_immediate", "write", 4)]
# Uses of a range, front to back: name, access.
STRING_INSTRUCTIONS = [("rep_stosb", "write"), ("rep_movsb_from", "read"), ("rep_movsb_to", "write")]
# Functions of the C library that use a range, in an unspecified order of bytes: name, access.
MEMORY = [("memcpy_from", "read"), ("memcpy_to", "write"), ("memmove_from", "read"), ("memmove_to", "write"),
          ("memset", "write"), ("memcmp", "read")]
# Functions of the C library that use strings: name, access. With vector instructions, such a function may read from the start of the
# aligned vector that contains the first byte.
STRINGS = [("memchr", "read"), ("strlen", "read"), ("strnlen", "read"), ("strchr", "read"), ("strrchr", "read"),
           ("strcmp", "read"), ("strcpy_from", "read"), ("strcpy_to", "write"), ("strncpy_to", "write"),
           ("strdup", "read"), ("snprintf_from", "read"), ("snprintf_to", "write")]
ATOMIC = ("lock_add_4", "xchg_8", "cmpxchg_4")  # arm64 may report such an access as a read or as a write
# Uses with a base register that points to the block, and an index register: name, access, bytes.
INDEXED = [("index_read_1", "read", 1), ("index_read_8", "read", 8), ("index_write_1", "write", 1),
           ("index_write_4", "write", 4)]
ACCESS = {use[0]: use[1] for use in SINGLE + STRING_INSTRUCTIONS + MEMORY + STRINGS + INDEXED}
WIDTH = {use[0]: use[2] for use in SINGLE + INDEXED}
IN_LIBRARY = {use[0] for use in MEMORY + STRINGS}
BY_VECTORS = {use[0] for use in STRINGS if use[1] == "read"}
VECTOR = 64
FRONT_GAP = 256  # bytes of the red zone in front of a block that are checked when the block is freed


def natural(size):
    """Returns the largest power of two that divides the size, at most 16."""
    return min(size & -size, 16) or 16


def aligned_to(most):
    """isolated_align=16, 8 or 1."""
    return lambda size, make: most


def aligned_in_fence(size, make):
    """Returns a block's alignment with isolated_align=auto in profile fence: exact for strdup; for other blocks of up to 8 bytes the next
    power of two, at least 2; else 16."""
    return natural(size) if make == "strdup" else max(2, 1 << (size - 1).bit_length()) if 0 < size <= 8 else 16


def aligned_by_default(size, make):
    """Returns a block's alignment with isolated_align=auto in profiles other than fence: at least 2, so that no block's address is odd."""
    return max(2, aligned_in_fence(size, make))


def round_up(number, step):
    return -(-number // step) * step


class Fault:
    """One fault and its expected finding. Offsets are relative to the block's start."""

    # Returns the alignment of a block's end, by size and allocation function; set before the faults of a part are created.
    end_alignment = None
    spills = False  # with on_finding=continue, the write also changes another block, which gives a further finding

    def __init__(self, mode, size, use, offset, make="malloc", drop="free", alignment=16, count=1, earlier=0):
        self.mode, self.size, self.use, self.offset, self.count = mode, size, use, offset, max(count, 1)
        self.make, self.drop, self.alignment = make, drop, PAGE if make == "valloc" else alignment
        self.earlier = earlier
        if make in PLAIN:
            self.alignment = Fault.end_alignment(size, make)
        # Aligned blocks of at least OWN_PAGES bytes are never moved to a page start, because the program may remap their pages.
        is_at_start = earlier % START_EVERY == START_AT and (make in PLAIN or size < OWN_PAGES)
        step = PAGE if is_at_start else min(self.alignment, PAGE)
        self.fence = round_up(size, step)  # offset of the guard page behind the block
        self.page_offset = -self.fence % PAGE  # offset of the block's start in its page
        self.first_page = -self.page_offset
        self.expect()

    def expect(self):
        span = WIDTH.get(self.use, self.count)
        first, last = self.offset, self.offset + span - 1
        self.kind, self.access, self.status = "use-after-free", ACCESS[self.use], 128 + signal.SIGSEGV
        self.states, self.free, self.detail = {"retired"}, "drop_" + self.drop, None
        self.low = self.high = self.offset
        if self.use in IN_LIBRARY:
            self.high = last
            if self.use in BY_VECTORS:
                self.low, self.high = first - VECTOR + 1, last + VECTOR - 1
        if self.mode == "dead":
            return
        self.kind, self.states, self.free = "heap-overflow", {"live"}, None
        if first < self.fence <= last:
            # The access runs into the guard page and faults at the page's first byte; library functions may fault at a later byte.
            self.low = self.fence
            self.high = last if self.use in IN_LIBRARY else self.fence
        elif first >= self.fence or first < self.first_page:
            pass
        else:
            # The access does not fault: the changed bytes of the red zone are found when the block is freed or checked.
            changed = first if first < 0 or first >= self.size else self.size
            self.low = self.high = changed
            self.status = 0 if self.drop == "exit" else 128 + signal.SIGABRT
            self.detail = {"found_by": LATE_DROPS.get(self.drop, "free"), "offset": str(changed) if changed >= 0 else None, "new": "0x21",
                           "length": str(last - changed + 1)}

    def line(self, number):
        return (f"{number} {self.mode} {self.make} {self.drop} {self.use} {self.size} {self.alignment} {self.offset} "
                f"{self.count} {self.earlier}\n")

    def clean_line(self, number):
        """Input line of matrix.c for the same block, used within its bounds and before it is freed."""
        if not self.size:
            use = "memset" if self.access == "write" else "memcmp"
            return f"{number} clean {self.make} {self.drop} {use} 0 {self.alignment} 0 0 {self.earlier}\n"
        span = min(WIDTH.get(self.use, self.count), self.size)
        if WIDTH.get(self.use, 1) > self.size:
            use, offset = "write_1" if self.access == "write" else "read_1", self.size - 1
        elif self.mode == "amid":
            use, offset = self.use.removeprefix("index_"), 0
        else:
            use, offset = self.use, max(0, min(self.offset, self.size - span))
        if use in ATOMIC:
            offset -= offset % span
        if use in ("strcmp", "strlen", "strchr", "strrchr", "strcpy_from", "strdup", "snprintf_from"):
            offset = min(offset, self.size - 1)
        return f"{number} clean {self.make} {self.drop} {use} {self.size} {self.alignment} {offset} {span} {self.earlier}\n"

    def kinds(self):
        """Properties that every slice must contain at least once, in each part."""
        found_by = self.detail["found_by"] if self.detail else "access"
        side = "before" if self.offset < 0 else "behind" if self.offset >= self.size else "within"
        return [(self.mode, self.use), (self.mode, self.make, self.drop), (self.mode, self.size), (self.mode, self.alignment),
                (self.mode, found_by, side), (self.mode, found_by, self.earlier, side)]

    def __str__(self):
        at = f"{self.make}({self.size}" + (f", aligned {self.alignment}" if self.make in ALIGNED else "") + ")"
        uses = f"{self.use} at {self.offset}" + (f", {self.count} bytes" if self.use not in WIDTH else "")
        return (f"{at}: {uses}{'' if self.mode == 'dead' else ', ' + self.mode}, dropped by {self.drop}"
                + (f", block {self.earlier + 1} of its stack" if self.earlier else ""))


WINDOW_MOST = 2040  # larger blocks are never in a window
WINDOW_SIZES = [size for size in SIZES if size <= 1024] + [1400, 2039, WINDOW_MOST]


class InWindow(Fault):
    """A fault on a block in a window: the block may be anywhere in its page, and neighboring blocks are readable."""

    def expect(self):
        self.fence, self.first_page, self.page_offset = 1 << 20, -1 << 20, None
        super().expect()


TAGGED_MOST = 32768  # larger blocks and page-aligned blocks have no tag
COPIES = ("memcpy_from", "memmove_from")  # qemu user mode may report the reads of these functions as writes


class Tagged(Fault):
    """A fault on a block in a tagged slot (granules of 16 bytes): memory in front of and behind the block has other tags."""

    def expect(self):
        self.fence, self.first_page, self.page_offset = round_up(self.size, 16), 0, None
        super().expect()
        self.spills = self.mode != "dead" and "write" in self.access
        if self.mode == "dead":
            self.states = {"quarantined"}
        elif self.offset < 0:  # the access faults at its first byte, which is not in the block
            self.low, self.high, self.status, self.detail = self.offset, max(self.high, self.offset), 128 + signal.SIGSEGV, None
        if self.use in ATOMIC or (self.use in COPIES and not processors.WHOLE):
            self.access = "write|read"


# MARK: the matrix


def makes(sizes):
    """Yields (size, function, alignment) for every way to make a block of each size."""
    for size in sizes:
        for make in PLAIN:
            yield size, make, 16
        yield size, "valloc", PAGE
        for index, alignment in enumerate(ALIGNMENTS):
            yield size, ALIGNED[(index + size) % len(ALIGNED)], alignment


def offsets_within(size, width):
    """Offsets of the first, second, middle and last access of this width in a block, and some up to a page from its start."""
    last = size - width
    if last < 0:
        return [0, size - 1]
    return sorted({offset for offset in (0, 1, last // 2, last, 511, 2047, PAGE - 1, PAGE) if offset <= last})


def matrix(widths):
    faults = []
    drops = itertools.cycle(DROPS)
    single = [use for use in SINGLE if use[2] in widths]

    # Accesses to freed blocks within their bounds: every size, width and access, at all offsets_within().
    for size in SIZES:
        for use, _, width in single:
            for offset in offsets_within(size, width):
                faults.append(Fault("dead", size, use, offset, drop=next(drops)))
    # Accesses to freed blocks, for every function that makes and every function that frees a block.
    uses = itertools.cycle([("read_1", 1), ("write_8", 8), ("write_1", 1), ("read_8", 8), ("read_16", 16)])
    for size, make, alignment in makes(SIZES):
        for drop in DROPS:
            use, width = next(uses)
            places = offsets_within(size, width)
            offset = places[0] if drop in ("free", "realloc_zero") else places[-1]
            faults.append(Fault("dead", size, use, offset, make, drop, alignment))
    # Accesses to freed blocks by functions of the C library and by string instructions.
    for size in SIZES:
        for use, _ in STRING_INSTRUCTIONS + MEMORY + STRINGS:
            faults.append(Fault("dead", size, use, 0, drop=next(drops), count=size))
            if size > 100:
                faults.append(Fault("dead", size, use, 77, drop=next(drops), count=size - 77))
    # Accesses past the end of freed blocks: the finding is still a use after free of that block.
    for size, (use, _, width) in itertools.product(SIZES, [("read_1", "", 1), ("write_4", "", 4), ("write_1", "", 1)]):
        fence = Fault("dead", size, use, 0).fence
        for offset in sorted({size, fence, fence + 1, fence + 100}):
            faults.append(Fault("dead", size, use, offset, drop=next(drops)))
        # Accesses to the last bytes of the guard page. Free the block only in ways that allocate nothing: realloc may place its new, live
        # block behind the guard page.
        for drop in ("free", "thread"):
            faults.append(Fault("dead", size, use, fence + PAGE - width, drop=drop))

    # Accesses past the end of a live block, in its guard page, for every function that makes a block.
    uses = itertools.cycle([("read_1", 1), ("write_1", 1), ("read_8", 8), ("write_16", 16), ("write_2", 2),
                            ("read_4", 4)])
    for size, make, alignment in makes(SIZES):
        for place in (0, 1, 100, PAGE):
            use, width = next(uses)
            fault = Fault("live", size, use, 0, make, next(drops), alignment)
            offset = fault.fence + (PAGE - width if place == PAGE else place)
            faults.append(Fault("live", size, use, offset, make, fault.drop, alignment))
    # Accesses of each width across the start of the guard page.
    for size in SIZES:
        for use, _, width in single:
            fence = Fault("live", size, use, 0).fence
            if width > 1 and fence - width // 2 >= 0 and width // 2 <= 16:
                faults.append(Fault("live", size, use, fence - width // 2, drop=next(drops)))
    for size in SIZES:
        for use, _ in STRING_INSTRUCTIONS + MEMORY:
            if use not in ("memcmp", "memchr"):
                for over in (1, 100):
                    faults.append(Fault("live", size, use, 0, drop=next(drops), 
                                        count=Fault("live", size, use, 0).fence + over))
        if Fault("live", size, "read_1", 0).fence == size:  # otherwise a zero byte in the gap may end the string
            for use in ("strlen", "strchr", "strrchr", "strcpy_from", "strdup", "snprintf_from"):
                fault = Fault("live", size, use, 0, drop=next(drops), count=size + 1)
                fault.low, fault.high = size, size + PAGE - 1
                faults.append(fault)
    # Accesses in front of a live block, in the guard page before its first page.
    for size, (use, width) in itertools.product(SIZES, [("read_1", 1), ("write_1", 1), ("read_8", 8), ("write_8", 8)]):
        fault = Fault("live", size, use, 0)
        for before in (width, 100, PAGE - 1):
            faults.append(Fault("live", size, use, fault.first_page - before, drop=next(drops)))

    # Accesses in front of blocks with large alignments, which leave unused pages in front of the block.
    for size, alignment in itertools.product(SIZES, (64, PAGE, 2 * PAGE, 16 * PAGE)):
        for use, width in (("read_1", 1), ("write_4", 4)):
            fault = Fault("live", size, use, 0, "memalign", next(drops), alignment)
            for before in (width, 100, PAGE - 1):
                faults.append(Fault("live", size, use, fault.first_page - before, "memalign", fault.drop, alignment))

    # Accesses between two live blocks: the access is attributed to the block of the base register, even if the other block is nearer.
    for size, (use, _, width) in itertools.product(SIZES, INDEXED):
        fault = Fault("amid", size, use, 0)
        for place in (0, 1, 100, PAGE // 2, PAGE - width):
            faults.append(Fault("amid", size, use, fault.fence + place, drop=next(drops)))
            faults.append(Fault("amid", size, use, fault.first_page - width - place, drop=next(drops)))

    # Writes that do not fault: into the red zones behind and in front of a live block.
    for size, make, alignment in makes(SIZES):
        fault = Fault("live", size, "write_1", 0, make, "free", alignment)
        gap = min(fault.fence - size, 15)
        # The red zones of large page-aligned blocks are not checked, because the program may remap the pages.
        if alignment >= PAGE and size >= OWN_PAGES:
            gap = 0
        for offset in sorted({size, size + gap - 1}) if gap else []:
            faults.append(Fault("live", size, "write_1", offset, make, next(drops), alignment))
        if gap and make == "malloc":
            faults.append(Fault("live", size, "memset", 0, make, next(drops), alignment, count=size + gap))
        front = min(fault.page_offset, FRONT_GAP)
        for before in sorted({1, 8, 16, 100, front}) if front else []:
            if before <= front:
                faults.append(Fault("live", size, "write_1", -before, make, next(drops), alignment))
    faults += at_either_end(widths)
    faults += of_no_bytes(widths)
    faults += found_late()
    return faults


def at_either_end(widths):
    """Faults on blocks that are not the first of their allocation stack. Some of these blocks are placed at the start of their pages."""
    faults = []
    drops = itertools.cycle(DROPS)
    uses = itertools.cycle([use for use in SINGLE if use[2] in widths])
    for index, (earlier, (size, make, alignment)) in enumerate(itertools.product(EARLIER, makes(SIZES))):
        # Use malloc for every size and every number of earlier blocks. Use every third of the other combinations, and only for blocks at
        # a page start.
        if alignment > PAGE or (make != "malloc" and (earlier != START_AT or index % 3)):
            continue
        use, _, width = next(uses)
        fault = Fault("live", size, use, 0, make, next(drops), alignment, earlier=earlier)
        rest = (make, fault.drop, alignment)
        # Accesses in the guard pages in front of and behind the block, at their near and far ends, and within the block after its free.
        places = {fault.first_page - width, fault.first_page - max(width, 100), fault.fence, fault.fence + PAGE - width}
        faults += [Fault("live", size, use, offset, *rest, earlier=earlier) for offset in sorted(places)]
        places = {0, size - 1, fault.fence - 1 if width == 1 else 0}
        faults += [Fault("dead", size, "read_1", offset, *rest, earlier=earlier) for offset in sorted(places)]
        # An access across the start of the block, and writes into the gap behind the block.
        if width > 1 and fault.page_offset == 0:
            across = Fault("live", size, use, -(width // 2), *rest, earlier=earlier)
            across.low, across.high = -(width // 2), -1
            across.status, across.detail = 128 + signal.SIGSEGV, None
            faults.append(across)
        if fault.fence > size and not (fault.alignment >= PAGE and size >= OWN_PAGES):
            faults += [Fault("live", size, "write_1", offset, *rest, earlier=earlier)
                       for offset in sorted({size, (size + fault.fence) // 2, fault.fence - 1})]
    for size, (use, _, width), earlier in itertools.product(SIZES, INDEXED, (START_AT,)):
        fault = Fault("amid", size, use, 0, earlier=earlier)
        for place in (0, 1, 100, PAGE // 2, PAGE - width):
            faults.append(Fault("amid", size, use, fault.fence + place, drop=next(drops), earlier=earlier))
            faults.append(Fault("amid", size, use, -width - place, drop=next(drops), earlier=earlier))
    return faults


def of_no_bytes(widths):
    """Blocks of 0 bytes: they start at a guard page, so every use faults."""
    faults = []
    drops = itertools.cycle(DROPS)
    forms = [(make, 16) for make in NOTHING] + list(zip(itertools.cycle(ALIGNED), ALIGNMENTS))
    for (make, alignment), (use, _, width) in itertools.product(forms, [use for use in SINGLE if use[2] in widths]):
        for mode, offset in itertools.product(("live", "dead"), (0, 1, 100, PAGE - width)):
            faults.append(Fault(mode, 0, use, offset, make, next(drops), alignment))
    for make, alignment in forms:
        for before in (1, 100, PAGE - 1):
            faults.append(Fault("live", 0, "read_1", -before, make, next(drops), alignment))
            faults.append(Fault("live", 0, "write_1", -before, make, next(drops), alignment))
        for earlier in EARLIER[1:]:
            faults.append(Fault("live", 0, "write_4", 0, make, next(drops), alignment, earlier=earlier))
            faults.append(Fault("dead", 0, "read_8", 0, make, next(drops), alignment, earlier=earlier))
    for use, _ in STRING_INSTRUCTIONS + MEMORY + STRINGS:
        faults += [Fault(mode, 0, use, 0, drop=next(drops), count=10) for mode in ("live", "dead")]
    for use, _, width in INDEXED:
        for place in (0, 1, 100, PAGE // 2 - width):
            faults.append(Fault("amid", 0, use, place, drop=next(drops)))
            faults.append(Fault("amid", 0, use, -width - place, drop=next(drops)))
    return faults


def found_late():
    """Writes into the red zones of blocks that are live at exit, or when verify() is called."""
    faults = []
    for drop, earlier, (size, make, alignment) in itertools.product(LATE_DROPS, (0, 1, 2), makes(SIZES)):
        fault = Fault("live", size, "write_1", 0, make, drop, alignment, earlier=earlier)
        if (fault.alignment >= PAGE and size >= OWN_PAGES) or (make != "malloc" and (drop, earlier) not in WITH_ALL_FORMS):
            continue
        places = {size, fault.fence - 1} if fault.fence > size else set()
        front = min(fault.page_offset, FRONT_GAP) if alignment <= PAGE else 0
        places |= {-1, -front} if front else set()
        faults += [Fault("live", size, "write_1", offset, make, drop, alignment, earlier=earlier)
                   for offset in sorted(places)]
        if len(places) > 1 and front and fault.fence > size:
            faults.append(Fault("live", size, "memset", 0, make, drop, alignment, count=size + 1, earlier=earlier))
    return faults


def slot_bytes(size, alignment):
    """Slot size of a block in a window: the block's size plus 8 bytes, rounded up to a size class whose slots have this alignment."""
    wanted, step = max(size + 8, 32), 16
    while True:
        step = max(16, 1 << (wanted - 1).bit_length() - 3) if wanted > 128 else 16
        wanted = round_up(wanted, step)
        if wanted % max(alignment, 16) == 0:
            return wanted
        wanted += 1


def in_windows(widths):
    """Uses of freed blocks in windows; and writes behind live blocks in windows, each found when its block is freed or checked."""
    faults = []
    drops = itertools.cycle(DROPS)
    forms = [(size, make, alignment) for size, make, alignment in makes(WINDOW_SIZES)
             if make != "valloc" and slot_bytes(size, alignment) <= PAGE // 2]
    single = [use for use in SINGLE if use[2] in widths]
    for size in WINDOW_SIZES:
        for use, _, width in single:
            faults += [InWindow("dead", size, use, offset, drop=next(drops)) for offset in offsets_within(size, width)]
        for use, _ in STRING_INSTRUCTIONS + MEMORY + STRINGS:
            faults.append(InWindow("dead", size, use, 0, drop=next(drops), count=size))
    uses = itertools.cycle(single)
    for (size, make, alignment), earlier, drop in itertools.product(forms, (0, 1), DROPS):
        use, _, width = next(uses)
        end = slot_bytes(size, alignment)
        offsets = [max(0, size - width), max(0, end - width)]
        faults.append(InWindow("dead", size, use, offsets[earlier], make, drop, alignment, earlier=earlier))
    for (size, make, alignment), earlier in itertools.product(forms, (0, 2)):
        end = slot_bytes(size, alignment)
        for offset in sorted({size, size + 7, (size + end) // 2, end - 1}):
            faults.append(InWindow("live", size, "write_1", offset, make, next(drops), alignment, earlier=earlier))
        for drop in LATE_DROPS if make == "malloc" else []:
            faults += [InWindow("live", size, "write_1", offset, make, drop, alignment, earlier=earlier) for offset in (size, end - 1)]
        if make == "malloc":
            faults.append(InWindow("live", size, "memset", 0, make, next(drops), alignment, count=end, earlier=earlier))
    return faults


def with_tags(widths):
    """The faults of the matrix, on blocks with memory tags. Leaves out accesses beyond the neighboring slots: unless a register holds the
    block's pointer, the runtime infers the block, and takes the nearest block with the tag of the faulting pointer."""
    faults = []
    for fault in matrix(widths):
        if fault.size > TAGGED_MOST or fault.alignment >= PAGE:
            continue
        tagged = Tagged(fault.mode, fault.size, fault.use, fault.offset, fault.make, fault.drop, fault.alignment, fault.count, fault.earlier)
        slot = round_up(max(fault.size, 1), 16)  # lower bound of the slot size
        is_near = tagged.mode == "amid" or -slot <= tagged.offset < 2 * slot
        # Leave out string functions that read past a live block, because they may stop anywhere.
        if is_near and not (tagged.use in BY_VECTORS and tagged.mode == "live"):
            faults.append(tagged)
    for size in (size for size in SIZES if size <= TAGGED_MOST):
        for use in ("memcpy_from", "memset", "rep_stosb", "rep_movsb_from"):
            faults.append(Tagged("live", size, use, 0, count=round_up(size, 16) + 1))
        for use, _, width in (use for use in SINGLE if use[2] in widths):
            for offset in {round_up(size, 16), round_up(size, 16) - width // 2, -width, -1}:
                if width > 1 or offset >= size or offset < 0:
                    faults.append(Tagged("live", size, use, offset))
    # Leave out misaligned atomic accesses, which raise another kind of fault.
    unique = {str(fault) + fault.mode: fault for fault in faults if fault.use not in ATOMIC or fault.offset % WIDTH[fault.use] == 0}
    return list(unique.values())


# MARK: running


def build(directory):
    executable = directory / "matrix"
    return builds.compiled(executable, [os.environ.get("CC", "gcc"), *COMPILE_FLAGS, "-o", executable, SOURCE],
                           [SOURCE, TESTS / "Bugs/bug.h"])


class Symbols:
    """The program's functions, by their offset in the file."""

    def __init__(self, executable):
        text = subprocess.run(["nm", "-n", str(executable)], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = re.findall(r"^([0-9a-f]+) [tT] (\w+)$", text, re.M)
        self.starts, self.names = [int(row[0], 16) for row in rows], [row[1] for row in rows]
        self.path = str(executable)

    def name(self, frame):
        if frame.get("module") != self.path:
            return None
        index = bisect.bisect_right(self.starts, int(frame["offset"], 16)) - 1
        return self.names[index] if index >= 0 else None


class Outcome:
    def __init__(self):
        self.pid = self.start = self.status = None
        self.findings = []


def run_batch(executable, lines, options, library, directory):
    """Runs matrix.c once with these input lines; returns outcomes by line number, problems of the run itself, and the report's path."""
    work = Path(tempfile.mkdtemp(dir=directory))
    (work / "lines").write_text("".join(lines))
    report = work / "report"
    options = ":".join(filter(None, [options, f"report_path={report}"]))
    code, out, err = run_within(TIMEOUT_SECONDS, [executable, work / "lines"], text=False, env=guarded_by(library, options))
    trouble = []
    if code is None:
        trouble.append(f"still running after {TIMEOUT_SECONDS} s")
    elif code:
        trouble.append(f"the program that commits the faults ended with {code}")
    if err := processors.without_emulator(err):
        trouble.append("standard error: " + err.decode(errors="replace").strip()[-500:])
    outcomes, by_pid = {int(line.split()[0]): Outcome() for line in lines}, {}
    for line in out.decode().splitlines():
        words = line.split()
        outcome = outcomes[int(words[1])]
        if words[0] == "begin":
            outcome.pid, outcome.start = int(words[2]), int(words[3], 16)
            by_pid[outcome.pid] = outcome
        else:
            outcome.status = int(words[2])
    for line in report.read_text().splitlines() if report.exists() else []:
        finding = json.loads(line)
        if finding["pid"] in by_pid:
            by_pid[finding["pid"]].findings.append(finding)
        else:
            trouble.append(f"a finding of no child: {line[:300]}")
    return outcomes, trouble, report


def check_stack(problems, symbols, finding, which, expected, through_library):
    frames = (finding.get("stacks") or {}).get(which) or []
    if expected is None:
        if frames:
            problems.append(f"{which} stack: expected none, got {symbols.name(frames[0])}")
        return
    names = [symbols.name(frame) for frame in frames]
    own = [name for name in names if name] if through_library else names
    if not own or own[0] != expected:
        text = " < ".join(str(name) for name in names[:4]) or "none"
        problems.append(f"{which} stack: expected {expected}, got {text}")


def check_fault(fault, outcome, symbols, goes_on):
    problems = []
    if outcome.start is None:
        return [f"the child never came to its fault, status {outcome.status}"]
    if fault.page_offset is not None and outcome.start % PAGE != fault.page_offset:
        problems.append(f"placed at {outcome.start % PAGE} of its page, expected {fault.page_offset}")
    if outcome.start % fault.alignment:
        problems.append(f"{outcome.start:#x} is not aligned to {fault.alignment}")
    status = 0 if goes_on else fault.status
    if outcome.status != status:
        problems.append(f"status {outcome.status}, expected {status}")
    # With on_finding=continue some faults give further findings. A string function faults again in the next page. A write that runs into
    # the guard page has changed bytes of the gap before, which are found when the block is freed.
    ran_over = fault.offset < fault.fence and fault.size < fault.fence <= fault.high
    ran_past = fault.offset < 0 and fault.offset + WIDTH.get(fault.use, 1) > fault.size
    is_found_again = fault.use in BY_VECTORS or ran_over or ran_past or fault.spills
    if len(outcome.findings) != 1 and not (goes_on and outcome.findings and is_found_again):
        problems.append(f"{len(outcome.findings)} findings")
    for finding in outcome.findings[:1]:
        block, detail = finding.get("block") or {}, finding.get("detail") or {}
        for name, got, expected in (
                ("kind", finding["kind"], fault.kind), ("access", finding["access"], fault.access),
                ("confidence", finding["confidence"], "exact"),
                ("state", block.get("state"), "|".join(sorted(fault.states))),
                ("start", block.get("start"), hex(outcome.start)), ("size", str(block.get("size")), str(fault.size)),
                *((f"detail {key}", detail.get(key), value) for key, value in (fault.detail or {}).items())):
            if got != expected if expected is None else got not in expected.split("|"):
                problems.append(f"{name} {got}, expected {expected}")
        if fault.detail and detail.get("old") in (None, detail.get("new")):
            problems.append(f"detail old {detail.get('old')}")
        offset = int(finding["address"], 16) - outcome.start
        if not fault.low <= offset <= fault.high:
            expected = f"{fault.low}" if fault.low == fault.high else f"{fault.low} to {fault.high}"
            problems.append(f"address at {offset}, expected {expected}")
        if block.get("offset") != offset:
            problems.append(f"offset {block.get('offset')}, but the address is at {offset}")
        is_found_by_free = fault.detail is not None
        access = "drop_" + fault.drop if is_found_by_free else "use_" + fault.use
        through_library = fault.drop in LATE_DROPS if is_found_by_free else fault.use in IN_LIBRARY
        check_stack(problems, symbols, finding, "access", access, through_library)
        if not is_found_by_free:
            check_stack(problems, symbols, finding, "free", fault.free, False)
        check_stack(problems, symbols, finding, "alloc", "make_" + fault.make, fault.make == "strdup")
    return problems


def check_clean(outcome):
    problems = [] if outcome.status == 0 else [f"status {outcome.status}, expected 0"]
    for finding in outcome.findings:
        problems.append(f"{finding['kind']} ({finding['access']}) was found, detail {finding.get('detail')}")
    return problems


def symbolicated(zguard, reports, wanted, names):
    """Checks that `zguard report` counts all findings of the raw reports and names the planted functions."""
    command = [str(zguard), "report", "--format", "json", *map(str, reports)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode or result.stderr:
        return [f"zguard report: status {result.returncode}, {result.stderr.strip()[-300:]}"]
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    problems, counted = [], sum(finding["count"] for finding in findings)
    if counted != wanted:
        problems.append(f"zguard report counts {counted} findings, expected {wanted}")
    for finding in findings:
        for which, stack in finding["stacks"].items():
            if stack and not any(frame.get("function") in names for frame in stack):
                problems.append(f"zguard report names no planted function in the {which} stack of {finding['kind']}")
    return problems


class Part:
    def __init__(self, name, options, share=1, is_clean=False, goes_on=False, alignment=aligned_in_fence, earlier_most=5,
                 earlier_bytes_most=1 << 30, faults=matrix, arch="x86_64"):
        self.faults, self.arch = faults, arch
        # witnesses=0: the faults test the protection of pages, and the checks in libc's functions would find the bug before the access.
        options = options if is_clean else ":".join(filter(None, [options, "witnesses=0"]))
        self.name, self.options, self.share, self.is_clean, self.goes_on = name, options, share, is_clean, goes_on
        self.end_alignment = alignment
        # Maximum numbers of blocks and bytes that the stack may have allocated before, so that the budget still allows an isolated block.
        self.earlier_most, self.earlier_bytes_most = earlier_most, earlier_bytes_most


PARTS = [
    Part("fence", "profile=fence:isolated_windows=off"),
    Part("clean", "profile=fence:isolated_windows=off", share=2, is_clean=True),
    Part("guard", "profile=fence:isolated_windows=off:protect=guard", share=11),
    Part("mprotect", "profile=fence:isolated_windows=off:protect=mprotect", share=5),
    Part("continue", "profile=fence:isolated_windows=off:on_finding=continue", share=7, goes_on=True),
    Part("default", "", share=5, alignment=aligned_by_default, earlier_most=1, earlier_bytes_most=PAGE),
    Part("windows", "profile=fence:isolated_windows=all", faults=in_windows),
    Part("windows-clean", "profile=fence:isolated_windows=all", share=2, is_clean=True, faults=in_windows),
    Part("align16", "profile=fence:isolated_windows=off:isolated_align=16", share=7, alignment=aligned_to(16)),
    Part("align8", "profile=fence:isolated_windows=off:isolated_align=8", share=7, alignment=aligned_to(8)),
    Part("align1", "profile=fence:isolated_windows=off:isolated_align=1", share=3, alignment=aligned_to(1)),
    Part("tags", "profile=mte", faults=with_tags, arch="aarch64"),
    Part("tags-continue", "profile=mte:on_finding=continue", share=7, goes_on=True, faults=with_tags, arch="aarch64"),
    Part("tags-clean", "profile=mte", share=2, is_clean=True, faults=with_tags, arch="aarch64"),
]


def summary(failures):
    """Groups failures whose problems differ only in numbers and function names; yields the most frequent first."""
    groups = {}
    for what, problems in failures:
        text = re.sub(r"0x[0-9a-f]+|-?\d+|\b(make|drop|use)_\w+", "N", "; ".join(problems))
        groups.setdefault(text, []).append(f"{what}: {'; '.join(problems)}")
    for examples in sorted(groups.values(), key=len, reverse=True):
        yield from examples[:EXAMPLES_SHOWN]
        if len(examples) > EXAMPLES_SHOWN:
            yield f"... and {len(examples) - EXAMPLES_SHOWN} more like these"


def run_part(part, faults, arguments, executable, symbols, directory):
    """Runs a part; returns the number of faults found as expected, and the failures as (fault, problems)."""
    chosen = faults[::part.share]
    chosen = arguments.slice.choose(chosen, kinds=Fault.kinds, way=PARTS.index(part))
    lines = [fault.clean_line(number) if part.is_clean else fault.line(number) for number, fault in enumerate(chosen)]
    size = 250
    batches = [lines[first:first + size] for first in range(0, len(lines), size)]
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = list(pool.map(
            lambda batch: run_batch(executable, batch, part.options, arguments.library, directory), batches))
    passed, failures, count = 0, [], 0
    for outcomes, trouble, _ in results:
        failures += [("the run", [line]) for line in trouble]
        for number, outcome in outcomes.items():
            fault = chosen[number]
            problems = check_clean(outcome) if part.is_clean else check_fault(fault, outcome, symbols, part.goes_on)
            count += len(outcome.findings)
            if problems:
                failures.append((lines[number].split(" ", 2)[2].strip() if part.is_clean else str(fault), problems))
            else:
                passed += 1
    if count and arguments.zguard.exists() and not part.goes_on:
        reports = [report for _, _, report in results if report.exists()]
        problems = symbolicated(arguments.zguard, reports, count, set(symbols.names))
        failures += [("all findings", problems)] if problems else []
    return passed, failures


def main():
    parser = argparse.ArgumentParser(description="Commits thousands of faults on blocks with pages of their own.")
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS],
                        help="only this part; repeatable")
    parser.add_argument("--only", default="", metavar="REGEX", help="only faults whose description matches")
    parser.add_argument("--options", default="", metavar="OPTIONS", help="further ZGUARD_OPTIONS")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the faults and end")
    parser.add_argument("--all", action="store_true", help="print all failures, not the first of them")
    parser.add_argument("--library", type=Path, default=LIBRARY, metavar="PATH")
    parser.add_argument("--zguard", type=Path, default=ZGUARD, metavar="PATH")
    parser.add_argument("--build", type=Path, default=builds.BUILD / "fences", metavar="DIRECTORY",
                        help="for executables")
    add_slice_option(parser)
    processors.add_option(parser)
    arguments = parser.parse_args()
    if processors.is_elsewhere(arguments.arch):
        return processors.run(__file__, arguments.arch, ["--only", arguments.only, "--jobs", str(arguments.jobs), "--slice", str(arguments.slice),
                                                         *(word for name in arguments.part or [] for word in ("--part", name)),
                                                         *["--all"] * arguments.all])
    arguments.library, arguments.build = arguments.library.resolve(), arguments.build.resolve()

    try:
        executable = build(arguments.build)
    except Failed as failure:
        print(f"FAIL {failure}")
        return close(0, 1)
    if processors.stage() == processors.BUILD:
        return 0
    widths = subprocess.run([str(executable), "--widths"], stdout=subprocess.PIPE, text=True, check=True).stdout

    def faults_of(part):
        Fault.end_alignment = staticmethod(part.end_alignment)
        return [fault for fault in part.faults({int(width) for width in widths.split()})
                if re.search(arguments.only, str(fault)) and
                fault.earlier <= part.earlier_most and fault.earlier * fault.size <= part.earlier_bytes_most]

    if arguments.list:
        print(*faults_of(PARTS[0]), sep="\n")
        return 0
    if not arguments.library.exists():
        parser.error(f"'{arguments.library}' does not exist")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    symbols, passed, failed = Symbols(executable), 0, 0
    with tempfile.TemporaryDirectory(prefix="zguard-fences-") as directory:
        ran = whole = 0
        for part in PARTS:
            if (arguments.part and part.name not in arguments.part) or part.arch != ARCH:
                continue
            faults = faults_of(part)
            part.options = ":".join(filter(None, [part.options, arguments.options]))
            good, failures = run_part(part, faults, arguments, executable, symbols, Path(directory))
            passed, failed = passed + good, failed + len(failures)
            ran, whole = ran + good + len(failures), whole + len(faults[::part.share])
            print(f"{part.name}: {good} found as expected, {len(failures)} not" if not part.is_clean else
                  f"{part.name}: {good} without a finding, {len(failures)} not", flush=True)
            all_lines = [f"{what}: {'; '.join(problems)}" for what, problems in failures]
            for line in all_lines if arguments.all else summary(failures):
                print(f"FAIL {part.name}: {line}", flush=True)
        arguments.slice.say(ran, whole, "faults")
    processors.record("fences", "faults on tagged blocks" + ("" if arguments.slice.is_whole else f", a {arguments.slice.count}th"), passed, failed)
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
