#!/usr/bin/env python3
"""Tests that planted files, environments and reports cannot make the library or zguard do harm.
Tested are files at a report's path, the environment of privileged programs, hostile reports, core files and statistics, how the library
and zguard are linked, and which system calls the library makes. Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import processes  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402

NOBODY = 65534
DEADLINE_SECONDS = 60
ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"


class Work:
    programs = None

    def __init__(self, path):
        self.path = Path(path)
        self.path.chmod(0o755)
        self.environment = scrubbed()

    def guarded(self, options, *words, **more):
        return subprocess.run([self.programs / "twice", *words], capture_output=True, text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
                              env={**self.environment, "LD_PRELOAD": str(LIBRARY), "ZGUARD_OPTIONS": f"on_finding=continue:{options}"}, **more)

    def waiting(self, options, program=None):
        """Starts a process that frees its block once, prints the block's address, and waits."""
        return subprocess.Popen([program or self.programs / "twice", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**self.environment, "LD_PRELOAD": str(LIBRARY), "ZGUARD_OPTIONS": options})

    def zguard(self, *words, trace=None):
        command = ["strace", "-f", "-qq", "-o", trace] if trace else []
        return subprocess.run([*command, ZGUARD, *words], capture_output=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
                              env=self.environment)


def is_refused(work, path, options=None):
    """The library does not write to the path; the program continues, and standard error has the finding and the reason."""
    result = work.guarded(options or f"report_path={path}")
    assert result.returncode == 0, result
    assert f"warning: cannot open report '{path}'" in result.stderr and "double-free" in result.stderr, result.stderr


def reports_are_private(work):
    before = os.umask(0)
    try:
        result = work.guarded(f"report_path={work.path}/report-%p.jsonl")
    finally:
        os.umask(before)
    [report] = work.path.glob("report-*.jsonl")
    assert result.returncode == 0 and stat.S_IMODE(report.stat().st_mode) == 0o600, oct(report.stat().st_mode)
    assert json.loads(report.read_text())["kind"] == "double-free"


def planted_links(work):
    target = work.path / "target"
    target.write_text("kept")
    (work.path / "link").symlink_to(target)
    (work.path / "dangling").symlink_to(work.path / "new")
    os.link(target, work.path / "hard")
    (work.path / "directory").mkdir()
    for name in ("link", "dangling", "hard", "directory"):
        is_refused(work, work.path / name)
    assert target.read_text() == "kept" and not (work.path / "new").exists()
    # A report path that contains the process id is checked like any other path.
    process = work.waiting(f"on_finding=continue:report_path={work.path}/%p")
    report = work.path / str(process.pid)
    end = time.monotonic() + DEADLINE_SECONDS
    while not report.exists() and time.monotonic() < end:
        time.sleep(0.002)
    # The report file opened at the start stays in use; a file that replaces it is not written to.
    report.rename(work.path / "moved")
    report.symlink_to(target)
    errors = process.communicate(timeout=DEADLINE_SECONDS)[1].decode()
    assert process.returncode == 0 and target.read_text() == "kept" and "double-free" in (work.path / "moved").read_text(), errors


def planted_pipes(work):
    pipe = work.path / "pipe"
    os.mkfifo(pipe)
    is_refused(work, pipe)  # without a reader, open would block for ever
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    work.guarded(f"report_path={pipe}")
    assert json.loads(os.read(reader, 1 << 16))["kind"] == "double-free", "a pipe that somebody reads is a report"
    os.close(reader)


def planted_files(work):
    """The library refuses another user's file in a world-writable directory as a report."""
    directory = work.path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    planted = directory / "report"
    planted.write_text("")
    planted.chmod(0o666)
    os.chown(planted, NOBODY, NOBODY)
    is_refused(work, planted)
    assert planted.read_text() == ""
    os.chown(planted, 0, 0)
    work.guarded(f"report_path={planted}")
    assert "double-free" in planted.read_text()


