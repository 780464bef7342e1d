#!/usr/bin/env python3
"""Programs that cannot take the library, started by guarded ones: for musl, with a sanitizer, in qemu's user mode, scripts for such. They
must end as they do unguarded, whichever function starts them, and the parent's statistics say so; ordinary ones must stay guarded.
Closing line: N passed, N failed."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402

DEADLINE_SECONDS = 60
WAYS = ("execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat", "syscall", "posix_spawn", "posix_spawnp")
# Another library of LD_PRELOAD, which every program can take.
OTHER = "libBrokenLocale.so.1"

SAYS = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    char *volatile block = malloc(100);
    free(block);
    const char *preload = getenv("LD_PRELOAD");
    printf("%d %s %s\n", count, words[count - 1], preload ? preload : "nothing");
    return 3;
}
"""

# How each program is built, and what it is called. With a runtime that is linked in, and with a shared one.
BUILDS = {
    "glibc": ["gcc"],
    "musl": ["musl-gcc"],
    "musl_static": ["musl-gcc", "-static"],
    "asan": ["gcc", "-fsanitize=address"],
    "asan_static": ["gcc", "-fsanitize=address", "-static-libasan"],
    "tsan": ["gcc", "-fsanitize=thread"],
    "tsan_static": ["gcc", "-fsanitize=thread", "-static-libtsan"],
    "lsan": ["gcc", "-fsanitize=leak"],
    "ubsan": ["gcc", "-fsanitize=undefined"],
    "msan": ["clang", "-fsanitize=memory"],
    "clang_asan": ["clang", "-fsanitize=address"],
    "clang_asan_shared": ["clang", "-fsanitize=address", "-shared-libasan"],
}
# They run with the library as they do without.
TAKE_IT = {"glibc", "ubsan", "musl_static"}
LINES = {"other_libc": "linked with musl", "sanitized": "built with a sanitizer", "emulator": "it emulates another program"}


class Work:
    programs = None

    def __init__(self, path):
        self.path = Path(path)

    def environment(self, preload):
        kept = {**scrubbed(), "PATH": f"{self.programs}:{os.environ['PATH']}"}
        return {**kept, "LD_PRELOAD": preload} if preload else kept

    def run(self, preload, *words):
        result = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
                                env=self.environment(preload))
        assert result.returncode == 0, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result


def clang_library(name):
    """Where clang keeps a shared runtime, which its programs do not find by themselves."""
    path = subprocess.run(["clang", f"-print-file-name={name}"], capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS).stdout.strip()
    return Path(path).parent if Path(path).exists() else None


def build(folder):
    source = folder / "says.c"
    source.write_text(SAYS)
    machine = os.uname().machine
    for name, command in BUILDS.items():
        more = []
        if "-shared-libasan" in command:
            place = clang_library(f"libclang_rt.asan-{machine}.so")
            if not place:
                print(f"not tried: {name}, for clang has no shared runtime here")
                continue
            more = [f"-Wl,-rpath,{place}"]
        subprocess.run([*command, "-g", "-o", folder / name, source, *more], check=True, timeout=DEADLINE_SECONDS, stderr=subprocess.DEVNULL)
    subprocess.run(["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", folder / "starter", TESTS / "Robustness/Children/starter.c"],
                   check=True, timeout=DEADLINE_SECONDS)
    for name in ("glibc", "musl"):
        script = folder / f"script_for_{name}"
        script.write_text(f"#! {folder / name} -x\n")
        script.chmod(0o755)
        script = folder / f"script_for_script_for_{name}"
        script.write_text(f"#!{folder}/script_for_{name}\n")
        script.chmod(0o755)


def built():
    return [name for name in BUILDS if (Work.programs / name).exists()]


def takes_it(name):
    return name in TAKE_IT or name.endswith("for_glibc")


