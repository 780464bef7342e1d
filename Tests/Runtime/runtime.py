#!/usr/bin/env python3
"""Builds and runs the runtime's unit tests in Tests/Runtime, and checks what the preload library exports and needs.

The comment lines below a test program's first line state how it is built and run. There is no other registration:
  link: runtime   linked with the runtime's own objects (white box)
  preload         run with build/lib/libzguard.so preloaded (black box)
  control         also run without the library: its checks hold for libc, too
  options         ZGUARD_OPTIONS for the run
  also            run again with each of these additional options, such as those of a kernel that lacks a feature
  libs            further flags for the compiler
  with            further source files, compiled with the C++ compiler
  library         source file of a shared library that the program loads; its path is the program's first argument
  output: json    every line on standard output that begins with '{' has to be valid JSON
  timeout         seconds, if the default is too short
  slow            takes long: --slice runs only its share of these tests
  warning         text that the library may print on standard error; otherwise it must not print anything
  processor       the only processor that it runs on, because it contains this processor's instructions
  qemu-user       why it does not run under qemu's user mode: what qemu lacks or does differently
Every program ends its output with "checks N failures M" and exits with 0 if all checks hold.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, emulation, processors, roots  # noqa: E402
from Support.checks import Failed, close, run_within, said_by_library  # noqa: E402
from Support.environment import ARCH, HERE, LIBRARY, PUBLISH, RUNTIME, TESTS, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Runtime"
PUBLISHED = PUBLISH / "include/zg_published.h"
BUILD = builds.BUILD / "runtime"

TIMEOUT_SECONDS = 40
JOBS = 2
TLS_BYTES = 64
OLDEST_GLIBC = (2, 31)
# Functions in libdl and libpthread of older glibcs.
PARTS_OF_OTHERS = {"dlsym", "pthread_attr_setstacksize", "pthread_key_create", "pthread_setspecific"}
KEYS = {"link", "preload", "control", "options", "also", "libs", "with", "library", "output", "timeout", "slow", "warning", "processor", "qemu-user"}

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
TEST_FLAGS = ["-std=gnu17", "-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE"]


# Libraries for another processor: the tree in ZG_SYSROOT, or a root directory made from Debian's packages.
SYSROOT = os.environ.get("ZG_SYSROOT", "")
EMULATED_TIMES = 6  # factor by which an emulated program takes longer


class NotHere(Exception):
    """The reason why a test cannot run here."""


def find_emulator():
    """Returns the command prefix with which a program of another processor runs and can start others; [] if none is needed."""
    if ARCH == HERE or processors.WHOLE:
        return []
    try:
        return emulation.entering(processors.DEBIAN[ARCH])
    except (emulation.Unavailable, KeyError) as reason:
        raise NotHere(f"programs of {ARCH}: {reason}") from None


def command_output(command):
    return builds.run_compiler(command)


# MARK: building


def build_program(program):
    header, clang = program.header, builds.find_clang()
    target = BUILD / program.path.stem
    headers = list(SOURCES.glob("*.h")) + [TESTS / "Support/work.h"]
    objects = []
    for name in header.get("with", "").split():
        source = SOURCES / name
        made = BUILD / "objects" / (source.stem + ".o")
        command = [os.environ.get("CXX", "g++" if ARCH == HERE else f"{ARCH}-linux-gnu-g++"), "-std=gnu++17", "-O2", "-g", "-fomit-frame-pointer", *WARNINGS, "-c", source, "-o", made]
        objects.append(builds.compiled(made, command, [source, *headers]))
    if "library" in header:
        source = SOURCES / header["library"]
        made = BUILD / (source.stem + ".so")
        builds.compiled(made, [clang, *builds.CROSS, *TEST_FLAGS, *WARNINGS, "-fPIC", "-shared", source, "-o", made], [source, *headers])
        program.arguments = [made]
    command = [clang, *builds.CROSS, *TEST_FLAGS, *WARNINGS, f"-I{SOURCES}", "-rdynamic"]
    sources = [program.path, *headers, *objects, *RUNTIME.glob("include/*.h")]
    libraries = []
    if program.is_linked:
        command += [*builds.TRAPS, f"-I{RUNTIME}"]
        libraries = [builds.archive("checked")]
        sources += [*libraries, *RUNTIME.glob("**/*.h")]
    command += [program.path, *objects, *libraries, *shlex.split(header.get("libs", "")), "-lpthread", "-ldl", "-o", target]
    program.executable = builds.compiled(target, command, sources)


# MARK: test programs


class Program:
    def __init__(self, path):
        self.path = path
        self.name = path.name
        self.header = {}
        self.executable = None
        self.arguments = []
        self.checks = 0
        self.seconds = 0.0

    def read_header(self):
        lines = self.path.read_text().splitlines()
        if not lines or not lines[0].startswith("// "):
            raise Failed("header: the first line has to say what the program checks")
        for line in lines[1:]:
            if not line.startswith("//"):
                break
            key, _, value = line[2:].strip().partition(":")
            if key not in KEYS or key in self.header:
                raise Failed(f"header: cannot read '{line}'")
            self.header[key] = value.strip()
        if ("link" in self.header) == ("preload" in self.header):
            raise Failed("header: either 'link: runtime' or 'preload'")

    @property
    def is_linked(self):
        return "link" in self.header

    def run_once(self, guarded, library, emulator, more=""):
        options = ":".join(filter(None, (self.header.get("options"), more)))
        options = {"ZGUARD_OPTIONS": options} if options else {}
        environment, command = scrubbed(**options), [self.executable, *self.arguments]
        if guarded and not self.is_linked:
            environment["LD_PRELOAD"] = str(library)
        if emulator:  # the emulator itself runs on this machine's processor, without the library
            preload = environment.pop("LD_PRELOAD", None)
            command = [*emulator, "env", *([f"LD_PRELOAD={preload}"] if preload else []), *command]
            environment["QEMU_LD_PREFIX"] = SYSROOT
        what = f"guarded, {more}" if more else "guarded" if guarded else "control"
        timeout = float(self.header.get("timeout", TIMEOUT_SECONDS)) * (EMULATED_TIMES if ARCH != HERE else 1)
        code, out, err = run_within(timeout, command, cwd=BUILD, env=environment)
        if code is None:
            raise Failed(f"{what}: hangs, still running after {timeout:.0f} s\n{tail(err)}")
        ends = re.findall(r"^checks (\d+) failures (\d+)$", out, re.M)
        if code or not ends or ends[-1][1] != "0":
            reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            if not ends:
                reason += ", before its end"
            if code in (-signal.SIGILL, -signal.SIGTRAP) and not emulator and shutil.which("gdb"):
                err += self.trap(environment)
            raise Failed(f"{what}: {reason}\n{tail(err)}")
        if any("warning" not in self.header or self.header["warning"] not in line for line in said_by_library(err)):
            raise Failed(f"{what}: the library says\n{tail(err)}")
        if self.header.get("output") == "json":
            self.check_json(out)
        return int(ends[-1][0])

    def trap(self, environment):
        """Returns gdb's output with the place where a sanitizer's trap struck."""
        gdb = ["gdb", "-batch", "-nx", "-ex", "set startup-with-shell off", *(word for name, value in environment.items()
               if name in ("LD_PRELOAD", "ZGUARD_OPTIONS") for word in ("-ex", f"set environment {name} {value}")),
               "-ex", "handle SIGSEGV nostop noprint pass", "-ex", "run", "-ex", "backtrace 8", "--args", self.executable, *self.arguments]
        _, out, _ = run_within(120, gdb, cwd=BUILD, env=scrubbed())
        return "\n" + "\n".join(line for line in out.splitlines() if line.startswith(("#", "Program received")))

    def check_json(self, out):
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if not lines:
            raise Failed("no JSON lines")
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError as error:
                raise Failed(f"not JSON ({error}): {line[:300]}") from None
            self.checks += 1
            if value.get("schema") == "zguard.finding/1":
                check_finding_fields(value, line)

    def why_not(self, emulator):
        """Returns the reason why the test does not run here, or an empty text."""
        if self.header.get("processor", ARCH) != ARCH:
            return f"only for {self.header['processor']}"
        return f"qemu-user: {self.header['qemu-user']}" if emulator and "qemu-user" in self.header else ""

    def run(self, library, emulator):
        started = time.monotonic()
        self.checks += self.run_once(True, library, emulator)
        for more in self.header.get("also", "").split():
            self.checks += self.run_once(True, library, emulator, more)
        if "control" in self.header and not emulator:  # the control run tests libc, which needs a real kernel
            self.checks += self.run_once(False, library, emulator)
        self.seconds = time.monotonic() - started


def check_finding_fields(value, line):
    """Checks the fields of a report line that readers rely on."""
    for field in ("kind", "access", "confidence", "address", "thread", "stacks", "detail", "count", "pid", "program",
                  "time", "signature"):
        if field not in value:
            raise Failed(f"report without '{field}': {line[:300]}")
    for stack in ("access", "free", "alloc"):
        if not isinstance(value["stacks"].get(stack), list):
            raise Failed(f"report without stack '{stack}': {line[:300]}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value["time"]):
        raise Failed(f"time '{value['time']}'")


def tail(text, lines=30):
    return "\n".join("  " + line for line in text.strip().splitlines()[-lines:])


# MARK: the library


def published_names():
    names = set(re.findall(r"X\((\w+)\)", PUBLISHED.read_text()))
    names.discard("X")
    return names


def check_exports(checked):
    """The dynamic symbols are exactly those in the table of published functions."""
    wanted, got = published_names(), set()
    # The linker makes wrapped symbols weak if it optimizes (LTO). The loader takes the first definition, weak or not.
    weak = {flag.removeprefix("-Wl,--wrap=") for flag in builds.library_flags("link") if flag.startswith("-Wl,--wrap=")}
    for line in command_output(["nm", "-D", "--defined-only", LIBRARY]).splitlines():
        fields = line.split()
        name, _, version = fields[-1].partition("@")
        got.add(name)
        checked(fields[-2] == "T" or (fields[-2] == "W" and name in weak), f"{name} is of type {fields[-2]}, expected a strong function")
        checked(not version, f"{name} has a version")
    taken = set(re.findall(r" (\w+)(?:@\S+)? \+ 0$", command_output(["readelf", "-rW", LIBRARY]), re.M))
    checked(not weak & taken, f"the library's own calls of {', '.join(sorted(weak & taken))} reach what it publishes")
    for name in sorted(got | wanted):
        checked(name in wanted, f"{name} is exported but not in the table")
        checked(name in got, f"{name} is in the table but not exported")


def check_needed(checked):
    """The library needs only libc and the loader: anything else would be loaded before the program's own libraries."""
    dynamic = command_output(["readelf", "-dW", LIBRARY])
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    checked("libc.so.6" in needed, "libc is not needed")
    for name in needed:
        checked(name == "libc.so.6" or name.startswith("ld-linux"), f"{name} is needed")
    checked("RPATH" not in dynamic and "RUNPATH" not in dynamic, "there is a run path")
    checked("TEXTREL" not in dynamic, "there are text relocations")
    checked(re.search(r"\(SONAME\).*\[libzguard\.so\]", dynamic), "the SONAME is not libzguard.so")


