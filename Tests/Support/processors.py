#!/usr/bin/env python3
"""Runs test drivers for another processor: cross-compiles here, then runs in a Debian root for that processor under qemu (emulation.py).
A driver calls `add_option`, and at the start of its work

    if processors.is_elsewhere(arguments.arch):
        return processors.run(__file__, arguments.arch, words)      # runs the driver twice, with these words

The first call, here, with ZG_TEST_STAGE=build, only builds; the second, in the root, with ZG_TEST_STAGE=run, finds everything built and
runs it. Compilers, python3, nm and the driver's other tools are this machine's in both calls: the root has this machine's files under
/host, and its programs run there as they do here. A program under test sees only a system of its own processor, including shell and tools.

Debian's cross compilers compile C and C++. Swift is compiled by the compiler in a root of the same Debian for this machine, with the other
root's modules and libraries: compiled modules require the same compiler version.

usage: Tests/Support/processors.py zguard ARCH FOLDER [FLAG...]
builds zguard for ARCH with these flags of `swift build`, which keeps its products in FOLDER; prints the program's path
usage: Tests/Support/processors.py root ARCH
makes the root for ARCH; prints its path
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds, compatibility, emulation, machines, roots  # noqa: E402
from Support.checks import Failed, as_shell, close, run_within  # noqa: E402
from Support.environment import ARCH, HERE, ROOT, ZGUARD, guarded_by, scrubbed  # noqa: E402

SUITE = "trixie"
DEBIAN = {"aarch64": "arm64"}  # Debian's names of processors
# Packages for the drivers, and for the programs that run with and without the library (elsewhere.py).
PACKAGES = ["bash", "g++", "gcc", "git", "jq", "libc6-dev", "libunwind-dev", "lua5.4", "musl-dev", "nodejs", "perl", "python3", "redis-server", "ruby", "sqlite3",
            "swiftlang", "xz-utils"]
# Packages for the runtime's own tests, and for programs whose stacks are compared with libunwind's.
LIBRARY_PACKAGES = ["g++", "libc6-dev", "libunwind-dev", "lua5.4", "perl", "sqlite3"]
COMPILER_PACKAGES = ["g++", "libc6-dev", "libdw1t64", "python3", "swiftlang"]
SWIFT = "/usr/libexec/swift"
BUILD_SECONDS = 3600
READ_SECONDS = 300
BUILD, RUN = "build", "run"
# If set, the tests run in a whole machine instead of a root: with the kernel's own signal frames and page tables, but several times slower.
# The value is the Debian release of the machine's kernel: bookworm's kernel is 6.1, without guard pages and windows; unstable's (sid) has
# both. With the suffix "-tags", memory tags work, too.
WHOLE = os.environ.get("ZG_TEST_MACHINE", "")
MACHINE_SECONDS = 2 * 3600
# Processor variants of qemu's user mode (qemu(1), "User Mode"): description, and variables for qemu. ZG_TEST_KIND chooses one. qemu's
# default is "max".
KINDS = {"": ("", {}),
         "39-bits": ("addresses of 39 bits", {"QEMU_RESERVED_VA": hex(1 << 39)}),
         "42-bits": ("addresses of 42 bits", {"QEMU_RESERVED_VA": hex(1 << 42)}),
         "wide-vectors": ("vectors of 2,048 bits", {"QEMU_CPU": "max,sve-default-vector-length=256"}),
         "first": ("ARMv8.0", {"QEMU_CPU": "cortex-a53"})}
KIND = os.environ.get("ZG_TEST_KIND", "")
BUILDS = ROOT / "build/tests" / (ARCH if ARCH != HERE else "")  # directory for the programs that drivers compile


def add_option(parser):
    parser.add_argument("--arch", default=HERE, choices=[HERE, *DEBIAN], help="programs of this processor, under qemu where it is not this machine's")


def is_elsewhere(arch):
    """Returns whether the driver must call itself (`run`) to do the work for this --arch; false in these calls."""
    return arch != HERE and not stage()


def has_tags():
    """Returns whether the driver's processor and kernel support memory tags."""
    return ARCH == "aarch64" and (WHOLE.endswith("-tags") if WHOLE else KIND != "first")


def stage():
    """Returns "" in a driver for this machine, BUILD or RUN in one called by `run`."""
    return os.environ.get("ZG_TEST_STAGE", "")


def root_of(arch):
    return roots.make(SUITE, PACKAGES, processor=DEBIAN[arch])


def emulator(arch):
    """Returns a name such as "qemu-user 7.2"."""
    return "qemu-user " + ".".join(str(part) for part in emulation.version(emulation.qemu(DEBIAN[arch]))[:2])


