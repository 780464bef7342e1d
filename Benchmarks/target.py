"""What every target has in common: a name, what it needs, its inputs and its command."""

import shutil


class Target:
    """One program. `command(size)` is its argument list: size 1 is the full work, less is a part of it."""
    kind = "real"  # or "micro"
    is_allocating = False  # does nothing but allocate
    needs = ()  # commands that must be installed

    def __init__(self, name):
        self.name = name
        self.environment = {}

    def supports(self, tool):
        return tool != "asan"  # which needs the program's source

    def missing(self):
        return [command for command in self.needs if not shutil.which(command)]

    def build(self, compilers):
        """Compiles the program, where it is one of ours."""

    def prepare(self, work, size):
        """Creates the inputs for this size under `work`, a directory of the target's own."""

    def command(self, work, size, tool):
        """Arguments of the run with this part of the work; `tool` is the tool's name."""
        raise NotImplementedError

    def drive(self, process, work, size):
        """For servers: uses the started program and ends it. Returns the seconds that the clients took."""
        return None


class SwiftTarget(Target):
    """A program of Swift's, which valgrind cannot run."""
    needs = ("swiftc",)

    def supports(self, tool):
        return tool not in ("asan", "valgrind")
