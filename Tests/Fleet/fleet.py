#!/usr/bin/env python3
"""Tests `zguard collect` and the stores of findings: directories, SQLite and PostgreSQL.
Shippers are killed at random moments, connections break, disks are full, two shippers run at once. Each finding must arrive exactly once,
and each query must have the same result in every store. Closing line: N passed, N failed."""

import argparse
import contextlib
import gzip
import http.server
import json
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet.store_server import ZONE, Locked, Postgres, finding, moment, store_name, write_report  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

server = None


class Work:
    def __init__(self, path):
        self.path = Path(path)
        self.source = self.path / "reports"
        self.environment = scrubbed(TMPDIR=str(self.path), HOME=str(self.path))

    def run(self, *words, status=0, seconds=120, **variables):
        result = subprocess.run([str(ZGUARD), *map(str, words)], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                                env={**self.environment, **variables})
        assert status is None or result.returncode == status, (words, result.returncode, result.stdout[-300:], result.stderr[-600:])
        return result

    def collect(self, place, *flags, source=None, **how):
        return self.run("collect", "--from", source or self.source, "--to", place, *flags, **how)

    def start(self, place, *flags, **how):
        return subprocess.Popen([str(ZGUARD), "collect", "--from", str(self.source), "--to", str(place), *flags], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **how)

    def places(self):
        """Returns one store of each kind that can be queried; the PostgreSQL store is emptied first."""
        server.clear()
        return [str(self.path / "kept"), f"sqlite:{self.path}/kept.db", server.address]

    def findings(self, place, *flags):
        """Returns the groups by signature, from `zguard report`."""
        said = self.run("report", "--format", "json", *flags, place)
        return {one["signature"]: one for one in map(json.loads, said.stdout.splitlines())}


# Counts by both tables, because different SQL statements maintain days and totals.
COUNTED = "SELECT coalesce(sum(findings), 0) FROM zguard_days UNION ALL SELECT coalesce(sum(findings), 0) FROM zguard_totals"


def ids(place):
    """Returns the ids of the stored findings, one for each row, and the set of their counts according to days and totals."""
    if place.startswith("sqlite:"):
        if not Path(place[7:]).exists():
            return [], {0}
        with sqlite3.connect(place[7:], timeout=60) as base:
            return ([row[0] for row in base.execute("SELECT id FROM zguard_findings")],
                    {row[0] for row in base.execute(COUNTED)})
    if place.startswith("postgresql:"):
        return ([row[0].replace("-", "") for row in server.query("SELECT id FROM zguard_findings")],
                {int(row[0]) for row in server.query(COUNTED)})
    found = []
    for path in sorted(Path(place).glob("*.jsonl")):
        found += [json.loads(line)["origin"]["id"] for line in path.read_text().splitlines()]
    return found, {len(found)}


def exactly_once(place, count):
    found, counted = ids(place)
    assert len(set(found)) == len(found), f"{place}: {len(found) - len(set(found))} of {len(found)} findings arrived more than once"
    assert len(found) == count, f"{place}: {len(found)} of {count} findings have arrived"
    assert counted == {count}, f"{place}: {counted} are counted, {count} are there"


def fill(work, files, lines, groups=20):
    for number in range(files):
        write_report(work.source, number, [finding(number * lines + one, (number + one) % groups, pid=1000 + number, at=ZONE + number * 3600)
                                           for one in range(lines)])
    return files * lines


def arrives_once(work):
    count = fill(work, 12, 7)
    for place in work.places():
        first = work.collect(place)
        assert f"{count} findings of 12 reports sent, {count} of them new" in first.stdout, first.stdout
        assert "0 findings of 0 reports sent" in work.collect(place).stdout
        # Without the shipper's state file everything is sent again, and nothing is stored twice.
        for path in work.source.glob(".zguard-collect-*"):
            path.unlink()
        assert f"{count} findings of 12 reports sent" in work.collect(place).stdout
        exactly_once(place, count)
        # The store has the groups of the reports, with the same counts, stacks and classes.
        plain, kept = work.findings(work.source), work.findings(place)
        assert set(plain) == set(kept), (set(plain) ^ set(kept))
        for signature, one in plain.items():
            assert kept[signature]["count"] == one["count"], (place, signature, kept[signature]["count"], one["count"])
            assert kept[signature]["stacks"] == one["stacks"] and kept[signature]["block"]["class"] == one["block"]["class"]
    # A shipper can forward the findings of a directory store. The findings keep their ids.
    work.collect(f"sqlite:{work.path}/kept.db", source=work.path / "kept")
    exactly_once(f"sqlite:{work.path}/kept.db", count)


