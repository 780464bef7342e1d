#!/usr/bin/env python3
"""Tests searches and large stores: words and terms in every kind of store, paging through a group's findings, counts by week, and stores
that an earlier version has made and still fills. Closing line: N passed, N failed."""

import argparse
import json
import re
import sqlite3
import sys
import time
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet import fleet  # noqa: E402
from Fleet.fleet import Work, exactly_once  # noqa: E402
from Fleet.serve import Served  # noqa: E402
from Fleet.store_server import finding, write_report  # noqa: E402

DAY = 86400
WEEKS = "SELECT tenant, signature, program, version, sum(findings), sum(occurrences) FROM {} GROUP BY 1, 2, 3, 4"


def signature(group):
    return f"{group:016x}"


def rows(place, statement):
    if place.startswith("sqlite:"):
        with sqlite3.connect(place[7:], timeout=60) as base:
            return sorted(tuple(map(str, row)) for row in base.execute(statement))
    return sorted(map(tuple, fleet.server.query(statement)))


def run(place, script):
    if place.startswith("sqlite:"):
        with sqlite3.connect(place[7:], timeout=60) as base:
            base.executescript(script)
    else:
        fleet.server.query(script)


def counted_by_week(place):
    """Checks that the counts by week equal the counts by day. Returns the number of findings."""
    weeks = rows(place, WEEKS.format("zguard_weeks") + " HAVING sum(findings) > 0")
    days = rows(place, WEEKS.format("zguard_days"))
    assert weeks == days, (place, [pair for pair in zip(weeks, days) if pair[0] != pair[1]][:3])
    wrong = "date(week, 'weekday 1') <> week" if place.startswith("sqlite:") else "extract(isodow FROM week) <> 1"
    assert rows(place, f"SELECT week FROM zguard_weeks WHERE {wrong}") == [], place
    return sum(int(row[4]) for row in weeks)


