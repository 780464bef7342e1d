"""The base of a case: its name, requirements, inputs and commands. Subclasses register themselves by being defined."""

import re
import shutil
import subprocess
from pathlib import Path


class Need:
    """A command, and the Debian package that contains it. `probe`: a command that succeeds only if a certain part of the program exists."""

    def __init__(self, command, package, probe=None):
        self.command, self.package, self.probe = command, package, probe

    def is_met(self):
        if not shutil.which(self.command):
            return False
        return not self.probe or subprocess.run(self.probe, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL).returncode == 0

    def describe(self):
        return f"{self.command} ({self.package or 'from the Swift toolchain'})"


class Source(Need):
    """A Debian source package, unpacked. `file` is a file that must be in it. --install fetches the package."""
    KEPT = Path(__file__).resolve().parent.parent.parent / "build" / "tests" / "sources"

    def __init__(self, source, file):
        super().__init__("apt-get", None)
        self.source, self.file = source, file
        self.folder = self.KEPT / source / "tree"

    def is_met(self):
        return (self.folder / self.file).exists()

    def describe(self):
        return f"the source of {self.source}"

    def fetch(self):
        """Downloads and unpacks the package; returns an error text, which is empty on success."""
        place = self.folder.parent
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        lists = place / "sources.list"
        # Debian machines often have no source entries: add one.
        lists.write_text("deb-src http://deb.debian.org/debian bookworm main\n")
        for options in ([], ["-o", f"Dir::Etc::SourceList={lists}", "-o", "Dir::Etc::SourceParts=-", "-o", f"Dir::State::Lists={place}/lists"]):
            if options:
                (place / "lists" / "partial").mkdir(parents=True)
                subprocess.run(["apt-get", "-q", *options, "update"], stdin=subprocess.DEVNULL, capture_output=True)
            result = subprocess.run(["apt-get", "-q", *options, "--download-only", "source", self.source], cwd=place,
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if result.returncode == 0:
                break
        else:
            return result.stderr.strip()
        description = next(place.glob("*.dsc"))
        result = subprocess.run(["dpkg-source", "--no-check", "-x", description.name, "tree"], cwd=place, capture_output=True, text=True)
        return "" if self.is_met() else f"no {self.file}: {result.stderr.strip()}"


class Case:
    name = ""
    # `what` describes the case in one line. `version` is the command that prints the program's version; None: the command of the first
    # need, with --version.
    what = ""
    version = None
    # Whether the case takes too long to be run at every change. It is then run only with --long.
    long = False
    # If the tests run as root, the commands run as this account: some servers refuse root.
    user = None
    needs = ()
    # Patterns for names of executables: for each pattern, a guarded process must be seen while the case runs.
    sees = ()
    # Flags of `zguard run` for this case.
    run_flags = ()
    # Executables that may run unguarded; a comment beside each gives the reason.
    unguarded = ()
    # Size of the inputs and the load, as a fraction of the largest.
    size = 1.0
    # Processor time of the commands so far.
    processor_seconds = 0.0

    def setup(self, inputs):
        """Creates the inputs of the commands, once, before the plain run."""

    def steps(self, run):
        """Runs the commands in order. Called once for the plain run, and once for the guarded run."""
        raise NotImplementedError

    def version_text(self):
        """Returns the program's version as it prints it, or an empty text."""
        command = self.version or [self.needs[0].command, "--version"]
        try:
            result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        except OSError:
            return ""
        # Swift's compiler prints its driver's version first.
        text = re.sub(r"swift-driver version: \S+", "", result.stdout.decode("utf-8", "replace"))
        found = re.search(r"\d+(\.\d+)+", text)
        return found.group() if found else ""
