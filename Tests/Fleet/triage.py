#!/usr/bin/env python3
"""Tests `zguard triage` in directories, SQLite and PostgreSQL: states, regressions, mutes, and what reports and pages say of them.
Closing line: N passed, N failed.

Every case runs in each of the three stores. Writers are killed at random moments: a decision is stored whole or not at all, and an
acknowledged decision exactly once."""

import argparse
import concurrent.futures
import json
import os
import pwd
import random
import subprocess
import sys
import time
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet.fleet import Work as FleetWork  # noqa: E402
from Fleet.serve import Served  # noqa: E402
from Fleet import fleet  # noqa: E402
from Fleet.store_server import finding, write_report  # noqa: E402
from Support.environment import ROOT, ZGUARD  # noqa: E402

HOSTILE = "'; DROP TABLE zguard_triage; --\n\x1b[31m<script>\"&"


def signature(group):
    return f"{group:016x}"


class Work(FleetWork):
    number = 0

    def seen(self, place, group, version=None, count=1, ago=3600, tenant=None, **more):
        """Puts findings of a group into a store."""
        at = int(time.time()) - ago
        new = []
        for _ in range(count):
            self.number += 1
            origin = {"host": "a", **({"version": version} if version else {}), **({"tenant": tenant} if tenant else {})}
            new.append(finding(self.number, group, pid=self.number, at=at, origin=origin, **more))
        if "://" in place or place.startswith("sqlite:"):
            source = self.path / f"from{self.number}"
            write_report(source, self.number, new)
            self.collect(place, source=source)
        else:
            write_report(Path(place), self.number, new)

    def triage(self, place, *words, **how):
        return self.run("triage", place, *words, **how)

    def states(self, place, *flags):
        said = self.triage(place, "--format", "json", "--limit", "1000", *flags)
        return {one["signature"]: one for one in map(json.loads, said.stdout.splitlines())}

    def state(self, place, group, *flags):
        return self.states(place, *flags)[signature(group)]["state"]


def everywhere(case):
    def test(work):
        for place in work.places():
            case(work, place)
    return test


@everywhere
def a_life(work, place):
    work.seen(place, 1, "1.9")
    work.seen(place, 2, "1.9", count=3)
    assert {one["state"] for one in work.states(place).values()} == {"open"}
    assert work.triage(place).stdout.splitlines()[0].split() == ["state", "signature", "seen", "last", "assigned", "finding"]
    work.triage(place, "resolve", signature(1), "--in", "1.10", "--author", "anna", "--comment", "a null check")
    work.triage(place, "assign", signature(1), "--to", "bob", "--author", "anna")
    work.triage(place, "comment", signature(1), "--comment", "looks good", "--author", "bob")
    one = work.states(place)[signature(1)]
    assert one["state"] == "resolved" and one["assigned"] == "bob", one
    assert one["triage"].startswith("resolved in 1.10 by anna on ") and one["triage"].endswith("; assigned to bob"), one
    assert work.state(place, 2) == "open"
    # A finding in an older program version is no regression. A finding in a later one is, and the text names that version.
    work.seen(place, 1, "1.9", ago=-2)
    assert work.state(place, 1) == "resolved"
    work.seen(place, 1, "1.11", ago=-2)
    one = work.states(place, "--state", "regression")
    assert set(one) == {signature(1)} and "resolved in 1.10 by anna" in one[signature(1)]["triage"], one
    assert "seen again in 1.11" in one[signature(1)]["triage"], one
    shown = work.triage(place, "show", signature(1)).stdout
    for text in ("anna resolved it in 1.10: a null check", "anna assigned it to bob", "bob wrote: looks good"):
        assert text in shown, shown
    # What reports say.
    said = work.run("report", place)
    assert "==zguard== regression: resolved in 1.10 by anna" in said.stdout, said.stdout[-800:]
    assert set(work.findings(place, "--state", "regression")) == {signature(1)}
    assert set(work.findings(place, "--state", "open,muted")) == {signature(2)}
    assert work.findings(place)[signature(1)]["triage"]["state"] == "regression"
    assert "triage" not in work.findings(place)[signature(2)]
    work.triage(place, "reopen", signature(1))
    work.triage(place, "assign", signature(1), "--to", "nobody")
    one = work.states(place)[signature(1)]
    assert one["state"] == "open" and "assigned" not in one, one


