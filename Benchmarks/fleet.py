#!/usr/bin/env python3
"""Findings of a fleet in PostgreSQL and SQLite, with millions of findings in the store.

Measures the rate of `zguard collect`, and the time of `zguard report` for all groups and for one, of the pages of `zguard serve`, and of
dropping a day. `zguard collect` ships only --shipped findings from reports. The database itself generates the rest in the same tables:
bodies have 200 bytes, and every group occurs on every day and on 50 hosts.

usage: Benchmarks/fleet.py [--findings 10e6] [--groups 20000] [--hosts 1000] [--days 14] [--shipped 100000] [--store postgresql|sqlite]"""

import argparse
import json
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Tests"))

from Fleet.store_server import Postgres, finding, moment, store_name  # noqa: E402
from Support.environment import ZGUARD, scrubbed  # noqa: E402


def timed(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def write_reports(folder, count, groups, days, now):
    folder.mkdir()
    for number in range(0, count, 500):
        lines = [json.dumps(finding(one, one * 7919 % groups, pid=one, at=now - one % days * 86400), separators=(",", ":"))
                 for one in range(number, min(number + 500, count))]
        (folder / store_name(number)).write_text("\n".join(lines) + "\n")


class PostgresStore:
    def __init__(self, folder):
        self.server = Postgres()
        self.address = self.server.address

    def fill(self, count, groups, hosts, days, today):
        def run(text):
            self.server.query(text, 3600)

        for day in range(days):
            run(f"""CREATE TABLE IF NOT EXISTS zguard_findings_{moment(today - day * 86400)[:10].replace('-', '_')} PARTITION OF zguard_findings
                    FOR VALUES FROM ('{moment(today - day * 86400)[:10]}') TO ('{moment(today - day * 86400 + 86400)[:10]}')""")
            run(f"""INSERT INTO zguard_findings SELECT 'default', lpad(to_hex(n % {groups}), 16, '0'), '{moment(today - day * 86400)[:10]}',
                        gen_random_uuid(), {(today - day * 86400) * 1000} + n % 80000000, 'host-' || (n % {groups} + (random() * 50)::int) % {hosts}, '/srv/shop/bin/shop',
                        '1.' || n % 3, '011.011.', 1, repeat('x', 200) FROM generate_series(1, {count // days}) AS n ON CONFLICT DO NOTHING""")
        run("""INSERT INTO zguard_days SELECT tenant, signature, day, program, version, version_key, count(*), sum(occurrences), min(at), max(at)
               FROM zguard_findings GROUP BY 1, 2, 3, 4, 5, 6 ON CONFLICT (tenant, signature, day, program, version) DO UPDATE SET
               findings = excluded.findings, occurrences = excluded.occurrences""")
        run("""INSERT INTO zguard_hosts SELECT tenant, signature, host, count(*), sum(occurrences), max(at) FROM zguard_findings GROUP BY 1, 2, 3
               ON CONFLICT (tenant, signature, host) DO UPDATE SET findings = excluded.findings""")
        run(f"""INSERT INTO zguard_groups SELECT 'default', lpad(to_hex(n), 16, '0'), 'use-after-free', 'read of a freed Shop.Cart' || n,
                'cart' || n, (SELECT body FROM zguard_groups LIMIT 1) FROM generate_series(0, {groups - 1}) AS n ON CONFLICT DO NOTHING""")
        run("""INSERT INTO zguard_totals SELECT tenant, signature, sum(findings), sum(occurrences), min(first_at), max(last_at), min(version),
               min(version_key) FROM zguard_days GROUP BY 1, 2 ON CONFLICT (tenant, signature) DO UPDATE SET findings = excluded.findings,
               occurrences = excluded.occurrences""")
        run("VACUUM ANALYZE zguard_days, zguard_hosts, zguard_groups, zguard_totals")
        run("ANALYZE zguard_findings")

    def count(self):
        return int(self.server.query("SELECT count(*) FROM zguard_findings")[0][0])

    def size(self):
        return int(self.server.query("SELECT pg_database_size('fleet')")[0][0])

    def close(self):
        self.server.close()


class SQLiteStore:
    def __init__(self, folder):
        self.path = folder / "fleet.db"
        self.address = f"sqlite:{self.path}"

    def fill(self, count, groups, hosts, days, today):
        with sqlite3.connect(self.path) as base:
            for day in range(days):
                date = moment(today - day * 86400)[:10]
                base.execute(f"""
                    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count // days})
                    INSERT OR IGNORE INTO zguard_findings_{date.replace('-', '_')} SELECT 'default', printf('%016x', n % {groups}), '{date}',
                        lower(hex(randomblob(16))), {(today - day * 86400) * 1000} + n % 80000000, 'host-' || ((n % {groups} + abs(random()) % 50) % {hosts}),
                        '/srv/shop/bin/shop', '1.' || (n % 3), '011.011.', 1, '{'x' * 200}' FROM n""")
                base.execute(f"""
                    INSERT OR REPLACE INTO zguard_days_{date.replace('-', '_')} SELECT tenant, signature, day, program, version, version_key,
                        count(*), sum(occurrences), min(at), max(at) FROM zguard_findings_{date.replace('-', '_')} GROUP BY 1, 2, 3, 4, 5""")
            base.execute("""INSERT OR REPLACE INTO zguard_hosts SELECT tenant, signature, host, count(*), sum(occurrences), max(at)
                            FROM zguard_findings GROUP BY 1, 2, 3""")
            base.execute("""INSERT OR REPLACE INTO zguard_totals SELECT tenant, signature, sum(findings), sum(occurrences), min(first_at),
                            max(last_at), min(version), min(version_key) FROM zguard_days GROUP BY 1, 2""")
            body = base.execute("SELECT body FROM zguard_groups LIMIT 1").fetchone()[0]
            base.execute(f"""WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {groups - 1})
                INSERT OR IGNORE INTO zguard_groups SELECT 'default', printf('%016x', n), 'use-after-free', 'read of a freed Shop.Cart' || n,
                    'cart' || n, ? FROM n""", (body,))

    def count(self):
        with sqlite3.connect(self.path) as base:
            return base.execute("SELECT count(*) FROM zguard_findings").fetchone()[0]

    def size(self):
        return self.path.stat().st_size

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=float, default=10e6)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--shipped", type=int, default=100_000)
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="zguard-bench-"))
    store = (PostgresStore if arguments.store == "postgresql" else SQLiteStore)(folder)
    environment = scrubbed()

    def zguard(*words):
        result = subprocess.run([str(ZGUARD), *map(str, words)], capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr[-600:]
        return result.stdout

    def say(what, seconds, more=""):
        print(f"{what:<44} {seconds:8.2f} s{more}", flush=True)

    try:
        now = int(time.time()) // 86400 * 86400
        write_reports(folder / "first", 1000, arguments.groups, arguments.days, now)
        zguard("collect", "--from", folder / "first", "--to", store.address)
        filled = int(arguments.findings) - arguments.shipped
        if filled > 0:
            say("filled by the database", timed(lambda: store.fill(filled, arguments.groups, arguments.hosts, arguments.days, now)))
        write_reports(folder / "more", arguments.shipped, arguments.groups, arguments.days, now + 3600)
        seconds = timed(lambda: zguard("collect", "--from", folder / "more", "--to", store.address, "--host", "host-1"))
        say(f"shipped {arguments.shipped:,}", seconds, f"  {arguments.shipped / seconds:,.0f} a second")
        print(f"{store.count():,} findings, {store.size() / 1e9:.1f} GB", flush=True)
        say("report, all groups (10,000 of them)", timed(lambda: zguard("report", "--format", "json", store.address)))
        say("report --signature", timed(lambda: zguard("report", "--format", "json", "--signature", f"{77:016x}", store.address)))
        say("report --host", timed(lambda: zguard("report", "--format", "json", "--host", "host-7", store.address)))
        say("report --since 2d", timed(lambda: zguard("report", "--format", "json", "--since", "2d", store.address)))
        process = subprocess.Popen([str(ZGUARD), "serve", store.address, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
        port = int(re.search(r"at http://127.0.0.1:(\d+)/", process.stdout.readline())[1])

        def get(path):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                data = b""
                while part := connection.recv(65536):
                    data += part
            assert b"200 OK" in data[:20], data[:2000]

        try:
            for what, path in (("first page", "/"), ("first page again", "/"), ("page of a group", f"/group/{77:016x}"), ("search", "/?q=cart777"),
                               ("new since 1.0", "/?new=1.0")):
                say(f"serve: {what}", timed(lambda path=path: get(path)))
        finally:
            process.kill()
            process.wait()
        age = f"{arguments.days - 2}d"  # drops the oldest day
        (folder / "none").mkdir()
        say("dropping a day", timed(lambda: zguard("collect", "--from", folder / "none", "--to", store.address, "--keep-age", age)))
        print(f"{store.count():,} findings are left")
    finally:
        store.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
