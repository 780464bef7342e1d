#!/usr/bin/env python3
"""Makes every system call of the runtime fail and checks that the guarded program is not affected.

A test build of the library (Tests/Robustness/Faults/inject.c) counts its system calls by kind and makes chosen ones fail: the k-th call of
a kind once, all from the k-th on, or every n-th, with each plausible errno. Writes and reads are also cut short. Under each fault a program
runs guarded, and
  - prints and returns what it does unguarded, within the deadline;
  - every finding is a complete line of the report, a complete text on standard error, or counted as lost; no line mixes two findings;
  - standard error contains nothing else.
Lasting faults are also checked from outside: 'zguard stats' has to name the degradation (SHOWN).
The test build itself is checked for completeness: it makes no system call outside the injector, and imports no libc function that is not
listed here (IMPORTS).

usage: faults.py [--long] [--filter TEXT] [--only SCENARIO FAULT]
Closing line: N passed, N failed."""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Checks, Failed, close  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Robustness/Faults"
BUILD = builds.BUILD / "faults"
LIBRARY = BUILD / "libzguard.so"
DEADLINE_SECONDS = 60
JOBS = 2
COUNT_BYTES, FILE_BYTES = 48, 8192

EPERM, EINTR, EIO, EBADF, EAGAIN, ENOMEM, EFAULT, EINVAL, EMFILE, ENOSPC, EPIPE, ENOSYS = 1, 4, 5, 9, 11, 12, 14, 22, 24, 28, 32, 38
EACCES, ENOENT, ETIMEDOUT = 13, 2, 110

# Plausible errors of each kind of call. Without --long, a call that fails once gets one of the first three. "half" and "one": a short
# transfer.
ERRORS = {
    "mmap-reserve": (ENOMEM, EAGAIN, EPERM, ENOSYS),
    "mmap-table": (ENOMEM, EAGAIN, EPERM, ENOSYS),
    "mmap-retire": (ENOMEM, EAGAIN, EPERM, ENOSYS),
    "mmap-ask": (ENOMEM, EPERM),
    "mmap-shared": (ENOMEM, EPERM, EINVAL),
    "mmap-private": (ENOMEM, EPERM),
    "munmap": (EINVAL, ENOMEM, EPERM),
    "mremap": (ENOMEM, EINVAL, EFAULT, ENOSYS),
    "mprotect-open": (ENOMEM, EPERM, EINVAL, ENOSYS),
    "mprotect-close": (ENOMEM, EPERM, ENOSYS),
    "madvise-guard": (EINVAL, ENOMEM, EAGAIN, EINTR, EPERM, ENOSYS),
    "madvise-unguard": (EINVAL, ENOMEM, EAGAIN, EINTR, EPERM, ENOSYS),
    "madvise-discard": (EINVAL, ENOMEM, EAGAIN, EPERM),
    "madvise-dump": (EINVAL, ENOMEM, EPERM),
    "madvise-huge": (EINVAL, ENOMEM, EPERM),
    "madvise-fork": (EINVAL, ENOMEM, EPERM),
    "madvise-populate": (EINVAL, ENOMEM, EPERM, EFAULT),
    "madvise-remove": (EINVAL, ENOMEM, EPERM),
    "mincore": (EAGAIN, ENOMEM, EPERM, ENOSYS),
    "process_vm_readv": (EPERM, ENOSYS, "half", EFAULT, ENOMEM, "one"),
    "write": (ENOSPC, "half+28", "one", EINTR, EIO, EAGAIN, "half", EBADF, EPIPE, EPERM),
    "write-page": (ENOSPC, "half", "one", EINTR, ENOMEM, EPERM),
    "open-append": (EMFILE, EINTR, EACCES, ENOSPC, EPERM),
    "open-read": (EMFILE, ENOENT, EINTR, EPERM, ENOSYS),
    "read": (EIO, "one", EINTR, "half", EPERM),
    "pread": (EIO, "one", EINTR, "half", EPERM),
    "readlink": (ENOENT, EACCES, EPERM),
    "close": (EIO, EINTR, EBADF),
    "fstat": (EBADF, EPERM, ENOMEM, ENOSYS),
    "fcntl": (EMFILE, EINVAL, EPERM),
    "close_range": (ENOSYS, ENOMEM, EPERM),
    "memfd_create": (ENOSYS, EMFILE, ENOMEM, EPERM),
    "fchmod": (EPERM, EIO),
    "ftruncate": (ENOSPC, EINTR, EPERM),
    "getpid": (EPERM, ENOSYS),
    "gettid": (EPERM, ENOSYS),
    "prctl-get-name": (EPERM, EINVAL),
    "prctl-set-name": (EPERM, EINVAL),
    "clock_gettime": (EPERM, ENOSYS, EINVAL),
    "prlimit": (EPERM, ENOSYS),
    "sysinfo": (EPERM, ENOSYS),
    "sched_yield": (EPERM, ENOSYS),
    "futex-wait": (EINTR, EAGAIN, ENOSYS, EPERM),
    "futex-wake": (EPERM, ENOSYS, EFAULT),
    "sigprocmask-block": (EPERM, ENOSYS),
    "sigprocmask-set": (EPERM, ENOSYS),
    "sigtimedwait": (EAGAIN, EINTR, EPERM),
    "sigpending": (EPERM, ENOSYS),
    "sigaction-get": (EPERM, ENOSYS),
    "ppoll": (EINTR, ENOMEM, EPERM, ENOSYS),
    "sigaltstack": (ENOMEM, EPERM, ENOSYS),
    "brk": (ENOMEM,),
    "uname": (EPERM, ENOSYS),
    "getrusage": (EPERM, ENOSYS),
    "perf_event_open": (EACCES, ENOENT, EPERM, ENOSYS, EMFILE, ENOSPC),
    "perf-id": (EPERM, EBADF),
    "perf-move": (EPERM, ENOSPC, EBADF),
    "sigaction": (EPERM, EINVAL),
    "pthread_create": (EAGAIN, EPERM),
    "pthread_key_create": (EAGAIN, ENOMEM),
    "pthread_setspecific": (ENOMEM,),
    "pthread_atfork": (ENOMEM,),
    "libc-memory": (ENOMEM,),
}
# These calls must not fail forever: blocked signals could never be unblocked.
NOT_FOR_EVER = {"sigprocmask-set"}
# The program itself sees these failures: libc's allocation functions return NULL.
REFUSING = {"libc-memory"}

