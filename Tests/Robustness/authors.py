#!/usr/bin/env python3
"""Tests that zguard shows source lines and symbol names only if the writer of the report could read the file.
A report must not make root print files that only root may read. Runs as root and as nobody. Closing line: N passed, N failed.

usage: authors.py [--filter WORD]"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import scrubbed  # noqa: E402
from Support.reachable import Reachable  # noqa: E402

NOBODY = 65534
STRANGER = 54321
DEADLINE_SECONDS = 60
SECRET = "root_alone_knows_this"
FORMS = ("text", "json", "sarif", "html", "junit", "github")
PROGRAM = f"""
__attribute__((noinline)) int {SECRET}(int x) {{ return x + 1; }}
int main(int argc, char **argv) {{ return {SECRET}(argc); }}
"""


class Work(Reachable):
    def __init__(self, path):
        """Adds files that only root may read, and a directory of the other user."""
        super().__init__(path)
        self.environment = scrubbed(TMPDIR=str(self.path))
        self.private = self.path / "private"
        self.private.mkdir(0o700)
        self.inner = self.file(self.private / "inner.c", f"int {SECRET};\n", 0o644)
        self.secret = self.file(self.path / "secret.c", f"int {SECRET};\n", 0o600)
        self.shadow = self.file(self.path / "shadow", f"{SECRET}:1:2\n", 0o600)
        self.theirs = self.path / "theirs"
        self.theirs.mkdir(0o755)
        os.chown(self.theirs, NOBODY, NOBODY)
        self.own = self.file(self.theirs / "own.c", "int their_own_line;\n", 0o600, NOBODY)

    @staticmethod
    def file(path, text, mode, owner=0):
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def report(self, frames, owner=NOBODY, mode=0o644, name=None, **more):
        """Writes a report with one finding for each frame; returns its path."""
        folder = self.path / f"reports-{owner}"
        folder.mkdir(exist_ok=True)
        lines = "".join(json.dumps(finding(number, frame, **more)) + "\n" for number, frame in enumerate(frames))
        return self.file(folder / (name or f"{time.monotonic_ns()}.jsonl"), lines, mode, owner)

    def run(self, *words, user=None, **more):
        """Returns standard output and standard error of zguard."""
        rights = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        result = subprocess.run([self.zguard, *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=self.environment,
                                cwd="/", **{"stdin": subprocess.DEVNULL, **rights, **more})
        assert result.returncode in (0, 1, 99 if words[0] == "check" else 0), (words, result)
        return result.stdout + result.stderr

    def shown(self, *places, user=None, forms=FORMS):
        return "".join(self.run("report", "--format", form, *places, user=user) for form in forms)


def finding(number, frame, **more):
    return {"schema": "zguard.finding/1", "kind": "use-after-free", "access": "read", "confidence": "exact", "address": hex(0x7f0000000000 + number * 64),
            "stacks": {"access": [{"pc": "0x401000", **frame}], "free": [], "alloc": []}, "count": 1, "pid": 7, "program": f"/srv/program{number}",
            "time": "2026-11-20T10:00:00Z", **more}


def source(path, line=1):
    return {"module": "/srv/program", "function": f"use_{re.sub('[^a-z]', '_', str(path))}"[:60], "file": str(path), "line": line}


def their_links(work):
    """Returns paths for every way in which the other user can name a file that only root may read; makes the links."""
    links = {"evil.c": work.shadow, "same.c": work.inner, "secret.c": work.secret, "process.c": "/proc/self/environ", "zero.c": "/dev/zero",
             "kernel.c": "/proc/version", "working.c": f"/proc/self/root{work.inner}"}
    for name, target in links.items():
        (work.theirs / name).symlink_to(target)
    (work.theirs / "folder").symlink_to(work.private)
    os.link(work.secret, work.theirs / "hard.c")
    os.mkfifo(work.theirs / "pipe.c")
    (work.theirs / "directory.c").mkdir()
    return [work.theirs / name for name in (*links, "folder/inner.c", "hard.c", "pipe.c", "directory.c", "../secret.c", "../private/inner.c",
                                            "folder/../secret.c")] + [work.secret, work.inner, f"/proc/self/root{work.inner}"]


def lines_of_roots_files(work):
    paths = their_links(work)
    report = work.report([source(path) for path in [*paths, work.own]])
    shown = work.shown(report)
    assert SECRET not in shown and "PATH=" not in shown, shown
    # Files of the other user are still shown, in text and HTML.
    for form in ("text", "html"):
        assert "their_own_line" in work.shown(report, forms=[form]), form
    # The secret stays hidden when the report passes through a directory, several files, a database or root's own JSON copy.
    store, base, again = work.path / "store", f"sqlite:{work.path}/all.db", work.path / "again.jsonl"
    for place in (str(store) + "/", base):
        work.run("collect", "--from", report.parent, "--to", place)
    again.write_text(subprocess.run([work.zguard, "report", "--format", "json", report], capture_output=True, text=True).stdout)
    assert '"author":"65534"' in again.read_text()
    for places in ([report.parent], [store], [base], [again], [again, report]):
        shown = work.shown(*places)
        assert SECRET not in shown and "PATH=" not in shown, (places, shown)
    assert "their_own_line" in work.shown(again, forms=["text"])
    # A report that several users can write, or that arrives through a pipe, shows only world-readable files.
    everybody = work.file(work.path / "everybody.c", "int everybody_sees_this;\n", 0o644)
    frames = [source(path) for path in [*paths, work.own, everybody]]
    shared = work.report(frames, owner=0, mode=0o666)
    assert re.findall(f"{SECRET}|their_own_line|everybody_sees_this", work.shown(shared, forms=["text"])) == ["everybody_sees_this"]
    with open(work.report(frames, owner=0)) as stream:
        cat = subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.PIPE)
        shown = work.run("report", "/dev/stdin", stdin=cat.stdout)
        cat.wait()
        assert re.findall(f"{SECRET}|their_own_line|everybody_sees_this", shown) == ["everybody_sees_this"], shown


def own_reports(work):
    """A report of root's own shows every source file that it names, also below a link to a directory, but not what a link named `*.c`
    points to."""
    their_links(work)
    (work.path / "link").symlink_to(work.private)
    for path, is_shown in ((work.secret, True), (work.inner, True), (work.path / "link/inner.c", True), (work.theirs / "evil.c", False),
                           (work.theirs / "process.c", False), (work.theirs / "kernel.c", False), (work.theirs / "pipe.c", False)):
        shown = work.shown(work.report([source(path)], owner=0), forms=["text", "html"])
        assert (SECRET in shown) == is_shown and "PATH=" not in shown and "Linux version" not in shown, (path, shown)

def other_users(work):
    """In another user's report an unprivileged reader sees no file that only the reader may read; in its own and root's reports it sees
    every file."""
    for owner, is_shown in ((STRANGER, False), (NOBODY, True), (0, True)):
        shown = work.shown(work.report([source(work.own)], owner=owner), user=NOBODY, forms=["text", "html"])
        assert ("their_own_line" in shown) == is_shown, (owner, shown)
    theirs = work.file(work.path / "stranger.c", "int strangers_line;\n", 0o644, STRANGER)
    assert "strangers_line" in work.shown(work.report([source(theirs)], owner=STRANGER), user=NOBODY, forms=["text"])


def groups_of_the_author(work):
    """The author's own group memberships count as read access; root's groups do not."""
    folder = work.path / "group"
    folder.mkdir()
    for group, is_shown in ((NOBODY, True), (0, False)):
        path = work.file(folder / f"group{group}.c", "int of_a_group;\n", 0o640)
        os.chown(path, 0, group)
        assert ("of_a_group" in work.shown(work.report([source(path)]), forms=["text"])) == is_shown, group


def names_that_change(work):
    """A directory and a file are swapped with symbolic links while zguard reads the report (TOCTOU)."""
    folder, place = work.theirs / "good", work.theirs / "place"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    work.file(folder / "inner.c", "int their_own_line;\n", 0o644, NOBODY)
    work.file(folder / "secret.c", "int their_own_line;\n", 0o644, NOBODY)
    ended = threading.Event()

    def change():
        number = 0
        while not ended.is_set():
            number += 1
            new = work.theirs / "new"
            new.symlink_to(work.private if number % 2 else folder)
            new.rename(place)
            file = folder / "new"
            file.symlink_to(work.secret) if number % 2 else work.file(file, "int their_own_line;\n", 0o644, NOBODY)
            file.rename(folder / "secret.c")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        reports = [work.report([source(place / "inner.c"), source(folder / "secret.c")] * 20), work.report([source(place / "inner.c")], owner=0, mode=0o666)]
        for _ in range(30):
            assert SECRET not in work.shown(*reports, forms=["text"])
    finally:
        ended.set()
        thread.join()


def symbols(work):
    """zguard shows no symbol names from executables, debug information, and debug links that the report's writer may not read."""
    (work.path / "program.c").write_text(PROGRAM)
    program = work.private / "program"
    subprocess.run(["gcc", "-g", "-O0", "-no-pie", "-Wl,--build-id", work.path / "program.c", "-o", program], check=True)
    program.chmod(0o755)
    listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    offset = hex(int(re.search(rf"^(\w+) T {SECRET}$", listing, re.M)[1], 16) + 4)
    build = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout)[1]
    closed = work.path / "closed"
    shutil.copy(program, closed)
    closed.chmod(0o700)
    (work.theirs / "linked").symlink_to(closed)
    (work.theirs / "folder").symlink_to(work.private)
    # A stripped program of the other user whose debug link names a file of root.
    stripped = work.theirs / "stripped"
    subprocess.run(["objcopy", "--only-keep-debug", program, work.theirs / "kept.debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={work.theirs}/kept.debug", program, stripped], check=True)
    stripped.chmod(0o755)
    os.chown(stripped, NOBODY, NOBODY)
    (work.theirs / "kept.debug").chmod(0o600)

    def frame(path, **more):
        return {"module": str(path), "offset": offset, **more}

    paths = [program, closed, work.theirs / "linked", work.theirs / "folder/program", work.theirs / "../private/program", stripped]
    report = work.report([frame(path, **more) for path in paths for more in ({}, {"build_id": build})])
    shown = work.shown(report)
    assert SECRET not in shown, shown
    store, base = work.path / "store", f"sqlite:{work.path}/all.db"
    for place in (str(store) + "/", base):
        work.run("collect", "--from", report.parent, "--to", place)
        assert SECRET not in work.shown(place), place
    for place in (report.parent, base):
        assert SECRET not in served(work, place), place
    # Root's own report shows all these names, and so does anybody's report for a world-readable file.
    for path in (program, closed, stripped):
        shown = work.shown(work.report([frame(path, build_id=build)], owner=0), forms=["text"])
        assert SECRET in shown, (path, shown)
    opened = work.path / "opened"
    shutil.copy(program, opened)
    opened.chmod(0o755)
    for owner, mode in ((NOBODY, 0o644), (0, 0o666)):
        assert SECRET in work.shown(work.report([frame(opened)], owner=owner, mode=mode), forms=["text"]), owner
    # Root may name a symbol directory, but a path in the report must not lead out of that directory.
    named = work.report([frame("/program", build_id=build)])
    assert SECRET in work.run("report", "--symbols", work.private, named)
    beside = work.path / "symbols"
    beside.mkdir(0o700)
    escaping = work.report([frame("/../closed"), frame("/../private/program", build_id=build)])
    assert SECRET not in work.run("report", "--symbols", beside, escaping)