def only_what_is_complete(work):
    for place in work.places():
        number = len(list(work.path.glob("reports*")))
        work.source = work.path / f"reports{number}"
        growing = write_report(work.source, 1, [finding(1)])
        with Locked(growing):
            said = work.collect(place)
            assert "0 findings of 0 reports sent, 0 of them new, 1 still being written" in said.stdout, said.stdout
        # The runtime appends to its raw report without a lock: only complete lines are shipped.
        raw = write_report(work.source, 2, [finding(2, signature=False)], name="raw-77.jsonl")
        rest = json.dumps(finding(3, signature=False), separators=(",", ":"))
        with raw.open("a") as file:
            file.write(rest[:100])
        work.collect(place)
        exactly_once(place, 2)
        with raw.open("a") as file:
            file.write(rest[100:] + "\n" + "garbage\n" + json.dumps(finding(4)) + "\n")
        said = work.collect(place)
        assert "1 lines that are not findings were skipped" in said.stdout and "line 3 is not shipped" in said.stderr, (said.stdout, said.stderr)
        exactly_once(place, 4)
        # If a report exists in compressed and in uncompressed form, only one of the two is read.
        (work.source / (store_name(5) + ".gz")).write_bytes(gzip.compress(json.dumps(finding(5)).encode() + b"\n"))
        write_report(work.source, 5, [finding(5)])
        work.collect(place)
        exactly_once(place, 5)
        assert "0 findings of 0 reports" in work.collect(place).stdout


def killed(work, kills, seed):
    """For each store: kills `kills` shippers at random moments, and then lets one run to its end."""
    chance = random.Random(seed)
    for place in work.places():
        work.source = work.path / f"reports{len(list(work.path.glob('reports*')))}"
        count = fill(work, 24, 60)
        ended = dead = 0
        longest = 0.3
        while dead < kills:
            began = time.monotonic()
            process = work.start(place)
            try:
                process.communicate(timeout=chance.uniform(0.005, longest))
                assert process.returncode == 0, process.returncode
                ended += 1
                # Everything has arrived. Delete the shipper's state, so that the next shipper sends everything again to the same store.
                longest = max(0.05, (time.monotonic() - began) * 1.1)
                for path in work.source.glob(".zguard-collect-*"):
                    path.unlink()
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                dead += 1
        work.collect(place)
        exactly_once(place, count)
        print(f"       {place.split(':')[0]}: {dead} killed, {ended} ended")


def two_at_once(work):
    for place in work.places():
        work.source = work.path / f"reports{len(list(work.path.glob('reports*')))}"
        count = fill(work, 20, 50)
        shippers = [work.start(place) for _ in range(3)]
        for shipper in shippers:
            _, errors = shipper.communicate(timeout=120)
            assert shipper.returncode == 0, (shipper.returncode, errors[-600:])
        exactly_once(place, count)


def connections_break(work):
    server.clear()
    count = fill(work, 40, 100)
    stop = threading.Event()
    broken = 0

    def breaks():
        nonlocal broken
        while not stop.is_set():
            rows = server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%zguard%' AND pid <> pg_backend_pid()")
            broken += len(rows)
            time.sleep(0.05)

    breaker = threading.Thread(target=breaks)
    breaker.start()
    deadline = time.monotonic() + 60
    try:
        while broken < 5 and time.monotonic() < deadline:
            process = work.start(server.address)
            process.communicate(timeout=120)
            for path in work.source.glob(".zguard-collect-*"):
                path.unlink()
    finally:
        stop.set()
        breaker.join()
    assert broken >= 5, f"{broken} connections were broken"
    work.collect(server.address)
    exactly_once(server.address, count)


