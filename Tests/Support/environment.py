"""Paths of the project, and the environment in which drivers run programs."""

import os
import platform
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
HERE = os.environ.get("ZG_TEST_HERE", platform.machine())  # processor of the build machine
ARCH = os.environ.get("ZG_TEST_ARCH", HERE)  # processor of the programs under test; processors.py sets another one
PRODUCTS = ROOT / "build" / (ARCH if ARCH != HERE else "")
ZGUARD = PRODUCTS / "bin/zguard"
LIBRARY = PRODUCTS / "lib/libzguard.so"
RUNTIME = ROOT / "Sources/CZombie"
PUBLISH = ROOT / "Sources/CZombiePublish"

# Prefixes of variables that would affect ZombieGuard, the loader, malloc, Swift, or the format of output. Other ZG_… variables belong to
# test programs.
OUT_OF_PLACE = ("ZGUARD_", "ZG_FAULT", "ZG_CAPTURES", "LD_", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "TSAN_", "UBSAN_", "ASAN_",
                "SWIFT_BACKTRACE", "DEBUGINFOD_", "NO_COLOR", "CLICOLOR", "LIFE_", "STORE_", "LC_ALL", "COLUMNS")


def scrubbed(**variables):
    """Returns the caller's environment without the variables of OUT_OF_PLACE, in the C locale, plus the given variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUT_OF_PLACE)}
    return {**kept, "LC_ALL": "C", **variables}


def guarded_by(library=LIBRARY, options="", **variables):
    """Returns the scrubbed environment for a program that runs with the library preloaded, without zguard."""
    return scrubbed(LD_PRELOAD=str(library), ZGUARD_OPTIONS=options, **variables)
