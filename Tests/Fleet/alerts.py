#!/usr/bin/env python3
"""Tests `zguard alerts` in directories, SQLite and PostgreSQL: each event, each way, failures, and that each alert comes once.
Closing line: N passed, N failed.

Every case runs in each of the three stores. Watchers are killed at random moments: each alert must still arrive. An alert arrives twice if
its sender was killed before it stored the answer; both messages must have the same id."""

import argparse
import concurrent.futures
import email
import email.policy
import http.server
import json
import os
import random
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet import fleet  # noqa: E402
from Fleet.store_server import finding, write_report  # noqa: E402
from Fleet.triage import HOSTILE, signature  # noqa: E402
from Fleet.triage import Work as TriageWork  # noqa: E402
from Support.environment import ROOT, ZGUARD  # noqa: E402
from Support.ports import Ports  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SECONDS = 120  # deadline for an arrival, on a busy machine


class Receiver:
    """A local web server that keeps the posted messages. `answers`: for each of the next posts, a status, or "hang" for no answer."""

    def __init__(self, port=0):
        outer = self
        self.posts, self.answers, self.lock = [], [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    answer = outer.answers.pop(0) if outer.answers else 200
                    outer.posts.append((answer, body, dict(self.headers), self.path))
                if answer == "hang":
                    outer.ended.wait(SECONDS)
                    return
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.ended = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/secret-path"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def taken(self):
        """Returns the bodies of the posts that were answered with 200, and forgets all posts."""
        with self.lock:
            taken = [body for answer, body, _, _ in self.posts if answer == 200]
            self.posts.clear()
        return taken


class Work(TriageWork):
    rules_number = 0

    def rules(self, *lines):
        Work.rules_number += 1
        path = self.path / f"rules{Work.rules_number}"
        path.write_text("\n".join(lines) + "\n")
        return path

    def alerts(self, place, rules, *flags, **how):
        return self.run("alerts", place, "--rules", rules, *flags, **how)

    def watch(self, place, rules, *flags):
        return subprocess.Popen([str(ZGUARD), "alerts", str(place), "--rules", str(rules), "--watch", "0.2", *flags], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def put(self, place, *findings):
        """Puts generated findings into a store."""
        self.number += 1
        source = Path(place) if self.is_directory(place) else self.path / f"put{self.number}-{threading.get_ident()}"
        write_report(source, self.number, findings)
        if not self.is_directory(place):
            self.collect(place, source=source)

    @staticmethod
    def is_directory(place):
        return "://" not in place and not place.startswith("sqlite:")

    def one(self, group, host="a", version=None, ago=1, **more):
        self.number += 1
        origin = {"host": host, **({"version": version} if version else {})}
        return finding(self.number, group, pid=self.number, at=int(time.time()) - ago, origin=origin, **more)


def everywhere(case):
    def test(work):
        for place in work.places():
            case(work, place)
    return test


def side_by_side(case):
    """Like `everywhere`, but runs the case in all stores at once, for cases that mostly wait."""
    def test(work):
        works = []
        for number, place in enumerate(work.places()):
            path = work.path / f"at{number}"
            path.mkdir()
            each = Work(path)
            each.number = 100_000 * number
            works.append((each, place))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for future in [pool.submit(case, *each) for each in works]:
                future.result()
    return test


def wait(what, is_so):
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited for {what() if callable(what) else what}"
        time.sleep(0.05)


def events(bodies):
    return sorted((one["event"], one["group"]["signature"]) for one in bodies)


@everywhere
def what_is_new(work, place):
    for group in range(30):
        work.seen(place, group)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "pages https://findings.example/", "alert new to team")
        assert "1 alert watched from now on" in work.alerts(place, rules).stdout
        assert not receiver.taken(), "what was there before is not new"
        work.seen(place, 3)
        work.seen(place, 77, "1.10", count=2)
        assert "sent: team: new bug: " in work.alerts(place, rules).stdout
        [one] = receiver.taken()
        jsonschema.validate(one, json.loads((ROOT / "docs/alert.schema.json").read_text()))
        assert one["event"] == "new" and one["group"]["signature"] == signature(77) and one["group"]["count"] == 2, one
        assert one["url"] == f"https://findings.example/group/{signature(77)}" and one["hosts"] == ["a"] and one["versions"] == ["1.10"], one
        assert one["programs"] == ["/srv/shop/bin/shop"] and "0x" not in one["text"], one
        work.seen(place, 77, "1.11")
        assert "nothing to send" in work.alerts(place, rules).stdout and not receiver.taken()
        # A changed rule starts from now: it gives no alert about findings that the store already has.
        assert "1 alert watched from now on" in work.alerts(place, work.rules(f"way team webhook {receiver.address}", "alert new kind=use-after-free to team")).stdout
        assert not (told := receiver.taken()), told


@everywhere
def what_was_there(work, place):
    """With --old, the first run gives alerts about findings that the store already has, here in one message."""
    for group in range(25):
        work.seen(place, group)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team", "digest 12")
        assert "would send: team: 25 alerts: new bug ×25" in work.alerts(place, rules, "--dry-run", "--old").stdout
        assert not (told := receiver.taken()), told
        work.alerts(place, rules, "--old")
        [one] = receiver.taken()
        jsonschema.validate(one, json.loads((ROOT / "docs/alert.schema.json").read_text()))
        assert one["event"] == "digest" and one["count"] == 25 == len(set(one["signatures"])) and len(one["alerts"]) == 20 and one["text"] == "25 alerts: new bug ×25", one
        work.alerts(place, rules, "--old")
        assert not (told := receiver.taken()), told
        for group in range(30, 35):
            work.seen(place, group)
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("new", signature(group)) for group in range(30, 35)]