# Imported libc functions and how the injector treats them. "injected": can fail. "none": makes no system call. "program": called on
# behalf of the program, when the program ends, or during fork, where libc itself takes the lock of the stream list.
IMPORTS = {
    "injected": "dlsym pthread_key_create pthread_setspecific",
    "none": "_ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __cxa_finalize __errno_location __gmon_start__ "
            "__libc_single_threaded __libc_stack_end dl_iterate_phdr dladdr dladdr1 environ getauxval memcpy memset memmove memcmp memchr bcmp "
            "strlen sigaddset sigdelset sigfillset sigemptyset pthread_attr_init pthread_attr_destroy "
            "pthread_attr_setdetachstate pthread_attr_setsigmask_np pthread_attr_getsigmask_np gnu_get_libc_version pthread_attr_setstacksize pthread_attr_getstacksize "
            "zg_default_options fileno strdup strndup __tls_get_addr on_exit",
    # No system call: the vDSO returns the time, and nobody else can hold the mutex.
    "mapped": "clock_gettime pthread_mutex_lock pthread_mutex_unlock",
    "program": "geteuid abort fprintf stderr _IO_list_lock _IO_list_unlock _IO_list_resetlock",
}


# Combined faults by scenario, for paths that one failure alone does not reach: a child without a statistics page, lines that cannot be
# completed, SIGPIPE of failed writes, a report that cannot be opened again, futex calls that always fail.
TOGETHER = {
    "plain bugs": [f"memfd_create:{ENOSYS}:2:ever,mmap-private:{ENOMEM}:1:ever", f"memfd_create:{ENOSYS}:2:ever",
                   f"mmap-shared:{ENOMEM}:2:ever,mmap-private:{ENOMEM}:1:once"],
    # Half a line is written; for a while neither its rest nor its newline can be written.
    "bugs": [f"write:half+{ENOSPC}:{first}:x{times}" for first in (1, 2, 9) for times in range(2, 8)],
    "bugs fence": [f"write:{EPIPE}:1:ever,sigtimedwait:{EAGAIN}:1:ever", f"write:{EPIPE}:3:2,sigtimedwait:{EINTR}:1:2",
                   f"open-append:{EMFILE}:1:ever,write:{ENOSPC}:2:ever", f"fcntl:{EMFILE}:1:ever,write:one:1:ever",
                   f"fstat:{EBADF}:1:ever,open-append:{EMFILE}:2:ever", f"futex-wait:{EINTR}:1:ever,futex-wake:{EPERM}:1:ever"],
}
# Writes of findings fail at first, so findings are lost; the message about lost findings, at the end, can be written.
SAID = [f"write:{ENOSPC}:1:x3", f"write:{EIO}:4:x6", f"write:{EIO}:16:x3"]

