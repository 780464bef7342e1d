"""The parts of the test suite: the table that Tests/run.py executes."""

import sys

from Support.environment import HERE

# One debug build serves the package's own tests and those of Examples/CartTests, which depend on it. A cached build manifest would be used
# for both packages, although only one of them wrote it.
DEBUG = ["-Xswiftc", "-warnings-as-errors", "--scratch-path", "build/debug", "--disable-build-manifest-caching"]

# How a part reports its result. LINE: by a line "N passed, N failed". BUILD: only by its exit status, as other parts need its products.
# SWIFT: in the format of `swift test`, which is shown completely.
LINE, BUILD, SWIFT = "line", "build", "swift"


class Part:
    """`seconds`: approximate CPU time under scripts/test; parts with the longest chain of dependents start first. `needs`: parts that must
    have passed. `slices`: number of slices of which scripts/test runs one, --full and --long all. `when`: "always", "full" (also with
    --long) or "long". `holds`: resources that only one part may use at a time. `quiet`: run alone, after the others. `waits`: spends most
    of its time waiting, so that two such parts run beside the others."""

    def __init__(self, name, command, seconds, needs=("zguard",), says=LINE, when="always", slices=1, holds=(), quiet=False, waits=False,
                 environment=()):
        self.name, self.command, self.seconds, self.needs, self.says, self.when = name, command, seconds, needs, says, when
        self.slices, self.holds, self.quiet, self.waits, self.environment = slices, holds, quiet, waits, dict(environment)


def driver(path, *words):
    return [sys.executable, f"Tests/{path}.py", *words]


def programs(*words, only=()):
    return driver("Programs/programs", *words, *(word for name in only for word in ("--filter", name)))


INSTALLED = ("zguard", "packages")

