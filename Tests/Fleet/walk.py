#!/usr/bin/env python3
"""Tests the walk-through of docs/FLEET.md with its own commands.
Two machines (network namespaces) run two releases of a program. On the second machine the first release is stripped, and a browser runs.
This machine runs PostgreSQL. Symbols that are uploaded later join the groups of one bug. Groups are triaged. The second release brings an
old bug, a regression and a new bug, and mail reports the latter two. The same is done with SQLite and a directory. Needs the superuser.
Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet.store_server import Postgres  # noqa: E402
from Support import builds  # noqa: E402
from Support.browser import Browser  # noqa: E402
from Support.checks import run_tests, run_within  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402

PAGE = ROOT / "docs/FLEET.md"
PROGRAM = TESTS / "Fleet/Walk/shop.c"
# Functions with the bugs of the program: one stays open, one is resolved in triage, one is new in the second release.
FUNCTIONS = ["read_dropped_cart", "free_voucher_twice", "drop_label_twice"]
STORE = "postgresql://collector@db.example/findings"
PASSWORD = "twenty-two steps"
TIMEOUT_SECONDS = 60
pictures = None


def blocks():
    """Returns the commands of the walk-through, block by block."""
    walk = PAGE.read_text().split("## A walk")[1].split("\n## ")[0]
    return [block.strip().splitlines() for block in re.findall(r"```\n(.*?)```", walk, re.S)]


class Net:
    """A network of two machines and this one, which runs the database."""

    def __init__(self):
        # Names and addresses depend on the process id, because several runs of this driver may take place at once.
        self.tag, subnet = f"zg{os.getpid() % 100000}", f"10.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}"
        self.network, self.address = f"{subnet}.0/24", f"{subnet}.1"
        self.machines = [f"{self.tag}m{number}" for number in (1, 2)]
        self.bridge = f"{self.tag}b"
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
        self.ip("link", "set", self.bridge, "up")
        for number, machine in enumerate(self.machines, 2):
            self.ip("netns", "add", machine)
            self.ip("link", "add", f"{self.tag}v{number}", "type", "veth", "peer", "name", "eth0", "netns", machine)
            self.ip("link", "set", f"{self.tag}v{number}", "master", self.bridge, "up")
            self.ip("-n", machine, "addr", "add", f"{subnet}.{number}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                self.ip("-n", machine, "link", "set", link, "up")

    def ip(self, *words):
        result = subprocess.run(["ip", *words], capture_output=True, text=True)
        assert result.returncode == 0, f"ip {' '.join(words)}: {result.stderr}"

    def close(self):
        for machine in self.machines:
            subprocess.run(["ip", "netns", "del", machine], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)


class Walk:
    """The commands of the page on machines that share nothing but the store: each writes its reports to a folder of its own."""

    def __init__(self, place, net, store, server=None):
        self.place, self.net, self.store, self.server = place, net, store, server
        self.running = []
        self.mails = place / "mails"
        self.mails.mkdir()
        # The local sendmail: keeps each mail as a file.
        self.sendmail = place / "sendmail"
        self.sendmail.write_text(f"#!/bin/sh\nfile=$(mktemp {self.mails}/writing.XXXXXX) && cat > $file && mv $file {self.mails}/mail.$$\n")
        self.sendmail.chmod(0o755)
        self.rules = place / "alerts"
        self.passwords = place / "pgpass"
        self.passwords.write_text(f"*:*:*:collector:{PASSWORD}\n")
        self.passwords.chmod(0o600)
        self.program = None

    def install(self, release):
        """Builds a release of the program. On the second machine, the first release is stripped."""
        made = builds.BUILD / f"walk/{release}/shop"
        self.program = builds.compiled(made, ["gcc", "-g", "-O1", "-w", f"-DRELEASE={release}", str(PROGRAM), "-o", str(made)], [PROGRAM])
        self.programs = dict.fromkeys(self.net.machines, self.program)
        if release == 10:
            folder = self.place / "stripped"
            folder.mkdir(exist_ok=True)
            self.programs[self.net.machines[1]] = folder / "shop"
            subprocess.run(["strip", self.program, "-o", folder / "shop"], check=True)

    def on(self, machine, lines):
        """Returns a command that runs lines of the page on a machine."""
        folder = self.place / machine
        folder.mkdir(exist_ok=True)
        line = "\n".join(lines)
        for written, own in (("/var/lib/zguard/", f"{folder}/"), ("/var/lib/zguard", folder), ("build/bin/shop", self.program),
                             ("/srv/shop/bin/shop", self.programs[machine]),
                             ("/etc/zguard/pgpass", self.passwords), ("/etc/zguard/alerts", self.rules), (STORE, self.store), ("zguard ", f"{ZGUARD} ")):
            line = line.replace(written, str(own))
        # zguard identifies a machine by its host name, which the network namespaces share, so pass another name.
        line = re.sub(r"(zguard collect .*) --watch", rf"\1 --host {machine} --watch", line)
        line = re.sub(r"(zguard (collect|alerts) .*) --watch", r"\1 --watch 0.5", line)
        return ["ip", "netns", "exec", machine, "sh", "-c", line]

    def run(self, machine, lines, status=0):
        ended, out, errors = run_within(TIMEOUT_SECONDS, self.on(machine, lines), env=scrubbed())
        assert status is None or ended == status, (lines, ended, out, errors)
        return out + errors

    def start(self, machine, lines):
        with open(self.place / f"{machine}.log", "a") as log:
            process = subprocess.Popen(self.on(machine, lines), env=scrubbed(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.running.append(process)
        return process

    def stop(self, processes):
        for process in processes:
            os.killpg(process.pid, 15)
            process.communicate()
            self.running.remove(process)

    def wait(self, what, question, is_so):
        """Calls `question` until its answer satisfies `is_so`; fails after TIMEOUT_SECONDS."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_so(said := question()):
            assert time.monotonic() < deadline, f"waited for {what}: {said}"
            time.sleep(0.5)
        return said

    def all_groups(self, export):
        said = self.run(self.net.machines[1], [*export, f"zguard triage {STORE} --format json 2>&1"], status=None)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    def groups(self, export):
        """Returns the groups by the function in which they were found."""
        return {name: group for group in self.all_groups(export) for name in FUNCTIONS if name in group["headline"]}

    def walks(self):
        _, run, ship, look, symbols, decide, rules, watch, release, questions = blocks()
        export = [ship[0]] if self.server else []
        ship, machines, viewer = [*export, *ship[1:]], self.net.machines, self.net.machines[1]
        self.install(10)
        for machine in machines:
            assert "written to" in self.run(machine, run, status=None)
        shippers = [self.start(machine, ship) for machine in machines]
        self.wait("two groups on each of two machines", lambda: self.all_groups(export), lambda groups: len(groups) == 4)
        assert len(self.groups(export)) == 2, "one of the programs is stripped"
        self.run(viewer, [*export, *symbols])
        seen = self.groups(export)
        assert len(self.all_groups(export)) == len(seen) == 2 and all(group["count"] == 2 for group in seen.values()), seen
        assert "use-after-free" in self.run(viewer, [*export, look[0]]), "report"
        assert "double-free" in self.run(viewer, [*export, look[1]]), "report --new-since"
        if self.server:
            self.browses([*export, f"exec {look[2]}"])

        self.run(viewer, [*export, *(line.replace("SIGNATURE", seen["free_voucher_twice"]["signature"]) for line in decide)])
        self.rules.write_text("\n".join([*rules, f"sendmail {self.sendmail}"]) + "\n")
        # Several watchers, as the page says.
        watchers = [self.start(machine, [*export, *watch]) for machine in machines]
        self.wait("a first look", lambda: "".join((self.place / f"{machine}.log").read_text() for machine in machines),
                  lambda said: "2 alerts watched from now on" in said)
        assert not list(self.mails.iterdir()), "what was there before is no news"
        self.stop(shippers)
        self.install(11)
        for machine in machines:
            assert "written to" in self.run(machine, release[:1], status=None)
        shippers = [self.start(machine, [*export, *release[1:]]) for machine in machines]
        self.wait("three groups", lambda: self.groups(export), lambda groups: len(groups) == 3 and all(
            group["count"] == (2 if name == "drop_label_twice" else 4) for name, group in groups.items()))
        new, back = self.run(viewer, [*export, questions[0]]), self.run(viewer, [*export, questions[1]])
        assert [name in new for name in FUNCTIONS] == [False, False, True], new
        assert [name in back for name in FUNCTIONS] == [False, True, False], back
        self.wait("two mails", lambda: sorted(path.name for path in self.mails.glob("mail.*")), lambda mails: len(mails) >= 2)
        time.sleep(3)
        mails = sorted((path.read_text() for path in self.mails.glob("mail.*")), key=lambda mail: "regression" in mail)
        assert len(mails) == 2 and all("To: team@example.com" in mail for mail in mails), mails
        assert "Subject: [zguard] new bug: " in mails[0] and "drop_label_twice" in mails[0] and "version: 1.11" in mails[0], mails[0]
        assert "Subject: [zguard] regression: " in mails[1] and "free_voucher_twice" in mails[1] and "seen again in 1.11" in mails[1], mails[1]
        self.stop(shippers + watchers)

    def browses(self, lines):
        """Opens the pages in a browser on the second machine."""
        viewer = self.net.machines[1]
        result = subprocess.run(["ip", "netns", "exec", viewer, sys.executable, __file__, "--browse", "--", *self.on(viewer, lines)[4:],
                                 *([] if not pictures else [str(pictures)])], capture_output=True, text=True, env={**os.environ, **scrubbed()}, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "[2]" in result.stdout.splitlines()[-1], result.stdout


def with_machines(case):
    def test(place):
        net = Net()
        try:
            case(place, net)
        finally:
            net.close()
    return test


@with_machines
def with_postgres(place, net):
    server = walk = None
    try:
        server = Postgres(net.address, net.network)
        admin = scrubbed(PGHOST="127.0.0.1", PGPORT=str(server.port), PGUSER="fleet", PATH=os.environ["PATH"])
        for line in blocks()[0]:
            result = subprocess.run(line.split(), input=f"{PASSWORD}\n{PASSWORD}\n", capture_output=True, text=True, env=admin, start_new_session=True)
            assert result.returncode == 0, (line, result.stderr)
        walk = Walk(place, net, f"postgresql://collector@{net.address}:{server.port}/findings", server)
        walk.walks()
    finally:
        if walk:
            walk.stop(list(walk.running))
        if server:
            server.close()


def without_a_server(store):
    @with_machines
    def test(place, net):
        walk = Walk(place, net, store.format(place))
        try:
            walk.walks()
        finally:
            walk.stop(list(walk.running))
    return test


def browse(words, folder):
    """Runs on the second machine: serves the pages and opens them in a browser. The last line of its output is
    the number of machines with the bug."""
    served = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        said = served.stdout.readline()
        [address] = re.findall(r"at (http://127\.0\.0\.1:7070/)$", said.strip())
        browser = Browser()
        try:
            for width in (400, 1600):
                for dark in (False, True):
                    for name in ("overview", "group"):
                        if name == "overview":
                            browser.open(address, width=width, dark=dark)
                        else:
                            browser.open(address[:-1] + browser.evaluate("document.querySelector('.g > a').getAttribute('href')"), width=width, dark=dark)
                        assert not browser.complaints, browser.complaints
                        if folder:
                            (Path(folder) / f"walk-{name}-{width}-{'dark' if dark else 'light'}.png").write_bytes(browser.picture())
            text = browser.evaluate("document.body.innerText")
            print(text)
            print([len(set(re.findall(r"zg\d+m\d", text)))])
        finally:
            browser.close()
    finally:
        served.kill()
        served.wait()


def main():
    global pictures
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", metavar="FOLDER", type=Path, help="where the pages are kept as pictures")
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    parser.add_argument("--browse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.browse:
        words = arguments.words
        folder = words.pop() if len(words) > 3 else None
        return browse(words, folder)
    pictures = arguments.pictures
    return run_tests([("two machines, one PostgreSQL, one browser", with_postgres), ("two machines, one SQLite file", without_a_server("sqlite:{}/findings.db")),
                      ("two machines, one directory", without_a_server("{}/findings"))], "zguard-walk-", arguments.only)


if __name__ == "__main__":
    sys.exit(main())
