#!/usr/bin/env python3
"""Soak test: guarded servers under load for hours, with trims, memory pressure, forks and observers.

For the given time, each of these runs under `zguard run`: redis (saving and rewriting its log, with a replica), nginx (whose workers are
replaced continuously), a Python HTTP server, a C server that creates threads, forks, loads and unloads libraries (profile fence), a Swift
service. At random moments `zguard trim`, `check` and `stats --watch` examine a server (a watcher is then killed), and, if control groups of
version 1 can be made, memory gets short. At the end:
- every server ended as it does unguarded, without a finding, and answered each request at the first attempt;
- memory and descriptors of every server and of every `zguard run` are flat: see `Curve`;
- no temporary file and no process is left.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, close  # noqa: E402
from Support.environment import TESTS, ZGUARD  # noqa: E402
from Support.ports import Ports  # noqa: E402
from Support.processes import descendants, holders, stacks  # noqa: E402

SOURCES = TESTS / "Robustness/Soak"
BUILD = builds.BUILD / "soak"
PYTHON = "/usr/bin/python3"  # Debian's
GROUPS = Path("/sys/fs/cgroup/memory")
SAMPLE_SECONDS = 1.0
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
libc = ctypes.CDLL(None)
PORTS = Ports()


def die_with_parent():
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore SIGINT for background jobs


def field(text, name):
    """Returns a number of kilobytes from /proc/PID/status or smaps_rollup; None if the line is missing."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return None


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(word) for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except (OSError, ValueError):
        pass
    return found


class Curve:
    """A resource's use over time. The first third of the time is a warm-up: tables fill, stacks are recorded for the first time. In the
    last quarter of the time, median and first decile may exceed those of the quarter after the warm-up by at most `share` and
    `absolute`."""

    def __init__(self, unit, share, absolute):
        self.unit, self.share, self.absolute = unit, share, absolute
        self.moments, self.values = [], []

    def add(self, moment, value):
        self.moments.append(moment)
        self.values.append(value)

    def quarters(self):
        """Returns (median, first decile) of the quarter after the first third of the time, and of the last quarter."""
        start, end = self.moments[0], self.moments[-1]
        length = end - start
        pair = []
        for low, high in ((start + length / 3, start + length * 7 / 12), (start + length * 3 / 4, end)):
            values = sorted(value for moment, value in zip(self.moments, self.values) if low <= moment <= high)
            pair.append((statistics.median(values), values[len(values) // 10]) if len(values) >= 10 else None)
        return pair

    def problem(self):
        if len(self.moments) < 40:
            return "too few samples"
        early, late = self.quarters()
        if early is None or late is None:
            return "too few samples"
        for name, before, after in zip(("median", "first decile"), early, late):
            if after > before * (1 + self.share) + self.absolute:
                return f"{name} grew from {before:.0f} to {after:.0f} {self.unit}"
        return None

    def text(self):
        if len(self.moments) < 40:
            return "-"
        early, late = self.quarters()
        return f"{early[0]:.0f} to {late[0]:.0f}" if early and late else "-"


class Process:
    """A live process and its curves. Memory is the private memory, without file-backed shared pages."""

    def __init__(self, name, pid):
        self.name, self.pid = name, pid
        self.curves = {"memory": Curve("KiB", 0.08, 6144), "descriptors": Curve("descriptors", 0.05, 3),
                       "threads": Curve("threads", 0.05, 3), "mappings": Curve("mappings", 0.10, 64)}

    def sample(self, moment):
        directory = f"/proc/{self.pid}"
        try:
            status = Path(directory, "status").read_text()
            descriptors = len(os.listdir(f"{directory}/fd"))
            mappings = Path(directory, "maps").read_bytes().count(b"\n")
        except OSError:
            return
        memory, threads = field(status, "RssAnon"), field(status, "Threads")
        if memory is None or threads is None:
            return
        for curve, value in zip(self.curves.values(), (memory, descriptors, threads, mappings)):
            curve.add(moment, value)


class Server:
    """A program under `zguard run` and its client. A dedicated thread calls `load` repeatedly."""

    options = ()
    end_signal = signal.SIGTERM
    end_status = 0

    def __init__(self, directory):
        self.directory = directory / self.name
        self.directory.mkdir()
        self.port = PORTS.take()
        self.report = self.directory / "report.json"
        self.loads = 0
        self.trouble = []

    def command(self):
        raise NotImplementedError

    def load(self):
        time.sleep(0.5)

    def is_ready(self):
        return True

    def start(self, group):
        log = open(self.directory / "output", "wb")
        self.process = subprocess.Popen(
            [ZGUARD, "run", "--quiet", "--report", self.report, "--format", "json", *self.options, "--", *self.command()],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True, preexec_fn=die_with_parent,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(self.directory.parent / "tmp"), "LANG": "C.UTF-8"})
        log.close()
        deadline = time.monotonic() + 60
        while True:
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended at its start with {self.process.returncode}: {self.output()}\n"
                              + holders(self.port))
            found = children(self.process.pid)
            if found and self.is_guarded(found[0]) and self.is_ready():
                break
            if time.monotonic() > deadline:
                raise Failed(f"{self.name} does not start: {self.output()}\n"
                              + holders(self.port) + stacks(descendants(self.process.pid)))
            time.sleep(0.1)
        self.pid = found[0]
        self.processes = [Process(self.name, self.pid), Process(f"zguard run, {self.name}", self.process.pid)]
        if group:
            self.group = group / self.name
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(self.pid))
        else:
            self.group = None

    @staticmethod
    def is_guarded(pid):
        try:
            return "zguard-stats" in Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False

    def output(self):
        return (self.directory / "output").read_text(errors="replace")[-800:]

    def end(self):
        """Ends the server; returns problems as lines of text."""
        problems = list(self.trouble)
        if self.process.poll() is not None:
            problems.append(f"had ended before with {self.process.returncode}")
        else:
            os.kill(self.pid, self.end_signal)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                problems += ["does not end within 60 seconds", *stacks(descendants(self.process.pid)).splitlines()]
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        if self.process.returncode != self.end_status:
            problems.append(f"ended with {self.process.returncode}, not {self.end_status}: {self.output()}")
        findings = self.report.read_text(errors="replace") if self.report.exists() else ""
        if findings.strip():
            problems.append("findings: " + findings[:2000])
        if not self.loads:
            problems.append("was never under load")
        return problems

    def ask_for(self, *argv, timeout=120, status=0):
        result = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=timeout,
                                preexec_fn=die_with_parent)
        if result.returncode != status:
            raise Failed(f"{argv[0]} ended with {result.returncode}: {(result.stderr or result.stdout)[-300:]}")
        return result.stdout


