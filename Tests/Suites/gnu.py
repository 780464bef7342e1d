"""Runs the test scripts of coreutils, sed and grep with the installed programs. A unit is a script, and a script is one test:
its exit status says passed, failed or skipped. Nothing is configured or built: tests that need a build fail plain and guarded."""

import re
import subprocess

from suite import Result, Suite, Unit

OUTCOMES = {0: "passed", 77: "skipped", None: "hung"}


class Scripts(Suite):
    command = "sh SCRIPT"
    deadline = 900.0
    folder = "tests"  # directory of the scripts in the source
    programs = "src"  # directory in which the scripts look for built programs
    pattern = "**/*.sh"
    variable = "CU_TEST_NAME"
    runs_in = "."
    left_out = re.compile("^$")

    def prepare(self):
        self.tree = self.fetch_source(self.sources[0], self.folder)
        (self.tree / "config.h").touch()
        found = self.tree / self.programs
        found.mkdir(exist_ok=True)
        for name in self.tested():
            if not (found / name).exists():
                (found / name).symlink_to(f"/usr/bin/{name}")

    def tested(self):
        """Returns the names of the package's installed programs."""
        shown = subprocess.run(["dpkg", "-L", self.packages[0]], capture_output=True, text=True).stdout
        return [line.rsplit("/", 1)[1] for line in shown.splitlines() if re.match(r"(/usr)?/bin/[\w\[]+$", line)]

    def units(self):
        top = self.tree / self.folder
        names = [str(path.relative_to(top)) for path in top.glob(self.pattern) if self.is_script(path)]
        return [Unit(name) for name in sorted(names) if not self.left_out.match(name)]

    def is_script(self, path):
        return path.is_file() and path.name not in ("init.sh", "sample-test") and path.open("rb").read(2) == b"#!"

    def run(self, unit, place, only=()):
        script = f"{self.folder}/{unit.name}" if self.runs_in == "." else unit.name
        words = ["perl", "-w", f"-I{self.folder}", "-MCuSkip", "-MCoreutils", f"-MCuTmpdir qw({script})"]
        words = [*(words if script.endswith(".pl") else ["sh"]), script]
        env = {"srcdir": ".", "top_srcdir": ".", "abs_top_srcdir": self.tree, "abs_top_builddir": self.tree,
               "abs_srcdir": self.tree / self.runs_in, "built_programs": " ".join(self.tested()), "LOCALE_FR": "none",
               "LOCALE_FR_UTF8": "none", "LOCALE_JA": "none", "CONFIG_HEADER": self.tree / "config.h", "CC": "gcc", "AWK": "awk",
               "EGREP": "grep -E", "PERL": "perl", "SHELL": "/bin/sh", "MAKE": "make", "VERSION": "0", "PACKAGE_VERSION": "0",
               "host_os": "linux-gnu", "host_triplet": "x86_64-pc-linux-gnu", "EXEEXT": "", "fail": "0", "LC_ALL": "C", "LANG": "C",
               "PATH": f"{self.tree / self.programs}:{place.environment()['PATH']}",
               self.variable: re.sub("[/.]", "-", script), **unit.env}
        ended = place.run(["/bin/sh", "-c", 'exec "$0" "$@" 9>&2', *words], env={key: str(value) for key, value in env.items()},
                          deadline=self.deadline, cwd=self.tree / self.runs_in)
        outcome = OUTCOMES.get(ended.status, f"failed, status {ended.status}")
        return Result({"(script)": outcome}, ended.findings, ended.seen, ended.output[-1500:] + ended.errors[-3000:])


class Coreutils(Scripts):
    name = "coreutils"
    title = "GNU coreutils tests"
    packages = ("coreutils", "gcc", "dpkg-dev")
    sources = ("coreutils",)
    pattern = "**/*[.][sp][hl]"


class Sed(Scripts):
    name = "sed"
    title = "GNU sed tests"
    packages = ("sed", "gcc", "valgrind", "dpkg-dev")
    sources = ("sed",)
    folder = "testsuite"
    programs = "sed"
    pattern = "*.[sp][hl]"
    variable = "SED_TEST_NAME"


class Grep(Scripts):
    name = "grep"
    title = "GNU grep tests"
    packages = ("grep", "gcc", "dpkg-dev")
    sources = ("grep",)
    pattern = "*"
    variable = "GREP_TEST_NAME"
    runs_in = "tests"
    left_out = re.compile(r"envvar-check|no-perl|.*\.p[lm]$|init\.\w+")
