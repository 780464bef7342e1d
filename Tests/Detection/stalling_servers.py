#!/usr/bin/env python3
"""Checks reports of stalls in real servers (collect=stalls): a slow script in redis, a busy worker of nginx, a handler in node, …

Each stall is found once, in the right process and with the expected function near the top of the stack, and the server answers as without
the runtime. The same servers under load have no finding, even while two other processes per processor compute. Small programs stall in the
event loops of GLib, libuv and libevent, and at locks of C++ and Rust.
A program that is not installed is a failure; --install-only installs missing programs.
Closing line: N passed, N failed."""

import argparse
import concurrent.futures
import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path[1:1] = [str(Path(__file__).resolve().parents[1] / "Programs")]

from Support import builds  # noqa: E402
from Support.checks import run_tests, run_within  # noqa: E402
from Support.environment import TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.reports import findings_of  # noqa: E402
from case import Case, Need  # noqa: E402
from harness import CaseError, Guard, Run  # noqa: E402
from programs import exit_if_missing, install_packages  # noqa: E402

INPUTS, LOOPS = TESTS / "Stalls" / "Servers", TESTS / "Stalls" / "Loops"
FOLDER = builds.BUILD / "stalling-loops"
PYTHON = "/usr/bin/python3"  # Debian's
LOAD_SECONDS = 3


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return f"{path} {answer.status} {answer.read().decode()}\n"
    finally:
        connection.close()


class Server(Case):
    """A server program. `stalls`: requests that stall it, each with the expected finding: a regular expression for one of the ten innermost
    named functions, and the system call that it waits in, or None if it computes."""

    needs = ()
    executable = ""
    end = signal.SIGTERM
    status = 0
    stalls = ()
    is_child = False  # whether a child of the started process stalls
    environment = {}

    def command(self, run, port):
        raise NotImplementedError

    def ask(self, port, what):
        """Sends a request, and returns the answer as text."""
        return get(port, what)

    ordinary = "/"

    def load(self, port):
        return ["wrk", "-t", "1", "-c", "16", "-d", f"{LOAD_SECONDS}s", "--timeout", "30s", f"http://127.0.0.1:{port}{self.ordinary}"]

    def load_went_well(self, text):
        return "requests in" in text and "Non-2xx" not in text

    @contextlib.contextmanager
    def running(self, run):
        port = run.port()
        server = run.spawn([str(word) for word in self.command(run, port)], env=self.environment, stderr="any")
        server.wait_for(port)
        yield server, port
        server.stop(self.executable, self.end)


class Redis(Server):
    name = "redis"
    needs = (Need("redis-server", "redis-server"), Need("redis-benchmark", "redis-tools"), Need("redis-cli", "redis-tools"))
    executable = r"redis-server|redis-check-rdb"
    ordinary = "PING"
    # Computes for 0.8 s of processor time, taken from INFO because scripts have no such clock.
    SCRIPT = """local function now() return tonumber(string.match(redis.call('INFO', 'cpu'), 'used_cpu_user:([%d.]+)')) end
        local start = now() while now() - start < 0.8 do for i = 1, 100000 do end end return 7"""
    stalls = (("EVAL", "evalGenericCommand|evalCommand", None), ("DEBUG SLEEP 0.8", "debugCommand", "clock_nanosleep"))

    def command(self, run, port):
        return ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes", "--logfile", run.dir / "log"]

    def ask(self, port, what):
        words = ["EVAL", self.SCRIPT, "0"] if what == "EVAL" else what.split()
        result = subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=60)
        return result.stdout + result.stderr

    def load(self, port):
        return ["redis-benchmark", "-p", port, "-c", "30", "-n", "60000", "-t", "set,get,lpush,lrange_100", "-q"]

    def load_went_well(self, text):
        return text.count("requests per second") >= 4