class Redis(Server):
    name = "redis"

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory), "--save", "",
                "--appendonly", "yes", "--daemonize", "no", "--logfile", str(self.directory / "log"),
                "--auto-aof-rewrite-percentage", "0"]

    def is_ready(self):
        return subprocess.run(["redis-cli", "-p", str(self.port), "PING"], capture_output=True).stdout == b"PONG\n"

    def load(self):
        self.ask_for("redis-benchmark", "-p", self.port, "-t", "set,get,lpush,lpop,hset,sadd,zadd,lrange_100", "-n", "4000", "-r", "2000",
                     "-d", "100", "-c", "20", "-q")
        self.ask_for("redis-cli", "-p", self.port, "LTRIM", "mylist", "0", "999")
        # Both jobs fork; an error because one already runs is ignored.
        for job in ("BGREWRITEAOF", "BGSAVE"):
            subprocess.run(["redis-cli", "-p", str(self.port), job], capture_output=True, timeout=60)


class Replica(Redis):
    """A replica of the redis server that was started before; its client only reads."""
    name = "replica"
    master = None

    def command(self):
        return [*super().command(), "--replicaof", "127.0.0.1", str(self.master.port)]

    def load(self):
        self.ask_for("redis-benchmark", "-p", self.port, "-t", "get", "-n", "5000", "-r", "2000", "-c", "5", "-q")
        time.sleep(0.5)


