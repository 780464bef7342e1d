"""Runs git's own tests, from Debian's source package, with the installed git (GIT_TEST_INSTALLED). The program test-tool, which many tests
use, is built from the source. A unit is a script, which prints each test's outcome in TAP."""

import re
import subprocess

from suite import Result, Suite, SuiteError, Unit
from tap import read_tap

# Numbers of tests that are left out: servers of other packages (svn, cvs, p4, apache), git-gui, measurements, and slow tests.
LEFT_OUT = re.compile(r"t(9[14568]\d\d|7003|3404|3421|3426|0021|6102|5516|9902|9300|7900|5318|4013)-")
SET_UP = ["NO_TCLTK=1", "NO_GETTEXT=1", "NO_PYTHON=1", "USE_LIBPCRE2=", "NO_CURL=1", "NO_EXPAT=1", "CFLAGS=-O0 -g0"]


class Git(Suite):
    name = "git"
    title = "git's tests"
    command = "sh SCRIPT"
    packages = ("git", "gcc", "make", "libc6-dev", "zlib1g-dev", "libssl-dev", "dpkg-dev")
    sources = ("git",)
    deadline = 900.0

    def prepare(self):
        self.source = self.fetch_source("git", "t/test-lib.sh")
        if (self.source / "GIT-BUILD-OPTIONS").exists() and (self.source / "t/helper/test-tool").exists() \
                and (self.source / "templates/blt/description").exists():
            return
        for goal in (["GIT-BUILD-OPTIONS", "t/helper/test-tool"], ["-C", "templates", "all"], ["build-perl-script", "SCRIPT_SH="]):
            made = subprocess.run(["make", "-j2", *SET_UP, *goal], cwd=self.source, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
            if made.returncode and goal[0] != "build-perl-script":
                raise SuiteError(f"make {' '.join(goal)}: {made.stderr[-2000:]}")

    def units(self):
        names = sorted(path.stem for path in (self.source / "t").glob("t[0-9]*.sh"))
        return [Unit(name) for name in names if not LEFT_OUT.match(name)]

    def run(self, unit, place, only=()):
        env = {"GIT_TEST_INSTALLED": "/usr/bin", "GIT_TEST_EXEC_PATH": "/usr/lib/git-core", "GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME": "master",
               "TEST_NO_MALLOC_CHECK": "1", "USER": "somebody", **unit.env}
        ended = place.run(["sh", f"{unit.name}.sh", f"--root={place.work}"], env=env, deadline=self.deadline, cwd=self.source / "t")
        return Result(read_tap(ended.output, ended.status), ended.findings, ended.seen, ended.output[-3000:] + ended.errors[-2000:])