PARTS = [
    # Builds that other parts need.
    Part("library", ["scripts/build", "--library"], 8, needs=(), says=BUILD),
    Part("archive", ["scripts/build", "--static"], 17, needs=(), says=BUILD, when="full"),
    Part("archive-musl", ["scripts/build", "--musl"], 17, needs=(), says=BUILD, when="full"),
    Part("zguard", ["scripts/build"], 75, needs=("library",), says=BUILD),
    Part("debug", ["swift", "build", "--build-tests", *DEBUG], 75, needs=(), says=BUILD, holds=("debug",)),
    Part("packages", ["sh", "-c", "python3 Tests/Programs/programs.py --install-only && python3 Tests/Suites/suites.py --install-only && "
                      "python3 Tests/Detection/stalling_servers.py --install-only"], 15,
         needs=(), says=BUILD),

    Part("format", ["scripts/format", "--check"], 5, needs=()),
    Part("swift test", ["swift", "test", "--skip-build", *DEBUG], 30, needs=("debug",), says=SWIFT, holds=("debug",)),
    Part("testing", driver("Detection/testing"), 19, needs=("zguard", "debug"), holds=("debug",)),

    # Tests on a system with only Swift installed; skipped if no such root can be made.
    Part("helper-root", driver("Detection/helper_root"), 160, needs=("zguard",), when="full"),

    # The runtime by itself.
    Part("runtime", driver("Runtime/runtime"), 45, needs=("library",), slices=14),
    Part("model", driver("Runtime/model", "--operations", "3e6"), 3),
    Part("decoding", driver("Runtime/decoding"), 5, needs=()),
    Part("sanitizers", driver("Runtime/sanitizers", "--filter", "undefined"), 8, needs=()),
    # A build of the runtime of its own.
    Part("sanitizers-thread", driver("Runtime/sanitizers", "--filter", "thread"), 16, needs=(), when="full"),
    # Instruction counts of operations, which are equal on every machine.
    Part("instructions", ["scripts/bench", "--check"], 10, needs=("library",)),
    Part("fuzz-corpus", ["scripts/fuzz", "--corpus", "options", "heap", "diagnose", "stack_cache"], 18, needs=(), slices=4),
    # Runs the report readers again, with AddressSanitizer: a separate build of the library.
    Part("fuzz-readers", ["scripts/fuzz", "--corpus", "reader", "suppressions", "rendering"], 75, needs=("fuzz-corpus",), when="full"),

    # Detection.
    Part("bugs", driver("Detection/bugs"), 28, slices=24),
    Part("bugs-static", driver("Detection/bugs", "--static"), 60, needs=("zguard", "archive"), when="full"),
    Part("bugs-musl", driver("Detection/bugs", "--musl"), 90, needs=("zguard", "archive-musl"), when="full"),
    Part("bugs-fence", driver("Detection/bugs", "--fence", "--filter", "Bugs/"), 60, needs=("bugs",), when="full"),
    Part("later-blocks", driver("Detection/later_blocks"), 4),
    Part("later-blocks-full", driver("Detection/later_blocks", "--whole", "--times", "3"), 60, needs=("later-blocks",), when="full"),
    Part("exact-ends", driver("Detection/exact_ends"), 4),
    Part("watchpoints", driver("Detection/watchpoints"), 4, needs=("library",)),
    Part("pinpointing", driver("Detection/pinpointing"), 12),
    Part("late-writes", driver("Detection/late_writes"), 30, needs=INSTALLED, slices=7),
    Part("fences", driver("Detection/fences"), 12, slices=16),
    Part("zombies", driver("Detection/zombies"), 30, needs=("zguard", "archive"), slices=216),
    Part("uses", driver("Detection/uses"), 8, slices=120),
    Part("crashing", driver("Detection/crashing"), 14, slices=64),
    Part("handlers", driver("Detection/handlers"), 60, slices=24, waits=True),
    Part("uncaught", driver("Detection/uncaught"), 10, slices=4),
    Part("stalling", driver("Detection/stalling"), 20, slices=80, waits=True),
    # Real servers, and event loops of third-party libraries.
    Part("stalling-servers", driver("Detection/stalling_servers"), 60, needs=INSTALLED, when="full"),
    Part("stalling-hour", driver("Detection/stalling_servers", "--minutes", "60", "--filter", "all for long"), 3600, needs=INSTALLED, when="long"),
    Part("crashing-full", driver("Detection/crashing", "--random", "200", "--stopped", "--programs"), 150, needs=INSTALLED, when="full"),
    Part("crashing-long", driver("Detection/crashing", "--random", "2000", "--filter", "random"), 300, when="long"),
    # Tests with compilers that no other part needs.
    Part("panics", ["sh", "-c", "python3 Tests/Detection/panics.py --install-only && python3 Tests/Detection/panics.py"], 30, needs=INSTALLED, when="full"),
    Part("counting", driver("Detection/counting", "--quick"), 15),
    Part("planted", driver("Detection/planted"), 13, needs=("library", "packages"), slices=80),

    # Robustness: program behavior, refused system calls, crashes at any moment, attacks.
    Part("life", driver("Robustness/life"), 28, needs=("library",), slices=2),
    Part("filters", driver("Robustness/filters"), 10),
    Part("limits", driver("Robustness/limits"), 60, slices=24),
    Part("crashes", driver("Robustness/crashes"), 11, slices=4, waits=True),
    Part("faults", driver("Robustness/faults"), 24, slices=288),
    Part("children", driver("Robustness/children"), 25),
    Part("security", driver("Robustness/security"), 3),
    Part("authors", driver("Robustness/authors"), 8),
    Part("runs", driver("Robustness/runs"), 12, waits=True),
    # A group that is short of memory stalls and so raises the pressure numbers of the whole machine, so other parts must not run.
    Part("groups", driver("Robustness/groups"), 45, slices=13, quiet=True),
    Part("pages", driver("Robustness/pages"), 20),
    Part("pages-full", driver("Robustness/pages", "--pages", "5000", "--seed", "2"), 300, needs=("zguard", "pages"), when="full"),
    Part("harmless", driver("Robustness/harmless"), 20),
    Part("correct", driver("Robustness/correct"), 20, slices=16),
    # No finding is lost when processes are killed.
    Part("kills", driver("Robustness/kills", "--trials", "40"), 15),
    Part("kills-full", driver("Robustness/kills", "--trials", "500"), 180, needs=("zguard", "kills"), when="full"),

    # Reports: on the command line, as text, in other formats, merged, of huge or damaged files, in a store.
    Part("reports", driver("Reports/reports"), 3),
    Part("coverage", driver("Reports/coverage"), 10),
    Part("pair-coverage", driver("Reports/pair_coverage"), 6),
    Part("ends", driver("Reports/ends"), 20, slices=4),
    Part("snapshots", driver("Reports/snapshots"), 2),
    Part("terminal", driver("Reports/terminal"), 30, slices=3, waits=True),
    Part("symbols", driver("Symbols/symbols"), 20, slices=192),
    Part("formats", driver("Reports/formats"), 13),
    Part("grouping", driver("Reports/grouping"), 16, slices=6),
    Part("reading", driver("Reports/reading"), 10),
    # Time linear in the input, measured in instructions; damaged reports must not make a call crash, hang or use much memory.
    Part("linear", driver("Reports/linear"), 20, slices=10),
    Part("damaged", driver("Reports/damaged", "--reports", "50"), 25),
    Part("damaged-full", driver("Reports/damaged", "--reports", "2000"), 700, needs=("zguard", "damaged"), when="full"),
    Part("store", driver("Reports/store"), 17, slices=6),
    # Collecting findings into databases, and showing them in a browser.
    Part("fleet", driver("Fleet/fleet"), 14, waits=True),
    Part("fleet-killed", driver("Fleet/fleet", "--kills", "200", "--only", "killed"), 90, needs=("fleet",), when="full"),
    Part("fleet-files", driver("Fleet/fleet", "--files", "100000", "--only", "many files"), 60, needs=("fleet",), when="full"),
    Part("serve", driver("Fleet/serve"), 20, waits=True),
    Part("search", driver("Fleet/search"), 30, waits=True),
    Part("team", driver("Fleet/team", "--kills", "6"), 90, slices=2, waits=True),
    Part("team-killed", driver("Fleet/team", "--kills", "200", "--only", "killed"), 200, needs=("team",), when="full"),
    Part("triage", driver("Fleet/triage"), 15, waits=True),
    Part("triage-killed", driver("Fleet/triage", "--writers", "200", "--only", "killed"), 60, needs=("triage",), when="full"),
    Part("alerts", driver("Fleet/alerts", "--kills", "6"), 60, slices=2, waits=True),
    Part("alerts-killed", driver("Fleet/alerts", "--kills", "70", "--only", "killed"), 120, needs=("alerts",), when="full", waits=True),
    Part("later-symbols", driver("Fleet/symbols", "--findings", "500"), 30, slices=2, waits=True),
    Part("later-symbols-many", driver("Fleet/symbols", "--findings", "100000", "--only", "many findings"), 250, needs=("later-symbols",), when="full"),
    # The systemd unit, with a systemd of its own in a root.
    Part("service", driver("Fleet/service"), 60, when="full"),
    # Two machines and a database, with the commands of docs/FLEET.md.
    Part("walk", driver("Fleet/walk"), 15, when="full"),
    Part("history", driver("Symbols/history"), 16, slices=24),
    # Finds leaks and retain cycles, and none in programs without any.
    Part("leaks", driver("Graph/leaks"), 60, slices=24),
    Part("edges", driver("Graph/edges"), 10, needs=("zguard", "debug"), slices=4),
    Part("holders", driver("Graph/holders"), 40, slices=8),
    Part("copies", driver("Graph/copies"), 60, slices=4),
    Part("pictures", driver("Graph/pictures"), 20, slices=2),

    # The tree as users get it; real programs, and test suites of other projects.
    Part("runner", driver("House/runner"), 2, needs=()),
    Part("servers", driver("House/servers"), 10, waits=True),
    Part("layers", driver("House/layers"), 10, needs=("library",)),
    Part("tree", driver("House/tree"), 1),
    Part("arithmetic", driver("House/arithmetic", "--filter", f"{HERE}: "), 8, needs=("library",)),
    # Builds the library for the other processor.
    Part("arithmetic-all", driver("House/arithmetic"), 22, needs=("library",), when="full"),
    Part("documentation", driver("House/documentation"), 8, needs=("debug",), holds=("debug",)),
    Part("tutorial", driver("House/documentation", "--built"), 30, needs=("debug", "zguard"), when="full", holds=("debug",)),
    Part("ci", driver("House/ci"), 30, when="full"),
    Part("try-package", driver("House/try_package"), 20, when="full"),
    Part("plugins", driver("House/plugins"), 46, when="full"),
    # Compiles zguard twice.
    Part("plugins-built", driver("House/plugins", "--built"), 110, when="full"),
    # Installs packages. (dpkg allows one process at a time.)
    Part("package", driver("House/package", "--quick"), 10),
    Part("package-built", driver("House/package"), 35, needs=INSTALLED, when="full"),
    # Roots with libc alone.
    Part("distroless", driver("House/distroless"), 2),
    Part("distroless-full", driver("House/distroless", "--full"), 8, needs=("distroless",), when="full"),
    # Compares the interfaces that users rely on with those of the releases.
    Part("stable", driver("House/stable"), 6, needs=("zguard", "debug"), holds=("debug",)),
    # Checks the products of scripts/release, and installs them in roots of four Debian releases. Making the roots takes minutes.
    Part("release", driver("House/release"), 150, when="full", holds=("release",)),
    # Builds the release again in another directory: the bytes must be the same.
    Part("release-built", driver("House/release", "--built"), 150, when="long", holds=("release",)),
    # Makes the release for other processors, too.
    Part("release-all", driver("House/release", "--all"), 900, when="long", holds=("release",)),
    Part("compatibility", driver("House/systems"), 1, needs=()),
    Part("programs", programs(), 50, needs=INSTALLED, slices=24),
    Part("programs-fence", programs("--profile", "fence", only=("git", "jq", "lua", "make", "perl", "python3", "sqlite3")), 20, needs=INSTALLED, when="full"),
    # Blocks that bypass the guard come from the program's own allocator, which in redis is not libc's.
    Part("programs-sample", programs("--profile", "sample", "-o", "sample_rate=50", only=("git", "perl", "redis")), 8, needs=INSTALLED, slices=6),
    Part("programs-overhead", programs("-o", "overhead=5%", only=("git", "java", "redis")), 10, needs=INSTALLED, slices=6),
    Part("suites", driver("Suites/suites", "--quick"), 40, needs=INSTALLED, when="full"),

    Part("counting-long", driver("Detection/counting"), 30, needs=("counting",), when="long"),
    Part("bundle", driver("Detection/bundle"), 200, needs=("debug", "library"), when="long", holds=("debug",)),
    # The Swift of Debian 13 and of unstable, 6.0 and 6.2, in roots of their own, which take minutes to make.
    *(Part(f"zombies-{suite}", driver("Detection/zombies", "--root", suite), 130, when="long") for suite in ("trixie", "sid")),
    # Other uses of these Swift versions: the package, its tests, guarded tests, plugins.
    Part("swift-6.0", driver("Detection/older_swift", "trixie"), 600, when="long"),
    Part("swift-6.2", driver("Detection/older_swift", "sid"), 600, when="long"),
    # One-bug, clean and real programs with glibc 2.31 and 2.43, in roots of their own.
    Part("glibc-2.31", driver("Detection/other_libc", "bullseye"), 300, needs=("library",), when="long"),
    Part("glibc-2.43", driver("Detection/other_libc", "sid"), 300, needs=("library",), when="long"),
    # Compares every stack capture of every program with an uncached walk; a difference traps.
    Part("stacks-library", driver("Support/builds", "library", "stacks"), 10, needs=(), says=BUILD, when="long"),
    Part("stacks", programs("--preload", "build/tests/stacks/libzguard.so"), 400, needs=(*INSTALLED, "stacks-library"), when="long"),
    # Compares six million captures with libunwind's results.
    Part("captures", driver("Runtime/captures", "--quick"), 100, when="long"),
    Part("runtime-long", driver("Runtime/runtime", "--filter", "retiring"), 60, needs=("runtime",), when="long",
         environment={"ZG_TEST_LONG": "1"}),
    Part("reading-long", driver("Reports/reading", "--long"), 120, when="long"),
    Part("fuzz", ["scripts/fuzz", "60"], 420, needs=("fuzz-readers",), when="long"),
    Part("model-long", driver("Runtime/model", "--operations", "1e8"), 120, when="long"),
    Part("model-checked", driver("Runtime/model", "--build", "checked", "--operations", "1e7"), 120, when="long"),
    Part("crashes-long", driver("Robustness/crashes", "--long"), 900, when="long"),
    Part("faults-long", driver("Robustness/faults", "--long"), 900, when="long", needs=("zguard", "faults")),
    Part("programs-long", programs("--long"), 900, needs=INSTALLED, when="long"),
    Part("suites-long", driver("Suites/suites", "--filter", "cpython", "--filter", "sed", "--filter", "bash"), 1800,
         needs=(*INSTALLED, "suites"), when="long"),
    *(Part(f"bugs-{number}", driver("Detection/bugs"), 40, needs=("bugs",), when="long") for number in (1, 2, 3, 4)),
    # Memory and descriptors of servers under load must stay flat.
    Part("soak", ["scripts/soak", "0.17"], 700, needs=INSTALLED, when="long", quiet=True),
]