class Nginx(Server):
    name = "nginx"
    end_signal = signal.SIGQUIT

    def command(self):
        (self.directory / "page.html").write_text("".join(f"<p>line {i} of a page</p>\n" for i in range(2000)))
        (self.directory / "nginx.conf").write_text(f"""
            daemon off; master_process on; worker_processes 2; pid {self.directory}/pid; error_log {self.directory}/error.log;
            events {{ worker_connections 256; }}
            http {{
                access_log off; gzip on; gzip_types *; types {{ text/html html; }}
                client_body_temp_path {self.directory}/body; proxy_temp_path {self.directory}/proxy;
                fastcgi_temp_path {self.directory}/fastcgi; uwsgi_temp_path {self.directory}/uwsgi; scgi_temp_path {self.directory}/scgi;
                server {{
                    listen 127.0.0.1:{self.port};
                    root {self.directory};
                    location /again/ {{ proxy_pass http://127.0.0.1:{self.port}/; }}
                }}
            }}""")
        os.chmod(self.directory, 0o755)
        return ["nginx", "-p", str(self.directory), "-c", str(self.directory / "nginx.conf")]

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/page.html", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def load(self):
        page = "page.html" if self.loads % 2 else "again/page.html"
        self.ask_for("wrk", "-t1", "-c8", "-d3s", "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{self.port}/{page}")
        os.kill(self.pid, signal.SIGHUP)  # start new workers; the old ones end when their connections do


class PythonService(Server):
    name = "python3"
    end_status = 128 + signal.SIGTERM  # Python has no SIGTERM handler

    def command(self):
        return [PYTHON, str(SOURCES / "service.py"), str(self.port)]

    def is_ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def load(self):
        self.ask_for("wrk", "-t1", "-c4", "-d3s", f"http://127.0.0.1:{self.port}/")


class CServer(Server):
    name = "c-server"
    options = ("--profile", "fence")

    def command(self):
        return [str(BUILD / "server")]


class CServerPlain(CServer):
    """The C server with the default profile and a quarantine so small that blocks are evicted all the time."""
    name = "c-server-guard"
    options = ("-o", "quarantine_bytes=8m", "-o", "pressure_thread_bytes=4m")


class SwiftService(Server):
    name = "swift"

    def command(self):
        return [str(BUILD / "service")]


class Disturbance(threading.Thread):
    """At random moments, disturbs a server that is chosen at random."""

    def __init__(self, servers, generator, ending):
        super().__init__(daemon=True)
        self.servers, self.generator, self.ending = servers, generator, ending
        self.done = {"trim": 0, "check": 0, "watch": 0, "pressure": 0}
        self.problems = []

    def run(self):
        while not self.ending.wait(self.generator.uniform(0.5, 4)):
            server = self.generator.choice(self.servers)
            kind = self.generator.choice([kind for kind in self.done if kind != "pressure" or server.group])
            try:
                getattr(self, kind)(server)
                self.done[kind] += 1
            except (Failed, OSError, subprocess.SubprocessError, ValueError) as trouble:
                if not self.ending.is_set():
                    self.problems.append(f"{kind} of {server.name}: {trouble}")

    def trim(self, server):
        result = subprocess.run([ZGUARD, "trim", str(server.pid)], capture_output=True, text=True, timeout=120,
                                preexec_fn=die_with_parent)
        # An idle process without a maintenance thread trims at its next allocation.
        if result.returncode and "at its next allocation" not in result.stdout:
            raise Failed(f"zguard trim ended with {result.returncode}: {result.stdout + result.stderr}")

    def check(self, server):
        server.ask_for(ZGUARD, "check", server.pid)

    def watch(self, server):
        """Runs `zguard stats --watch` for some seconds and kills it with a random signal: all lines but the last are complete JSON."""
        watcher = subprocess.Popen([ZGUARD, "stats", "--watch", "0.2", "--json", str(server.pid)], stdout=subprocess.PIPE,
                                   preexec_fn=die_with_parent)
        self.ending.wait(self.generator.uniform(0.5, 5))
        watcher.send_signal(self.generator.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
        try:
            output = watcher.communicate(timeout=30)[0].decode()
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()
            raise
        lines = output.split("\n")[:-1]
        if not lines:
            raise Failed("stats --watch said nothing")
        for line in lines:
            if json.loads(line)["processes"][0]["pid"] != server.pid:
                raise Failed("stats --watch speaks of another process")

    def pressure(self, server):
        """Lowers the control group's limit to slightly above its usage, for some seconds."""
        limit = server.group / "memory.limit_in_bytes"
        used = int((server.group / "memory.usage_in_bytes").read_text())
        try:
            limit.write_text(str(int(used * 1.03) + (24 << 20)))
            self.ending.wait(self.generator.uniform(1, 6))
        finally:
            limit.write_text("-1")


def make_group():
    """Returns a control group for the servers, or None if none can be made."""
    group = GROUPS / f"zguard-soak-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.use_hierarchy").write_text("1")
    except OSError:
        return group if (group / "memory.limit_in_bytes").exists() else None
    return group


