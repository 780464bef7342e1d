#!/usr/bin/env python3
"""Tests the systemd units of the package with systemd-analyze, and with a systemd of its own in a root booted by systemd-nspawn.
Findings from before the start, and later ones, arrive; a killed collector is restarted. Needs the superuser. Closing line: N passed, N
failed."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet.store_server import finding, write_report  # noqa: E402
from Support import builds, roots  # noqa: E402
from Support.checks import close, run_tests  # noqa: E402
from Support.environment import LIBRARY, ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402

MISUSE = TESTS / "Robustness/Filters/misuse.c"
UNIT = ROOT / "Services/zguard-collect.service"
UNITS = [UNIT, ROOT / "Services/zguard-alerts.service"]
PACKAGES = ["dbus", "libsqlite3-0", "systemd", "systemd-sysv"]
SECONDS = 60  # deadline for an arrival, on a busy machine


def it_is_understood(work):
    """systemd accepts every line of the units. --man=no: the manual is not installed here."""
    for unit in UNITS:
        copy = Path(work) / unit.name
        copy.write_text(unit.read_text().replace("/usr/bin/zguard", str(ZGUARD)))
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, env=scrubbed())
        assert result.returncode == 0 and not result.stderr, result.stderr


class Container:
    def __init__(self, work, made):
        self.root = Path(work) / "root"
        subprocess.run(["cp", "-a", made.path, self.root], check=True)
        shutil.copy2(LIBRARY, self.root / "usr/lib")
        self.reports, self.store = self.root / "var/lib/zguard", self.root / "var/lib/fleet/fleet.db"
        self.store.parent.mkdir()
        shutil.copy2(ZGUARD, self.root / "usr/bin/zguard")
        for unit in UNITS:
            shutil.copy2(unit, self.root / "lib/systemd/system")
        # The default interval of a minute is too long for a test.
        (self.root / "etc/default/zguard-collect").write_text(
            "ZGUARD_COLLECT_ARGUMENTS=--from /var/lib/zguard --to sqlite:/var/lib/fleet/fleet.db\nZGUARD_COLLECT_SECONDS=1\n")
        drop_in = self.root / "etc/systemd/system/zguard-collect.service.d"
        drop_in.mkdir(parents=True)
        (drop_in / "soon.conf").write_text("[Service]\nRestartSec=1\nStandardOutput=append:/var/log/collect\nStandardError=inherit\n")
        self.log = open(Path(work) / "log", "wb+")

    def systemctl(self, *words):
        subprocess.run(["systemctl", "--root", self.root, *words], check=True, capture_output=True)

    def boot(self):
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--register=no", "--keep-unit", "-D", self.root, "--boot", "--private-network"], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, env=scrubbed(SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1"))

    def collector(self):
        """Returns the collector's process id in this namespace; None if it does not run."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.stat(entry / "root").st_ino == self.root.stat().st_ino and (entry / "comm").read_text() == "zguard\n":
                        return int(entry.name)
                except OSError:
                    continue
        return None

    def count(self):
        if not self.store.exists():
            return 0
        try:
            with sqlite3.connect(self.store, timeout=60) as base:
                return base.execute("SELECT count(*) FROM zguard_findings").fetchone()[0]
        except sqlite3.OperationalError:
            return 0  # the database is being created

    def wait(self, what, is_so):
        deadline = time.monotonic() + SECONDS
        while not is_so():
            self.log.flush()
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = [path.read_text(errors="replace")[-2000:] for path in (Path(self.log.name), self.root / "var/log/collect") if path.exists()]
                raise AssertionError(f"{what}: {said}")
            time.sleep(0.2)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)  # powers off the container
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def it_ships(work, made):
    container = Container(work, made)
    write_report(container.reports, 1, [finding(number) for number in range(5)])
    os.chown(next(container.reports.iterdir()), 1000, 1000)
    next(container.reports.iterdir()).chmod(0o600)
    container.systemctl("enable", "zguard-collect")
    container.boot()
    try:
        container.wait("what lies there", lambda: container.count() == 5)
        write_report(container.reports, 2, [finding(number) for number in range(5, 8)])
        container.wait("what comes later", lambda: container.count() == 8)
        first = container.collector()
        os.kill(first, signal.SIGKILL)
        container.wait("it comes back", lambda: container.collector() not in (None, first))
        write_report(container.reports, 3, [finding(8)])
        container.wait("what comes after that", lambda: container.count() == 9)
    finally:
        container.close()


def it_guards_under_a_filter(work, made):
    """A service with SystemCallFilter= and zguard in ExecStart=: the filter is installed before zguard and the program start, and kills on
    forbidden calls. A crash, and a finding after which the program continues, are reported with thread, program and time."""
    container = Container(work, made)
    container.reports.mkdir(exist_ok=True)
    program = builds.compiled(builds.BUILD / "service/misuse", ["gcc", "-g", "-O1", MISUSE, "-o", builds.BUILD / "service/misuse"], [MISUSE])
    shutil.copy2(program, container.root / "usr/bin/misuse")
    kinds = {"null": "null-access", "abort": "crash", "twice": "double-free"}
    for way in kinds:
        (container.root / f"etc/systemd/system/{way}.service").write_text(
            "[Service]\nType=oneshot\nSystemCallFilter=@system-service\nNoNewPrivileges=yes\n"
            f"ExecStart=/usr/bin/zguard run --collect crashes --report /var/lib/zguard/{way}.jsonl --format json -- /usr/bin/misuse {way}\n"
            f"StandardOutput=append:/var/log/collect\nStandardError=inherit\n[Install]\nWantedBy=multi-user.target\n")
        container.systemctl("enable", way)
    container.boot()
    try:
        for way, kind in kinds.items():
            report = container.reports / f"{way}.jsonl"
            container.wait(f"{way} is reported", lambda: findings_of(report))
            [found] = findings_of(report)
            assert found["kind"] == kind and found["thread"] == {"id": 1, "name": "misuse"} and found["program"] == "/usr/bin/misuse", found
            assert found["pid"] > 1 and not found["time"].startswith("1970"), found
        said = (container.root / "var/log/collect").read_text()
        assert "SystemCallFilter=" in said and "seccomp filter" in said, said[-2000:]
    finally:
        container.close()


def it_is_off(work, made):
    """Each unit is disabled by default."""
    container = Container(work, made)
    for unit in UNITS:
        result = subprocess.run(["systemctl", "--root", container.root, "is-enabled", unit.stem], capture_output=True, text=True)
        assert result.stdout == "disabled\n", (unit, result.stdout)
    container.log.close()


def main():
    if os.geteuid():
        print("skipped: it needs the superuser")
        return close(0, 0, 1)
    try:
        made = roots.make("bookworm", PACKAGES)
    except roots.Unavailable as reason:
        print(f"skipped: {reason}")
        return close(0, 0, 1)
    tests = [("it is understood", it_is_understood), ("it is off", lambda work: it_is_off(work, made)), ("it ships", lambda work: it_ships(work, made)),
             ("it guards under a filter", lambda work: it_guards_under_a_filter(work, made))]
    return run_tests(tests, "zguard-service-", "", str)


if __name__ == "__main__":
    sys.exit(main())
