"""Defines a third-party test suite: packages, units, and how to run a unit. Subclasses register themselves when defined.

A unit can be started alone: a module, a script. It has tests, each with an outcome: "passed", "failed", "skipped" or another word of the
suite; "hung" if the test was running at the deadline, "crashed" if the process died. Every unit runs plain and guarded, in a new directory
with the same path, and every test must have the same outcome.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from Support.processes import descendants, kill_session, session_members, stacks, wait_without_reaping

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
BUILD = ROOT / "build" / "tests" / "suites"
sys.path.insert(0, str(TESTS / "Programs"))

from harness import Watcher  # noqa: E402


class SuiteError(Exception):
    """The suite is unavailable or cannot continue, plain or guarded."""


class Guard:
    """Runs commands under `zguard run`; findings become lines of a report."""

    marks = ("libzguard.so", "zguard-stats")  # names in the memory map of a guarded process, see Programs/harness.py

    def __init__(self, zguard, profile, options=()):
        self.zguard, self.profile = Path(zguard).resolve(), profile
        self.options = ["--profile", profile] if profile != "default" else []
        self.options += [word for option in options for word in ("-o", option)]

    def prefix(self, report):
        return [str(self.zguard), "run", "--quiet", "--report", str(report), "--format", "json", *self.options, "--"]

    def is_own(self, executable):
        return executable == str(self.zguard)


class Result:
    """The result of one run of a unit: outcomes by test, findings, and whether the process was seen to be guarded."""

    def __init__(self, outcomes=None, findings=(), seen=True, output=""):
        self.outcomes = outcomes or {}
        self.findings = list(findings)
        self.seen = seen
        self.output = output  # end of the unit's output, for humans
        self.hung = ""  # stacks of processes that had to be killed


class Ended:
    """A command that has ended: `status` as in a shell, None after a timeout."""

    def __init__(self, status, output, errors, findings, seen):
        self.status, self.output, self.errors = status, output, errors
        self.findings, self.seen = findings, seen


class Place:
    """The directory of one run, in which commands run plain if `guard` is None."""

    def __init__(self, directory, guard=None):
        self.dir, self.guard = Path(directory), guard
        shutil.rmtree(self.dir, ignore_errors=True)
        for name in ("home", "tmp", "work"):
            (self.dir / name).mkdir(parents=True)
        self.work = self.dir / "work"
        self.hung = ""

    def environment(self, more=None):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.dir / "home"),
                "TMPDIR": str(self.dir / "tmp"), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
                **(more or {})}

    def run(self, argv, env=None, deadline=300.0, cwd=None, input=None):
        """Runs a command in a session of its own until it ends or `deadline` passes, then kills all of the session."""
        output, errors, report = self.dir / "output", self.dir / "errors", self.dir / "report"
        report.unlink(missing_ok=True)
        command = [str(word) for word in argv]
        if self.guard:
            command = self.guard.prefix(report) + command
        if stopping.is_set():
            raise SuiteError("stopped")
        source = open(input, "rb") if input else subprocess.DEVNULL
        with open(output, "wb") as sink, open(errors, "wb") as error_sink:
            process = subprocess.Popen(command, stdin=source, stdout=sink, stderr=error_sink, cwd=cwd or self.work,
                                       env=self.environment(env), start_new_session=True, preexec_fn=without_cores)
        if input:
            source.close()
        sessions.add(process.pid)
        watcher = Watcher(process.pid, self.guard) if self.guard else None
        try:
            status = wait_without_reaping(process.pid, deadline)
            if status is None and self.guard:
                self.hung += stacks([*descendants(process.pid), *session_members(process.pid)])
        finally:
            if watcher:
                watcher.finish()
            kill_session(process.pid)  # a unit may leave daemons
            sessions.discard(process.pid)
            process.wait()
        status = 128 - status if status is not None and status < 0 else status
        texts = [path.read_bytes().decode("utf-8", "replace") for path in (output, errors)]
        findings = read_findings(report) if self.guard else []
        return Ended(status, *texts, findings, bool(watcher and watcher.guarded))


def without_cores():
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


sessions = set()  # sessions running now
stopping = threading.Event()


def end_all_sessions():
    stopping.set()
    for session in list(sessions):
        kill_session(session)


def read_findings(report):
    if not report.exists():
        return []
    return [json.loads(line) for line in report.read_text(errors="replace").splitlines() if line.startswith("{")]


class Unit:
    """`quick`: part of the quick selection. `env`: variables for its commands. `about`: data of the suite."""

    def __init__(self, name, quick=False, env=None, about=None, profiles=("default", "fence")):
        self.name, self.quick, self.env, self.about, self.profiles = name, quick, env or {}, about, profiles


class Suite:
    name = ""
    title = ""  # for the document
    command = ""  # for the document: how a unit is started
    packages = ()  # binary packages; stored results are valid for their versions only
    sources = ()  # source packages that `prepare` reads
    revision = 1  # increment when outcomes are parsed or named differently: stored plain outcomes are then discarded
    deadline = 300.0  # seconds for one unit
    is_quick = False  # whether the suite has quick units that need no build
    # Tests whose outcome differs because of what they examine, as {"unit/test": reason}; for the document.
    differs = {}
    # Like `differs`, by guard profile.
    differs_in = {}

    def prepare(self):
        """Downloads or builds the suite's files below `self.build`; raises SuiteError if that is impossible."""

    def units(self):
        """Returns all units; call after `prepare`."""
        raise NotImplementedError

    def run(self, unit, place, only=()):
        """Runs a unit, or `only` some of its tests if the suite can, and returns a Result."""
        raise NotImplementedError

    @property
    def tested_packages(self):
        """Returns the packages that the document names."""
        return self.packages[:1]

    @property
    def build(self):
        return BUILD / self.name

    def versions(self):
        """Returns the package versions for which stored results are valid."""
        found = {}
        for package in self.packages:
            shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
            found[package] = shown.stdout if shown.returncode == 0 else ""
        return found

    def fetch_source(self, source, needed, same=None):
        """Downloads and unpacks the source of a package's installed version; `needed` is a path in the source. `same` maps a
        version to the part that installed version and source must have in common. Returns the source's directory."""
        same = same or upstream
        wanted = self.build / "source"
        version = subprocess.run(["dpkg-query", "-W", "-f", "${source:Version}", self.packages[0]], capture_output=True,
                                 text=True).stdout.strip()
        stamp = wanted / "version"
        if stamp.exists() and stamp.read_text() == f"{source} {version}":
            return wanted / "tree"
        shutil.rmtree(wanted, ignore_errors=True)
        wanted.mkdir(parents=True)
        fetched = self.download_source(source, version, same, wanted)
        if not fetched and add_source_entries():
            fetched = self.download_source(source, version, same, wanted)
        if not fetched:
            raise SuiteError(f"apt-get source {source} finds nothing like {version} that can be fetched")
        description = next(wanted.glob("*.dsc"))
        shown = subprocess.run(["dpkg-source", "--no-check", "-x", description.name, "tree"], cwd=wanted, capture_output=True, text=True)
        if shown.returncode or not (wanted / "tree" / needed).exists():
            raise SuiteError(f"the source of {source} {version} has no {needed}: {shown.stderr.strip()}")
        for path in wanted.iterdir():
            if path.is_file():
                path.unlink()
        stamp.write_text(f"{source} {version}")
        return wanted / "tree"

    def download_source(self, source, version, same, directory):
        """Downloads the package's files with the .dsc; returns whether that succeeded. After a security update, the archive may lack the
        source of the installed revision, and a mirror may lack that of the newest revision. Then takes any version for which `same`
        returns the same part."""
        shown = subprocess.run(["apt-cache", "showsrc", "--only-source", source], capture_output=True, text=True)
        others = re.findall(r"^Version: (\S+)$", shown.stdout, re.M)
        for each in dict.fromkeys([version, *others]):
            if same(each) != same(version):
                continue
            shown = subprocess.run(["apt-get", "-q", "--download-only", "source", f"{source}={each}"], cwd=directory, capture_output=True)
            if shown.returncode == 0 and any(directory.glob("*.dsc")):
                return True
            for path in directory.iterdir():
                path.unlink()
        return False


