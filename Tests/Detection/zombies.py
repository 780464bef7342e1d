#!/usr/bin/env python3
"""Uses freed objects in every way that Swift and C++ have, and checks what zguard finds: the access matrix.

The cases are functions of Tests/Detection/Zombies, built into one program per configuration. The comment above a case is its only
registration. Its lines are "// key: value"; where a value may be one of several, '|' separates them:
  case     what happens; the first line
  class    the block's class; several with '|'; "-": none
  finds    kind of the finding (default: use-after-free)
  access   expected access; several with '|'
  confidence  expected confidence (default: exact)
  member   method or property; several with '|'; "-": none (default); "*": not checked
  detail   name=value; "*": not checked
  frame    function in which the access happens (default: the case itself); "*": not checked
  count    number of findings (default: 1); "1-2" is a range
  free     "none": the finding has no free stack (the object was never freed)
  alloc    "*": not checked
  options  ZGUARD_OPTIONS for the run
  on C     key=value; key=value (reason): differences in configuration C, and in those whose names begin with "C-".
           "on C, Swift 6.0": only with this compiler version, because its optimizer decides which accesses remain.
           "on C, aarch64": only on this processor. "silent=-": here the case is detectable; "absent=": here the case is not run
  silent   why the access cannot be detected; then findings are not required
  needs    "Foundation": the case is not built without Foundation
  clean    the case has no bug: no finding, and the same behavior as without the runtime
In the configurations whose name ends in "-first" the objects of the case are the first that the process frees. They are built without
Foundation, which frees objects before main begins. In the others, main frees one object before the case.
Each case that is not clean runs three times without the runtime, to know what the bug does: with freed objects, with their memory
reused, and with the objects kept (the same program without its bug). Under the runtime, the run with freed objects must give the
stated finding, and the run with kept objects must behave as without the runtime.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, compatibility, processors  # noqa: E402
from Support.checks import Failed, as_shell, close, run_within, said_by_library  # noqa: E402
from Support.environment import ARCH, HERE, ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Detection/Zombies"
BARE = "bare/Tests/Detection/Zombies"  # check_stack looks for "Tests/Detection/Zombies/" in the paths of frames
TIMEOUT_SECONDS = 10
UNGUARDED_TIMEOUT_SECONDS = 3
LEAST_DETECTED = 0.97
LEAST_NAMED = 0.80  # least share of findings that name the used member, among cases that use a member, in debug builds
ROOT_SECONDS = 3600

# Merging of similar functions is off, so that each stack names its own case.
SWIFT_FLAGS = ["-swift-version", "6", "-warnings-as-errors", "-module-name", "Shop", "-g", "-wmo",
               "-Xllvm", "-swiftmergefunc-threshold=0", "-import-objc-header", str(SOURCES / "runtime.h")]
CXX_FLAGS = ["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror"]
CASE = re.compile(r"// case: .*\n(?P<header>(?://.*\n)*)(?:@inline\(never\)\nfunc|CASE static void) "
                  r"(?P<name>\w+)\((?:void)?\)(?P<async> async)?(?P<throws> throws)? ")
KEYS = {"class", "finds", "access", "confidence", "member", "detail", "frame", "free", "alloc", "count", "options", "silent",
        "clean", "needs"}


@functools.cache
def swift_version():
    """Version of the compiler that builds the cases, such as "6.3"."""
    said = os.environ.get("ZG_TEST_SWIFT") or builds.run_compiler([SWIFTC, "--version"])
    return (re.findall(r"(?:Swift version |^)(\d+\.\d+)", said) or [""])[0]


class Configuration:
    """How a program is built. `copy_of`: name of the configuration whose program is copied and stripped of symbols.
    `plain_of`: name of the configuration that shows what the program does unguarded, because the program of this configuration
    contains the runtime.
    `is_first`: the object of the case is the first that the process frees."""

    def __init__(self, name, language, compiler, flags, copy_of=None, is_first=False, plain_of=None):
        self.name, self.language, self.compiler, self.flags, self.copy_of = name, language, compiler, flags, copy_of
        self.plain_of = plain_of
        self.is_stripped, self.is_first = copy_of is not None, is_first
        self.is_optimized = "-O0" not in flags and "-Onone" not in flags

    def as_first(self):
        copy_of = self.copy_of and f"{self.copy_of}-first"
        return Configuration(f"{self.name}-first", self.language, self.compiler, self.flags, copy_of, True)

    def takes(self, case):
        return case.language == self.language and (case.is_bare or not self.is_first) and \
            "absent" not in case.expected(self)


# Factor for time limits: emulated programs take ten times as long as native ones.
SLOW = 10 if ARCH != HERE else 1

SWIFTC, GCC, CLANG, STRIP = (os.environ.get(*pair) for pair in (("SWIFTC", "swiftc"), ("CXX", "g++"), ("CLANGXX", "clang++"), ("STRIP", "strip")))
SWIFT_CONFIGURATIONS = [
    Configuration("Onone-dynamic", "swift", SWIFTC, ["-Onone"]),
    Configuration("Onone-static", "swift", SWIFTC, ["-Onone", "-static-stdlib"]),
    Configuration("O-dynamic", "swift", SWIFTC, ["-O"]),
    Configuration("O-static", "swift", SWIFTC, ["-O", "-static-stdlib"]),
    Configuration("O-static-stripped", "swift", SWIFTC, ["-O", "-static-stdlib"], copy_of="O-static"),
]
# Static executables with libzguard.a.
STATIC_LIBRARY = ROOT / "build/lib/libzguard.a"
LINKED = ["-static-executable", "-Xlinker", "-u", "-Xlinker", "malloc", str(STATIC_LIBRARY)]
LINKED_CONFIGURATIONS = [] if processors.stage() or ARCH != HERE else [
    Configuration("Onone-static-linked", "swift", SWIFTC, ["-Onone", *LINKED], plain_of="Onone-static"),
    Configuration("O-static-linked", "swift", SWIFTC, ["-O", *LINKED], plain_of="O-static"),
]
CONFIGURATIONS = [
    *SWIFT_CONFIGURATIONS,
    *LINKED_CONFIGURATIONS,
    *[each.as_first() for each in SWIFT_CONFIGURATIONS[1:]],
    Configuration("clang-O0", "c++", CLANG, ["-O0"]),
    Configuration("clang-O2", "c++", CLANG, ["-O2"]),
    Configuration("gcc-O0", "c++", GCC, ["-O0"]),
    Configuration("gcc-O2", "c++", GCC, ["-O2"]),
]
# Configurations in which Swift's crash handler is tested. With the static standard library the runtime's handler is installed
# first, and Swift does not install its own.
CRASH_REPORTS = {"Onone-dynamic", "O-dynamic"}


class Case:
    def __init__(self, language, path, match):
        self.language, self.path, self.name = language, path, match["name"]
        self.is_async, self.throws = bool(match["async"]), bool(match["throws"])
        self.header, self.differences = {}, []
        for line in match["header"].splitlines():
            key, colon, value = line[2:].strip().partition(":")
            value = value.strip()
            if key.startswith("on ") and re.fullmatch(r".+ \(.+\)", value):
                pairs = [pair.strip().split("=", 1) for pair in value.rsplit(" (", 1)[0].split(";")]
                name, _, where = key[3:].partition(", ")
                self.differences.append((name, where.removeprefix("Swift "), dict(pairs)))
            elif colon and key in KEYS and key not in self.header:
                self.header[key] = value
            else:
                raise Failed(f"{path.name}: {self.name}: cannot read '{line}'")
        if "clean" not in self.header and ("class" not in self.header or not {"access", "silent"} & set(self.header)):
            raise Failed(f"{path.name}: {self.name}: a case needs a class, and an access or why it is silent")

    @classmethod
    def named(cls, name, header):
        """A case that is not a function of the sources."""
        case = cls.__new__(cls)
        case.language, case.name, case.header, case.differences = "swift", name, header, []
        return case

    @property
    def is_bare(self):
        """Whether the case is part of the configurations that are built without Foundation."""
        return self.language == "swift" and not {"clean", "needs"} & set(self.header)

    def expected(self, configuration):
        expected = {"finds": "use-after-free", "confidence": "exact", "member": "-", "frame": self.name, **self.header}
        for name, where, changes in self.differences:
            if configuration.name == name or configuration.name.startswith(name + "-"):
                if where in ("", ARCH) or where == swift_version():
                    expected.update(changes)
        if expected.get("silent") == "-":
            del expected["silent"]
        return expected


def read_cases():
    cases = []
    for path in sorted(SOURCES.iterdir()):
        language = {".swift": "swift", ".cpp": "c++"}.get(path.suffix)
        text = path.read_text() if language else ""
        found = [Case(language, path, match) for match in CASE.finditer(text)]
        if len(found) != len(re.findall(r"^// case: ", text, re.MULTILINE)):
            raise Failed(f"{path.name}: a case is not followed by its function")
        cases += found
    twice = [name for name, count in collections.Counter(case.name for case in cases).items() if count > 1]
    if twice:
        raise Failed(f"two cases have the name {twice[0]}")
    return cases


# MARK: building


def swift_table(cases):
    """Source of Cases.swift, a generated function that runs a case by its name."""
    def function(signature, chosen, is_async):
        lines = [f"func {signature} -> Bool {{"]
        for case in chosen:
            call = f'{"try " * case.throws}{"await " * is_async}{case.name}()'
            lines += [f'    if isArgument(place, "{case.name}") {{', f"        {call}", "        return true", "    }"]
        return lines + ["    return false", "}"]
    plain = function("runCase(_ place: Int) throws", [case for case in cases if not case.is_async], False)
    tasks = function("runAsyncCase(_ place: Int) async throws", [case for case in cases if case.is_async], True)
    return "\n".join([*plain, *tasks, ""])


def build(configuration, directory, cases):
    """Builds the program of the configuration if it is out of date, and returns its path."""
    folder = directory / configuration.name
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "shop"
    if configuration.copy_of:
        sources = [directory / configuration.copy_of / "shop"]
        command = [STRIP, "-o", program, sources[0]]
    elif configuration.language == "swift":
        own, flags = (directory / BARE, []) if configuration.is_first else (SOURCES, ["-D", "FOUNDATION"])
        table = own / "Cases.swift" if configuration.is_first else directory / "Cases.swift"
        calls = builds.compiled(directory / "runtime.o", [GCC, "-xc", "-O2", "-c", SOURCES / "runtime.c", "-o", directory / "runtime.o"],
                                [SOURCES / "runtime.c"])
        sources = [*sorted(path for path in own.glob("*.swift") if path != table), table, calls, SOURCES / "runtime.h"]
        command = [configuration.compiler, *SWIFT_FLAGS, *flags, *configuration.flags, *sources[:-1], "-o", program]
        sources += [STATIC_LIBRARY] if configuration.plain_of else []
    else:
        sources = [SOURCES / "cplusplus.cpp", directory / "cases.inc"]
        command = [configuration.compiler, *CXX_FLAGS, f"-I{directory}", *configuration.flags, sources[0]]
        command += ["-o", program]
    # Run in the folder, because swiftc leaves files in its working directory.
    return builds.compiled(program, command, sources, cwd=folder)


def write_bare(folder, cases):
    """Writes the sources without Foundation. Empty lines replace the cases that need Foundation, so that line numbers stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in SOURCES.glob("*.swift"):
        text = path.read_text().replace("\nimport Foundation\n", "\nimport Glibc\n")
        for match in reversed(list(CASE.finditer(text))):
            if not Case("swift", path, match).is_bare:
                end = text.index("\n}\n", match.end())
                text = text[:match.start()] + "\n" * text.count("\n", match.start(), end) + text[end + 2:]
        builds.write_if_different(folder / path.name, text)
    builds.write_if_different(folder / "Cases.swift", swift_table([case for case in cases if case.is_bare]))