def binds():
    """Returns the directories of this machine that a driver needs in the root: all files below /host, and the libraries and the source
    tree at their own paths."""
    return {"/": "/host", f"/usr/lib/{HERE}-linux-gnu": f"/usr/lib/{HERE}-linux-gnu", "/usr/lib64": "/lib64", ROOT: ROOT}


def environment(arch):
    """Returns variables that tell drivers the processor and its compilers. (clang serves all processors.)"""
    tools = ROOT / f"build/tests/{arch}"
    compilers = {"CC": f"{arch}-linux-gnu-gcc", "CXX": f"{arch}-linux-gnu-g++", "STRIP": f"{arch}-linux-gnu-strip",
                 "CLANGXX": str(tools / "clang++"), "SWIFTC": str(tools / "swiftc")}
    return {**compilers, "ZG_TEST_ARCH": arch, "PYTHONDONTWRITEBYTECODE": "1", "ZG_TEST_KIND": KIND}


def run(driver, arch, words):
    """Runs a driver for `arch`; returns the exit status. If no root can be made, prints the reason and counts as skipped."""
    try:
        root = root_of(arch)
        write_compilers(arch, root)
    except emulation.Unavailable as reason:
        print(f"skipped: programs of {arch}: {reason}")
        close(0, 0, 1)
        return 0
    variables = {**environment(arch), "ZG_SYSROOT": str(root.path), "ZG_TEST_CLANG": builds.find_clang()}
    # The second call repeats the build and so reports the compile errors.
    built = subprocess.run([sys.executable, driver, "--arch", arch, *words], env={**os.environ, **variables, "ZG_TEST_STAGE": BUILD},
                           stdout=subprocess.DEVNULL)
    if built.returncode not in (0, 1):
        return close(0, 1)
    # The compiler's version cannot be queried in the root.
    said = subprocess.run([variables["SWIFTC"], "--version"], capture_output=True, text=True)
    variables["ZG_TEST_SWIFT"] = (re.findall(r"Swift version ([\d.]+)", said.stdout + said.stderr) or [""])[0]
    if WHOLE:
        return run_in_machine(root, ["python3", Path(driver).resolve(), "--arch", arch, *words], variables)
    path = f"{roots.ENVIRONMENT['PATH']}:/host/usr/bin"
    command = ["/host/usr/bin/python3", Path(driver).resolve(), "--arch", arch, *words]
    return subprocess.run(root.words(command, binds(), ROOT), env={**roots.ENVIRONMENT, **variables, **KINDS[KIND][1], "PATH": path, "ZG_TEST_STAGE": RUN},
                          stdin=subprocess.DEVNULL).returncode


def run_in_machine(root, command, variables):
    """Runs a driver in a whole machine (machines.py), with the root's own python3 and tools."""
    try:
        machine = machines.make(WHOLE.removesuffix("-tags"), with_tags=WHOLE.endswith("-tags"))
    except emulation.Unavailable as reason:
        print(f"skipped: a whole machine: {reason}")
        close(0, 0, 1)
        return 0
    compatibility.FOLDER.mkdir(parents=True, exist_ok=True)
    # Leave out tags unless they work: older emulators have one tag for each page.
    kind = "virt,gic-version=3" + ",mte=on" * WHOLE.endswith("-tags")
    status, said = machine.run(root.path, command, MACHINE_SECONDS, {ROOT: ROOT}, {compatibility.FOLDER: compatibility.FOLDER}, ROOT, machine=kind,
                               **{**variables, "ZG_TEST_EMULATOR": machines.emulator(machine), "ZG_TEST_STAGE": RUN, "ZG_TEST_HERE": HERE, "ZG_TEST_MACHINE": WHOLE})
    print(said, end="")
    if status is None:
        print(f"the machine did not end within {MACHINE_SECONDS} s")
        return close(0, 1)
    return status


def has_guard_pages():
    """Returns whether programs run under a kernel with guard pages: qemu's user mode has none, and bookworm's kernel is too old."""
    return not stage() or WHOLE.startswith("sid")


def record(driver, what, passed, failed, skipped=0, swift=""):
    """Records a result of the root for the table of systems."""
    if stage() == RUN:
        compatibility.record(driver, ", ".join(filter(None, [what, KINDS[KIND][0], WHOLE and f"whole machine with {WHOLE}'s kernel"])), passed, failed, skipped, architecture=ARCH, swift=swift,
                             emulator=os.environ.get("ZG_TEST_EMULATOR") or emulator(ARCH))


