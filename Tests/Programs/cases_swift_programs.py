"""Swift programs of the folder inputs in every kind of build, with objects in all states that the guard distinguishes."""

import subprocess

import generate
from case import Case, Need
from cases_data import SERVER
from cases_languages import PYTHON, PYTHON_NEED
from harness import INPUTS, CaseError


class Exerciser(Case):
    """Eight tasks with references, structures, types, texts and concurrency, beside queues, threads and races. Each build must print
    the same plain and guarded. If the program sees a destroyed object, it ends with status 3."""
    needs = (Need("swiftc", None),)
    sees = ("exerciser",)
    flags = ()
    # Additional guard options; the plain run ignores them.
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
    what = "references, structures, types, texts, tasks, queues, races; -O"
    flags = ("-O",)
    options = ("quarantine_bytes=64k:quarantine_per_context=0",)  # addresses are reused soon


class PlainDynamic(Exerciser):
    name = "swift-exerciser-Onone"
    what = "the same, -Onone"
    flags = ("-Onone",)


class OptimisedStatic(Exerciser):
    name = "swift-exerciser-O-static"
    what = "the same, -O with the Swift runtime linked statically"
    flags = ("-O", "-static-stdlib")
    options = ("quarantine_bytes=256m",)  # freed objects stay in the quarantine


class PlainStatic(Exerciser):
    name = "swift-exerciser-Onone-static"
    what = "the same, -Onone, static"
    flags = ("-Onone", "-static-stdlib")


class Foundation(Case):
    """A broad use of Foundation, with the driver's own web server on loopback."""
    needs = (Need("swiftc", None), PYTHON_NEED)
    sees = ("foundation",)
    version = ["swiftc", "--version"]
    flags = ()

    def setup(self, inputs):
        result = subprocess.run(["swiftc", *self.flags, "-swift-version", "5", "-parse-as-library", str(INPUTS / "foundation.swift"), "-o",
                                 str(inputs / "foundation")], capture_output=True, text=True)
        if result.returncode != 0:
            raise CaseError("the program cannot be compiled\n" + result.stderr[-2000:])
        (inputs / "pages").mkdir()
        for number in range(6):
            (inputs / "pages" / f"{number}.txt").write_text(generate.text_lines(number * 300, seed=number))

    def steps(self, run):
        port = run.port()
        with run.helper([PYTHON, "-c", SERVER, port, run.inputs / "pages"], port):
            run.step([run.inputs / "foundation", f"http://127.0.0.1:{port}/"], status=7)


class FoundationOptimised(Foundation):
    name = "swift-foundation-O"
    long = True
    what = "JSON, expressions, dates, files, processes, operations, timers, XML, URLSession, tasks; -O"
    flags = ("-O",)


class FoundationPlain(Foundation):
    name = "swift-foundation-Onone"
    what = "JSON, expressions, dates, files, processes, operations, timers, XML, URLSession, tasks; -Onone"
    flags = ("-Onone",)