def build_all(configurations, directory, cases):
    directory.mkdir(parents=True, exist_ok=True)
    builds.write_if_different(directory / "Cases.swift", swift_table([case for case in cases if case.language == "swift"]))
    if any(each.is_first for each in configurations):
        write_bare(directory / BARE, cases)
    entries = [f'{{"{case.name}", {case.name}}},\n' for case in cases if case.language == "c++"]
    builds.write_if_different(directory / "cases.inc", "".join(entries))
    by_name = {configuration.name: configuration for configuration in CONFIGURATIONS}
    compiled = {configuration.copy_of or configuration.name for configuration in configurations}
    compiled |= {configuration.plain_of for configuration in configurations if configuration.plain_of}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: build(by_name[name], directory, cases), sorted(compiled)))
    return {name: build(by_name[name], directory, cases) for each in configurations for name in (each.name, each.plain_of) if name}


# MARK: running


def run(command, seconds, backtrace="enable=no"):
    """Runs a command in a session of its own; returns exit code (128 + signal; None: timeout), stdout, stderr."""
    code, out, err = run_within(seconds * SLOW, command, text=False, env=scrubbed(SWIFT_BACKTRACE=backtrace))
    return (None, b"", b"") if code is None else (as_shell(code), out, processors.without_emulator(err))


