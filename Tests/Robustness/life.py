#!/usr/bin/env python3
"""Tests process life cycles under the guard: runs each scenario of the programs in Tests/Robustness/Life.

Every scenario runs without the library; with profiles guard and fence, where the process and some of its children die of planted bugs; with
on_finding=continue, where they continue; and with profile sample, without planted bugs. The output of a scenario must be the same each
time, it must end before the deadline, and the report must hold the planted bugs with all their stacks, and nothing else. Traits of a
scenario, as its program lists them:
  findings=N    number of planted bugs that must be in the report (default 1)
  options=…     further options of the library (separated by ':')
  modes=a,b     only these modes; none: the scenario is a part of another one
  inside=1      the process dies of the planted bug before the scenario's end
  end=N         exit code, or -signal, if the last planted bug does not end the scenario
  own=KIND      findings of this kind belong to the scenario and are ignored
  stacks=short  an access stack may consist of the innermost frame only
  report=none   findings go to standard error
  says=TEXT     message that the library may print on standard error ('_' for blanks)
Closing line: N passed, N failed.
"""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, close, run_within, said_by_library  # noqa: E402
from Support.environment import LIBRARY, TESTS, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCES = TESTS / "Robustness/Life"
BUILD = builds.BUILD / "life"

DEADLINE_SECONDS = 60
JOBS = 2
FLAGS = ["-std=gnu17", "-O1", "-g", "-fno-builtin", "-fno-inline", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-clobbered", "-Wno-infinite-recursion", "-Wl,-z,now"]

# name: (argument of the program, options)
MODES = {
    "plain": ("plain", None),
    "guard": ("dies", ""),
    "fence": ("dies", "profile=fence"),
    "continue": ("goes-on", "on_finding=continue"),
    "sample": ("quiet", "profile=sample:sample_rate=50"),
}
TOUCHES = {"dies": "plant_touch", "goes-on": "plant_free_again"}


def environment(options=None, preload=None):
    kept = scrubbed()
    if preload:
        kept["LD_PRELOAD"] = str(preload)
    if options is not None:
        kept["ZGUARD_OPTIONS"] = options
    return kept


def build(source):
    target = BUILD / source.stem
    head = re.search(r"^// flags: (.*)$", source.read_text(), re.M)
    command = ["gcc", *FLAGS, source, "-o", target, *(head.group(1).split() if head else []), "-rdynamic", "-pthread", "-ldl"]
    return builds.compiled(target, command, [source, TESTS / "Support/work.h", *SOURCES.glob("*.h")])


def build_library(source):
    """Builds NAME_library.cpp as NAME_library.so next to the program NAME, which loads it from there."""
    target = BUILD / (source.stem + ".so")
    builds.compiled(target, ["g++", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", source, "-o", target, "-ldl"],
                    [source])


def ranges_of(program):
    """Returns the address ranges of the planted bug's functions in the program file."""
    lines = subprocess.run(["nm", "-S", str(program)], capture_output=True, text=True).stdout
    found = {}
    for start, size, name in re.findall(r"^(\w+) (\w+) \w (plant\w*)$", lines, re.M):
        found[name] = (int(start, 16), int(start, 16) + int(size, 16))
    return found


class Runs:
    """Runs one process at a time, in a session of its own, with a deadline."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def run(self, command, options=None, preload=None, named=True, deadline=DEADLINE_SECONDS):
        report = self.directory / "report.jsonl"
        report.unlink(missing_ok=True)
        words = options
        if options is not None and named:
            words = f"report_path={report}" + (":" + options if options else "")
        code, out, err = run_within(deadline, command, cwd=self.directory, env=environment(words, preload))
        if code is None:
            raise Failed(f"hangs, still running after {deadline} s\n{out[-2000:]}{err[-2000:]}")
        lines = report.read_text(errors="replace").splitlines() if report.exists() else []
        return code, out, err, lines


def check_findings(lines, program_ranges, touch, wanted, own, short):
    found = 0
    for line in lines:
        try:
            finding = json.loads(line)
        except ValueError:
            raise Failed(f"the report holds what is no line: {line[:300]}") from None
        if finding["kind"] == own:
            continue
        if touch is None:
            raise Failed(f"a finding where nothing was planted: {line[:1500]}")
        for stack, name in (("access", touch), ("free", "plant_free"), ("alloc", "plant_allocate")):
            # Each stack must contain the function, its caller `plant`, and at least one more frame.
            offsets = [int(frame.get("offset", "0"), 16) for frame in finding["stacks"][stack]]
            places = [number for number, offset in enumerate(offsets)
                      if program_ranges[name][0] <= offset < program_ranges[name][1]]
            caller = offsets[places[0] + 1] if places and places[0] + 1 < len(offsets) else 0
            if short and stack == "access" and places:
                continue
            if not program_ranges["plant"][0] <= caller < program_ranges["plant"][1] or places[0] + 2 >= len(offsets):
                raise Failed(f"a finding that was not planted, or without '{name}' on its {stack} stack: {line[:1500]}")
        found += 1
    if found < wanted:
        raise Failed(f"{found} findings, {wanted} were planted")


def traits_of(text):
    return dict(word.split("=", 1) for word in text.split())


def run_scenario(program, name, traits, modes):
    """Returns the problems, by mode."""
    problems, expected = [], None
    places = ranges_of(program)
    chosen = traits.get("modes", ",".join(MODES)).split(",")
    for mode, (argument, options) in MODES.items():
        if mode not in chosen or (modes and mode not in modes and mode != "plain"):
            continue
        with tempfile.TemporaryDirectory(prefix="zguard-life-") as directory:
            os.chmod(directory, 0o755)
            try:
                if options is not None:
                    options = ":".join(word for word in (options, traits.get("options", "")) if word)
                code, out, err, lines = Runs(directory).run([program, name, argument], options,
                                                            None if options is None else LIBRARY,
                                                            traits.get("report") != "none")
                if "FAILED" in out or "hangs" in out:
                    raise Failed(out[-3000:])
                end = int(traits["end"]) if "end" in traits else -signal.SIGSEGV if argument == "dies" else 0
                if code != end:
                    raise Failed(f"ends with {code}, not {end}\n{out[-2000:]}{err[-2000:]}")
                said = sorted(line for line in out.splitlines() if "inside" not in traits or line != "at the end")
                if expected is None:
                    expected = said
                elif said != expected:
                    raise Failed("prints other lines than without the library:\n"
                                 + "\n".join(f"  -{line}" for line in expected if line not in said)
                                 + "\n".join(f"  +{line}" for line in said if line not in expected) + f"\n{err[-1000:]}")
                allowed = traits.get("says", "").replace("_", " ")
                if any(not allowed or allowed not in line for line in said_by_library(err)):
                    raise Failed(f"the library says\n{err[-2000:]}")
                wanted = int(traits.get("findings", 1)) if argument in TOUCHES else 0
                check_findings(lines, places, TOUCHES.get(argument), wanted, traits.get("own"), "stacks" in traits)
            except Failed as failure:
                problems.append(f"{mode}: {failure}")
    return problems


# MARK: other allocators


ALLOCATORS = ("libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4")


def run_allocator(program, allocator):
    """If the allocator is preloaded after the library, all blocks are guarded. If it is preloaded before, no block is guarded, and the
    library names the malloc in use."""
    problems = []
    for behind in (True, False):
        preload = f"{LIBRARY}:{allocator}" if behind else f"{allocator}:{LIBRARY}"
        with tempfile.TemporaryDirectory(prefix="zguard-life-") as directory:
            code, out, err, lines = Runs(directory).run([program, "started", "dies" if behind else "quiet"], "", preload)
            warned = bool(re.search(rf"zguard: warning: '\S*{re.escape(allocator)}\S*' defines malloc and is loaded before the runtime", err))
            if "cannot be preloaded" in err:
                problems.append(f"{allocator} is not installed")
            elif code != (-signal.SIGSEGV if behind else 0) or "FAILED" in out or warned == behind:
                problems.append(f"{preload}: ends with {code}\n{out}{err}")
            try:
                check_findings(lines, ranges_of(program), "plant_touch" if behind else None, int(behind), None, False)
            except Failed as failure:
                problems.append(f"{preload}: {failure}")
    return problems


def run_in_all_modes(command, is_well):
    """Returns the problems, by mode. `is_well` gets whether the command was guarded, and the messages of the library."""
    problems = []
    for mode, (_, options) in MODES.items():
        with tempfile.TemporaryDirectory(prefix="zguard-life-") as directory:
            is_guarded = options is not None
            code, out, err, lines = Runs(directory).run(command, options, LIBRARY if is_guarded else None)
            if (code, out, lines) != (0, "works\n", []) or not is_well(is_guarded, said_by_library(err)):
                problems.append(f"{mode}: ends with {code}\n{out}{err}{''.join(lines)[:1500]}")
    return problems


# Parts of the malloc family, built on libc's entry points, as a library loaded after zguard's may define them.
PARTS = {
    "malloc": "void *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }",
    "free": "void __libc_free(void *); void free(void *block) { __libc_free(block); }",
    "realloc": "void *__libc_realloc(void *, size_t); void *realloc(void *block, size_t n) { return __libc_realloc(block, n); }",
}
PART_SETS = (("malloc",), ("free",), ("realloc",), ("malloc", "free"), ("malloc", "free", "realloc"))
PARTS_USER = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int i = 0; i < 2000; i++) {
        char *volatile block = malloc(i + 1), *volatile zeroed = calloc(3, 100);
        block = realloc(block, 3000);
        free(block);
        free(zeroed);
        free(strdup("libc allocates"));
        free(aligned_alloc(64, 640));
    }
    puts("works");
}
"""


def run_parts_behind():
    """A library loaded after zguard's defines only some functions of the malloc family: the program ends as it does with this library
    alone."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="zguard-life-") as place:
        program = Path(place) / "user"
        subprocess.run(["gcc", "-x", "c", "-", "-o", program], input=PARTS_USER, text=True, check=True, timeout=DEADLINE_SECONDS)
        for parts in PART_SETS:
            library = Path(place) / f"{'_'.join(parts)}.so"
            source = "#include <stddef.h>\n" + "\n".join(PARTS[part] for part in parts)
            command = ["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", library]
            subprocess.run(command, input=source, text=True, check=True, timeout=DEADLINE_SECONDS)
            for mode, (_, options) in MODES.items():
                preload = library if options is None else f"{LIBRARY}:{library}"
                with tempfile.TemporaryDirectory(prefix="zguard-life-") as directory:
                    code, out, err, lines = Runs(directory).run([program], options, preload)
                if (code, out, lines) != (0, "works\n", []):
                    problems.append(f"{library.stem}, {mode}: ends with {code}\n{out}{err}{''.join(lines)[:1500]}")
    return problems


def run_own_allocator(program):
    """The executable itself defines the allocator."""
    warning = f"warning: '{program}' defines malloc and is loaded before the runtime"
    return run_in_all_modes([program], lambda is_guarded, said: (len(said) == 1 and warning in said[0]) == is_guarded)


def run_opened_late(program):
    """A program opens and closes the library with dlopen, with and without having it preloaded."""
    return run_in_all_modes([program, LIBRARY], lambda is_guarded, said: not said)


# MARK: the run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only scenarios whose name contains TEXT")
    parser.add_argument("--mode", action="append", choices=list(MODES), help="only this mode, after plain (repeatable)")
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what passes")
    add_slice_option(parser)
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    jobs, scenarios = {}, []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        def timed(function, *words):
            started = time.monotonic()
            try:
                return function(*words), time.monotonic() - started
            except (Failed, OSError, subprocess.SubprocessError) as failure:
                return [str(failure)], time.monotonic() - started

        for source in sorted(SOURCES.glob("*.c")):
            if re.search(r"^// for: ", source.read_text(), re.M):
                continue
            try:
                program = build(source)
                for library in SOURCES.glob(source.stem + "_library.cpp"):
                    build_library(library)
            except Failed as failure:
                failed += 1
                print(f"FAIL   {failure}")
                continue
            listed = subprocess.run([str(program), "--list"], capture_output=True, text=True).stdout
            for line in listed.splitlines():
                name, _, traits = line.partition(" ")
                name_shown = f"{source.stem} {name}"
                if arguments.filter in name_shown and "modes=none" not in traits:
                    scenarios.append((name_shown, program, name, traits_of(traits)))
        chosen = arguments.slice.choose(scenarios, name=lambda scenario: scenario[0])
        arguments.slice.say(len(chosen), len(scenarios), "scenarios")
        for name_shown, *words in chosen:
            jobs[pool.submit(timed, run_scenario, *words, arguments.mode)] = name_shown
        if arguments.filter in "allocator of its own":
            jobs[pool.submit(timed, run_own_allocator, build(SOURCES / "own_allocator.c"))] = "allocator of its own"
        if arguments.filter in "parts of allocators behind":
            jobs[pool.submit(timed, run_parts_behind)] = "parts of allocators behind"
        if arguments.filter in "opened late":
            jobs[pool.submit(timed, run_opened_late, build(SOURCES / "opened_late.c"))] = "opened late"
        for allocator in ALLOCATORS:
            if arguments.filter in f"allocator {allocator}" and arguments.slice.takes(allocator):
                program = build(SOURCES / "forks.c")
                jobs[pool.submit(timed, run_allocator, program, allocator)] = f"allocator {allocator}"
        for job in concurrent.futures.as_completed(jobs):
            problems, seconds = job.result()
            if problems:
                failed += 1
                print(f"FAIL   {jobs[job]} ({seconds:.1f} s)")
                for problem in problems:
                    print("       " + problem.replace("\n", "\n       "), flush=True)
            else:
                passed += 1
                if arguments.verbose:
                    print(f"pass   {jobs[job]} ({seconds:.1f} s)", flush=True)
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
