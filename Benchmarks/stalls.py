#!/usr/bin/env python3
"""Cost of stall detection for servers: redis under redis-benchmark, nginx and node under wrk, each with `zguard run` and with
`zguard run --collect stalls`, in turns.

Request rates depend on the machine's other load; the server's processor time for a request depends on it much less. Prints both as
the median of the ratios within a round, and zguard's own processor time. Finally, instructions for each wait, as counted by valgrind.

usage: Benchmarks/stalls.py [--rounds 9] [--seconds 2] [--only redis]      runs with real-time priority (chrt) as root"""

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Tests"))

from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.ports import Ports  # noqa: E402
from Support.processes import kill_session, running_in  # noqa: E402

MODES = {"without": [], "with": ["--collect", "stalls"]}
# Sends one byte through a pipe in each turn: a write, a wait, and a read.
LOOP = r"""
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
int main(int count, char **words) {
    int ends[2], isEpoll = count > 2 && words[2][0] == 'e';
    char byte = 'x';
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(ends)) return 2;
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    for (int i = atoi(words[1]); i; i--) {
        struct pollfd file = {ends[0], POLLIN, 0};
        if (write(ends[1], &byte, 1) != 1) return 3;
        if ((isEpoll ? epoll_wait(set, &event, 1, 1000) : poll(&file, 1, 1000)) != 1) return 4;
        if (read(ends[0], &byte, 1) != 1) return 5;
    }
}
"""


def ahead(words):
    """Prefixes the command with chrt for real-time priority, if that is allowed."""
    return ["chrt", "-f", "40", *words] if os.geteuid() == 0 and shutil.which("chrt") else words


class Server:
    def __init__(self, name, executable, command, load, rate):
        self.name, self.executable, self.command, self.load, self.rate = name, executable, command, load, rate


def nginx(folder, port):
    paths = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "nginx.conf").write_text(f"""worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
        events {{ worker_connections 256; }} http {{ access_log off; keepalive_requests 100000000; {paths}
        server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }} }}""")
    return ["nginx", "-p", folder, "-c", "nginx.conf"]


def servers(seconds):
    def wrk(port):
        return ["wrk", "-t", "1", "-c", "16", "-d", f"{seconds}s", f"http://127.0.0.1:{port}/"]

    requests = r"Requests/sec:\s*([\d.]+)"
    return [
        Server("redis", "redis-server|redis-check-rdb", lambda folder, port: ["redis-server", "--port", port, "--save", "", "--logfile", folder / "log"],
               lambda port: ["redis-benchmark", "-p", port, "-c", "20", "-n", int(40_000 * seconds), "-t", "get", "--csv"], r'"GET","([\d.]+)"'),
        Server("nginx", "nginx", nginx, wrk, requests),
        Server("node", "node", lambda folder, port: ["node", TESTS / "Stalls/Servers/serve.mjs", port], wrk, requests),
    ]


def used(pid):
    """Returns the processor nanoseconds of all threads."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(task.read_text().split()[0])
    return total


def running(command, port):
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=scrubbed(), start_new_session=True)
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.01)
    return process, running_in(process.pid, "zguard")[0]


def measure(server, mode):
    """Returns requests per second, and processor time: the server's ns per request, and zguard's ms per second under load and idle."""
    with tempfile.TemporaryDirectory(prefix="zguard-bench-") as place, Ports() as ports:
        folder, port = Path(place), ports.take()
        folder.chmod(0o755)
        command = ahead([str(ZGUARD), "run", "--quiet", *MODES[mode], "--report", str(folder / "report"), "--format", "json", "--",
                         *map(str, server.command(folder, port))])
        process, watcher = running(command, port)
        try:
            load = list(map(str, server.load(port)))
            subprocess.run(ahead(load), capture_output=True, check=True)  # warms the server up, so that it has started all its workers
            own = running_in(process.pid, server.executable)
            before, began, watched = sum(map(used, own)), time.monotonic(), used(watcher)
            result = subprocess.run(ahead(load), capture_output=True, text=True, check=True)
            seconds = time.monotonic() - began
            spent, watching = sum(map(used, own)) - before, (used(watcher) - watched) / 1e6 / seconds
            rate = float(re.search(server.rate, result.stdout)[1])
            count = re.search(r"(\d+) requests in", result.stdout)
            requests = int(count[1]) if count else int(load[load.index("-n") + 1])
            watched, began = used(watcher), time.monotonic()
            time.sleep(1)
            idle = (used(watcher) - watched) / 1e6 / (time.monotonic() - began)
            os.kill(own[0], signal.SIGTERM)
            process.wait(30)
            assert not (folder / "report").exists() or not (folder / "report").read_text().strip(), (folder / "report").read_text()
            return rate, spent / requests, watching, idle
        finally:
            kill_session(process.pid)
            process.wait()


def instructions(way, mode, folder):
    """Returns the instructions of one turn of the loop."""
    def count(turns):
        out = folder / "out"
        subprocess.run([str(ZGUARD), "run", "--quiet", *MODES[mode], "--report", str(folder / "report"), "--format", "json", "--", "valgrind",
                        "--tool=callgrind", f"--callgrind-out-file={out}", str(folder / "loop"), str(turns), way],
                       check=True, capture_output=True, env=scrubbed())
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1])

    return (count(20_000) - count(10_000)) / 10_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", help="redis, nginx, node or instructions")
    arguments = parser.parse_args()
    print("| server | requests a second | rate with stalls | processor for a request | with stalls | zguard, busy server | idle |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for server in servers(arguments.seconds):
        if arguments.only not in (None, server.name):
            continue
        samples = {mode: [] for mode in MODES}
        for number in range(arguments.rounds):
            for mode in list(MODES)[:: -1 if number % 2 else 1]:
                samples[mode].append(measure(server, mode))

        def ratio(place):
            return statistics.median(after[place] / before[place] for before, after in zip(samples["without"], samples["with"]))

        def median(mode, place):
            return statistics.median(sample[place] for sample in samples[mode])

        print(f"| {server.name} | {median('without', 0):,.0f} | {ratio(0) - 1:+.1%} | {median('without', 1) / 1000:.2f} µs | {ratio(1) - 1:+.1%} | "
              f"{median('with', 2):.1f} ms/s ({median('without', 2):.1f} without) | {median('with', 3):.1f} ms/s ({median('without', 3):.1f}) |", flush=True)
    if arguments.only not in (None, "instructions"):
        return
    with tempfile.TemporaryDirectory(prefix="zguard-bench-") as place:
        folder = Path(place)
        (folder / "loop.c").write_text(LOOP)
        subprocess.run(["gcc", "-O2", str(folder / "loop.c"), "-o", str(folder / "loop")], check=True)
        for way in ("poll", "epoll"):
            without, more = (instructions(way, mode, folder) for mode in MODES)
            print(f"{way}: {without:.0f} instructions a turn, {more:.0f} with stalls: {more - without:+.0f}", flush=True)


if __name__ == "__main__":
    main()
