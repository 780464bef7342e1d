#!/usr/bin/env python3
"""Tests `zguard report` with huge, damaged and invalid reports: it names the error, shows the rest, and uses little memory.

With --long the huge reports have 1 GiB each, otherwise 48 MiB.
Closing line: N passed, N failed."""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import ZGUARD  # noqa: E402

MOST_MEMORY_KIB = 300 << 10
TIMEOUT_SECONDS = 600


def frame(number):
    return {"pc": hex(0x7f0000000000 + number), "module": f"/nowhere/libsomething-{number % 7}.so.6",
            "build_id": "6196744a316dbd57c0fd8968df1680aac482cec8", "offset": hex(number)}


def finding(seed, process=1, frames=24):
    numbers = random.Random(seed)
    stacks = {name: [frame(numbers.randrange(1 << 28)) for _ in range(frames)] for name in ("access", "free", "alloc")}
    return {"schema": "zguard.finding/1", "kind": "use-after-free", "access": "read", "address": "0x7f10",
            "block": {"start": "0x7f00", "size": 48, "offset": 16, "state": "quarantined"}, "stacks": stacks, "count": 1,
            "pid": process, "program": "/bin/x", "time": "2026-01-02T03:04:05.678Z", "signature": ""}


def line(*arguments, **keywords):
    return json.dumps(finding(*arguments, **keywords), separators=(",", ":")) + "\n"


class Run(Checks):
    def report(self, name, paths, last=None, says=(), status=0, findings=None):
        """Runs `zguard report`; checks the end of its output, its standard error, and its memory."""
        command = [str(ZGUARD), "report", *map(str, paths)]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
            _, code, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
            output.seek(0)
            errors.seek(0)
            text = output.read().decode()
            error = errors.read().decode()
        problems = []
        if process.returncode != status:
            problems.append(f"status {process.returncode}, not {status}: {error[-300:]}")
        lines = text.splitlines()
        if last is not None and (not lines or lines[-1] != "==zguard== " + last):
            problems.append(f"ends with {lines[-1:]}, not {last!r}")
        problems += [f"does not say {part!r}: {error[:500]}" for part in says if part not in error]
        shown = sum(text.startswith("==zguard== use-after-free: ") for text in lines)
        if findings is not None and shown != findings:
            problems.append(f"{shown} findings are shown, not {findings}")
        if usage.ru_maxrss > MOST_MEMORY_KIB:
            problems.append(f"took {usage.ru_maxrss >> 10} MiB")
        if any(character in error for character in "\x1b\x00\x07"):
            problems.append("prints control characters")
        self.check(name, problems)
        return usage


def huge(run, place, size):
    path = place / "huge"
    lines = [line(seed) for seed in range(50)]
    count = 0
    with path.open("w") as file:
        while file.tell() < size:
            file.writelines(lines)
            count += 50
    usage = run.report("equal findings", [path], f"50 findings (50 use-after-free, seen {count} times)", findings=50)
    print(f"equal findings: {size >> 20} MiB in {usage.ru_utime:.1f} s, {usage.ru_maxrss >> 10} MiB")

    parts = line("SEED").split("0x7f")
    count = 0
    with path.open("w") as file:
        while file.tell() < size:
            file.write((f"0x7f{count:08x}".join([parts[0], *parts[1:3]]) + "0x7f" + "0x7f".join(parts[3:]))
                       .replace('"offset":"0x', f'"offset":"0x{count:x}'))
            count += 1
    rest = count - 10_000
    last = (f"10000 findings (10000 use-after-free, {rest} of further bugs counted but not stored, seen {count} times)" if rest > 0
            else f"{count} findings ({count} use-after-free)")
    usage = run.report("different findings", [path], last, findings=min(count, 10_000))
    print(f"different findings: {size >> 20} MiB in {usage.ru_utime:.1f} s, {usage.ru_maxrss >> 10} MiB")

    # A few lines of maximum length, each with unique names.
    with path.open("w") as file:
        for number in range(size >> 22):
            one = finding(number, frames=1)
            one["stacks"]["free"] = [{"pc": hex(index), "function": f"{number} {index} " + "x" * 1000} for index in range(3800)]
            file.write(json.dumps(one) + "\n")
    run.report("long lines", [path])
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(b"[" * (1 << 20))
        file.write(b"\n" + lines[0].encode())
    run.report("a line without end", [path], "1 finding (1 use-after-free)", ["line 1 is skipped: longer than "], findings=1)
    path.unlink()


def broken(run, place):
    whole = line(1)
    path = place / "report"
    for length in range(1, len(whole), 997):
        path.write_text(whole + line(2)[:length])
        run.report(f"cut off after {length} bytes", [path], "1 finding (1 use-after-free)", ["line 2 is skipped: cut off"],
                   findings=1)
        path.write_text(whole[:length] + "\n" + whole)
        run.report(f"a line of {length} bytes before", [path], "1 finding (1 use-after-free)", ["line 1 is skipped: "], findings=1)
    path.write_text(whole[:len(whole) // 2])
    run.report("nothing but a beginning", [path], "no findings", ["line 1 is skipped: cut off"])
    path.write_text("\n".join(["garbage\x1b[2J", whole.strip(), '{"schema":"zguard.finding/9"}', "\x07" * 5, "[]", "{}", "1", "2"]))
    run.report("garbage", [path], "1 finding (1 use-after-free)", [
        "line 1 is skipped: not a finding", "line 3 is skipped: schema 'zguard.finding/9' is not known to this version of zguard",
        "line 6 is skipped: no schema", "2 more lines are skipped"], findings=1)
    run.report("a program", ["/bin/ls"], None, ["'/bin/ls' is not a core file: it is an executable or a library"], status=1)
    path.write_bytes(b"\x89PNG\x00\x01" * 50)
    run.report("a picture", [path], None, ["line 1 is skipped: it contains a NUL byte", "holds no finding that this version can read"], status=1)
    path.write_bytes(b"\xff\xfe" + whole.encode("utf-16-le"))
    run.report("UTF-16", [path], None, ["line 1 is skipped: UTF-16; reports must be UTF-8"], status=1)
    path.write_bytes(b"\xef\xbb\xbf" + whole.replace("\n", "\r\n").encode() * 2)
    run.report("other line ends", [path], "1 finding (1 use-after-free, seen 2 times)", findings=1)
    path.write_text(whole.replace('"count":1', '"count":9223372036854775807') * 2)
    run.report("counts beyond all numbers", [path], "1 finding (1 use-after-free, seen 9223372036854775807 times)", findings=1)
    empty = place / "empty"
    empty.mkdir()
    run.report("an empty directory", [empty], "no findings")
    run.report("nothing", [place / "none"], None, [f"cannot read report '{place}/none': No such file"], status=1)
    path.write_text("")
    run.report("an empty file", [path], "no findings")


def merged(run, place):
    paths = []
    for machine in range(5):
        paths.append(place / f"machine-{machine}")
        paths[-1].write_text("".join(line(seed, process=machine * 100 + seed) for seed in range(machine, 10)))
    run.report("many files", paths, "10 findings (10 use-after-free, seen 40 times)", findings=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run = Run()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        broken(run, place)
        merged(run, place)
        huge(run, place, (1 << 30) if arguments.long else 48 << 20)
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
