#!/usr/bin/env python3
"""Uses freed Swift objects in generated programs: no access to such an object may go on without a finding.

A case is a class, a way in which the program reaches its object, and what it does with the object (CLASSES, REACHES, USES). All cases
are functions of one program per configuration, and each runs in a process of its own, with the runtime preloaded (WAYS). The object is
the first that its allocation site frees, so its page is protected at once, and each access faults. A case runs up to three times:
  --kept    the object is not freed: the run gives the expected output, and no finding
  --freed   there is a finding of the object's class, and with on_finding=continue the output is that of --kept. Without a finding, the
            use must be one that may compile to no access (silent in USES), and the output must be that of --kept
  --probe   only without a finding: the program reads the object after the use, and this read must be found. An unnoticed access would
            have made the object readable
Closing line: N passed, N failed."""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, as_shell, close, run_within  # noqa: E402
from Support.environment import LIBRARY, TESTS, guarded_by  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

MODELS = TESTS / "Detection/Uses/Models.swift"
FOLDER = builds.BUILD / "uses"
SWIFTC = os.environ.get("SWIFTC", "swiftc")
FLAGS = ["-swift-version", "6", "-suppress-warnings", "-module-name", "Uses", "-g", "-wmo", "-parse-as-library",
         "-Xllvm", "-swiftmergefunc-threshold=0"]
CONFIGURATIONS = {"Onone": ["-Onone"], "O": ["-O"], "Onone-static": ["-Onone", "-static-stdlib"], "O-static": ["-O", "-static-stdlib"]}
WAYS = {"guard": "profile=guard", "fence": "profile=fence", "continue": "on_finding=continue"}
TIMEOUT_SECONDS = 20

CLASSES = {"Final": "Final", "Open": "Open", "Generic": "Generic<Int>", "Isolated": "Isolated", "Inherited": "Inherited"}

# Name: type of the parameter; how the use names the object; flags. C is the class.
#   P, Q           the object is known only as a value of this protocol (Q: not limited to classes)
#   any            its type is unknown
#   closure        the use is the body of a closure
#   borrow         the use is the body of a closure that gets the object from Unmanaged
#   unspecialized  the function remains generic in optimized code
REACHES = {
    "itself": ("C", "o", ""),
    "optional": ("C?", "o!", ""),
    "anyP": ("any P", "o", "P"),
    "someP": ("some P", "o", "P"),
    "anyPAndC": ("any P & C", "o", ""),
    "unspecialized": ("some P", "o", "P unspecialized"),
    "anyQ": ("any Q", "o", "Q"),
    "someQ": ("some Q", "o", "Q"),
    "unspecializedQ": ("some Q", "o", "Q unspecialized"),
    "anyObject": ("AnyObject", "o", "any"),
    "downcast": ("AnyObject", "unsafeDowncast(o, to: C.self)", ""),
    "anyType": ("Any", "(o as! C)", ""),
    "closure": ("C", "o", "closure"),
    "closureOfP": ("any P", "o", "P closure"),
    "unmanaged": ("Unmanaged<C>", "o.takeUnretainedValue()", ""),
    "unmanagedBorrow": ("Unmanaged<C>", "object", "borrow"),
    "unownedUnsafe": ("Holder<C>", "o.object", ""),
}

