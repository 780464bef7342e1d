"""What a case is: a name, what must be installed, inputs, commands. Subclasses register themselves by being defined."""

import shutil
import subprocess


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


class Case:
    name = ""
    needs = ()
    # Patterns for names of executables: for each, a guarded process must have been seen while the case ran.
    sees = ()
    # Executables that may run without the guard, each with the reason beside it.
    unguarded = ()

    def setup(self, inputs):
        """Creates what the commands read, once, before the plain run."""

    def steps(self, run):
        """The commands, in order; called for the plain run and again for the guarded one."""
        raise NotImplementedError