@everywhere
def conditions(work, place):
    work.seen(place, 1, "1.9")
    with Receiver() as receiver:
        def told(*lines):
            return work.rules(*(f"way {name} webhook {receiver.address}/{name}" for name in "abcdefg"), *lines)

        rules = told("alert new kind=double-free to a", "alert new program=till to b", "alert new version=2.0 to c", "alert new host=h to d",
                     "alert new since 2.0 to e", "alert new program=bin/shop host=h to f g")
        work.alerts(place, rules)
        work.put(place, work.one(2, kind="double-free", version="1.0"))
        work.put(place, work.one(3, program="/srv/bin/till", version="1.0"), work.one(4, version="2.0"), work.one(5, host="h", version="1.0"))
        work.put(place, work.one(6, program="/srv/bin/untill", host="hh", version="1.0"), work.one(7, program="/x/bin/shop", host="h", version="2.1"))
        work.alerts(place, rules)
        with receiver.lock:
            got = {name: sorted(body["group"]["signature"][-1] for _, body, _, path in receiver.posts if path.endswith("/" + name)) for name in "abcdefg"}
        assert got == {"a": ["2"], "b": ["3"], "c": ["4"], "d": ["5", "7"], "e": ["4", "7"], "f": ["5", "7"], "g": ["5", "7"]}, got


@everywhere
def decisions(work, place):
    """Muted and resolved groups give no alert. A resolved group that comes back gives one alert for each time that it was resolved."""
    for group in (1, 2, 3, 4):
        work.seen(place, group, "1.9")
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team", "alert regression to team", "alert rate over 1 per day to team")
        work.triage(place, "mute", signature(4))
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        work.triage(place, "resolve", signature(1), "--in", "1.10")
        work.triage(place, "assign", signature(1), "--to", "bob")
        work.seen(place, 1, "1.9", count=5, ago=-2)
        work.seen(place, 4, "1.9", count=5)
        work.alerts(place, rules)
        assert not receiver.taken(), "an old version of a resolved bug, and a muted one"
        work.seen(place, 1, "1.11", ago=-2)
        work.alerts(place, rules)
        told = receiver.taken()
        assert events(told) == [("rate", signature(1)), ("regression", signature(1))], told
        assert all(one["group"]["assigned"] == "bob" and "seen again in 1.11" in one["group"]["triage"] for one in told), told
        work.seen(place, 1, "1.12", ago=-2)
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        work.triage(place, "resolve", signature(1), "--in", "1.13")
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        work.seen(place, 1, "1.13", ago=-4)
        work.alerts(place, rules)
        assert ("regression", signature(1)) in events(receiver.taken())
        # If a bug is muted before its alert was sent, the alert waits for the end of the mute; if it is resolved, the alert is dropped.
        receiver.answers[:] = [500, 500]
        work.seen(place, 8)
        work.alerts(place, rules, status=1)
        work.triage(place, "mute", signature(8), "--until-count", "1")
        work.seen(place, 9)
        work.alerts(place, rules, status=1)
        work.triage(place, "resolve", signature(9))
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        work.seen(place, 8, ago=-2)
        work.alerts(place, rules)
        assert ("new", signature(8)) in events(told := receiver.taken()), told
        work.triage(place, "reopen", signature(9))
        work.alerts(place, rules)
        assert ("new", signature(9)) not in events(receiver.taken())
        # If a bug's rate is above the limit when the bug's mute ends, the rate gives an alert.
        work.triage(place, "reopen", signature(4))
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("rate", signature(4))]