@everywhere
def without_versions(work, place):
    work.seen(place, 1)
    work.triage(place, "resolve", signature(1))
    assert work.state(place, 1) == "resolved"
    # A finding from before the decision is no regression if it arrives late.
    work.seen(place, 1, ago=60)
    assert work.state(place, 1) == "resolved"
    work.seen(place, 1, ago=-2)
    assert work.state(place, 1) == "regression"


@everywhere
def mutes(work, place):
    for group in (1, 2, 3, 4):
        work.seen(place, group, "1.9")
    work.triage(place, "mute", signature(1))
    work.triage(place, "mute", signature(2), "--until-count", "2")
    work.triage(place, "mute", signature(3), "--until-version", "2.0")
    work.triage(place, "mute", signature(4), "--until", "2d")
    assert {one["state"] for one in work.states(place).values()} == {"muted"}
    rules = work.path / "rules"
    rules.write_text(work.triage(place, "suppressions").stdout)
    assert not work.findings(place, "--suppressions", rules), "rules from muted groups hide them"
    for group in (1, 2, 3):
        work.seen(place, group, "1.10", ago=-2)
    # Findings from before the decision do not count for --until-count, if they arrive late or belong to a group that joins this one.
    work.seen(place, 2, "1.10", count=3, ago=60)
    work.seen(place, 5, "1.10", count=3, ago=60)
    work.seen(place, 2, "1.9", ago=120, former_signatures=[signature(5)])
    assert [work.state(place, group) for group in (1, 2, 3)] == ["muted", "muted", "muted"]
    work.seen(place, 2, "1.10", ago=-2)
    work.seen(place, 3, "2.0", ago=-2)
    assert [work.state(place, group) for group in (1, 2, 3)] == ["muted", "open", "open"]
    assert "open: was muted until version 2.0" in work.states(place)[signature(3)]["triage"]
    assert " until 20" in work.states(place)[signature(4)]["triage"]


@everywhere
def hostile_words(work, place):
    work.seen(place, 1, HOSTILE)
    work.triage(place, "resolve", signature(1), "--in", HOSTILE, "--author", HOSTILE, "--comment", HOSTILE + "x" * 100_000)
    for words in (("show", signature(1)), ()):
        said = work.triage(place, *words).stdout
        assert "\x1b" not in said and said.count("\n") <= 5, said[:600]
    assert work.state(place, 1) == "resolved"
    said = work.triage(place, "resolve", HOSTILE, status=1)
    assert "has no group with the signature" in said.stderr and "\x1b" not in said.stderr, said.stderr
    with Served(work, place) as served:
        for path in ("/?state=all", f"/group/{signature(1)}", "/metrics", "/api/groups"):
            page = served.get(path)
            assert " 200 " in page[:20] and "<script>\"" not in page.split("\r\n\r\n", 1)[1] and "\x1b" not in page, page[-2000:]


@everywhere
def tenants(work, place):
    work.seen(place, 1, "1.9", tenant="red")
    work.seen(place, 1, "1.9", tenant="blue")
    if not Path(place).is_dir():
        work.triage(place, "mute", signature(1), "--tenant", "red")
        assert work.state(place, 1, "--tenant", "red") == "muted" and work.state(place, 1, "--tenant", "blue") == "open"
        work.triage(place, "mute", signature(1), status=1)


@everywhere
def wrong_words(work, place):
    work.seen(place, 1)
    for words, text in ((("resolved", signature(1)), "did you mean 'resolve'?"), (("mute",), "needs the signature"),
                        (("assign", signature(1)), "needs --to NAME"), (("comment", signature(1)), "needs --comment TEXT"),
                        (("mute", signature(1), "--in", "1"), "is for 'zguard triage STORE resolve'"),
                        (("mute", signature(1), "--until", "yesterday"), "a date that is to come"),
                        (("mute", signature(1), "--until", "2001-01-01"), "a date that is to come"),
                        (("mute", signature(1), "--until-count", "0"), "expected a number from 1 on"),
                        (("mute", signature(1), "--until", "1d", "--until-count", "1"), "exclude each other"),
                        (("--state", "closed"), "expected some of open, regression, muted, resolved"),
                        (("mute", signature(1), "--until", "0d"), "a date that is to come"),
                        (("--state", "open,"), "expected some of open"), (("show", signature(1), "--author", "a"), "is for a decision"),
                        (("mute", signature(1), "--format", "json"), "is for 'list' and 'show'"),
                        (("list", signature(1)), "unexpected operand")):
        said = work.triage(place, *words, status=64)
        assert text in said.stderr, (words, said.stderr)
    assert work.state(place, 1) == "open"


