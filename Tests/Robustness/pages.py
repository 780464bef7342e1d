#!/usr/bin/env python3
"""Tests zguard with processes whose statistics page is forged: another file shown as the page, or arbitrary numbers in it.
The forging process belongs to another user; root runs `zguard stats`, `check`, `history` and `trim`. No call dies of a signal, takes more
than 2 seconds of CPU time or 200 MB, or changes a file. Closing line: N passed, N failed.

usage: pages.py [--pages N] [--seed N] [--seconds N] [--filter WORD]"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, RUNTIME, TESTS, ZGUARD, scrubbed  # noqa: E402

NOBODY = 65534
DEADLINE_SECONDS = 60
MOST_SECONDS, MOST_KILOBYTES = 2, 200 * 1000
# Limit of a call's elapsed time. `zguard trim` waits for an answer, and zguard waits before it reads changed blocks again. The rest is
# for a loaded machine.
MOST_WALL_SECONDS = 30
STATS_BYTES, PID_OFFSET = 8192, 16  # size of struct zg_stats_page, and offset of its pid
settings = {"pages": 240, "seed": 1, "seconds": MOST_SECONDS}


class Work:
    program = None

    def __init__(self, path):
        """Copies the library to a directory that another user can read, and builds the forging program there."""
        self.path = Path(path)
        self.path.chmod(0o755)
        self.library = self.path / LIBRARY.name
        shutil.copy(LIBRARY, self.library)
        self.program = self.path / "liar"
        subprocess.run(["gcc", "-g", "-O1", "-Wall", "-pthread", "-I", RUNTIME, TESTS / "Robustness/Pages/liar.c", "-o", self.program],
                       check=True, timeout=DEADLINE_SECONDS)
        self.environment = scrubbed()
        self.slowest = self.largest = 0

    def liar(self, *words, preload=False, **more):
        return Liar([self.program, *map(str, words)], env={**self.environment, **({"LD_PRELOAD": str(self.library)} if preload else {})}, **more)

    def call(self, *words, user=None):
        """Calls zguard and checks its time and memory; returns its status, its output, and its CPU time in seconds."""
        output = self.path / "output"
        with open(output, "wb+") as file:
            start = time.monotonic()
            process = subprocess.Popen([ZGUARD, *map(str, words)], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self.environment, user=user)
            timer = start + DEADLINE_SECONDS
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > timer:
                    process.kill()
                time.sleep(0.002)
            wall = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            file.seek(0)
            said = file.read().decode(errors="replace")
        seconds = usage.ru_utime + usage.ru_stime
        self.slowest, self.largest = max(self.slowest, seconds), max(self.largest, usage.ru_maxrss)
        what = f"zguard {' '.join(map(str, words))}: {seconds:.2f} s of {wall:.2f} s, {usage.ru_maxrss} KB"
        assert process.returncode >= 0, f"{what}: signal {-process.returncode}: {said[-1500:]}"
        assert seconds <= settings["seconds"] and wall <= MOST_WALL_SECONDS and usage.ru_maxrss <= MOST_KILOBYTES, f"{what}: {said[-500:]}"
        return process.returncode, said, seconds


class Liar:
    """The forging program; a line sent to it forges another page, or sets what happens to the page (liar.c)."""

    def __init__(self, command, **more):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.pid = self.process.pid
        self.inode = int(self.process.stdout.readline())

    def tell(self, line):
        """Sends a line; returns addresses to query."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, f"the liar has ended: {self.process.wait(DEADLINE_SECONDS)}"
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(DEADLINE_SECONDS)


def command(chance, pid, addresses):
    """Returns a random zguard command for the process; rarely trim, which waits for an answer that never comes."""
    kind = chance.random()
    if kind < 0.45:
        return ["check", *(["--format", "json"] if chance.random() < 0.3 else []), pid]
    if kind < 0.8:
        return ["history", *(["--format", "json"] if chance.random() < 0.3 else []), pid, chance.choice(addresses)]
    if kind < 0.99:
        return ["stats", *chance.choice(([], ["--json"], ["--prometheus"])), pid]
    return ["trim", pid]


def lie(work, share, how, preload=False):
    chance = random.Random(settings["seed"])
    pages = max(8, int(settings["pages"] * share))
    refused = 0
    with work.liar(how, preload=preload) as liar:
        if how == "changing":
            liar.tell("change")
        for page in range(pages):
            seed = settings["seed"] * 1_000_000 + page
            addresses = liar.tell("stay" if how == "changing" else seed)
            words = command(chance, liar.pid, addresses)
            try:
                status, said, _ = work.call(*words)
            except AssertionError as fault:
                raise AssertionError(f"page {seed}, {how}{' with a real heap' if preload else ''}: {fault}") from fault
            assert status in (0, 1, 99), (seed, words, status, said[-800:])
            refused += "not guarded" in said or "another version" in said
    # zguard reads most pages instead of rejecting them.
    assert refused < pages / 2, (refused, pages)
    print(f"    {pages} pages, {refused} refused; {work.slowest:.2f} s, {work.largest // 1000} MB at the most", flush=True)


