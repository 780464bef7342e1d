#!/usr/bin/env python3
"""Runs the cases of Tests/Programs: real programs must behave the same plain and guarded.

Each case runs its commands once as they are and once under `zguard run`, with the default profile unless --profile names
another. Exit status, output and files must be equal, the report must be empty, and the guard must be seen in the memory
map of the running program.
A program that is not installed is a failure; --install fetches all that are missing.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import close  # noqa: E402
from Support.environment import ROOT  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

sys.dont_write_bytecode = True

from case import Source  # noqa: E402
from cases import all_cases  # noqa: E402
from harness import CaseError, Explained, Guard, Run, compare  # noqa: E402

RESULTS = ROOT / "build" / "tests" / "programs.json"
ATTEMPTS = 3
ORDINARY_SIZE = 0.5  # size of the inputs, as a fraction of the largest; --long uses the largest
print_lock = threading.Lock()


def say(text):
    with print_lock:
        print(text, flush=True)


def install(cases):
    install_packages(cases)
    for source in {need.source: need for case in cases for need in case.needs if isinstance(need, Source) and not need.is_met()}.values():
        say(f"programs: fetching the source of {source.source}")
        if fault := source.fetch():
            sys.exit(f"programs: error: the source of {source.source} cannot be had: {fault}")


def install_packages(cases):
    packages = sorted({need.package for case in cases for need in case.needs if need.package and not need.is_met()})
    if not packages:
        return
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("programs: error: programs are missing and this is not root\nhint: sudo " + " ".join(command))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say("programs: installing " + " ".join(packages))
    for attempt in (command, ["apt-get", "update"], command):
        result = subprocess.run(attempt, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if attempt is command and result.returncode == 0:
            return
    sys.exit(f"programs: error: {' '.join(command)} failed\n{result.stderr.strip()}")


def exit_if_missing(name, cases):
    """Ends the process with an error if a program of the cases is missing. `name`: the driver, which must have --install-only."""
    if missing := [need.describe() for case in cases for need in case.needs if not need.is_met()]:
        sys.exit(f"{name}: error: not installed: " + ", ".join(missing) + "\nhint: --install-only fetches them")


def run_case(case, guard, options):
    """Returns the faults of one case; none if it passed."""
    for _ in range(ATTEMPTS):
        faults, is_known = try_case(case, guard, options)
        if not is_known:
            break
        say(f"       {case.name}: met a known defect of the program, and nothing else; once more")
    return faults


def try_case(case, guard, options):
    """Returns the faults of one pass, and whether a known defect of the program explains them."""
    missing = [need for need in case.needs if not need.is_met()]
    if missing:
        return ["not installed: " + ", ".join(need.describe() for need in missing) + " (--install fetches packages)"], False
    work = Path(tempfile.mkdtemp(prefix=f"zguard-{case.name}-", dir=options.tmp))
    work.chmod(0o711)  # servers that drop root must reach their files
    run, faults, is_known = None, [], False
    try:
        passes = []
        (work / "inputs").mkdir()
        case.setup(work / "inputs")
        for mode in (None, guard):
            started = time.monotonic()
            run = Run(case, work, mode)
            try:
                case.steps(run)
            except Explained:
                raise
            except CaseError as error:
                raise Explained(f"{error}\n{run.what_runs()}".rstrip()) from error
            except Exception as error:  # an error in a case must not end the others
                raise Explained(f"{traceback.format_exc()}{run.what_runs()}".rstrip()) from error
            finally:
                run.stop()
            passes.append(run)
            case.processor_seconds += run.processor_seconds
            if options.verbose:
                say(f"       {case.name}: {run.mode} {time.monotonic() - started:.1f} s, "
                    f"{run.processor_seconds:.1f} s of the processor"
                    + (f", guarded: {' '.join(sorted(run.guarded))}" if mode else ""))
        faults = compare(case, *passes)
    except CaseError as error:
        faults = [str(error), *run.trouble()] if run else [str(error)]
    except Exception:  # an error in a case must not end the others
        faults = [traceback.format_exc()]
    if faults and run:
        is_known = run.has_known_defects_only()
    if faults and options.keep:
        faults.append(f"kept: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    return faults, is_known


def keep_result(case, faults, profile):
    """Adds the result of this run to the stored results for --markdown."""
    version = case.version_text()
    with builds.locked(RESULTS.with_suffix(".lock")):
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept.setdefault(case.name, {})[profile] = {"faults": faults, "version": version}
        draft = RESULTS.with_suffix(".new")
        draft.write_text(json.dumps(kept, indent=1))
        draft.rename(RESULTS)


def markdown(cases):
    """Prints a table of all cases with the stored results."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print("| program | version | what is run | default | `--profile fence` |")
    print("|---|---|---|---|---|")
    for case in cases:
        results = kept.get(case.name, {})
        version = next((result["version"] for result in results.values()), "") or case.version_text()
        words = [told(results.get(profile)) for profile in ("guard", "fence")]
        print(f"| {case.name} | {version} | {case.what} | {words[0]} | {words[1]} |")


