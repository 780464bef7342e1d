#!/usr/bin/env python3
"""Uses freed objects in every way that Swift and C++ know, and checks what zguard finds: the access matrix.

The cases are functions of Tests/Detection/Zombies, built into one program per configuration. The comment above a case is its only
registration; its lines are "// key: value":
  case     what happens; the first line
  class    the block's class; several with '|'; "-": none
  finds    kind of the finding; use-after-free where nothing is said
  access   expected access; several with '|'
  confidence  exact where nothing is said
  member   method or property; several with '|', "-": none; "*": not checked; no such line: none
  detail   name=value; "*": not checked
  frame    function that the access happens in; the case itself where nothing is said; "*": not checked
  count    how many findings: 1 where nothing is said; "1-2" is a range
  free     "none": the finding has no such stack (the object was never freed)
  options  ZGUARD_OPTIONS for the run
  on C     key=value; key=value (reason): what differs in the configurations whose name begins with C, or is C
  silent   why it cannot be seen: there may be no finding
  clean    there is no bug: no finding, and everything as without a guard
Each case but the clean ones runs three times without a guard, to know what the bug does: with freed objects, with their
memory reused, and with the objects kept, which is the same program without its bug. Guarded it runs with freed objects,
and must be found as stated, and with the objects kept, and must do what it does without a guard.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, as_shell, close, run_within, said_by_library  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Detection/Zombies"
TIMEOUT_SECONDS = 10
UNGUARDED_TIMEOUT_SECONDS = 3
LEAST_DETECTED = 0.97

# Functions that look alike are kept apart, so that each stack names its case.
SWIFT_FLAGS = ["-swift-version", "6", "-warnings-as-errors", "-module-name", "Shop", "-g", "-wmo",
               "-Xllvm", "-swiftmergefunc-threshold=0", "-import-objc-header", str(SOURCES / "runtime.h")]
CXX_FLAGS = ["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror"]
CASE = re.compile(r"// case: .*\n(?P<header>(?://.*\n)*)(?:@inline\(never\)\nfunc|CASE static void) "
                  r"(?P<name>\w+)\((?:void)?\)(?P<async> async)?(?P<throws> throws)? ")
KEYS = {"class", "finds", "access", "confidence", "member", "detail", "frame", "free", "count", "options", "silent",
        "clean"}


class Configuration:
    def __init__(self, name, language, compiler, flags, copy_of=None):
        self.name, self.language, self.compiler, self.flags, self.copy_of = name, language, compiler, flags, copy_of
        self.is_stripped = copy_of is not None
        self.is_optimized = "-O0" not in flags and "-Onone" not in flags


SWIFTC, GCC, CLANG = (os.environ.get(*pair) for pair in (("SWIFTC", "swiftc"), ("CXX", "g++"), ("CLANGXX", "clang++")))
CONFIGURATIONS = [
    Configuration("Onone-dynamic", "swift", SWIFTC, ["-Onone"]),
    Configuration("Onone-static", "swift", SWIFTC, ["-Onone", "-static-stdlib"]),
    Configuration("O-dynamic", "swift", SWIFTC, ["-O"]),
    Configuration("O-static", "swift", SWIFTC, ["-O", "-static-stdlib"]),
    Configuration("O-static-stripped", "swift", SWIFTC, ["-O", "-static-stdlib"], copy_of="O-static"),
    Configuration("clang-O0", "c++", CLANG, ["-O0"]),
    Configuration("clang-O2", "c++", CLANG, ["-O2"]),
    Configuration("gcc-O0", "c++", GCC, ["-O0"]),
    Configuration("gcc-O2", "c++", GCC, ["-O2"]),
]
# Where Swift's crash handler is tried; with the library inside, ours comes first and Swift's is not installed.
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
                self.differences.append((key[3:], dict(pairs)))
            elif colon and key in KEYS and key not in self.header:
                self.header[key] = value
            else:
                raise Failed(f"{path.name}: {self.name}: cannot read '{line}'")
        if "clean" not in self.header and ("class" not in self.header or not {"access", "silent"} & set(self.header)):
            raise Failed(f"{path.name}: {self.name}: a case needs a class, and an access or why it is silent")

    def expected(self, configuration):
        expected = {"finds": "use-after-free", "confidence": "exact", "member": "-", "frame": self.name, **self.header}
        for name, changes in self.differences:
            if configuration.name == name or configuration.name.startswith(name + "-"):
                expected.update(changes)
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
    """Cases.swift: the cases by name."""
    def function(signature, chosen, is_async):
        lines = [f"func {signature} -> Bool {{", "    switch name {"]
        for case in chosen:
            lines.append(f'    case "{case.name}": {"try " * case.throws}{"await " * is_async}{case.name}()')
        return lines + ["    default: return false", "    }", "    return true", "}"]
    plain = function("runCase(_ name: String) throws", [case for case in cases if not case.is_async], False)
    tasks = function("runAsyncCase(_ name: String) async throws", [case for case in cases if case.is_async], True)
    return "\n".join([*plain, *tasks, ""])


def build(configuration, directory, cases):
    """Builds the configuration's program where it is out of date; returns it."""
    folder = directory / configuration.name
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "shop"
    if configuration.copy_of:
        sources = [directory / configuration.copy_of / "shop"]
        command = ["strip", "-o", program, sources[0]]
    elif configuration.language == "swift":
        table = directory / "Cases.swift"
        sources = [*sorted(SOURCES.glob("*.swift")), table, SOURCES / "runtime.h"]
        command = [configuration.compiler, *SWIFT_FLAGS, *configuration.flags, *sources[:-1], "-o", program]
    else:
        sources = [SOURCES / "cplusplus.cpp", directory / "cases.inc"]
        command = [configuration.compiler, *CXX_FLAGS, f"-I{directory}", *configuration.flags, sources[0]]
        command += ["-o", program]
    # In the folder, because swiftc leaves files behind where it runs.
    return builds.compiled(program, command, sources, cwd=folder)