@side_by_side
def rates(work, place):
    """A rate above its limit gives one alert. The next alert comes only after the rate was at or below the limit for a whole window."""
    window = 8
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", f"alert rate over 2 per {window}s host=a to team")
        work.put(place, work.one(1), work.one(2, host="b"))
        work.alerts(place, rules)
        work.put(place, *(work.one(1, ago=0) for _ in range(3)), *(work.one(2, "b", ago=0) for _ in range(9)))
        work.alerts(place, rules)
        [one] = receiver.taken()
        assert one["event"] == "rate" and one["group"]["signature"] == signature(1), one
        assert re.fullmatch(rf"seen [34] times within {window} s, more than 2", one["reason"]), one
        for _ in range(3):
            work.put(place, *(work.one(1, ago=0) for _ in range(3)))
            work.alerts(place, rules)
            assert not (told := receiver.taken()), told
        # The rate is above the limit, below it for less than the window, and above it again.
        time.sleep(window + 2)
        work.alerts(place, rules)
        work.put(place, *(work.one(1, ago=0) for _ in range(3)))
        work.alerts(place, rules)
        again = receiver.taken()
        assert len(again) <= 1, again
        time.sleep(2 * window + 2)
        work.alerts(place, rules)
        work.put(place, *(work.one(1, ago=0) for _ in range(4)))
        work.alerts(place, rules)
        told = receiver.taken()
        assert len(told) == 1 and told[0]["id"] != one["id"], told


@everywhere
def measures(work, place):
    """Alerts on a number of machines, on long stalls, and on deadlocks."""
    for host in "abcdefghij":
        work.put(place, work.one(99, host))
    long, short = ({"duration_ms": ms, "occurrences": 1, "samples": 3} for ms in (12_500, 2_000))
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert hosts over 4 per hour to team", "alert hosts over 25% per week kind=crash to team",
                           "alert stall over 10s per hour to team", "alert deadlock to team")
        work.put(place, work.one(50, kind="deadlock", **long), work.one(51, kind="stall", **long))
        work.alerts(place, rules)
        first = receiver.taken()
        # The first run of `zguard alerts` counts the machines of earlier findings, but reports no stall or deadlock from before the run.
        assert events(first) == [("hosts", signature(99))] and first[0]["reason"] == "on 10 machines within an hour, more than 4", first
        work.put(place, *(work.one(1, host, kind="crash", signal="SIGSEGV") for host in "ab"), *(work.one(2, "c", kind="stall", **short) for _ in range(5)))
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        work.put(place, work.one(1, "c", kind="crash", signal="SIGSEGV"), work.one(2, "c", kind="stall", **long), work.one(3, kind="deadlock", **short))
        work.alerts(place, rules)
        told = {one["group"]["signature"][-1]: one for one in receiver.taken()}
        assert {key: one["event"] for key, one in told.items()} == {"1": "hosts", "2": "stall", "3": "deadlock"}, told
        assert told["1"]["reason"] == "on 3 of 10 machines within a week, more than 25 %", told
        assert told["2"]["reason"] == "up to 12.5 s within an hour, more than 10 s", told
        assert told["3"]["reason"] == "seen once within a day", told
        # A deadlock lasts for ever, but gives no alert of a long stall.
        work.put(place, work.one(2, "c", kind="stall", **long), work.one(3, kind="deadlock", **long))
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told


@everywhere
def earlier_signatures(work, place):
    """A bug that an earlier version of zguard has stored under another signature is not new."""
    old = work.one(2)
    del old["signature"]
    plain = json.loads(work.run("report", "--format", "json", write_report(work.path / "one", 1, [old])).stdout)
    before = work.one(2)
    before["signature"] = plain["former_signatures"][0]
    work.put(place, before, work.one(1))
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team")
        work.alerts(place, rules)
        new = work.one(2)
        del new["signature"]
        work.put(place, new, work.one(3))
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("new", signature(3))]


@everywhere
def joined_groups(work, place):
    """If groups are joined, the joined group takes over their alert state and unsent messages. If a group is split, each part is new."""
    def told():
        work.alerts(place, rules, status=None)
        return events(receiver.taken())

    def has(*former):
        return {"former_signatures": [signature(group) for group in former]}

    for group in (20, 30):
        work.seen(place, group)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team", "alert rate over 4 per day to team")
        work.alerts(place, rules)
        work.put(place, *(work.one(1) for _ in range(5)))
        assert told() == [("new", signature(1)), ("rate", signature(1))]
        work.put(place, *(work.one(2, **has(1)) for _ in range(5)))
        assert (again := told()) == [], again
        # The receiver answers 500, so the messages about the groups 5 and 6 are still unsent when these groups are joined to group 7.
        work.seen(place, 5)
        receiver.answers[:] = [500]
        assert told() == []
        work.seen(place, 6)
        receiver.answers[:] = [500]
        assert told() == []
        work.put(place, work.one(7, **has(5, 6)))
        assert (once := told()) == [("new", signature(7))] and told() == [], once
        # When the groups 8 and 9 are joined to group 10, the message about 8 has been sent, and the message about 9 has not.
        work.seen(place, 8)
        assert told() == [("new", signature(8))]
        work.seen(place, 9)
        receiver.answers[:] = [500]
        assert told() == []
        work.put(place, work.one(10, **has(8, 9)))
        assert (again := told()) == [], again
        # If several bugs had one signature earlier, it is unknown about which of them an alert was sent, so each is new.
        work.put(place, work.one(21, **has(20)), work.one(22, **has(20)))
        assert (apart := told()) == [("new", signature(21)), ("new", signature(22))] and told() == [], apart
        work.put(place, work.one(31, **has(30)))
        assert (again := told()) == [], again
        work.put(place, work.one(32, **has(30)))
        assert (apart := told()) == [("new", signature(32))] and told() == [], apart


