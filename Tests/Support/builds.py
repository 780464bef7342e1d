#!/usr/bin/env python3
"""Builds what test drivers need, each target once: programs, and the runtime in its flavours.

A target is rebuilt if it is older than a source, or was built by another command. If two drivers need the same target at the same time, one
builds it and the other waits. Objects of the runtime are stored by content, so that two flavours share those that a define does not change,
and no object is compiled again because of its date.

usage: Tests/Support/builds.py library FLAVOUR       builds the preload library of a flavour and prints its path
       Tests/Support/builds.py objects FLAG...       compiles the runtime with these flags and prints its objects' paths
"""

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import checks  # noqa: E402
from Support.checks import Failed  # noqa: E402
from Support.environment import ARCH, HERE, PUBLISH, ROOT, RUNTIME  # noqa: E402

OBJECTS = ROOT / "build/tests/objects"
BUILD = ROOT / "build/tests" / (ARCH if ARCH != HERE else "")
# First arguments of clang when cross-compiling.
CROSS = [f"--target={ARCH}-linux-gnu", *(f"--sysroot={os.environ[name]}" for name in ["ZG_SYSROOT"] if name in os.environ)] if ARCH != HERE else []
JOBS = 2
KEPT_DAYS = 14  # objects unused for this long are deleted


class Clock:
    """Measures the time in which at least one compiler ran for this driver, or for another driver that it waited for."""

    def __init__(self):
        self.lock, self.working, self.seconds, self.since = threading.Lock(), 0, 0.0, 0.0

    def __enter__(self):
        with self.lock:
            if not self.working:
                self.since = time.monotonic()
            self.working += 1

    def __exit__(self, *_):
        with self.lock:
            self.working -= 1
            if not self.working:
                self.seconds += time.monotonic() - self.since

    def said(self):
        return f"building took {self.seconds:.1f} s" if self.seconds >= 0.05 else ""


clock = Clock()
checks.notes.append(clock.said)


# MARK: one target


def run_compiler(command, cwd=None):
    """Runs a compiler; returns its output."""
    result = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    if result.returncode:
        raise Failed(f"does not build: {' '.join(str(word) for word in command)}\n{result.stdout.strip()[-3000:]}")
    return result.stdout


