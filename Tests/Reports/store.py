#!/usr/bin/env python3
"""Tests the report store, as `zguard run --report DIR/` uses it.
Writers are killed at random moments and at every single call, disks are full, directories vanish, prunes race, compressed files are
damaged.
Complete findings must still be there, and readers must name the damage. Closing line: N passed, N failed."""

import argparse
import collections
import errno
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, close, run_tests  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Reports/Store"
NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[\w.+-]{1,64}-\d+-[0-9a-f]{8}\.jsonl(\.gz)?")
CONTINUE = ["-o", "on_finding=continue", "-o", "error_text=headline", "-o", "scan_ms=0"]  # the size of a report then does not depend on the search for holders
FUNCTIONS = 32


class Work:
    """A directory for one test, and the compiled programs."""

    programs = builds.BUILD / "store"

    def __init__(self, path):
        self.path = Path(path)
        self.store = self.path / "reports"
        self.environment = scrubbed(TMPDIR=str(self.path))

    @property
    def many(self):
        return self.programs / "many"

    def run(self, *words, status=None, **variables):
        result = subprocess.run([str(ZGUARD), *map(str, words)], capture_output=True, text=True, timeout=120,
                                stdin=subprocess.DEVNULL, env={**self.environment, **variables})
        assert status is None or result.returncode == status, (words, result.returncode, result.stderr[-600:])
        assert result.returncode not in (132, 133, 134, 139, -4, -5, -6, -11), (words, result.returncode, result.stderr[-900:])
        return result

    def guarded(self, *flags, program=None, status=None, **variables):
        words = ["run", "--report", f"{self.store}/", *flags, *CONTINUE, "--", *(program or [self.many, FUNCTIONS])]
        return self.run(*words, status=status, **variables)

    def start(self, *flags, program):
        words = ["run", "--report", f"{self.store}/", *flags, *CONTINUE, "--", *program]
        return subprocess.Popen([str(ZGUARD), *map(str, words)], env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def files(self):
        """Returns the files in the store without the raw findings that runs keep beside their reports."""
        return [name for name in sorted(os.listdir(self.store)) if ".unfinished-" not in name] if self.store.exists() else []

    def kept(self):
        """Returns the files with raw findings beside reports: of active runs, and of runs whose zguard was killed."""
        return [name for name in sorted(os.listdir(self.store)) if ".unfinished-" in name] if self.store.exists() else []

    def complete(self):
        """Runs a program without findings after all killed processes are gone: zguard completes the unfinished reports."""
        for _ in range(200):
            self.guarded(program=["/bin/true"], status=0)
            if not self.kept():
                return
            time.sleep(0.02)  # killed processes may take a moment to end
        raise AssertionError(f"left beside reports: {self.kept()}")

    def report(self, *flags):
        return self.run("report", "--format", "json", *flags, self.store)


def lines_of(path):
    """Returns the parsed findings of a report, and whether a partial line follows. None if the file is deleted."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if path.name.endswith(".gz"):
        data = gzip.decompress(data)
    *lines, rest = data.split(b"\n")
    return [line for line in map(json.loads, lines) if line["schema"] == "zguard.finding/1"], bool(rest)


def signatures(path):
    found = lines_of(path)
    return {line["signature"] for line in found[0]} if found else set()


def old_report(work, name="20260101T000000.000Z-old-1-0123abcd.jsonl", age=3600, lines=1, size=0):
    """Writes a complete report of an earlier run."""
    work.store.mkdir(mode=0o700, exist_ok=True)
    finding = {"schema": "zguard.finding/1", "kind": "double-free", "access": "free", "confidence": "exact", "stacks":
               {"access": [], "free": [], "alloc": []}, "count": 1, "signature": "0" * 16, "program": "x" * size}
    path = work.store / name
    path.write_text("".join(json.dumps({**finding, "signature": f"{zlib.crc32(name.encode()):08x}{n:08x}"}) + "\n" for n in range(lines)))
    os.utime(path, (time.time() - age,) * 2)
    return path


def end(process):
    """Kills zguard and its guarded program, which have a session of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.stderr.close()


def one_file_a_run(work):
    result = work.guarded(status=99)
    assert f"{FUNCTIONS} findings" in result.stderr, result.stderr
    [name] = work.files()
    assert NAME.fullmatch(name) and "-many-" in name, name
    assert len(lines_of(work.store / name)[0]) == FUNCTIONS
    # The first finding occurs again at the end, so its count is 2.
    counts = sorted(line["count"] for line in lines_of(work.store / name)[0])
    assert counts == [1] * (FUNCTIONS - 1) + [2], counts
    work.guarded("--compress", status=99)
    assert [name.endswith(".gz") for name in work.files()].count(True) == 1, work.files()
    both = work.report()
    assert both.returncode == 0 and not both.stderr, both.stderr
    found = [json.loads(line) for line in both.stdout.splitlines()]
    assert len(found) == FUNCTIONS and sum(finding["count"] for finding in found) == 2 * (FUNCTIONS + 1)
    work.guarded("--compress", program=["/bin/true"], status=0)
    assert len(work.files()) == 2, "a run without findings left a file"
    assert [name for name in os.listdir(work.path) if name.startswith("zguard.")] == []


def killed_at_random(work, rounds, seed):
    chance = random.Random(seed)
    seen = collections.defaultdict(set)  # signatures of lines that were once complete, by run

    def look():
        for name in work.files():
            if not name.startswith("."):
                path = work.store / name
                if name.endswith(".jsonl"):
                    try:
                        seen[name.split(".jsonl")[0]] |= signatures(path)
                    except ValueError as fault:
                        raise AssertionError(f"{name} holds a line that is torn and is not the last: {fault}") from None

    # Kill each run after a random time, up to 1.5 times the time that six parallel runs take on this machine. So some runs end by
    # themselves.
    began = time.monotonic()
    first = [work.start(program=[work.many, FUNCTIONS, 4]) for _ in range(6)]
    for process in first:
        process.communicate(timeout=60)
    longest = 1.5 * (time.monotonic() - began)
    shutil.rmtree(work.store)
    done = killed = 0
    running = []
    started = 0
    while running or started < rounds:
        while started < rounds and len(running) < 6:
            started += 1
            flags = ["--compress"] if chance.random() < 0.5 else []
            process = work.start(*flags, program=[work.many, FUNCTIONS, 4])
            # One of five processes is not killed.
            running.append((process, time.monotonic() + (chance.uniform(0.02, longest) if chance.random() < 0.8 else 600)))
        look()
        for entry in list(running):
            process, moment = entry
            if process.poll() is not None:
                assert process.returncode == 99, (process.returncode, process.stderr.read())
                running.remove(entry)
                end(process)
                done += 1
            elif time.monotonic() > moment:
                os.kill(process.pid, signal.SIGKILL)
                running.remove(entry)
                end(process)
                killed += 1
        time.sleep(0.002)
    look()
    assert killed >= rounds // 10 and done >= rounds // 10, f"{killed} of {rounds} were killed, {done} ended"
    # The next run removes the files that killed runs left.
    work.complete()
    names = work.files()
    assert all(NAME.fullmatch(name) for name in names), names
    runs = collections.Counter(name.split(".jsonl")[0] for name in names)
    assert set(runs.values()) == {1}, "a run has a compressed and a plain file"
    lost = {run: lines for run, lines in seen.items()
            if lines - signatures(work.store / f"{run}.jsonl") - signatures(work.store / f"{run}.jsonl.gz")}
    assert not lost, f"lines of {len(lost)} of {len(seen)} runs are lost"
    complete = [name for name in names if len(lines_of(work.store / name)[0]) == FUNCTIONS]
    assert len(complete) >= done, f"{done} runs ended, {len(complete)} reports are complete"
    torn = sum(lines_of(work.store / name)[1] for name in names)
    result = work.report()
    assert result.returncode == 0 and len(result.stderr.splitlines()) == torn, result.stderr
    everything = {line["signature"] for line in map(json.loads, result.stdout.splitlines())}
    assert everything >= set().union(*seen.values())
    print(f"       {done} ended, {killed} killed, {torn} with half a line, {sum(map(len, seen.values()))} lines watched")


def fault(work, number, action, *flags):
    """Makes a run with one fault. Returns status, standard error, the number of complete lines, and the name of the failed call."""
    log = work.path / "log"
    log.unlink(missing_ok=True)
    words = ["run", "--report", f"{work.store}/", *flags, "-o", "on_finding=continue", "-o", "error_text=headline", "--",
             str(work.many), "3"]
    process = subprocess.Popen(
        [str(ZGUARD), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**work.environment, "LD_PRELOAD": str(work.programs / "faults.so"),
                                     "STORE_DIRECTORY": str(work.store), "STORE_LOG": str(log),
                                     "STORE_FAULT": f"{number} {action}"})
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    logged = log.read_text().splitlines() if log.exists() else []
    hit = [line for line in logged if line.startswith("fault ")]
    return process.returncode, errors, logged.count("line"), hit[0].split()[1] if hit else None


def own_lines(work):
    """Returns the signatures in the reports of the run under test; fails if a line is incomplete."""
    found = set()
    for name in work.files():
        if "-many-" in name and not name.startswith("."):
            found |= signatures(work.store / name)
    return found


def killed_at_every_call(work, action):
    calls = collections.Counter()
    number = 0
    while True:
        number += 1
        shutil.rmtree(work.store, ignore_errors=True)
        kept = old_report(work)
        gone = old_report(work, "20250101T000000.000Z-gone-1-89abcdef.jsonl", age=30 * 86400)
        before = kept.read_bytes()
        status, errors, written, call = fault(work, number, action, "--compress")
        what = f"{action} call {number}, {call}"
        assert kept.read_bytes() == before, f"{what}: an older report is not what it was"
        if status != -signal.SIGKILL:
            assert call is None or action == "half", (what, status, errors)
            if call is None:
                assert status == 99 and len(own_lines(work)) == 3 and not gone.exists(), (what, status, errors)
                break
            continue
        calls[call] += 1
        # Three functions make findings; the first function makes its finding twice, but a repeated finding has no second line.
        assert len(own_lines(work)) >= min(written, 3), f"{what}: {written} lines were written, {len(own_lines(work))} are left"
        whole = own_lines(work)
        result = work.report()
        assert result.returncode == 0, (what, result.stderr)
        assert {json.loads(line)["signature"] for line in result.stdout.splitlines()} >= whole, what
        work.complete()
        assert own_lines(work) >= whole and kept.read_bytes() == before and not gone.exists(), what
        names = work.files()
        assert all(NAME.fullmatch(name) for name in names) and len(names) <= 2, (what, names)
    assert calls["write"] >= 3 and (action == "half" or calls["renameat"] >= 3 and calls["unlinkat"] >= 2), calls
    print(f"       {sum(calls.values())} kills: {', '.join(f'{count} {name}' for name, count in sorted(calls.items()))}")


def failing_at_every_call(work, action):
    calls = collections.Counter()
    number = 0
    while True:
        number += 1
        shutil.rmtree(work.store, ignore_errors=True)
        kept = old_report(work)
        before = kept.read_bytes()
        status, errors, written, call = fault(work, number, action, "--compress")
        what = f"{action} at call {number}, {call}"
        if call is None:
            assert status == 99 and len(own_lines(work)) == 3, (what, status, errors)
            break
        calls[call] += 1
        assert kept.read_bytes() == before, f"{what}: an older report is not what it was"
        assert status in (64, 99), (what, status, errors)
        if status == 64:
            assert re.match(r"zguard: error: cannot create report '.*': \w", errors) and not own_lines(work), (what, errors)
        lost = 3 - len(own_lines(work))
        said = re.search(r"^zguard: warning: cannot (write|compress) report '", errors, re.M)
        assert status == 64 or not lost or said, f"{what}: {lost} findings are not in the report, and nobody says so: {errors}"
        shown = set(re.findall(r"^    #\d+ (twice_\d\d) ", errors, re.M))
        assert status == 64 or len(shown) >= lost, f"{what}: {lost} findings are in no report and on no screen: {errors}"
        assert "//" not in errors, errors
        assert not [name for name in work.files() if not (work.store / name).stat().st_size] or call == "unlinkat", (what, work.files())
        for name in work.files():
            if not name.startswith(".") and "-many-" in name:
                assert not lines_of(work.store / name)[1], f"{what}: half a line is left in {name}"
    print(f"       {sum(calls.values())} faults: {', '.join(f'{count} {name}' for name, count in sorted(calls.items()))}")


def directory_vanishes(work):
    process = work.start(program=[work.many, FUNCTIONS, 20])
    while not any(name.endswith(".jsonl") and lines_of(work.store / name)[0] for name in work.files()):
        assert process.poll() is None
        time.sleep(0.01)
    shutil.rmtree(work.store)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 99 and "warning: cannot write report '" in errors, errors
    assert "No such file or directory" in errors and not work.store.exists(), errors


def size_of_files_is_limited(work):
    program = [work.many, 3]
    work.guarded(program=program, status=99)
    [name] = work.files()
    finished = (work.store / name).stat().st_size
    subprocess.run([str(word) for word in program], capture_output=True, timeout=60, env={
        **work.environment, "LD_PRELOAD": str(LIBRARY),
        "ZGUARD_OPTIONS": f"on_finding=continue:report_path={work.path}/raw"})
    raw = (work.path / "raw").stat().st_size
    # The program and its runtime stay below the limit, the report with names exceeds it.
    assert raw + 500 < finished, (raw, finished)
    limit = (raw + finished) // 2
    words = ["run", "--report", f"{work.store}/", *CONTINUE, "--", *map(str, program)]
    result = subprocess.run([str(ZGUARD), *words], capture_output=True, text=True, timeout=60, env=work.environment,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert result.returncode == 99 and "warning: cannot write report '" in result.stderr, result
    assert "File too large" in result.stderr and "3 findings" in result.stderr, result.stderr
    assert all(not lines_of(work.store / name)[1] for name in work.files())


def directory_is_refused(work):
    (work.path / "file").write_text("")
    target = work.path / "elsewhere"
    target.mkdir()
    (work.path / "link").symlink_to(target)
    (work.path / "dangling").symlink_to(work.path / "nowhere")
    for path, words in [("file/", "Not a directory"), ("file/x/", "Not a directory"), ("dangling/", "")]:
        result = work.run("run", "--report", f"{work.path}/{path}", "--", "true", status=64)
        assert re.match(f"zguard: error: cannot .*{words}\n$", result.stderr), (path, result.stderr)
    work.run("run", "--report", work.path / "link", *CONTINUE, "--", work.many, 1, status=99)
    assert len(list(target.iterdir())) == 1
    result = work.run("run", "--report", "/proc/zguard-none/", "--", "true", status=64)
    assert "cannot create report directory '/proc/zguard-none'" in result.stderr, result.stderr


def racing_prunes(work):
    for number in range(40):
        old_report(work, f"20260101T000000.{number:03}Z-old-1-0123abcd.jsonl", age=1000 - number)
    # One run starts first and ends last. Meanwhile many other runs prune the store to three reports (--keep-count).
    long = work.start("--keep-count", "3", program=[work.many, FUNCTIONS, 60])
    others = []
    try:
        for _ in range(5):
            others = [work.start("--keep-count", "3", "--compress", program=[work.many, 2]) for _ in range(4)]
            for process in others:
                _, errors = process.communicate(timeout=60)
                assert process.returncode == 99 and "warning" not in errors, errors
        assert long.poll() is None, "the long run ended too early for this test"
        assert len(work.files()) == 3, work.files()
        _, errors = long.communicate(timeout=60)
        assert long.returncode == 99 and "warning" not in errors, errors
    finally:
        for process in [long, *others]:
            end(process)
    assert len(work.files()) == 3, work.files()
    lengths = sorted(len(lines_of(work.store / name)[0]) for name in work.files())
    assert lengths == [2, 2, FUNCTIONS], lengths


def retention_flags(work):
    for number in range(6):
        old_report(work, f"20260101T000000.00{number}Z-old-1-0123abcd.jsonl", age=3600 * (number + 1), size=10_000)

    def left(*flags):
        work.guarded(*flags, program=["/bin/true"], status=0)
        return len(work.files())

    assert left() == 6
    assert left("--keep-age", "none", "--keep-count", "none", "--keep-bytes", "none") == 6
    assert left("--keep-age", "330m") == 5
    assert left("--keep-bytes", "35000") == 3
    assert left("--keep-count", "2") == 2
    assert left("--keep-age", "1s") == 0
    rows = [
        (["--keep-age", "soon"], "option '--keep-age' has the bad value 'soon': expected a number with s, m, h, d or w"),
        (["--keep-count", "0"], "option '--keep-count' has the bad value '0': expected 1 to 1000000000, or none"),
        (["--keep-bytes", "1x"], "option '--keep-bytes' has the bad value '1x': expected a number of bytes"),
    ]
    for flags, words in rows:
        result = work.run("run", "--report", f"{work.store}/", *flags, "--", "true", status=64)
        assert words in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr
    for flag in [["--keep-age", "1d"], ["--keep-count", "1"], ["--keep-bytes", "1"], ["--compress"]]:
        for report in [[], ["--report", str(work.path / "one.jsonl")]]:
            result = work.run("run", *report, *flag, "--", "true", status=64)
            assert f"option '{flag[0]}' needs '--report' with a directory" in result.stderr, result.stderr


def a_share_is_kept(work):
    work.guarded(status=99)
    [file] = work.files()
    findings, _ = lines_of(work.store / file)
    assert findings and all(line["stacks"]["access"] for line in findings)
    for number in range(98):
        (work.store / f"20260101T000000.000Z-old-{number}-0123abcd.jsonl").write_bytes((work.store / file).read_bytes())
    for share, are_whole in (("0%", True), ("0%", False), ("100%", True)):
        before = set(work.files())
        work.guarded("--keep-share", share, status=99)
        [new] = set(work.files()) - before
        lines, _ = lines_of(work.store / new)
        assert {line["signature"] for line in lines} == {line["signature"] for line in findings}
        assert all(bool(line.get("stacks", {}).get("access")) == are_whole for line in lines), share
    shown = [json.loads(line) for line in work.report().stdout.splitlines()]
    assert all(line["stacks"]["access"] for line in shown)
    counts = [{line["signature"]: line["count"] * factor for line in lines} for lines, factor in ((shown, 1), (findings, 102))]
    assert counts[0] == counts[1], counts
    for share in ("10", "-1%", "101%"):
        assert "expected 0% to 100%" in work.guarded(f"--keep-share={share}", status=64).stderr
    assert "needs '--report' with a directory" in work.run("run", "--keep-share", "10%", "--", "true", status=64).stderr


def since(work):
    for name, age in [("20260101T000000.000Z-a-1-1123abcd.jsonl", 7200), ("20260101T000000.000Z-b-1-2123abcd.jsonl", 1800)]:
        old_report(work, name, age=age)

    def count(*flags):
        return len(work.report(*flags).stdout.splitlines())

    hour_ago = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 3600))
    assert (count(), count("--since", "3h"), count("--since", "1h"), count("--since", "1s")) == (2, 2, 1, 0)
    assert count("--since", hour_ago) == 1 and count("--since", "2026-01-01") == 2
    result = work.run("report", "--since", "last tuesday\x1b[31m", work.store, status=64)
    assert "option '--since' has the bad value 'last tuesday\\u{1b}[31m': expected an age such as 2d" in result.stderr


