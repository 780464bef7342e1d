"""Adds the command "zguard ADDRESS" to lldb, which shows the block that is or was at an address of a guarded program.

  command script import PREFIX/share/zguard/zguard_lldb.py
  zguard cart
  zguard $rdi + 16

The target is the stopped process or core file that lldb has open. The command runs `zguard history`. zguard is the program that the
variable ZGUARD names, or else ../../bin/zguard relative to this file, or the first on the PATH.
"""

import os
import shutil
import subprocess

import lldb

HERE = os.path.dirname(os.path.realpath(__file__))


class Problem(Exception):
    """An error message for the user."""


def find_zguard():
    given = os.environ.get("ZGUARD")
    if given:
        if not os.access(given, os.X_OK):
            raise Problem(f"ZGUARD is '{given}', which cannot be run")
        return given
    beside = os.path.normpath(os.path.join(HERE, "../../bin/zguard"))
    found = beside if os.access(beside, os.X_OK) else shutil.which("zguard")
    if not found:
        raise Problem("the program zguard was not found: set the variable ZGUARD to its path")
    return found


def ask(zguard, origin, address, arguments):
    # lldb may belong to another toolchain and set library paths for itself; zguard must not load those libraries.
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    return subprocess.run([zguard, "history", *arguments, "--", origin, hex(address)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                          env=environment)


def evaluate(text, target, frame):
    value = frame.EvaluateExpression(text) if frame and frame.IsValid() else target.EvaluateExpression(text)
    error = value.GetError()
    if not value.IsValid() or error.Fail():
        raise Problem(f"'{text}' is no expression: {(error.GetCString() or 'no value').strip().splitlines()[0]}")
    if value.GetType().IsArrayType() or value.GetType().GetTypeClass() in (lldb.eTypeClassStruct, lldb.eTypeClassUnion):
        address = value.GetLoadAddress()
        if address != lldb.LLDB_INVALID_ADDRESS:
            return address
    failed = lldb.SBError()
    number = value.GetValueAsUnsigned(failed)
    if failed.Fail():
        raise Problem(f"'{text}' is not a number or a pointer")
    return number


def core_path(process):
    """Path of the core file that lldb has open, or None. lldb before 18 has no API for it, so take the only core file it has mapped."""
    if hasattr(process, "GetCoreFile"):
        core = process.GetCoreFile()
        return core.fullpath if core and core.IsValid() else None
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        mapped = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line}
    cores = [path for path in mapped if is_core(path)]
    return cores[0] if len(cores) == 1 else None


def is_core(path):
    try:
        with open(path, "rb") as file:
            header = file.read(18)
    except OSError:
        return False
    return header[:4] == b"\x7fELF" and header[16:18] == b"\x04\0"


def answer(debugger, command, frame):
    words = command.split(maxsplit=1)
    arguments = ["--format", "json"] if words[:1] == ["--json"] else []
    text = (words[1] if len(words) > 1 else "") if arguments else command
    if not text.strip():
        raise Problem("an address is missing: zguard EXPRESSION")
    zguard = find_zguard()
    target = debugger.GetSelectedTarget()
    process = target.GetProcess() if target and target.IsValid() else None
    if not process or not process.IsValid() or process.GetState() in (lldb.eStateExited, lldb.eStateUnloaded, lldb.eStateDetached):
        raise Problem("there is no program: run or attach to one, or open a core file")
    address = evaluate(text, target, frame)
    kind = process.GetPluginName()
    if "core" in kind:
        path = core_path(process)
        if not path:
            raise Problem("this lldb does not report the path of its core file: run zguard history CORE ADDRESS")
        return ask(zguard, path, address, arguments)
    return ask(zguard, str(process.GetProcessID()), address, arguments)


def zguard(debugger, command, context, result, _):
    """Show what is, or was, at an address of a guarded program.
Usage: zguard [--json] EXPRESSION
The value of the expression is the address, as in "zguard cart" or "zguard $rdi + 16"."""
    frame = context.GetFrame() if isinstance(context, lldb.SBExecutionContext) else None
    try:
        done = answer(debugger, command, frame)
    except Problem as problem:
        result.SetError(f"zguard: {problem}")
        return
    result.AppendMessage(done.stdout.rstrip("\n"))
    if done.stderr:
        if done.returncode and not done.stdout:
            result.SetError(done.stderr.strip())
        else:
            result.AppendWarning(done.stderr.strip())


def __lldb_init_module(debugger, _):
    debugger.HandleCommand(f"command script add -f {__name__}.zguard zguard")