def check_hardening(checked):
    """No executable stack, no segment both writable and executable, read-only relocations, no lazy binding."""
    headers = command_output(["readelf", "-lW", LIBRARY])
    dynamic = command_output(["readelf", "-dW", LIBRARY])
    stack = re.search(r"GNU_STACK\s+(?:0x\w+\s+){5}([RWE ]+?)\s+(?:0|0x\w+)$", headers, re.M)
    checked(stack and "E" not in stack.group(1), "the stack is executable")
    checked("GNU_RELRO" in headers, "no RELRO segment")
    checked("BIND_NOW" in dynamic or re.search(r"FLAGS.*\bNOW\b", dynamic), "not bound at the start")
    for flags in re.findall(r"LOAD\s+(?:0x\w+\s+){5}([RWE ]+?)\s+0x\w+$", headers, re.M):
        checked(not ("W" in flags and "E" in flags), "a segment is writable and executable")


def check_thread_storage(checked):
    """Thread-local storage is small: it comes out of the surplus that the loader reserves for preloaded libraries."""
    headers = command_output(["readelf", "-lW", LIBRARY])
    sizes = [int(size, 16) for size in re.findall(r"TLS\s+(?:0x\w+\s+){4}(0x\w+)", headers)]
    checked(len(sizes) <= 1, "more than one TLS segment")
    for size in sizes:
        checked(size <= TLS_BYTES, f"TLS takes {size} bytes, at most {TLS_BYTES} are wanted")
    relocations = command_output(["readelf", "-rW", LIBRARY])
    checked("DTPMOD" not in relocations and "TLSDESC" not in relocations,
            "TLS of the dynamic model: its first access would allocate")


