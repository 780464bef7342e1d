#!/usr/bin/env python3
"""Compares every stack that the runtime captures on another processor with libunwind's stack there.

Runs lua, perl and sqlite3 from Debian's packages under qemu's user mode. captures.py explains the counts.

usage: Tests/Runtime/captures_elsewhere.py --arch ARCH [--most COMPARISONS]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Benchmarks"))

from Support import builds, compatibility, emulation, processors, roots  # noqa: E402
from Support.checks import close, run_within  # noqa: E402
from Support.environment import ARCH, scrubbed  # noqa: E402

SECONDS = 3600
ROUND = 100_000  # approximate number of comparisons in one run of a program

# Each program allocates and frees many blocks from many call sites, in `n` rounds.
PROGRAMS = {
    "lua5.4": lambda n: (["-e", f"for r = 1, {n} do local t = {{}} for i = 1, 1500 do t[i] = {{tostring(i * r), {{i}}}} end "
                          "table.sort(t, function(a, b) return a[1] < b[1] end) string.rep('x', r):gsub('x', 'yy') end"], ""),
    "perl": lambda n: (["-e", f"for my $r (1..{n}) {{ my %h; for my $i (1..700) {{ push @{{$h{{$i % 97}}}}, qq(x$i) x 3; "
                        "$h{qq(k$i)} = {a => $i, b => [1, 2, $i]} } my $s = join q(,), sort keys %h; $s =~ s/(\\d+)/<$1>/g }"], ""),
    "sqlite3": lambda n: ([":memory:"], "create table t(a integer primary key, b text, c real);" + "".join(
        f"insert into t(b, c) values (printf('row %d', {i} * 7919), {i} * 1.5); select b, count(*) from t group by substr(b, 1, 6) limit 3;"
        f"update t set c = c + 1 where a % 3 = {i} % 3;" for i in range(n * 60))),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", required=True, choices=list(processors.DEBIAN))
    parser.add_argument("--most", type=int, default=1_200_000, metavar="COMPARISONS", help="of all programs together (default: 1,200,000)")
    arguments = parser.parse_args()
    debian = processors.DEBIAN[arguments.arch]
    try:
        root = os.environ.get("ZG_SYSROOT") or str(roots.make(processors.SUITE, processors.LIBRARY_PACKAGES, processor=debian).path)
        if ARCH != arguments.arch or "ZG_SYSROOT" not in os.environ:
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "ZG_TEST_ARCH": arguments.arch, "ZG_SYSROOT": root})
        inside = emulation.entering(debian)
    except emulation.Unavailable as reason:
        print(f"skipped: programs of {arguments.arch}: {reason}")
        return close(0, 0, 1)
    import captures  # reads the observer's tables when imported
    library, passed, problems = builds.library("captures"), 0, []
    for name, work in PROGRAMS.items():
        folder = Path(tempfile.mkdtemp(prefix="captures-", dir=builds.BUILD))
        sums, rounds = captures.Sums(), 2
        while sums.of("compared") < arguments.most / len(PROGRAMS):
            words, text = work(rounds)
            variables = {"ZG_CAPTURES": folder, "ZG_CAPTURES_MODE": "compare", "ZGUARD_OPTIONS": "stack_bytes=4g:stack_overhead=100%",
                         "LD_PRELOAD": library, "LD_LIBRARY_PATH": f"{root}/usr/lib/{arguments.arch}-linux-gnu"}
            (folder / "input").write_text(text)
            with open(folder / "input") as given:
                code, _, err = run_within(SECONDS, [*inside, "env", *(f"{key}={value}" for key, value in variables.items()),
                                                    f"{root}/usr/bin/{name}", *words], stdin=given, stdout=subprocess.DEVNULL,
                                          env=scrubbed(QEMU_LD_PREFIX=root, PERL5LIB=f"{root}/usr/lib/{arguments.arch}-linux-gnu/perl-base"))
            if code:
                problems.append(f"{name}: exit status {code}: {err.strip()[-300:]}")
                break
            before = sums.of("compared")
            sums = captures.Sums()
            sums.add_folder(folder)
            made = sums.of("compared") - before
            rounds = max(1, min(rounds * 20, round(rounds * ROUND / max(1, made))))
            if not made:
                problems.append(f"{name}: nothing was compared")
                break
        print(f"{name}: {sums.of('compared')} compared, {sums.of('equal')} equal, {sums.of('equal_to_cursor')} by cursor, "
              + ", ".join(f"{sums.of(verdict)} {verdict}" for verdict in captures.VERDICTS[2:]), flush=True)
        passed += sums.agreed()
        if others := sums.of("compared") - sums.agreed():
            problems.append(f"{name}: {others} answers are not libunwind's, see {folder}")
        else:
            shutil.rmtree(folder)
    for problem in problems:
        print(f"FAIL  {problem}")
    compatibility.record("captures", "captured stacks that are libunwind's too", passed, len(problems), architecture=arguments.arch, root=root,
                         emulator=processors.emulator(arguments.arch))
    return close(passed, len(problems))


if __name__ == "__main__":
    sys.exit(main())
