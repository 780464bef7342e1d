#!/usr/bin/env python3
"""Runs the one-bug programs of Tests/Bugs and the clean programs of Tests/Clean under zguard.

A one-bug program states the expected finding in its header comment, which is its only registration. With -DFIXED the same
file is its corrected twin, which must behave under the runtime as without it, like every clean program.

The header's first line says what the program does; each further line is "// key: value":
  finding       kind of the finding; also the name of the program's folder
  access        expected access; several with '|'
    block         size=, offset=, state=, language=, class=, member=: each field whose value is certain; value "-": the finding lacks the
                  field; without this line the finding must have no block
  address       expected address of the access
  stack-access, stack-free, stack-alloc, stack-previous
                                innermost function of this stack; several with '|'; "~name": function of any frame; "- (reason)": not
                                checked; without this line the finding must not have this stack
  options       ZGUARD_OPTIONS for the run
  exit          exit code of `zguard run`
  confidence    exact or inferred
  detail        name="part of the value", several parts with '|'
    stdout        a line that the program must print
    count         number of findings (default: 1); "1-7" is a range
    libs          further flags for the compiler
  Clean programs may have options and libs, and
    warning       part of a warning that zguard itself may print, because it cannot guard the program
  Both may have
    processor     the only processor on which the program runs, and the reason in parentheses
    qemu-user     reason not to run it under qemu user mode (--arch): what qemu lacks or does differently
    machine       reason not to run it in a whole emulated machine
    static        reason not to link it statically (--static)
    musl          reason not to link it statically with musl (--musl)
    guard-pages   reason not to run it on a kernel without MADV_GUARD_INSTALL (before Linux 6.13, or qemu user mode)
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, processors  # noqa: E402
from Support.checks import Failed, as_shell, close, run_within, said_by_library  # noqa: E402
from Support.environment import ARCH, ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

TIMEOUT_SECONDS = 120  # a program with twenty thousand threads takes long on a busy machine

# With --static, programs are linked with this archive instead of preloading the library. An archive with another malloc follows it in the
# link command, as libmimalloc.a does in Swift's static SDK. The linker must take nothing from that archive: if a program needs a symbol
# that only the second archive defines, malloc is defined twice and linking fails.
STATIC_LIBRARY = ROOT / "build/lib/libzguard.a"
MUSL_LIBRARY = ROOT / "build/lib/libzguard-musl.a"  # with --musl, C programs are linked with this archive and musl
OTHER_ALLOCATOR = TESTS / "Support/other_allocator.c"
COMPILE_FLAGS = ["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-builtin", "-rdynamic", "-Wall", "-Wextra"]
# For each suffix: environment variable that names another compiler, default compiler, flags, and flags that turn off warnings about the
# planted bugs.
LANGUAGES = {
    ".c": ("CC", "gcc", ["-std=gnu17"],
           ["-Wno-free-nonheap-object", "-Wno-infinite-recursion", "-Wno-use-after-free"]),
    ".cpp": ("CXX", "g++", ["-std=gnu++17"],
             ["-Wno-free-nonheap-object", "-Wno-infinite-recursion", "-Wno-use-after-free",
              "-Wno-mismatched-new-delete"]),
    ".swift": ("SWIFTC", "swiftc", ["-swift-version", "6", "-module-name", "Shop", "-g"], []),
}

BUG_KEYS = {
    "finding", "access", "block", "address", "stack-access", "stack-free", "stack-alloc", "stack-previous", "options", "exit",
    "confidence", "detail", "stdout", "count", "libs", "processor", "qemu-user", "machine", "static", "musl", "guard-pages",
}
CLEAN_KEYS = {"options", "libs", "warning", "processor", "qemu-user", "machine", "static", "musl", "guard-pages"}
BLOCK_KEYS = {"size", "offset", "state", "language", "class", "member"}


is_static = False
is_musl = False  # implies is_static


class NotHere(Exception):
    """Raised with the reason why a program is not run."""


class Program:
    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(TESTS))
        self.is_bug = path.parent.parent.name == "Bugs"
        self.header = {}

    def read_header(self):
        lines = self.path.read_text().splitlines()
        if not lines or not lines[0].startswith("// "):
            raise Failed("header: the first line has to say what the program does")
        known = BUG_KEYS if self.is_bug else CLEAN_KEYS
        for line in lines[1:]:
            if not line.startswith("//"):
                break
            key, colon, value = line[2:].strip().partition(": ")
            if not colon or key not in known or key in self.header:
                raise Failed(f"header: cannot read '{line}'")
            self.header[key] = value.strip()
        if self.is_bug:
            for key in ("finding", "stack-access", "exit"):
                if key not in self.header:
                    raise Failed(f"header: no '{key}'")
            if self.header["finding"] != self.path.parent.name:
                raise Failed(f"header: finding '{self.header['finding']}' in folder '{self.path.parent.name}'")

    def why_not(self):
        """Reason why the program is not run on this machine; empty if it is run."""
        processor, _, reason = self.header.get("processor", ARCH).partition(" ")
        if processor != ARCH:
            return f"only for {processor} {reason}"
        if "profile=mte" in self.header.get("options", "") and not processors.has_tags():
            return "there are no memory tags"
        if is_static and "static" in self.header:
            return f"{self.header['static']}"
        if is_musl and "musl" in self.header:
            return f"{self.header['musl']}"
        if "guard-pages" in self.header and not processors.has_guard_pages():
            return f"no guard pages: {self.header['guard-pages']}"
        emulator = "machine" if processors.WHOLE else "qemu-user"
        return f"{emulator}: {self.header[emulator]}" if processors.stage() and emulator in self.header else ""

    def option_arguments(self):
        return [word for option in self.header.get("options", "").split(":") if option for word in ("-o", option)]


# MARK: building and running


def other_allocator(directory):
    """Builds the archive with another malloc, which the linker must not use; returns its path."""
    archive = directory / "libother.a"
    builds.compiled(archive, ["sh", "-c", 'gcc -w -c -fno-builtin -o "$0.o" "$1" && rm -f "$0" && ar rcs "$0" "$0.o"', str(archive), str(OTHER_ALLOCATOR)], [OTHER_ALLOCATOR])
    return archive


def build(program, directory, fixed, unguarded=False):
    """Compiles the program if its executable is out of date; returns the executable. `unguarded`: with --static, links the executable
    without the runtime."""
    variable, compiler, flags, bug_flags = LANGUAGES[program.path.suffix]
    kind = ("-musl" if is_musl else "-static" if is_static else "") + "-plain" * (is_static and unguarded)
    library = MUSL_LIBRARY if is_musl else STATIC_LIBRARY
    if is_musl:
        variable, compiler = "MUSL_CC", "musl-gcc"
        flags = [*flags, "-idirafter", str(MUSL_LIBRARY.parent / "musl-include")]  # the kernel's headers
    executable = directory / (program.name.replace(".", "-") + "-fixed" * fixed + kind)
    command = [os.environ.get(variable, compiler), *flags, *([] if compiler == "swiftc" else COMPILE_FLAGS)]
    command += bug_flags if program.is_bug else []
    command += ["-DFIXED"] if fixed else []
    command += ["-o", str(executable), str(program.path), *program.header.get("libs", "").split()]
    if is_static:
        command = [word for word in command if word != "-rdynamic"]
        command += ["-static-executable" if compiler == "swiftc" else "-static", *([] if unguarded else ["-Xlinker", "-u", "-Xlinker", "malloc", library, other_allocator(directory)])]
    return builds.compiled(executable, command, [program.path, TESTS / "Bugs/bug.h", *[library] * is_static])


def run(what, command):
    """Runs a command in a session of its own; returns exit code (128 + signal), stdout, stderr."""
    code, out, err = run_within(TIMEOUT_SECONDS, command, text=False, env=scrubbed())
    if code is None:
        raise Failed(f"{what}: still running after {TIMEOUT_SECONDS} s")
    return as_shell(code), out, processors.without_emulator(err)


def run_guarded(what, zguard, program, executable, first_options=()):
    """Runs the executable under `zguard run`; if `zguard` is None, only preloads the library. Returns exit code, stdout, stderr, findings.
    Options of the program's header override `first_options`."""
    if not zguard:
        code, *rest = processors.run_preloaded([executable], program.header.get("options", "").split(":"), TIMEOUT_SECONDS)
        if code is None:
            raise Failed(f"{what}: still running after {TIMEOUT_SECONDS} s")
        return code, *rest
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        report = Path(directory) / "report.jsonl"
        command = [zguard, "run", "--quiet", "--report", report, "--format", "json", *first_options, *program.option_arguments(), "--"]
        code, out, err = run(what, [*command, executable])
        text = report.read_text() if report.exists() else ""
    try:
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        findings = [line for line in lines if line["schema"] == "zguard.finding/1"]
    except ValueError as error:
        raise Failed(f"{what}: report is not JSON lines: {error}") from None
    return code, out, err, findings