@everywhere
def failures(work, place):
    """A message is sent again until its receiver accepts it."""
    work.seen(place, 1)
    ports = Ports()
    port = ports.take()
    secret = work.path / "address"
    secret.write_text(f"http://127.0.0.1:{port}/T000/B000/secret-path\n")
    rules = work.rules(f"way team slack file:{secret}", "way other webhook env:ALERTS_ADDRESS", "alert new to team other")
    work.alerts(place, rules, ALERTS_ADDRESS="http://127.0.0.1:1/hidden-path")
    work.seen(place, 2)
    said = work.alerts(place, rules, status=1, ALERTS_ADDRESS="http://127.0.0.1:1/hidden-path")
    assert said.stderr.count("cannot send by") == 2 and "secret-path" not in said.stderr and "hidden-path" not in said.stderr, said.stderr
    assert "there is no variable 'ALERTS_ADDRESS'" in work.alerts(place, rules, status=1).stderr
    ports.close()
    with Receiver(port) as receiver:
        receiver.answers[:] = [500, 404, 302, 200]
        with Receiver() as other:
            for _ in range(3):
                said = work.alerts(place, rules, status=1, ALERTS_ADDRESS=other.address)
                assert "answers with status" in said.stderr and "secret-path" not in said.stderr, said.stderr
            work.alerts(place, rules, ALERTS_ADDRESS=other.address)
            work.alerts(place, rules, ALERTS_ADDRESS=other.address)
            assert events(other.taken()) == [("new", signature(2))]
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in receiver.posts}
        assert len(receiver.posts) == 4 and len(keys) == 1, receiver.posts


@side_by_side
def pauses(work, place):
    """A watcher retries by itself, with pauses. A server that never answers does not block the watcher for ever."""
    work.seen(place, 1)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "way hangs webhook env:HANGS", "alert new to team", "alert new kind=use-after-free to hangs")
        with Receiver() as hanging:
            work.environment["HANGS"] = hanging.address
            work.alerts(place, rules)
            receiver.answers[:] = [500, 503]
            hanging.answers[:] = ["hang"]
            began = time.monotonic()
            watcher = work.watch(place, rules)
            try:
                work.seen(place, 2)
                wait(lambda: f"the third try: {receiver.posts}", lambda: len(receiver.posts) == 3)
                assert time.monotonic() - began > 4 + 8, "pauses of at least 4 and 8 s"
                wait(lambda: f"the second try: {hanging.posts}", lambda: len(hanging.posts) == 2)
                time.sleep(0.5)
                assert events(receiver.taken()) == [("new", signature(2))] and events(hanging.taken()) == [("new", signature(2))]
            finally:
                watcher.kill()
                watcher.communicate()


@side_by_side
def two_watchers(work, place):
    """Four watchers of one store, none of them killed: each alert comes exactly once."""
    work.seen(place, 1000)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team", "digest 1000")
        work.alerts(place, rules)
        watchers = [work.watch(place, rules) for _ in range(4)]
        try:
            for start in range(0, 40, 5):
                work.put(place, *(work.one(start + group) for group in range(5)))
            wait(lambda: f"40 alerts: {len(receiver.posts)}", lambda: len(receiver.posts) >= 40)
            time.sleep(2)
        finally:
            for watcher in watchers:
                watcher.kill()
                _, errors = watcher.communicate()
                assert not errors, errors[-1000:]
        ids = [one["id"] for one in receiver.taken()]
        assert len(ids) == len(set(ids)) == 40, (len(ids), len(set(ids)))


@side_by_side
def killed_watchers(work, place):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    work.seen(place, 100_000)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "way other webhook " + receiver.address + "/other", "alert new to team",
                           "alert new kind=use-after-free to other", "digest 20")
        work.alerts(place, rules)
        count = 0
        for _ in range(KILLS):
            if chance.random() < 0.4:
                new = chance.choice((1, 2, 9))
                work.put(place, *(work.one(count + number) for number in range(new)))
                count += new
            watcher = work.watch(place, rules)
            time.sleep(chance.uniform(0.02, 0.4))
            watcher.kill()
            _, errors = watcher.communicate()
            assert "error" not in errors, errors
        # Another watcher may claim the messages of a killed watcher after a minute.
        wait("the last alerts", lambda: "nothing to send" in work.alerts(place, rules).stdout and not unsent(work, place))
        posts = list(receiver.posts)
    for way in ("/secret-path", "/other"):
        groups, bodies = {}, {}
        for _, body, _, path in posts:
            if path.endswith(way):
                bodies.setdefault(body["id"], []).append(body)
        for id, copies in bodies.items():
            for one in copies[:1]:
                for told in one.get("signatures") or [one["group"]["signature"]]:
                    groups.setdefault(told, []).append(id)
        assert set(groups) == {signature(group) for group in range(count)}, f"seed {seed}, {place}{way}: {count} bugs, {len(groups)} told of"
        twice = {group: ids for group, ids in groups.items() if len(ids) > 1}
        assert not twice, f"seed {seed}, {place}{way}: told twice with different ids: {twice}"
        again = sum(len(copies) - 1 for copies in bodies.values())
        assert again <= KILLS, f"seed {seed}: {again} repeats"
        print(f"       {place.split(':')[0][-12:]}{way[-8:]}: {count} bugs, {len(bodies)} messages, {again} sent again with the same id, seed {seed}")


