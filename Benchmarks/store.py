#!/usr/bin/env python3
"""Times of pages, API requests and commands on a store of 10 million findings, in SQLite and PostgreSQL.

`zguard collect` ships one finding of each group, which creates the tables. Tables that earlier versions lacked are dropped again. All other
findings are copies with times, machines and versions of their own, inserted as rows; SQL counts them like a shipper. Then one more
`zguard collect` upgrades the store. Each page and command is timed: first in a new process, then as the median of --rounds.

The sizes of groups have a Zipf distribution. A group lives for 10 to 400 days, in one or two programs. A version is released every
eight days and used for forty. The stored line of a finding has 1 to 3 KB.

usage: Benchmarks/store.py [--findings 10e6] [--store sqlite|postgresql] [--keep | --on ADDRESS] [--check] [--json FILE]
--check fills a small store, ships the same findings to another one, and compares all tables of counts."""

import argparse
import bisect
import itertools
import json
import random
import re
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Tests"))

from Fleet.store_server import Postgres, moment, store_name  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402

DAY = 86400
KINDS = ["use-after-free", "write-after-free", "double-free", "heap-overflow", "invalid-free", "crash", "stall"]
CLASSES = ["Cart", "Order", "Feed", "Session", "Cache", "Timer", "Socket", "Parser", "Index", "Player"]
MEMBERS = ["total", "items", "add", "owner", "state", "next", "buffer", "close"]


