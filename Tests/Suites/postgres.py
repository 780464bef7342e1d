"""Runs PostgreSQL's regression tests, from Debian's source package, with the installed server. The tests build on each other in one
database, so they are one unit. Server, psql and pg_regress are guarded; if started as root, the tests run as another user."""

import os
import re
import shutil
import subprocess

from suite import Result, Suite, SuiteError, Unit

VERSION = "15"
BIN = f"/usr/lib/postgresql/{VERSION}/bin"
PG_REGRESS = f"/usr/lib/postgresql/{VERSION}/lib/pgxs/src/test/regress/pg_regress"

SCRIPT = r"""
set -e
{bin}/initdb -D data -A trust -U tester --no-sync --no-instructions --locale=C --encoding=UTF8 >initdb.log
{bin}/postgres -D data -c listen_addresses= -k "$PWD" -p {port} -c fsync=off -c max_prepared_transactions=2 >server.log 2>&1 &
server=$!
for i in $(seq 600); do [ ! -e data/postmaster.pid ] || ! {bin}/pg_isready -q -h "$PWD" -p {port} || break; sleep 0.2; done
status=0
{regress} --bindir={bin} --inputdir=regress --outputdir=regress --dlpath=regress --host="$PWD" --port={port} --user=tester \
    --dbname=regression --max-connections=10 {tests} || status=$?
kill -INT $server
wait $server || status=$?
exit $status
"""


class Postgres(Suite):
    name = "postgresql"
    title = "PostgreSQL's regression tests"
    command = "pg_regress --schedule=parallel_schedule"
    packages = ("postgresql-15", "postgresql-client-15", "postgresql-server-dev-15", "gcc", "dpkg-dev")
    sources = ("postgresql-15",)
    deadline = 3600.0

    def prepare(self):
        if not os.path.exists(PG_REGRESS):
            raise SuiteError(f"{PG_REGRESS} is missing")
        # The archive may have the server in a newer minor version than the source. The tests of any minor version are suitable.
        self.source = self.fetch_source("postgresql-15", "src/test/regress/parallel_schedule", same=lambda version: version.split(".")[0])
        self.library = self.build / "regress.so"
        if self.library.exists():
            return
        headers = subprocess.run([f"{BIN}/pg_config", "--includedir-server"], capture_output=True, text=True).stdout.strip()
        made = subprocess.run(["gcc", "-O1", "-fPIC", "-shared", f"-I{headers}", self.source / "src/test/regress/regress.c", "-o", self.library],
                              capture_output=True, text=True)
        if made.returncode:
            raise SuiteError(made.stderr[-2000:])

    def units(self):
        return [Unit("installcheck")]

    def run(self, unit, place, only=()):
        tree = place.work / "regress"
        tree.mkdir()
        for name in ("sql", "expected", "data", "parallel_schedule", "resultmap"):
            found = self.source / "src/test/regress" / name
            (shutil.copytree if found.is_dir() else shutil.copy)(found, tree / name)
        shutil.copy(self.library, tree)
        tests = "--schedule=regress/parallel_schedule"
        if only:  # first the tests on which the others build
            tests = " ".join(dict.fromkeys(["test_setup", "create_index", *only]))
        script = place.work / "script"
        script.write_text(SCRIPT.format(bin=BIN, regress=PG_REGRESS, port=5499, tests=tests))
        command = ["/bin/bash", script]
        if os.geteuid() == 0:
            place.dir.parent.chmod(0o711)
            for folder, _, files in os.walk(place.dir):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    shutil.chown(path, "postgres", "postgres")
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *command]
        ended = place.run(command, deadline=self.deadline)
        outcomes = {}
        for name, word in re.findall(r"^(?:test|    ) ?\s*(\S+)\s+\.\.\. (ok|FAILED|failed \(ignored\))", ended.output, re.MULTILINE):
            outcomes[name] = "passed" if word == "ok" else "failed"
        outcomes["(server)"] = "hung" if ended.status is None else "passed" if ended.status in (0, 1) and outcomes else f"status {ended.status}"
        different = tree / "regression.diffs"
        words = different.read_text(errors="replace")[-3000:] if different.exists() else ""
        return Result(outcomes, ended.findings, ended.seen, ended.output[-2000:] + ended.errors[-1000:] + words)