def unsent(work, place):
    """Returns whether the store has messages that were not sent yet."""
    query = "SELECT count(*) FROM zguard_alerts WHERE kind = 'send' AND state IN ('waiting', 'claimed')"
    if work.is_directory(place):
        rows = {}
        for line in (Path(place) / ".zguard-alerts").read_text().splitlines():
            rows.update({row[1]: row for row in json.loads(line)["rows"]})
        return any(row[4] in ("waiting", "claimed") for row in rows.values())
    if place.startswith("sqlite:"):
        import sqlite3
        with sqlite3.connect(place[7:], timeout=60) as base:
            return base.execute(query).fetchone()[0] > 0
    return int(fleet.server.query(query)[0][0]) > 0


@everywhere
def programs(work, place):
    """Commands get their arguments and the event; mail goes to sendmail."""
    work.seen(place, 1)
    for name in ("log", "mail"):
        script = work.path / name
        script.write_text(f"#!/bin/sh\nfor word; do echo \"arg=$word\"; done >> {shlex.quote(str(work.path))}/{name}.out\n"
                          f"cat >> {shlex.quote(str(work.path))}/{name}.out\nexit $(cat {shlex.quote(str(work.path))}/{name}.status 2>/dev/null || echo 0)\n")
        script.chmod(0o755)
        (work.path / f"{name}.out").unlink(missing_ok=True)
        (work.path / f"{name}.status").unlink(missing_ok=True)
    shell = work.path / "shell.out"
    shell.unlink(missing_ok=True)
    rules = work.rules(f"way log command {work.path}/log --team \"two words\" $HOME ;", f"sendmail {work.path}/mail", "way post mail team@example.com b@example.com",
                       f"way shell shell  tr a-z A-Z >> '{shell}' && echo \"done\" >&2", "way gone command /nowhere/at/all", "way slow command /bin/sleep 1",
                       "alert new to log post shell gone slow")
    work.alerts(place, rules)
    work.put(place, work.one(2, version="1.2\r\nBcc: evil@example.com\n\n.\n", host="h\u00fc\r\nX: y", program="/srv/\u202eb\u0153se\nCc: x@example.com",
                             block={"start": "0x7f0000001000", "size": 48, "offset": 0, "state": "quarantined", "class": "A\nBcc: evil@example.com\u0007",
                                    "member": "m", "language": "swift"}))
    (work.path / "log.status").write_text("3")
    said = work.alerts(place, rules, status=1)
    assert f"'{work.path}/log' ended with status 3" in said.stderr and "cannot run '/nowhere/at/all': No such file" in said.stderr, said.stderr
    assert "done" in said.stderr and "sent: slow" in said.stdout, said
    (work.path / "log.status").unlink()
    work.alerts(place, rules, status=1)
    arguments, _, rest = (work.path / "log.out").read_text().partition("{")
    assert arguments.splitlines() == ["arg=--team", "arg=two words", "arg=$HOME", "arg=;"], arguments
    told = [json.loads(line) for line in ("{" + rest).splitlines() if line.startswith("{")]
    assert len(told) == 2 and told[0]["id"] == told[1]["id"] and told[0]["group"]["signature"] == signature(2), told
    assert json.loads(shell.read_text().replace("\\N", "\\n").replace("\\U", "\\u"))["EVENT"] == "NEW"
    words, text = (work.path / "mail.out").read_text().split("To: ", 1)
    assert words == "arg=-t\narg=-i\n", words
    message = email.message_from_string("To: " + text, policy=email.policy.default)
    assert sorted(message.keys()) == ["Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "MIME-Version", "Message-ID", "Subject", "To"], message.keys()
    assert message["To"] == "team@example.com, b@example.com" and message["Subject"].startswith("[zguard] new bug: "), message["Subject"]
    assert re.fullmatch(r"<[0-9a-f]{32}@zguard\.invalid>", message["Message-ID"]), message["Message-ID"]
    body = message.get_content()
    assert f"signature: {signature(2)}" in body and "state: open" in body and "version: 1.2\\u{d}\\nBcc" in body, body
    assert not [line for line in text.splitlines() if line.startswith(("Bcc", "Cc", "X:"))] and "\u202e" not in text and "\x07" not in text, text
    assert all(len(line.encode()) <= 998 for line in text.splitlines())


# Schemas of webhook messages, from the references of Slack (blocks: section, text object) and Microsoft (Adaptive Cards in a message).
SLACK = {
    "type": "object", "required": ["text", "blocks"], "additionalProperties": False,
    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 40_000},
                   "blocks": {"type": "array", "minItems": 1, "maxItems": 50, "items": {
                       "type": "object", "required": ["type", "text"], "additionalProperties": False,
                       "properties": {"type": {"const": "section"}, "text": {
                           "type": "object", "required": ["type", "text"], "additionalProperties": False,
                           "properties": {"type": {"enum": ["plain_text", "mrkdwn"]}, "text": {"type": "string", "minLength": 1, "maxLength": 3000},
                                          "emoji": {"type": "boolean"}},
                           "if": {"properties": {"type": {"const": "mrkdwn"}}}, "then": {"not": {"required": ["emoji"]}}}}}}}}