# By kind of call: the degradation that 'zguard stats' shows for a process in which calls of this kind always fail. NO_PAGE: 'zguard
# stats' shows that there are no statistics.
NO_PAGE = "shows no statistics"
# The page exists, but zguard rejects it because the process could still truncate it.
NOT_SEALED = "not sealed"
SHOWN = {
    # Without address space nothing is guarded; the runtime says so at the start.
    "mmap-reserve": NO_PAGE, "mmap-retire": "mappings_spent",
    "mprotect-open": NO_PAGE, "mprotect-close": "no_contents", "madvise-guard": "no_guard_pages",
    "madvise-discard": "advice_refused", "madvise-dump": "advice_refused", "process_vm_readv": "no_safe_read",
    "write": "no_report", "open-append": "no_report", "open-read": "no_status", "read": "no_status", "pread": "no_status",
    "fstat": "no_status", "mmap-shared": NO_PAGE, "memfd_create": NO_PAGE, "ftruncate": NO_PAGE, "write-page": NO_PAGE,
    "fcntl": NOT_SEALED, "sigaltstack": "no_alternate_stack", "sigaction": "no_fault_handler",
    "pthread_create": "no_pressure_thread", "pthread_key_create": "no_thread_ends", "pthread_setspecific": "no_thread_ends",
    "pthread_atfork": "no_fork_handlers", "perf_event_open": "no_watchpoints", "perf-id": "no_watchpoints",
    "perf-move": "no_watchpoints", "uname": "no_watchpoints",
}
# Reasons why 'zguard stats' shows no degradation if calls of the other kinds always fail.
UNSHOWN = {
    "mmap-table": "tables are opened in a reservation then",
    "mmap-ask": "the allocation is libc's then, and counted as unguarded", "mmap-private": "only after another failure",
    "munmap": "what is not used any more stays mapped", "mremap": "the contents are copied",
    "madvise-unguard": "other pages are mapped in their place", "madvise-huge": "memory is as the system's default has it",
    "madvise-fork": "advice that the program did not give need not be taken back",
    "madvise-populate": "pages come by faults then", "madvise-remove": "memory stays for the next blocks",
    "mincore": "the block is filled as a whole",
    "readlink": "the program has no name in the statistics", "close": "the number is free all the same",
    "close_range": "the thread reads what it holds open", "fchmod": "the page is its owner's only in any case",
    "getpid": "only a filter refuses it", "gettid": "only a filter refuses it", "clock_gettime": "only a filter refuses it",
    "prlimit": "limits are met as failures of other calls", "sysinfo": "no share of the machine's memory is known",
    "prctl-get-name": "the finding's thread has no name", "prctl-set-name": "our thread is called as the program is",
    "sched_yield": "the race goes on", "futex-wait": "locks are waited for actively", "futex-wake": "locks are found free later",
    "sigprocmask-block": "nothing is held back, then", "sigprocmask-set": "asked again", "sigtimedwait": "asked only after a signal",
    "sigpending": "only a filter refuses it", "sigaction-get": "nothing is watched, then",
    "getrusage": "context switches count as none",
    "ppoll": "the write that follows decides how long it takes",
    "brk": "blocks are told by their neighbours", "libc-memory": "the program's own answer",
}

# Called only after the runtime has lost a race.
BY_CHANCE = {"sched_yield"}


