"""Where things are, and the environment that drivers run programs in."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
ZGUARD = ROOT / "build/bin/zguard"
LIBRARY = ROOT / "build/lib/libzguard.so"
RUNTIME = ROOT / "Sources/CZombie"
PUBLISH = ROOT / "Sources/CZombiePublish"

# What would change what ZombieGuard, the loader, malloc or Swift do, or how their output looks. Other variables of ZG_… are
# for the test programs.
OUT_OF_PLACE = ("ZGUARD_", "ZG_FAULT", "ZG_CAPTURES", "LD_", "MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "TSAN_", "UBSAN_", "ASAN_",
                "SWIFT_BACKTRACE", "DEBUGINFOD_", "NO_COLOR", "CLICOLOR", "LIFE_", "STORE_", "LC_ALL")


def scrubbed(**variables):
    """The caller's environment without what is out of place in a test, in the C locale, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUT_OF_PLACE)}
    return {**kept, "LC_ALL": "C", **variables}


def guarded_by(library=LIBRARY, options="", **variables):
    """The same for a program that runs with the library, without zguard."""
    return scrubbed(LD_PRELOAD=str(library), ZGUARD_OPTIONS=options, **variables)