def remove_group(group):
    for folder in [*group.glob("*/"), group]:
        for _ in range(50):
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def build():
    """Builds the servers of this test."""
    for source, argv in ((SOURCES / "server.c", ["gcc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]),
                         (SOURCES / "service.swift", ["swiftc", "-O", "-g", "-swift-version", "6", "-warnings-as-errors",
                                                      "-parse-as-library", "-o"])):
        target = BUILD / source.stem
        builds.compiled(target, [*argv, target, source], [source], cwd=BUILD)


def run_load(server, ending):
    while not ending.is_set():
        try:
            server.load()
            server.loads += 1
        except (Failed, OSError, subprocess.SubprocessError) as trouble:
            if not ending.is_set():
                server.trouble.append(f"load: {trouble}")
            return


def soak(seconds, seed, servers, directory):
    group = make_group()
    if not group:
        print("no control group can be made here: no short memory")
    ending = threading.Event()
    threads = []
    problems = {}
    try:
        for server in servers:
            server.start(group)
        disturbance = Disturbance(servers, random.Random(seed), ending)
        threads = [threading.Thread(target=run_load, args=(server, ending), daemon=True) for server in servers] + [disturbance]
        for thread in threads:
            thread.start()
        started = said = time.monotonic()
        while time.monotonic() - started < seconds:
            time.sleep(SAMPLE_SECONDS)
            now = time.monotonic()
            for server in servers:
                for process in server.processes:
                    process.sample(now)
            if any(server.process.poll() is not None for server in servers):
                break
            if now - said > 600:
                said = now
                print(f"after {(now - started) / 60:.0f} min: " + ", ".join(
                    f"{server.name} {server.processes[0].curves['memory'].values[-1] // 1024} MiB" for server in servers), flush=True)
    finally:
        ending.set()
        for thread in threads:
            thread.join(180)
        for server in servers:
            if hasattr(server, "process"):
                problems[server.name] = server.end()
        if group:
            remove_group(group)
    left = [path.name for path in (directory / "tmp").iterdir()]
    problems["disturbances"] = disturbance.problems + [f"no {kind} was made" for kind, count in disturbance.done.items()
                                                       if not count and (kind != "pressure" or group)]
    problems["temporary files"] = [f"left behind: {name}" for name in left]
    print("disturbances: " + ", ".join(f"{kind} {count}" for kind, count in disturbance.done.items()))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random disturbances")
    parser.add_argument("--filter", action="append", metavar="TEXT", help="only servers whose name contains TEXT")
    options = parser.parse_args()
    build()
    chosen = [kind for kind in (Redis, Replica, Nginx, PythonService, CServer, CServerPlain, SwiftService)
              if not options.filter or any(text in kind.name for text in options.filter)]
    if Replica in chosen and Redis not in chosen:
        chosen.insert(0, Redis)
    print(f"{options.seconds:.0f} seconds, seed {options.seed}", flush=True)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="zguard-soak-") as name:
        directory = Path(name)
        os.chmod(directory, 0o755)  # nginx's workers run as nobody
        (directory / "tmp").mkdir()
        os.chmod(directory / "tmp", 0o1777)
        servers = [kind(directory) for kind in chosen]
        for server in servers:
            if isinstance(server, Replica):
                server.master = next(other for other in servers if type(other) is Redis)
        checks = soak(options.seconds, options.seed, servers, directory)
        print(f"{'process':26}{'loads':>7}  {'memory KiB':24}{'descriptors':16}{'threads':14}mappings")
        for server in servers:
            for process in server.processes:
                texts = [curve.text() for curve in process.curves.values()]
                print(f"{process.name:26}{server.loads:7}  {texts[0]:24}{texts[1]:16}{texts[2]:14}{texts[3]}")
                checks[f"{process.name} is flat"] = [f"{what}: {curve.problem()}" for what, curve in process.curves.items()
                                                     if curve.problem()]
        for name, problems in checks.items():
            if problems:
                failed += 1
                print(f"FAILED {name}")
                for problem in problems:
                    print(f"    {problem}")
            else:
                passed += 1
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
