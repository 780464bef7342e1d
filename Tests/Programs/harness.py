"""Runs the commands of one case, plain or guarded, and records everything that is visible from outside.

Every command of every case is checked for three properties:
- the guarded run matches the plain one: exit status, standard output, standard error, files;
- the report is empty; a run with only known defects of the program (known.supp) is repeated;
- the program really was guarded: /proc/PID/maps of the running process and of all descendants shows it, so that no case
  passes because the guard was not loaded.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from Support.ports import Ports
from Support.processes import (descendants, holders, kill_session, logs_below, processor_seconds, running_in, said, session_members, stacks,
                               wait_without_reaping)

INPUTS = Path(__file__).resolve().parent / "inputs"
STEP_TIMEOUT = 600.0
READY_TIMEOUT = 120.0
KNOWN_DEFECTS = Path(__file__).resolve().parent / "known.supp"


class CaseError(Exception):
    """The case cannot go on: a command timed out, could not be started, or failed even without the guard."""


class Explained(CaseError):
    """An error whose text already describes what the programs were doing."""


class Guard:
    """How a command is guarded: by `zguard run`, or, for comparison, by another preloaded allocator."""

    def __init__(self, zguard=None, preload=None, options=()):
        self.options = options
        self.zguard = Path(zguard).resolve() if zguard else None
        self.preload = Path(preload).resolve() if preload else None
        # Names that the memory map of a guarded process must contain: of the library, and of the page that the library maps when it runs.
        self.marks = (self.preload.name,) if preload else ("libzguard.so", "zguard-stats")

    def prefix(self, report, flags=()):
        if self.preload:
            return []
        return [str(self.zguard), "run", "--quiet", "--report", str(report), "--format", "json", *self.options, *flags, "--"]

    def environment(self):
        return {"LD_PRELOAD": str(self.preload)} if self.preload else {}

    def is_own(self, executable):
        return self.zguard is not None and executable == str(self.zguard)


class Watcher(threading.Thread):
    """Watches a process and its descendants: which executables have the guard in their memory map."""

    # Time that a process may take to load its libraries after exec, and then to start the guard, before it counts as unguarded. Relocation
    # of a large program takes long on a busy machine.
    LOADING_SECONDS, STARTING_SECONDS = 0.5, 4.0

    def __init__(self, pid, guard):
        super().__init__(daemon=True)
        self.pid, self.guard = pid, guard
        self.guarded, self.unguarded = set(), set()
        self._first_seen = {}
        self._done = {}
        self._ended = threading.Event()
        self.start()

    def finish(self):
        self._ended.set()
        self.join()

    def run(self):
        started = time.monotonic()
        while not self._ended.is_set():
            for pid in descendants(self.pid):
                self._look(pid)
            self._ended.wait(0.004 if time.monotonic() - started < 1 else 0.04)

    def _look(self, pid):
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
            if self._done.get(pid) == executable or self.guard.is_own(executable):
                return
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                maps = file.read()
            same = os.readlink(f"/proc/{pid}/exe") == executable  # if not, the process has called exec since `executable` was read
        except OSError:
            return
        if not same:
            return
        name = os.path.basename(executable)
        if all(mark in maps for mark in self.guard.marks):
            self.guarded.add(name)
            self._done[pid] = executable
        elif is_stopped(pid):
            self._first_seen.pop((pid, executable), None)  # restart the deadline: a debugger may be reading symbols
        elif re.search(r"/libc[.-]", maps):  # not a static executable, which cannot be guarded
            now = time.monotonic()
            first = self._first_seen.setdefault((pid, executable), now)
            if now - first > (self.STARTING_SECONDS if self.guard.marks[0] in maps else self.LOADING_SECONDS):
                self.unguarded.add(name)
                self._done[pid] = executable


def is_stopped(pid):
    """True if a debugger or tracer has stopped the process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"t"
    except (OSError, IndexError):
        return False