def privileged_programs(work):
    """In privileged programs linked with the library (the loader ignores LD_PRELOAD there), the library ignores ZGUARD_OPTIONS."""
    for name in ("plain", "setuid", "capable"):
        subprocess.run(["gcc", "-O0", "-w", "-fno-builtin", TESTS / "Robustness/Security/twice.c", LIBRARY, f"-Wl,-rpath,{work.path}", "-Wl,--no-as-needed",
                        "-o", work.path / name], check=True, timeout=DEADLINE_SECONDS)
    shutil.copy(LIBRARY, work.path / "libzguard.so")
    (work.path / "libzguard.so").chmod(0o755)
    (work.path / "setuid").chmod(0o4755)
    subprocess.run(["setcap", "cap_net_raw+ep", work.path / "capable"], check=True, timeout=DEADLINE_SECONDS)
    shared = work.path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for name in ("plain", "setuid", "capable"):
        report = shared / name
        result = subprocess.run([work.path / name], capture_output=True, text=True, timeout=DEADLINE_SECONDS, user=NOBODY, group=NOBODY, extra_groups=[],
                                env={"ZGUARD_OPTIONS": f"on_finding=continue:report_path={report}", "LC_ALL": "C"})
        if name == "plain":
            assert result.returncode == 0 and report.exists() and "double-free" in report.read_text(), result
        else:
            # Guarded with default options: the finding is on standard error, and ends the program.
            assert result.returncode == -6 and not report.exists() and "double-free" in result.stderr, (name, result)
        bad = subprocess.run([work.path / name], capture_output=True, text=True, timeout=DEADLINE_SECONDS, user=NOBODY, group=NOBODY, extra_groups=[],
                             env={"ZGUARD_OPTIONS": "on_finding=nonsense"})
        assert (bad.returncode == 64) == (name == "plain"), (name, bad)


def does_nothing(trace, pipe):
    """Checks in the trace that zguard started no process, wrote to no file, opened no connection, and did not wait for a pipe."""
    calls = trace.read_text(errors="replace").splitlines()
    assert any("openat(" in call for call in calls), "nothing was traced"
    started = [call for call in calls if "execve(" in call]
    assert len(started) == 1, started
    harm = [call for call in calls if re.search(r"\b(connect|bind|sendto|fork|vfork|unlink(at)?|rename(at2?)?|mkdir(at)?|truncate|chmod|ptrace)\(", call)
            or re.search(r"open(at)?\(.*O_(WRONLY|RDWR|CREAT|TRUNC)", call)]
    assert not harm, (trace.name, harm)
    # A pipe or device must be opened without waiting.
    opened = [call for call in calls if str(pipe) in call and "openat(" in call]
    assert all("O_NONBLOCK" in call for call in opened), opened


def hostile_report(work):
    """A report with hostile paths and names."""
    pipe, device = work.path / "module.so", "/dev/zero"
    os.mkfifo(pipe)
    source = work.path / "pipe.c"
    os.mkfifo(source)
    secret = work.path / "secret.key"
    secret.write_text("SECRET\n" * 9)
    # The debug link leads to a device instead of a file with debug information.
    program = work.path / "linked"
    shutil.copy(Work.programs / "twice", program)
    link = work.path / "link.bin"
    link.write_bytes(b"../../../../dev/zero\0\0\0\0" + bytes(4))
    subprocess.run(["objcopy", f"--add-section=.gnu_debuglink={link}", program], check=True, timeout=DEADLINE_SECONDS)
    modules = [str(pipe), device, "/proc/self/mem", "/proc/self/fd/0", "/dev/tty", "../../../etc/passwd", str(work.path), str(program),
               f"/tmp/{ESCAPE}.so", "/" + "x" * 5000]
    files = [str(source), str(secret), "/etc/shadow", "/etc/passwd", "/proc/self/environ", "/dev/zero", f"{work.path}/../{work.path.name}/secret.key",
             f"/tmp/{ESCAPE}.c", "/proc/self/fd/0.c"]
    frames = [{"pc": "0x1", "module": module, "build_id": "../../../../tmp/x", "offset": "0x1"} for module in modules]
    frames += [{"pc": "0x1", "module": modules[0], "offset": "0x1", "function": ESCAPE, "file": file, "line": 1, "column": 1} for file in files]
    finding = {"schema": "zguard.finding/1", "kind": "use-after-free", "access": "read", "confidence": "exact", "address": "0x10",
               "block": {"start": "0x10", "size": 48, "offset": 0, "state": "quarantined", "language": "swift", "class": ESCAPE, "member": ESCAPE},
               "thread": {"id": 1, "name": ESCAPE}, "stacks": {"access": frames, "free": frames, "alloc": frames}, "detail": {"what": ESCAPE},
               "count": 1, "pid": 1, "program": f"/tmp/{ESCAPE}", "time": ESCAPE, "signature": ""}
    report = work.path / "hostile.jsonl"
    report.write_text(json.dumps(finding) + "\n" + json.dumps({**finding, "schema": ESCAPE}) + "\n")
    for form in ("text", "json", "sarif", "html"):
        trace = work.path / f"trace-{form}"
        result = work.zguard("report", "--format", form, report, trace=trace)
        shown = result.stdout + result.stderr
        assert result.returncode == 0, (form, result.stderr[-500:])
        for bad in (b"\x1b", b"\x07", "\u202e".encode(), b"SECRET", b"root:"):
            assert bad not in shown, (form, bad, shown[max(0, shown.index(bad) - 60):][:200])
        does_nothing(trace, pipe)