def run_guarded(zguard, command, options="", backtrace="enable=no"):
    if not zguard:
        code, *rest = processors.run_preloaded(command, ["on_finding=abort", *options.split(":")], TIMEOUT_SECONDS * SLOW, SWIFT_BACKTRACE=backtrace)
        return (code, *rest) if code is not None else (None, b"", b"", [])
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        report = Path(directory) / "report.jsonl"
        words = [zguard, "run", "--quiet", "--report", report, "--format", "json", "-o", "on_finding=abort"]
        for option in filter(None, options.split(":")):
            words += ["-o", option]
        code, out, err = run([*words, "--", *command], TIMEOUT_SECONDS, backtrace=backtrace)
        text = report.read_text() if report.exists() else ""
    try:
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        return code, out, err, [line for line in lines if line["schema"] == "zguard.finding/1"]
    except ValueError as error:
        return code, out, err, [{"kind": f"a report that is no JSON lines: {error}"}]


def behaviour(program, case, good):
    """Effect of the bug without the runtime: "crashes", "misbehaves" or "silent". `good`: output of the program without its bug."""
    worst = "silent"
    for fate in ("--freed", "--reused"):
        code, out, _ = run([program, fate, case.name], UNGUARDED_TIMEOUT_SECONDS)
        if code is not None and code > 128:
            return "crashes"
        if code != 0 or out != good:
            worst = "misbehaves"
    return worst