def account(user):
    """Returns the arguments for Popen that make a command run as `user`."""
    if not user:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class Record:
    """The visible results of one command."""

    def __init__(self, label, status, stdout, stderr, report):
        self.label, self.status, self.stdout, self.stderr, self.report = label, status, stdout, stderr, report


class Server:
    """A command that runs while other commands use it."""

    def __init__(self, run, label, process, outputs, report, watcher, stderr):
        self.run, self.label, self.process, self.outputs = run, label, process, outputs
        self.report, self.watcher, self.stderr = report, watcher, stderr
        self.pid = process.pid
        self.is_collected = False

    def program_pid(self, executable):
        """Returns the process id of the program, which may be a child of `zguard run`. `executable` is a pattern."""
        return next(iter(running_in(self.pid, executable)), self.pid)

    def send(self, executable, number):
        """Sends a signal to the program itself."""
        os.kill(self.program_pid(executable), number)

    def has_ended(self):
        return wait_without_reaping(self.pid, 0) is not None

    def until(self, condition, what, seconds=READY_TIMEOUT, pause=0.05, port=None):
        """Waits until the condition holds. Fails at once if the command has ended, and after `seconds` with a full description of the
        hang."""
        started, wait = time.monotonic(), 0.002
        while not condition():
            status = wait_without_reaping(self.pid, wait)
            wait = min(pause, wait * 1.5)
            if status is not None:
                if condition():  # came true just before the command ended: another process continues the work
                    return
                raise Explained(f"{self.label}, {self.run.mode}: ended with {status} after {time.monotonic() - started:.1f} s, "
                                f"before {what}\n" + self.explanation(port))
            if time.monotonic() - started > seconds:
                raise Explained(f"{self.label}, {self.run.mode}: in {seconds:.0f} s not: {what}\n" + self.explanation(port))

    def wait_for(self, port, seconds=READY_TIMEOUT):
        """Waits until a process listens on the port."""
        self.until(lambda: listens(port), f"something listens on port {port}", seconds, port=port)

    def explanation(self, port=None):
        """Returns the command's output, the owners of the port, and the stacks of all threads of the command's processes."""
        pids = [*descendants(self.pid), *session_members(self.pid)]
        return (said([*self.outputs, *logs_below(self.run.dir)]) + (holders(port) if port else "") + stacks(pids)).rstrip("\n")

    def stop(self, executable, number=signal.SIGTERM, timeout=120.0):
        self.send(executable, number)
        self.wait(timeout)

    def wait(self, timeout=120.0):
        self.run._collect(self, timeout)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), 1).close()
        return True
    except OSError:
        return False


