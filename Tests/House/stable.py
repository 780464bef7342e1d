#!/usr/bin/env python3
"""Compares what users rely on (docs/STABILITY.md) with the list of what was released, Tests/House/Stable/released.txt.
A missing line of that list breaks compatibility, and fails. New lines are allowed, and recorded at a release with --update; --complete
fails for lines that are not recorded. Closing line: N passed, N failed."""

import argparse
import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, run_within  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD, guarded_by, scrubbed  # noqa: E402

RELEASED = ROOT / "Tests/House/Stable/released.txt"
MODULES = ROOT / "build/debug/debug"
SCHEMAS = ("finding", "heap", "history", "leaks", "run", "timeline")
# Modules whose public declarations users import. ZombieGuard exports ZombieGuardCore.
SWIFT_MODULES = ("ZombieGuardCore", "ZombieGuard", "ZombieGuardTesting")
SECONDS = 120
SHOWN = 40


def said(*words, status=0, **variables):
    got, out, err = run_within(SECONDS, words, env=scrubbed(**variables))
    assert got == status, (words, got, out[-300:], err[-600:])
    return out


# -- what users rely on: each function yields lines ----------------------------------------------------------------------


def commands():
    """Commands, their flags with the kinds of the flags' values, and the shells of completions."""
    names = re.findall(r"^  ([a-z-]+)", said(ZGUARD, "help"), re.M)
    assert len(names) > 15, names
    for name in names:
        yield f"command {name}"
        for flag, value in re.findall(r"^  (-[-\w]+)(?: (\S+))?(?:  |$)", said(ZGUARD, name, "--help"), re.M):
            yield f"flag {name} {flag}"
            choices = value.split("|") if re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", value) else []
            if value and not choices:
                yield f"flag {name} {flag} takes a value"
            yield from (f"flag {name} {flag} {choice}" for choice in choices)


def options():
    """Options that users need; the others are for tests and special machines, and may change."""
    for option in json.loads(said(ZGUARD, "options", "--all", "--json")):
        if option["shown"]:
            yield f"option {option['name']} {option['kind']}"
            yield from (f"option {option['name']} {choice}" for choice in option.get("choices", ()))


def of_manual():
    """Exit statuses and environment variables of the manual page."""
    page = said(ZGUARD, "help", "--man")
    for title, kind in (("EXIT STATUS", "status"), ("ENVIRONMENT", "variable")):
        section = re.search(rf'^\.SH "?{title}"?\n(.*?)^\.SH', page, re.M | re.S)[1]
        yield from (f"{kind} {name}" for name in re.findall(r"^\\fB([A-Z_0-9]+)\\fR$", section, re.M))
    # Failure.swift has the names of the statuses.
    text = (ROOT / "Sources/zguard/Failure.swift").read_text()
    yield from (f"status {name} = {value}" for name, value in re.findall(r"static let (\w+): Int32 = (\d+)", text))


def keys_of(schema, path):
    """The keys of a JSON schema, their types, whether they are always there, and the values that they may have."""
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from keys_of(schema[name], path + ("[]" if name == "items" else ".*"))
    for group in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(group, ()):
            yield from keys_of(each, path)
    if "$ref" in schema:
        yield f"{path} is {schema['$ref']}"
    types = schema.get("type", ())
    yield from (f"{path} is {kind}" for kind in ([types] if isinstance(types, str) else types))
    yield from (f"{path} may be {json.dumps(value)}" for value in schema.get("enum", schema.get("examples", ())) if not isinstance(value, (dict, list)))
    if "const" in schema:
        yield f"{path} = {json.dumps(schema['const'])}"
    yield from (f"{path}.{name} always" for name in schema.get("required", ()))
    for name, value in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from keys_of(value, f"{path}.{name}") if isinstance(value, dict) else ()


def schemas():
    for name in SCHEMAS:
        document = json.loads((ROOT / f"docs/{name}.schema.json").read_text())
        yield from (f"key {line}" for line in keys_of(document, name))
        for key, value in document.get("$defs", {}).items():
            # rawFinding describes the runtime's own lines, which only the zguard of the same version reads.
            if key != "rawFinding":
                yield from (f"key {line}" for line in keys_of(value, f"{name}#{key}"))


