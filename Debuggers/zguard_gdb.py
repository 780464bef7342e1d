"""Adds the command "zguard ADDRESS" to gdb, which shows the block that is or was at an address of a guarded program.

  source PREFIX/share/zguard/zguard_gdb.py
  zguard cart
  zguard $rdi + 16

The target is the stopped process or core file that gdb has open. The command runs `zguard history`. zguard is the program that the
variable ZGUARD names, or else ../../bin/zguard relative to this file, or the first on the PATH.
"""

import os
import re
import shutil
import subprocess
import tempfile

import gdb

HERE = os.path.dirname(os.path.realpath(__file__))
PERMISSION = "no permission"


def find_zguard():
    given = os.environ.get("ZGUARD")
    if given:
        if not os.access(given, os.X_OK):
            raise gdb.GdbError(f"zguard: ZGUARD is '{given}', which cannot be run")
        return given
    beside = os.path.normpath(os.path.join(HERE, "../../bin/zguard"))
    found = beside if os.access(beside, os.X_OK) else shutil.which("zguard")
    if not found:
        raise gdb.GdbError("zguard: the program zguard was not found: set the variable ZGUARD to its path")
    return found


def ask(zguard, origin, address, arguments):
    # The output is captured and then written by gdb, whose output may go to a pager or a file.
    return subprocess.run([zguard, "history", *arguments, "--", origin, hex(address)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")


def core_path():
    """Path of the core file that gdb has open, or None. Parsed from text, because gdb has no API for it."""
    text = re.sub("\x1b\\[[0-9;]*m", "", gdb.execute("info files", to_string=True))
    found = re.search(r"^Local core dump file:\n\s*`(.*)', file type ", text, re.MULTILINE)
    return found and found[1]


def origin_and_rights():
    """Returns the first operand of `zguard history` (a core file or process id), and whether it is a process."""
    inferior = gdb.selected_inferior()
    core = core_path()
    if core:
        return core, False
    if not inferior.pid:
        raise gdb.GdbError("zguard: there is no program: run or attach to one, or open a core file")
    target = getattr(getattr(inferior, "connection", None), "type", "native")
    if target != "native":
        raise gdb.GdbError(f"zguard: the program is not a process of this machine (target '{target}')")
    return str(inferior.pid), True


def evaluate(text):
    try:
        value = gdb.parse_and_eval(text)
        # For an array or structure, use its address.
        codes = (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
        is_whole = value.type.strip_typedefs().code in codes and value.address is not None
        return int(value.address if is_whole else value) % 2**64
    except gdb.error as error:
        raise gdb.GdbError(f"zguard: '{text}' is no address: {error}") from error


class Zguard(gdb.Command):
    """Show what is, or was, at an address of a guarded program.
Usage: zguard [--json] EXPRESSION
The value of the expression is the address, as in "zguard cart" or "zguard $rdi + 16"."""

    def __init__(self):
        super().__init__("zguard", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        arguments = []
        first, _, rest = argument.strip().partition(" ")
        if first == "--json":
            arguments, argument = ["--format", "json"], rest
        if not argument.strip():
            raise gdb.GdbError("zguard: an address is missing: zguard EXPRESSION")
        zguard = find_zguard()
        origin, is_process = origin_and_rights()
        address = evaluate(argument)
        done = ask(zguard, origin, address, arguments)
        if is_process and done.returncode and PERMISSION in done.stderr:
            done = self.ask_of_copy(zguard, address, arguments)
        gdb.write(done.stdout)
        if done.stderr:
            gdb.write(done.stderr, gdb.STDERR)

    def ask_of_copy(self, zguard, address, arguments):
        """Runs zguard on a core file made by gdb. With yama/ptrace_scope, zguard may not read the process's memory, but gdb, its tracer, may."""
        with tempfile.TemporaryDirectory(prefix="zguard-") as folder:
            core = os.path.join(folder, "core")
            gdb.execute(f"generate-core-file {core}", to_string=True)
            return ask(zguard, core, address, arguments)


Zguard()
