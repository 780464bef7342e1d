#!/usr/bin/env python3
"""Tests `zguard serve`: responses, rejected requests, and its pages in headless Chromium.
The pages are opened narrow and wide, light and dark, used by keyboard, and show findings with script injections. Closing line: N passed, N
failed."""

import argparse
import contextlib
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet.store_server import finding, write_report  # noqa: E402
from Support.browser import Browser, brightness, colours  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

# Time limit for a page on a busy machine: half the deadline of a request. A page that waits for another client exceeds the limit.
MOST_SECONDS = 5
HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">'\"&\u202e"
pictures = None


class Work:
    def __init__(self, path):
        self.path = Path(path)
        self.source = self.path / "reports"
        self.environment = scrubbed(TMPDIR=str(self.path))
        now = int(time.time())
        for number in range(30):
            write_report(self.source, number, [finding(number * 10 + one, number % 7, pid=number, at=now - number * 86400 + one)
                                               for one in range(number % 5 + 1)])
        write_report(self.source, 99, [finding(999, 99, pid=7, at=now, program=f"/srv/{HOSTILE}", kind="double-free",
                                               block={"start": "0x7f0000001000", "size": 48, "offset": 0, "state": "quarantined", "class": HOSTILE,
                                                      "member": HOSTILE, "language": "swift"}, thread={"id": 1, "name": HOSTILE},
                                               origin={"host": HOSTILE, "version": HOSTILE})])

    def sqlite(self):
        place = f"sqlite:{self.path}/kept.db"
        for version in ("1.9", "1.10"):
            result = subprocess.run([str(ZGUARD), "collect", "--from", str(self.source), "--to", place, "--program-version", version],
                                    capture_output=True, text=True, env=self.environment)
            assert result.returncode == 0, result.stderr
        return place


class Served:
    """Runs `zguard serve` on a store."""

    def __init__(self, work, store):
        self.process = subprocess.Popen([str(ZGUARD), "serve", str(store), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, stdin=subprocess.DEVNULL, env=work.environment)
        said = self.process.stdout.readline()
        found = re.search(r"at http://127\.0\.0\.1:(\d+)/$", said.strip())
        assert found, (said, self.process.poll())
        self.port = int(found[1])
        self.address = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, text, seconds=20):
        """Sends bytes; returns the response."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(text if isinstance(text, bytes) else text.encode())
            answer = b""
            while part := connection.recv(65536):
                answer += part
        return answer.decode()

    def get(self, path, host=None, method="GET"):
        return self.send(f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.port}'}\r\n\r\n")


def answers(work):
    with Served(work, work.source) as served:
        page = served.get("/")
        head, body = page.split("\r\n\r\n", 1)
        assert head.startswith("HTTP/1.1 200 OK") and int(re.search(r"Content-Length: (\d+)", head)[1]) == len(body.encode()), head
        policy = re.search(r"Content-Security-Policy: (.*)", head)[1]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "X-Content-Type-Options: nosniff" in head, head
        assert body.count('<li class="g">') == 8 and "<script>document" not in body and "<img" not in body, body[:3000]
        assert "http://" not in body and "https://" not in body, "something leads elsewhere"
        group = served.get(f"/group/{3:016x}")
        assert "Shop.Cart3" in group and "make3" in group and "use3" in group and 'class="bp"' in group, group[-3000:]
        hostile = served.get(f"/group/{99:016x}")
        assert "&lt;script&gt;" in hostile and "<script>document" not in hostile and "<img" not in hostile, hostile[-3000:]
        # The server rejects requests that name another host, have another method, are malformed, or are too long.
        port = served.port
        for request, status in ((f"GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n", 421), ("GET / HTTP/1.1\r\n\r\n", 400),
                                (f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", 405), ("nonsense\r\n\r\n", None),
                                (f"GET http://x/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", 400), (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
                                ("GET / HTTP/2\r\n\r\n", 400), (f"GET /%zz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", 400),
                                ("GET / HTTP/1.1\r\n" + "X: y\r\n" * 5000, 431)):
            try:
                answer = served.send(request)
            except ConnectionResetError:
                answer = "HTTP/1.1 431"  # the server closed the connection before it read everything
            # Without a request line there is no answer.
            assert answer.startswith(f"HTTP/1.1 {status} "[:-1]) if status else answer == "", (request[:60], answer[:60])
        for path, status in (("/nothing", 404), ("/group/" + "f" * 16, 404), ("/group/../../etc/passwd", 404), ("/group/%27%20OR%201=1", 404),
                             ("/?page=99999999999999999999", 200), ("/?order=x&since=never&q=%25_!'%22", 200)):
            assert f" {status} " in served.get(path)[:20], path
        assert "since: expected" in served.get("/?since=never")


class Clients:
    """Harmful clients: `count` connections, each started by `begin` and fed by `feed` every second. Connections that the server closes are
    reopened."""

    def __init__(self, served, count, begin=b"", feed=b"", reads=False):
        self.served, self.begin, self.feed, self.reads = served, begin, feed, reads
        self.ended = threading.Event()
        self.failure = None
        self.sockets = [self.connect() for _ in range(count)]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def connect(self):
        connection = socket.socket()
        # A small receive buffer is soon full if the client does not read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", self.served.port))
        connection.sendall(self.begin)
        return connection

    def run(self):
        try:
            while not self.ended.wait(1):
                for index, connection in enumerate(self.sockets):
                    try:
                        connection.sendall(self.feed)
                        if self.reads:
                            connection.recv(1)
                    except OSError:
                        connection.close()
                        self.sockets[index] = self.connect()
        except OSError as error:
            self.failure = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for connection in self.sockets:
            connection.close()
        assert self.failure is None, self.failure


def page_times(get, seconds):
    """Requests a page by `get` repeatedly during `seconds`. Returns how many seconds each request took."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        get()
        times.append(time.monotonic() - began)
        time.sleep(0.05)
    return times