def forget(place):
    """Drops the tables, triggers and indexes that earlier versions did not have."""
    if place.startswith("sqlite:"):
        triggers = rows(place, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
        assert triggers, place
        run(place, "".join(f"DROP TRIGGER {name};" for (name,) in triggers))
        run(place, "DROP TABLE zguard_weeks; DROP TABLE zguard_names; DROP INDEX zguard_groups_by_kind")
    else:
        run(place, """DROP TABLE zguard_weeks, zguard_names; DROP FUNCTION zguard_count_weeks CASCADE; DROP INDEX zguard_groups_by_kind;
            DROP INDEX zguard_days_by_day""")


def fill(work):
    """Writes reports of two machines, two versions and five groups over 200 days. Returns the machines' folders and the finding count."""
    now = int(time.time())
    machines = [work.path / name for name in ("web-1", "web-2")]
    number = 0
    for index, folder in enumerate(machines):
        for group in range(5):
            for age in range(group, 200, 7 + 9 * group + index):
                number += 1
                block = {"start": "0x7f0000001000", "size": 48, "offset": 0, "state": "quarantined", "language": "swift",
                         "class": ["Shop.Cart", "Shop.Cartoon", "Feed.Item", "Shop.Order", "std::vector<int>"][group],
                         "member": ["total", "add(_:)"][group % 2]}
                program = ["/srv/shop", "/srv/till"][group % 2]
                one = finding(number, group, pid=number, at=now - age * DAY - 60, block=block, program=program)
                one["origin"] = {"host": folder.name, "version": ["1.9", "1.10"][age < 60]}
                write_report(folder, number, [one])
    return machines, number


QUESTIONS = ["", "cart", "shop.cart", "CART use1", "class:Cart", "class:shop.cartoo", 'class:"Cart"', "class:vector", "class:Art",
             "member:tot", 'member:"add(_:)"', "function:use3", "function:se3", "host:web-2", "host:web-3", "program:till", "version:1.9",
             "version:1.10 program:shop", "kind:use-after-free", "kind:crash", "since:30d", "since:150d", "since:3d class:Cart",
             "member:add version:1.10 host:web-1", "nobody"]


def same_answers(work):
    """Every search has the same answer in every store, from `zguard report --search`, the page, and JSON."""
    machines, count = fill(work)
    answers = {}
    for place in work.places():
        for folder in machines:
            work.collect(place, source=folder)
        if ":" in place:
            exactly_once(place, count)
            assert counted_by_week(place) == count
        answers[place] = [sorted(work.findings(place, *(["--search", text] if text else []))) for text in QUESTIONS]
        with Served(work, place) as served:
            for text, answer in zip(QUESTIONS, answers[place]):
                page = served.get("/?state=all&q=" + quote(text))
                shown = re.findall(r'<li class="g"><a href="/group/([0-9a-f]{16})', page)
                assert sorted(shown) == answer, (place, text, sorted(shown), answer)
                said = json.loads(served.get("/api/groups?q=" + quote(text)).split("\r\n\r\n", 1)[1])
                assert sorted(one["signature"] for one in said["groups"]) == answer and said["count"] == len(answer), (place, text)
            # The search box shows other query parameters as terms.
            page = served.get("/?state=all&class=Cart&host=web-1&q=use0")
            assert 'value="use0 class:Cart host:web-1"' in page and page.count('<li class="g">') == 1, page[:3000]
            assert "since, until: expected an age" in served.get("/?q=since:never"), place
            assert "until: expected" in served.get("/?until=never"), place
    (first, *others) = answers.items()
    for place, answer in others:
        for text, own, other in zip(QUESTIONS, first[1], answer):
            assert own == other, f"{text}: {place} says {other}, the directory {own}"
    said = dict(zip(QUESTIONS, first[1]))
    group = [signature(number) for number in range(5)]
    assert said["class:Cart"] == said["cart"] == group[:2] and said['class:"Cart"'] == group[:1], said
    assert said["class:vector"] == group[4:], said
    assert said["function:use3"] == [group[3]], said
    assert said["function:se3"] == said["class:Art"] == said["host:web-3"] == said["nobody"] == [], said
    assert said["program:till"] == said['member:"add(_:)"'] == [group[1], group[3]] and said["version:1.9"] == group, said


def periods(work):
    """The counts of any period equal the sums over its days, whether the server adds up weeks or days."""
    machines, _ = fill(work)
    now = int(time.time())
    for place in work.places()[1:]:
        for folder in machines:
            work.collect(place, source=folder)
        with Served(work, place) as served:
            for first, last in ((0, 0), (1, 0), (3, 2), (6, 0), (13, 5), (20, 0), (21, 7), (30, 8), (100, 31), (199, 0), (199, 150)):
                days = [time.strftime("%Y-%m-%d", time.gmtime(now - age * DAY)) for age in (first, last)]
                said = json.loads(served.get(f"/api/groups?since={days[0]}&until={days[1]}&limit=1000").split("\r\n\r\n", 1)[1])
                own = {(one["signature"], str(one["findings"]), str(one["count"])) for one in said["groups"]}
                wanted = set(rows(place, f"""SELECT signature, sum(findings), sum(occurrences) FROM zguard_days
                    WHERE day >= '{days[0]}' AND day <= '{days[1]}' GROUP BY signature"""))
                assert own == wanted, (place, days, own ^ wanted)


def pages_of_findings(work):
    """Pages list all findings of a group, the latest first, each once. HTML pages link to the previous and the next page."""
    now = int(time.time())
    total = 57
    for number in range(total):
        one = finding(number, 1, pid=number, at=now - (number * number % 19) * DAY - number)
        one["origin"] = {"host": f"web-{number}", "version": f"1.{number % 5}"}
        write_report(work.source, number, [one])
    write_report(work.source, 500, [finding(500, 2, pid=500, at=now)])
    for place in work.places():
        work.collect(place)
        with Served(work, place) as served:
            def lines(page, limit, served=served):
                text = served.get(f"/api/groups/{signature(1)}/findings?limit={limit}&page={page}").split("\r\n\r\n", 1)[1]
                return [json.loads(line) for line in text.splitlines()]

            found = [one for page in range(1, 10) for one in lines(page, 7)]
            assert len(found) == total and len({one["origin"]["id"] for one in found}) == total, (place, len(found))
            times = [one["time"] for one in found]
            assert times == sorted(times, reverse=True), (place, times)
            assert lines(9, 7)[0] == found[56] and lines(10, 7) == lines(100_000, 7) == [] and lines(1, 1000) == found, place
            # The page.
            first = served.get(f"/group/{signature(1)}")
            assert f"Finding 1 of {total}" in first and 'rel="prev"' not in first, first[-3000:]
            seen, number = [], 1
            while number:
                page = served.get(f"/group/{signature(1)}?finding={number}")
                (row,) = re.findall(r'<tr aria-current="true"><td>.*?<time>(.*?)</time><td>(.*?)<td>(.*?)\s', page)
                seen.append(row[1])
                following = re.search(r'finding=(\d+)[^"]*" rel="next"', page)
                number = int(following[1]) if following else None
            assert seen == [one["origin"]["host"] for one in found], (place, seen)
            for wrong in ("0", "x", "99999999999999999999", "-1"):
                assert " 200 " in served.get(f"/group/{signature(1)}?finding={wrong}")[:20]
            assert f"Finding {total} of {total}" in served.get(f"/group/{signature(1)}?finding=99999")


def heat_maps(work):
    machines, _ = fill(work)
    for place in work.places()[1:]:
        for folder in machines:
            work.collect(place, source=folder)
        with Served(work, place) as served:
            assert 'class="heat"' not in served.get("/")
            for path in ("/?q=program:shop", f"/group/{signature(0)}"):
                page = served.get(path)
                table = page[page.index('<table class="heat">'):]
                table = table[:table.index("</table>")]
                cells = re.findall(r'title="(1\.\d+), week of (\d{4}-\d\d-\d\d): (\d+)"', table)
                groups = "('%s')" % "','".join(map(signature, (0, 2, 4) if "program" in path else (0,)))
                wanted = rows(place, f"""SELECT version, week, sum(occurrences) FROM zguard_weeks
                    WHERE signature IN {groups} GROUP BY version, week""")
                assert sorted(cells) == wanted, (place, path, set(cells) ^ set(wanted))
                assert re.findall(r'<th scope="row" title="(.*?)"', table) == ["1.10", "1.9"], table[:2000]


def earlier_stores(work):
    """A store of an earlier version answers queries, and the first shipper upgrades it, while shippers of the earlier version continue."""
    machines, count = fill(work)
    for place in work.places()[1:]:
        work.collect(place, source=machines[0])
        forget(place)
        asked = ["", "cart", "host:web-1", "program:till", "version:1.9", "since:30d", "kind:use-after-free"]

        def answers(place=place):
            return [work.findings(place, *(["--search", text] if text else [])) for text in asked]

        before = answers()
        # Without table zguard_names, names are searched for in column `words` of zguard_groups.
        assert sorted(work.findings(place, "--search", "class:Cart")) == [signature(0), signature(1)], place
        with Served(work, place) as served:
            for path in ("/", "/?q=program:shop", f"/group/{signature(0)}?finding=5", "/metrics", "/api/groups?since=30d&until=2d"):
                assert " 200 " in served.get(path)[:20], (place, path)
            # The first shipper of this version runs while the store is served.
            for path in machines[0].glob(".zguard-collect-*"):
                path.unlink()
            work.collect(place, source=machines[0])
            assert counted_by_week(place) > 0
            assert served.get("/?state=all&q=class:%22Cart%22").count('<li class="g">') == 1, place
        assert answers() == before, place
        # A shipper of the earlier version adds a group and, in SQLite, a day's table without triggers, so this day is not counted by week.
        extra = [finding(9000, 77, at=int(time.time()) - 170 * DAY, pid=9000)]
        folder = work.path / f"extra-{place.split(':')[0]}"
        write_report(folder, 1, extra)
        work.collect(place, source=folder)
        run(place, f"DELETE FROM zguard_names WHERE signature = '{signature(77)}'")
        if place.startswith("sqlite:"):
            suffix = time.strftime("%Y_%m_%d", time.gmtime(time.time() - 170 * DAY))
            run(place, f"DROP TRIGGER zguard_days_{suffix}_added; DROP TRIGGER zguard_days_{suffix}_changed")
            change = f"""UPDATE zguard_days_{suffix} SET findings = findings %s 1, occurrences = occurrences %s 1
                WHERE signature = '{signature(77)}'"""
            run(place, change % ("+", "+"))
            (one,) = work.findings(place, "--search", "since:300d program:shop", "--signature", signature(77)).values()
            assert one["count"] == 2, one
            run(place, change % ("-", "-"))
        work.collect(place, source=machines[1])
        assert counted_by_week(place) == count + 1
        exactly_once(place, count + 1)
        assert sorted(work.findings(place, "--search", "class:Cart77")) == [signature(77)], place
        # Retention also deletes the counts by week and the names.
        work.collect(place, "--keep-age", "25d", source=machines[1])
        assert 0 < counted_by_week(place) < count
        gone = "SELECT count(*) FROM zguard_names WHERE signature NOT IN (SELECT signature FROM zguard_totals)"
        assert rows(place, gone) == [("0",)], place


def few_rights(work):
    """A role with only INSERT, SELECT and UPDATE can ship findings. A role with only SELECT on the earlier version's tables can read."""
    machines, _ = fill(work)
    fleet.server.clear()
    owner = fleet.server.address
    work.collect(owner, source=machines[0])
    count = len(list(machines[0].glob("*.jsonl")))
    # Use a day whose table exists, because the role `shipper` may not create tables.
    recent = int(time.time()) - 60
    tables = "zguard_findings, zguard_days, zguard_hosts, zguard_groups, zguard_totals, zguard_former"
    try:
        # Tables and grants are those of an earlier version.
        forget(owner)
        run(owner, f"""CREATE ROLE shipper LOGIN; CREATE ROLE viewer LOGIN; GRANT INSERT, SELECT, UPDATE ON {tables} TO shipper;
            GRANT SELECT ON {tables} TO viewer; REVOKE CREATE ON SCHEMA public FROM PUBLIC""")
        shipping, reading = (owner.replace("fleet@", name + "@") for name in ("shipper", "viewer"))
        before = work.findings(reading)
        write_report(work.path / "zero", 1, [finding(9000, 1, at=recent)])
        work.collect(shipping, source=work.path / "zero")
        exactly_once(owner, count + 1)
        # The owner's shipper upgrades the store. From then on, the findings of the other role are counted by week, too.
        write_report(work.path / "one", 1, [finding(9001, 1, at=recent)])
        work.collect(owner, source=work.path / "one")
        assert counted_by_week(owner) == count + 2
        write_report(work.path / "two", 2, [finding(9002, 78, at=recent), finding(9003, 1, at=recent)])
        work.collect(shipping, source=work.path / "two")
        assert counted_by_week(owner) == count + 4
        assert set(work.findings(reading)) == set(before) | {signature(78)}
        assert sorted(work.findings(reading, "--search", "class:cart program:shop since:100d")) == sorted(
            work.findings(owner, "--search", "cart program:shop since:100d")), "a role without the new tables"
        run(owner, "GRANT SELECT ON zguard_weeks, zguard_names TO viewer")
        assert work.findings(reading, "--search", "since:100d") == work.findings(owner, "--search", "since:100d")
    finally:
        run(owner, "DROP OWNED BY shipper, viewer; DROP ROLE shipper, viewer; GRANT CREATE ON SCHEMA public TO PUBLIC")


TESTS = [("same answers", same_answers), ("periods", periods), ("pages of findings", pages_of_findings), ("heat maps", heat_maps),
         ("earlier stores", earlier_stores), ("few rights", few_rights)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    arguments = parser.parse_args()
    return fleet.run_with_server(TESTS, "zguard-search-", arguments.only, Work)


if __name__ == "__main__":
    sys.exit(main())