# MARK: expectations


def is_one_of(value, expected):
    return (value or "-") in expected.split("|")


def names_function(frame, names):
    """Whether the frame is in one of these functions or in a closure of one; names may be regular expressions."""
    return any(re.search(rf"\b{name}[(<]", frame.get("function") or "") for name in names)


def stack_text(stack):
    names = [(frame.get("function") or "?")[:60] for frame in stack]
    return " < ".join(names[:8] + ["..."] * (len(names) > 8)) or "(empty)"


def check_stack(problems, configuration, finding, which, names):
    stack = (finding.get("stacks") or {}).get(which) or []
    if not stack:
        problems.append(f"{which} stack: expected {names[0]}, got none")
        return
    if configuration.is_stripped:
        return
    # Skip frames of the classes' own initializers and accessors, which a case does not name.
    for frame in stack:
        if names_function(frame, names):
            return
        path, function = frame.get("file") or "", frame.get("function") or ""
        if configuration.is_optimized or configuration.language != "swift" or "Tests/Detection/Zombies/" not in path:
            continue
        if not path.endswith("Models.swift") and not re.search(r"__(de)?allocating_(de)?init", function):
            break
    problems.append(f"{which} stack: expected {names[0]}, got {stack_text(stack)}")


def check_finding(configuration, finding, expected):
    problems = []
    block, detail = finding.get("block") or {}, finding.get("detail") or {}
    if not is_one_of(finding.get("kind"), expected["finds"]):
        problems.append(f"kind: expected {expected['finds']}, got {finding.get('kind')}")
    if not is_one_of(finding.get("access"), expected["access"]):
        problems.append(f"access: expected {expected['access']}, got {finding.get('access')}")
    # In a statically linked program, a call of the Swift runtime looks like a call of a program function, which might not return. So the
    # confidence is "inferred" if the member is found behind such a call.
    is_before = finding.get("access") in ("retain", "cast")  # the member is found in the code that follows
    is_behind = "static" in configuration.name and is_before and block.get("member")
    if is_behind and expected["confidence"] == "exact":
        expected = {**expected, "confidence": "exact|inferred"}
    for key, value in (("confidence", finding.get("confidence")), ("class", block.get("class"))):
        if not is_one_of(value, expected[key]):
            problems.append(f"{key}: expected {expected[key]}, got {value}")
    if expected["class"] != "-" and block.get("language") != configuration.language:
        problems.append(f"language: expected {configuration.language}, got {block.get('language')}")
    member = block.get("member")
    if configuration.language == "swift" and expected["member"] != "*" and not is_one_of(member, expected["member"]):
        # Without symbols a vtable slot has a number but no method name, and the member that is used after a retain or cast is not found.
        is_call = finding.get("access") == "call" and "slot" in detail
        if not (configuration.is_stripped and not member and (is_call or is_before)):
            problems.append(f"member: expected {expected['member']}, got {member}")
    key, _, value = expected.get("detail", "*").partition("=")
    if key != "*" and not configuration.is_stripped and str(detail.get(key)) != value:
        problems.append(f"detail {key}: expected {value}, got {detail.get(key)}")
    if expected["finds"] != "write-after-free" and expected["frame"] != "*":
        check_stack(problems, configuration, finding, "access", expected["frame"].split("|"))
    if expected.get("free") != "none":
        check_stack(problems, configuration, finding, "free", [r"drop\w*"])
    if expected.get("alloc") != "*":
        check_stack(problems, configuration, finding, "alloc", [r"make\w*"])
    if expected["finds"] == "exclusivity" and not configuration.is_stripped:
        check_stack(problems, configuration, finding, "previous", [expected["frame"], "adjust", "change"])
    return problems


