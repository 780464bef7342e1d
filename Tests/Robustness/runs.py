#!/usr/bin/env python3
"""Tests that other users cannot tamper with a run, in particular with root's: findings, requests, and the report.
Attacks: forging and removing findings, requests in the name of another process, files planted at the path of a report. Other
tests: a report that nobody reads, or for which the disk has no room. Runs as root and as nobody. Closing line: N passed, N failed.

usage: runs.py [--filter WORD]"""

import argparse
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, RUNTIME, TESTS, scrubbed  # noqa: E402
from Support.reachable import Reachable  # noqa: E402

NOBODY = 65534
PYTHON = "/usr/bin/python3"  # the system's: the unprivileged user may execute it too
DEADLINE_SECONDS = 60
FORGED = '{"schema":"zguard.finding/1","kind":"use-after-free","access":"read","confidence":"exact","detail":{"what":"forged"},"count":1,"pid":1}'


class Work(Reachable):
    def __init__(self, path):
        super().__init__(path)
        # A world-writable directory, as /tmp is, which root's runs use for temporary files.
        self.shared = self.path / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self.environment = scrubbed(TMPDIR=str(self.shared))

    def build(self, name):
        program = self.path / name
        subprocess.run(["gcc", "-g", "-O1", "-w", "-fno-builtin", "-no-pie", "-pthread", "-I", RUNTIME / "include", TESTS / f"Robustness/Runs/{name}.c", "-o", program],
                       check=True, timeout=DEADLINE_SECONDS)
        return program

    def run(self, *words, **more):
        more = {"env": self.environment, "stdin": subprocess.DEVNULL, **more}
        return subprocess.run([self.zguard, "run", *words], capture_output=True, text=True, timeout=DEADLINE_SECONDS, **more)

    def start(self, *words, **more):
        return subprocess.Popen([self.zguard, "run", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment, **more)

    def as_nobody(self, script, *words):
        return subprocess.run([PYTHON, "-c", script, *map(str, words)], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                              user=NOBODY, group=NOBODY, extra_groups=[], stdin=subprocess.DEVNULL)


def findings(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


# Lists a directory, tries to modify each file below it, and prints the successes.
SEARCH = """
import os, sys
forged = sys.argv[2]
for folder, folders, files in os.walk(sys.argv[1]):
    for name in files:
        path = os.path.join(folder, name)
        for how, flags in (("add", os.O_WRONLY | os.O_APPEND), ("cut", os.O_WRONLY | os.O_TRUNC)):
            try:
                file = os.open(path, flags | os.O_NONBLOCK)
                os.write(file, forged.encode())
                print(how, path)
            except OSError:
                pass
        try:
            os.unlink(path)
            print("remove", path)
        except OSError:
            pass
    # What the names say without listing.
    for name in list(folders):
        for guess in ("findings", "socket", "coverage"):
            path = os.path.join(folder, name, guess)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
                print("guess", path)
            except OSError:
                pass
"""


def strangers_add_nothing(work):
    """Another user, who can list /tmp, can neither forge nor remove a finding of root's run."""
    twice = work.build("twice")
    report = work.shared / "report.json"
    run = work.start("--report", report, "-o", "on_finding=continue", "--", twice, "wait")
    assert run.stdout.readline() == "found\n"
    attack = work.as_nobody(SEARCH, work.shared, FORGED + "\n")
    run.stdin.close()
    errors = run.stderr.read()
    assert run.wait(DEADLINE_SECONDS) == 99, errors
    kinds = [finding["kind"] for finding in findings(report)]
    assert attack.stdout == "" and kinds == ["double-free"], (attack, kinds)
    assert not list(work.shared.glob("zguard.*")), list(work.shared.iterdir())


# Runs in a process of the guarded run that has changed its user and knows the run's directory.
INSIDE = """
import os, sys
path = os.environ["ZGUARD_OPTIONS"].split("report_path=")[1].split(":")[0]
folder = os.path.dirname(path)
def attempt(what, function, *words):
    try:
        function(*words)
        print(what)
    except OSError:
        pass
attempt("list", os.listdir, folder)
attempt("append", lambda: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), sys.argv[1].encode()))
attempt("truncate", os.truncate, path, 0)
attempt("unlink", os.unlink, path)
attempt("rename", os.rename, path, path + "x")
attempt("replace", os.rename, "/dev/null", path)
attempt("remove socket", os.unlink, os.path.join(folder, "socket"))
# The files that it may create are its own: none is taken for anybody else's, or followed elsewhere.
os.symlink(sys.argv[2], os.path.join(folder, "own-1-link"))
os.mkfifo(os.path.join(folder, "own-1-fifo"))
os.mkdir(os.path.join(folder, "own-1-directory"))
"""


def others_of_the_run_add_their_own(work):
    """Processes of the run that change their user can report findings, but cannot modify findings of others."""
    twice = work.build("twice")
    report, secret = work.shared / "report.json", work.path / "secret"
    secret.write_text(FORGED + "\n")
    secret.chmod(0o600)
    attack = work.path / "attack.py"
    attack.write_text(INSIDE)
    become = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    script = f"{twice}; {become} {PYTHON} {attack} '{FORGED}' {secret}; {become} {twice} other; {twice} third"
    run = work.run("--report", report, "-o", "on_finding=continue", "--", "/bin/sh", "-c", script)
    assert run.returncode == 99 and run.stdout.replace("found\n", "") == "", run
    names = sorted(frame["function"] for finding in findings(report) for frame in finding["stacks"]["free"] if frame["function"].startswith("free_"))
    assert names == ["free_first", "free_other", "free_third"], (names, run.stderr)
    assert "warning" not in run.stderr and not list(work.shared.glob("zguard.*")), run.stderr


def workers_take_nothing_away(work):
    """A worker of root's server that has dropped its privileges cannot truncate findings of others through any inherited descriptor."""
    drops = work.build("drops")
    for how in ("setuid", "setreuid", "setresuid"):
        report = work.shared / f"{how}.json"
        run = work.run("--report", report, "-o", "on_finding=continue", "--", drops, how)
        names = sorted(frame["function"] for finding in findings(report) for frame in finding["stacks"]["free"] if frame["function"].startswith("free_"))
        assert run.returncode == 99 and names == ["free_before", "free_meanwhile", "free_of_worker"], (how, names, run)


def directory_of_an_old_run(work):
    """A daemon outlives its run; another user recreates the run's directory with a link. The daemon must not append to the link's
    target."""
    twice = work.build("twice")
    target = work.path / "target"
    target.write_text("kept\n")
    target.chmod(0o600)
    folder = work.shared / "zguard.abcdef" / ("S" * 24)
    folder.mkdir(parents=True)
    (folder / "findings").symlink_to(target)
    for path in (folder.parent, folder):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o1777)
    result = subprocess.run([twice], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                            env={**work.environment, "LD_PRELOAD": str(LIBRARY), "ZGUARD_OPTIONS": f"on_finding=continue:report_path={folder}/findings"})
    assert result.returncode == 0 and target.read_text() == "kept\n" and "double-free" in result.stderr, result
    assert "S" * 24 not in result.stderr, "the secret of a run is not told"


def requests_in_others_names(work):
    """A process that has dropped its privileges asks root's zguard for stacks of another process, through the run's page and by message,
    and claims that a thread of that process is a stalled thread of its own. zguard stops no such thread."""
    victim = subprocess.Popen([work.build("victim")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    attacker = work.build("asks")
    try:
        assert victim.stdout.readline() == "ready\n"
        for how in ("request", "heartbeat", "thread"):
            run = work.run("--collect", "crashes,stalls", "-o", "stall_threads=all:stall_ms=100", "--report", work.shared / f"{how}.json", "--",
                           attacker, how, str(victim.pid), str(NOBODY))
            assert run.returncode == 0 and "asked" in run.stdout, (how, run)
            assert findings(work.shared / f"{how}.json") == [], run
    finally:
        stopped, _ = victim.communicate(timeout=DEADLINE_SECONDS)
    assert stopped == "never traced\n", stopped


def planted_reports(work):
    """`--report` follows no link that another user made, and writes to no file of another user."""
    target = work.path / "target"
    theirs = work.path / "theirs"
    theirs.mkdir()

    def refused(path, why):
        target.write_text("kept\n")
        result = work.run("--report", path, "--", "/bin/true")
        assert result.returncode == 64 and why in result.stderr and str(path) in result.stderr, (path, result)
        assert target.read_text() == "kept\n", path

    (work.shared / "link").symlink_to(target)
    refused(work.shared / "link", "symbolic link")
    (work.shared / "dangling").symlink_to(work.path / "new")
    refused(work.shared / "dangling", "symbolic link")
    assert not (work.path / "new").exists()
    os.link(target, work.shared / "hard")
    refused(work.shared / "hard", "hard link")
    (work.shared / "file").write_text("theirs")
    os.chown(work.shared / "file", NOBODY, NOBODY)
    refused(work.shared / "file", "another user")
    os.mkfifo(work.shared / "pipe")
    os.chown(work.shared / "pipe", NOBODY, NOBODY)
    reader = os.open(work.shared / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    refused(work.shared / "pipe", "another user")
    os.close(reader)
    # A directory of the other user, with a link in place of a directory of root.
    (theirs / "folder").symlink_to(work.path)
    os.chown(theirs, NOBODY, NOBODY)
    os.lchown(theirs / "folder", NOBODY, NOBODY)
    refused(theirs / "folder" / "target", "symbolic link owned by another user")
    # Root's own links are followed, and a new file in a directory of the other user can be created.
    (work.path / "own").symlink_to(work.shared)
    for path in (work.path / "own" / "report.json", theirs / "report.json"):
        result = work.run("--report", path, "--", "/bin/true")
        assert result.returncode == 0 and path.read_text() == "" and path.owner() == "root", (path, result)
    for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert work.run("--report", path, "--", "/bin/true").returncode == 0, path


def pipes_that_nobody_reads(work):
    """If the report is a pipe whose reader does not read, or that has no reader, the program does not block."""
    twice = work.build("twice")
    pipe = work.path / "pipe"
    os.mkfifo(pipe)
    many = "400"
    for reads in (True, False):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if reads else None
        for command, environment in (([twice, "many", many], {"LD_PRELOAD": str(LIBRARY), "ZGUARD_OPTIONS": f"on_finding=continue:report_path={pipe}"}),
                                     ([work.zguard, "run", "-o", "on_finding=continue", "--report", pipe, "--", twice, "many", many], {})):
            with open(work.path / "errors", "w+") as errors:
                process = subprocess.Popen(command, env={**work.environment, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
                began = time.monotonic()
                assert process.stdout.readline() == "began\n"
                line = process.stdout.readline()
                # The program printed the time of its 400 findings. Only the first finding that meets a full pipe may wait, for
                # 0.1 s.
                milliseconds = int(line.removeprefix("took "))
                assert milliseconds < 20_000, (reads, command, milliseconds)
                process.wait(DEADLINE_SECONDS)
                errors.seek(0)
                said = errors.read()
                if "run" in command:
                    assert process.returncode == 99 and "it has no reader" in said and f" of them in '{pipe}'" in said, said[-2000:]
        if reader is not None:
            os.close(reader)


def removed_directories(work):
    """If the report is deleted with its raw file, or has none, zguard prints the findings and does not claim that a file holds
    them."""
    twice = work.build("twice")
    folder = work.shared / "folder"
    for form in ("json", "html"):
        folder.mkdir()
        told = work.run("-o", "on_finding=continue", "--report", folder / "report", "--format", form, "--", "sh", "-c", f"{twice} different 3; rm -r {folder}").stderr
        closing = told.splitlines()[-1]
        assert ", 0 of them in '" in closing and ", 3 printed only above, as text" in closing and "all of them" not in closing, (form, told)
        assert told.count("==zguard== double-free: ") == 3, (form, told)


def full_disks(work):
    """Every finding that the closing line claims is written is complete on the disk; the line also says where the others are."""
    twice = work.build("twice")
    disk = work.path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", disk], capture_output=True)
    if mounted.returncode:
        return  # mount namespaces cannot be created here
    for form in ("json", "text", "html"):
        for room in (0, 16, 48, 4096):
            script = (f"mount -t tmpfs -o size=4m none {disk} && head -c {(4096 - room) * 1024} /dev/zero >{disk}/fill; "
                      f"{work.zguard} run -o on_finding=continue --report {disk}/report --format {form} -- {twice} different 30 2>{work.path}/errors; echo $?; echo ===; "
                      f"cat {disk}/report; echo ===; cat {disk}/report.unfinished-* 2>/dev/null || true; echo ===; ls {disk}")
            out = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=work.environment)
            status, report, raw, listing = out.stdout.split("===\n")
            said = (work.path / "errors").read_text()
            closing = said.splitlines()[-1]
            assert status == "99\n", (form, room, status, said)
            if form == "json":
                lines = [line for line in report.splitlines() if line.startswith("{")]
                whole = [json.loads(line) for line in lines]  # fails for an incomplete line
                stored = len(whole)
            else:
                stored = len(re.findall(r"==zguard== double-free" if form == "text" else r"<details class=\"f\"", report))
            unwritten = re.search(r"(?:and )?(\d+) findings? that could not be written|(\d+) findings? in .* that could not be written", closing)
            unwritten = int(next(filter(None, unwritten.groups()))) if unwritten else 0
            seen = re.search(r"==zguard== (\d+) findings? \(", closing)
            seen = int(seen[1]) if seen else 0
            assert seen + unwritten == 30, (form, room, closing)
            partly = re.search(r", (\d+) of them in '", closing)
            told = int(partly[1]) if partly else seen if f"written to '{disk}/report'" in closing else 0
            assert told == stored, (form, room, told, stored, closing)
            if partly and "all of them are in" in closing:
                # An incomplete line counts as a finding that could not be written.
                kept = [line for line in raw.splitlines() if line.startswith('{"schema":"zguard.finding/1"') and line.endswith("}")]
                assert len(kept) == seen, (form, room, len(kept), closing)
            # Findings that no file contains were printed as text.
            assert seen - told <= len(re.findall(r"==zguard== double-free", said)) + (len(raw) > 0) * seen, (form, room, said[-800:])
            if room == 4096:
                assert told == 30 and "unfinished" not in listing, (form, closing, listing)


TESTS_TO_RUN = [strangers_add_nothing, others_of_the_run_add_their_own, workers_take_nothing_away, directory_of_an_old_run, requests_in_others_names, planted_reports,
                pipes_that_nobody_reads, full_disks, removed_directories]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("runs.py: error: two users take root")
    return run_tests([(test.__name__, test) for test in TESTS_TO_RUN], "zguard.unfinisheds-", arguments.filter, Work, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
