"""Swift programs of this directory, in every kind of build: objects in all the states that the guard looks at."""

import subprocess

from case import Case, Need
from harness import INPUTS, CaseError


class Exerciser(Case):
    """Eight tasks over references, structures, types, texts and concurrency, beside queues, threads and races.
    Each build must give the same answers guarded as plain; a dead object that is seen ends it with status 3."""
    needs = (Need("swiftc", None),)
    sees = ("exerciser",)
    flags = ()
    # More options of the guard to run with, which the plain run ignores.
    options = ()

    def setup(self, inputs):
        sources = sorted((INPUTS / "exerciser").glob("*.swift"))
        result = subprocess.run(["swiftc", *self.flags, "-swift-version", "6", "-parse-as-library", "-module-name", "exerciser",
                                 *map(str, sources), "-o", str(inputs / "exerciser")], capture_output=True, text=True)
        if result.returncode != 0:
            raise CaseError("the exerciser cannot be compiled\n" + result.stderr[-2000:])

    def steps(self, run):
        program = run.inputs / "exerciser"
        run.step([program])
        for options in self.options:
            run.step([program], env={"ZGUARD_OPTIONS": options})


class OptimisedDynamic(Exerciser):
    name = "swift-exerciser-O"
    flags = ("-O",)
    options = ("quarantine_bytes=64k:quarantine_per_context=0",)  # addresses are soon used again


class PlainDynamic(Exerciser):
    name = "swift-exerciser-Onone"
    flags = ("-Onone",)


class OptimisedStatic(Exerciser):
    name = "swift-exerciser-O-static"
    flags = ("-O", "-static-stdlib")
    options = ("quarantine_bytes=256m",)  # dead objects stay


class PlainStatic(Exerciser):
    name = "swift-exerciser-Onone-static"
    flags = ("-Onone", "-static-stdlib")