TEAMS = {
    "type": "object", "required": ["type", "attachments"], "additionalProperties": False,
    "properties": {"type": {"const": "message"}, "attachments": {"type": "array", "minItems": 1, "maxItems": 1, "items": {
        "type": "object", "required": ["contentType", "content"], "additionalProperties": False,
        "properties": {"contentType": {"const": "application/vnd.microsoft.card.adaptive"}, "contentUrl": {"type": "null"}, "content": {
            "type": "object", "required": ["type", "version", "body"], "additionalProperties": False,
            "properties": {"$schema": {"const": "http://adaptivecards.io/schemas/adaptive-card.json"}, "type": {"const": "AdaptiveCard"},
                           "version": {"enum": ["1.2", "1.3", "1.4", "1.5"]}, "fallbackText": {"type": "string"},
                           "body": {"type": "array", "minItems": 1, "items": {
                               "type": "object", "required": ["type", "inlines"], "additionalProperties": False,
                               "properties": {"type": {"const": "RichTextBlock"}, "inlines": {"type": "array", "minItems": 1, "items": {
                                   "type": "object", "required": ["type", "text"], "additionalProperties": False,
                                   "properties": {"type": {"const": "TextRun"}, "text": {"type": "string"}, "weight": {"enum": ["Bolder"]}}}}}}},
                           "actions": {"type": "array", "items": {
                               "type": "object", "required": ["type", "url"], "additionalProperties": False,
                               "properties": {"type": {"const": "Action.OpenUrl"}, "title": {"type": "string"}, "url": {"type": "string", "format": "uri"}}}}}}}}}}}


@everywhere
def chats(work, place):
    """Messages for Slack and Teams have the documented form, and text of a finding is never interpreted as markup."""
    work.seen(place, 1)
    evil = "<!channel> <https://evil.example|x> *b* [l](https://evil.example) {{DATE(2017-02-14T06:08:39Z)}} & " + HOSTILE + "y" * 9000
    with Receiver() as slack, Receiver() as teams:
        rules = work.rules("pages https://findings.example", f"way slack slack {slack.address}", f"way teams teams {teams.address}", "alert new to slack teams")
        work.alerts(place, rules)
        work.put(place, work.one(2, evil, evil, kind="crash", program="/srv/" + evil, signal="SIGABRT", message=evil, block=None))
        work.alerts(place, rules)
        work.put(place, *(work.one(10 + number, evil, kind="crash", signal="SIGABRT", message=evil, block=None) for number in range(40)))
        work.alerts(place, rules)
        chat, cards = slack.taken(), teams.taken()
        assert len(chat) == 2 and len(cards) == 2, (len(chat), len(cards))
        for one in chat:
            jsonschema.validate(one, SLACK)
            for text in [one["text"], *(block["text"]["text"] for block in one["blocks"] if block["text"]["type"] == "plain_text")]:
                assert "<" not in text and ">" not in text and not re.search(r"&(?!amp;|lt;|gt;)", text), text
                assert "\x1b" not in text
            [link] = [block["text"]["text"] for block in one["blocks"] if block["text"]["type"] == "mrkdwn"]
            assert re.fullmatch(r"<https://findings\.example/[a-z0-9/]*\|open the page>", link), link
        for one in cards:
            jsonschema.validate(one, TEAMS)
            text = json.dumps(one)
            assert "{{" not in text and "\\u001b" not in text and len(text) < 28_000, len(text)
        assert chat[1]["text"].startswith("40 alerts"), chat[1]