# Name: expression, with o for the object, C for its class and T for the type by which it is known; flags.
#   silent    for some reaches and optimization levels, the compiled use does not access the object
#   class     the use needs a reference (C, any P, AnyObject)
#   member    the use needs a member of the classes
USES = {
    "read": ("o.n", "member"),
    "write": ("{ o.n = 4; return 0 }()", "member"),
    "update": ("{ o.n += 1; return 0 }()", "member"),
    "readKeyPath": ("o[keyPath: opaque(\\T.n)]", "member"),
    "writeKeyPath": ("{ o[keyPath: opaque(\\T.n)] = 4; return 0 }()", "member"),
    "readLeaf": ("o.leaf.value", "member"),
    "call": ("o.tick()", "member"),
    "callOfConstant": ("o.constant()", "member silent"),
    "equal": ("o.isSame(Leaf.shared)", "member silent"),
    "method": ("{ let f = o.tick; return f() }()", "member"),
    "castToClass": ("(o as Any) is C", "silent"),
    "castToOther": ("(o as AnyObject) is Other", "silent"),
    "castToProtocol": ("(o as Any) is any Foreign", "silent"),
    "forcedCast": ("pass((o as AnyObject) as! C)", "silent"),
    "typeName": ("String(describing: type(of: o))", "silent"),
    "typeEqual": ("ObjectIdentifier(type(of: o)) == ObjectIdentifier(C.self)", "silent"),
    "typePassed": ("passType(type(of: o))", "silent"),
    "description": ("String(describing: o)", ""),
    "mirror": ("Mirror(reflecting: o).children.count", ""),
    "identity": ("o === Leaf.shared", "class silent"),
    "identifier": ("ObjectIdentifier(o) == ObjectIdentifier(Leaf.shared)", "class silent"),
    "passed": ("pass(o)", "silent"),
    "passedAndRead": ("readThrough(o)", "member"),
    "passedGeneric": ("readGeneric(o)", "member"),
    "storedStrongly": ("{ strong = o as AnyObject; return 0 }()", ""),
    "storedWeakly": ("{ weakly = o as AnyObject; return 0 }()", ""),
    "storedUnowned": ("{ unowning = o as AnyObject; return 0 }()", ""),
    "storedUnsafely": ("{ unsafely = o as AnyObject; return 0 }()", "silent"),
    "inArray": ("opaque([o]).count", ""),
    "inOptional": ("opaque(Optional(o)) == nil", "silent"),
}


class Case:
    def __init__(self, kind, reach, use):
        self.kind, self.reach, self.use = kind, reach, use
        self.name = f"{kind}_{reach}_{use}"
        self.is_silent = "silent" in USES[use][1].split()

    @classmethod
    def all(cls):
        return [cls(kind, reach, use) for kind in CLASSES for reach in REACHES for use in USES if cls.is_possible(reach, use)]

    @staticmethod
    def is_possible(reach, use):
        reach_flags, use_flags = REACHES[reach][2].split(), USES[use][1].split()
        return not ("any" in reach_flags and "member" in use_flags or "Q" in reach_flags and "class" in use_flags)

    def source(self):
        """Lines of the functions that make, drop and use the object."""
        kind, (parameter, name, flags) = CLASSES[self.kind], REACHES[self.reach]
        is_generic, is_protocol = parameter.startswith("some "), set(flags.split()) & {"P", "Q"}
        known = "T" if is_generic else f"({parameter})" if is_protocol else kind

        def written(text):
            return re.sub(r"\bC\b", kind, text)
        use = written(re.sub(r"\bo\b", lambda _: name, USES[self.use][0]).replace("\\T.", f"\\{known}."))
        parameter = written(parameter)
        attribute = '@_semantics("optimize.sil.specialize.generic.never") ' if "unspecialized" in flags else ""
        generic, taken = (f"<T: {parameter[5:]}>", "T") if is_generic else ("", parameter)
        call = f"use_{self.name}(o)"
        if "closure" in flags:
            function = f"use_{self.name}<V>(_ f: () -> V) -> Never {{ done(f()) }}"
            call = f"use_{self.name} {{ {use} }}"
        else:
            value = f"o._withUnsafeGuaranteedRef {{ object in {use} }}" if "borrow" in flags else use
            function = f"use_{self.name}{generic}(_ o: {taken}) -> Never {{ done({value}) }}"
        if "Unmanaged" in parameter:
            start = [f"let o = Unmanaged.passRetained(make{self.kind}())", "drop(o.takeUnretainedValue())"]
        elif "Holder" in parameter:
            start = [f"let owner = Unmanaged.passRetained(make{self.kind}())", "let o = Holder(object: owner.takeUnretainedValue())",
                     "drop(o.object)"]
        else:
            stored = kind if is_generic else parameter
            start = [f"let o: {stored} = make{self.kind}()", f"drop(o{'!' * stored.endswith('?')} as AnyObject)"]
        return [f"{attribute}@inline(never) func {function}", f"@inline(never) func {self.name}() -> Never {{",
                *(f"    {line}" for line in [*start, call]), "}"]


def source_of(cases):
    lines = ["import Glibc", ""]
    for case in cases:
        lines += [*case.source(), ""]
    lines += ["@main struct Program {", "    static func main() {"]
    lines += [f'        if isArgument(2, "{case.name}") {{ {case.name}() }}' for case in cases]
    return "\n".join([*lines, "        exit(64)", "    }", "}", ""])


