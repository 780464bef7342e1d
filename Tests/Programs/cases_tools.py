"""Shells, editors, and programs under unusual limits."""

import shutil

import generate
from case import Case, Need
from harness import INPUTS


class Bash(Case):
    name = "bash"
    what = "a script: functions, arrays, pipes, traps, jobs, here-documents"
    needs = (Need("bash", "bash"),)
    sees = ("bash",)

    def steps(self, run):
        run.step(["bash", INPUTS / "work.sh"], status=3)


class Vim(Case):
    """Installs its own handlers for SIGSEGV and SIGBUS after its start."""
    name = "vim"
    what = "batch edits of 20,000 lines; its own handlers for SIGSEGV and SIGBUS"
    needs = (Need("vim", "vim"),)
    sees = (r"vim(\.\w+)?",)

    def setup(self, inputs):
        (inputs / "input.txt").write_text(generate.text_lines(20_000))

    def steps(self, run):
        shutil.copy(run.inputs / "input.txt", run.dir)
        run.step(["vim", "-es", "-N", "-u", "NONE", "-i", "NONE", "-n", "-S", INPUTS / "work.vim"], stdin=b"", stderr="any", status=None)
        run.keep("output.txt", "second.txt")


def without_warning(text):
    return "".join(line for line in text.splitlines(True) if not line.startswith("zguard: warning: no address space"))


class Limits(Case):
    """Little address space, a small stack, few descriptors, and closed standard descriptors."""
    name = "limits"
    what = "perl and gawk under small limits of address space, stack and descriptors; standard descriptors closed"
    needs = (Need("bash", "bash"), Need("perl", "perl"), Need("gawk", "gawk"))
    sees = ("perl",)

    def setup(self, inputs):
        (inputs / "text").write_text(generate.text_lines(30_000))

    def steps(self, run):
        perl = "perl -e 'my %h; for (1..200000) { $h{$_ % 5000} .= chr(65 + $_ % 26); delete $h{$_ % 701} } print scalar(keys %h), qq(\\n)'"
        for limit in ("ulimit -v 4000000", "ulimit -v 500000", "ulimit -s 256", "ulimit -n 8", "ulimit -c 0; ulimit -l 0"):
            # If there is no room for a guarded heap, the guard may print one line, and the program must still run.
            run.step(["bash", "-c", f"{limit}; {perl}; gawk '{{ n += length($2) }} END {{ print n }}' '{run.inputs}/text'"],
                     normalise=without_warning if "500000" in limit else None)
        run.step(["bash", "-c", f"({perl}) >&-"], stderr="any", status=None)
        run.step(["bash", "-c", f"({perl}) 2>&-"])
        run.step(["bash", "-c", f"({perl}; echo $? >status) <&- >&- 2>&-"])
        run.step(["bash", "-c", f"env -u HOME -u PATH {perl}"])
        run.keep("status")