class Scenario:
    """A program, its guard options, and how it may end if the fault disables the guard."""

    def __init__(self, name, command, options, share=1.0, findings=0, may_die=False, kinds=None):
        self.name, self.command, self.options = name, command, options
        self.share = share  # share of the fault positions to try
        self.findings = findings  # minimum number of findings without a fault
        self.may_die = may_die  # the bug may end the program, if the program is unguarded or if the runtime cannot continue
        self.kinds = kinds  # try only these kinds of calls


GOES_ON = "on_finding=continue:error_text=headline"
SCENARIOS = [
    Scenario("plain", ["program", "clean"], "quarantine_bytes=262144:isolated_overhead=100%"),
    Scenario("bugs", ["program", "bugs"], GOES_ON, findings=12),
    Scenario("bugs-text", ["program", "bugs"], "on_finding=continue:report_path=", 0.3, findings=12),
    Scenario("fence", ["program", "bugs"], GOES_ON + ":profile=fence", 0.4, findings=12),
    Scenario("mappings", ["program", "clean"], "protect=mprotect:quarantine_bytes=65536:isolated_overhead=100%:fill_new=1", 0.3),
    Scenario("pressure", ["program", "bugs"],
             "quarantine_bytes=16777216:pressure_thread_bytes=0:verify_at_exit=1:retired_bytes=1048576:on_finding=continue:"
             "isolated_bytes=1048576", 0.4, findings=12),
    Scenario("sample", ["program", "clean"], "profile=sample:sample_rate=20:sample_seed=3", 0.3),
    Scenario("overhead", ["program", "clean"], "overhead=5%", 0.3),
    Scenario("swift", ["zombie"], GOES_ON, 0.3, findings=1, may_die=True),
    Scenario("perl", ["/usr/bin/perl", str(SOURCES / "work.pl")], "", 0.2),
    Scenario("refused", ["program", "refused"], "", kinds=REFUSING),
]


SCENARIO_NAMES = {scenario.name for scenario in SCENARIOS}


# MARK: building


def build():
    builds.library("faults")
    program, zombie = SOURCES / "program.c", SOURCES / "zombie.swift"
    builds.compiled(BUILD / "program", ["gcc", "-std=gnu17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", program,
                                        "-o", BUILD / "program", "-lpthread"], [program])
    builds.compiled(BUILD / "zombie", ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-g", "-Onone", zombie,
                                       "-o", BUILD / "zombie"], [zombie], cwd=BUILD)


def check_completeness(checks):
    """Every import is listed. Every system call of the test build is in the injector, with two exceptions: the return from a signal handler
    (zg_arch_resume, or zg_jump_out, its only caller) and code that only zguard executes, in a stopped process (zg_arch_snapshot)."""
    function, outside = "", collections.Counter()
    for line in builds.run_compiler(["objdump", "-d", "--no-show-raw-insn", LIBRARY]).splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif re.search(r"\t(syscall|svc|int +\$0x80|sysenter)\b", line):
            outside[function] += 1
    checks.check("all system calls go through the injector",
                 [f"{name} makes {count}" for name, count in outside.items()
                  if name not in ("call", "zg_arch_resume", "zg_jump_out", "zg_arch_snapshot")] +
                 ([] if outside["call"] else ["the injector makes none"]))
    known = {name for names in IMPORTS.values() for name in names.split()}
    names = {line.split()[-1].split("@")[0]
             for line in builds.run_compiler(["nm", "-D", "--undefined-only", LIBRARY]).splitlines()}
    checks.check("all functions that are imported are known",
                 [f"{name} is new: does it make system calls?" for name in sorted(names - known)])


# MARK: the statistics page of an ended process


def page_names():
    text = (ROOT / "Sources/CZombie/include/zg_stats_page.h").read_text()
    tables = re.findall(r"#define ZG_(COUNTERS|DEGRADATIONS)\(X\)(.*?)\n\n", text, re.S)
    return {name: re.findall(r"X\((\w+),", body) for name, body in tables}


NAMES = page_names()
DEGRADATIONS_AT = 8 + 4 + 4 + 4 + 4 + 8 + 256 + 32 + 512