def raw_reports_of_the_runtime(work):
    work.store.mkdir()
    process = subprocess.run([work.many, "4"], capture_output=True, text=True, timeout=60, env={
        **work.environment, "LD_PRELOAD": str(LIBRARY),
        "ZGUARD_OPTIONS": f"on_finding=continue:report_path={work.store}/%p.jsonl"})
    [name] = work.files()
    assert re.fullmatch(r"\d+\.jsonl", name), (name, process.stderr)
    os.utime(work.store / name, (0, 0))
    work.guarded("--keep-age", "1s", "--keep-count", "1", "--keep-bytes", "1", program=[work.many, 1], status=99)
    assert name in work.files(), "a file that the store did not name was removed"
    result = work.report()
    functions = {frame["function"] for line in result.stdout.splitlines() for frame in json.loads(line)["stacks"]["access"]
                 if "twice_" in frame.get("function", "")}
    assert result.returncode == 0 and len(functions) == 4, (functions, result.stderr)


def damaged_reports(work):
    work.guarded("--compress", status=99)
    [name] = work.files()
    whole = (work.store / name).read_bytes()
    copy = work.store / "copy.jsonl.gz"
    for data, words in [(whole[:-200], "its compressed data is cut off"),
                        (whole[:1000] + b"\xff" * 50 + whole[1050:], "its compressed data is damaged"),
                        (whole[:1], "is skipped: "), (b"", ""), (whole + b"garbage", "its compressed data is damaged")]:
        copy.write_bytes(data)
        result = work.report()
        found = len(result.stdout.splitlines())
        assert result.returncode == 0 and found == FUNCTIONS and words in result.stderr, (words, result)
    copy.unlink()
    (work.store / "20260101T000000.000Z-x-1-0123abcd.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(work.store / "pipe.jsonl")
    (work.store / "folder.jsonl").mkdir()
    (work.store / "odd\n\x1b[31mname.jsonl").write_text("garbage\n")
    (work.store / os.fsdecode(b"\xff\xfe.jsonl")).write_text("garbage\n")
    result = work.report()
    assert result.returncode == 0 and len(result.stdout.splitlines()) == FUNCTIONS, result
    assert "\x1b" not in result.stderr and "root:" not in result.stderr, result.stderr


def bomb(work):
    work.store.mkdir()
    line = json.dumps(json.loads(old_report(work).read_text())).encode() + b"\n"
    with open(work.store / "bomb.jsonl.gz", "wb") as file:
        file.write(gzip.compress(line))
        member = gzip.compress(bytes(64 << 20))
        for _ in range(17):
            file.write(member)
    process = subprocess.Popen([ZGUARD, "report", "--format", "json", work.store], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    output, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0 and len(output.splitlines()) == 1, (process.returncode, errors)
    assert "was read only in part: it holds more than 1073741824 bytes, and no more are read" in errors, errors
    assert usage.ru_maxrss < 100_000, f"{usage.ru_maxrss} KiB of memory"


def build():
    for output, flags, source in [("many", ["-O1", "-g", "-w"], "many.c"),
                                  ("faults.so", ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"], "faults.c")]:
        target = Work.programs / output
        builds.compiled(target, ["gcc", *flags, "-o", target, SOURCES / source, "-ldl"], [SOURCES / source])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="runs that may be killed at random (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments")
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    add_slice_option(parser)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 32)
    tests = [(test.__name__, test) for test in (one_file_a_run, retention_flags, a_share_is_kept, since, raw_reports_of_the_runtime,
                                                directory_vanishes, size_of_files_is_limited, directory_is_refused, racing_prunes, damaged_reports, bomb)]
    tests += [(f"killed at random, seed {seed}", lambda work: killed_at_random(work, arguments.rounds, seed))]
    tests += [(f"killed {action} every call", lambda work, action=action: killed_at_every_call(work, action))
              for action in ("before", "after", "half")]
    tests += [(f"every call fails: {name}", lambda work, action=action: failing_at_every_call(work, action))
              for name, action in [("no space", str(errno.ENOSPC)), ("disk full half way", "short"), ("read-only", str(errno.EROFS)),
                                   ("no locks", str(errno.ENOLCK))]]
    try:
        build()
    except Failed as failure:
        print(f"FAILED {failure}")
        return close(0, 1)
    return run_tests(tests, "zguard-store-", arguments.filter, Work, shows_passed=True, part=arguments.slice, kinds=lambda name: (name.split()[0],))


if __name__ == "__main__":
    sys.exit(main())