class Shape:
    """A synthetic fleet. All random numbers come from one generator with a fixed seed, so two runs make the same store."""

    def __init__(self, arguments, today):
        self.random = random.Random(42)
        self.days = arguments.days
        self.today = today
        self.hosts = [f"web-{number}.example" for number in range(arguments.hosts)]
        names = [first + second for first in ("shop", "till", "mail", "feed", "api") for second in ("", "d", "-worker", "-admin")]
        self.programs = [f"/srv/{name}/bin/{name}" for name in names]
        self.versions = [f"1.{number}" for number in range(arguments.versions)]
        # The tenant "default" has nine tenths of the groups and of the findings.
        tenants = ["default"] * 27 + ["north", "south", "east"]
        self.groups = []
        for number in range(arguments.groups):
            life = int(10 * 40 ** self.random.random())
            first = self.random.randrange(self.days)
            programs = self.random.sample(self.programs, 2 if self.random.random() < 0.2 else 1)
            self.groups.append({"number": number, "weight": 1 / (number + 1), "first": first, "last": min(self.days - 1, first + life),
                                "programs": programs, "tenant": tenants[number % len(tenants)], "kind": KINDS[number * number % 7]})
        # The most frequent bugs are never fixed: they occur on all days.
        for group in self.groups[:20]:
            group["first"], group["last"] = 0, self.days - 1

    def version(self, day):
        """Draws one of the versions in use on a day: most machines have one of the two newest."""
        newest = min(day * len(self.versions) // self.days, len(self.versions) - 1)
        return self.versions[max(0, newest - self.random.choices(range(5), (40, 35, 15, 7, 3))[0])]

    def start(self, day):
        return self.today - (self.days - 1 - day) * DAY

    def template(self, group):
        """The first finding of a group, as `zguard run` writes it."""
        number, program = group["number"], group["programs"][0]
        chance = random.Random(number)
        name = f"{CLASSES[number % 10]}{number // 10}"
        member = MEMBERS[number % 8]
        build = f"{number:040x}"

        def stack(verb, depth):
            return [{"pc": hex(0x400000 + 64 * place), "module": program, "build_id": build, "offset": hex(64 * place + number),
                     "function": f"Shop.{name}.{verb}{place or ''}(_:)", "file": f"/build/{name}.swift", "line": 10 + place}
                    for place in range(depth)]

        stacks = {"access": stack("use", chance.randint(1, 3)), "free": stack("drop", chance.randint(1, 3)),
                  "alloc": stack("make", chance.randint(1, 2))}
        kind, more = group["kind"], {}
        if kind in ("crash", "stall"):
            stacks = {"access": stack("use", chance.randint(4, 9))}
            more = {"signal": "SIGABRT", "code": 1, "message": f"{name} has no items"} if kind == "crash" else {
                "duration_ms": 812, "occurrences": 5, "samples": 16}
        else:
            more["block"] = {"start": "0x7fa110000000", "size": 48, "offset": 16, "state": "quarantined", "language": "swift",
                             "class": f"Shop.{name}", "member": member}
        return {"schema": "zguard.finding/1", "kind": kind, "access": "read", "confidence": "exact", "address": "0x7fa110000000",
                "thread": {"id": 1, "name": "main"}, "stacks": stacks, "count": 1, "pid": 4_000_000 + number, "program": program,
                "time": moment(self.start(group["first"]) + 1 + number % 80000), **more,
                "origin": {"id": uuid.UUID(int=number + 1).hex, "host": self.hosts[number % len(self.hosts)],
                           "version": self.version(group["first"]), "tenant": group["tenant"]}}


class Template:
    """The stored line of a group's first finding, split at the fields in which copies differ."""

    def __init__(self, signature, first, line):
        self.signature, self.kind = signature, first["kind"]
        origin = first["origin"]
        cuts = [(first["address"], "address"), (f'"pid":{first["pid"]}', "pid"), (first["time"], "time"), (origin["id"], "id"),
                (f'"host":"{origin["host"]}"', "host"), (f'"version":"{origin["version"]}"', "version"), (first["program"], "program")]
        found = sorted((place.start(), place.end(), name) for text, name in cuts for place in re.finditer(re.escape(text), line))
        self.parts, self.names, at = [], [], 0
        for start, end, name in found:
            self.parts.append(line[at:start])
            self.names.append(name)
            at = end
        self.rest = line[at:]

    def line(self, values):
        pieces = []
        for part, name in zip(self.parts, self.names):
            pieces += (part, values[name])
        pieces.append(self.rest)
        return "".join(pieces)


VERSION_KEYS = {}  # zguard's sort key of each version, as stored in the tables


def copies(shape, templates, day, count):
    """Returns a day's date and its rows, sorted by the table's key, without the first findings of groups."""
    alive = [group for group in shape.groups if group["first"] <= day <= group["last"]]
    weights = list(itertools.accumulate(group["weight"] for group in alive))
    chance, start, rows = shape.random, shape.start(day), []
    date = moment(start)[:10]
    for _ in range(count):
        group = alive[bisect.bisect_left(weights, chance.random() * weights[-1])]
        template = templates[group["number"]]
        host, version, program = chance.choice(shape.hosts), shape.version(day), chance.choice(group["programs"])
        second, number = chance.randrange(DAY - 1), chance.getrandbits(120)
        key = f"{number:032x}"
        line = template.line({"address": hex(0x7F0000000000 + number % (1 << 40)), "pid": f'"pid":{number % 4_000_000}',
                              "time": moment(start + second), "id": key, "host": f'"host":"{host}"', "version": f'"version":"{version}"',
                              "program": program})
        rows.append((group["tenant"], template.signature, date, key, (start + second) * 1000, host, program, version,
                     VERSION_KEYS[version], 1, line))
    rows.sort(key=lambda row: row[:4])
    return date, rows


COUNTS = {
    "zguard_days": """SELECT tenant, signature, day, program, version, version_key, count(*), sum(occurrences), min(at), max(at)
        FROM {findings} GROUP BY 1, 2, 3, 4, 5, 6""",
    "zguard_hosts": "SELECT tenant, signature, host, sum(f), sum(o), max(l) FROM bench_hosts GROUP BY 1, 2, 3",
    "hosts_of_day": """INSERT INTO bench_hosts SELECT tenant, signature, host, count(*), sum(occurrences), max(at) FROM {findings}
        GROUP BY 1, 2, 3""",
    "zguard_totals": """SELECT d.tenant, d.signature, sum(d.findings), sum(d.occurrences), min(d.first_at), max(d.last_at),
            min(CASE WHEN d.version_key = k.least THEN d.version END), k.least
        FROM zguard_days d JOIN (SELECT tenant, signature, min(version_key) AS least FROM zguard_days GROUP BY 1, 2) k
            ON k.tenant = d.tenant AND k.signature = d.signature GROUP BY d.tenant, d.signature, k.least""",
}


class PostgresStore:
    def __init__(self, folder):
        self.server = Postgres()
        self.address = self.server.address
        self.run = lambda text: self.server.query(text, 7200)

    def earlier(self):
        """Drops the tables, function and index that earlier versions of zguard did not have."""
        self.run("""DROP TABLE IF EXISTS zguard_names; DROP TABLE IF EXISTS zguard_weeks CASCADE;
            DROP FUNCTION IF EXISTS zguard_count_weeks CASCADE; DROP INDEX IF EXISTS zguard_days_by_day""")

    def first(self):
        return [(row[0], json.loads(row[1])["origin"]["id"], row[1], row[2], row[3])
                for row in map(tuple, self.server.query("SELECT signature, body, version, version_key FROM zguard_findings", 600))]

    def begin(self):
        self.run("""DROP TABLE IF EXISTS bench_hosts;
            CREATE UNLOGGED TABLE bench_hosts (tenant text, signature text, host text, f bigint, o bigint, l bigint)""")
        self.run("TRUNCATE zguard_days")

    def fill(self, date, next_day, rows):
        part = f"zguard_findings_{date.replace('-', '_')}"
        self.run(f"CREATE TABLE IF NOT EXISTS {part} PARTITION OF zguard_findings FOR VALUES FROM ('{date}') TO ('{next_day}')")
        copy = subprocess.Popen(["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(self.server.port), "-U", "fleet", "fleet", "-c",
                                 f"COPY {part} FROM STDIN"], stdin=subprocess.PIPE, text=True, cwd="/")
        for row in rows:
            copy.stdin.write("\t".join(map(str, row[:-1])) + "\t" + row[-1].replace("\\", "\\\\") + "\n")
        copy.stdin.close()
        assert copy.wait() == 0
        self.run(COUNTS["hosts_of_day"].format(findings=part))
        self.run("INSERT INTO zguard_days " + COUNTS["zguard_days"].format(findings=part))

    def end(self):
        for table in ("zguard_hosts", "zguard_totals"):
            self.run(f"TRUNCATE {table}")
            self.run(f"INSERT INTO {table} " + COUNTS[table])
        self.run("DROP TABLE bench_hosts")
        self.run("VACUUM ANALYZE zguard_days, zguard_hosts, zguard_groups, zguard_totals, zguard_former")
        self.run("VACUUM ANALYZE zguard_findings")

    def rows(self, table, columns):
        return sorted(map(tuple, self.server.query(f"SELECT {columns} FROM {table}", 600)))

    def size(self):
        return int(self.server.query("SELECT pg_database_size('fleet')")[0][0])

    def close(self):
        self.server.close()


class SQLiteStore:
    def __init__(self, folder):
        self.path = folder / "store.db"
        self.address = f"sqlite:{self.path}"
        self.base = None

    def open(self):
        self.base = sqlite3.connect(self.path, isolation_level=None)
        self.base.execute("PRAGMA synchronous = OFF")
        self.base.execute("PRAGMA cache_size = -500000")

    def earlier(self):
        with sqlite3.connect(self.path) as base:
            for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                base.execute(f"DROP TRIGGER {name}")
            for name in ("zguard_names", "zguard_weeks"):
                base.execute(f"DROP TABLE IF EXISTS {name}")

    def first(self):
        with sqlite3.connect(self.path) as base:
            return base.execute("SELECT signature, id, body, version, version_key FROM zguard_findings").fetchall()

    def begin(self):
        self.open()
        self.base.execute("CREATE TABLE bench_hosts (tenant, signature, host, f, o, l)")
        self.form = {name: self.base.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name + "_other"]).fetchone()[0]
                     for name in ("zguard_findings", "zguard_days")}
        self.dates = {name[0][len("zguard_days_"):] for name in self.base.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'zguard_days_2%'")}

    def fill(self, date, next_day, rows):
        suffix = date.replace("-", "_")
        run = self.base.execute
        run("BEGIN")
        if suffix not in self.dates:
            for name, form in self.form.items():
                run(form.replace(name + "_other", f"{name}_{suffix}", 1))
            self.dates.add(suffix)
        self.base.executemany(f"INSERT INTO zguard_findings_{suffix} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        run(COUNTS["hosts_of_day"].format(findings=f"zguard_findings_{suffix}"))
        run(f"DELETE FROM zguard_days_{suffix}")
        run(f"INSERT INTO zguard_days_{suffix} " + COUNTS["zguard_days"].format(findings=f"zguard_findings_{suffix}"))
        run("COMMIT")

    def end(self):
        run = self.base.execute
        run("BEGIN")
        for name in ("zguard_findings", "zguard_days"):
            parts = [f"SELECT * FROM {name}_{suffix}" for suffix in ["other", *sorted(self.dates, reverse=True)]]
            run(f"DROP VIEW {name}")
            run(f"CREATE VIEW {name} AS " + " UNION ALL ".join(parts))
        for table in ("zguard_hosts", "zguard_totals"):
            run(f"DELETE FROM {table}")
            run(f"INSERT INTO {table} " + COUNTS[table])
        run("DROP TABLE bench_hosts")
        run("COMMIT")
        run("PRAGMA wal_checkpoint(TRUNCATE)")
        self.base.close()

    def rows(self, table, columns):
        with sqlite3.connect(self.path) as base:
            return sorted(tuple(map(str, row)) for row in base.execute(f"SELECT {columns} FROM {table}"))

    def size(self):
        return self.path.stat().st_size

    def close(self):
        pass


class Filled:
    """A store that an earlier run has left."""

    def __init__(self, address):
        self.address = address

    def close(self):
        pass


def zguard(*words):
    result = subprocess.run([str(ZGUARD), *map(str, words)], capture_output=True, text=True, env=scrubbed())
    assert result.returncode == 0, result.stderr[-600:]
    return result.stdout


def write_reports(folder, lines):
    folder.mkdir()
    for number in range(0, len(lines), 500):
        (folder / store_name(number, pid=7)).write_text("\n".join(lines[number:number + 500]) + "\n")


def fill(store, shape, arguments, folder, lines=None):
    """Fills a store; `lines` collects all findings."""
    firsts = {one["origin"]["id"]: (group["number"], one) for group in shape.groups for one in [shape.template(group)]}
    write_reports(folder / "first", [json.dumps(one, separators=(",", ":")) for _, one in firsts.values()])
    zguard("collect", "--from", folder / "first", "--to", store.address)
    store.earlier()
    templates = {}
    for signature, key, line, version, sort_key in store.first():
        number, one = firsts[key.replace("-", "")]
        templates[number] = Template(signature, one, line)
        VERSION_KEYS[version] = sort_key
        if lines is not None:
            lines.append(line)
    for name in shape.versions:  # no group's first finding has this version: derive its sort key from another version's
        VERSION_KEYS.setdefault(name, like(name))
    store.begin()
    rest = max(0, int(arguments.findings) - len(shape.groups))
    for day in range(shape.days):
        count = rest // shape.days + (1 if day < rest % shape.days else 0)
        date, rows = copies(shape, templates, day, count)
        if lines is not None:
            lines += [row[-1] for row in rows]
        store.fill(date, moment(shape.start(day) + DAY)[:10], rows)
        if day % 50 == 49:
            print(f"filled {day + 1} of {shape.days} days", file=sys.stderr, flush=True)
    store.end()


def like(name):
    """Returns the sort key of a version without findings, made from the key of a version with the same number of digits."""
    for known, key in VERSION_KEYS.items():
        if len(known) == len(name):
            return key.replace(known.split(".")[1], name.split(".")[1])
    raise AssertionError(name)


def check(store, shape, arguments, folder, kind):
    """Fills a store, ships the same findings to another store, and compares the tables of both."""
    lines = []
    fill(store, shape, arguments, folder, lines)
    write_reports(folder / "all", lines)
    (folder / "other").mkdir()
    tables = {"zguard_days": "tenant, signature, day, program, version, version_key, findings, occurrences, first_at, last_at",
              "zguard_hosts": "tenant, signature, host, findings, occurrences, last_at",
              "zguard_totals": "tenant, signature, findings, occurrences, first_at, last_at, version, version_key",
              "zguard_groups": "tenant, signature, kind, headline, words", "zguard_former": "tenant, former, signature"}
    own = {table: store.rows(table, columns) for table, columns in tables.items()}
    store.close()
    other = kind(folder / "other")
    try:
        zguard("collect", "--from", folder / "all", "--to", other.address)
        for table, columns in tables.items():
            shipped = other.rows(table, columns)
            different = [pair for pair in zip(own[table], shipped) if pair[0] != pair[1]]
            assert own[table] == shipped, (table, len(own[table]), len(shipped), different[:2])
            print(f"{table}: {len(shipped):,} equal rows")
    finally:
        other.close()


class Server:
    def __init__(self, address):
        self.process = subprocess.Popen([str(ZGUARD), "serve", address, "--port", "0"], stdout=subprocess.PIPE, text=True, env=scrubbed())
        self.port = int(re.search(r"at http://127.0.0.1:(\d+)/", self.process.stdout.readline())[1])

    def get(self, path):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
            data = b""
            while part := connection.recv(1 << 20):
                data += part
        assert b" 200 " in data[:20], data[:2000]
        return data.split(b"\r\n\r\n", 1)[1].decode()

    def close(self):
        self.process.kill()
        self.process.wait()


def questions(shape, server):
    """Returns the most frequent group, and [(name, path)] of the measured pages and API requests."""
    groups = json.loads(server.get("/api/groups?limit=1000"))["groups"]
    most, rare = groups[0], groups[-1]
    middle = shape.versions[len(shape.versions) // 2]
    number = shape.groups[30]["number"]
    name = f"{CLASSES[number % 10]}{number // 10}"
    pages = [("first page", "/")]
    pages += [(f"first page, {order}", f"/?order={order}") for order in ("last", "new")]
    pages += [(f"state {state}", f"/?state={state}") for state in ("all", "muted", "resolved", "regression")]
    pages += [("page 40", "/?page=40"), ("search: a word", f"/?q={name.lower()}"), ("search: three words", "/?q=shop+use+cart"),
              ("search: nothing found", "/?q=nowhere"), ("kind", "/?kind=double-free"), ("host", f"/?host={shape.hosts[7]}"),
              ("program", "/?program=shopd"), ("program, 30 days", "/?program=shopd&since=30d"), ("since 1d", "/?since=1d"),
              ("since 30d", "/?since=30d"), ("since 200d", "/?since=200d"), ("since 399d", "/?since=399d"),
              ("new since a version", f"/?new={middle}"),
              ("host, 30 days", f"/?host={shape.hosts[7]}&since=30d"),
              ("class", f"/?q=class:{name}"), ("member", "/?q=member:total"), ("function", f"/?q=function:{name}.use"),
              ("version", f"/?q=version:{middle}"), ("until 100 days ago", f"/?q=until:{moment(shape.today - 100 * DAY)[:10]}"),
              ("three terms", "/?q=class:cart+program:shop+since:30d"),
              ("most frequent group", f"/group/{most['signature']}"), ("rare group", f"/group/{rare['signature']}"),
              ("group, last finding", f"/group/{most['signature']}?finding={most['findings']}"), ("metrics", "/metrics"),
              ("api: groups", "/api/groups"), ("api: groups, 1,000", "/api/groups?limit=1000"),
              ("api: groups, page 45", "/api/groups?page=45"),
              ("api: findings", f"/api/groups/{most['signature']}/findings"),
              ("api: findings, middle", f"/api/groups/{most['signature']}/findings?page={most['findings'] // 200}"),
              ("api: findings, last page", f"/api/groups/{most['signature']}/findings?page={most['findings'] // 100}")]
    return most, pages


def timed(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def measure(store, shape, arguments, figures):
    def say(what, *seconds):
        figures[what] = seconds
        print(f"{what:<36}" + "".join(f" {one:9.3f} s" for one in seconds), flush=True)

    server = Server(store.address)
    try:
        most, pages = questions(shape, server)
        for what, path in pages:
            if arguments.only and arguments.only not in what:
                continue
            server.close()
            server = Server(store.address)
            times = [timed(lambda path=path: server.get(path))]
            times += [timed(lambda path=path: server.get(path)) for _ in range(arguments.rounds if times[0] < 5 else 1)]
            say(what, times[0], statistics.median(times[1:]))
    finally:
        server.close()
    if arguments.only:
        return
    commands = {"report, all groups": ["report", "--format", "json"],
                "report --signature": ["report", "--format", "json", "--signature", most["signature"]],
                "report --since 7d": ["report", "--format", "json", "--since", "7d"], "triage": ["triage"]}
    for what, (command, *flags) in commands.items():
        runs = [timed(lambda: zguard(command, store.address, *flags)) for _ in range(1 + arguments.rounds)]
        say(what, runs[0], statistics.median(runs[1:]))


def ship(store, shape, arguments, folder, figures):
    """Measures the rate of one shipper, on a filled store."""
    lines = []
    for number in range(arguments.shipped):
        group = shape.groups[min(len(shape.groups) - 1, int(len(shape.groups) ** shape.random.random()) - 1)]
        one = shape.template(group)
        one["pid"], one["time"] = number, moment(shape.today + number % 3600)
        one["origin"].update(id=uuid.UUID(int=shape.random.getrandbits(126)).hex, version=shape.versions[-1],
                             host=shape.random.choice(shape.hosts))
        lines.append(json.dumps(one, separators=(",", ":")))
    for turn in range(3):
        part = lines[turn::3]
        write_reports(folder / f"more{turn}", part)
        seconds = timed(lambda turn=turn: zguard("collect", "--from", folder / f"more{turn}", "--to", store.address))
        figures[f"shipped {turn}"] = (len(part) / seconds,)
        print(f"shipped {len(part):,}: {len(part) / seconds:,.0f} a second", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=float, default=10e6)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--versions", type=int, default=50)
    parser.add_argument("--days", type=int, default=399)
    parser.add_argument("--shipped", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="sqlite")
    parser.add_argument("--folder", type=Path, help="where the store is made (default: a temporary folder)")
    parser.add_argument("--only", default="", help="only pages whose name contains this")
    parser.add_argument("--on", metavar="ADDRESS", help="measure a store that --keep has left, instead of filling one")
    parser.add_argument("--keep", action="store_true", help="leave the store, and the server of PostgreSQL, for --on")
    parser.add_argument("--no-upgrade", action="store_true", help="for an older zguard: ship nothing before measuring")
    parser.add_argument("--check", action="store_true", help="compare the tables with those of shipped findings")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    kind = PostgresStore if arguments.store == "postgresql" else SQLiteStore
    folder = Path(tempfile.mkdtemp(prefix="zguard-bench-", dir=arguments.folder))
    shape = Shape(arguments, int(time.time()) // DAY * DAY)
    figures = {}
    store = Filled(arguments.on) if arguments.on else kind(folder)
    try:
        if arguments.check:
            return check(store, shape, arguments, folder, kind)
        if not arguments.on:
            seconds = timed(lambda: fill(store, shape, arguments, folder))
            print(f"filled in {seconds:.0f} s, {store.size() / 1e9:.1f} GB: {store.address}", flush=True)
        if arguments.keep:
            return None
        if not arguments.no_upgrade:
            one = shape.template(shape.groups[0])
            one["origin"]["id"] = uuid.uuid4().hex
            write_reports(folder / "upgrade", [json.dumps(one)])
            seconds = timed(lambda: zguard("collect", "--from", folder / "upgrade", "--to", store.address))
            print(f"first shipper: {seconds:.1f} s", flush=True)
        measure(store, shape, arguments, figures)
        if not arguments.only:
            ship(store, shape, arguments, folder, figures)
    finally:
        if not arguments.keep:
            store.close()
            shutil.rmtree(folder)
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
