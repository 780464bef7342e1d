"""Where things are, and the environment that drivers run programs in."""

import os
import platform
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
HERE = os.environ.get("ZG_TEST_HERE", platform.machine())  # what built it
ARCH = os.environ.get("ZG_TEST_ARCH", HERE)  # of the programs that are tested; another one's are told by processors.py
PRODUCTS = ROOT / "build" / (ARCH if ARCH != HERE else "")
ZGUARD = PRODUCTS / "bin/zguard"
LIBRARY = PRODUCTS / "lib/libzguard.so"
RUNTIME = ROOT / "Sources/CZombie"
PUBLISH = ROOT / "Sources/CZombiePublish"

# What would change what ZombieGuard, the loader, malloc or Swift do, or how their output looks. Other variables of ZG_… are
# for the test programs.
OUT_OF_PLACE = ("ZGUARD_", "ZG_FAULT", "ZG_CAPTURES", "LD_", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "TSAN_", "UBSAN_", "ASAN_",
                "SWIFT_BACKTRACE", "DEBUGINFOD_", "NO_COLOR", "CLICOLOR", "LIFE_", "STORE_", "LC_ALL", "COLUMNS")


def scrubbed(**variables):
    """The caller's environment without what is out of place in a test, in the C locale, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUT_OF_PLACE)}
    return {**kept, "LC_ALL": "C", **variables}


def guarded_by(library=LIBRARY, options="", **variables):
    """The same for a program that runs with the library, without zguard."""
    return scrubbed(LD_PRELOAD=str(library), ZGUARD_OPTIONS=options, **variables)