def processes(work):
    """Debug information of another user's process names source files too: root's `check` and `history` show only files readable by that
    user."""
    program = work.path / "program"
    source = work.path / "program.c"
    source.write_text(f"""
        #include <stdio.h>
        #include <stdlib.h>
        #line 1 "{work.own}"
        __attribute__((noinline)) static char *make(void) {{ return malloc(48); }}
        #line 1 "{work.secret}"
        __attribute__((noinline)) static void drop(char *block) {{ free(block); }}
        #line 1 "{source}"
        int main(void) {{
            char *volatile block = make();
            drop(block);
            block[40] = 1;
            printf("%p\\n", (void *)block);
            fflush(stdout);
            return getchar() == 0;
        }}
    """)
    subprocess.run(["gcc", "-g", "-O1", "-w", "-fno-optimize-sibling-calls", source, "-o", program], check=True)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[],
                               env=scrubbed(LD_PRELOAD=str(work.library), ZGUARD_OPTIONS="isolated_per_context=0:verify_at_exit=0"))
    try:
        address = process.stdout.readline().strip()
        shown = [work.run("history", process.pid, address), *(work.run("check", "--format", form, process.pid) for form in ("text", "html"))]
        for text in shown:
            assert "their_own_line" in text and "drop" in text and SECRET not in text, text
        work.secret.chmod(0o644)
        assert SECRET in work.run("history", process.pid, address), "a file that everybody may read"
    finally:
        process.communicate("")


def served(work, place):
    """Returns all pages that `zguard serve` shows for a store."""
    process = subprocess.Popen([work.zguard, "serve", str(place), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, env=work.environment)
    try:
        address = re.search(r"http://127.0.0.1:\d+", process.stdout.readline())[0]

        def get(path):
            return subprocess.run(["curl", "-sS", address + path], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=True).stdout

        first = get("/")
        links = re.findall(r'href="(/group/[^"]+)"', first)
        assert links, first
        return first + "".join(map(get, links))
    finally:
        process.kill()
        process.communicate()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    tests = [("lines of root's files", lines_of_roots_files), ("own reports", own_reports), ("other users", other_users),
             ("groups of the author", groups_of_the_author), ("names that change", names_that_change), ("symbols", symbols),
             ("processes", processes)]
    return run_tests(tests, "zguard-authors-", arguments.filter, Work)


if __name__ == "__main__":
    sys.exit(main())