@everywhere
def several_at_once(work, place):
    for group in range(4):
        work.seen(place, group)
    said = work.triage(place, "resolve", signature(0), signature(1), signature(0), signature(3)).stdout
    assert [line.split(":")[0] for line in said.splitlines()] == [signature(group) for group in (0, 1, 3)], said
    assert [work.state(place, group) for group in range(4)] == ["resolved", "resolved", "open", "resolved"]
    # Nothing is decided if one of the signatures is unknown.
    work.triage(place, "reopen", signature(0), signature(9), status=1)
    assert work.state(place, 0) == "resolved"
    assert len(work.triage(place, "show", signature(0)).stdout.splitlines()) == 4


@everywhere
def earlier_signatures(work, place):
    """A decision about an earlier signature of a group holds for the group, even after the findings with that signature are pruned."""
    def seen(number, group, former=(), ago=3600):
        one = finding(number, group, pid=number, at=int(time.time()) - ago, origin={"host": "a"})
        one["former_signatures"] = [signature(each) for each in former]
        source = Path(place) if Path(place).is_dir() else work.path / f"former{number}"
        write_report(source, number, [one])
        if source != Path(place):
            work.collect(place, source=source)

    Path(place).mkdir() if "://" not in place and not place.startswith("sqlite:") else None
    seen(1, 1)
    work.triage(place, "mute", signature(1))
    assert work.state(place, 1) == "muted"
    stored = finding(2, 2)
    del stored["signature"]
    said = work.run("report", "--format", "json", write_report(work.path / "one", 2, [stored])).stdout
    now, before = json.loads(said)["signature"], json.loads(said)["former_signatures"][0]
    # A finding without a signature gets the signature of the present version. It is also found by its signature of the earlier version.
    new = finding(3, 2, pid=3, at=int(time.time()) - 60, origin={"host": "a"})
    del new["signature"]
    source = Path(place) if Path(place).is_dir() else work.path / "new"
    write_report(source, 3, [new])
    if source != Path(place):
        work.collect(place, source=source)
    assert work.states(place)[now]["state"] == "open"
    work.triage(place, "mute", before)
    assert work.states(place)[now]["state"] == "muted", (now, before)
    assert work.findings(place, "--state", "muted")[now]["triage"]["state"] == "muted"


def another_user(work):
    """A user sees, and can change, decisions that root has made in the user's directory."""
    if os.geteuid() != 0:
        return
    place = work.path / "theirs"
    work.seen(str(place), 1)
    account = pwd.getpwnam("nobody")
    work.path.chmod(0o711)
    for path in (place, *place.iterdir()):
        os.chown(path, account.pw_uid, account.pw_gid)
    work.triage(place, "mute", signature(1))
    as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def theirs(*words):
        return subprocess.run([str(ZGUARD), "triage", str(place), *words], capture_output=True, text=True, env=work.environment,
                              stdin=subprocess.DEVNULL, cwd="/", **as_user)

    assert "muted" in theirs().stdout, theirs()
    result = theirs("reopen", signature(1))
    assert result.returncode == 0 and work.state(place, 1) == "open", result
    # The file of decisions is unreadable, a symbolic link, a FIFO, or damaged.
    kept = place / ".zguard-triage"
    kept.chmod(0)
    assert theirs().returncode == 0 and "open" in theirs().stdout and "may not be read" in theirs().stderr, theirs()
    result = subprocess.run([str(ZGUARD), "report", str(place), "--state", "regression"], capture_output=True, text=True, env=work.environment,
                            stdin=subprocess.DEVNULL, cwd="/", **as_user)
    assert result.returncode == 1 and "may not be read" in result.stderr and "no findings" not in result.stdout, result
    kept.unlink()
    kept.symlink_to("/etc/passwd")
    assert work.state(place, 1) == "open"
    work.triage(place, "mute", signature(1), status=1)
    kept.unlink()
    os.mkfifo(kept)
    assert work.state(place, 1) == "open"
    kept.unlink()
    kept.write_bytes(os.urandom(100_000) + b"\n{\"schema\":\"zguard.triage/1\"}\n" + b"[" * 100_000 + b"\n")
    assert work.state(place, 1) == "open"
    work.triage(place, "mute", signature(1))
    assert work.state(place, 1) == "muted"