class Result:
    def __init__(self, configuration, case):
        self.configuration, self.case = configuration, case
        self.behaviour, self.is_detected, self.is_silent, self.problems = None, False, False, []
        self.touches_member, self.names_member = False, False  # whether the case uses a member of the class, and the finding names it


def check_bug(zguard, configuration, program, plain_program, case, good):
    result, expected = Result(configuration, case), case.expected(configuration)
    result.is_silent = "silent" in expected
    if not configuration.is_first:
        result.behaviour = behaviour(plain_program, case, good)
    command = [program, "--first" if configuration.is_first else "--freed", case.name]
    code, _, err, findings = run_guarded(zguard, command, expected.get("options", ""))
    if code is None:
        result.problems.append(f"still running after {TIMEOUT_SECONDS} s")
    if said_by_library(err):
        result.problems.append(f"stderr: expected nothing of zguard, got {err[-300:]!r}")
    least, _, most = ("0", "", "") if result.is_silent else expected.get("count", "1").partition("-")
    if not int(least) <= len(findings) <= int(most or least):
        kinds = [str(finding.get("kind")) for finding in findings]
        result.problems.append(" ".join([f"findings: expected {least}, got {len(findings)}", *kinds, f"(exit {code})"]))
    for finding in [] if result.is_silent else findings[:1]:
        result.problems += check_finding(configuration, finding, expected)
        name = (finding.get("block") or {}).get("class")
        kinds = ("use-after-free", "write-after-free", "double-free", "exclusivity")
        members = set(case.header.get("member", "-").split("|")) - {"-", "*"}
        result.touches_member = bool(members)
        result.names_member = (finding.get("block") or {}).get("member") in members
        result.is_detected = finding.get("kind") in kinds and is_one_of(name, expected["class"])
    return result


LOOP = 'program=$1; shift; for name; do "$program" --kept "$name"; echo "$name ended with $?"; done'


def outputs(text):
    """Parses the output of LOOP: {case: (exit code, output)}."""
    parts = re.split(rb"(\w+) ended with (\d+)\n", text)
    return dict(zip(parts[1::3], zip(parts[2::3], parts[0::3])))


def check_clean(zguard, configuration, program, plain_program, cases):
    """Runs cases without their bugs, and clean cases: same behavior with and without the runtime, and no finding.

    Returns the results, and the output of each case without the runtime.
    """
    def command(called):
        return ["sh", "-c", LOOP, "sh", called, *[case.name for case in cases]]
    plain = run(command(plain_program), 6 * TIMEOUT_SECONDS)
    *guarded, findings = run_guarded(zguard, command(program))
    expected, got, results = outputs(plain[1]), outputs(guarded[1]), []
    for case in cases:
        result, key = Result(configuration, case), case.name.encode()
        if expected.get(key, (None,))[0] != b"0":
            result.problems.append(f"without its bug, unguarded: {expected.get(key)}")
        elif expected[key] != got.get(key):
            result.problems.append(f"without its bug: unguarded {expected[key]}, guarded {got.get(key)}")
        results.append(result)
    for finding in findings:
        access = (finding.get("stacks") or {}).get("access") or []
        results[-1].problems.append(f"without the bugs: {finding.get('kind')} in {stack_text(access)}")
    if plain[2] != guarded[2]:
        results[-1].problems.append(f"stderr: unguarded {plain[2][-200:]!r}, guarded {guarded[2][-200:]!r}")
    return results, {case.name: expected.get(case.name.encode(), (b"", b""))[1] for case in cases}