class Run:
    """One pass over a case; `guard` is None for the plain pass. Commands start in `self.dir`, which is created anew for each pass with
    the same path, because paths appear in output and in object files."""

    def __init__(self, case, work, guard, verbose=False):
        self.case, self.guard, self.verbose = case, guard, verbose
        self.inputs = work / "inputs"
        self.dir = work / "run"
        self.mode = "guarded" if guard else "plain"
        self.logs = work / self.mode
        self.records, self.files = [], {}
        self.guarded, self.unguarded = set(), set()
        self.processor_seconds = 0.0
        self._servers = []
        self._ports = Ports()
        self.user = case.user if os.geteuid() == 0 else None
        for path in (self.dir, self.logs, work / "home", work / "tmp"):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            if self.user:
                shutil.chown(path, self.user)
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(work / "home"), "TMPDIR": str(work / "tmp"),
            "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
            "SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    # Commands

    def step(self, argv, stdin=None, env=None, normalise=None, stderr="equal", status=0, timeout=STEP_TIMEOUT):
        """Runs a command to its end. `stdin` is bytes or a path. `normalise` maps output to the text that must be equal. `stderr` is
        "equal", or "any" if the program itself prints something different each time."""
        server = self.spawn(argv, stdin=stdin, env=env, stderr=stderr)
        server.wait(timeout)
        record = self.records[-1]
        if normalise:
            record.stdout = normalise(record.stdout.decode("utf-8", "replace")).encode()
            record.stderr = normalise(record.stderr.decode("utf-8", "replace")).encode()
        if not self.guard and status is not None and record.status != status:
            raise CaseError(f"{record.label}: ended with {record.status} without the guard, {status} was expected\n"
                            + excerpt(record.stderr or record.stdout))
        return record

    def spawn(self, argv, stdin=None, env=None, stderr="equal"):
        """Starts a command that other commands use. Call `wait` on the result to collect it."""
        argv = [str(word) for word in argv]
        number = len(list(self.logs.glob("*.out")))
        base = self.logs / f"{number}"
        report = base.with_suffix(".report")
        environment = {**self.environment, **{key: str(value) for key, value in (env or {}).items()}}
        command = argv
        if self.guard:
            command = self.guard.prefix(report, self.case.run_flags) + argv
            environment.update(self.guard.environment())
        label = f"{os.path.basename(argv[0])} #{number}"
        source = subprocess.DEVNULL
        if isinstance(stdin, bytes):
            base.with_suffix(".in").write_bytes(stdin)
            stdin = base.with_suffix(".in")
        outputs = base.with_suffix(".out"), base.with_suffix(".err")
        try:
            if stdin is not None:
                source = open(stdin, "rb")
            with open(outputs[0], "wb") as out, open(outputs[1], "wb") as err:
                process = subprocess.Popen(command, cwd=self.dir, env=environment, stdin=source, stdout=out, stderr=err,
                                           start_new_session=True, **account(self.user))
        except OSError as error:
            raise CaseError(f"{label}: cannot be started: {error}") from error
        finally:
            if stdin is not None and source is not subprocess.DEVNULL:
                source.close()
        watcher = Watcher(process.pid, self.guard) if self.guard else None
        server = Server(self, label, process, outputs, report, watcher, stderr)
        self._servers.append(server)
        return server

    @contextlib.contextmanager
    def helper(self, argv, port):
        """Starts the driver's own server on the port, unguarded."""
        label = f"helper on port {port}"
        outputs = [self.logs / f"helper-{port}.{kind}" for kind in ("stdout", "stderr")]
        with open(outputs[0], "wb") as out, open(outputs[1], "wb") as err:
            process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
        server = Server(self, label, process, outputs, None, None, "any")
        self._servers.append(server)
        try:
            server.wait_for(port)
            yield server
        finally:
            server.is_collected = True
            kill_session(server.pid)

    def port(self):
        """Returns a port that no other case gets before this pass ends."""
        return self._ports.take()

    def stop(self):
        """Ends the processes that still run, in this run's own sessions only. No session leader has been reaped yet, so the kernel cannot
        have given a session id to another process."""
        for server in self._servers:
            kill_session(server.pid)
        for server in self._servers:
            if server.watcher:
                server.watcher.finish()
            self.processor_seconds += processor_seconds(server.pid)
            server.process.wait()
        self._ports.close()

    def what_runs(self):
        """Returns the output and the stacks of commands that were not waited for."""
        parts = []
        for server in self._servers:
            if not server.is_collected:
                status = wait_without_reaping(server.pid, 0)
                what = "was running" if status is None else f"had ended with {status}"
                parts.append(f"{server.label} {what}\n{server.explanation()}")
        return "\n".join(parts)

    def trouble(self):
        """Returns the findings so far, for a run that could not be completed."""
        return [f"{path.name}: findings were reported\n" + excerpt(path.read_bytes(), 4)
                for path in sorted(self.logs.glob("*.report")) if path.read_bytes().strip()]

    def has_known_defects_only(self):
        """True if there are findings, and known.supp describes all of them."""
        reports = [path for path in sorted(self.logs.glob("*.report")) if path.read_bytes().strip()]
        if not reports or not self.guard or not self.guard.zguard:
            return False
        command = [str(self.guard.zguard), "report", "--suppressions", str(KNOWN_DEFECTS), *map(str, reports)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return result.returncode == 0 and "==zguard== no findings (" in result.stdout

    # Results that are compared

    def note(self, label, text):
        """Adds an observation of the case itself (a server's answer, a counter)."""
        self.records.append(Record(label, 0, text.encode() if isinstance(text, str) else text, b"", None))

    def keep(self, *patterns, normalise=None):
        """Adds digests of the files under `self.dir` that match."""
        for pattern in patterns:
            matches = sorted(path for path in self.dir.glob(pattern) if path.is_file())
            if not matches:
                raise CaseError(f"no file matches {pattern} after the {self.mode} run")
            for path in matches:
                data = path.read_bytes()
                if normalise:
                    data = normalise(data)
                self.files[str(path.relative_to(self.dir))] = hashlib.sha256(data).hexdigest()

    def _collect(self, server, timeout):
        try:
            status = wait_without_reaping(server.pid, timeout)
            if status is None:
                raise Explained(f"{server.label}: still running after {timeout:.0f} s, {self.mode}\n" + server.explanation())
        finally:
            if server.watcher:
                server.watcher.finish()
                self.guarded |= server.watcher.guarded
                self.unguarded |= server.watcher.unguarded
        server.is_collected = True
        # `zguard run` reports death by a signal like a shell.
        status = 128 - status if status < 0 else status
        stdout, stderr = (path.read_bytes() for path in server.outputs)
        report = server.report.read_text(errors="replace") if server.report.exists() else ""
        if server.stderr == "any":
            stderr = b"zguard: in standard error\n" + stderr if re.search(rb"zguard(==|:) ", stderr) else b""
        self.records.append(Record(server.label, status, stdout, stderr, report))


def excerpt(data, lines=12):
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    kept = text.splitlines()[-lines:]
    return "\n".join("    | " + line[:300] for line in kept)


def first_difference(plain, guarded):
    left, right = (data.decode("utf-8", "replace").splitlines() for data in (plain, guarded))
    for number in range(max(len(left), len(right))):
        a = left[number] if number < len(left) else "(end)"
        b = right[number] if number < len(right) else "(end)"
        if a != b:
            return f"    line {number + 1}\n    plain:   {a[:300]}\n    guarded: {b[:300]}"
    return "    (only line endings differ)"


def compare(case, plain, guarded):
    """Returns all differences between the guarded run and the required behavior."""
    faults = []
    if len(plain.records) != len(guarded.records):
        faults.append(f"{len(plain.records)} results without the guard, {len(guarded.records)} with it")
    for before, after in zip(plain.records, guarded.records):
        if after.report and after.report.strip():
            faults.append(f"{after.label}: findings were reported\n" + excerpt(after.report, 4))
        if before.status != after.status:
            faults.append(f"{after.label}: exit status {before.status} became {after.status}\n" + excerpt(after.stderr))
        if before.stdout != after.stdout:
            faults.append(f"{after.label}: other standard output\n" + first_difference(before.stdout, after.stdout))
        if before.stderr != after.stderr:
            faults.append(f"{after.label}: other standard error\n" + first_difference(before.stderr, after.stderr))
    for name in sorted(set(plain.files) | set(guarded.files)):
        if plain.files.get(name) != guarded.files.get(name):
            faults.append(f"file {name} has other contents")
    for wanted in case.sees:
        if not any(re.fullmatch(wanted, name) for name in guarded.guarded):
            seen = ", ".join(sorted(guarded.guarded)) or "none"
            faults.append(f"no guarded process of {wanted} was seen (guarded processes seen: {seen})")
    for name in sorted(guarded.unguarded - set(case.unguarded)):
        faults.append(f"a process of {name} ran without the guard")
    return faults
