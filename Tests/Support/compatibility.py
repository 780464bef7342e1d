"""Records how many tests passed on which system; source of the table of systems in docs/COMPATIBILITY.md.

A driver calls `record` after its tests on a system. Results are in build/tests/compatibility, one file for each driver, one JSON object a
line:

    {"distribution": "Debian 13", "architecture": "aarch64", "kernel": "6.18.4", "glibc": "2.41", "swift": "6.0.3",
     "emulator": "qemu-user 7.2", "what": "one-bug programs", "passed": 212, "failed": 0, "skipped": 3, "date": "2026-01-31"}

`swift` is empty if the tests use no Swift, `emulator` if the processor is the machine's own. Of two lines that agree in distribution,
architecture, swift and what, the later one counts. scripts/compatibility collects them."""

import datetime
import fcntl
import json
import os
import platform
import re
from pathlib import Path

from Support.environment import ROOT

FOLDER = ROOT / "build/tests/compatibility"
KEY = ("distribution", "architecture", "swift", "what")
FIELDS = ("distribution", "architecture", "kernel", "glibc", "swift", "emulator", "what", "passed", "failed", "skipped", "date")


def record(driver, what, passed, failed, skipped=0, *, root="/", architecture="", swift="", emulator=""):
    """Adds a result to the file of `driver`. `root`: the system's root directory, from which distribution and libc version are read.
    Ignores results in which nothing ran."""
    if not passed + failed:
        return
    entry = {"distribution": distribution(root), "architecture": architecture or platform.machine(), "kernel": kernel(), "glibc": glibc(root),
             "swift": swift, "emulator": emulator, "what": what, "passed": passed, "failed": failed, "skipped": skipped,
             "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{driver}.json", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(entry) + "\n")


def record_closing_line(driver, what, said, **where):
    """Records the numbers of the last closing line "N passed, N failed" in a driver's output; nothing if there is none."""
    ends = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", said, re.M)
    if ends:
        record(driver, what, *(int(number or 0) for number in ends[-1]), **where)


def read(path):
    """Returns the results in a file. Raises ValueError with the first invalid line."""
    found = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            entry = {"kernel": "", "emulator": "", "skipped": 0, **entry}
            ordered = {name: entry[name] for name in FIELDS}
            if set(entry) != set(FIELDS) or any(type(ordered[name]) is not (int if name in ("passed", "failed", "skipped") else str)
                                                for name in FIELDS):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}:{number}: not a result: {line[:100]}") from None
        found.append(ordered)
    return found


def newest(entries):
    """Returns the newest result for each system and test, the later one if dates are equal; in a fixed order."""
    kept = {}
    for entry in sorted(entries, key=lambda entry: entry["date"]):
        kept[tuple(entry[name] for name in KEY)] = entry
    return [kept[key] for key in sorted(kept, key=_order)]


def _order(key):
    distribution, architecture, swift, what = key
    name, _, version = distribution.rpartition(" ")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)) or (1000,)
    return name if numbers != (1000,) else distribution.split()[0], numbers, architecture != "x86_64", architecture, _version(swift), what


def _version(text):
    return tuple(int(part) for part in re.findall(r"\d+", text))


def distribution(root="/"):
    """Returns a name such as "Debian 12", from os-release; Debian unstable has no number."""
    text = ""
    for name in ("etc/os-release", "usr/lib/os-release"):
        if (path := Path(root) / name).exists():
            text = path.read_text()
            break
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.M))
    name = fields.get("NAME", "Linux").replace(" GNU/Linux", "").replace(" Linux", "")
    version = fields.get("VERSION_ID", "")
    if name == "Debian":
        marked = Path(root) / "etc/debian_version"
        if "/sid" in (marked.read_text() if marked.exists() else "") or not version:
            version = "unstable"
    return f"{name} {version}".strip()


def glibc(root="/"):
    """Returns a version such as "2.36", read from the libc.so.6 of a system; "" if unknown."""
    for path in sorted(Path(root).glob("lib/*-linux-gnu*/libc.so.6")) + sorted(Path(root).glob("usr/lib/*-linux-gnu*/libc.so.6")):
        if found := re.search(rb"GNU C Library \([^)]*\) (?:stable|development) release version (\d+\.\d+)", path.read_bytes()):
            return found[1].decode()
    return ""


def kernel():
    """Returns the kernel version without a distribution's suffix."""
    return re.match(r"[\d.]*\d", os.uname().release)[0]