def pages():
    """Requests of `zguard serve`, their parameters and answers."""
    document = json.loads((ROOT / "docs/fleet.openapi.json").read_text())
    for path, methods in document["paths"].items():
        for method, request in methods.items():
            if not isinstance(request, dict):
                continue
            name = f"{method.upper()} {path}"
            yield f"request {name}"
            for parameter in request.get("parameters", ()):
                place = f"{name} {parameter['name']}" if "name" in parameter else f"{name} {parameter['$ref']}"
                yield f"request {place}"
                yield from (f"request {line}" for line in keys_of(parameter.get("schema", {}), place))
            for status, answer in request.get("responses", {}).items():
                yield f"request {name} {status}"
                for kind, content in answer.get("content", {}).items():
                    yield from (f"request {line}" for line in keys_of(content.get("schema", {}), f"{name} {status} {kind}"))
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield from (f"request {line}" for line in keys_of(schema, f"#{name}"))


DOUBLE = "#include <stdlib.h>\nint main(void) { char *p = malloc(20); free(p); free(p); return 0; }\n"


def stores():
    """Files of a directory of reports, tables and columns of a database, metrics of a store and of a process."""
    with tempfile.TemporaryDirectory(prefix="zguard-stable-") as folder:
        work = Path(folder)
        (work / "double.c").write_text(DOUBLE)
        subprocess.run(["gcc", "-w", "-g", "-o", work / "double", work / "double.c"], check=True)
        said(ZGUARD, "run", "--report", f"{work}/reports/", "--quiet", "--", work / "double", status=134)
        said(ZGUARD, "run", "--report", f"{work}/reports/", "--compress", "--quiet", "--", work / "double", status=134)
        store = f"sqlite:{work}/findings.db"
        said(ZGUARD, "collect", "--from", f"{work}/reports", "--to", store)
        signature = json.loads(said(ZGUARD, "report", store, "--format", "json").splitlines()[0])["signature"]
        for each in (store, f"{work}/reports"):
            said(ZGUARD, "triage", each, "comment", signature, "--comment", "x", "--author", "y")
        for path in sorted((work / "reports").iterdir()):
            if not path.name.startswith(".zguard-collect"):  # what a shipper remembers
                yield "file " + re.sub(r"^\d+T\d+\S*?Z?-double-\d+-\w+\.", "TIME-PROGRAM-PID-SUFFIX.", path.name)
        for line in (work / "reports/.zguard-triage").read_text().splitlines():
            yield from (f"file .zguard-triage {key}" for key in json.loads(line))
        with contextlib.closing(sqlite3.connect(work / "findings.db")) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name LIKE 'zguard%'").fetchall():
                if re.search(r"_(\d{4}_?\d\d_?\d\d|other)$", table):  # a part of a table
                    continue
                for _, column, kind, *_ in database.execute(f'PRAGMA table_info("{table}")'):
                    yield f"column {table}.{column} {kind}".rstrip()
        child = subprocess.Popen(["sleep", "100"], env=guarded_by(LIBRARY))
        try:
            for _ in range(100):
                status, out, _ = run_within(SECONDS, [ZGUARD, "stats", str(child.pid), "--prometheus"], env=scrubbed())
                if status == 0:
                    break
            assert status == 0, "no statistics"
            yield from (f"metric {name} {kind}" for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", out, re.M))
        finally:
            child.kill()
            child.wait()
        yield from (f"metric {name}" for name in sorted(set(re.findall(r"\bzguard_store_\w+", (ROOT / "docs/TRIAGE.md").read_text()))))


def swift_declarations():
    """Public declarations of the Swift modules, from the modules of the debug build."""
    maps = [ROOT / f"Sources/{name}/module.modulemap" for name in ("CZombie/include", "CZlib", "CDwarf")]
    maps += [MODULES / f"{name}.build/module.modulemap" for name in ("CSystem", "CUnwind", "CZombieTesting")]
    with tempfile.TemporaryDirectory(prefix="zguard-stable-") as folder:
        for module in SWIFT_MODULES:
            words = [word for path in maps for word in ("-Xcc", f"-fmodule-map-file={path}")]
            target = json.loads(said("swift", "-print-target-info"))["target"]["triple"]
            said("swift", "symbolgraph-extract", "-module-name", module, "-I", MODULES / "Modules", *words, "-target", target,
                 "-minimum-access-level", "public", "-output-dir", folder)
        graphs = sorted(path for path in Path(folder).glob("*.symbols.json") if path.name.split(".")[0].split("@")[0] in SWIFT_MODULES)
        assert len(graphs) >= len(SWIFT_MODULES), graphs
        for path in graphs:
            for symbol in json.loads(path.read_text())["symbols"]:
                if "::SYNTHESIZED::" in symbol["identifier"]["precise"]:
                    continue
                text = " ".join("".join(part["spelling"] for part in symbol.get("declarationFragments", ())).split())
                yield f"swift {'.'.join(symbol['pathComponents'])}: {text}"


PARTS = (commands, options, of_manual, schemas, pages, stores, swift_declarations)


# -- comparison ----------------------------------------------------------------------------------------------------------


def recorded():
    return {line for line in RELEASED.read_text().splitlines() if line and not line.startswith("#")}


def gone(released, present):
    """Returns the lines of the released list that the present lines lack. Each is a break of compatibility."""
    return sorted(set(released) - set(present))


def breaks_are_seen(present):
    """Removes, changes and adds lines in copies of the present lines; returns the changes for which the comparison is wrong."""
    kinds = {}
    for line in sorted(present):
        kinds.setdefault(line.split()[0], line)
    problems = [f"nothing of kind {kind}" for kind in ("command", "flag", "option", "status", "variable", "key", "request", "file", "column",
                                                       "metric", "swift") if kind not in kinds]
    for line in kinds.values():
        if gone(present, present - {line}) != [line]:
            problems.append(f"removed, and not seen: {line}")
        if gone(present, present - {line} | {line + " changed"}) != [line]:
            problems.append(f"changed, and not seen: {line}")
    if gone(present, present | {"flag run --new"}):
        problems.append("an addition is a break")
    return problems


def schema_changes_are_seen():
    """Removes a key, a requirement and a value of a schema, and changes a type; returns the changes that are not noticed."""
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": ["integer", "null"]}}}
    before = set(keys_of(schema, "s"))
    changes = {"key": lambda s: s["properties"].pop("b"), "required": lambda s: s["required"].clear(),
               "type": lambda s: s["properties"]["a"].update(type="integer"), "value": lambda s: s["properties"]["a"]["enum"].remove("y")}
    problems = []
    for name, change in changes.items():
        changed = json.loads(json.dumps(schema))
        change(changed)
        if not gone(before, set(keys_of(changed, "s"))):
            problems.append(f"not seen: {name}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="record what there is now as released")
    parser.add_argument("--complete", action="store_true", help="also fail for what is not recorded: before a release")
    arguments = parser.parse_args()
    assert shutil.which("swift"), "swift is not on the PATH"
    present = {line for part in PARTS for line in part()}
    if arguments.update:
        RELEASED.parent.mkdir(exist_ok=True)
        version = re.search(r'^let version = "(.*)"$', (ROOT / "Package.swift").read_text(), re.M)[1]
        RELEASED.write_text("# What users rely on, recorded by Tests/House/stable.py --update when the version of the package was "
                            f"{version}.\n" + "".join(f"{line}\n" for line in sorted(present)))
        print(f"recorded {len(present)} lines")
    checks, released = Checks(), recorded()
    lost, new = gone(released, present), gone(present, released)
    checks.check("nothing that was released has gone or changed", lost[:SHOWN] + [f"and {len(lost) - SHOWN} more"] * (len(lost) > SHOWN))
    checks.check("breaks are seen", breaks_are_seen(present))
    checks.check("changes of a schema are seen", schema_changes_are_seen())
    if arguments.complete:
        checks.check("everything is recorded (--update)", new[:SHOWN])
    elif new:
        print(f"{len(new)} lines are new since the release; --update records them at the next")
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