def run_preloaded(command, options, seconds, **variables):
    """Does the work of `zguard run` in the root: runs the command with the library preloaded, and lets this machine's zguard read the
    report (the root's zguard if there are findings in C++). `zguard run` itself would take most of the time under qemu. Returns the status,
    output, errors and findings, as `zguard run` would; the status is None after a timeout."""
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        raw = Path(directory) / "raw.jsonl"
        words = [f"report_path={raw}", *filter(None, options)]
        status, out, err = run_within(seconds, command, text=False, env=guarded_by(options=":".join(words), **variables))
        findings = []
        if raw.exists() and raw.stat().st_size:
            # This machine's zguard is faster, but would decode code of C++ destructors as code of this machine.
            reader = ZGUARD if ZGUARD.exists() and b'"language":"c++"' in raw.read_bytes() else ROOT / "build/bin/zguard"
            read, said, problems = run_within(READ_SECONDS, [reader, "report", raw, "--format", "json"], env=scrubbed())
            if read != 0:
                raise Failed(f"zguard report: status {read}: {problems[-300:]}")
            findings = [json.loads(line) for line in said.splitlines() if line.strip()]
    status = as_shell(status)
    return 99 if status == 0 and findings else status, out, without_emulator(err), findings


def without_emulator(err):
    """Returns standard error without qemu's messages about the signal that killed a program."""
    lines = err.splitlines(keepends=True) if stage() == RUN else [err]
    return b"".join(line for line in lines if not re.match(rb"qemu(-\w+)?: (uncaught target signal|QEMU internal SIG)", line))


def write_compilers(arch, root):
    """Writes swiftc and clang++ for `arch` as one script each: drivers take a compiler's name from the environment."""
    compiler = roots.make(SUITE, COMPILER_PACKAGES)
    resources = f"{root.path}{SWIFT}/lib"
    words = [f"{SWIFT}/bin/swiftc", "-target", f"{arch}-unknown-linux-gnu", "-sdk", root.path, "-use-ld=lld", "-tools-directory", f"{SWIFT}/bin"]
    entering = shlex.join(str(word) for word in compiler.words([], {ROOT: ROOT}, "@")[:-1])
    # The run path is that of Debian's packages, not that of the root used for compiling.
    write_script(Path(environment(arch)["SWIFTC"]), [
        f"# Swift's compiler for {arch}.",
        'static=',
        'for word; do [ "$word" != -static-stdlib ] || static=_static; done',
        f'[ -n "$static" ] || set -- -no-toolchain-stdlib-rpath -Xlinker -rpath -Xlinker {SWIFT}/lib/swift/linux "$@"',
        f'export PATH={roots.ENVIRONMENT["PATH"]}',
        f'exec {entering} "$PWD" {shlex.join(str(word) for word in words)} -resource-dir {shlex.quote(resources)}/swift"$static" "$@"'])
    write_script(Path(environment(arch)["CLANGXX"]), [f'exec {shlex.quote(builds.find_clang())} --driver-mode=g++ --target={arch}-linux-gnu "$@"'])


def write_script(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    builds.write_if_different(path, "\n".join(["#!/bin/bash", *lines, ""]))
    path.chmod(0o755)


def build_zguard(arch, folder, flags):
    """Builds zguard with the package manager of the compiler's root; returns the program. destination.json is a SwiftPM destination in the
    format that Swift evolution 0387 calls version 1."""
    root, compiler, folder = root_of(arch), roots.make(SUITE, COMPILER_PACKAGES), ROOT / folder
    folder.mkdir(parents=True, exist_ok=True)
    static = f"{root.path}{SWIFT}/lib/swift_static"
    destination = folder / "destination.json"
    destination.write_text(json.dumps({
        "version": 1, "target": f"{arch}-unknown-linux-gnu", "sdk": str(root.path), "toolchain-bin-dir": f"{SWIFT}/bin",
        "extra-cc-flags": ["--sysroot", str(root.path)], "extra-cpp-flags": [],
        "extra-swiftc-flags": ["-sdk", str(root.path), "-use-ld=lld", "-resource-dir", static]}))
    words = ["swift", "build", *flags, "--destination", destination, "--scratch-path", folder / "swift"]
    for more in ([], ["--show-bin-path"]):
        status, out, err = compiler.run([*words, *more], BUILD_SECONDS, {ROOT: ROOT}, ROOT)
        if status:
            raise Failed(f"zguard does not build for {arch}\n{(out + err)[-6000:]}")
    return Path(out.strip()) / "zguard"


def main():
    arch = sys.argv[2] if len(sys.argv) > 2 else ""
    if arch not in DEBIAN or sys.argv[1:2] != ["root"] and (sys.argv[1:2] != ["zguard"] or len(sys.argv) < 4):
        sys.exit("processors.py: error: wrong arguments\nhint: zguard " + "|".join(DEBIAN) + " FOLDER [FLAG...]")
    try:
        print(root_of(arch).path if sys.argv[1] == "root" else build_zguard(arch, sys.argv[3], sys.argv[4:]))
    except (emulation.Unavailable, Failed) as reason:
        sys.exit(f"processors.py: error: {reason}")


if __name__ == "__main__":
    main()