def without_sqlite(work):
    """If the triage states cannot be read, reports show no state."""
    place = work.path / "kept"
    work.seen(str(place), 1)
    work.triage(place, "mute", signature(1))
    fake = work.path / "libsqlite3.so.0"
    fake.write_bytes(b"no library")
    said = work.run("report", place, "--state", "open", status=1, LD_LIBRARY_PATH=str(work.path))
    assert "cannot be read" in said.stderr and "use-after-free" not in said.stdout, said
    said = work.run("report", place, LD_LIBRARY_PATH=str(work.path))
    assert "cannot be read" in said.stderr and "use-after-free" in said.stdout, said


def killed_writers(work):
    seed = random.randrange(1 << 30)
    print(f"       seed {seed}")
    chance = random.Random(seed)
    for place in work.places():
        for group in range(4):
            work.seen(place, group)

        def decide(number, pause):
            process = subprocess.Popen([str(ZGUARD), "triage", place, "comment", signature(number % 4), "--comment", f"number {number}."],
                                       env=work.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                _, errors = process.communicate(timeout=pause)
                assert process.returncode == 0, errors[-600:]
                return number
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return None

        began = time.monotonic()
        assert decide(0, 60) == 0
        usual = time.monotonic() - began
        pauses = [chance.uniform(usual / 3, usual * 4) for _ in range(WRITERS)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = {number for number in pool.map(decide, range(1, WRITERS + 1), pauses) if number is not None} | {0}
        shown = "".join(work.triage(place, "show", signature(group)).stdout for group in range(4))
        kept = [int(line.split("number ")[1].rstrip(".")) for line in shown.splitlines() if "number " in line]
        assert len(kept) == len(set(kept)), f"{place}: decisions are there twice: {sorted(kept)}"
        assert done <= set(kept), f"{place}: acknowledged decisions are lost: {done - set(kept)}"
        print(f"       {place.split(':')[0][-12:]}: {len(done)} acknowledged, {len(kept)} kept, of {WRITERS + 1}")


@everywhere
def pages(work, place):
    for group in range(5):
        work.seen(place, group, "1.9", count=group + 1)
    work.triage(place, "resolve", signature(1), "--in", "1.10", "--comment", "a null check")
    work.triage(place, "mute", signature(2))
    work.triage(place, "resolve", signature(3), "--in", "1.10")
    work.seen(place, 3, "1.11", ago=-2)
    with Served(work, place) as served:
        def listed(path):
            return served.get(path).count('<li class="g">')

        def api(path, status=200):
            head, body = served.get(path).split("\r\n\r\n", 1)
            assert f" {status} " in head[:20] and "application/json" in head, head
            return json.loads(body)

        assert [listed(path) for path in ("/", "/?state=all", "/?state=muted", "/?state=resolved", "/?state=regression")] == [3, 5, 1, 1, 1]
        assert "state: expected one of" in served.get("/?state=closed")
        assert '<span class="state regression">' in served.get("/")
        page = served.get(f"/group/{signature(1)}")
        assert "resolved it in 1.10: a null check" in page and '<span class="state resolved">' in page, page[-3000:]
        # Metrics of the store.
        numbers = dict(line.rsplit(" ", 1) for line in served.get("/metrics").split("\r\n\r\n", 1)[1].splitlines() if not line.startswith("#"))
        assert {state: numbers[f'zguard_store_groups{{state="{state}"}}'] for state in ("open", "regression", "muted", "resolved")} == {
            "open": "2", "regression": "1", "muted": "1", "resolved": "1"}, numbers
        key = 'zguard_store_occurrences{kind="use-after-free",program="/srv/shop/bin/shop",version="1.9"}'
        assert numbers[key] == "15" and sum(int(value) for name, value in numbers.items() if name.startswith("zguard_store_findings")) == 16, numbers
        # JSON, as docs/fleet.openapi.json describes it.
        everything = api("/api/groups")
        described(everything, "/api/groups")
        assert everything["count"] == 5 and len(everything["groups"]) == 5 and "next" not in everything, everything
        walked, page = [], 1
        while page:
            part = api(f"/api/groups?limit=2&page={page}")
            walked += [one["signature"] for one in part["groups"]]
            page = part.get("next")
        assert sorted(walked) == [signature(group) for group in range(5)], walked
        assert [one["signature"] for one in api("/api/groups?state=regression")["groups"]] == [signature(3)]
        one = api(f"/api/groups/{signature(3)}")
        described(one, "/api/groups/{signature}")
        assert one["group"]["state"] == "regression" and [each["name"] for each in one["versions"]] == ["1.9", "1.11"], one
        assert one["events"][0]["action"] == "resolve" and one["events"][0]["value"] == "1.10" and one["host_count"] == 1, one
        lines = served.get(f"/api/groups/{signature(4)}/findings?limit=3").split("\r\n\r\n", 1)[1].splitlines()
        more = served.get(f"/api/groups/{signature(4)}/findings?limit=3&page=2").split("\r\n\r\n", 1)[1].splitlines()
        assert len(lines) == 3 and len(more) == 2 and len({json.loads(line)["origin"]["id"] for line in lines + more}) == 5, (lines, more)
        for path, status in ((f"/api/groups/{signature(77)}", 404), ("/api/nothing", 404), ("/api/groups?state=closed", 400)):
            assert "error" in api(path, status), path


def described(answer, path, method="get"):
    """The answer has the form that docs/fleet.openapi.json describes, and no other keys."""
    document = json.loads((ROOT / "docs/fleet.openapi.json").read_text())
    known = document["components"]["schemas"]

    def whole(schema):
        if isinstance(schema, list):
            return [whole(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        schema = known[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
        rest = {"additionalProperties": False} if "properties" in schema else {}
        return {**{key: whole(value) for key, value in schema.items()}, **rest}

    jsonschema.validate(answer, whole(document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]))


def a_role_that_only_reads(work):
    fleet.server.clear()
    place = fleet.server.address
    work.seen(place, 1)
    fleet.server.query("DROP ROLE IF EXISTS viewer; CREATE ROLE viewer LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO viewer")
    reading = place.replace("fleet@", "viewer@")
    assert work.state(reading, 1) == "open"
    said = work.triage(reading, "mute", signature(1), status=1)
    assert "permission denied" in said.stderr, said.stderr
    work.triage(place, "mute", signature(1))
    # The role may not read the new table: groups are shown as open with a warning, and `report --state` fails.
    assert work.state(reading, 1) == "open" and "may not be read" in work.triage(reading).stderr
    assert "may not be read" in work.run("report", reading, "--state", "open", status=1).stderr
    fleet.server.query("GRANT SELECT ON zguard_triage TO viewer")
    assert work.state(reading, 1) == "muted"
    fleet.server.query("DROP OWNED BY viewer; DROP ROLE viewer")


TESTS = [("a life", a_life), ("without versions", without_versions), ("mutes", mutes), ("hostile words", hostile_words), ("tenants", tenants),
         ("wrong words", wrong_words),
         ("several at once", several_at_once), ("earlier signatures", earlier_signatures), ("another user", another_user),
         ("without sqlite", without_sqlite), ("killed writers", killed_writers), ("pages", pages), ("a role that only reads", a_role_that_only_reads)]


def main():
    global WRITERS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", type=int, default=24, help="writers for each store, of which many are killed (default 24)")
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    arguments = parser.parse_args()
    WRITERS = arguments.writers
    return fleet.run_with_server(TESTS, "zguard-triage-", arguments.only, Work)


if __name__ == "__main__":
    sys.exit(main())