def elsewhere(arch):
    """Returns the parts for another processor, whose programs run under qemu (Support/processors.py): scripts/test --arch."""
    def on(path, *words):
        return driver(path, "--arch", arch, *words)

    return [
        # This machine's zguard reads the reports; a separate part tests zguard for the other processor.
        Part("reader", ["scripts/build"], 75, needs=(), says=BUILD),
        Part("library", ["scripts/build", "--library", "--arch", arch], 60, needs=(), says=BUILD),
        Part("zguard", ["scripts/build", "--zguard", "--arch", arch], 300, needs=("library",), says=BUILD),
        Part("runtime", on("Runtime/runtime"), 300, needs=("library",)),
        Part("bugs", on("Detection/bugs"), 600, needs=("library", "reader")),
        Part("bugs-zguard", on("Detection/bugs", "--zguard", f"build/{arch}/bin/zguard", "--filter", "Bugs/double-free"), 300),
        Part("zombies", on("Detection/zombies"), 600, needs=("library", "reader"), slices=10),
        # Faults on blocks with memory tags: in qemu's user mode, and in a whole machine, whose kernel also checks its own accesses.
        Part("tags", on("Detection/fences"), 60, needs=("library",), slices=20),
        Part("tags-machine", on("Detection/fences"), 900, needs=("library",), when="long", environment={"ZG_TEST_MACHINE": "bookworm-tags"}),
        Part("programs", on("Programs/elsewhere"), 600, needs=("library",)),
        # In whole machines, with the kernels of Debian unstable and Debian 12: guard pages need Linux 6.13, windows 6.15.
        *(Part(f"{name}-{suite}", on(path), 1800, needs=("zguard",), when="long", environment={"ZG_TEST_MACHINE": suite})
          for suite in ("sid", "bookworm") for name, path in (("runtime", "Runtime/runtime"), ("bugs", "Detection/bugs"))),
        # Variants of the processor (processors.py).
        *(Part(f"bugs-{kind}", on("Detection/bugs"), 600, needs=("library", "reader"), when="long", environment={"ZG_TEST_KIND": kind})
          for kind in ("39-bits", "42-bits", "wide-vectors", "first")),
        # Tests on a kernel with pages of 16 KiB.
        Part("pages-of-16-kib", on("Detection/larger_pages"), 200, needs=("zguard",), when="long", environment={"ZG_TEST_MACHINE": "sid-16k"}),
        # Compares a million captures with libunwind's results.
        Part("captures", on("Runtime/captures_elsewhere"), 2400, needs=("library",), when="long"),
    ]