def told(result):
    if result is None:
        return "not run"
    return "identical" if not result["faults"] else "**" + result["faults"][0].split("\n")[0].replace("|", "\\|")[:120] + "**"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", metavar="TEXT", action="append", help="only cases whose name contains TEXT (repeatable)")
    parser.add_argument("--list", action="store_true", help="names and what they need, then end")
    parser.add_argument("--install", action="store_true", help="fetch missing programs with apt-get first")
    parser.add_argument("--install-only", action="store_true", help="that, then end")
    parser.add_argument("--long", action="store_true",
                        help="also cases that take too long for every change, and the largest inputs whole; "
                             "a filter with a case's whole name asks for it, too")
    parser.add_argument("--markdown", action="store_true", help="print a table of all cases with the last results, then end")
    parser.add_argument("--zguard", metavar="PATH", default=str(ROOT / "build" / "bin" / "zguard"))
    parser.add_argument("--profile", metavar="NAME", help="profile for `zguard run`")
    parser.add_argument("--option", "-o", metavar="KEY=VALUE", action="append", default=[],
                        help="option for `zguard run` (repeatable)")
    parser.add_argument("--preload", metavar="LIBRARY", help="compare with another preloaded allocator instead of zguard")
    add_slice_option(parser)
    parser.add_argument("--jobs", metavar="N", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--tmp", metavar="DIR", help="where cases put their files")
    parser.add_argument("--keep", action="store_true", help="keep the files of cases that failed")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()

    cases = [case for case in all_cases() if not options.filter or any(text in case.name for text in options.filter)]
    if options.markdown:
        markdown(cases)
        return 0
    for case in cases:
        case.size = 1.0 if options.long else ORDINARY_SIZE
    if not options.long and not options.list:
        cases = [case for case in cases if not case.long or case.name in (options.filter or ())]
    if options.list:
        for case in cases:
            print(f"{case.name:28} {'long ' if case.long else ''}{' '.join(need.describe() for need in case.needs)}")
        return 0
    if not cases:
        sys.exit("programs: error: no case has a name like that")
    if options.install_only:
        install(cases)
        return 0
    subject = options.preload or options.zguard
    if not os.path.exists(subject):
        sys.exit(f"programs: error: cannot find '{subject}'\nhint: scripts/build makes build/bin/zguard")
    if options.install:
        install(cases)
    words = ["--profile", options.profile] if options.profile else []
    words += [word for option in options.option for word in ("-o", option)]
    whole = len(cases)
    cases = options.slice.deal(cases)
    options.slice.say(len(cases), whole, "programs")
    guard = Guard(preload=options.preload) if options.preload else Guard(zguard=options.zguard, options=words)
    started, failed = time.monotonic(), 0

    def timed(case):
        begin = time.monotonic()
        return case, run_case(case, guard, options), time.monotonic() - begin

    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for future in concurrent.futures.as_completed([pool.submit(timed, case) for case in cases]):
            case, faults, seconds = future.result()
            failed += bool(faults)
            if not options.preload and not options.option:
                keep_result(case, faults, options.profile or "guard")
            used = f"{seconds:.1f} s, {case.processor_seconds:.1f} s of the processor"
            say(f"{'FAIL' if faults else 'pass'}   {case.name} ({used})")
            for fault in faults:
                say("       " + fault.replace("\n", "\n       "))
    print(f"{time.monotonic() - started:.0f} s")
    return close(len(cases) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