def upstream(version):
    """Returns the version without epoch and Debian revision."""
    return version.split(":")[-1].rsplit("-", 1)[0]


def add_source_entries(folder=Path("/etc/apt")):
    """Adds a source entry for each Debian entry with binaries, because Debian has none by default. Returns False if that was done before or
    is impossible."""
    entry = folder / "sources.list.d/zguard-suites.sources"
    if entry.exists() or not os.access(folder, os.W_OK):
        return False
    stanzas = []
    for path in (folder / "sources.list.d").glob("*.sources"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for stanza in "\n".join(lines).split("\n\n"):
            if "debian.org/debian" in stanza:
                stanzas.append("\n".join("Types: deb-src" if line.startswith("Types:") else line for line in stanza.splitlines()))
    plain = folder / "sources.list"
    for line in plain.read_text().splitlines() if plain.exists() else ():
        words = re.sub(r"\[.*?\]", "", line).split()
        if words[:1] == ["deb"] and "debian.org/debian" in words[1]:
            stanzas.append(f"Types: deb-src\nURIs: {words[1]}\nSuites: {words[2]}\nComponents: {' '.join(words[3:])}")
    entry.write_text("\n\n".join(stanzas) + "\n")
    subprocess.run(["apt-get", "-q", "update"], capture_output=True, timeout=300)
    return True


def all_suites():
    import importlib

    for path in sorted(Path(__file__).resolve().parent.glob("*.py")):
        if path.stem not in ("suite", "suites", "cpython_events", "tap"):
            importlib.import_module(path.stem)
    return sorted((kind() for kind in every_subclass(Suite) if kind.name), key=lambda suite: suite.name)


def every_subclass(kind):
    for below in kind.__subclasses__():
        yield below
        yield from every_subclass(below)