# MARK: expectations


def plain_name(function):
    """A function's name without parameters, template arguments, and suffixes that compiler or linker append."""
    if function.startswith("_Z"):
        try:
            function = subprocess.run(["c++filt", function], stdout=subprocess.PIPE, text=True).stdout.strip()
        except OSError:
            pass
    name = function.replace("(anonymous namespace)", "{anonymous}").replace("operator()", "operator{}")
    name = re.sub(r"@.*|\.(part|constprop|isra|cold)\b.*|\[abi:\w+\]", "", name)
    if "operator<" not in name and "operator>" not in name and "operator-" not in name:
        while True:
            shorter = re.sub(r"<[^<>]*>", "", name)
            if shorter == name:
                break
            name = shorter
    return name.partition("(")[0].strip()


def is_named(frame, wanted):
    name = plain_name(frame.get("function") or "")
    return name == wanted or name.endswith("::" + wanted) or name.endswith(" " + wanted)


def stack_text(stack):
    names = [plain_name(frame.get("function") or "") or "?" for frame in stack]
    return " < ".join(names[:5] + ["..."] * (len(names) > 5)) or "(empty)"


def check_stack(problems, finding, which, expected):
    stack = (finding.get("stacks") or {}).get(which) or []
    if expected is None:
        if stack:
            problems.append(f"{which} stack: expected none, got {stack_text(stack)}")
        return
    if expected.startswith("-"):
        return
    # A call of an address without code: the innermost frame is that address, so check the caller.
    if finding.get("access") == "call" and which == "access" and stack and not stack[0].get("function"):
        stack = stack[1:]
    for wanted in expected.split("|"):
        if any(is_named(frame, wanted.lstrip("~")) for frame in (stack if wanted.startswith("~") else stack[:1])):
            return
    problems.append(f"{which} stack: expected {expected}, got {stack_text(stack)}")