def build(name, cases, folder):
    """Builds the program of a configuration, with these cases; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    source, program = folder / "Cases.swift", folder / "uses"
    builds.write_if_different(source, source_of(cases))
    return builds.compiled(program, [SWIFTC, *FLAGS, *CONFIGURATIONS[name], MODELS, source, "-o", program], [MODELS, source], cwd=folder)


def run(program, mode, case, way):
    """Runs a case with the runtime preloaded. Returns status, output, errors and the findings as the runtime writes them."""
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        report = Path(directory) / "raw.jsonl"
        environment = guarded_by(LIBRARY, f"{WAYS[way]}:report_path={report}", SWIFT_BACKTRACE="enable=no")
        status, out, err = run_within(TIMEOUT_SECONDS, [program, mode, case.name], env=environment)
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    findings = [line for line in lines if line["schema"] == "zguard.finding/1"]
    return None if status is None else as_shell(status), out, err, findings


def check(program, case, way):
    """Returns what is wrong ("": nothing), and whether the case had no finding because its use did not access the object."""
    status, good, err, findings = run(program, "--kept", case, way)
    if status != 0 or findings:
        return f"without its bug: status {status}, findings {findings}, {err[-200:]!r}", False
    status, out, err, findings = run(program, "--freed", case, way)
    if status is None:
        return f"still running after {TIMEOUT_SECONDS} s", False
    kinds = {finding["kind"] for finding in findings}
    names = {finding.get("block", {}).get("class", "") for finding in findings}
    # The object's leaf is freed, too, so findings may name Uses.Leaf. But one finding must name the object's own class.
    if findings and (kinds != {"use-after-free"} or not any(case.kind in name for name in names - {"Uses.Leaf"})):
        return f"expected a use-after-free of {case.kind}, got {kinds} of {names}", False
    if (not findings or way == "continue") and (status != 0 or out != good):
        return f"{len(findings)} findings, status {status}, output {out!r}, expected {good!r}", False
    if findings:
        return "", False
    if not case.is_silent:
        return "no finding", False
    *_, findings = run(program, "--probe", case, way)
    return "" if findings else "no finding, and the object is readable afterwards", True


def choose(part, every, names, ways, only):
    """Returns {(configuration, way): cases}. In a slice the pairs have different cases, which together cover each class, reach and use."""
    seen, chosen = set(), {}
    for number, pair in enumerate((name, way) for name in names for way in ways):
        cases = part.choose(every, lambda case: case.name, lambda case: (case.kind, case.reach, case.use), number, seen)
        chosen[pair] = [case for case in cases if re.search(only, case.name)]
    return chosen


def main():
    parser = argparse.ArgumentParser(description="Uses freed Swift objects in generated programs: no access goes on without a finding.")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument("--config", action="append", metavar="NAME", choices=list(CONFIGURATIONS), help="only this configuration; may be repeated")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only with these options; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the cases that leave the object alone")
    add_slice_option(parser)
    arguments = parser.parse_args()
    every, names, ways = Case.all(), arguments.config or list(CONFIGURATIONS), arguments.way or list(WAYS)
    chosen = choose(arguments.slice, every, names, ways, arguments.only)
    passed = failed = 0
    alone = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def build_for(name):
            wanted = {case.name for way in ways for case in chosen[name, way]}
            return build(name, [case for case in every if case.name in wanted], FOLDER / str(arguments.slice).replace("/", "-of-") / name)
        try:
            programs = dict(zip(names, pool.map(build_for, names)))
        except Failed as failure:
            print(f"FAIL {failure}")
            return close(0, 1)
        for (name, way), cases in chosen.items():
            for case, (problem, is_alone) in zip(cases, pool.map(lambda case: check(programs[name], case, way), cases)):
                label = f"{name}/{way}/{case.name}"
                passed, failed = passed + (not problem), failed + bool(problem)
                if problem:
                    print(f"FAIL {label}: {problem}", flush=True)
                if is_alone:
                    alone[case.use].append(label)
    for use, labels in alone.items():
        print(f"{use} left the object alone in {len(labels)} cases" + "".join(f"\n    {label}" for label in labels if arguments.verbose))
    arguments.slice.say(sum(map(len, chosen.values())), len(every) * len(chosen), "cases of all configurations")
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
