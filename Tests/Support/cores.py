"""Makes core files of crashing programs, written by the kernel or by gdb, and compares two findings of the same crash."""

import os
import re
import resource
import signal
from pathlib import Path

from Support.checks import run_within
from Support.environment import LIBRARY, scrubbed

# Deadly signals without SIGTRAP, which gdb handles itself and needs to start a program.
DEADLY = "SIGSEGV SIGBUS SIGABRT SIGILL SIGFPE SIGSYS SIGXCPU SIGXFSZ"
TIMEOUT_SECONDS = 60

# Writes a core file when the program has stopped `stop` times for a deadly signal.
GDB = """
import gdb
stops = 0
def stopped(event):
    global stops
    stops += 1 # of SIGTRAP it is no gdb.SignalEvent
gdb.events.stop.connect(stopped)
gdb.execute("run")
while stops and stops < {stop}:
    gdb.execute("continue")
if stops:
    gdb.execute("generate-core-file {core}")
    gdb.execute("kill")
"""


def kernel_writes_here():
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return pattern.startswith("core") and "/" not in pattern


def may_leave_core():
    """For a child process, before its program: lets SIGQUIT leave a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # shells ignore SIGQUIT for background jobs


def kernels_core(place):
    """Returns the core file that the kernel wrote, or None."""
    return next(iter(sorted(place.glob("core*"))), None)


def gdbs_core(program, arguments, options, place, stop=1, follow="parent"):
    """Runs a program with the library under gdb until it has stopped `stop` times for a deadly signal. Returns the core file (or None) and
    gdb's output. gdb and the shell in between run unguarded."""
    core, script = place / "gdb.core", place / "core.py"
    script.write_text(GDB.format(core=core, stop=stop))
    settings = ["set debuginfod enabled off", "set startup-with-shell off", "set confirm off", f"set follow-fork-mode {follow}"]
    commands = [f"set environment LD_PRELOAD {LIBRARY}", f"set environment ZGUARD_OPTIONS {options}", f"handle all nostop noprint pass",
                f"handle {DEADLY} stop print pass", f"source {script}"]
    command = ["gdb", "-nx", "-batch", *(word for each in settings for word in ("-iex", each)), *(word for each in commands for word in ("-ex", each)),
               "--args", program, *arguments]
    _, out, errors = run_within(TIMEOUT_SECONDS, command, env=scrubbed(), cwd=place)
    return (core if core.exists() else None), out + errors


def places(stack):
    """Returns module and offset of the physical frames (not the inlined ones), independent of load addresses."""
    return [(os.path.basename(frame.get("module", "")), frame.get("offset")) for frame in stack if not frame.get("inlined")]


def said_of(finding):
    """Returns the values that must agree in two findings of the same crash, most important first; module offsets replace addresses."""
    block, stacks = finding.get("block", {}), finding["stacks"]
    return {
        "kind": finding["kind"],
        "signal": (finding.get("signal"), finding.get("code")),
        "message": re.sub("0x[0-9a-f]+", "0x…", finding["message"]) if "message" in finding else None,
        "access": finding["access"],
        "confidence": finding["confidence"],
        "stack": places(stacks["access"]),
        "threads": len(finding.get("threads", [])),
        "block": (block.get("size"), block.get("offset"), block.get("state"), block.get("class"), block.get("member"),
                  places(stacks.get("free", [])), places(stacks.get("alloc", []))),
        "thrown": places(stacks.get("thrown", [])),
        "notes": finding.get("annotations", {}),
        "registers": sorted(finding.get("registers", {})),
    }


def differences(live, dead):
    """Returns {name: (value of the live finding, value of the core's)} for all values that differ."""
    ours, theirs = said_of(live), said_of(dead)
    return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}


def shortened(text):
    return re.sub(r"\s+", " ", str(text))[:300]