def pages_that_lie(work):
    lie(work, 0.5, "sealed")


def pages_of_a_real_heap(work):
    """The page is that of a real heap, with some numbers changed."""
    lie(work, 0.4, "sealed", preload=True)


def pages_that_change(work):
    """The page changes while zguard reads it."""
    lie(work, 0.07, "changing")


def many_descriptors(work):
    """The page is found in time behind twenty thousand descriptors and as many mappings."""
    lie(work, 0.03, "many")


def pages_that_shrink(work):
    """A page without seals, truncated while it is read, is rejected; zguard does not die of SIGBUS."""
    with work.liar("unsealed") as liar:
        liar.tell("truncate")
        for _ in range(10 if settings["pages"] < 1000 else 60):
            for word in ("stats", "check", "trim"):
                status, said, _ = work.call(word, liar.pid)
                assert status == 1 and ("not sealed" in said or "not guarded" in said), (word, status, said)


def pages_of_another_user(work):
    """A page file owned by root does not belong to another user's process, whatever its contents."""
    with work.liar("foreign") as liar:
        liar.tell("stay")
        for word in ("stats", "check", "trim"):
            status, said, _ = work.call(word, liar.pid)
            assert status == 1 and "of another user" in said, (word, status, said)


def processes_that_change_their_user(work):
    """If a process of root changes its user for good, root and the new user can still inspect it."""
    script = "import os, sys; os.setgid(65534); os.setuid(65534); print('ready', flush=True); sys.stdin.read()"
    environment = {**work.environment, "LD_PRELOAD": str(work.library)}
    with subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "ready\n"
        for word in ("stats", "check", "trim"):
            status, said, _ = work.call(word, process.pid)
            assert status == 0 or "has no maintenance thread" in said, (word, status, said)
        process.stdin.close()


def files_named_like_pages(work):
    """In /proc, a file at the root of an unmounted file system can have the same name as a page; any unprivileged user can create one in a
    mount namespace. zguard rejects such a file, whoever owns it, and writes to none as root."""
    with work.liar("sealed") as liar, open(f"/proc/{liar.pid}/fd/3", "rb") as page:
        contents = bytearray(page.read(STATS_BYTES))
    place = work.path / "place"
    place.mkdir()
    for how, owner in (("borrowed", 0), ("file", NOBODY)):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "none", place], check=True, timeout=DEADLINE_SECONDS)
        try:
            path = place / "memfd:zguard-stats (deleted)"
            path.write_bytes(contents)
            path.chmod(0o644)
            os.chown(path, owner, owner)
            file = open(path, "rb+", buffering=0)
            liar = work.liar(how, path)
        finally:
            subprocess.run(["umount", "-l", place], check=True, timeout=DEADLINE_SECONDS)
        with liar, file:
            contents[PID_OFFSET:PID_OFFSET + 4] = liar.pid.to_bytes(4, "little")
            file.write(contents)
            shown = [line for line in Path(f"/proc/{liar.pid}/maps").read_text().splitlines() if line.endswith(" /memfd:zguard-stats (deleted)")]
            assert shown, "the file is not shown as a page is"
            for word in ("trim", "stats", "check"):
                status, said, _ = work.call(word, liar.pid)
                assert os.pread(file.fileno(), STATS_BYTES, 0) == contents, f"{word} has written into a file of user {owner}'s"
                assert status == 1 and "not sealed" in said, (how, word, status, said)


TESTS_TO_RUN = [pages_that_lie, pages_of_a_real_heap, pages_that_change, many_descriptors, pages_that_shrink, pages_of_another_user,
                processes_that_change_their_user, files_named_like_pages]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=settings["pages"], help="how many pages that lie")
    parser.add_argument("--seed", type=int, default=settings["seed"])
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="what a call may take of the processor's time, where zguard is no release build")
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    settings.update(pages=arguments.pages, seed=arguments.seed, seconds=arguments.seconds)
    if os.geteuid() != 0:
        sys.exit("pages.py: error: two users take root")
    return run_tests([(test.__name__, test) for test in TESTS_TO_RUN], "zguard-pages-", arguments.filter, Work, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