def read_page(path):
    data = path.read_bytes()
    if len(data) < DEGRADATIONS_AT + 8 + 8 * len(NAMES["COUNTERS"]):
        return None
    degraded, *counters = struct.unpack_from(f"<{1 + len(NAMES['COUNTERS'])}Q", data, DEGRADATIONS_AT)
    names = {name for bit, name in enumerate(NAMES["DEGRADATIONS"]) if degraded >> bit & 1}
    return names, dict(zip(NAMES["COUNTERS"], counters))


# MARK: one run


class Run:
    """One run of a scenario under a fault ("" for none), and its results."""

    def __init__(self, scenario, fault, directory, guarded=True, library=LIBRARY):
        self.scenario, self.fault = scenario, fault
        self.report, self.counts_file = directory / "report", directory / "counts"
        self.counts_file.write_bytes(bytes(FILE_BYTES))
        self.environment = scrubbed(PERL_HASH_SEED="0", SWIFT_DETERMINISTIC_HASHING="1", SWIFT_BACKTRACE="enable=no")
        if guarded:
            options = scenario.options
            if "report_path=" not in options:
                options = ":".join(part for part in (options, f"report_path={self.report}") if part)
            self.environment |= {"LD_PRELOAD": str(library), "ZGUARD_OPTIONS": options, "ZG_FAULT": fault,
                                 "ZG_FAULT_FILE": str(self.counts_file)}
        self.hangs = False

    def command(self):
        first, *rest = self.scenario.command
        return [first if first.startswith("/") else str(BUILD / first), *rest]

    def start(self, **keywords):
        return subprocess.Popen(self.command(), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True, preexec_fn=no_core, **keywords)

    def go(self):
        process = self.start(stdin=subprocess.DEVNULL)
        try:
            self.out, self.err = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.hangs = True
            os.killpg(process.pid, signal.SIGKILL)
            self.out, self.err = process.communicate()
        self.status = process.returncode
        self.out, self.err = (text.decode(errors="replace") for text in (self.out, self.err))
        return self

    def counts(self):
        data, found = self.counts_file.read_bytes(), {}
        for at in range(0, FILE_BYTES - COUNT_BYTES, COUNT_BYTES):
            name = data[at:at + 32].rstrip(b"\0").decode()
            if name:
                found[name] = struct.unpack_from("<QQ", data, at + 32)
        return found

    def pages(self):
        return [page for path in self.counts_file.parent.glob("counts.*") if (page := read_page(path))]

    def lines(self):
        """Returns two numbers, of complete findings and of partial lines in the report, and a list of problems."""
        if not self.report.exists():
            return 0, 0, []
        *lines, rest = self.report.read_bytes().split(b"\n")
        whole, halves, problems = 0, int(bool(rest)), []
        for line in lines:
            try:
                finding = json.loads(line)
                assert finding["schema"] == "zguard.finding/1"
                whole += "again" not in finding  # an "again" line only counts repetitions of an earlier finding
            except (ValueError, KeyError, TypeError, AssertionError):
                halves += bool(line)
                if line.count(b'"schema":') > 1:
                    problems.append(f"a line with parts of two findings: {line[:80]!r}")
        return whole, halves, problems

    def texts(self):
        """Returns two numbers, of complete and of partial findings on standard error, and the lines that the library did not print."""
        whole, halves, others = 0, 0, []
        for line in self.err.splitlines(keepends=True):
            if line.startswith("==zguard== "):
                if re.search(r" \[pid \d+\]\n", line):
                    whole += 1
                elif "function names: run the program under" not in line:
                    halves += 1
            elif not line.startswith(("zguard: ", "    #", "  access:", "  freed:", "  allocated:", "hint: ")):
                others.append(line.rstrip()[:160])
        return whole, halves, others


