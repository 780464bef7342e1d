"""Divides the cases of a driver into N slices that together contain all cases.
The slice of a case follows from its name alone, so that N consecutive numbers cover all cases, even if others are added meanwhile. The
first case of each kind is in every slice, so that no slice lacks a kind."""

import argparse
import zlib


class Slice:
    """Slice `number` of `count`, from 1."""

    def __init__(self, number=1, count=1):
        self.number, self.count = number, count

    def __str__(self):
        return f"{self.number}/{self.count}"

    @property
    def is_whole(self):
        return self.count == 1

    def takes(self, name, way=0):
        """Returns whether a case is in this slice. `way` numbers the ways in which the same case is tried, so that each way is in another
        slice."""
        return (zlib.crc32(name.encode()) + way) % self.count == self.number - 1

    def choose(self, cases, name=str, kinds=lambda case: (), way=0, seen=None):
        """Returns the cases of this slice, in their order, and the first case of each of their `kinds` that is not in `seen`; adds the
        kinds to `seen`."""
        seen, chosen = set() if seen is None else seen, []
        for case in cases:
            new = set(kinds(case)) - seen
            seen.update(new)
            if new or self.takes(name(case), way):
                chosen.append(case)
        return chosen

    def deal(self, cases):
        """Deals cases to slices in turn, for short lists that do not change: no slice is empty."""
        return cases[self.number - 1::self.count]

    def say(self, chosen, whole, what):
        """Prints the line from which scripts/test knows what was omitted."""
        if not self.is_whole:
            print(f"slice {self}: {chosen:,} of {whole:,} {what}", flush=True)


def slice_of(text):
    """Parses `K/N` for argparse."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"'{text}' is not K/N with K from 1 to N")
    return Slice(int(number), int(count))


def add_slice_option(parser):
    parser.add_argument("--slice", type=slice_of, default=Slice(), metavar="K/N",
                        help="only the K-th of N parts of the cases, and the first case of each kind")
