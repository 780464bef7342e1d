"""Runs Redis' own tests, from Debian's source package, with the installed server: a unit is a test file. The scripts start and stop servers
themselves, all guarded. `--quick` runs no units, because a unit starts a server for each of its groups of tests."""

import re
import shutil

from Support.ports import Ports
from suite import Result, Suite, Unit

NAMES = ("type/string", "type/incr", "type/list", "type/list-2", "type/hash", "type/set", "type/zset", "type/stream", "type/stream-cgroups",
         "unit/keyspace", "unit/scan", "unit/expire", "unit/multi", "unit/scripting", "unit/functions", "unit/pubsub", "unit/sort",
         "unit/bitops", "unit/bitfield", "unit/hyperloglog", "unit/geo", "unit/dump", "unit/auth", "unit/acl", "unit/introspection",
         "unit/introspection-2", "unit/other", "unit/slowlog", "unit/lazyfree", "unit/limits", "unit/tracking", "unit/quit", "unit/info",
         "unit/querybuf", "unit/protocol", "unit/latency-monitor", "unit/printver", "unit/replybufsize", "integration/rdb", "integration/aof",
         "integration/block-repl", "integration/replication-2", "integration/replication-3", "integration/psync2-reg", "integration/logging",
         "integration/redis-cli", "integration/redis-benchmark", "integration/convert-ziplist-hash-on-load")
PORTS = 200  # number of ports of each unit
TOOLS = ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-sentinel")


class Redis(Suite):
    name = "redis"
    title = "Redis' TCL tests"
    command = "tclsh tests/test_helper.tcl --single UNIT"
    packages = ("redis-server", "redis-tools", "tcl8.6", "dpkg-dev")
    sources = ("redis",)
    deadline = 900.0

    def prepare(self):
        self.source = self.fetch_source("redis", "tests/test_helper.tcl")

    def units(self):
        return [Unit(name if not name.startswith("type/") else "unit/" + name) for name in NAMES]

    def run(self, unit, place, only=()):
        with Ports() as ports:
            return self.run_at(ports.take_row(PORTS), unit, place, only)

    def run_at(self, port, unit, place, only):
        tree = place.work / "tree"
        tree.mkdir()
        shutil.copytree(self.source / "tests", tree / "tests", symlinks=True)
        for name in ("redis.conf", "sentinel.conf"):
            shutil.copy(self.source / name, tree)
        (tree / "src").mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:
                (tree / "src" / tool).symlink_to(found)
        # NAMES lacks tests of modules, which are not packaged, and tests that need much memory or time. The tag excludes tests that
        # examine the server's internals.
        words = ["--single", unit.name, "--clients", "1", "--baseport", str(port), "--portcount", str(PORTS), "--tags", "-needs:debug-internals"]
        for name in only:
            words += ["--only", name]
        ended = place.run(["tclsh8.6", "tests/test_helper.tcl", *words], cwd=tree, deadline=self.deadline)
        outcomes = {}
        for word, name in re.findall(r"^\[(ok|err|ignore|skip|exception|timeout)\]: (.*)$", ended.output, re.MULTILINE):
            name = re.sub(r"( in tests/\S+)$| \(\d+ ms\)$", "", re.sub(r"\x1b\[[0-9;]*m", "", name)).strip()
            name = re.sub(r"\b\d{4,}\b|0x[0-9a-f]+", "#", name)  # ports, addresses, process ids
            outcomes.setdefault(name, {"ok": "passed", "ignore": "skipped", "skip": "skipped"}.get(word, "failed"))
        outcomes["(script)"] = "hung" if ended.status is None else "passed" if ended.status == 0 else f"status {ended.status}"
        shutil.rmtree(place.work, ignore_errors=True)
        return Result(outcomes, ended.findings, ended.seen, ended.output[-3000:] + ended.errors[-1000:])