def build_all(configurations, directory, cases):
    directory.mkdir(parents=True, exist_ok=True)
    builds.write_if_different(directory / "Cases.swift", swift_table([case for case in cases if case.language == "swift"]))
    entries = [f'{{"{case.name}", {case.name}}},\n' for case in cases if case.language == "c++"]
    builds.write_if_different(directory / "cases.inc", "".join(entries))
    by_name = {configuration.name: configuration for configuration in CONFIGURATIONS}
    compiled = {configuration.copy_of or configuration.name for configuration in configurations}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: build(by_name[name], directory, cases), sorted(compiled)))
    return {each.name: build(each, directory, cases) for each in configurations}


# MARK: running


def run(command, seconds, backtrace="enable=no"):
    """Runs a command in a session of its own; returns exit code (128 + signal; None: still running), stdout, stderr."""
    code, out, err = run_within(seconds, command, text=False, env=scrubbed(SWIFT_BACKTRACE=backtrace))
    return (None, b"", b"") if code is None else (as_shell(code), out, err)


def run_guarded(zguard, command, options="", **arguments):
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        report = Path(directory) / "report.jsonl"
        words = [zguard, "run", "--quiet", "--report", report, "--format", "json", "-o", "on_finding=abort"]
        for option in filter(None, options.split(":")):
            words += ["-o", option]
        code, out, err = run([*words, "--", *command], TIMEOUT_SECONDS, **arguments)
        text = report.read_text() if report.exists() else ""
    try:
        return code, out, err, [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        return code, out, err, [{"kind": f"a report that is no JSON lines: {error}"}]


def behaviour(program, case, good):
    """What the bug does without a guard: crashes, misbehaves or nothing. Without its bug the program prints `good`."""
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
    """Whether it is one of these functions or a closure in it; a name may be a regular expression."""
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
    # Classes' own frames are skipped: whose initializer or accessor it is, the case does not say.
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
    # Without symbols the function of the Swift runtime that counted has no name.
    is_counted = finding.get("access") == "unknown" and detail.get("part") == "reference count"
    if not (configuration.is_stripped and is_counted) and not is_one_of(finding.get("access"), expected["access"]):
        problems.append(f"access: expected {expected['access']}, got {finding.get('access')}")
    for key, value in (("confidence", finding.get("confidence")), ("class", block.get("class"))):
        if not is_one_of(value, expected[key]):
            problems.append(f"{key}: expected {expected[key]}, got {value}")
    if expected["class"] != "-" and block.get("language") != configuration.language:
        problems.append(f"language: expected {configuration.language}, got {block.get('language')}")
    member = block.get("member")
    if configuration.language == "swift" and expected["member"] != "*" and not is_one_of(member, expected["member"]):
        # Without symbols the method of a vtable slot has no name, only its number.
        if not (configuration.is_stripped and not member and finding.get("access") == "call" and "slot" in detail):
            problems.append(f"member: expected {expected['member']}, got {member}")
    key, _, value = expected.get("detail", "*").partition("=")
    if key != "*" and not configuration.is_stripped and str(detail.get(key)) != value:
        problems.append(f"detail {key}: expected {value}, got {detail.get(key)}")
    if expected["finds"] != "write-after-free" and expected["frame"] != "*":
        check_stack(problems, configuration, finding, "access", expected["frame"].split("|"))
    if expected.get("free") != "none":
        check_stack(problems, configuration, finding, "free", [r"drop\w*"])
    check_stack(problems, configuration, finding, "alloc", [r"make\w*"])
    return problems


class Result:
    def __init__(self, configuration, case):
        self.configuration, self.case = configuration, case
        self.behaviour, self.is_detected, self.is_silent, self.problems = None, False, False, []


def check_bug(zguard, configuration, program, case, good):
    result, expected = Result(configuration, case), case.expected(configuration)
    result.is_silent = "silent" in expected
    result.behaviour = behaviour(program, case, good)
    command = [program, "--freed", case.name]
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
        kinds = ("use-after-free", "write-after-free", "double-free")
        result.is_detected = finding.get("kind") in kinds and is_one_of(name, expected["class"])
    return result


LOOP = 'program=$1; shift; for name; do "$program" --kept "$name"; echo "$name ended with $?"; done'


def outputs(text):
    """Exit code and output by case, from what LOOP printed."""
    parts = re.split(rb"(\w+) ended with (\d+)\n", text)
    return dict(zip(parts[1::3], zip(parts[2::3], parts[0::3])))


def check_clean(zguard, configuration, program, cases):
    """Runs cases without their bugs, and those that have none: the same guarded and unguarded, and no finding.

    Returns the results, and what each case printed without a guard.
    """
    command = ["sh", "-c", LOOP, "sh", program, *[case.name for case in cases]]
    plain = run(command, 6 * TIMEOUT_SECONDS)
    *guarded, findings = run_guarded(zguard, command)
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
    """Swift's own crash handler reads all the memory around: its report follows the finding and adds none."""
    result = Result(configuration, case)
    command = [program, "--freed", case.name]
    _, _, err, findings = run_guarded(zguard, command, backtrace="enable=yes,color=no,interactive=no")
    if len(findings) != 1:
        tops = [stack_text((finding.get("stacks") or {}).get("access") or []) for finding in findings]
        result.problems.append(f"with Swift's crash report: expected 1 finding, got {len(findings)}: {'; '.join(tops)}")
    if b"Program crashed" not in err:
        result.problems.append(f"with Swift's crash report: expected it on stderr, got {err[-200:]!r}")
    return result


def check_batch(zguard, configuration, program, cases):
    """All about some cases of one configuration: the results with their bugs, and those without."""
    clean, good = check_clean(zguard, configuration, program, cases)
    bugs = [check_bug(zguard, configuration, program, case, good[case.name])
            for case in cases if "clean" not in case.header]
    return bugs, clean


def sliced(cases, configuration, part):
    """Each slice has every case in one of the configurations or two, and each configuration has every access and kind of finding."""
    def kinds(case):
        expected = case.expected(configuration)
        return [(key, expected.get(key)) for key in ("finds", "access", "confidence", "detail", "options")] + \
            [(key, key in expected) for key in ("silent", "clean")] + [("name", case.name == "method")]
    way = [each.name for each in CONFIGURATIONS if each.language == configuration.language].index(configuration.name)
    return part.choose(cases, lambda case: case.name, kinds, way)


def print_table(results):
    """What was detected, by configuration; returns the share over all of them."""
    print(f"{'configuration':18} {'cases':>6} {'crash':>6} {'misbehave':>10} {'silent':>7} {'detected':>9}")
    names = list(dict.fromkeys(result.configuration.name for result in results))
    for name in names:
        rows = [result for result in results if result.configuration.name == name and not result.is_silent]
        counts = collections.Counter(result.behaviour for result in rows)
        detected = sum(result.is_detected for result in rows)
        print(f"{name:18} {len(rows):6} {counts['crashes']:6} {counts['misbehaves']:10} {counts['silent']:7} "
              f"{detected:9}")
    hidden = [result for result in results if result.is_silent]
    if hidden:
        misbehave = sum(result.behaviour != "silent" for result in hidden)
        names = sorted({result.case.name for result in hidden})
        print(f"stated as not detectable, with the reason beside each case: {len(hidden)}, of which {misbehave} crash "
              f"or misbehave unguarded: {', '.join(names)}")
    # All of them, whatever is stated.
    harmful = [result for result in results if result.behaviour in ("crashes", "misbehaves")]
    detected = sum(result.is_detected for result in harmful)
    share = detected / len(harmful) if harmful else 1
    print(f"detected {detected} of {len(harmful)} that crash or misbehave unguarded ({100 * share:.1f} %)")
    return share


def main():
    parser = argparse.ArgumentParser(description="Uses freed objects in every way and checks what zguard finds.")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument("--config", action="append", metavar="NAME", help="only this configuration; may be repeated",
                        choices=[configuration.name for configuration in CONFIGURATIONS])
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument("--zguard", type=Path, default=ZGUARD, metavar="PATH")
    parser.add_argument("--build", type=Path, default=builds.BUILD / "zombies", metavar="DIRECTORY",
                        help="for executables")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what each case does unguarded, too")
    add_slice_option(parser)
    arguments = parser.parse_args()

    try:
        cases = read_cases()
        wanted = [case for case in cases if re.search(arguments.only, case.name)]
        if arguments.list:
            for case in wanted:
                print(f"{case.path.name}: {case.name}")
            return 0
        if not os.access(arguments.zguard, os.X_OK):
            parser.error(f"cannot run '{arguments.zguard}'")
        chosen = [each for each in CONFIGURATIONS if not arguments.config or each.name in arguments.config]
        programs = build_all(chosen, arguments.build.resolve(), cases)
    except Failed as failure:
        print(f"FAIL {failure}")
        return close(0, 1)

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    zguard = arguments.zguard.resolve()
    batches, ran, whole = [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for each in chosen:
            own = sliced([case for case in wanted if case.language == each.language], each, arguments.slice)
            ran, whole = ran + len(own), whole + sum(case.language == each.language for case in wanted)
            batches += [pool.submit(check_batch, zguard, each, programs[each.name], own[first:first + 25])
                        for first in range(0, len(own), 25)]
    bugs = [result for batch in batches for result in batch.result()[0]]
    clean = [result for batch in batches for result in batch.result()[1]]
    for each in chosen:
        case = next((case for case in wanted if case.name == "method"), None)
        if case and each.name in CRASH_REPORTS:
            clean.append(check_crash_report(zguard, each, programs[each.name], case))

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
    arguments.slice.say(ran, whole, "cases of all configurations")
    if not arguments.only and arguments.slice.is_whole and share < LEAST_DETECTED:
        failed += 1
        print(f"FAIL detection: expected at least {100 * LEAST_DETECTED:.0f} %, got {100 * share:.1f} %")
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
