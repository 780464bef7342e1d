#!/usr/bin/env python3
"""Runs zguard in roots that have nothing but the loader, libc.so.6, zguard and a program: as root and as a user without rights, without
capabilities, read-only, with and without /proc. Without --full, only the strictest of these.
Closing line: N passed, N failed."""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks, close, run_within  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD  # noqa: E402

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct cart { int items[10]; };
static int total(struct cart *cart) { return cart->items[3]; }
int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    struct cart *cart = calloc(1, sizeof *cart);
    char byte;
    if (!strcmp(what, "wait") && (puts("ready"), fflush(stdout), read(0, &byte, 1)) < 0) return 1;
    if (!strcmp(what, "abort")) fputs("no cart left\n", stderr), abort();
    free(cart);
    if (!strcmp(what, "use")) return total(cart);
    if (!strcmp(what, "twice")) free(cart);
    return !strcmp(what, "seven") ? 7 : 0;
}
"""
# The ENTRYPOINT of the image in docs/INSTALL.md: zguard's path, and the arguments with which zguard runs the program.
RECIPE = re.search(r"^FROM shop\nADD \S+ /opt/\nENTRYPOINT (\[.*\])$", (ROOT / "docs/INSTALL.md").read_text(), re.M)
INSTALLED, *RUN = json.loads(RECIPE[1])
SECONDS = 120
NOBODY = 65534
CAPABILITIES = 64  # more than any kernel has; a number that is too large is refused
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
# The directory for temporary files that the root has; "none" means that nothing can be written.
WRITABLE = {"/tmp": "tmp", "/dev/shm": "dev/shm", "none": ""}


def libraries_of(program):
    """Returns the loader and the libraries of an executable; only libc is allowed."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"(/\S+) \(0x", said)
    assert len(paths) == 2 and all(re.search(r"/(libc\.so\.6|ld-linux[\w-]*\.so\.\d)$", path) for path in paths), said
    return paths


class Root:
    """A root for one program. `is_root`: whether zguard runs there as root, though without capabilities."""

    def __init__(self, path, program, is_root, has_proc, writable):
        self.path, self.is_root = path, is_root
        for library in {*libraries_of(program), *libraries_of(ZGUARD)}:
            self.copy(library, library)
        self.copy(ZGUARD, INSTALLED)
        self.copy(LIBRARY, str(Path(INSTALLED).parents[1] / "lib/zguard/libzguard.so"))
        self.copy(program, RUN[-1])
        for name in filter(None, ["proc" if has_proc else "", *WRITABLE.values()]):
            (path / name).mkdir(parents=True, exist_ok=True)
        mount("--bind", path, path)
        if has_proc:
            mount("-t", "proc", "proc", path / "proc")
        mount("-o", "remount,bind,ro", path)
        if WRITABLE[writable]:
            mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", path / WRITABLE[writable])

    def copy(self, source, target):
        target = self.path / target.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def enter(self):
        """Enters the root and gives up all rights, in the child process before it executes zguard."""
        libc = ctypes.CDLL(None, use_errno=True)
        os.chroot(self.path)
        os.chdir("/")
        for number in range(CAPABILITIES):
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
        if not self.is_root:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def zguard(self, *words):
        return run_within(SECONDS, [INSTALLED, *words], env={}, preexec_fn=self.enter)

    def start(self, *words):
        return subprocess.Popen([INSTALLED, *words], env={}, preexec_fn=self.enter, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def expect(said, status, *patterns):
    """Returns problems if the status differs, or standard error lacks a pattern."""
    problems = [] if said[0] == status else [f"status {said[0]}, not {status}"]
    problems += [f"does not say {pattern}" for pattern in patterns if not re.search(pattern, said[2])]
    return problems + (said[2].splitlines()[-15:] if problems else [])


def runs(root, checks, name):
    """Checks what `zguard run` reports of findings, a crash and exit statuses."""
    use = root.zguard(*RUN, "use")
    checks.check(f"{name}: a use after free", expect(use, 139, r"use-after-free: read at .* \(\S*shop\.c:6\)", r"#0 total .*shop\.c:6",
                                                     r"freed by[^=]* main .*shop\.c:13", r"allocated by[^=]* main .*shop\.c:9"))
    twice = root.zguard("run", "--", "/shop", "twice")
    checks.check(f"{name}: a double free", expect(twice, 134, r"double-free: .*shop\.c:15"))
    crash = root.zguard("run", "--collect", "crashes", "--", "/shop", "abort")
    checks.check(f"{name}: a crash", expect(crash, 134, r"crash: SIGABRT in main: no cart left \(\S*shop\.c:12\)"))
    checks.check(f"{name}: a status", expect(root.zguard("run", "--", "/shop", "seven"), 7, "no findings"))
    checks.check(f"{name}: a clean program", expect(root.zguard("run", "--", "/shop"), 0, "no findings"))
    missing = root.zguard("run", "--", "/none")
    checks.check(f"{name}: no program", expect(missing, 127))


def reports(root, checks, name, place):
    """A report is written, and read again."""
    wrote = root.zguard("run", "--report", f"{place}/found.jsonl", "--format", "json", "--", "/shop", "use")
    problems = expect(wrote, 139)
    status, said, err = root.zguard("report", f"{place}/found.jsonl", "--format", "json")
    found = [json.loads(line) for line in said.splitlines()]
    if status != 0 or [each.get("kind") for each in found if each["schema"].startswith("zguard.finding/")] != ["use-after-free"]:
        problems.append(f"zguard report: {status}, {said[:300]}, {err[:300]}")
    checks.check(f"{name}: a report", problems)


def statistics(root, checks, name):
    """`zguard stats` sees the guarded process of another zguard."""
    child = root.start("run", "--", "/shop", "wait")
    problems = []
    try:
        if child.stdout.readline() != "ready\n":
            problems.append("the program does not start")
        end = time.monotonic() + SECONDS
        while not problems:
            status, said, err = root.zguard("stats", "--json")
            lines = [json.loads(line) for line in said.splitlines()] if status == 0 else []
            if any("shop" in json.dumps(each) for each in lines):
                break
            if time.monotonic() > end:
                problems.append(f"zguard stats does not show the program: {status}, {said[:300]}, {err[:300]}")
            time.sleep(0.1)
        child.communicate("x", timeout=SECONDS)
        if child.returncode != 0:
            problems.append(f"the program ends with {child.returncode}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()
    checks.check(f"{name}: statistics", problems)


def optional_libraries(root, checks, name, place):
    """A command that needs a library that the root lacks fails with one sentence that names the library."""
    for words, library in ((["report", f"sqlite:{place}/findings.db"], r"libsqlite3\.so\.0"), (["report", "postgresql://x@127.0.0.1:1/y"], r"libpq\.so\.5")):
        said = root.zguard(*words)
        checks.check(f"{name}: {words[1]}", expect(said, 1, rf"^zguard: error: .*{library}.*\n(hint: .*\n)?$"))
    doctor = root.zguard("doctor")
    shown = re.search(r"^limited +self-test .*/bin/cat", doctor[1], re.M) and doctor[1].endswith("\nguarding was not tried\n")
    checks.check(f"{name}: doctor", expect(doctor, 0) + ([] if shown else doctor[1].splitlines()[-5:]))


def try_root(work, program, checks, is_root, has_proc, writable):
    name = f"{'root' if is_root else 'nobody'}, {'' if has_proc else 'no '}/proc, writable: {writable}"
    path = work / re.sub(r"\W+", "-", name)
    root = Root(path, program, is_root, has_proc, writable)
    if writable == "none":
        refused = root.zguard("run", "--", "/shop")
        checks.check(f"{name}: refused", expect(refused, 125, r"cannot find a writable directory .*\nhint: set TMPDIR"))
        return
    runs(root, checks, name)
    reports(root, checks, name, writable)
    if has_proc:
        statistics(root, checks, name)
    optional_libraries(root, checks, name, writable)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all combinations of user, /proc and writable directory")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: only the superuser makes roots")
        return close(0, 0, 1)
    if not os.environ.get("ZG_TEST_ALONE"):
        os.environ["ZG_TEST_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="zguard-distroless-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        # The roots are in a file system that disappears with the mount namespace of this driver.
        mount("-t", "tmpfs", "tmpfs", work)
        (work / "shop.c").write_text(SOURCE.lstrip())
        subprocess.run(["gcc", "-g", "-O0", "-w", "-o", work / "shop", work / "shop.c"], check=True)
        strictest = [(False, True, "/dev/shm"), (False, False, "/tmp")]
        everything = itertools.product((False, True), (True, False), WRITABLE)
        for is_root, has_proc, writable in everything if arguments.full else strictest:
            try_root(work, work / "shop", checks, is_root, has_proc, writable)
        subprocess.run(["umount", "--recursive", "--lazy", work], check=True)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