def check_pages(served, seconds, what):
    """Requests a page repeatedly during `seconds`: it takes less than a second, and less than MOST_SECONDS if the machine is busy at
    that moment. Returns the longest time."""
    def get():
        assert " 200 " in served.get("/")[:20]

    times = page_times(get, seconds)
    typical, longest = statistics.median(times), max(times)
    assert typical < 1 and longest < MOST_SECONDS, f"{typical:.1f} s for a page, {longest:.1f} s at most, while {what}"
    return longest


def descriptors(served):
    return len(os.listdir(f"/proc/{served.process.pid}/fd"))


def slow_clients(work):
    """A page does not wait for other clients, whatever they do with their connections: it takes a few milliseconds."""
    raise_descriptors()
    begun = "GET /?q=shop HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
    # A page of a hundred groups exceeds the socket buffers of a client that does not read.
    many = work.path / "many"
    block = {"start": "0x7f0000001000", "size": 48, "offset": 0, "state": "quarantined", "language": "swift", "class": "Shop." + "Cart" * 100}
    write_report(many, 1, [finding(number, number, pid=number, block=block) for number in range(120)])
    with Served(work, many) as served:
        assert len(served.get("/?q=shop")) > 60_000
        before = descriptors(served)
        head = (begun % served.port).encode()
        for what, count, more in (("say nothing", 500, {}), ("send a byte a second", 60, {"begin": b"GET / HT", "feed": b"x"}),
                                  ("send a byte a second", 500, {"begin": b"GET / HT", "feed": b"x"}),
                                  ("send a byte a second", 500, {"begin": head, "feed": b"X"}),
                                  ("do not read", 500, {"begin": head + b"\r\n"}),
                                  ("read a byte a second", 500, {"begin": head + b"\r\n", "reads": True})):
            with Clients(served, count, **more):
                longest = check_pages(served, 6, f"{count} connections {what}")
            print(f"  {longest:.3f} s at most while {count} connections {what}")
        # With more connections than descriptors the oldest are closed.
        with Clients(served, 1500, begin=b"GET / HT", feed=b"x"):
            check_pages(served, 6, "1,500 connections are open")
        # Connections that are opened and closed continuously.
        ended = threading.Event()

        def come_and_go():
            while not ended.is_set():
                for text in (b"", b"GET ", head + b"\r\n"):
                    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
                        connection.sendall(text)

        threads = [threading.Thread(target=come_and_go) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            check_pages(served, 4, "connections come and go")
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        # No connection leaks a descriptor.
        end = time.monotonic() + 30
        while descriptors(served) > before + 8 and time.monotonic() < end:
            time.sleep(0.1)
        assert descriptors(served) <= before + 8, descriptors(served) - before


def few_descriptors(work):
    """With a descriptor limit that allows few connections, pages are still served."""
    raise_descriptors()
    with Served(work, work.source) as served:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        with Clients(served, 200, begin=b"GET / HT", feed=b"x"):
            check_pages(served, 5, "there are 40 descriptors")
        # The limit equals the number of open descriptors, so no descriptor is left.
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (descriptors(served), 40))
        with Clients(served, 5, begin=b"GET / HT"):
            time.sleep(0.5)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        check_pages(served, 1, "descriptors are available again")


def deadlines(work):
    """The server drops an unfinished request, even if a byte arrives each second. A client that reads slowly gets a complete response."""
    with Served(work, work.source) as served:
        began = time.monotonic()
        assert served.send("GET / HT", 30) == ""
        assert 8 < time.monotonic() - began < 14, time.monotonic() - began
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                while time.monotonic() - began < 20:
                    connection.sendall(b"X")
                    time.sleep(0.5)
        assert 8 < time.monotonic() - began < 14, time.monotonic() - began
        whole = served.get("/")
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            for letter in f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n":
                connection.sendall(letter.encode())
                time.sleep(0.01)
            answer = b""
            while part := connection.recv(3000):
                answer += part
                time.sleep(0.01)
        # The responses differ only in their dates.
        one, other = (re.sub(r"\r\nDate: [^\r]*", "", text, count=1) for text in (answer.decode(), whole))
        assert one == other, (one[:1000], other[:1000])


