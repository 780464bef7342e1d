#!/usr/bin/env python3
"""Tests guarded programs that start programs which cannot load the library.
The started programs are built for musl, built with a sanitizer, run by qemu's user mode, or scripts whose interpreter is such a program.
They must end as they do unguarded, whichever function starts them, and the parent's statistics must count them. Ordinary programs must
stay guarded.
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
# A second library in LD_PRELOAD that every program can load.
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

# A process, its child and its grandchild print their IDs and wait until standard input ends. With an argument, the program
# first fills the gaps above the library, so that the kernel places the next mapping below.
FORKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    (void)words;
    void *(*volatile library)(size_t) = malloc;
    while (count > 1 && (char *)mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) > (char *)library) {
    }
    for (int depth = 0; depth < 3; depth++) {
        if (depth && fork()) {
            wait(NULL);
            return 0;
        }
        for (int index = 0; index < depth * 10; index++) free(malloc(100));
        printf("%d\n", getpid());
        fflush(stdout);
    }
    char end;
    return read(0, &end, 1) == 0 ? 0 : 1;
}
"""

# Name of each program and its compiler; sanitizers with their runtime linked statically and shared.
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
# Programs that can load the library; all others must have it removed from LD_PRELOAD.
TAKE_IT = {"glibc", "ubsan", "musl_static"}
LINES = {"other_libc": "linked with musl", "sanitized": "built with a sanitizer", "emulator": "it is an emulator"}


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
    """Returns clang's directory of a shared sanitizer runtime, which programs do not find by default; None if it is not installed."""
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
    other = "" if "asan" in name else OTHER  # AddressSanitizer requires its runtime to be the first library
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
    """If LD_PRELOAD names only the library, programs that cannot load it get no LD_PRELOAD, even if a shell starts them."""
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
    """The statistics page of the forking process counts its unguarded children."""
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


def own_page(work):
    """A forked child also maps its parent's statistics page. `zguard stats` shows the child's page, whichever page has the lower
    address."""
    source, program = work.path / "forks.c", work.path / "forks"
    source.write_text(FORKS)
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True, timeout=DEADLINE_SECONDS)
    places = []
    for words in 2 * [[program], [program, "below"]]:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=work.environment(str(LIBRARY)))
        try:
            for depth in range(3):
                identity = int(process.stdout.readline())
                result = subprocess.run([ZGUARD, "stats", str(identity), "--json"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
                assert result.returncode == 0, (words, depth, result)
                assert [each["pid"] for each in json.loads(result.stdout)["processes"]] == [identity], (words, depth, result.stdout)
                lines = Path(f"/proc/{identity}/maps").read_text().splitlines()
                names = [name for line in lines for name in ("zguard-stats", "/libzguard.so") if name in line]
                assert names.count("zguard-stats") == (2 if depth else 1), lines
                places.append(names[0] == "zguard-stats")
        finally:
            process.stdin.close()
            process.wait(DEADLINE_SECONDS)
            process.stdout.close()
    assert any(places) and not all(places), places


def copies(work):
    """Makes a folder like a toolchain's: swift-driver and swift-test start the program in their arguments, the others print LD_PRELOAD."""
    tools = work.path / "toolchain"
    tools.mkdir()
    for name, program in (("swift-driver", "starter"), ("swift-test", "starter"), ("swift-frontend", "glibc"), ("clang", "glibc")):
        shutil.copy(work.programs / program, tools / name)
    (tools / "swift").symlink_to("swift-driver")
    for name in ("shop-manifest", "tests"):
        shutil.copy(work.programs / "glibc", work.path / name)
    return tools


def exempt(work):
    """Swift's package manager, its tools and package manifests are exempt, whichever function starts them; other programs are guarded."""
    tools = copies(work)
    library, both = str(LIBRARY), f"{OTHER}:{LIBRARY}"
    for way in WAYS:
        if way in ("execvp", "execvpe", "execlp", "posix_spawnp", "syscall"):
            continue  # these functions search PATH; the runtime does not see a raw system call
        for preload, rest in ((library, "nothing"), (both, OTHER)):
            for program, shown in ((work.path / "tests", preload), (tools / "clang", rest), (work.path / "shop-manifest", rest)):
                result = work.run(preload, tools / "swift-test", way, "fork", program)
                assert f" {shown}\n3\nunchanged\n" in result.stdout, f"{way} of {program.name}: {result.stdout}"
                assert not result.stderr, result.stderr
    # A program in a system directory is exempt, also if posix_spawnp starts it.
    result = work.run(library, tools / "swift-test", "posix_spawnp", "fork", "/usr/bin/env")
    assert "LD_PRELOAD" not in result.stdout, result.stdout
    # A compiler is guarded if it is started by `swift` without a subcommand, or by a program that is no package manager.
    for program in (tools / "swift", work.programs / "starter"):
        assert f" {library}\n" in work.run(library, program, "execve", "fork", tools / "clang").stdout, program
    # A program named swift-test is no package manager if no compiler (swift-frontend) is beside it.
    (tools / "swift-frontend").unlink()
    assert f" {library}\n" in work.run(library, tools / "swift-test", "execve", "fork", tools / "clang").stdout


TWICE = r"""
#include <stdlib.h>
static void free_twice(char *volatile block) {
    free(block);
    free(block);
}
int main(void) { free_twice(malloc(SIZE)); }
"""


def named(work):
    """`--only` guards the programs that it lists by name, path or pattern. Programs that these start are guarded only if listed too."""
    source = work.path / "twice.c"
    source.write_text(TWICE)
    (work.path / "folder").mkdir()
    for size, name in enumerate(("first", "second", "folder/third")):
        function = Path(name).name  # equal stacks would make one finding of three
        subprocess.run(["gcc", "-w", f"-DSIZE={size + 2000}", f"-Dfree_twice={function}", "-o", work.path / name, source], check=True,
                       timeout=DEADLINE_SECONDS)
    script = f"cd {work.path}; ./first; ./second; folder/third"

    def run(*only):
        words = [word for each in only for word in ("--only", each)]
        result = subprocess.run([ZGUARD, "run", *words, "--", "bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                                stdin=subprocess.DEVNULL, env=work.environment(None), cwd=work.path)
        return result, result.stderr.splitlines()[-1]

    for only, found, exempted in (((), 3, 0), (("first",), 1, 3), (("first", "third"), 2, 2), ((str(work.path / "second"),), 1, 3),
                                  (("folder/third",), 1, 3), (("*ir*",), 2, 2), (("*/folder/*",), 1, 3), (("bash",), 0, 3), (("nobody",), 0, 4)):
        result, closing = run(*only)
        count = result.stderr.count("==zguard== double-free: ")
        libcs = result.stderr.count("free(): double free") + result.stderr.count("double free or corruption")
        assert count == found, f"{only}: {result.stderr}"
        assert (f", {exempted} programs exempt" in closing) == bool(exempted), f"{only}: {closing}"
        assert ("no program was guarded" in closing) == (only == ("nobody",)), closing
        assert libcs == 3 - found, result.stderr
    for bad in ("", "a,b", "a:b"):
        result, _ = run(bad)
        assert result.returncode == 64 and "--only" in result.stderr, result


def refused(work):
    """`zguard run` refuses a program that cannot load the library, and names the reason."""
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
        tests = [(test.__name__, test) for test in (every_kind_of_program, every_function, scripts, emptied, emulated, counted, own_page, exempt, named,
                                                            refused)]
        return run_tests(tests, "zguard-children-", arguments.filter, Work, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