def check_block(problems, finding, expected):
    block = finding.get("block") or {}
    if expected is None:
        if block:
            problems.append(f"block: expected none, got {json.dumps(block)}")
        return
    if not block:
        problems.append(f"block: expected {expected}, got none")
        return
    for pair in expected.split():
        key, _, value = pair.partition("=")
        if key not in BLOCK_KEYS:
            raise Failed(f"header: unknown block key '{key}'")
        if str(block.get(key, "-")) not in value.split("|"):
            problems.append(f"block {key}: expected {value}, got {block.get(key, '-')}")
    numbers = finding.get("address"), block.get("start"), block.get("offset")
    if finding.get("confidence") == "exact" and None not in numbers:
        address, start, offset = int(numbers[0], 16), int(numbers[1], 16), numbers[2]
        if address != start + offset:
            problems.append(f"address: {address:#x} is not block start {start:#x} + offset {offset}")


def check_finding(finding, header):
    problems = []
    if finding.get("schema") != "zguard.finding/1":
        problems.append(f"schema: expected zguard.finding/1, got {finding.get('schema')}")
    for key, field in (("finding", "kind"), ("access", "access"), ("confidence", "confidence")):
        if key in header and str(finding.get(field)) not in header[key].split("|"):
            problems.append(f"{field}: expected {header[key]}, got {finding.get(field)}")
    if "address" in header and int(finding.get("address") or "-1", 16) != int(header["address"], 16):
        problems.append(f"address: expected {header['address']}, got {finding.get('address')}")
    check_block(problems, finding, header.get("block"))
    for which in ("access", "free", "alloc", "previous"):
        check_stack(problems, finding, which, header.get("stack-" + which))
    detail = finding.get("detail") or {}
    for key, parts in re.findall(r'(\w+)="([^"]*)"', header.get("detail", "")):
        if not any(part in str(detail.get(key, "")) for part in parts.split("|")):
            problems.append(f"detail {key}: expected {parts}, got {detail.get(key)}")
    return problems


