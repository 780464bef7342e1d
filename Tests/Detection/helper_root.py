#!/usr/bin/env python3
"""Checks ZombieGuardTesting in a debootstrap root (Debian 12) with nothing but a Swift toolchain and the packages that it needs.
There is no libdw, and there are no headers of elfutils and zlib. The package of Examples/CartTests must build there, and its failing test
must name class, functions and lines. Skipped if such a root cannot be made. Closing line: N passed, N failed."""

import argparse
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import roots  # noqa: E402
from Support.checks import Checks  # noqa: E402
from Support.environment import ROOT  # noqa: E402

# The dependencies that swift.org lists for its Debian 12 toolchain, as far as building and testing need them.
NEEDED = ("binutils", "ca-certificates", "git", "libc6-dev", "libcurl4", "libedit2", "libncurses6", "libpython3.11", "libsqlite3-0",
          "libstdc++-12-dev", "libxml2", "tzdata", "unzip", "zlib1g")
FORBIDDEN = ("usr/include/zlib.h", "usr/include/elfutils", "usr/include/dwarf.h", "usr/include/libelf.h")
TIMEOUT_SECONDS = 3600

# Regular expressions for the message of the failing test.
EXPECTED = (
    r"✘ Test addAfterClose\(\) recorded an issue at Counter\.swift:\d+",
    r"use-after-free: method Cart\.add\(_:\) was called on a deallocated Shop\.Cart",
    r"touched:\n.*\n? +static Counter\.add\(_:to:\)  Sources/Shop/Counter\.swift:\d+\n"
    r" +CartTests\.addAfterClose\(\)  Tests/FailingTests/CartTests\.swift:\d+",
    r"freed:\n +Cart\.__deallocating_deinit  Sources/Shop/Cart\.swift:\d+\n +static Counter\.close\(_:\)  Sources/Shop/Counter\.swift:\d+",
    r"allocated:\n +Cart\.__allocating_init\(\)  Sources/Shop/Cart\.swift:\d+\n +CartTests\.addAfterClose\(\)  Tests/FailingTests/CartTests\.swift:\d+",
)


def toolchain():
    """Root directory of the first Swift toolchain in PATH (the parent of usr); None if it is installed into / or missing."""
    swift = shutil.which("swift")
    if not swift:
        return None
    place = Path(swift).resolve().parents[2]
    return place if (place / "usr/bin/swift").exists() and place != Path("/") else None


def problems_of(status, said, *, expected_status):
    problems = [] if status == expected_status else [f"status {status}"]
    return problems + [f"says: {line}" for line in said.splitlines() if re.search(r"\b(error|warning): ", line)][:10]


def try_in(root, swift, checks):
    checks.check("libdw and the headers are not there", [path for path in FORBIDDEN if root.has(path)] +
                 [str(path) for path in root.path.glob("usr/lib/*/libdw*.so*")])
    binds = {f"{swift}:ro": "/toolchain", f"{ROOT}:ro": "/product"}
    # CartTests is copied into the root and built there, because the checkout of ZombieGuard (/product) is mounted read-only.
    script = r"""
        set -e
        PATH=/toolchain/usr/bin:$PATH
        rm -rf /work && mkdir /work && cp -a /product/Examples/CartTests /work/CartTests
        sed -i 's|path: "../.."|path: "/product"|' /work/CartTests/Package.swift
        grep -q '"/product"' /work/CartTests/Package.swift
        cd /work/CartTests
        """
    status, out, err = root.run(["sh", "-c", script + "exec swift build --build-tests --disable-sandbox"], TIMEOUT_SECONDS, binds)
    checks.check("the package builds", problems_of(status, out + err, expected_status=0))
    if status != 0:
        return
    filtered = script.replace("rm -rf /work && mkdir /work && cp -a /product/Examples/CartTests /work/CartTests", ":")
    command = filtered + "exec swift test --skip-build --disable-sandbox --filter '^%s'"
    # Test helpers that examine the heap start the zguard executable.
    status, out, err = root.run(["sh", "-c", command % "PassingTests"], TIMEOUT_SECONDS, binds, NO_COLOR="1", ZGUARD="/product/build/bin/zguard")
    problems = problems_of(status, out + err, expected_status=0)
    checks.check("tests without a bug pass", problems + ([(out + err)[-3000:]] if problems else []))
    status, out, err = root.run(["sh", "-c", command % "FailingTests.CartTests/addAfterClose"], TIMEOUT_SECONDS, binds, NO_COLOR="1")
    said = out + err
    problems = [] if status == 1 else [f"status {status}"]
    problems += [f"does not say {pattern}" for pattern in EXPECTED if not re.search(pattern, said)]
    if problems:
        problems.append(said[-3000:])
    checks.check("a zombie is reported with class, functions and lines", problems)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    checks = Checks()
    swift = toolchain()
    try:
        if not swift:
            raise roots.Unavailable("Swift is not installed in a directory of its own")
        root = roots.make("bookworm", NEEDED)
    except roots.Unavailable as reason:
        print(f"skipped: the helper in a root without elfutils: {reason}")
        checks.skipped += 1
    else:
        try_in(root, swift, checks)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
