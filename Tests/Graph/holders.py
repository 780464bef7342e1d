#!/usr/bin/env python3
"""Plants a pointer to a freed block in each kind of place, uses the block, and expects the place first among the finding's holders.
Closing line: N passed, N failed.

The text that the finding must have is in the comment above each case of holders.c, holders.cpp, holders.swift and holders_uv.c (libuv);
"#" stands for a number. holders_kinds.swift frees the kinds of objects of Detection/Zombies/Kinds.swift; there the finding must name the
property with the name of the case. A process that asks for the search must go on if zguard is killed, stopped, or may not trace it. `zguard
dangling` sees the same places before any use, and in core files of the kernel and of gdb.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import run_driver, run_within  # noqa: E402
from Support.cores import kernel_writes_here, kernels_core, may_leave_core  # noqa: E402
from Support.environment import TESTS, ZGUARD, guarded_by, scrubbed  # noqa: E402

PROGRAMS = TESTS / "Graph/Programs"
BUILD = builds.BUILD / "graph"
TIMEOUT_SECONDS = 120
C_BUILDS, SWIFT_BUILDS = ["-O0", "-O2"], {"-Onone": ["-Onone"], "-O": ["-O"], "static": ["-O", "-static-stdlib"]}


def build_c(optimization):
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = BUILD / f"holders{optimization}"
    folder.mkdir(exist_ok=True)
    source = PROGRAMS / "holders.c"
    return builds.compiled(folder / "holders", ["gcc", "-g", optimization, "-Wall", "-Wextra", "-Werror", "-pthread", "-o", folder / "holders",
                                                source], [source], cwd=folder)


def build_cxx():
    BUILD.mkdir(parents=True, exist_ok=True)
    source, program = PROGRAMS / "holders.cpp", BUILD / "holders_cxx"
    return builds.compiled(program, ["g++", "-std=c++20", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], [source], cwd=BUILD)


def build_uv():
    BUILD.mkdir(parents=True, exist_ok=True)
    source, program = PROGRAMS / "holders_uv.c", BUILD / "holders_uv"
    return builds.compiled(program, ["gcc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-luv"], [source], cwd=BUILD)


def build_swift(kind, name="holders"):
    BUILD.mkdir(parents=True, exist_ok=True)
    source, program = PROGRAMS / f"{name}.swift", BUILD / f"{name}_swift{kind}"
    return builds.compiled(program, ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-module-name", "holders", "-g",
                                     *SWIFT_BUILDS[kind], "-o", program, source], [source], cwd=BUILD)


def cases(source, function):
    """The expected texts of each case of a program, by the name of the case's function."""
    text = (PROGRAMS / source).read_text()
    return {name: texts.split(" | ") for texts, name in re.findall(rf"^// case: (.*)\n{function}", text, re.M)}


def c_cases(source="holders.c"):
    by_function = cases(source, r".* (\w+)\((?:void)?\) \{")
    listed = dict(re.findall(r'\{"([\w-]+)", (\w+)\}', (PROGRAMS / source).read_text()))
    assert set(listed.values()) == set(by_function), "a case is not in the list, or has no comment"
    return {name: by_function[function] for name, function in listed.items()}


def uv_cases():
    """No cases if libuv's header is missing."""
    if not Path("/usr/include/uv.h").exists():
        print("libuv: not tested: libuv1-dev is not installed")
        return {}
    return c_cases("holders_uv.c")


def swift_cases():
    by_function = cases("holders.swift", r"@inline\(never\) func (\w+)\(\) -> UInt \{")
    listed = dict(re.findall(r'\("(\w+)", (\w+)\)', (PROGRAMS / "holders.swift").read_text()))
    assert set(listed.values()) == set(by_function), "a case is not in the list, or has no comment"
    return {name: by_function[function] for name, function in listed.items()}


def swift_kinds():
    return re.findall(r'^    \("(\w+)", \{', (PROGRAMS / "holders_kinds.swift").read_text(), re.M)


def pattern(texts):
    """A regular expression that matches any of the texts; "#" in a text matches a number."""
    return "(?:" + "|".join(re.escape(text).replace(r"\#", r"\d+") for text in texts) + ")"


def first_finding(directory, *command, options=(), may_have_none=False):
    """Runs a program. Returns its first finding, and the line of the text report that says who holds the block."""
    report = Path(directory) / "report.jsonl"
    report.unlink(missing_ok=True)
    _, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", *options, "--report", report, "--", *command], env=scrubbed())
    found = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    found = [finding for finding in found if finding["schema"] == "zguard.finding/1"]
    assert found, f"no finding: {out}{err}"
    _, text, _ = run_within(TIMEOUT_SECONDS, [ZGUARD, "report", report], env=scrubbed())
    said = re.findall(r"^==zguard== ((?:still held|no other pointer).*)$", text, re.M)
    assert len(said) == sum("holders" in finding for finding in found), text
    return found[0], said[0] if said else None


