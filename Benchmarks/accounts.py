#!/usr/bin/env python3
"""Compares the processor time that the runtime charges to its budgets with the time that a program saves without them.

Pages: the account of isolated_overhead, and the time saved by isolated_per_context=0:isolated_overhead=0%. Stacks: the account of
stack_overhead, and the time saved by stack_overhead=0%, with which new stacks have few frames. All in percent of the plain program's
processor time; medians of interleaved rounds. Real-time priority, as in Benchmarks/run, takes most of the noise away: chrt -f 40."""

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import coverage  # noqa: E402
import real_programs  # noqa: E402
import targets  # noqa: E402
import tools as with_tools  # noqa: E402

ACCOUNTS = ("budget", "stacks_ns")  # pages/page_time.c, whose first field is the sum; stacks/stack_time.c
WITHOUT = {"pages": "isolated_per_context=0:isolated_overhead=0%", "stacks": "stack_overhead=0%"}


def offsets(library):
    """Returns the offsets of the accounts in the library, as ZG_ACCOUNTS lists them (keep_statistics.c)."""
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout
    found = {line.split()[2]: line.split()[0] for line in listed.splitlines() if len(line.split()) == 3}
    if missing := [name for name in ACCOUNTS if name not in found]:
        sys.exit(f"accounts: error: {library} has no symbol {missing[0]}")
    return ",".join(found[name] for name in ACCOUNTS)


def charged(folder):
    """Returns the accounts in seconds, summed over the processes that were kept in the folder."""
    sums = [0] * len(ACCOUNTS)
    for path in folder.iterdir():
        kept, size = path.read_bytes(), 8 * len(ACCOUNTS)
        if len(kept) % 4096 != size:
            sys.exit("accounts: error: a process kept no accounts: the library must be named libzguard.so")
        values = struct.unpack(f"<{len(ACCOUNTS)}Q", kept[-size:])
        sums = [total + value / 1e9 for total, value in zip(sums, values)]
    return sums


def run(target, guard, size, work):
    """Runs the program with the variables `guard` in its environment, unguarded without. Returns its processor seconds and the accounts."""
    with tempfile.TemporaryDirectory(dir=work) as kept:
        variables = {**with_tools.clean_environment(), **target.environment, **guard, "ZG_KEPT": kept}
        process = subprocess.Popen([str(word) for word in target.command(work, size, "zguard" if guard else "glibc")], cwd=work, env=variables,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        target.drive(process, work, size)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"accounts: error: {target.name} ends with {process.returncode}")
        return usage.ru_utime + usage.ru_stime, charged(Path(kept))


def row(target, guard, arguments, work):
    def measure(guard, *more):
        options = {"ZGUARD_OPTIONS": ":".join(filter(None, (arguments.options, *more)))} if guard else {}
        return run(target, {**guard, **options}, arguments.size, work)
    shares = []
    for _ in range(arguments.runs):
        plain, _ = measure({})
        whole, accounts = measure(guard)
        saved = [whole - measure(guard, options)[0] for options in WITHOUT.values()]
        shares.append([100 * seconds / plain for seconds in (whole, *(value for pair in zip(accounts, saved) for value in pair))])
    whole, *others = (statistics.median(values) for values in zip(*shares))
    return f"| {target.name} | {whole / 100:.2f} | " + " | ".join(f"{value:.1f}" for value in others) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--library", type=Path, default=coverage.LIBRARY, metavar="PATH")
    parser.add_argument("--only", action="append", metavar="NAME", help="a real program of Benchmarks/run (default: all)")
    parser.add_argument("-o", "--options", default="", metavar="key=value:…")
    parser.add_argument("--size", type=float, default=0.6)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    library = arguments.library.resolve()
    guard = {"LD_PRELOAD": f"{library}:{coverage.keeper()}", "ZG_ACCOUNTS": offsets(library)}
    known = {target.name: target for target in [*real_programs.all_programs(), *targets.swift_targets()] if target.kind == "real"}
    print("| program | time | pages charged % | pages saved % | stacks charged % | stacks saved % |\n|---|---:|---:|---:|---:|---:|", flush=True)
    for name in arguments.only or known:
        target = targets.built(known, name, "accounts")
        with tempfile.TemporaryDirectory(prefix="zguard-accounts-") as work:
            target.prepare(Path(work), arguments.size)
            print(row(target, guard, arguments, Path(work)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