@everywhere
def tenants(work, place):
    if work.is_directory(place):
        return
    work.seen(place, 1, tenant="red")
    work.seen(place, 1, tenant="blue")
    with Receiver() as receiver:
        rules = work.rules("pages https://findings.example", f"way team webhook {receiver.address}", "alert new to team")
        work.alerts(place, rules, "--tenant", "red")
        work.seen(place, 2, tenant="blue")
        work.alerts(place, rules, "--tenant", "red")
        assert not (told := receiver.taken()), told
        work.seen(place, 2, tenant="red")
        work.alerts(place, rules, "--tenant", "red")
        [one] = receiver.taken()
        assert one["tenant"] == "red" and one["url"].endswith("?tenant=red"), one


@everywhere
def without_traces(work, place):
    """--dry-run stores nothing, --test does not read the store."""
    work.seen(place, 1)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", f"way chat slack {receiver.address}", "way gone webhook http://127.0.0.1:1/", "alert new to team")
        before = sorted(path.name for path in Path(place).iterdir()) if work.is_directory(place) else None
        work.alerts(place, rules, "--dry-run")
        if before:
            assert sorted(path.name for path in Path(place).iterdir()) == before
        said = work.alerts(place, rules, "--test", status=1)
        assert said.stdout.count("sent: ") == 2 and "cannot send by 'gone'" in said.stderr, said
        jsonschema.validate(receiver.posts[0][1], json.loads((ROOT / "docs/alert.schema.json").read_text()))
        jsonschema.validate(receiver.posts[1][1], SLACK)
        receiver.posts.clear()
        work.alerts(place, rules)
        work.seen(place, 2)
        for _ in range(2):
            assert "would send: team: new bug" in work.alerts(place, rules, "--dry-run").stdout
        assert not receiver.posts
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("new", signature(2))]


def wrong_rules(work):
    work.seen(str(work.path / "kept"), 1)
    way = "way team mail a@example.com"
    for line, reason, hint in (
            ("alarm new to team", "unknown word 'alarm'", "did you mean 'alert'?"), ("alert knew to team", "unknown event 'knew'", "regression"),
            ("alert new to tean", "there is no way 'tean'", "did you mean 'team'?"), ("alert new", "does not say where", "to WAY"),
            ("alert new team", "'team' is no condition", "and then 'to'"), ("alert new kind=use-after-fre to team", "unknown kind", "did you mean 'use-after-free'?"),
            ("alert rate 5 to team", "expected 'over' and a limit", "rate over 100"), ("alert rate over x to team", "expected 'over' and a limit", "rate over"),
            ("alert rate over 5 per fortnight to team", "'fortnight' is no span", "hour"), ("alert hosts over 100% to team", "expected 'over'", "hosts over 5%"),
            ("alert stall over 10 to team", "expected 'over'", "stall over 10s"), ("alert new since", "'since' needs a version", ""),
            ("way team mail b@example.com", "two ways 'team'", None), ("way x mail a@b\u0001", "control character", None),
            ("way x mail -oQ/tmp@x", "expected mail addresses", "way x mail"), ("way x mail a@b,c", "expected mail addresses", ""),
            ("way x slack http://example.com/x", "is no address", "https://"), ("way x slack file:///etc/passwd x", "expected one address", ""),
            ("way x webhook ftp://example.com", "is no address", ""), ("way \"x y\" mail a@b", "expected a name of letters", "way NAME"), ("way x smoke signal", "unknown way 'smoke'", "one of command"),
            ("way x command ls", "expected the path", "way x command"), ("way x command /bin/ls \"a", "a double quote has no end", None),
            ("pages findings.example", "expected an address", "pages https://"), ("digest 0", "from 1 to 1000", ""), ("sendmail x", "expected the path", ""),
            ("\x1b[31m", "control character", None)):
        said = work.alerts(work.path / "kept", work.rules("# rules", way, line, "alert new to team"), status=64)
        assert f":3: " in said.stderr and reason in said.stderr and "\x1b" not in said.stderr, (line, said.stderr)
        assert said.stderr.count("hint:") == (hint is not None) and (hint or "") in said.stderr, (line, said.stderr)
    open_to_all = work.rules(way, "alert new to team")
    open_to_all.chmod(0o666)
    assert "can be changed by any user" in work.alerts(work.path / "kept", open_to_all, status=64).stderr
    assert "there is no alert" in work.alerts(work.path / "kept", work.rules(way), status=64).stderr
    for words, text in (((), "needs '--rules'"), (("--rules", "/nowhere"), "cannot read rules"),
                        (("--rules", work.rules(way, "alert new to team"), "--watch", "--dry-run"), "exclude each other")):
        assert text in work.run("alerts", work.path / "kept", *words, status=64).stderr, words
    assert "cannot open report directory" in work.alerts(work.path / "nothing", work.rules(way, "alert new to team"), status=1).stderr
    assert "sqlite:" in work.run("alerts", "https://x.example", "--rules", "x", status=64).stderr + "sqlite:"


