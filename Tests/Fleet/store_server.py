"""A PostgreSQL server in a directory of its own, and made-up reports."""

import contextlib
import fcntl
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from Support.checks import Failed
from Support.ports import Ports

ZONE = 1_790_000_000  # time at which made-up findings start


class Postgres:
    """A server that runs until `close`. Everybody on this machine may connect; hosts of `network` ("10.0.0.0/24") connect to `address` with
    a password."""

    def __init__(self, address="127.0.0.1", network=None):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found:
            raise Failed("there is no /usr/lib/postgresql/*/bin/initdb; apt-get install postgresql")
        self.programs = found[-1].parent
        self.folder = Path(tempfile.mkdtemp(prefix="zguard-postgres-"))
        self.ports = Ports()
        self.port = self.ports.take()
        # The server refuses to run as the superuser.
        self.account = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            self.account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.data = self.folder / "data"
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "fleet", "-E", "UTF8", "--locale=C", "--no-sync")
        if network:
            with open(self.data / "pg_hba.conf", "a") as rules:
                rules.write(f"host all all {network} scram-sha-256\n")
        self.log = open(self.folder / "log", "wb")
        self.listens = ",".join({"127.0.0.1", address})
        self.start()
        self.address = f"postgresql://fleet@127.0.0.1:{self.port}/fleet"
        deadline = time.monotonic() + 60
        while subprocess.run([self.programs / "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "fleet", "fleet"],
                             capture_output=True, cwd="/").returncode:
            if time.monotonic() > deadline or self.process.poll() is not None:
                text = (self.folder / "log").read_text(errors="replace")[-600:]
                self.close()
                raise Failed(f"PostgreSQL does not answer: {text}")
            time.sleep(0.05)

    def start(self):
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.data, "-h", self.listens, "-p", str(self.port), "-k", self.folder, "-c", "fsync=off",
             "-c", "max_wal_size=4GB"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/", **self.account)

    def restart(self):
        """Restarts as after a crash: connections are cut, and uncommitted transactions are lost."""
        self.quit()
        self.start()

    def kill(self, chance):
        """Crashes the server: ends it without a shutdown, or kills all its processes, or kills one backend process, after which the server
        restarts itself. Returns when the server accepts connections again."""
        def processes():
            return list(map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()))

        match chance.randrange(3):
            case 0: self.restart()
            case 1:
                # A stopped server starts no process that would survive the server.
                self.process.send_signal(signal.SIGSTOP)
                handles = [os.pidfd_open(one) for one in processes()]
                self.process.kill()
                self.process.wait()
                for handle in handles:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                    # A new server does not start while a process of the old server is left.
                    select.select([handle], [], [], 60)
                    os.close(handle)
                self.start()
            case 2:
                def serves(one):
                    with contextlib.suppress(OSError):  # it has ended meanwhile
                        return b"fleet fleet" in Path(f"/proc/{one}/cmdline").read_bytes()

                if serving := list(filter(serves, processes())):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(serving), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while subprocess.run([self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], cwd="/").returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"PostgreSQL is gone: {(self.folder / 'log').read_text(errors='replace')[-600:]}")
            time.sleep(0.02)

    def quit(self):
        """Ends the server without a shutdown. Sends SIGQUIT repeatedly: a server that has just started still ignores the signal if its
        parent does, as background jobs of shells do."""
        for _ in range(60):
            if self.process.poll() is not None:
                return
            self.process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        self.process.kill()
        self.process.wait()
        raise Failed("PostgreSQL does not end on SIGQUIT within 60 s")

    def run(self, name, *words):
        result = subprocess.run([str(self.programs / name), *map(str, words)], capture_output=True, text=True, cwd="/", **self.account)
        if result.returncode:
            raise Failed(f"{name}: {result.stderr[-600:]}")

    def query(self, text, seconds=120):
        """Returns rows of strings."""
        result = subprocess.run(["psql", "-X", "-A", "-t", "-F", "\t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "fleet", "fleet",
                                 "-c", text], capture_output=True, text=True, cwd="/", timeout=seconds)
        if result.returncode:
            raise Failed(f"psql: {result.stderr[-600:]}")
        return [line.split("\t") for line in result.stdout.splitlines()]

    def clear(self):
        self.query("DROP TABLE IF EXISTS zguard_findings, zguard_days, zguard_hosts, zguard_groups, zguard_totals, zguard_former, zguard_triage, "
                   "zguard_alerts, zguard_weeks, zguard_names, zguard_symbols, zguard_symbol_parts")

    def close(self):
        self.quit()
        self.log.close()
        self.ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + "Z"


def finding(number, group=0, pid=1000, at=ZONE, program="/srv/shop/bin/shop", kind="use-after-free", signature=True, **more):
    """Returns a finding as `zguard run` writes it. `number` makes it unique, `group` identifies the bug."""
    def frame(name, line):
        return {"pc": hex(0x400000 + line), "module": program, "build_id": "ab" * 20, "offset": hex(line), "function": name,
                "file": f"/home/alice/shop/{name}.swift", "line": line}

    return {"schema": "zguard.finding/1", "kind": kind, "access": "read", "confidence": "exact", "address": hex(0x7f0000000000 + number * 64),
            "block": {"start": hex(0x7f0000000000 + number * 64), "size": 48, "offset": 16, "state": "quarantined", "language": "swift",
                      "class": f"Shop.Cart{group}", "member": "total"},
            "thread": {"id": 1, "name": "main"},
            "stacks": {"access": [frame(f"use{group}", 41)], "free": [frame(f"drop{group}", 30)], "alloc": [frame(f"make{group}", 20)]},
            "count": 1, "pid": pid, "program": program, "time": moment(at), **({"signature": f"{group:016x}"} if signature else {}), **more}


def store_name(number, pid=1000):
    return f"20260921T141320.{number % 1000:03}Z-shop-{pid}-{number:08x}.jsonl"


def write_report(folder, number, findings, name=None):
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / (name or store_name(number))
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in findings))
    return path


class Locked:
    """A report that is locked, as while it is written."""

    def __init__(self, path):
        self.file = open(path, "ab")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __enter__(self):
        return self.file

    def __exit__(self, *_):
        self.file.close()