def the_server_restarts(work):
    """The server restarts while a batch is sent: uncommitted findings are sent again, and so are committed but unacknowledged findings."""
    server.clear()
    count = fill(work, 40, 100)
    seed = random.randrange(1 << 30)
    print(f"       seed {seed}")
    chance = random.Random(seed)
    longest, restarts = 0.3, 0
    deadline = time.monotonic() + 120
    while restarts < 6:
        assert time.monotonic() < deadline, f"{restarts} restarts in time"
        began = time.monotonic()
        process = work.start(server.address)
        try:
            process.communicate(timeout=chance.uniform(0.01, longest))
            longest = max(0.03, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            server.restart()
            restarts += 1
            if chance.random() < 0.5:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=chance.uniform(0.1, 0.5))
                server.restart()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, (process.returncode, errors[-600:])
        # Ship everything again, with findings already stored.
        for path in work.source.glob(".zguard-collect-*"):
            path.unlink()
    work.collect(server.address)
    exactly_once(server.address, count)


class Proxy:
    """A proxy between shipper and server. Cuts each connection after some bytes, in either direction, until it has made `cuts` cuts."""

    def __init__(self, port, seed, cuts):
        self.port, self.chance, self.left, self.cuts = port, random.Random(seed), cuts, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"postgresql://fleet@127.0.0.1:{self.listener.getsockname()[1]}/fleet"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", self.port))
            room = [int(10 ** self.chance.uniform(1.5, 6))] if self.left > 0 else [1 << 60]
            for source, target in ((client, other), (other, client)):
                threading.Thread(target=self.pass_on, args=(source, target, room), daemon=True).start()

    def pass_on(self, source, target, room):
        try:
            while data := source.recv(65536):
                data = data[:room[0]]
                room[0] -= len(data)
                target.sendall(data)
                if room[0] <= 0:
                    self.left -= 1
                    self.cuts += 1
                    break
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def a_proxy_cuts(work):
    server.clear()
    count = fill(work, 40, 100)
    seed = random.randrange(1 << 30)
    print(f"       seed {seed}")
    with Proxy(server.port, seed, cuts=25) as proxy:
        while proxy.left > 0:
            process = work.start(proxy.address)
            process.communicate(timeout=120)
            for path in work.source.glob(".zguard-collect-*") if process.returncode == 0 else []:
                path.unlink()
        work.collect(proxy.address)
        print(f"       {proxy.cuts} connections were cut")
    exactly_once(server.address, count)