def hostile_core(work):
    """A core file whose paths of program, library and libc were replaced by chosen ones."""
    program = work.path / "a program with a name that is long enough for all those paths that stand in its place"
    shutil.copy(Work.programs / "twice", program)
    process = work.waiting("isolated_per_context=0", program)
    try:
        address = process.stdout.readline().decode().strip()
        written = subprocess.run(["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", f"generate-core-file {work.path}/core"], capture_output=True,
                                 text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL, env=work.environment)
        mapped = {line.split(None, 5)[5] for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines() if " r-xp " in line and "/" in line}
    finally:
        process.kill()
        process.communicate()
    core = work.path / "core"
    assert core.exists(), written.stdout + written.stderr
    whole = core.read_bytes()
    [libc] = [path for path in mapped if "libc.so" in path]
    first = work.zguard("history", core, address)
    assert first.returncode == 0 and b"40" in first.stdout, first
    pipe = work.path / "p"
    os.mkfifo(pipe)
    secret = work.path / "s"
    secret.write_text("SECRET\n" * 9)
    secret.chmod(0)
    answered = 0
    for victim in (str(program), str(LIBRARY), libc):
        assert victim.encode() in whole, victim
        for number, planted in enumerate((str(pipe), "/dev/zero", "/dev/tty", "/proc/self/mem", "/proc/self/fd/0", str(secret), "../../etc/passwd", f"/{ESCAPE}", "")):
            bad = planted.encode()
            if len(bad) > len(victim):
                continue
            core.write_bytes(whole.replace(victim.encode(), bad + bytes(len(victim) - len(bad))))
            for form in ("text", "json"):
                trace = work.path / f"trace-{number}-{form}"
                result = work.zguard("history", "--format", form, core, address, trace=trace)
                shown = result.stdout + result.stderr
                assert result.returncode in (0, 1) and shown, (victim, planted, result)
                answered += result.returncode == 0
                for word in (b"\x1b", b"\x07", "\u202e".encode(), b"SECRET", b"root:"):
                    assert word not in shown, (victim, planted, shown)
                does_nothing(trace, pipe)
    assert answered > 10, f"only {answered} answers"


def hostile_statistics(work):
    """A process may write anything into its own statistics page."""
    process = work.waiting("sample_seed=7")
    try:
        page = None
        end = time.monotonic() + DEADLINE_SECONDS
        while not page and time.monotonic() < end:
            page = next((entry for entry, target in processes.descriptors(process.pid).items() if "memfd:zguard-stats" in target), None)
            time.sleep(0.01)
        assert page and stat.S_IMODE(os.stat(page).st_mode) == 0o600, "the page is for its owner alone"
        time.sleep(0.2)
        name = str(Work.programs / "twice").encode()
        with open(page, "r+b") as file:
            data = file.read()
            for text in (name, b"sample_seed=7"):
                assert text in data
                hostile = ("/" + ESCAPE).encode()[:len(text)]
                data = data.replace(text, hostile + text[len(hostile):])
            file.seek(0)
            file.write(data)
        for words in (["stats", str(process.pid)], ["stats"], ["stats", "--json", str(process.pid)], ["stats", "--prometheus", str(process.pid)]):
            result = work.zguard(*words)
            assert result.returncode == 0 and b"owned" in result.stdout, (words, result)
            assert b"\x1b" not in result.stdout + result.stderr and b"\x07" not in result.stdout, (words, result.stdout)
        # Invalid addresses and sizes; the bytes may also form another page version, which zguard rejects.
        for number in range(12):
            with open(page, "r+b") as file:
                file.seek(24)
                file.write(bytes([255 - number * 20]) * (len(data) - 24))
            for command in ("stats", "check", "history"):
                words = [command, str(process.pid)] + (["0x1000"] if command == "history" else [])
                result = work.zguard(*words)
                assert 0 <= result.returncode < 128 and b"\x1b" not in result.stdout + result.stderr, (words, result)
            with open(page, "r+b") as file:
                file.write(data)
    finally:
        process.kill()
        process.wait()