def check_version_needs(checked):
    """Checks that the library needs no newer glibc than OLDEST_GLIBC. Apart from names in the compiler's start files, only functions that
    this glibc has in libdl and libpthread may be weak references, because a program may run without these two libraries."""
    text = command_output(["readelf", "-VW", LIBRARY])
    versions = {tuple(int(part) for part in version.split(".")) for version in re.findall(r"Name: GLIBC_([\d.]+)", text)}
    checked(versions, "no version needs")
    weak = command_output(["nm", "-D", "--undefined-only", LIBRARY])
    for name in re.findall(r"^\s+w (\S+?)@", weak, re.M):
        checked(name in PARTS_OF_OTHERS or name.startswith(("__gmon_start__", "__cxa_finalize", "_ITM_")), f"weak reference to {name}")
    for version in versions:
        checked(version <= OLDEST_GLIBC, f"GLIBC_{'.'.join(map(str, version))} is needed")
    # A loader before glibc 2.36 skips relocations in the RELR form without a message.
    checked("(RELR" not in command_output(["readelf", "-dW", LIBRARY]), "there are relocations of a newer form")


LIBRARY_CHECKS = {
    "library exports": check_exports,
    "library needs": check_needed,
    "library hardening": check_hardening,
    "library thread storage": check_thread_storage,
    "library symbol versions": check_version_needs,
}