def many_files(work, files):
    """Shipped reports are not opened again, and recording a report takes constant time."""
    work.source.mkdir()
    for number in range(files):
        (work.source / f"20260921T141320.123Z-shop-{number}-{number:08x}.jsonl").write_text(json.dumps(finding(number, number % 20)) + "\n")
    place = f"sqlite:{work.path}/kept.db"
    began = time.monotonic()
    work.collect(place, seconds=1200)
    first = time.monotonic() - began
    exactly_once(place, files)
    kept = sum(path.stat().st_size for path in work.source.glob(".zguard-collect-*"))
    assert kept < 400 * files + 300_000, f"{kept} bytes remember {files} files"
    traced = work.path / "trace"
    subprocess.run(["strace", "-f", "-o", traced, "-e", "trace=openat,write,pwrite64,fsync", ZGUARD, "collect", "--from", work.source, "--to", place],
                   env=work.environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    opened = sum(".jsonl" in line for line in traced.read_text(errors="replace").splitlines())
    assert opened == 0, f"{opened} of {files} reports were opened again"
    began = time.monotonic()
    write_report(work.source, 0, [finding(files)], name="20260921T141320.123Z-shop-1-ffffffff.jsonl")
    assert "1 findings of 1 reports sent, 1 of them new" in work.collect(place).stdout
    print(f"       {files} files: {first:.1f} s, and {time.monotonic() - began:.1f} s for one more")
    # A partial line or a wrong entry in the state file is ignored.
    [path] = work.source.glob(".zguard-collect-*")
    with path.open("ab") as file:
        file.write(b"12\t34\t5")
    write_report(work.source, 0, [finding(files + 1)], name="20260921T141320.123Z-shop-1-fffffffe.jsonl")
    assert "1 findings of 1 reports sent, 1 of them new" in work.collect(place).stdout
    assert "0 findings of 0 reports sent" in work.collect(place).stdout
    exactly_once(place, files + 2)


def full_disk(work):
    count = fill(work, 10, 100)

    for place, room in zip(work.places(), (40_000, 400_000)):
        def little_room(room=room):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        process = work.start(place, "--quiet", preexec_fn=little_room)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1 and "zguard: error: " in errors, (process.returncode, errors)
        found, counted = ids(place)
        assert len(found) == len(set(found)) < count and counted == {len(found)}, (place, len(found), counted)
        work.collect(place)
        exactly_once(place, count)


def same_answers(work):
    now = int(time.time())
    machines = [work.path / name for name in ("one", "two")]
    for index, folder in enumerate(machines):
        reports = [finding(1, 1, at=now - 40 * 86400), finding(2, 1, at=now - 60), finding(3, 2, at=now - 20 * 86400, kind="double-free"),
                   finding(4 + index, 3 + index, at=now - 3600, program="/usr/bin/till")]
        for number, one in enumerate(reports):
            write_report(folder, number + 10 * index, [dict(one, pid=index * 100 + number)])
    questions = [[], ["--since", "1d"], ["--kind", "double-free"], ["--program", "till"], ["--program", "/usr/bin/till"], ["--program", "ill"],
                 ["--host", "one"], ["--host", "two"], ["--host", "three"], ["--signature", f"{3:016x}"], ["--new-since", "1.10"],
                 ["--new-since", "1.9"], ["--new-since", "1.11"], ["--program", "till", "--host", "one"], ["--since", "30d", "--kind", "use-after-free"]]
    answers = {}
    for place in work.places():
        # The first machine, which has all the findings, runs 1.9, the second 1.10.
        for folder, version in zip(machines, ("1.9", "1.10")):
            work.collect(place, "--host", folder.name, "--program-version", version, source=folder)
        answers[place] = [sorted(work.findings(place, *question)) for question in questions]
    (one, *others) = answers.items()
    for place, answer in others:
        for question, own, other in zip(questions, one[1], answer):
            assert own == other, f"{question}: {place} says {other}, the directory {own}"
    said = dict(zip(map(" ".join, questions), one[1]))
    group = [f"{number:016x}" for number in range(5)]
    assert said[""] == group[1:] and said["--kind double-free"] == [group[2]] and said["--since 1d"] == [group[1], group[3], group[4]], said
    assert said["--program till"] == said["--program /usr/bin/till"] == group[3:] and said["--program ill"] == said["--host three"] == [], said
    assert said["--host one"] == group[1:4] and said["--new-since 1.10"] == [group[4]] and said["--new-since 1.11"] == [], said
    # The tenant restricts every query.
    for place in answers:
        assert work.findings(place, "--tenant", "others") == {}


def old_ones_go(work):
    now = int(time.time())
    for number, days in enumerate((0, 1, 5, 20, 60)):
        write_report(work.source, number, [finding(number, number, at=now - days * 86400)])
    write_report(work.source, 9, [finding(9, 1, at=now - 30 * 86400)])  # an old finding of a group that stays
    for place in work.places()[1:]:
        work.collect(place)
        assert len(work.findings(place)) == 5
        work.collect(place, "--keep-age", "10d")
        assert sorted(work.findings(place)) == [f"{number:016x}" for number in range(3)], place
        exactly_once(place, 3)
        # The group's first occurrence is kept, so the group is not new.
        (one,) = work.findings(place, "--signature", f"{1:016x}").values()
        assert one.get("first_seen", one["time"]) == moment(now - 30 * 86400), (place, one)
    tables = {row[0] for row in server.query("SELECT relname FROM pg_class WHERE relname LIKE 'zguard_findings_2%' AND relkind = 'r'")}
    assert len(tables) == 3, tables


def without_a_time(work):
    """Findings without a time, because a filter forbade the clock or the machine's clock was not set, get their time of arrival: they do
    not count as old, and arrive once."""
    now = int(time.time())
    times = (None, "", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "1970-01-01T04:11:09Z", "unknown")
    reported = []
    for number, told in enumerate(times):
        one = finding(number, number)
        del one["time"]
        reported.append({**one, **({} if told is None else {"time": told})})
    write_report(work.source, 1, reported)
    write_report(work.source, 2, [finding(50, 50, at=now - 60 * 86400), finding(51, 51, at=now)])
    unset = write_report(work.source, 3, [{**reported[0], "signature": f"{52:016x}"}])
    os.utime(unset, (0, 0))  # the file's time is unknown too
    young = sorted(f"{number:016x}" for number in (*range(len(times)), 51, 52))
    for place in work.places()[1:]:
        for _ in range(2):
            work.collect(place, "--keep-age", "10d")
            found = work.findings(place, "--since", "1d")
            assert sorted(found) == young and sorted(work.findings(place)) == young, (place, sorted(found))
        exactly_once(place, len(young))
        for one in found.values():
            seen = [one[name] for name in ("first_seen", "time", "last_seen") if one.get(name)]
            assert seen and not any(text.startswith("1970") for text in seen), (place, one)
            last = one.get("last_seen") or one["time"]
            assert moment(now - 5) <= last <= moment(time.time() + 5), (place, last)
    # The same test through a directory store and with redaction.
    by_way, place = work.path / "by-way", f"sqlite:{work.path}/last.db"
    rules = work.path / "rules"
    rules.write_text("drop detail\n")
    work.collect(by_way, "--keep-age", "10d")
    for _ in range(2):
        work.collect(place, "--keep-age", "10d", "--redact", rules, source=by_way)
    assert sorted(set(work.findings(place)) - {f"{50:016x}"}) == young, sorted(work.findings(place))


def one_table_becomes_many(work):
    """Upgrades SQLite stores of two earlier versions. This version has a table of findings and a table of counts for each day. The first
    earlier version had one table of each for all days; the second had one table of counts, but a table of findings for each day."""
    now = int(time.time())
    fill(work, 2, 30)
    write_report(work.source, 40, [finding(4000 + number, 100 + number, at=now - 4 * 86400) for number in range(5)]
                 + [finding(4100 + number, number, at=now) for number in range(3)])
    old = moment(now - 3 * 86400)[:10]
    for number, names in enumerate((["zguard_findings", "zguard_days"], ["zguard_days"])):
        path = work.path / f"kept{number}.db"
        place = f"sqlite:{path}"
        work.collect(place)
        with sqlite3.connect(path, isolation_level=None) as base:
            for name in names:
                (form,) = base.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name + "_other"]).fetchone()
                base.execute(f"CREATE TABLE whole AS SELECT * FROM {name}")
                base.execute(f"DROP VIEW {name}")
                parts = [row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", [name + "_%"])]
                assert len(parts) == 4, parts
                for part in parts:
                    base.execute(f"DROP TABLE {part}")
                base.execute(form.replace(name + "_other", name, 1))
                base.execute(f"INSERT INTO {name} SELECT * FROM whole")
                base.execute("DROP TABLE whole")
        before = work.findings(place)
        assert sum(one["count"] for one in before.values()) == 68, before
        # Without a state file, ship everything again, together with additional findings of the same days and of another day.
        for forgotten in work.source.glob(".zguard-collect-*"):
            forgotten.unlink()
        write_report(work.source, 50, [finding(5000 + number, number, at=now - 3 * 86400) for number in range(3)]
                     + [finding(6000, 0, at=now - 4 * 86400)])
        work.collect(place)
        exactly_once(place, 72)
        assert set(before) <= set(work.findings(place)), "groups are gone"
        work.collect(place, "--keep-age", "2d")
        with sqlite3.connect(path) as base:
            for name in ("zguard_findings", "zguard_days"):
                assert not base.execute(f"SELECT 1 FROM {name} WHERE day <= ?", [old]).fetchall(), "old ones stay"
        exactly_once(place, 3)
        (work.source / store_name(50)).unlink()


def signatures_of_the_earlier_version(work):
    """In a store that the earlier version has filled, that version's signatures still find their bugs, and none of these bugs is new."""
    now = int(time.time())

    def crash(number, signal, message=None):
        one = finding(number, 7, at=now - 3600, kind="crash", signature=False, signal=signal, code=1, **({"message": message} if message else {}))
        return dict(one, stacks={"access": one["stacks"]["access"]}, block=None)

    def signed(one, version):
        """Returns the finding, signed as by this version, and its signature by version 1."""
        path = write_report(work.path / "unsigned", 1, [one])
        (said,) = map(json.loads, work.run("report", "--format", "json", path).stdout.splitlines())
        (former,) = said["former_signatures"]
        if version == 1:
            return dict(one, signature=former), former
        return dict(one, signature=said["signature"], former_signatures=[former]), former

    def lines(version, *findings):
        return [signed(one, version)[0] for one in findings]

    use, (_, former) = finding(1, 3, at=now - 7200, signature=False), signed(finding(1, 3, signature=False), 1)
    _, ends = signed(crash(2, "SIGABRT"), 1)
    older = lines(1, use, crash(2, "SIGABRT", "order 17 has no items"))
    newer = lines(2, finding(3, 3, at=now, signature=False), crash(4, "SIGABRT", "order 18 has no items"), crash(5, "SIGILL"),
                  finding(6, 5, at=now, signature=False))
    use_now, abort_now, trap_now, other_now = (one["signature"] for one in newer)
    assert len({former, ends, use_now, abort_now, trap_now, other_now}) == 6
    machines = [work.path / name for name in ("older", "newer")]
    write_report(machines[0], 1, older)
    write_report(machines[1], 2, newer)
    rules = work.path / "rules"
    rules.write_text(f"use-after-free\n    signature={former}\n")
    for place in work.places():
        work.collect(place, "--program-version", "1.0", source=machines[0])
        # The earlier version's databases lack the table of earlier signatures.
        if place.startswith("sqlite:"):
            with sqlite3.connect(place[7:]) as base:
                base.execute("DROP TABLE zguard_former")
        elif place.startswith("postgresql:"):
            server.query("DROP TABLE zguard_former")
        read = work.findings(place)
        assert set(read) == {use_now, abort_now}, (place, read)
        assert list(work.findings(place, "--signature", former)) == [use_now], place
        work.collect(place, "--program-version", "2.0", source=machines[1])
        counts = {signature: one["count"] for signature, one in work.findings(place).items()}
        wanted = {use_now: 2, abort_now: 2, trap_now: 1, other_now: 1}
        assert counts == wanted, (place, counts, wanted)
        assert list(work.findings(place, "--new-since", "2.0")) == [other_now], (place, list(work.findings(place, "--new-since", "2.0")))
        assert set(work.findings(place, "--new-since", "1.0")) == set(wanted), place
        for asked, answer in ((former, {use_now}), (use_now, {use_now}), (ends, {abort_now, trap_now}), (trap_now, {trap_now}),
                              (other_now, {other_now}), ("0" * 16, set())):
            assert set(work.findings(place, "--signature", asked)) == answer, (place, asked, work.findings(place, "--signature", asked))
        (one,) = work.findings(place, "--signature", former).values()
        assert one["count"] == 2 and one["origin"]["version"] == "1.0", (place, one)
        assert use_now not in work.findings(place, "--suppressions", rules), place
        # Without state files everything is sent again. No finding is stored twice, whichever version signed it.
        for folder, version in zip(machines, ("1.0", "2.0")):
            for path in folder.glob(".zguard-collect-*"):
                path.unlink()
            work.collect(place, "--program-version", version, source=folder)
        exactly_once(place, 6)


def libraries_that_cannot_be_used(work):
    """If a library cannot be loaded, the shipper's error message names it, and no finding is recorded as sent."""
    fill(work, 1, 5)
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return print("       unshare -m is not allowed here")
    for name, place in (("libpq.so.5", server.address), ("libsqlite3.so.0", f"sqlite:{work.path}/kept.db"), ("libcurl.so.4", "https://127.0.0.1:9/")):
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        file = next(line.split(" => ")[1] for line in listed.splitlines() if line.strip().startswith(name + " "))
        script = f'mount --bind /dev/null "$(readlink -f {file})" && exec "$@"'
        result = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", ZGUARD, "collect", "--from", work.source, "--to", place],
                                capture_output=True, text=True, env=scrubbed())
        said = result.stderr.strip().splitlines()
        assert result.returncode == 1 and len(said) <= 2 and name in result.stderr, (name, result.returncode, result.stderr)
    work.collect(f"sqlite:{work.path}/kept.db")
    exactly_once(f"sqlite:{work.path}/kept.db", 5)


