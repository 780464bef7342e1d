"""Runs bash's own tests with the installed bash. A unit is one run-* script, which is one test: it compares bash's output with the expected
output. The small helpers that print their arguments are compiled."""

import subprocess

from suite import Result, Suite, SuiteError, Unit

LEFT_OUT = {"run-all": "runs the others", "run-minimal": "runs the others", "run-gprof": "profiles a build"}


class Bash(Suite):
    name = "bash"
    title = "bash tests"
    command = "sh run-NAME"
    packages = ("bash", "gcc", "libc6-dev", "dpkg-dev")
    sources = ("bash",)
    deadline = 900.0

    def prepare(self):
        self.tree = self.fetch_source("bash", "tests/run-all")
        for name in ("recho", "zecho", "printenv", "xcase"):
            if not (self.tree / "tests" / name).exists():
                made = subprocess.run(["gcc", "-w", "-DHAVE_UNISTD_H", "-DHAVE_STDLIB_H", "-I.", f"support/{name}.c", "-o", f"tests/{name}"],
                                      cwd=self.tree, capture_output=True, text=True)
                if made.returncode:
                    raise SuiteError(f"support/{name}.c: {made.stderr[-1000:]}")

    def units(self):
        return [Unit(path.name) for path in sorted((self.tree / "tests").glob("run-*")) if path.name not in LEFT_OUT]

    def run(self, unit, place, only=()):
        tests = self.tree / "tests"
        env = {"THIS_SH": "/bin/bash", "BASH_TSTOUT": str(place.dir / "tstout"), "BUILD_DIR": str(self.tree),
               "PATH": f"{tests}:{place.environment()['PATH']}", **unit.env}
        ended = place.run(["sh", unit.name], env=env, deadline=self.deadline, cwd=tests)
        outcome = {0: "passed", None: "hung"}.get(ended.status, f"failed, status {ended.status}")
        return Result({"(script)": outcome}, ended.findings, ended.seen, ended.output[-3000:] + ended.errors[-1000:])
