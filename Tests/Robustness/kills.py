#!/usr/bin/env python3
"""Tests that no finding is lost when the program, zguard, or both are killed.
Programs with forty findings run under `zguard run`; the kill comes at a random moment. A finding counts as acknowledged once the program
continues after it. Each acknowledged finding must be in the report, or in the files beside it that `zguard report`, `zguard collect` and
the next `zguard run` recover with a message: exactly once, complete, and with its function name.

usage: kills.py [--trials N] [--seed S] [--filter WORD]     closing line: N passed, N failed"""

import argparse
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import Checks  # noqa: E402
from Support.environment import LIBRARY, TESTS, ZGUARD, scrubbed  # noqa: E402

DEADLINE_SECONDS = 120
FINDINGS = 40
VICTIMS = ("zguard", "zguard", "both", "program", "later")  # later: kills zguard first, and the program some findings later
# How the report is written, and which command reads it afterwards.
ROUTES = ("file report", "file run", "file again", "html report", "text report", "store report", "store collect", "store run",
          "lines collect")


class Trial:
    def __init__(self, folder, programs, number, seed):
        self.chance = random.Random(f"{seed} {number}")
        self.name = f"trial {number}"
        self.victim = self.chance.choice(VICTIMS)
        self.route = self.chance.choice(ROUTES)
        self.processes = self.chance.choice((1, 1, 1, 3))
        self.work = Path(tempfile.mkdtemp(prefix="kill-", dir=folder))
        self.finder = programs / "finder"
        self.temporary = self.work / "tmp"
        self.temporary.mkdir()
        self.environment = scrubbed(ZGUARD_LIBRARY=str(LIBRARY), TMPDIR=str(self.temporary))
        form = self.route.split()[0]
        self.report = {"store": f"{self.work}/store/", "html": f"{self.work}/report.html", "text": f"{self.work}/report.txt",
                       "lines": f"{self.work}/report.jsonl"}.get(form, f"{self.work}/report.json")
        self.format = ["--format", form] if form in ("html", "text") else []
        self.said = ""

    def __str__(self):
        return f"{self.name}: {self.victim} killed, {self.route}, {self.processes} processes"

    def zguard(self, *words):
        result = subprocess.run([ZGUARD, *words], capture_output=True, text=True, timeout=DEADLINE_SECONDS, stdin=subprocess.DEVNULL,
                                env=self.environment, cwd=self.work)
        self.said += result.stderr
        return result

    @property
    def acknowledged(self):
        path = self.work / "acknowledged"
        return path.read_text().splitlines() if path.exists() else []

    def run(self):
        """Runs the programs and kills the victim; returns when all started processes have ended."""
        command = [ZGUARD, "run", "--report", self.report, *self.format, "-o", "on_finding=continue", "--", str(self.finder),
                   str(self.work / "acknowledged"), str(self.chance.randrange(1 << 30)), str(self.processes)]
        with open(self.work / "errors", "wb") as errors:
            zguard = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=self.environment,
                                      cwd=self.work, start_new_session=True)
        wanted = self.chance.randrange(-2, FINDINGS + 3)
        self.wait_for(wanted, zguard)
        time.sleep(self.chance.random() * 0.004)
        group = self.group_of(zguard.pid)
        if self.victim in ("zguard", "both", "later"):
            zguard.kill()
        if self.victim == "later":
            self.wait_for(wanted + self.chance.randrange(1, 10), zguard, group)
        if self.victim in ("both", "program", "later"):
            for process in group:
                kill(process)
        self.status = zguard.wait(timeout=DEADLINE_SECONDS)
        end = time.monotonic() + DEADLINE_SECONDS
        while any(is_alive(process) for process in self.group_of(zguard.pid)) and time.monotonic() < end:
            time.sleep(0.005)

    def wait_for(self, wanted, zguard, group=()):
        end = time.monotonic() + DEADLINE_SECONDS
        while len(self.acknowledged) < wanted and time.monotonic() < end:
            if zguard.poll() is not None and not any(is_alive(process) for process in group or ()):
                return
            time.sleep(0.001)

    def group_of(self, session):
        """Returns the processes of a session without its leader, which is zguard."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and int(entry.name) != session:
                found.append(int(entry.name))
        return found

    def read(self):
        """Returns the findings that can be read now."""
        how = self.route.split()[1]
        # The report is complete once no file is left beside it, even if zguard is killed before it ends.
        if self.status < 0 and Path(self.report).is_file() and not self.left():
            self.status = 0
        if self.status >= 0 and how in ("run", "again") and not self.format and not self.report.endswith("/"):
            return Path(self.report).read_text().splitlines()  # the report is complete; the next run would overwrite it
        if self.format and self.status >= 0:
            # zguard cannot read this format, but the report is complete: search it for the function names.
            text = Path(self.report).read_text()
            return [json.dumps({"schema": "zguard.finding/1", "count": 1, "stacks": {"free": [{"function": f"find_{number}"}]}})
                    for number in range(10, 50) if f"find_{number}" in text]
        if how == "report":
            result = self.zguard("report", "--format", "json", self.report)
            return result.stdout.splitlines()
        if how == "collect":
            target = self.work / "collected"
            self.zguard("collect", "--from", str(Path(self.report) if self.report.endswith("/") else self.work), "--to", str(target))
            return [line for path in target.glob("*.jsonl") for line in path.read_text().splitlines()]
        # Runs a program without findings with the same report, which adds the recovered findings. A second run must not add them again.
        for _ in range(2 if how == "again" else 1):
            result = self.zguard("run", "--report", self.report, *self.format, "--", "/bin/true")
            assert result.returncode == 0, result
            if how == "again":
                before = Path(self.report).read_text().splitlines()
                if _ == 0 and before:
                    self.first = before
        if how == "again":
            return getattr(self, "first", [])
        paths = sorted(Path(self.report).glob("*.jsonl")) if self.report.endswith("/") else [Path(self.report)]
        return [line for path in paths for line in path.read_text().splitlines()]

    def left(self):
        return [path.name for path in self.work.rglob("*") if ".unfinished-" in path.name]

    def printed(self):
        """If the program was killed, returns the functions of findings that its surviving children printed: zguard does not wait for them.
        A child survives if it is forked after `run` has listed the processes to kill. The block size identifies the function."""
        if self.victim != "program":
            return set()
        sizes = re.findall(r"^==zguard== double-free .* block of (\d+) bytes", (self.work / "errors").read_text(errors="replace"), re.MULTILINE)
        return {f"find_{int(size) - 6}" for size in sizes}

    def problems(self):
        acknowledged = self.acknowledged
        found, problems = collections.Counter(), []
        for line in self.read():
            if not line.strip():
                continue
            try:
                finding = json.loads(line)
            except ValueError:
                problems.append(f"a torn line: {line[:100]}")
                continue
            if finding.get("schema") != "zguard.finding/1":
                continue
            names = {frame.get("function") for stack in finding["stacks"].values() for frame in stack}
            names = sorted(name for name in names if name and name.startswith("find_"))
            if len(names) != 1:
                problems.append(f"a finding without its name: {names} {line[:200]}")
                continue
            found[names[0]] += finding["count"]
        wanted = {line.split()[1] for line in acknowledged}
        lost = wanted - set(found) - self.printed()
        twice = {name: count for name, count in found.items() if count > 1}
        if lost:
            problems.append(f"{len(lost)} of {len(wanted)} lost: {sorted(lost)[:5]}")
        if twice:
            problems.append(f"doubled: {twice}")
        left = self.left()
        if self.route.split()[1] != "report" and left:
            problems.append(f"left behind: {left}")
        if lost or twice or problems:
            problems.append(f"said: {self.said[-600:]}")
        return problems


def is_alive(process):
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", default=None)
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    seed = arguments.seed or str(random.SystemRandom().randrange(1 << 30))
    print(f"seed {seed}")
    checks, totals = Checks(), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="zguard-kills.") as folder:
        programs = Path(folder) / "programs"
        programs.mkdir()
        subprocess.run(["gcc", "-g", "-O0", "-w", "-fno-builtin", TESTS / "Robustness/Kills/finder.c", "-o", programs / "finder"], check=True)

        def carry_out(number):
            trial = Trial(folder, programs, number, seed)
            if arguments.filter not in str(trial):
                return None
            try:
                trial.run()
                problems = trial.problems()
            except (AssertionError, OSError, subprocess.SubprocessError) as fault:
                problems = [f"{type(fault).__name__}: {fault}"]
            return trial, problems, len(trial.acknowledged)

        with ThreadPoolExecutor(3) as pool:
            for outcome in pool.map(carry_out, range(arguments.trials)):
                if outcome:
                    trial, problems, acknowledged = outcome
                    checks.check(str(trial), problems)
                    totals[trial.victim] += acknowledged
                    totals["findings"] += acknowledged
    print(f"       {totals['findings']} findings acknowledged: "
          + ", ".join(f"{totals[victim]} {victim}" for victim in dict.fromkeys(VICTIMS)))
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