def check_bug(zguard, program, directory):
    header, problems = program.header, []
    executable = build(program, directory, fixed=False)
    run("unguarded", [build(program, directory, fixed=False, unguarded=True)])  # the program must end, with any status
    code, out, err, findings = run_guarded("guarded", zguard, program, executable)
    if code != int(header["exit"]):
        problems.append(f"exit: expected {header['exit']}, got {code}")
    least, _, most = header.get("count", "1").partition("-")
    count = sum(finding.get("count", 1) for finding in findings)
    if not int(least) <= count <= int(most or least):
        problems.append(f"findings: expected {header.get('count', '1')}, got {count}")
    for finding in findings:
        problems += check_finding(finding, header)
    if "stdout" in header and header["stdout"] not in out.decode(errors="replace").splitlines():
        problems.append(f"stdout: expected a line '{header['stdout']}', got {out[-200:]!r}")
    if said_by_library(err):
        problems.append(f"stderr: expected nothing of zguard, got {err[-300:]!r}")
    return problems


def without_warnings(err, allowed):
    lines = err.splitlines(keepends=True)
    return b"".join(line for line in lines if not (line.startswith(b"zguard: warning: ") and allowed.encode() in line))


def check_clean(zguard, program, directory):
    """A corrected twin or a clean program must behave the same with and without the runtime, and have no finding."""
    label = "twin " if program.is_bug else ""
    executable = build(program, directory, fixed=program.is_bug)
    plain = run(label + "unguarded", [build(program, directory, fixed=program.is_bug, unguarded=True)])
    *guarded, findings = run_guarded(label + "guarded", zguard, program, executable)
    if "warning" in program.header:
        guarded[2] = without_warnings(guarded[2], program.header["warning"])
    problems = []
    for what, expected, got in zip(("exit", "stdout", "stderr"), plain, guarded):
        if expected != got:
            if isinstance(got, bytes):
                expected, got = repr(expected[-300:]), repr(got[-300:])
            problems.append(f"{label}{what}: unguarded {expected}, guarded {got}")
    for finding in findings:
        top = stack_text((finding.get("stacks") or {}).get("access") or [])
        problems.append(f"{label}findings: expected none, got {finding.get('kind')} in {top}")
    return problems


def check_in_fence(zguard, program, directory):
    """Profile fence must find each bug that the default profile finds. Kind and access may differ, because profile fence may detect the
    bug earlier."""
    executable = build(program, directory, fixed=False)
    *_, findings = run_guarded("profile fence", zguard, program, executable, ("-o", "profile=fence"))
    if findings:
        return []
    *_, findings = run_guarded("default", zguard, program, executable)
    return ["profile fence: no finding, unlike the default"] if findings else []