@contextlib.contextmanager
def locked(path):
    """Holds an exclusive lock on a file, against other threads and processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def is_made(stamp, target, text, sources):
    """Returns whether the target is current. The stamp file contains the command; its time is the moment before the sources were read. In
    the run stage of processors.py there is no compiler, and everything was built a moment before."""
    if os.environ.get("ZG_TEST_STAGE") == "run" and target.exists():
        return True
    try:
        return (target.exists() and stamp.read_text() == text
                and stamp.stat().st_mtime_ns > max(Path(source).stat().st_mtime_ns for source in sources))
    except FileNotFoundError:
        return False


def make(target, sources, text, work):
    """Calls `work` if `target` is older than a source, or was built by another command than `text`. Returns the target."""
    stamp = target.with_name(target.name + ".made")
    if is_made(stamp, target, text, sources):
        return target
    with clock, locked(stamp) as file:
        if not is_made(stamp, target, text, sources):
            file.truncate(0)
            began = time.time_ns()
            work()
            file.write(text)
            file.flush()
            os.utime(stamp, ns=(began, began))
    return target


def compiled(target, command, sources, cwd=None):
    """Runs a compiler command if necessary; returns its target. Prints warnings that are not errors."""
    def work():
        target.parent.mkdir(parents=True, exist_ok=True)
        if said := run_compiler(command, cwd).strip():
            print(f"{target.name}: {said}", flush=True)
    return make(target, sources, " ".join(str(word) for word in command), work)


def system_wide():
    """Returns a lock for the driver that installs a package into the system, and for drivers that an installation would disturb."""
    return locked(BUILD / "system.lock")


def write_if_different(path, text):
    with locked(path.with_name(path.name + ".lock")):
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# MARK: the runtime


@functools.cache
def find_clang():
    """Returns the clang of the installed Swift, as scripts/build chooses it."""
    if known := os.environ.get("ZG_TEST_CLANG"):  # on another processor only the name matters, as part of the command (processors.py)
        return known
    swift = shutil.which("swift")
    if swift:
        clang = Path(os.path.realpath(swift)).parent / "clang"
        if clang.exists():
            return str(clang)
        info = subprocess.run([swift, "-print-target-info"], stdout=subprocess.PIPE, text=True).stdout
        resources = json.loads(info)["paths"]["runtimeResourcePath"] if info else ""
        clang = Path(resources).parent.parent / "bin" / "clang"
        if clang.exists():
            return str(clang)
    return os.environ.get("CC", "clang")


@functools.cache
def library_flags(what):
    """Returns the flags that scripts/build passes to the compiler or linker for the preload library."""
    return run_compiler(["bash", "-c", f"source scripts/common.sh && library_{what}_flags"], cwd=ROOT).splitlines()


# UBSan's own runtime library would allocate through the library under test; traps need no runtime. Use a debugger to find the place.
TRAPS = ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
DEBUGGED = ["-std=c17", "-O1", "-g", "-fPIC", "-fvisibility=hidden", "-fexceptions", "-fno-omit-frame-pointer", "-fno-builtin-malloc",
            "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free", "-Wall", "-Wextra", "-Werror", '-DZG_VERSION="test"']
INJECT = "Tests/Robustness/Faults/inject"
CAPTURES = "Tests/Runtime/Captures"

# Flavour: compiler flags, flags that only affect the preprocessor, and sources besides the runtime's.
#   checked   for tests linked with the runtime, the model test and preload tests: undefined behavior traps, and tests can check
#             the heap's invariants
#   thread    with ThreadSanitizer
#   faults    every system call goes through the injector
#   captures  compares every stack capture with libunwind's, and measures its time: compiled as the product is
#   stacks    compares every stack capture with an uncached walk
FLAVOURS = {
    "checked": lambda: ([*DEBUGGED, *TRAPS], ["-DZG_CHECK_INVARIANTS"], []),
    "thread": lambda: ([*DEBUGGED, "-fsanitize=thread"], ["-DZG_DESTRUCTOR_ROUNDS=1"], []),
    "faults": lambda: (library_flags("compile"), ["-D_GNU_SOURCE=", "-include", f"{INJECT}.h"], [f"{INJECT}.c"]),
    "captures": lambda: (library_flags("compile"), ["-DZG_OBSERVE_CAPTURES"], [f"{CAPTURES}/compare_unwinder.c"]),
    "stacks": lambda: (library_flags("compile"), ["-DZG_OBSERVE_CAPTURES"], [f"{CAPTURES}/walk_again.c"]),
}


def inputs(more):
    """Returns all files from which a flavour is built."""
    files = [path for folder in (RUNTIME, PUBLISH) for path in folder.rglob("*.[ch]")]
    files += [path for source in more for path in (ROOT / source).parent.glob("*.[ch]")]
    return [*files, ROOT / "scripts/common.sh", ROOT / "Package.swift", Path(__file__), Path(find_clang())]


def object_of(source, flags, texts):
    """Returns the object of one source; from the store if the same preprocessed text was compiled with these flags before."""
    command = [find_clang(), *CROSS, *flags, *texts, "-ISources/CZombie", "-ISources/CZombiePublish/include"]
    read = subprocess.run([*command, "-E", source], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True)
    if read.returncode:
        raise Failed(f"does not build: {source}\n{read.stderr.decode(errors='replace').strip()[-3000:]}")
    digest = hashlib.sha256("\0".join([compiler_identity(), str(ROOT), *CROSS, *flags, ""]).encode() + read.stdout).hexdigest()[:24]
    target = OBJECTS / f"{Path(source).stem}-{digest}.o"
    with locked(OBJECTS / "locks" / digest[:2]):
        if target.exists():
            os.utime(target)
        else:
            # Rename the file when it is complete, because a file with the final name is never rebuilt.
            made = target.with_suffix(".new")
            run_compiler([*command, "-c", source, "-o", made], cwd=ROOT)
            made.rename(target)
    return target


@functools.cache
def compiler_identity():
    clang = Path(find_clang()).resolve()
    return f"{clang} {clang.stat().st_size} {clang.stat().st_mtime_ns}"


def objects_of(sources, flags, texts=()):
    OBJECTS.mkdir(parents=True, exist_ok=True)
    with clock, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda source: object_of(source, flags, texts), sources))


def sources_of(folder):
    return sorted(str(path.relative_to(ROOT)) for path in folder.rglob("*.c"))


def remove_old_objects():
    oldest = time.time() - KEPT_DAYS * 86400
    for path in OBJECTS.glob("*.o"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def archive(flavour):
    """Builds the runtime as a static library, without its public functions."""
    flags, texts, more = FLAVOURS[flavour]()
    target = BUILD / flavour / "libruntime.a"

    def work():
        made = objects_of([*sources_of(RUNTIME), *more], flags, texts)
        target.unlink(missing_ok=True)
        run_compiler(["ar", "rcs", target, *made])
        remove_old_objects()
    return make(target, inputs(more), "\n".join([*flags, *texts]), work)


def library(flavour):
    """Builds the preload library."""
    flags, texts, more = FLAVOURS[flavour]()
    target = BUILD / flavour / "libzguard.so"

    def work():
        made = objects_of([*sources_of(RUNTIME), *sources_of(PUBLISH), *more], flags, texts)
        fresh = target.with_name("libzguard.so.new")  # processes that have mapped the old file keep it
        run_compiler([find_clang(), *CROSS, *flags, *made, *library_flags("link"), "-o", fresh], cwd=ROOT)
        fresh.rename(target)
        remove_old_objects()
    return make(target, inputs(more), "\n".join([*flags, *texts, *library_flags("link")]), work)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "library" and sys.argv[2] in FLAVOURS:
        print(library(sys.argv[2]))
    elif len(sys.argv) > 2 and sys.argv[1] == "objects":
        flags = [flag for flag in sys.argv[2:] if not flag.startswith("-D")]
        print(*objects_of(sources_of(RUNTIME), flags, [flag for flag in sys.argv[2:] if flag.startswith("-D")]), sep="\n")
    else:
        sys.exit(f"builds.py: error: wrong arguments\nhint: library {'|'.join(FLAVOURS)}, or objects FLAG...")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"builds.py: error: {failure}")