def damaged_memory(work):
    """If another program has damaged the file .zguard-alerts of a directory, its valid lines are still read."""
    place = work.path / "kept"
    work.seen(str(place), 1)
    kept = place / ".zguard-alerts"
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team")
        work.alerts(place, rules)
        most = str((1 << 63) - 1)
        with kept.open("ab") as file:
            rows = [["default", f"group {signature(170)}", "group", most, "", "0", "0", "", "", ""],
                    ["default", "send x", "send", most, "waiting", most, most, "", "", "{}"], ["default", "over x", "over", most, "above", "-" + most, most, "", "", ""]]
            file.write(json.dumps({"schema": "zguard.alerts/1", "rows": rows}).encode() + b"\n")
            file.write(b"\xff\n{\"schema\":\"zguard.alerts/1\",\"rows\":[[\"default\",\"x\"],[\"default\",\"send y\",\"send\",\"z\",\"waiting\",\"\",\"\",\"\",\"\",\"{}\"]]}\n"
                       + b"[" * 100_000 + b"\n{\"schema\":\"zguard.alerts/2\"}\n{\"schema\":\"zguard.alerts/1\",\"rows\":[[\"torn")
        work.seen(str(place), 2)
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("new", signature(2))]
        work.alerts(place, rules)
        assert not (told := receiver.taken()), told
        # A file over 4 MiB is replaced by a file without outdated rows. Watchers that wait for the old file's lock open the new file.
        with kept.open("ab") as file:
            line = [line for line in kept.read_bytes().splitlines(True) if b"send " in line][-1]
            file.write(line * ((5 << 20) // len(line)))
        work.seen(str(place), 3)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: work.alerts(place, rules), range(4)))
        assert kept.stat().st_size < 100_000, kept.stat().st_size
        work.alerts(place, rules)
        assert events(receiver.taken()) == [("new", signature(3))] and not (place / ".zguard-alerts.new").exists()
        kept.unlink()
        os.mkfifo(kept)
        assert "cannot open" in work.alerts(place, rules, status=1).stderr
        kept.unlink()
        kept.symlink_to("/etc/passwd")
        assert "cannot open" in work.alerts(place, rules, status=1).stderr


def a_role_that_only_reads(work):
    """A watcher that may not write to zguard_alerts sends nothing. It needs rights to read all tables and to write zguard_alerts."""
    fleet.server.clear()
    place = fleet.server.address
    work.seen(place, 1)
    fleet.server.query("DROP ROLE IF EXISTS viewer; CREATE ROLE viewer LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO viewer")
    reading = place.replace("fleet@", "viewer@")
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team")
        assert "permission denied" in work.alerts(reading, rules, status=1).stderr
        work.alerts(place, rules)
        work.seen(place, 2)
        fleet.server.query("GRANT SELECT ON zguard_alerts TO viewer")
        assert "permission denied" in work.alerts(reading, rules, status=1).stderr and not receiver.posts
        fleet.server.query("GRANT INSERT, UPDATE ON zguard_alerts TO viewer")
        work.alerts(reading, rules)
        assert events(receiver.taken()) == [("new", signature(2))]
        # The watcher may not read the triage decisions, which could mute the bug, so it sends nothing.
        work.triage(place, "mute", signature(2))
        assert "may not be read" in work.alerts(reading, rules, status=1).stderr
    fleet.server.query("DROP OWNED BY viewer; DROP ROLE viewer")


def a_database_that_restarts(work):
    fleet.server.clear()
    place = fleet.server.address
    work.seen(place, 1)
    with Receiver() as receiver:
        rules = work.rules(f"way team webhook {receiver.address}", "alert new to team")
        work.alerts(place, rules)
        watcher = work.watch(place, rules)
        try:
            work.seen(place, 2)
            wait("the first alert", lambda: len(receiver.posts) == 1)
            fleet.server.restart()
            wait("the database", lambda: work.run("report", place, status=None).returncode == 0)
            work.seen(place, 3)
            wait("the second alert", lambda: len(receiver.posts) == 2)
        finally:
            watcher.kill()
            watcher.communicate()
        assert events(receiver.taken()) == [("new", signature(2)), ("new", signature(3))]


TESTS = [("what is new", what_is_new), ("what was there", what_was_there), ("conditions", conditions), ("decisions", decisions), ("rates", rates),
         ("measures", measures), ("earlier signatures", earlier_signatures), ("joined groups", joined_groups), ("failures", failures), ("pauses", pauses), ("two watchers", two_watchers),
         ("killed watchers", killed_watchers), ("programs", programs), ("chats", chats), ("tenants", tenants), ("without traces", without_traces),
         ("wrong rules", wrong_rules), ("damaged memory", damaged_memory), ("a role that only reads", a_role_that_only_reads), ("a database that restarts", a_database_that_restarts)]


def main():
    global KILLS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=15, help="watchers of each store that are killed (default 15)")
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    add_slice_option(parser)
    arguments = parser.parse_args()
    KILLS = arguments.kills
    return fleet.run_with_server(TESTS, "zguard-alerts-", arguments.only, Work, arguments.slice)


if __name__ == "__main__":
    sys.exit(main())