def check_crash_report(zguard, configuration, program, case):
    """Swift's crash handler reads the memory around the fault: its report must follow the finding and cause no further finding."""
    result = Result(configuration, case)
    command = [program, "--freed", case.name]
    _, _, err, findings = run_guarded(zguard, command, backtrace="enable=yes,color=no,interactive=no")
    if len(findings) != 1:
        tops = [stack_text((finding.get("stacks") or {}).get("access") or []) for finding in findings]
        result.problems.append(f"with Swift's crash report: expected 1 finding, got {len(findings)}: {'; '.join(tops)}")
    if b"Program crashed" not in err:
        result.problems.append(f"with Swift's crash report: expected it on stderr, got {err[-200:]!r}")
    return result


PLUGIN = """public class Cart {
    var total = 1
    public func add(_ price: Int) { total += price }
}
@inline(never) @_optimize(none) func makeCart() -> UnsafeRawPointer { UnsafeRawPointer(Unmanaged.passRetained(Cart()).toOpaque()) }
@inline(never) @_optimize(none) func dropCart(_ cart: UnsafeRawPointer) { Unmanaged<AnyObject>.fromOpaque(cart).release() }
@_cdecl("used") public func used() {
    let cart = makeCart()
    dropCart(cart)
    Unmanaged<Cart>.fromOpaque(cart)._withUnsafeGuaranteedRef { $0.add(1) }
}
"""
HOST = """#include <dlfcn.h>
int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : 0;
    void (*used)(void) = library ? (void (*)(void))dlsym(library, "used") : 0;
    if (!used) return 2;
    used();
    return 0;
}
"""


def build_plugins(directory):
    """Builds the C program and a Swift library per configuration; returns the program and (configuration, library) pairs."""
    folder, libraries = directory / "plugin", []
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("plugin.swift", PLUGIN), ("host.c", HOST)):
        builds.write_if_different(folder / name, text)
    host = builds.compiled(folder / "host", [os.environ.get("CC", "gcc"), folder / "host.c", "-o", folder / "host", "-ldl"], [folder / "host.c"])
    for configuration in SWIFT_CONFIGURATIONS:
        if configuration.copy_of:
            continue
        library = folder / f"{configuration.name}.so"
        command = [SWIFTC, "-g", "-module-name", "Shop", "-emit-library", "-parse-as-library", *configuration.flags, folder / "plugin.swift"]
        libraries.append((configuration, builds.compiled(library, [*command, "-o", library], [folder / "plugin.swift"], cwd=folder)))
    return host, libraries


def check_plugins(zguard, directory):
    """A C program loads a Swift library (standard library dynamic or static) at run time: the class of its first object must be known."""
    host, libraries = build_plugins(directory)
    results = []
    for configuration, library in libraries:
        result = Result(configuration, Case.named("plugin", {"class": "Shop.Cart", "access": "call|retain", "member": "add(_:)|-", "frame": "used"}))
        code, _, _, findings = run_guarded(zguard, [host, library])
        if len(findings) != 1:
            result.problems.append(f"findings: expected 1, got {len(findings)} (exit {code})")
        for finding in findings[:1]:
            result.problems += check_finding(configuration, finding, result.case.expected(configuration))
        results.append(result)
    return results


def check_batch(zguard, configuration, programs, cases):
    """Checks some cases of one configuration; returns the results of the runs with the bugs, and of the runs without."""
    program, plain_program = programs[configuration.name], programs[configuration.plain_of or configuration.name]
    clean, good = ([], {}) if configuration.is_first else check_clean(zguard, configuration, program, plain_program, cases)
    bugs = [check_bug(zguard, configuration, program, plain_program, case, good.get(case.name))
            for case in cases if "clean" not in case.header]
    return bugs, clean


def builds_of(part):
    """Returns the configurations of a slice: building all of them takes longer than the cases of a slice. Each slice has a debug and an
    optimized Swift build, dynamic and static, one of them stripped, one whose object is the first, and both C++ compilers. Slices in turn
    have the others, but not the linked ones, which need libzguard.a. Only the whole part has every case in every configuration."""
    first = ("Onone-static-first", "O-dynamic-first", "O-static-first")[part.number % 3]
    cxx = ("clang-O0", "gcc-O2") if part.number % 2 else ("clang-O2", "gcc-O0")
    return {"Onone-dynamic", "O-static", "O-static-stripped", ("Onone-static", "O-dynamic")[part.number % 2], first, *cxx}