def no_core():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def problems_of(run, plain):
    """Returns the problems of a run, compared with an unguarded run."""
    if run.hangs:
        return [f"hangs: still running after {DEADLINE_SECONDS} s"]
    problems = []
    whole, cut, problems_of_lines = run.lines()
    told, half_told, others = run.texts()
    problems += problems_of_lines
    died = run.scenario.may_die and run.status < 0 and plain.out.startswith(run.out)
    if run.status != plain.status and not died:
        problems.append(f"exit status {run.status}, unguarded {plain.status}")
    if run.out != plain.out and not died:
        problems.append(f"prints {run.out[-300:]!r}")
    if others:
        problems.append(f"standard error: {others[:3]}")
    found = whole + told
    pages = run.pages()
    if died:
        unseen = run.counts().get("sigaction", (0, 0))[1]  # without a fault handler no finding can be reported
        if not found and not unseen and not any(page[1].get("findings_lost") for page in pages):
            problems.append(f"died of signal {-run.status} without a finding")
    elif run.status == plain.status:
        findings = sum(page[1]["findings"] for page in pages)
        lost = sum(page[1].get("findings_lost", 0) for page in pages)
        if not pages:
            problems.append("no statistics were left")
        # If a text was cut off, the finding counts as lost, but its first line may be complete: then it is counted twice here.
        twice = found + lost - findings if told and re.search(r"write:(half|one)", run.fault) else 0
        # Without atfork handlers, children count their parent's findings as their own.
        if found + lost != findings + (twice == 1) and not run.fault.startswith("pthread_atfork"):
            problems.append(f"{findings} findings, of which {whole} stand in the report, {told} on standard error, and {lost} "
                            f"are counted as lost; {cut} lines are cut")
        said = sum(map(int, re.findall(r"zguard: warning: (\d+) findings? could not be written\n", run.err)))
        if run.fault in SAID and not 0 < lost == said:
            problems.append(f"{lost} lost findings are not said at the end")
        if lost and not any("no_report" in page[0] for page in pages):
            problems.append("findings were lost and no degradation says so")
        if run.scenario.findings == 0 and findings:
            problems.append(f"{findings} false findings: {run.report.read_text()[:300] if run.report.exists() else run.err[:300]}")
    return problems


def reproduce(run):
    return f"    python3 Tests/Robustness/faults.py --only {run.scenario.name} '{run.fault}'"


# MARK: which faults


