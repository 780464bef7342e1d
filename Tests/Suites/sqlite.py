"""Runs SQLite's own tests, from Debian's source package. Builds `testfixture` from the source, because the tests examine internals.
`testfixture` runs the scripts, each of which is a unit."""

import re
import shutil
import subprocess

from suite import Result, Suite, SuiteError, Unit

DONE = re.compile(r"^(\S+?)\.\.\.(.*)$", re.MULTILINE)
# Names with a suffix that counts the rows of a table filled by random statements.
RANDOM = re.compile(r"^(\w*trans-9\..*)-\d+$")
# Scripts that run other scripts, take many minutes, or need a form of the source other than the amalgamation.
LEFT_OUT = re.compile(r"^(all|permutations|quick|veryquick|full|extraquick|soak|mallocAll|valgrind|memleak|crash\w*|backup_ioerr|"
                      r"sqllimits1|speed\w*|rtree|fts[345]?|async\w*|corruptC|fuzz|fuzz_malloc|bigsort|bigfile\w*|tester|savepoint6|"
                      r"speedtest\w*|sort4|walfault\w*|wal_?slow|thread003|thread004|rowvalue\w*_?slow|shell\d*|session|zipfile\w*|"
                      r"speed\w*|misuse\w*|tkt3838|threadtest\w*|writecrash|wal3|pager1|pagerfault\w*|walcrash\w*|malloc[A-K]?|"
                      r"incrvacuum_ioerr|sharedA|e_walauto|e_wal\w*|vtab_err|notify2|cffault|fts3fault\w*|fts4merge\w*|autovacuum)$")


class Sqlite(Suite):
    name = "sqlite"
    title = "SQLite's TCL tests"
    command = "testfixture SCRIPT"
    packages = ("sqlite3", "tcl8.6", "tcl8.6-dev", "gcc", "make", "zlib1g-dev", "libc6-dev", "dpkg-dev")
    sources = ("sqlite3",)
    revision = 2
    deadline = 300.0

    def prepare(self):
        self.source = self.fetch_source("sqlite3", "test/select1.test")
        self.fixture = self.source / "testfixture"
        if self.fixture.exists():
            return
        for command in (["./configure", "--with-tcl=/usr/lib/tcl8.6", "--enable-tempstore=no", "CFLAGS=-O1 -g"],
                        ["make", "testfixture"]):
            made = subprocess.run(command, cwd=self.source, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if made.returncode:
                raise SuiteError(f"{' '.join(command)}: {made.stderr[-2000:]}")
        if not self.fixture.exists():
            raise SuiteError("make made no testfixture")

    def units(self):
        names = sorted(path.stem for path in (self.source / "test").glob("*.test"))
        return [Unit(name) for name in names if not LEFT_OUT.match(name)]

    def run(self, unit, place, only=()):
        script = self.source / "test" / f"{unit.name}.test"
        ended = place.run([self.fixture, script], env=unit.env, deadline=self.deadline)
        outcomes = {}
        for name, said in DONE.findall(ended.output):
            said, name = said.strip(), RANDOM.sub(r"\1", name)
            if said.startswith("Ok") or not said:
                outcomes.setdefault(name, "passed")
            elif said.startswith("Omitted"):
                outcomes[name] = "skipped"
        for name in re.findall(r"^! (\S+) expected:", ended.output, re.MULTILINE):
            outcomes[name] = "failed"
        errors = re.search(r"^(\d+) errors? out of (\d+) tests", ended.output, re.MULTILINE)
        outcomes["(script)"] = errors.group(0) if errors else f"status {ended.status}"
        if ended.status == 0:
            outcomes["(script)"] = "passed"
        elif ended.status is None:
            outcomes["(script)"] = "hung"
        shutil.rmtree(place.work, ignore_errors=True)
        return Result(outcomes, ended.findings, ended.seen, ended.output[-3000:] + ended.errors[-1000:])