def sliced(cases, configuration, part):
    """Chooses the cases of a slice: each case in one or two configurations, each configuration with every access and kind of finding."""
    def kinds(case):
        expected = case.expected(configuration)
        if configuration.is_first:
            return [(key, expected.get(key)) for key in ("access", "options")]
        return [(key, expected.get(key)) for key in ("finds", "access", "confidence", "detail", "options")] + \
            [(key, key in expected) for key in ("silent", "clean")] + [("name", case.name == "method")]
    way = [each.name for each in CONFIGURATIONS if each.language == configuration.language].index(configuration.name)
    return part.choose(cases, lambda case: case.name, kinds, way)


def print_table(results):
    """Prints the number of detected cases by configuration; returns the detected share of all harmful cases."""
    print(f"{'configuration':23} {'cases':>6} {'crash':>6} {'misbehave':>10} {'silent':>7} {'detected':>9}")
    names = list(dict.fromkeys(result.configuration.name for result in results))
    for name in names:
        rows = [result for result in results if result.configuration.name == name and not result.is_silent]
        counts = collections.Counter(result.behaviour for result in rows)
        detected = sum(result.is_detected for result in rows)
        print(f"{name:23} {len(rows):6} {counts['crashes']:6} {counts['misbehaves']:10} {counts['silent']:7} "
              f"{detected:9}")
    hidden = [result for result in results if result.is_silent]
    if hidden:
        misbehave = sum(result.behaviour != "silent" for result in hidden)
        names = sorted({result.case.name for result in hidden})
        print(f"stated as not detectable, with the reason beside each case: {len(hidden)}, of which {misbehave} crash "
              f"or misbehave unguarded: {', '.join(names)}")
    # All harmful cases, including those that are stated as not detectable.
    harmful = [result for result in results if result.behaviour in ("crashes", "misbehaves")]
    detected = sum(result.is_detected for result in harmful)
    share = detected / len(harmful) if harmful else 1
    print(f"detected {detected} of {len(harmful)} that crash or misbehave unguarded ({100 * share:.1f} %)")
    return share


def named_members(results):
    """Yields (configuration, cases whose member is named, cases that touch a member) for each Swift debug build."""
    for name in dict.fromkeys(result.configuration.name for result in results):
        rows = [result for result in results if result.configuration.name == name and result.touches_member]
        if rows and name.startswith("Onone"):
            yield name, sum(result.names_member for result in rows), len(rows)


def run_in_root(suite, words):
    """Runs this driver's Swift configurations in a debootstrap root, with the Swift version that this Debian suite packages.
    The programs are built in a directory of their own beside the native ones. Returns the exit status."""
    from Support import roots
    try:
        root = roots.make(suite, ["g++", "libc6-dev", "libdw1t64", "python3", "swiftlang"])
    except roots.Unavailable as reason:
        print(f"skipped: the matrix with the Swift of Debian {suite}: {reason}")
        close(0, 0, 1)
        return 0
    words += [word for each in CONFIGURATIONS if each.language == "swift" for word in ("--config", each.name)]
    command = ["python3", Path(__file__).resolve(), "--build", builds.BUILD / f"zombies-{suite}", *words]
    status, out, err = root.run(command, ROOT_SECONDS, {ROOT: ROOT}, ROOT, SWIFTC="swiftc", PYTHONDONTWRITEBYTECODE="1")
    print(out + err, end="", flush=True)
    if words[:2] == ["--only", ""]:
        _, version, _ = root.run(["sh", "-c", "swiftc --version 2>&1"], 60)
        swift = re.search(r"Swift version (\d+\.\d+(?:\.\d+)?)", version)
        compatibility.record_closing_line(f"zombies-{suite}", "uses of freed Swift objects", out, root=root.path, swift=swift[1] if swift else "")
    return status if status is not None and status >= 0 and re.search(r"^\d+ passed, \d+ failed", out, re.M) else close(0, 1)