def held_case(build, name, texts, words=()):
    def test(directory):
        finding, said = first_finding(directory, build(), name, *words)
        assert "holders" in finding, f"nobody has looked: {finding.get('detail')}"
        if texts == ["-"]:
            assert finding["holders"] == [] and said == "no other pointer to the block was found", said
            return
        assert re.match(f"still held by {pattern(texts)}", said), f"{said}, not {texts}"
        first = finding["holders"][0]
        if "block" in first:
            assert first["stacks"]["alloc"] and first["block"]["state"] == "live", first
    return test


def kinds(directory):
    """A double free and a write have holders. A write that is found late is a write-after-free."""
    for words, kind in ((["struct", "free"], "double-free"), (["struct", "write"], "use-after-free")):
        finding, said = first_finding(directory, build_c("-O0"), *words)
        assert finding["kind"] == kind and said.startswith("still held by offset 8 of a live block"), (finding["kind"], said)
    finding, said = first_finding(directory, build_c("-O0"), "struct", "write",
                                  options=["-o", "isolated_per_context=0", "-o", "watchpoints=0", "-o", "isolated_bytes=0"])
    assert finding["kind"] == "write-after-free", finding["kind"]


def none_asked(directory):
    """scan_ms=0 turns the search off."""
    finding, said = first_finding(directory, build_c("-O0"), "global", options=["-o", "scan_ms=0"])
    assert "holders" not in finding and "search" not in finding["detail"] and said is None, finding


def limited(directory):
    """If the search for holders takes longer than scan_ms, the finding is still reported, and says so."""
    started = time.monotonic()
    finding, _ = first_finding(directory, build_c("-O0"), "huge", options=["-o", "scan_ms=1"])
    assert time.monotonic() - started < 60
    assert "scan_ms" in finding["detail"].get("search", "") or "holders" in finding, finding["detail"]


def zguard_is_killed(directory):
    """A process that waits for a search continues when zguard is killed, and when zguard does not answer at all."""
    for how in ("kill", "stop"):
        program = build_c("-O0")
        process = subprocess.Popen([ZGUARD, "run", "-o", "on_finding=continue", "--", program, "global", "read", "wait"], env=scrubbed(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
            os.kill(process.pid, 19)  # SIGSTOP: zguard receives the request, and does not answer
            started = time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            if how == "kill":
                time.sleep(0.5)
                assert Path(f"/proc/{child}/stat").exists(), "the program did not wait"
                process.kill()
                process.wait()
            line = process.stdout.readline()
            taken = time.monotonic() - started
            assert line.startswith("went on"), line
            assert taken < 30 and (how == "kill" or taken > 1.5), f"{how}: the program waited for {taken:.1f} s"
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def many_findings(directory):
    """If a program continues after findings, holders are searched for the first eight, and once for equal findings."""
    report = Path(directory) / "report.jsonl"
    _, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "-o", "on_finding=continue", "-o", "isolated_per_context=64", "--report", report, "--",
                                              build_c("-O0"), "many"], env=scrubbed())
    assert "went on" in out, out + err
    found = [json.loads(line) for line in report.read_text().splitlines()]
    found = [finding for finding in found if finding["schema"] == "zguard.finding/1"]
    searched = [finding for finding in found if "holders" in finding]
    assert len(found) >= 10 and len(searched) == 8, (len(found), len(searched))


def looked_at(program, name, *flags):
    """Starts a program that has freed the block and waits, and calls zguard dangling. Returns its status and output."""
    process = subprocess.Popen([program, name, "read", "wait"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "dangling", process.pid, *flags], env=scrubbed())
        state = re.search(r"^State:\s+(\S)", Path(f"/proc/{process.pid}/status").read_text(), re.M)[1]
        assert state in "RS", f"the program's state is {state}"
        return code, out, err
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def dangling_c(directory):
    """zguard dangling lists variables that hold pointers, and only counts other places."""
    for name, place in (("global", "the global 'current' (holders)"), ("thread-local", "the thread-local variable 'thread_block'")):
        code, out, err = looked_at(build_c("-O0"), name, "--fail")
        assert code == 99 and f"  {place}" in out and "→ a freed block of 200 bytes, freed in drop (holders.c:" in out, out + err
    code, out, err = looked_at(build_c("-O0"), "struct", "--fail")
    assert code == 0 and out.startswith("==zguard== 0 references") and "other word" in out, out + err
    code, out, err = looked_at(build_c("-O0"), "nobody", "--fail")
    assert code == 0 and out.startswith("==zguard== 0 references"), out + err