# MARK: the run


class Results:
    def __init__(self, verbose):
        self.verbose = verbose
        self.passed = self.failed = self.skipped = self.checks = 0

    def passes(self, name, checks, seconds):
        self.passed += 1
        self.checks += checks
        if self.verbose:
            print(f"ok    {name} ({checks} checks, {seconds:.1f} s)", flush=True)

    def skips(self, name, why):
        self.skipped += 1
        print(f"skipped: {name}: {why}", flush=True)

    def fails(self, name, why):
        self.failed += 1
        print(f"FAIL  {name}: {why}", flush=True)


def run_library_check(name, check, results):
    problems, count = [], 0

    def checked(holds, problem):
        nonlocal count
        count += 1
        if not holds:
            problems.append(problem)

    started = time.monotonic()
    try:
        check(checked)
    except (Failed, OSError) as error:
        problems.append(str(error))
    if problems:
        results.fails(name, "; ".join(problems))
    else:
        results.passes(name, count, time.monotonic() - started)


def run_programs(programs, results, library, emulator):
    for program in list(programs):
        if reason := program.why_not(emulator):
            results.skips(program.name, reason)
            programs.remove(program)
    if any(program.is_linked for program in programs):
        builds.archive("checked")
    def work(program):
        build_program(program)
        if processors.stage() != processors.BUILD:
            program.run(library, emulator)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        jobs = {pool.submit(work, program): program for program in programs}
        for job in concurrent.futures.as_completed(jobs):
            program = jobs[job]
            try:
                job.result()
                results.passes(program.name, program.checks, program.seconds)
            except (Failed, OSError) as error:
                results.fails(program.name, error)


def main():
    parser = argparse.ArgumentParser(description="Runs the unit tests of the runtime.")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    parser.add_argument("--library", help="only the preload tests, with another library (one that was built with a sanitizer)")
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what passes")
    parser.add_argument("--arch", default=ARCH, help="of the library and the programs; another one's than this machine's run under qemu")
    add_slice_option(parser)
    arguments = parser.parse_args()
    if processors.WHOLE and processors.is_elsewhere(arguments.arch):
        return processors.run(__file__, arguments.arch, [*(["--filter", arguments.filter] if arguments.filter else []), *["-v"] * arguments.verbose])
    if arguments.arch != ARCH:
        try:
            root = SYSROOT or str(roots.make(processors.SUITE, processors.LIBRARY_PACKAGES, processor=processors.DEBIAN[arguments.arch]).path)
        except (emulation.Unavailable, KeyError) as reason:
            print(f"skipped: programs of {arguments.arch}: {reason}")
            return close(0, 0, 1)
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "ZG_TEST_ARCH": arguments.arch, "ZG_SYSROOT": root})
    library = Path(arguments.library).resolve() if arguments.library else LIBRARY
    if not library.exists():
        print(f"runtime.py: error: {library} does not exist\nhint: scripts/build makes it", file=sys.stderr)
        return 1
    results = Results(arguments.verbose)
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, check in LIBRARY_CHECKS.items():
        if arguments.filter in name and not arguments.library and not processors.WHOLE:  # the file is the same on every kernel
            run_library_check(name, check, results)
    programs = []
    for path in sorted(SOURCES.glob("*.c")):
        # The source of another test's library has no main and no header.
        if arguments.filter not in path.name or path.stem.endswith("_library"):
            continue
        program = Program(path)
        try:
            program.read_header()
            if not (arguments.library and program.is_linked):
                programs.append(program)
        except Failed as error:
            results.fails(program.name, error)
    slow = [program for program in programs if "slow" in program.header]
    chosen = arguments.slice.deal(slow)
    programs = [program for program in programs if program not in slow or program in chosen]
    arguments.slice.say(len(chosen), len(slow), "tests that take long")
    if programs:
        try:
            run_programs(programs, results, library, find_emulator())
        except NotHere as reason:
            results.skips(f"{len(programs)} programs", reason)
        except Failed as error:
            results.fails("the runtime's objects", error)
    if arguments.verbose:
        print(f"{results.checks} checks", flush=True)
    if not arguments.filter and not arguments.library:
        processors.record("runtime", "the runtime's own tests", results.passed, results.failed, results.skipped)
    return close(results.passed, results.failed, results.skipped)


if __name__ == "__main__":
    sys.exit(main())