def raise_descriptors():
    """Raises the descriptor limit for the tests' own ends of the connections."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard != resource.RLIM_INFINITY else 4096, hard))


def questions(work):
    for store in (work.source, work.sqlite()):
        with Served(work, store) as served:
            def count(query):
                return served.get("/?" + query).count('<li class="g">')

            assert count("") == 8 and count("kind=double-free") == 1 and count("program=shop") == 7 and count("q=cart3") == 1, store
            assert count("q=shop+make2") == 1 and count("q=nobody") == 0 and count("q=%25") == 0 and count("host=nobody") == 0, store
            assert count("signature=x") == 8 and count("tenant=others") == 0 and count("since=1d") < 8, store
            # The hostile finding's version sorts after all numbers; a directory store has no versions.
            assert count("new=1.9") == (8 if "sqlite" in str(store) else 1) and count("new=1.11") == 1, store
            # New findings are shown on the next request.
            if store == work.source:
                write_report(work.source, 500, [finding(5000, 50, pid=50)])
                assert count("") == 9
                (work.source / sorted(os.listdir(work.source))[-1]).unlink()


def in_a_browser(work):
    place = work.sqlite()
    with Served(work, place) as served:
        browser = Browser()
        try:
            for width in (400, 1600):
                for dark in (False, True):
                    for name, path in (("overview", "/"), ("group", f"/group/{3:016x}"), ("hostile", f"/group/{99:016x}")):
                        browser.open(served.address + path, width=width, dark=dark)
                        assert not browser.complaints, (path, browser.complaints)
                        assert all(url.startswith((served.address, "data:")) for url in browser.requests), browser.requests
                        assert browser.evaluate("document.title") != "run", "a finding has run a script"
                        wide = browser.evaluate("document.documentElement.scrollWidth")
                        assert wide <= width, f"{path} is {wide} wide in {width}"
                        picture = browser.picture()
                        light = brightness(colours(picture))
                        assert light < 90 if dark else light > 170, (path, dark, light)
                        if pictures:
                            (pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png").write_bytes(picture)
            # Uses only the keyboard: search, second row, open, back.
            browser.open(served.address + "/")

            def key(text):
                for kind in ("keyDown", "keyUp"):
                    browser.call("Input.dispatchKeyEvent", type=kind, key=text, **({"text": "\r" if text == "Enter" else text} if kind == "keyDown" else {}),
                                 **({"windowsVirtualKeyCode": 13} if text == "Enter" else {}))

            def wait(expression):
                deadline = time.monotonic() + 20
                while not browser.evaluate(expression):
                    assert time.monotonic() < deadline, expression
                    time.sleep(0.02)

            key("j")
            key("j")
            wait("document.activeElement === document.querySelectorAll('.g > a')[1]")
            link = browser.evaluate("document.activeElement.getAttribute('href')")
            key("Enter")
            wait(f"location.pathname === '{link}' && document.readyState === 'complete'")
            key("u")
            wait("location.pathname === '/' && document.readyState === 'complete'")
            key("/")
            wait("document.activeElement.id === 'q'")
            for letter in "cart3":
                key(letter)
            key("Enter")
            wait("location.search.indexOf('q=cart3') >= 0 && document.querySelectorAll('.g').length === 1")
            # Without scripts, everything but the keys works.
            browser.open(served.address + f"/group/{3:016x}", script=False)
            assert not browser.complaints, browser.complaints
        finally:
            browser.close()


def wrong_calls(work):
    for words, status, text in ((["/nothing/here"], 1, "cannot open report directory"), (["https://x.example/"], 64, "cannot be read from"),
                                ([f"sqlite:{work.path}/none.db"], 1, "cannot open"), ([str(work.source), "--port", "x"], 64, "expected 0 to 65535")):
        result = subprocess.run([str(ZGUARD), "serve", *words], capture_output=True, text=True, timeout=60, env=work.environment)
        assert result.returncode == status and text in result.stderr, (words, result)
    with Served(work, work.source) as served:
        result = subprocess.run([str(ZGUARD), "serve", str(work.source), "--port", str(served.port)], capture_output=True, text=True, timeout=60,
                                env=work.environment)
        assert result.returncode == 1 and "Address already in use" in result.stderr, result


def main():
    global pictures
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--pictures", type=Path, help="keeps what was seen in this folder")
    arguments = parser.parse_args()
    pictures = arguments.pictures
    tests = [("answers", answers), ("slow clients", slow_clients), ("few descriptors", few_descriptors), ("deadlines", deadlines),
             ("questions", questions), ("in a browser", in_a_browser), ("wrong calls", wrong_calls)]
    return run_tests(tests, "zguard-serve-", arguments.only, Work)


if __name__ == "__main__":
    sys.exit(main())
