#!/usr/bin/env python3
"""Tests the walk-through of docs/FLEET.md with its own commands.
Two machines (network namespaces) run a program with a bug, a third one runs PostgreSQL, and the second one a browser. Needs the superuser.
Closing line: N passed, N failed."""

import argparse
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
from Support.environment import ROOT, ZGUARD, scrubbed  # noqa: E402

PAGE = ROOT / "docs/FLEET.md"
PASSWORD = "twenty-two steps"
TIMEOUT_SECONDS = 60
pictures = None


def blocks():
    """Returns the commands of the walk-through, block by block."""
    walk = PAGE.read_text().split("## A walk")[1].split("\n## ")[0]
    return [block.strip().splitlines() for block in re.findall(r"```\n(.*?)```", walk, re.S)]


class Net:
    """A network with two machines, and this one for the database."""

    def __init__(self):
        # Several runs may take place at once.
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


def walks(place):
    database, run, ship, look = blocks()
    net = Net()
    server, running = None, []
    try:
        server = Postgres(net.address, net.network)
        admin = scrubbed(PGHOST="127.0.0.1", PGPORT=str(server.port), PGUSER="fleet", PATH=os.environ["PATH"])
        for line in database:
            result = subprocess.run(line.split(), input=f"{PASSWORD}\n{PASSWORD}\n", capture_output=True, text=True, env=admin, start_new_session=True)
            assert result.returncode == 0, (line, result.stderr)
        program = builds.compiled(builds.BUILD / "walk/shop", ["gcc", "-g", "-O1", str(ROOT / "Examples/orders.c"), "-o", str(builds.BUILD / "walk/shop")],
                                  [ROOT / "Examples/orders.c"])
        passwords = place / "pgpass"
        passwords.write_text(f"*:*:*:collector:{PASSWORD}\n")
        passwords.chmod(0o600)

        def here(line, machine):
            """Returns a command that runs the line on a machine."""
            store = place / machine
            for written, own in (("/var/lib/zguard/", f"{store}/"), ("/var/lib/zguard", store), ("/srv/shop/bin/shop", program),
                                 ("/etc/zguard/pgpass", passwords), ("@db.example/", f"@{net.address}:{server.port}/"), ("zguard ", f"{ZGUARD} ")):
                line = line.replace(written, str(own))
            # The host name identifies a machine, but the namespaces share it.
            return ["ip", "netns", "exec", machine, "sh", "-c", line.replace(" --watch", f" --host {machine} --watch")]

        for machine in net.machines:
            (place / machine).mkdir()
            for line in run:
                status, _, errors = run_within(TIMEOUT_SECONDS, here(line, machine), env=scrubbed())
                assert status and "written to" in errors, (line, status, errors)
            shipper = subprocess.Popen(here("\n".join(ship), machine), env=scrubbed(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, start_new_session=True)
            running.append(shipper)
        viewer = net.machines[1]
        export, *questions = [ship[0], *look]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        found = ""
        while "2 times" not in found and "seen 2" not in found:
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
            _, out, errors = run_within(TIMEOUT_SECONDS, here(f"{export}\n{questions[0]}", viewer), env=scrubbed())
            found = out + errors
        status, out, errors = run_within(TIMEOUT_SECONDS, here(f"{export}\n{questions[1]}", viewer), env=scrubbed())
        assert "use-after-free" in out or "use-after-free" in errors, (status, out, errors)
        # Fetches the page in a browser on the second machine.
        result = subprocess.run(["ip", "netns", "exec", viewer, sys.executable, __file__, "--browse", "--", *here(f"{export}\nexec {questions[2]}", viewer)[4:],
                                 *([] if not pictures else [str(pictures)])], capture_output=True, text=True, env={**os.environ, **scrubbed()}, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "[2]" in result.stdout.splitlines()[-1], result.stdout
    finally:
        for process in running:
            os.killpg(process.pid, 15)
            process.communicate()
        if server:
            server.close()
        net.close()


def browse(words, folder):
    """Runs on the second machine: serves the pages and opens them in a browser. The last line is the number of machines with the bug."""
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
    parser.add_argument("--browse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.browse:
        words = arguments.words
        folder = words.pop() if len(words) > 3 else None
        return browse(words, folder)
    pictures = arguments.pictures
    return run_tests([("two machines, one PostgreSQL, one browser", walks)], "zguard-walk-")


if __name__ == "__main__":
    sys.exit(main())
