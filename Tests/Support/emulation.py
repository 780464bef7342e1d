"""Runs programs of another processor with qemu's user mode, as if they were native ones.

A user namespace gets a binfmt_misc of its own (Linux 6.7) that makes qemu the interpreter. Nothing outside the namespace changes, and
nothing remains once the driver has ended. Programs in the namespace may start others, of either processor.

    inside = emulation.entering("arm64")                # raises Unavailable with the reason if this is impossible here
    subprocess.run([*inside, "unshare", "--mount", "chroot", root, "/bin/true"])
"""

import atexit
import fcntl
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from Support.environment import ROOT

MIRROR = "http://deb.debian.org/debian"
KEPT = ROOT / "build/tests/qemu"

# Debian's name of the processor: its name in qemu and compilers, the first 20 bytes of its ELF files and their mask (class, byte order,
# file type, machine: elf.h; format of the line: Documentation/admin-guide/binfmt-misc.rst).
PROCESSORS = {"arm64": ("aarch64", r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00", r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff")}

_holders = {}


class Unavailable(Exception):
    """Something is impossible on this system; the text is the reason, in one line."""


def entering(processor):
    """Returns a command prefix that enters the namespace for programs of `processor`, as its superuser."""
    if processor not in _holders:
        _holders[processor] = _hold(processor)
    return ["nsenter", f"--user=/proc/{_holders[processor].pid}/ns/user", "--"]


@functools.cache
def qemu(processor):
    """Returns a static emulator, because it must run in roots with other libraries or none. Before version 8 qemu checks each page of a
    mapping, which takes minutes for the terabytes of address space that the runtime reserves. If the installed one is older or not static,
    Debian 13's is downloaded and kept in build/tests."""
    name = f"qemu-{PROCESSORS[processor][0]}"
    for path in filter(None, (shutil.which(word) for word in (os.environ.get("ZG_QEMU", name), f"{name}-static", name))):
        if b"interpreter" not in subprocess.run(["file", "-b", path], capture_output=True).stdout and version(path) >= (8,):
            return Path(path)
    return _fetched() / "usr/bin" / name


def version(path):
    """Returns the version of a qemu as numbers."""
    said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    return tuple(int(part) for part in (re.findall(r"version ([\d.]+\d)", said) or ["0"])[0].split("."))


def _fetched():
    """Returns the directory with Debian 13's package qemu-user, unpacked; downloads it if necessary."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with open(KEPT.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (KEPT / ".made").exists():
            for folder in ("apt/etc/apt", "apt/var/lib/apt/lists/partial", "apt/var/cache/apt/archives/partial", "apt/var/lib/dpkg"):
                (KEPT / folder).mkdir(parents=True, exist_ok=True)
            (KEPT / "apt/var/lib/dpkg/status").write_text("")
            (KEPT / "apt/etc/apt/sources.list").write_text(f"deb {MIRROR} trixie main\n")
            options = [f"Dir={KEPT}/apt", f"Dir::State::status={KEPT}/apt/var/lib/dpkg/status", "Dir::Etc::TrustedParts=/etc/apt/trusted.gpg.d", "APT::Sandbox::User=root"]
            apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
            for command in ([*apt, "update"], [*apt, "download", "qemu-user"], ["sh", "-c", "dpkg-deb --extract qemu-user_*.deb . && rm -r qemu-user_*.deb apt"]):
                if (result := subprocess.run(command, cwd=KEPT, stdin=subprocess.DEVNULL, capture_output=True, text=True)).returncode:
                    raise Unavailable(f"Debian 13's qemu cannot be fetched: {(result.stderr.strip().splitlines() or ['it says nothing'])[-1][:200]}")
            (KEPT / ".made").touch()
    return KEPT


# Runs in the holder process once its user map is set: the entry in binfmt_misc exists while that file system is mounted anywhere. F: open
# the interpreter now, so that roots need not contain it; P: preserve argv[0].
HOLD = r"""
echo; read -r line
mount --make-rprivate / && mount -t binfmt_misc binfmt_misc /mnt && printf %s "$1" > /mnt/register && echo ready
exec cat
"""


def _hold(processor):
    """Starts a process that keeps the namespace until the driver ends: it reads from a pipe that is closed then."""
    _, magic, mask = PROCESSORS[processor]
    line = f":{processor}:M::{magic}:{mask}:{qemu(processor)}:FP"
    if os.geteuid() != 0:
        raise Unavailable("only the superuser gives a namespace all users")
    holder = subprocess.Popen(["unshare", "--user", "--mount", "sh", "-c", HOLD, "sh", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(holder.stdin.close)
    holder.stdout.readline()
    try:
        for kind in ("uid", "gid"):
            Path(f"/proc/{holder.pid}/{kind}_map").write_text("0 0 4294967295\n")
    except OSError as error:
        raise Unavailable(f"a user namespace cannot be made: {error.strerror}") from error
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    if holder.stdout.readline() != b"ready\n":
        raise Unavailable("binfmt_misc cannot be had in a user namespace")
    return holder