def check(zguard, program, directory, in_fence):
    """Checks one program; returns a list of problems, or a string with the reason why the program is not run."""
    try:
        program.read_header()
        if reason := program.why_not():
            raise NotHere(reason)
        if processors.stage() == processors.BUILD:
            for fixed in {program.is_bug, False}:
                build(program, directory, fixed)
            return []
        if in_fence:
            return check_in_fence(zguard, program, directory) if program.is_bug else "no bug"
        problems = check_bug(zguard, program, directory) if program.is_bug else []
        return problems + check_clean(zguard, program, directory)
    except Failed as failure:
        return [str(failure)]
    except NotHere as reason:
        return str(reason)


def discover(substring):
    patterns = [folder + suffix for folder in ("Bugs/*/*", "Clean/*") for suffix in LANGUAGES]
    programs = [Program(path) for pattern in patterns for path in TESTS.glob(pattern)]
    return sorted((program for program in programs if substring in program.name), key=lambda program: program.name)


def main():
    parser = argparse.ArgumentParser(description="Runs the one-bug and the clean programs under zguard.")
    parser.add_argument("--filter", default="", metavar="SUBSTR", help="only programs whose path contains SUBSTR")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="programs at a time (default: 2)")
    parser.add_argument("--fence", action="store_true", help="only whether profile fence finds what the default finds")
    parser.add_argument("--static", action="store_true", help="link the programs statically, with libzguard.a")
    parser.add_argument("--musl", action="store_true", help="link the C programs statically with musl and libzguard-musl.a")
    parser.add_argument("--list", action="store_true", help="list the programs and end")
    parser.add_argument("--zguard", type=Path, default=None if processors.stage() and not processors.WHOLE else ZGUARD, metavar="PATH",
                        help="with --arch: one for that processor; where there is none the library is preloaded without it")
    parser.add_argument("--build", type=Path, default=processors.BUILDS, metavar="DIRECTORY", help="for executables")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the programs that pass, too")
    add_slice_option(parser)
    processors.add_option(parser)
    arguments = parser.parse_args()
    global is_static, is_musl
    is_musl = arguments.musl
    is_static = arguments.static or is_musl
    if is_static:
        builds.run_compiler(["scripts/build", "--musl" if is_musl else "--static"], cwd=ROOT)

    every = [program for program in discover(arguments.filter) if not is_musl or program.path.suffix == ".c"]
    programs = arguments.slice.choose(every, lambda program: program.name, lambda program: [program.path.parent])
    arguments.slice.say(len(programs), len(every), "programs")
    if arguments.list:
        for program in programs:
            print(program.name)
        return 0
    if processors.is_elsewhere(arguments.arch):
        zguard = ["--zguard", str(arguments.zguard)] if arguments.zguard != ZGUARD else []
        return processors.run(__file__, arguments.arch, ["--filter", arguments.filter, "--jobs", str(arguments.jobs), *zguard, *["-v"] * arguments.verbose])
    if arguments.zguard and not os.access(arguments.zguard, os.X_OK):
        parser.error(f"cannot run '{arguments.zguard}'")

    # Some programs overflow their stack and dump core: set limits for both, independently of the caller's limits.
    hard_stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard_stack))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    passed = failed = skipped = 0
    of_kind = collections.defaultdict(lambda: [0, 0, 0])
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        zguard, directory = arguments.zguard and arguments.zguard.resolve(), arguments.build.resolve()
        for program, problems in zip(programs, pool.map(lambda p: check(zguard, p, directory, arguments.fence), programs)):
            kind = of_kind["one-bug programs" if program.is_bug else "clean programs"]
            kind[2 if isinstance(problems, str) else 1 if problems else 0] += 1
            if isinstance(problems, str):
                skipped += 1
                print(f"skipped: {program.name}: {problems}", flush=True)
            elif problems:
                failed += 1
                print(f"FAIL {program.name}", *problems, sep="\n     ", flush=True)
            else:
                passed += 1
                if arguments.verbose:
                    print(f"ok   {program.name}", flush=True)
    for what, counts in of_kind.items() if not arguments.filter and arguments.slice.is_whole else ():
        processors.record("bugs", what, *counts)
    return close(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