def listed_calls():
    """Returns the system calls that docs/SYSTEM-CALLS.md lists, by the first cell of each row."""
    rows = re.findall(r"^\| ([^|`]+) \|(.*)", (TESTS.parent / "docs/SYSTEM-CALLS.md").read_text(), re.M)
    return {when: set(re.findall(r"`([a-z_0-9]+)`", calls)) for when, calls in rows}


def traced_calls(work, options, *words):
    """Returns two sets of system calls of the first process: those before its first getppid, and those between its two getppid calls."""
    trace = work.path / "trace"
    environment = [] if options is None else ["-E", f"LD_PRELOAD={LIBRARY}", "-E", f"ZGUARD_OPTIONS={options}"]
    subprocess.run(["strace", "-f", "-qq", "-o", trace, *environment, work.programs / "heavy", *words], check=True, timeout=DEADLINE_SECONDS,
                   env=work.environment, stdin=subprocess.DEVNULL)
    lines = [line.split(None, 1) for line in trace.read_text().splitlines()]
    calls = [match.group(1) for process, line in lines if process == lines[0][0] and (match := re.match(r"([a-z_0-9]+)\(", line))]
    last = len(calls) - 1 - calls[::-1].index("getppid")
    first = calls.index("getppid")
    return set(calls[:first]), set(calls[first + 1:last])


def calls_as_listed(work):
    """The library makes only system calls that docs/SYSTEM-CALLS.md lists: at the start, and while a program only allocates."""
    listed = listed_calls()
    plain, of_libc = traced_calls(work, None)
    for options in ("", "profile=fence", "profile=sample", "overhead=5%", "pressure_thread_bytes=1m:isolated_overhead=100%"):
        for words in ((), ("threads",)):
            start, running = traced_calls(work, options, *words)
            # libc creates the memory pressure thread; the program makes the other threads and the child.
            by_libc = of_libc | {"clone3", "clone", "rt_sigprocmask", "rt_sigaction"}
            unknown = running - listed["Running"] - listed["Short memory"] - by_libc
            assert not unknown, f"while it runs, {options} {words}: {unknown}"
            if not words:
                unknown = start - plain - listed["Start"] - {"getrandom"}  # libc's malloc calls getrandom
                assert not unknown, f"at its start, {options}: {unknown}"


def linked_safely(work):
    def read(flag, file):
        return subprocess.run(["readelf", "-W", flag, file], capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS).stdout

    for file in (LIBRARY, ZGUARD):
        dynamic, segments = read("-d", file), read("-l", file)
        assert "DYN" in read("-h", file), f"{file.name} does not lie at random addresses"
        assert "GNU_RELRO" in segments, f"{file.name}: no RELRO"
        assert re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic), f"{file.name}: its tables of functions stay writable"
        assert re.search(r"GNU_STACK\s.*\sRW\s", segments), f"{file.name}: executable stack"
        assert not re.search(r"^\s+\S+\s+(0x\S+\s+){5}RWE", segments, re.M), f"{file.name}: writable code"
        assert "TEXTREL" not in dynamic, f"{file.name}: code is changed at the start"
        assert not re.search(r"\((RUNPATH|RPATH)\)", dynamic), f"{file.name}: {re.findall('runpath.*', dynamic)}"
    assert re.search(r"FLAGS_1.*\bPIE\b", read("-d", ZGUARD)), "zguard is no PIE"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    arguments = parser.parse_args()
    if os.getuid() != 0:
        sys.exit("security.py: error: files of other users and setuid programs need root")
    with tempfile.TemporaryDirectory(prefix="zguard-security-") as folder:
        Work.programs = Path(folder)
        Work.programs.chmod(0o755)
        subprocess.run(["gcc", "-O0", "-g", "-w", "-fno-builtin", "-o", Work.programs / "twice", TESTS / "Robustness/Security/twice.c"], check=True, timeout=DEADLINE_SECONDS)
        subprocess.run(["gcc", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-o", Work.programs / "heavy",
                        TESTS / "Robustness/Security/heavy.c", "-pthread"], check=True, timeout=DEADLINE_SECONDS)
        tests = [(test.__name__, test) for test in (reports_are_private, planted_links, planted_pipes, planted_files, privileged_programs, hostile_report,
                                                    hostile_core, hostile_statistics, calls_as_listed, linked_safely)]
        return run_tests(tests, "zguard-security-", arguments.filter, Work, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