def a_share_is_kept(work):
    for number in range(4):
        write_report(work.source, number, [finding(number * 100 + one, 1, pid=number * 100 + one) for one in range(100)])
    for place in work.places():
        work.collect(place, "--keep-share", "10%")
        exactly_once(place, 400)
        [one] = work.findings(place).values()
        assert one["count"] == 400 and one["stacks"]["access"], one
    with sqlite3.connect(work.path / "kept.db") as base:
        whole = base.execute("SELECT count(*) FROM zguard_findings WHERE body LIKE '%use1%'").fetchone()[0]
    assert 105 <= whole <= 190, f"{whole} of 400 findings are kept whole"
    # A restarted shipper also counts the findings already stored.
    kept = str(work.path / "kept")
    for start in range(400, 460, 20):
        write_report(work.source, start, [finding(start * 100 + one, 1, pid=start * 100 + one) for one in range(20)])
        work.collect(kept, "--keep-share", "0%")
    exactly_once(kept, 460)
    lines = [line for file in Path(kept).glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sum("use1" in line for line in lines) == whole, len(lines)


class Receiver:
    """An HTTP receiver that loses some requests, answers some late, and rejects others."""

    def __init__(self, answers=()):
        receiver = self
        self.requests, self.answers = [], list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.answers.pop(0) if receiver.answers else 200
                if answer is None:
                    self.connection.close()
                    return
                if answer == 200:
                    receiver.requests.append((self.path, dict(self.headers), body))
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def over_the_web(work):
    count = fill(work, 30, 50)
    with Receiver([503, None, 200, 429]) as receiver:
        said = work.collect(receiver.address + "/findings")
        assert f"{count} findings" in said.stdout and "trying again" in said.stderr, (said.stdout, said.stderr)
        lines = [json.loads(line) for _, _, body in receiver.requests for line in gzip.decompress(body).splitlines()]
        assert len({line["origin"]["id"] for line in lines}) == len(lines) == count, len(lines)
        assert all(headers["Content-Encoding"] == "gzip" for _, headers, _ in receiver.requests)
        assert "0 findings" in work.collect(receiver.address + "/findings").stdout
        # A rejection is not retried, and the findings are not recorded as sent.
        write_report(work.source, 900, [finding(99_999)])
        receiver.answers = [403]
        said = work.collect(receiver.address + "/findings", status=1)
        assert "answers with status 403" in said.stderr and "trying again" not in said.stderr, said.stderr
        assert "1 findings" in work.collect(receiver.address + "/findings").stdout
    said = work.collect("http://192.0.2.1/", status=64)
    assert "expected a directory" in said.stderr, said.stderr


def open_telemetry(work):
    write_report(work.source, 1, [finding(1, 7, count=3)])
    with Receiver() as receiver:
        work.run("collect", "--from", work.source, "--host", "web-1", "--program-version", "2.1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.address,
                 OTEL_EXPORTER_OTLP_HEADERS="x-key=secret")
        [(path, headers, body)] = receiver.requests
        assert path == "/v1/logs" and headers["Content-Type"] == "application/json" and headers["x-key"] == "secret", (path, headers)
        [logs] = json.loads(body)["resourceLogs"]

        def read(attributes):
            return {one["key"]: next(iter(one["value"].values())) for one in attributes}

        about = read(logs["resource"]["attributes"])
        assert about["service.name"] == "shop" and about["service.version"] == "2.1" and about["host.name"] == "web-1", about
        assert about["process.executable.path"] == "/srv/shop/bin/shop", about
        [record] = logs["scopeLogs"][0]["logRecords"]
        own = read(record["attributes"])
        assert own["exception.type"] == "use-after-free" and "Shop.Cart7" in own["exception.message"], own
        assert "at use7 (/home/alice/shop/use7.swift:41)" in own["exception.stacktrace"], own
        assert own["process.pid"] == "1000" and own["zguard.finding.count"] == "3", own
        assert record["timeUnixNano"] == f"{ZONE}000000000" and record["severityNumber"] == 17, record


def what_is_cut_does_not_leave(work):
    rules = work.path / "rules"
    rules.write_text("# names of people\nreplace /home/*/ ~/\nreplace /srv/*/ /\ndrop thread address\ndrop host\n")
    write_report(work.source, 1, [finding(number, 1, thread={"id": 1, "name": "secret-thread"}) for number in range(3)])
    secrets = [b"alice", b"/srv", b"secret-thread", b"web-of-alice", b"7f00000000"]
    with Receiver() as receiver:
        for place in [*work.places(), receiver.address + "/", "otlp+" + receiver.address]:
            work.collect(place, "--redact", rules, "--host", "web-of-alice")
        sent = b"".join(gzip.decompress(body) if "Content-Encoding" in headers else body for _, headers, body in receiver.requests)
        assert b"~/shop/use1.swift" in sent and len(receiver.requests) == 2, sent[:300]
    sent += b"".join(path.read_bytes() for path in (work.path / "kept").iterdir())
    with sqlite3.connect(work.path / "kept.db") as base:
        sent += "\n".join(base.iterdump()).encode()
    for table in ("findings", "days", "hosts", "groups"):
        sent += "\n".join("\t".join(row) for row in server.query(f"SELECT * FROM zguard_{table}")).encode()
    # The rule `address` applies to the address of the finding, not to the block's start.
    found = [secret for secret in secrets[:-1] if secret in sent] + [b"address" for _ in [0] if b'"address"' in sent]
    assert not found, f"{found} left the machine"
    for place in (f"sqlite:{work.path}/kept.db", str(work.path / "kept"), server.address):
        [one] = work.findings(place).values()
        assert one["stacks"]["access"][0]["file"] == "~/shop/use1.swift" and "thread" not in one, one
    # With an invalid rule nothing is sent.
    for wrong in ("drop schema", "drop histroy", "replace a", "cut file", "replace *x y"):
        rules.write_text(wrong + "\n")
        said = work.collect(work.path / "nothing", "--redact", rules, status=64)
        assert "rules:1: " in said.stderr and not (work.path / "nothing").exists(), said.stderr


def wrong_calls(work):
    fill(work, 1, 1)
    for words, text in ((["collect"], "needs '--from'"), (["collect", "--from", work.source], "needs '--to'"),
                        (["collect", "--from", work.source, "--to", "ftp://x"], "expected a directory"),
                        (["collect", "--from", work.source, "--to", "sqlite:"], "expected a directory"),
                        (["collect", "--from", work.source, "--to", "x", "--keep-share", "10"], "expected 0% to 100%")):
        assert text in work.run(*words, status=64).stderr, words
    said = work.run("collect", "--from", work.path / "none", "--to", work.path / "kept", status=1)
    assert "cannot open report directory" in said.stderr, said.stderr
    (work.path / "other.db").write_text("no database at all, but as long as the head of one would be, and longer " * 3)
    assert "file is not a database" in work.run("report", f"sqlite:{work.path}/other.db", status=1).stderr
    assert "cannot open" in work.run("report", f"sqlite:{work.path}/none.db", status=1).stderr
    assert not (work.path / "none.db").exists()
    assert "cannot connect to PostgreSQL" in work.run("report", "postgresql://127.0.0.1:1/x", status=1).stderr
    secret = work.collect("postgresql://user:hunter2@127.0.0.1:1/x", status=1)
    assert "hunter2" not in secret.stderr + secret.stdout, secret.stderr


TESTS = [("arrives once", arrives_once), ("only what is complete", only_what_is_complete), ("two at once", two_at_once),
         ("connections break", connections_break), ("the server restarts", the_server_restarts), ("a proxy cuts", a_proxy_cuts),
         ("full disk", full_disk), ("same answers", same_answers), ("old ones go", old_ones_go),
         ("without a time", without_a_time),
         ("a share is kept", a_share_is_kept), ("one table becomes many", one_table_becomes_many),
         ("signatures of the earlier version", signatures_of_the_earlier_version), ("libraries that cannot be used", libraries_that_cannot_be_used),
         ("over the web", over_the_web), ("OpenTelemetry", open_telemetry),
         ("what is cut does not leave", what_is_cut_does_not_leave), ("wrong calls", wrong_calls)]


def run_with_server(tests, prefix, only, work, part=None):
    """Runs tests, or a slice of them, with a PostgreSQL server, `server`."""
    global server
    server = Postgres()
    try:
        return run_tests(tests, prefix, only, work, part=part)
    finally:
        server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=8, help="shippers that are killed, for each kind of store")
    parser.add_argument("--files", type=int, default=1500, help="reports in one directory")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    tests = [*TESTS, ("many files", lambda work: many_files(work, arguments.files)),
             ("killed at random moments", lambda work: killed(work, arguments.kills, arguments.seed))]
    return run_with_server(tests, "zguard-fleet-", arguments.only, Work)


if __name__ == "__main__":
    sys.exit(main())