def positions(calls, most):
    """Returns up to `most` positions in 1...calls: the first, the last, and others at increasing distances; if `most` is 1, the middle."""
    if calls <= most:
        return list(range(1, calls + 1))
    if most == 1:
        return [(calls + 1) // 2]
    steps = [round(1 + (calls - 1) * (i / (most - 1)) ** 2.2) for i in range(most)]
    return sorted(set(steps))


def faults_of(scenario, counts, long):
    """Yields faults for every kind of call that the runtime made without a fault (`counts`), and combined faults."""
    for kind, (calls, _) in counts.items():
        if not calls or kind == "never" or (scenario.kinds is not None and kind not in scenario.kinds):
            continue
        if scenario.kinds is None and kind in REFUSING:
            continue
        errors = ERRORS[kind]
        if long:
            for error in errors:
                for first in positions(calls, 40):
                    yield f"{kind}:{error}:{first}:once"
                for first in positions(calls, 5) if kind not in NOT_FOR_EVER else ():
                    yield f"{kind}:{error}:{first}:ever"
                for every in () if kind == "gettid" else (2, 3, 7):  # intermittent gettid failures would leave some threads without an id
                    yield f"{kind}:{error}:1:{every}"
            continue
        number, calls = 0, max(1, calls * 9 // 10)  # with threads the number of calls varies from run to run
        common = errors[:3]
        for first in positions(calls, max(1, round(6 * scenario.share))):
            yield f"{kind}:{common[number % len(common)]}:{first}:once"
            number += 1
        for error in (errors if scenario.share == 1 else errors[:1]) if kind not in NOT_FOR_EVER else ():
            yield f"{kind}:{error}:1:ever"
        if calls > 2 and scenario.share >= 0.5:
            if kind not in NOT_FOR_EVER:
                yield f"{kind}:{common[number % len(common)]}:{calls // 2}:ever"
            if kind != "gettid":  # intermittent gettid failures would leave some threads without an id
                yield f"{kind}:{common[-1]}:1:{3 if number % 2 else 2}"
    if scenario.kinds is None:
        for name, fault in TOGETHER.items():
            if scenario.name in name.split():
                yield from fault
        if scenario.name == "bugs":
            yield from SAID
        # A sandbox: of each kind of call, all fail from the start or from the 20th on, or every n-th fails.
        for error in (EPERM, ENOSYS):
            yield f"*:{error}:1:ever"
            yield f"*:{error}:20:ever"
            yield f"*:{error}:1:2"
            yield f"*:{error}:2:7"
        # Memory is exhausted: calls that map memory or make it accessible fail from some call on.
        for first in (1, 3, 12):
            yield ",".join(f"{kind}:{ENOMEM}:{first}:ever" for kind in ("mmap-reserve", "mmap-table", "mprotect-open", "mmap-retire"))
    else:
        for kind in ("mmap-reserve", "mprotect-open", "mmap-table"):
            for first in (1, 2, 9, 16):
                yield f"{kind}:{ENOMEM}:{first}:ever,libc-memory:{ENOMEM}:3:ever"
                yield f"{kind}:{ENOMEM}:{first}:2,libc-memory:{ENOMEM}:2:3"


def kinds_of(scenario, fault):
    """Returns the kinds that a case belongs to. Each slice contains at least one case of every kind: each kind of call failing once, always
    and now and then; each scenario; and all combined faults."""
    first, _, more = fault.partition(",")
    kind, _, _, times = first.split(":")
    often = times if times in ("once", "ever") else "now and then"
    return [(kind, more)] if more else [(scenario.name,), (kind, often)]


# MARK: the whole


def one(scenario, fault, plain):
    """Runs the program under a fault. Repeats this up to twice if no call failed, since some calls depend on chance and on time."""
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="zguard-faults-") as directory:
            run = Run(scenario, fault, Path(directory)).go()
            problems = problems_of(run, plain)
            run.counted = run.counts()
        run.was_reached = any(faults for _, faults in run.counted.values())
        if run.was_reached or problems:
            break
    return run, problems


def look_from_outside(scenarios, kind):
    """Runs the program under a lasting fault and asks zguard about it. Returns a list of problems."""
    scenario = scenarios["pressure" if kind in ("pthread_create", "read") else "fence" if kind == "mmap-retire" else "bugs"]
    waiting = Scenario("wait", ["program", "wait"], scenario.options)
    error = ERRORS[kind][0]
    with tempfile.TemporaryDirectory(prefix="zguard-faults-") as directory:
        run = Run(waiting, f"{kind}:{error}:1:ever", Path(directory))
        process = run.start(stdin=subprocess.PIPE)
        timer = threading.Timer(DEADLINE_SECONDS, process.kill)
        timer.start()
        try:
            while (line := process.stdout.readline()) and not line.endswith(b" wrong\n"):
                pass
            asked = subprocess.run([str(ZGUARD), "stats", str(process.pid), "--json"], capture_output=True, text=True,
                                   timeout=DEADLINE_SECONDS)
            listed = subprocess.run([str(ZGUARD), "stats"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        finally:
            timer.cancel()
            process.communicate(b"")
        if process.returncode != 7:
            return [f"exit status {process.returncode}"]
        if not any(faults for _, faults in run.counts().values()):
            return ["the fault did not happen"]
        if SHOWN[kind] in (NO_PAGE, NOT_SEALED):
            seen = SHOWN[kind] in asked.stderr and re.search(rf"without statistics: .*\b{process.pid}\b", listed.stdout)
            return [] if seen else [f"zguard stats: {asked.stdout[-300:]}{asked.stderr}{listed.stdout[-300:]}"]
        if asked.returncode:
            return [asked.stderr.strip()]
        degradations = json.loads(asked.stdout)["processes"][0]["degradations"]
        return [] if set(SHOWN[kind].split()) & set(degradations) else [f"shown are only {degradations}"]


def check_shown(scenarios, checks, arguments, pool):
    checks.check("what is shown of each kind of call is known",
                 [f"{kind}" for kind in set(SHOWN) ^ (set(ERRORS) - set(UNSHOWN))] +
                 [f"{name} is no degradation" for names in SHOWN.values() for name in names.split()
                  if names not in (NO_PAGE, NOT_SEALED) and name not in NAMES["DEGRADATIONS"]])
    kinds = [kind for kind in SHOWN if arguments.filter in f"shown {kind}"]
    for kind, problems in zip(kinds, pool.map(lambda kind: look_from_outside(scenarios, kind), kinds)):
        checks.check(f"shown {kind}: {SHOWN[kind]}", problems)


def run_scenario(scenario, checks, arguments, pool):
    if scenario.name not in arguments.filter and arguments.filter.split(" ")[0] in SCENARIO_NAMES:
        return set()
    with tempfile.TemporaryDirectory(prefix="zguard-faults-") as directory:
        plain = Run(scenario, "", Path(directory), guarded=False).go()
        sound = Run(scenario, "", Path(directory)).go()
        counts = sound.counts()
        made = {kind for kind, (calls, _) in counts.items() if calls}
        problems = problems_of(sound, plain)
        seen = sum(page[1]["findings"] for page in sound.pages())
        if seen < scenario.findings:
            problems.append(f"{seen} findings, at least {scenario.findings} are expected")
        problems += [f"calls of an unknown kind: {counts['other'][0]}"] if counts.get("other", (0, 0))[0] else []
        checks.check(f"{scenario.name} without a fault", problems)
        if problems:
            return made
    faults = [fault for fault in faults_of(scenario, counts, arguments.long)
              if arguments.filter in f"{scenario.name} {fault}"]
    whole = len(faults)
    faults = arguments.slice.choose(faults, kinds=lambda fault: kinds_of(scenario, fault), way=SCENARIOS.index(scenario), seen=arguments.seen)
    arguments.counted += collections.Counter(ran=len(faults), whole=whole)
    missed = []
    for run, problems in pool.map(lambda fault: one(scenario, fault, plain), faults):
        checks.check(f"{scenario.name} {run.fault}", problems + [reproduce(run)] if problems else [])
        missed += [] if run.was_reached else [run.fault]
        made |= {kind for kind, (calls, _) in run.counted.items() if calls}
    if len(missed) > max(3, len(faults) // 8):
        checks.check(f"{scenario.name}: faults that did not happen", missed)
    return made


def main():
    parser = argparse.ArgumentParser(description="Lets every system call of the runtime fail.")
    parser.add_argument("--long", action="store_true", help="every call, every errno")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only 'SCENARIO FAULT' with this text in it")
    parser.add_argument("--only", nargs=2, metavar=("SCENARIO", "FAULT"), help="one run, with everything that it printed")
    add_slice_option(parser)
    arguments = parser.parse_args()
    arguments.counted, arguments.seen = collections.Counter(), set()
    try:
        build()
    except Failed as failure:
        print(f"FAILED {failure}")
        return close(0, 1)
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    if arguments.only:
        scenario = scenarios[arguments.only[0]]
        with tempfile.TemporaryDirectory(prefix="zguard-faults-") as directory:
            plain = Run(scenario, "", Path(directory), guarded=False).go()
            run = Run(scenario, arguments.only[1], Path(directory)).go()
            print(run.out, run.err, sep="")
            print("environment:", " ".join(f"{key}={run.environment[key]}" for key in ("LD_PRELOAD", "ZGUARD_OPTIONS", "ZG_FAULT")))
            print("calls, faults:", {name: count for name, count in run.counts().items() if count[1]})
            print("statistics:", [(sorted(page[0]), {name: value for name, value in page[1].items() if value}) for page in run.pages()])
            problems = problems_of(run, plain)
        print("\n".join(problems) or "nothing is wrong")
        return bool(problems)
    checks, calls = Checks(), collections.Counter()
    check_completeness(checks)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for scenario in SCENARIOS:
            started, before = time.monotonic(), checks.passed + checks.failed
            calls.update(run_scenario(scenario, checks, arguments, pool))
            print(f"{scenario.name}: {checks.passed + checks.failed - before} runs in {time.monotonic() - started:.0f} s", flush=True)
        check_shown(scenarios, checks, arguments, pool)
    arguments.slice.say(arguments.counted["ran"], arguments.counted["whole"], "faults")
    if not arguments.filter and arguments.slice.is_whole:
        checks.check("every kind of call is made by some program",
                     [f"{kind} is made by none" for kind in ERRORS if not calls[kind] and kind not in BY_CHANCE])
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