def dangling_swift(kind, name, texts):
    def test(directory):
        code, out, err = looked_at(build_swift(kind), name, "--fail")
        assert code == 99, out + err
        target = r"a freed holders.Listener of \d+ bytes, freed in (overRelease\(_:\)|Listener.__deallocating_deinit) \(holders.swift:\d+\)"
        expected = rf"^  {pattern(texts)}.*\n    → {target}$"
        assert re.search(expected, out, re.M), f"{out}{err}, not {texts}"
    return test


def dangling_json(directory):
    code, out, err = looked_at(build_swift("-O"), "property", "--format", "json")
    assert code == 0, err
    found = json.loads(out)
    first = found["references"][0]
    assert found["schema"] == "zguard.dangling/1" and first["target"]["block"]["class"].endswith("Listener"), found
    assert first["holder"]["member"] == "listener" and first["target"]["stacks"]["free"] and first["target"]["stacks"]["alloc"], first


def references(out):
    """The references in the output of `zguard dangling`, without what core files lack: "; stopped for 9 ms", and names of threads."""
    return re.sub("of thread keeper$", "of another thread", re.sub("; stopped for .*", "", out), flags=re.M).splitlines()


def dangling_core(program, name):
    """zguard finds the same references in core files of gdb and of the kernel as in the process, or says that gdb could not read live
    blocks."""
    def test(directory):
        core, kernels = Path(directory) / "gdb", Path(directory) / "kernel"
        kernels.mkdir()
        process = subprocess.Popen([program(), name, "read", "wait"], env=guarded_by(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   cwd=kernels, preexec_fn=may_leave_core)
        try:
            assert process.stdout.readline() == "ready\n"
            _, live, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "dangling", process.pid], env=scrubbed())
            assert "→ a freed " in live, live + err
            command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", process.pid, "-ex", f"generate-core-file {core}"]
            _, out, err = run_within(TIMEOUT_SECONDS, command, env=scrubbed())
            assert core.exists(), out + err
            process.send_signal(signal.SIGXCPU)  # Swift's runtime handles SIGQUIT itself
            assert process.wait(TIMEOUT_SECONDS) == -signal.SIGXCPU, process.returncode
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        for file in [core, *([kernels_core(kernels)] if kernel_writes_here() else [])]:
            assert file, "no core file"
            code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "dangling", file, "--fail"], env=scrubbed())
            if file == core and code == 1 and "lacks the contents of" in err:
                continue
            assert code == 99 and references(out) == references(live), f"{file.name}: {out}{err}, not {live}"
    return test


def tests():
    for optimization in C_BUILDS:
        yield from ((f"c {name} {optimization}", held_case(lambda level=optimization: build_c(level), name, texts))
                    for name, texts in c_cases().items())
    yield from ((f"c++ {name}", held_case(build_cxx, name, texts)) for name, texts in c_cases("holders.cpp").items())
    yield from ((f"libuv {name}", held_case(build_uv, name, texts)) for name, texts in uv_cases().items())
    for kind in SWIFT_BUILDS:
        yield from ((f"swift {name} {kind}", held_case(lambda each=kind: build_swift(each), name, texts))
                    for name, texts in swift_cases().items())
        yield from ((f"kind {name} {kind}", held_case(lambda each=kind: build_swift(each, "holders_kinds"), name, [f"Store.{name} of a live"]))
                    for name in swift_kinds())
    yield "kinds", kinds
    yield "none asked", none_asked
    yield "limited", limited
    yield "zguard is killed", zguard_is_killed
    yield "many findings", many_findings
    yield "dangling c", dangling_c
    yield "dangling json", dangling_json
    yield from ((f"dangling core c {name}", dangling_core(lambda: build_c("-O0"), name)) for name in ("global", "other-thread-local"))
    yield from ((f"dangling core swift {name}", dangling_core(lambda: build_swift("-O"), name)) for name in ("structInArray", "staticLet"))
    for kind in SWIFT_BUILDS:
        # `zguard dangling` only counts references from blocks without a class (of Dispatch, `allocate(capacity:)` and tasks), so leave out
        # the cases with such references.
        yield from ((f"dangling {name} {kind}", dangling_swift(kind, name, texts)) for name, texts in swift_cases().items()
                    if not texts[0].startswith("offset "))


if __name__ == "__main__":
    sys.exit(run_driver(__doc__, tests, "zguard-holders-"))
