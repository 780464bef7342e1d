"""What a case is: a name, what must be installed, inputs, commands. Subclasses register themselves by being defined."""

import re
import shutil
import subprocess
from pathlib import Path


class Need:
    """A command and the Debian package that brings it. `probe` is a command that must succeed, for parts of a program."""

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
    """The unpacked source package of Debian; `file` is one that it must have. --install fetches it."""
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
        """Returns what went wrong, or nothing."""
        place = self.folder.parent
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        lists = place / "sources.list"
        # Debian machines often have no entries for sources: those of the binaries serve for both.
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
    # What is run, in one line, and the command that prints the program's version (of the first need where it is None).
    what = ""
    version = None
    # Too long for every change: only with --long.
    long = False
    # The account that the commands run as, where the tests run as root: servers that refuse root.
    user = None
    needs = ()
    # Patterns for names of executables: for each, a guarded process must have been seen while the case ran.
    sees = ()
    # Executables that may run without the guard, each with the reason beside it.
    unguarded = ()
    # How much of the largest inputs and of the load it gets.
    size = 1.0
    # What its commands have used so far.
    processor_seconds = 0.0

    def setup(self, inputs):
        """Creates what the commands read, once, before the plain run."""

    def steps(self, run):
        """The commands, in order; called for the plain run and again for the guarded one."""
        raise NotImplementedError

    def version_text(self):
        """The version of the program, as its own words have it; empty where it says none."""
        command = self.version or [self.needs[0].command, "--version"]
        try:
            result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        except OSError:
            return ""
        # Swift's compiler names its driver's version first.
        text = re.sub(r"swift-driver version: \S+", "", result.stdout.decode("utf-8", "replace"))
        found = re.search(r"\d+(\.\d+)+", text)
        return found.group() if found else ""
