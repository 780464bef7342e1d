"""Base of every target: its name, requirements, inputs and command."""

import shutil


class Target:
    """One program. `command` returns the arguments of a run. Size 1 is the full work; a smaller size is a part of it."""
    kind = "real"  # or "micro"
    is_allocating = False  # whether the target only allocates
    needs = ()  # commands that must be installed

    def __init__(self, name):
        self.name = name
        self.environment = {}

    def supports(self, tool):
        return tool != "asan"  # asan needs the program's source

    def missing(self):
        return [command for command in self.needs if not shutil.which(command)]

    def build(self, compilers):
        """Compiles the program, if it is not an installed one."""

    def prepare(self, work, size):
        """Creates the inputs for this size under `work`, a directory for this target alone."""

    def command(self, work, size, tool):
        """Returns the arguments of a run at this size. `tool` is the tool's name."""
        raise NotImplementedError

    def drive(self, process, work, size):
        """For servers: runs clients against the started program, and ends it. Returns the clients' seconds."""
        return None


class SwiftTarget(Target):
    """A Swift program. valgrind cannot run it."""
    needs = ("swiftc",)

    def supports(self, tool):
        return tool not in ("asan", "valgrind")