class Nginx(Server):
    """nginx with two workers, one of which is stalled by a handler in Perl."""
    name = "nginx"
    MODULE = "/usr/lib/nginx/modules/ngx_http_perl_module.so"
    needs = (Need("nginx", "nginx-light"), Need("nginx", "libnginx-mod-http-perl", ["test", "-e", MODULE]), Need("wrk", "wrk"))
    executable = "nginx"
    end = signal.SIGQUIT
    is_child = True
    stalls = (("/computes", r"ngx_http_perl_\w+|Perl_\w+", None), ("/sleeps", "Perl_pp_sleep|PerlProc_sleep|sleep", "clock_nanosleep"))

    def command(self, run, port):
        here = run.dir
        (here / "logs").mkdir()
        paths = "".join(f"{kind}_temp_path {here}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        answer = 'my $r = shift; $r->send_http_header("text/plain"); $r->print("done\\n"); return OK;'
        (here / "nginx.conf").write_text(f"""
load_module {self.MODULE};
{'user www-data;' if os.geteuid() == 0 else ''}
worker_processes 2; daemon off; pid {here}/pid; error_log {here}/logs/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; {paths} keepalive_requests 1000000;
    server {{
        listen 127.0.0.1:{port};
        location = / {{ return 200 "hello\\n"; }}
        location = /computes {{ perl 'sub {{ my $end = (times)[0] + 0.8; while ((times)[0] < $end) {{ my $n = 0; $n += $_ for 1 .. 20000; }} {answer} }}'; }}
        location = /sleeps {{ perl 'sub {{ sleep 1; {answer} }}'; }}
    }}
}}
""")
        return ["nginx", "-p", here, "-c", "nginx.conf"]


class Node(Server):
    name = "node"
    needs = (Need("node", "nodejs"), Need("wrk", "wrk"))
    executable = "node"
    status = 0
    stalls = (("/computes", r"v8::|node::|Builtins_\w+|uv__?\w+|.*http_parser.*|llhttp\w*", None),
              ("/sleeps", r"v8::|node::|Builtins_\w+|uv_\w+|pthread_cond_\w+", "futex"))

    def command(self, run, port):
        return ["node", INPUTS / "serve.mjs", port]


class Asyncio(Server):
    name = "python3-asyncio"
    needs = (Need(PYTHON, "python3"), Need("wrk", "wrk"))
    executable = r"python3[.]\d+"
    stalls = (("/computes", r"_?Py\w+", None), ("/sleeps", r"_?Py\w+|clock_nanosleep", "clock_nanosleep"))

    def command(self, run, port):
        return [PYTHON, INPUTS / "serve.py", port]


class Lighttpd(Server):
    """lighttpd with a Lua script that runs in the server's event loop."""
    name = "lighttpd"
    MODULE = "/usr/lib/lighttpd/mod_magnet.so"
    needs = (Need("lighttpd", "lighttpd"), Need("lighttpd", "lighttpd-modules-lua", ["test", "-e", MODULE]), Need("wrk", "wrk"))
    executable = "lighttpd"
    end = signal.SIGINT
    stalls = (("/computes", r"lua_\w+", None),)

    def command(self, run, port):
        (run.dir / "page.lua").write_text("""
if lighty.env["uri.path"] == "/computes" then
    local start = os.clock()
    while os.clock() - start < 0.8 do end
end
lighty.content = {"done\\n"}
return 200
""")
        (run.dir / "lighttpd.conf").write_text(f"""
server.document-root = "{run.dir}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_magnet")
server.max-keep-alive-requests = 1000000
magnet.attract-raw-url-to = ("{run.dir}/page.lua")
server.errorlog = "{run.dir}/error.log"
""")
        return ["lighttpd", "-D", "-f", run.dir / "lighttpd.conf"]


def servers():
    return [server() for server in Server.__subclasses__()]


def passes(place, server, steps, options=()):
    """Runs `steps` without and with the runtime; returns both runs."""
    (place / "inputs").mkdir(parents=True)
    place.chmod(0o711)
    runs = []
    for guard in (None, Guard(zguard=ZGUARD, options=["--collect", "stalls", *options])):
        run = Run(server, place, guard)
        try:
            steps(run)
        except CaseError as error:
            raise AssertionError(f"{error}\n{run.what_runs()}") from error
        finally:
            run.stop()
        runs.append(run)
    return runs


def all_findings(run):
    return [finding for path in sorted(run.logs.glob("*.report")) for finding in findings_of(path)]


def stall_is_found(server, what, functions, call):
    def test(place):
        pids = []

        def steps(run):
            with server.running(run) as (process, port):
                run.note("before", "".join(server.ask(port, server.ordinary) for _ in range(2)))
                run.note("stall", server.ask(port, what))
                run.note("after", "".join(server.ask(port, server.ordinary) for _ in range(2)))
                pids.append(process.program_pid(server.executable))

        plain, guarded = passes(place, server, steps)
        assert [(one.label, one.stdout) for one in plain.records] == [(one.label, one.stdout) for one in guarded.records], guarded.records
        findings = all_findings(guarded)
        assert [finding["kind"] for finding in findings] == ["stall"], findings
        assert plain.records[-1].status == server.status and guarded.records[-1].status == (server.status or 99), \
            (plain.records[-1].status, guarded.records[-1].status)
        [finding] = findings
        stack = finding["stacks"]["access"]
        named = [frame["function"] for frame in stack if "function" in frame]
        assert any(re.match(functions, name) for name in named[:10]), named
        assert finding["computing"] == (call is None) and finding.get("call") == call, (finding["computing"], finding.get("call"))
        assert 500 <= finding["duration_ms"] < 60_000 and not finding["freeze"], finding["duration_ms"]
        assert (finding["pid"] == pids[1]) != server.is_child, (finding["pid"], pids)

    return test


class Loop:
    """A small program: compiler and flags before and after the source, a function near the top of the stack, the system call that it waits
    in (None: it computes), and a function of the lock's holder."""

    def __init__(self, source, before, after, need, top, call, held=None):
        self.source, self.before, self.after, self.need = LOOPS / source, before, after, need
        self.top, self.call, self.held = top, call, held
        self.name = f"loop of {self.source.stem}"

    def test(self, place):
        program = FOLDER / self.source.stem
        after = [word for word in self.after if not word.startswith("pkg-config:")]
        for word in set(self.after) - set(after):
            after += subprocess.run(["pkg-config", "--cflags", "--libs", word.partition(":")[2]], capture_output=True, text=True, check=True).stdout.split()
        builds.compiled(program, [*self.before, str(self.source), "-o", str(program), *after], [self.source])
        plain, _, _ = run_within(60, [program], env=scrubbed(), cwd=place)
        report = place / "report.jsonl"
        status, _, errors = run_within(60, [ZGUARD, "run", "--collect", "stalls", "--report", report, "--format", "json", "--", program], env=scrubbed(), cwd=place)
        findings = findings_of(report)
        assert plain == 0 and status == 99, (plain, status, errors[-1000:])
        assert [finding["kind"] for finding in findings] == ["stall"], findings
        [finding] = findings
        own = [frame.get("function", "") for frame in finding["stacks"]["access"] if frame.get("module") == str(program)]
        assert any(self.top in name for name in own[:8]), own
        assert finding.get("call") == self.call, finding.get("call")
        holders = [frame.get("function", "") for frame in finding.get("holder", {"stack": []})["stack"]]
        assert self.held is None or any(self.held in name for name in holders), holders


C = ["gcc", "-g", "-O1", "-Wall", "-Wextra", "-pthread"]
LOOP_TABLE = (
    Loop("glib.c", C, ["pkg-config:glib-2.0"], Need("pkg-config", "libglib2.0-dev", ["pkg-config", "glib-2.0"]), "wait_for_thread", "futex"),
    Loop("uv.c", C, ["-luv"], Need("gcc", "libuv1-dev", ["test", "-e", "/usr/include/uv.h"]), "read_slowly", "read"),
    Loop("event.c", C, ["-levent"], Need("gcc", "libevent-dev", ["test", "-e", "/usr/include/event2/event.h"]), "sort_for_long", None),
    Loop("pool.cpp", ["g++", "-std=c++17", *C[1:]], [], Need("g++", "g++"), "answer_by_pool", "futex"),
    Loop("mutex.rs", ["/usr/bin/rustc", "-g", "-O"], [], Need("/usr/bin/rustc", "rustc"), "take_turn", "futex"),
)


@contextlib.contextmanager
def others():
    """Runs two computing processes per processor."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def load_is_no_stall(server, is_crowded):
    def test(place):
        def steps(run):
            if not run.guard:
                return
            with server.running(run) as (_, port), others() if is_crowded else contextlib.nullcontext():
                words = [str(word) for word in server.load(port)]
                result = subprocess.run(words, capture_output=True, text=True, timeout=300)
                assert result.returncode == 0 and server.load_went_well(result.stdout), (result.stdout, result.stderr)
                time.sleep(0.6)  # an idle server must have no finding, either

        _, guarded = passes(place, server, steps)
        assert not all_findings(guarded), all_findings(guarded)
        assert guarded.records[-1].status == server.status, guarded.records[-1].status

    return test


def healthy(place, server, ends):
    """Runs a server until the time `ends`, alternately under load and idle. It must have no finding. Returns the load count as text."""
    loads = 0

    def steps(run):
        nonlocal loads
        if not run.guard:
            return
        with server.running(run) as (_, port):
            while time.monotonic() < ends:
                words = [str(word) for word in server.load(port)]
                result = subprocess.run(words, capture_output=True, text=True, timeout=600)
                assert result.returncode == 0 and server.load_went_well(result.stdout), (result.stdout, result.stderr)
                loads += 1
                time.sleep(8 + loads % 12)

    _, guarded = passes(place, server, steps, ["-o", "stall_threads=all"])
    assert not all_findings(guarded), all_findings(guarded)
    assert guarded.records[-1].status == server.status, guarded.records[-1].status
    return f"{server.name}: {loads} loads"


def all_are_healthy(minutes):
    """Runs all servers side by side, with all of their threads watched."""
    def test(place):
        place.chmod(0o711)
        ends = time.monotonic() + minutes * 60
        with concurrent.futures.ThreadPoolExecutor(len(servers())) as pool:
            works = [pool.submit(healthy, place / server.name, server, ends) for server in servers()]
        print("       " + ", ".join(work.result() for work in works))

    return test


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose names hold it")
    parser.add_argument("--install-only", action="store_true", help="fetch missing programs with apt-get, then end")
    parser.add_argument("--minutes", type=float, default=0, help="how long all servers work side by side, too, of which nothing may be said")
    arguments = parser.parse_args()
    loops = type("", (Case,), {"needs": (*(loop.need for loop in LOOP_TABLE), Need("pkg-config", "pkg-config"))})()
    if arguments.install_only:
        install_packages([*servers(), loops])
        return 0
    exit_if_missing("stalling_servers", [*servers(), loops])
    tests = []
    for server in servers():
        tests += [(f"{server.name} {what.strip('/')}", stall_is_found(server, what, functions, call)) for what, functions, call in server.stalls]
        tests += [(f"{server.name} under load", load_is_no_stall(server, False)), (f"{server.name} under load among others", load_is_no_stall(server, True))]
    tests += [(loop.name, loop.test) for loop in LOOP_TABLE]
    tests += [("all for long", all_are_healthy(arguments.minutes))] if arguments.minutes else []
    return run_tests(tests, "zguard-servers-", arguments.filter)


if __name__ == "__main__":
    sys.exit(main())