def started(work, name, way="execve", how="fork"):
    program = work.programs / name
    other = "" if "asan" in name else OTHER  # which wants to be the first library of all
    plain = work.run(other, work.programs / "starter", way, how, program)
    guarded = work.run(f"{other}:{LIBRARY}", work.programs / "starter", way, how, program)
    expected = plain.stdout
    if takes_it(name):
        expected = expected.replace(f" {OTHER}\n", f" {OTHER}:{LIBRARY}\n")
    assert guarded.stdout == expected and "unchanged" in guarded.stdout, f"{way} of {name}, {how}: {guarded.stdout} instead of {expected}"
    assert guarded.stderr == plain.stderr, f"{way} of {name}: {guarded.stderr}"
    assert "\n3\n" in guarded.stdout, f"{way} of {name}: {guarded.stdout}"


def every_kind_of_program(work):
    for name in built():
        started(work, name)


def every_function(work):
    for way in WAYS:
        for how in ("fork", "vfork"):
            for name in ("glibc", "musl"):
                started(work, name, way, how)


def scripts(work):
    for name in ("glibc", "musl"):
        started(work, f"script_for_{name}")
        started(work, f"script_for_script_for_{name}", "execvp")


def emptied(work):
    """Where nothing else was preloaded, the variable is gone; and a shell starts such a program like any other."""
    plain = work.run(None, "bash", "-c", "musl x; tsan y; exit 0")
    guarded = work.run(str(LIBRARY), "bash", "-c", "musl x; tsan y; exit 0")
    assert (guarded.stdout, guarded.stderr) == (plain.stdout, plain.stderr) and "nothing" in guarded.stdout, guarded


def emulated(work):
    program = work.programs / "glibc"
    plain = work.run(None, work.programs / "starter", "execvp", "fork", f"/usr/bin/qemu-{os.uname().machine}")
    guarded = work.run(str(LIBRARY), work.programs / "starter", "execvp", "fork", f"/usr/bin/qemu-{os.uname().machine}")
    assert guarded.stdout == plain.stdout, guarded
    words = "bash", "-c", f"qemu-{os.uname().machine} {program} x; echo $?"
    plain, guarded = work.run(None, *words), work.run(str(LIBRARY), *words)
    assert (guarded.stdout, guarded.stderr) == (plain.stdout, plain.stderr) and "2 x nothing\n3\n" in guarded.stdout, guarded


def counted(work):
    """The page of the process that forks says so, and how often."""
    for name, count, how in (("musl", 1, "wait"), ("glibc", 0, "wait")):
        process = subprocess.Popen([work.programs / "starter", "execve", how, work.programs / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=work.environment(str(LIBRARY)))
        try:
            assert [process.stdout.readline() for _ in range(3)][1:] == ["3\n", "unchanged\n"]
            stats = json.loads(subprocess.run([ZGUARD, "stats", str(process.pid), "--json"], capture_output=True, text=True, check=True,
                                              timeout=DEADLINE_SECONDS).stdout)
            process_stats = stats["processes"][0]
            assert process_stats["counters"]["children_unguarded"] == count, stats
            assert ("children_unguarded" in json.dumps(process_stats["degradations"])) == bool(count), stats
            process.stdin.close()
            assert process.wait(DEADLINE_SECONDS) == 0
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            process.stdout.close()


def refused(work):
    """`zguard run` names the reason, by the same look."""
    cases = [(work.programs / name, line) for name, line in (("musl", LINES["other_libc"]), ("tsan", LINES["sanitized"]), ("asan", LINES["sanitized"]),
                                                            ("script_for_musl", LINES["other_libc"]))]
    cases.append((Path(shutil.which(f"qemu-{os.uname().machine}")), LINES["emulator"]))
    for program, line in cases:
        result = subprocess.run([ZGUARD, "run", "--", program, "x"], capture_output=True, text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
                                env=work.environment(None))
        assert result.returncode == 125 and line in result.stderr, f"{program}: {result}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zguard-children-") as folder:
        Work.programs = Path(folder)
        build(Work.programs)
        tests = [(test.__name__, test) for test in (every_kind_of_program, every_function, scripts, emptied, emulated, counted, refused)]
        return run_tests(tests, "zguard-children-", arguments.filter, Work, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