def main():
    parser = argparse.ArgumentParser(description="Uses freed objects in every way and checks what zguard finds.")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument("--config", action="append", metavar="NAME", help="only this configuration; may be repeated",
                        choices=[configuration.name for configuration in CONFIGURATIONS])
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument("--zguard", type=Path, default=None if processors.stage() and not processors.WHOLE else ZGUARD, metavar="PATH",
                        help="not with --arch: there the library is preloaded without it")
    parser.add_argument("--build", type=Path, default=processors.BUILDS / "zombies", metavar="DIRECTORY",
                        help="for executables")
    parser.add_argument("--root", metavar="SUITE", help="with the Swift of this Debian (trixie, sid), in a root that debootstrap makes")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what each case does unguarded, too")
    add_slice_option(parser)
    processors.add_option(parser)
    arguments = parser.parse_args()
    if arguments.root:
        return run_in_root(arguments.root, ["--only", arguments.only, "--jobs", str(arguments.jobs), "--slice", str(arguments.slice)])
    if processors.is_elsewhere(arguments.arch):
        configurations = [word for name in arguments.config or () for word in ("--config", name)]
        return processors.run(__file__, arguments.arch, ["--only", arguments.only, "--jobs", str(arguments.jobs), "--slice", str(arguments.slice),
                                                         *configurations, *["-v"] * arguments.verbose])

    try:
        cases = read_cases()
        wanted = [case for case in cases if re.search(arguments.only, case.name)]
        if arguments.list:
            for case in wanted:
                print(f"{case.path.name}: {case.name}")
            return 0
        if arguments.zguard and not os.access(arguments.zguard, os.X_OK):
            parser.error(f"cannot run '{arguments.zguard}'")
        chosen = [each for each in CONFIGURATIONS if not arguments.config or each.name in arguments.config]
        if not arguments.slice.is_whole and not arguments.config:
            chosen = [each for each in chosen if each.name in builds_of(arguments.slice)]
        if any(each in LINKED_CONFIGURATIONS for each in chosen):
            builds.run_compiler(["scripts/build", "--static"], cwd=ROOT)
        programs = build_all(chosen, arguments.build.resolve(), cases)
    except Failed as failure:
        print(f"FAIL {failure}")
        return close(0, 1)

    if processors.stage() == processors.BUILD:
        build_plugins(arguments.build.resolve())
        return 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    zguard = arguments.zguard and arguments.zguard.resolve()
    batches, ran, whole = [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for each in chosen:
            all_own = [case for case in wanted if each.takes(case)]
            own = sliced(all_own, each, arguments.slice)
            ran, whole = ran + len(own), whole + len(all_own)
            batches += [pool.submit(check_batch, zguard, each, programs, own[first:first + 25])
                        for first in range(0, len(own), 25)]
    bugs = [result for batch in batches for result in batch.result()[0]]
    clean = [result for batch in batches for result in batch.result()[1]]
    for each in chosen:
        case = next((case for case in wanted if case.name == "method"), None)
        # Under qemu user mode Swift's crash handler cannot stop the threads that it reports.
        if case and each.name in CRASH_REPORTS and not processors.stage():
            clean.append(check_crash_report(zguard, each, programs[each.name], case))

    if re.search(arguments.only, "plugin") and any(each.language == "swift" for each in chosen):
        clean += check_plugins(zguard, arguments.build.resolve())

    passed = failed = 0
    for result in bugs + clean:
        label = f"{result.configuration.name}/{result.case.name}"
        if result.problems:
            failed += 1
            print(f"FAIL {label}: " + "; ".join(result.problems))
        else:
            passed += 1
            if arguments.verbose and result.behaviour:
                print(f"ok   {label}: {result.behaviour} unguarded, {'' if result.is_detected else 'not '}detected")
    share = print_table(bugs) if bugs else 1
    for name, named, touching in named_members(bugs):
        print(f"{name}: {named} of {touching} cases that touch a member name it ({100 * named / touching:.1f} %)")
        if not arguments.only and named < LEAST_NAMED * touching:
            failed += 1
            print(f"FAIL {name}: expected at least {100 * LEAST_NAMED:.0f} %")
    arguments.slice.say(ran, whole, "cases of all configurations")
    if not arguments.only and arguments.slice.is_whole and share < LEAST_DETECTED:
        failed += 1
        print(f"FAIL detection: expected at least {100 * LEAST_DETECTED:.0f} %, got {100 * share:.1f} %")
    if not arguments.only and not arguments.config:
        processors.record("zombies", "uses of zombies" + ("" if arguments.slice.is_whole else f", a {arguments.slice.count}th"), passed, failed,
                          swift=os.environ.get("ZG_TEST_SWIFT", ""))
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
