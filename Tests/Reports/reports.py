#!/usr/bin/env python3
"""Tests the report options of the command line on real programs.
Suppressions and suggestions, --since, merging, --full, --symbols, colors on a terminal, reports that cannot be written or read. Closing
line: N passed, N failed."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 60

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
static __attribute__((noinline)) void close_it(void *it) { free(it); }
static __attribute__((noinline)) void forget(void *it) { free(it); }
int main(int count, char **words) {
    (void)words;
    void *one = malloc(40), *other = malloc(50);
    close_it(one);
    close_it(one);
    if (count > 1) {
        forget(other);
        forget(other);
    }
    return 0;
}
"""


class Workplace:
    def __init__(self, directory):
        self.path = Path(directory)
        (self.path / "src").mkdir()
        (self.path / "src/twice.c").write_text(SOURCE)
        self.program = self.path / "twice"
        subprocess.run(["gcc", "-O1", "-g", "-o", self.program, self.path / "src/twice.c"], check=True)

    def zguard(self, *words, status=0, environment=()):
        result = subprocess.run([ZGUARD, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=TIMEOUT_SECONDS, env=scrubbed(**dict(environment)), cwd=self.path)
        assert result.returncode == status, (words, result.returncode, result.stdout, result.stderr)
        return result

    def run(self, *flags, arguments=(), status=99):
        return self.zguard("run", "-o", "on_finding=continue", *flags, "--", self.program, *arguments, status=status)

    def report(self, name, *flags, arguments=()):
        path = self.path / name
        self.run("--report", path, "--quiet", *flags, arguments=arguments)
        return path


def suppressions(work):
    rules = work.path / "rules"
    rules.write_text("double-free\n    close_it\n\ndouble-free\n    name=never\n    nobody\n")
    out = work.run("--suppressions", rules, status=0)
    assert "close_it" not in out.stderr and "no findings (1 suppressed)" in out.stderr, out.stderr
    assert f"suppressions that matched no finding: {rules}:4 (never)" in out.stderr, out.stderr
    out = work.run("--suppressions", rules, arguments=["2"])
    assert "in forget" in out.stderr and "in close_it" not in out.stderr, out.stderr
    report = work.report("all.jsonl", arguments=["2"])
    out = work.zguard("report", report, "--suppressions", rules)
    assert "in forget" in out.stdout and "in close_it" not in out.stdout and "1 suppressed" in out.stdout, out.stdout
    assert "rules:4" in out.stderr, out.stderr


def wrong_suppressions(work):
    rules = work.path / "wrong"
    rules.write_text("double-fre\n    x\nuse-after-free\n    colour=red\n")
    out = work.zguard("report", "--suppressions", rules, "nothing", status=64)
    assert f"{rules}:1:" in out.stderr and "did you mean 'double-free'" in out.stderr and f"{rules}:4:" in out.stderr, out.stderr
    out = work.zguard("run", "--suppressions", work.path / "none", "--", "true", status=64)
    assert "none': No such file or directory" in out.stderr, out.stderr


def suggestions_fit(work):
    report = work.report("all.jsonl", arguments=["2"])
    suggestion = work.zguard("report", report, "--suggest").stdout
    assert suggestion.count("double-free") == 2, suggestion
    rules = work.path / "suggested"
    rules.write_text(suggestion)
    out = work.zguard("report", report, "--suppressions", rules)
    assert "no findings (2 suppressed)" in out.stdout and not out.stderr, (out.stdout, out.stderr)
    first = suggestion.split("\n\n")[0] + "\n"
    rules.write_text(first)
    out = work.zguard("report", report, "--suppressions", rules)
    assert "1 finding (1 double-free, 1 suppressed)" in out.stdout, out.stdout
    out = work.zguard("report", report, "--suggest", "--format", "json", status=64)
    assert "exclude each other" in out.stderr


def merging(work):
    reports = [work.report(f"{number}.jsonl", arguments=["2"] if number == 3 else []) for number in range(4)]
    found = [json.loads(line) for line in work.zguard("report", *reports, "--format", "json").stdout.splitlines()]
    assert sorted(finding["count"] for finding in found) == [1, 4], found
    merged = work.path / "merged.jsonl"
    merged.write_text(work.zguard("report", *reports, "--format", "json").stdout)
    again = [json.loads(line)["count"] for line in work.zguard("report", merged, reports[0], "--format", "json").stdout.splitlines()]
    assert sorted(again) == [1, 5], again


def named_by_the_link(work):
    """A program started through a link of another name is reported by that name: Debian's redis-server is a link to redis-check-rdb."""
    linked, same = work.path / "linked", work.path / "src/twice"
    for link in (linked, same):
        link.symlink_to(work.program)
    for number, (started, name) in enumerate(((work.program, work.program), (linked, linked), ("./linked", linked), (same, work.program))):
        report = work.path / f"linked{number}.jsonl"
        work.zguard("run", "-o", "on_finding=continue", "--quiet", "--report", report, "--", started, status=99)
        assert json.loads(report.read_text())["program"] == str(name), (started, report.read_text()[:2000])


def unreadable_reports(work):
    good = work.report("good.jsonl")
    garbage = work.path / "garbage"
    garbage.write_bytes(bytes(range(256)) * 10)
    out = work.zguard("report", work.path / "none", garbage, good, status=1)
    assert "cannot read report" in out.stderr and "none': No such file" in out.stderr, out.stderr
    assert f"'{garbage}' holds no finding that this version can read" in out.stderr and "line 1 is skipped" in out.stderr, out.stderr
    assert "close_it" in out.stdout, out.stdout
    out = work.zguard("run", "--report", "/nonexistent/report", "--", "true", status=64)
    assert "cannot write report '/nonexistent/report': No such file or directory" in out.stderr, out.stderr
    out = work.run("--report", "/dev/full")
    assert "cannot write report '/dev/full': No space left on device" in out.stderr and "close_it" in out.stderr, out.stderr


def cut_off_lines(work):
    """Processes were killed while they reported, and the file ends without a newline: complete lines of other processes count."""
    work.report("good.jsonl")
    line = (work.path / "good.jsonl").read_text().splitlines()[0]
    raw = work.path / "raw"
    raw.write_text(f"{line[:200]}{line}\n{line[:90]}\n{line[:300]}{line}")
    # Guarded processes get the path of their report in an option.
    script = 'path=${ZGUARD_OPTIONS#*report_path=}; cat "$0" >>"${path%%:*}"'
    out = work.zguard("run", "--", "sh", "-c", script, raw, status=99)
    assert "1 finding (1 double-free, seen 2 times)" in out.stderr, out.stderr
    assert out.stderr.count("is skipped: truncated; another finding follows in the same line") == 2 and out.stderr.count(" is skipped: ") == 3, out.stderr


def report_that_cannot_be_printed(work):
    report = work.report("good.jsonl")
    for form in ("text", "json", "sarif", "html"):
        with open("/dev/full", "w") as full_disk:
            out = subprocess.run([ZGUARD, "report", report, "--format", form], stdin=subprocess.DEVNULL, stdout=full_disk,
                                 stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS)
        assert out.returncode == 1 and "cannot write standard output: No space left on device" in out.stderr, (form, out)
    # Without a reader, zguard ends even if SIGPIPE is ignored, as it is in services.
    reader, writer = os.pipe()
    os.close(reader)
    out = subprocess.run([ZGUARD, "stats", "--watch", "0.1"], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                         text=True, timeout=TIMEOUT_SECONDS, restore_signals=False)
    os.close(writer)
    assert out.returncode == 0 and out.stderr == "", out


def program_that_does_not_start(work):
    old = work.report("old.jsonl").read_text()
    garbage = work.path / "garbage"
    garbage.write_text("no program")
    garbage.chmod(0o755)
    work.zguard("run", "--report", work.path / "old.jsonl", "--", garbage, status=126)
    assert (work.path / "old.jsonl").read_text() == old
    # A report path that is the program itself.
    code = work.program.read_bytes()
    work.zguard("run", "--report", work.program, "--", work.program, status=126)
    assert work.program.read_bytes() == code
    # A run without findings still replaces an earlier report.
    work.zguard("run", "--report", work.path / "old.jsonl", "--", "true")
    assert (work.path / "old.jsonl").read_text() == ""


def report_where_the_program_prints(work):
    """The report path is the file of standard output or standard error: neither the program's output nor the report may be lost."""
    script = f"echo before; echo error >&2; {work.program}; {work.program}; echo after"
    for name, form, start in (("stdout", "json", '{"schema"'), ("stderr", "text", "==zguard== double-free"),
                              ("stdout", "html", "<!DOCTYPE html>")):
        path = work.path / "output"
        with path.open("w") as output:
            print("earlier", file=output, flush=True)
            result = subprocess.run([ZGUARD, "run", "-o", "on_finding=continue", "--report", f"/dev/{name}", "--format", form, "--",
                                     "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    timeout=TIMEOUT_SECONDS)
        text = path.read_text()
        assert result.returncode == 99 and text.count(start) == 1, (result.returncode, text)
        for line in ("earlier", "before", "error", "after"):
            assert text.splitlines().count(line) == 1, (line, text)


def report_removed_meanwhile(work):
    report = work.path / "gone"
    for end in (f"rm {report}", f"rm {report}; touch {report}"):
        out = work.zguard("run", "-o", "on_finding=continue", "--report", report, "--", "sh", "-c", f"{work.program}; {end}",
                          status=99)
        assert f"cannot write report '{report}': No such file" in out.stderr and "written to" not in out.stderr, out.stderr


def daemon_outlives_the_run(work):
    """A program started after `zguard run` has ended does not warn about the deleted report, and prints its findings."""
    script = (f"raw=${{ZGUARD_OPTIONS#*report_path=}}; raw=${{raw%%:*}}; (while [ -e $raw ]; do sleep 0.05; done; /bin/echo later >{work.path}/out 2>&1; "
              f"{work.program} >{work.path}/found 2>&1; echo >{work.path}/ended) >/dev/null 2>&1 </dev/null &")
    work.zguard("run", "--quiet", "--", "/bin/sh", "-c", script)
    for _ in range(600):
        if (work.path / "ended").exists():
            break
        time.sleep(0.05)
    assert (work.path / "out").read_text() == "later\n", (work.path / "out").read_text()
    assert "==zguard== double-free" in (work.path / "found").read_text(), (work.path / "found").read_text()
    # If the report is missing and its directory is not that of an ended run of zguard, the runtime prints an error.
    out = subprocess.run(["/bin/true"], env={"LD_PRELOAD": str(LIBRARY), "ZGUARD_OPTIONS": f"report_path={work.path}/absent/findings"},
                         capture_output=True, text=True)
    assert "cannot open report" in out.stderr, out.stderr


WAITING = r"""
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void wait_in_handler(int number) {
    char byte;
    _exit(read(0, &byte, 1) == 0 ? 7 : number);
}
int main(void) {
    signal(SIGSEGV, wait_in_handler);
    char *volatile block = malloc(100);
    free(block);
    return block[7];
}
"""


def no_room_for_findings(work):
    """Findings that guarded processes cannot write to the file of `zguard run` count all the same: under a file size limit, and on a full
    disk, with one process and with several, with and without other findings that were written."""
    small = f"ulimit -f 0; exec {work.program}"
    out = work.zguard("run", "-o", "on_finding=continue", "--", "sh", "-c", small, status=99)
    assert "] that could not be written; " in out.stderr and "1 finding in sh [" in out.stderr, out.stderr
    out = work.zguard("run", "-o", "on_finding=continue", "--exit-code", "7", "--", "sh", "-c", f"{work.program} & {small} x & wait; wait", status=7)
    assert "1 finding (1 double-free) in sh [" in out.stderr and "], and 2 findings that could not be written; " in out.stderr, out.stderr
    disk = work.path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", disk], capture_output=True).returncode == 0
    if not mounted:  # mount namespaces cannot be created here
        return
    script = (f"mount -t tmpfs -o size=64k none {disk} && head -c 65536 /dev/zero >{disk}/fill; "
              f"TMPDIR={disk} {ZGUARD} run -o on_finding=continue -- {work.program} x")
    out = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=scrubbed())
    assert out.returncode == 99 and "] that could not be written; " in out.stderr and "2 findings in " in out.stderr, out.stderr


def handler_that_waits(work):
    """The program's own fault handler may never return (a hanging crash log): the finding is printed before the program ends."""
    (work.path / "waiting.c").write_text(WAITING)
    subprocess.run(["gcc", "-O1", "-w", "-o", work.path / "waiting", work.path / "waiting.c"], check=True)
    errors = work.path / "errors"
    with errors.open("w") as file:
        run = subprocess.Popen([ZGUARD, "run", "--profile", "fence", "--", work.path / "waiting"], stdin=subprocess.PIPE, stderr=file,
                               env=scrubbed())
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while "==zguard== use-after-free" not in errors.read_text() and time.monotonic() < deadline:
                time.sleep(0.02)
            told, has_ended = errors.read_text(), run.poll() is not None
        finally:
            run.stdin.close()
            status = run.wait(TIMEOUT_SECONDS)
    assert "==zguard== use-after-free" in told and "finding (" not in told and not has_ended, told
    assert status == 7 and "==zguard== 1 finding" in errors.read_text(), (status, errors.read_text())


def other_users(work):
    """Processes of root may change their user: their findings are still reported. Other users cannot read anybody's raw file."""
    script = 'raw=${ZGUARD_OPTIONS#*report_path=}; raw=${raw%%:*}; stat -c %a "$raw" "${raw%/*}"'
    out = work.zguard("run", "--quiet", "--", "/bin/sh", "-c", script)
    if os.geteuid() != 0:
        assert out.stdout == "600\n700\n", out.stdout
        return
    assert out.stdout == "600\n1733\n", out.stdout
    for folder, file in (("bin", ZGUARD), ("lib", LIBRARY)):  # where other users can read them
        (work.path / folder).mkdir()
        shutil.copy(file, work.path / folder)
    work.path.chmod(0o711)
    out = subprocess.run([work.path / "bin/zguard", "run", "-o", "on_finding=continue", "--", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          "--", work.program], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert out.returncode == 99 and "warning" not in out.stderr, (out.returncode, out.stderr)
    assert "==zguard== double-free" in out.stderr and "close_it" in out.stderr and "==zguard== 1 finding" in out.stderr, out.stderr


def names_of_bytes(work):
    """A program and a directory whose names are not valid UTF-8."""
    directory = os.fsencode(work.path) + b"/\xff\x1b[31m d"
    os.mkdir(directory)
    shutil.copy(work.program, directory + b"/p\xfe")
    result = subprocess.run([ZGUARD, "run", "-o", "on_finding=continue", "--", directory + b"/p\xfe"], capture_output=True,
                            stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
    assert result.returncode == 99 and b"was freed again" in result.stderr and b"\x1b" not in result.stderr, result
    result = subprocess.run([ZGUARD, "run", "--", directory], capture_output=True, timeout=TIMEOUT_SECONDS)
    assert result.returncode == 126 and b"cannot run" in result.stderr, result
    result = subprocess.run([ZGUARD, "run", "--", directory + b"/none"], capture_output=True, timeout=TIMEOUT_SECONDS)
    assert result.returncode == 127 and b"cannot find" in result.stderr, result


def since(work):
    old = json.loads(work.report("old.jsonl").read_text())
    old["time"] = "2020-01-02T03:04:05.678Z"
    (work.path / "old.jsonl").write_text(json.dumps(old) + "\n")
    new = work.report("new.jsonl", arguments=["2"])
    both = [work.path / "old.jsonl", new]
    assert "seen 3 times" in work.zguard("report", *both).stdout
    assert "seen 3 times" not in work.zguard("report", *both, "--since", "1h").stdout
    assert "no findings" in work.zguard("report", *both, "--since", "2100-01-01").stdout
    # A finding first seen long ago but last seen recently matches --since.
    again = work.path / "again.jsonl"
    again.write_text(json.dumps({**old, "count": 5, "last_seen": json.loads(new.read_text().splitlines()[0])["time"]}) + "\n")
    assert "seen 5 times" in work.zguard("report", again, "--since", "1h").stdout
    assert "no findings" in work.zguard("report", again, "--since", "2100-01-01").stdout
    out = work.zguard("report", *both, "--since", "soon", status=64)
    assert "option '--since' has the bad value 'soon'" in out.stderr


def files_that_are_gone(work):
    report = work.report("raw.jsonl")
    finished = json.loads(report.read_text())
    assert finished["stacks"]["access"][0]["function"] == "close_it"
    # A raw report, as the runtime writes it, of a program that was moved.
    raw = work.path / "raw"
    subprocess.run([work.program], env={**os.environ, "LD_PRELOAD": str(LIBRARY),
                                        "ZGUARD_OPTIONS": f"on_finding=continue:report_path={raw}"}, check=True)
    other = work.path / "elsewhere"
    other.mkdir()
    shutil.move(work.program, other / "twice")
    out = work.zguard("report", raw)
    assert "close_it" not in out.stdout and "no names for" in out.stderr and "No such file" in out.stderr, (out.stdout, out.stderr)
    out = work.zguard("report", raw, "--symbols", other)
    assert "close_it" in out.stdout and "twice.c" in out.stdout, (out.stdout, out.stderr)
    # zguard detects that another build is at the program's path, and takes no names from that build.
    subprocess.run(["gcc", "-O0", "-g", "-DOTHER", "-o", work.program, work.path / "src/twice.c"], check=True)
    out = work.zguard("report", raw)
    assert "close_it" not in out.stdout and "another build" in out.stderr, (out.stdout, out.stderr)
    out = work.zguard("report", raw, "--symbols", work.path / "none", status=64)
    assert "cannot look for symbols in" in out.stderr, out.stderr
    os.mkfifo(work.path / "pipe")
    out = work.zguard("report", raw, "--symbols", work.path / "pipe", status=64)
    assert "pipe': Not a directory" in out.stderr, out.stderr


def full(work):
    report = work.report("full.jsonl")
    folded = work.zguard("report", report).stdout
    whole = work.zguard("report", report, "--full").stdout
    assert "runtime frames)" in folded and " _start" not in folded, folded
    assert "runtime frames)" not in whole and " _start" in whole, whole


def source_is_shown(work):
    report = work.report("source.jsonl")
    out = work.zguard("report", report).stdout
    assert "> 4 | static __attribute__((noinline)) void close_it(void *it) { free(it); }" in out, out
    assert "  src/twice.c:4" in out, out
    os.utime(work.path / "src/twice.c", (4e9, 4e9))
    assert "(the file was changed after the program was built)" in work.zguard("report", report).stdout


def colors_on_a_terminal(work):
    report = work.report("color.jsonl")

    def on_terminal(**variables):
        leader, follower = pty.openpty()
        process = subprocess.Popen([ZGUARD, "report", report], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL,
                                   env=scrubbed(**{"TERM": "xterm", **variables}))
        os.close(follower)
        output = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            output += part
        os.close(leader)
        assert process.wait(TIMEOUT_SECONDS) == 0
        return output.decode()

    colored = on_terminal()
    assert "\x1b[1;31mdouble-free\x1b[0m" in colored, colored
    assert "\x1b[" not in on_terminal(NO_COLOR="1") and "\x1b[" not in on_terminal(TERM="dumb")
    assert "\x1b[" not in work.zguard("report", report).stdout
    # A report file has no colors either, even if standard error is a terminal.
    work.run("--report", work.path / "plain.txt", "--format", "text")
    assert "\x1b[" not in (work.path / "plain.txt").read_text()


def forms(work):
    for form, start in (("sarif", "{"), ("html", "<!DOCTYPE html>"), ("json", "{"), ("text", "==zguard==")):
        path = work.path / f"report.{form}"
        out = work.run("--report", path, "--format", form)
        assert path.read_text().startswith(start) and f"written to '{path}'" in out.stderr, (form, out.stderr)
        assert work.zguard("report", work.report("again.jsonl"), "--format", form).stdout.startswith(start), form
    out = work.run("--format", "sarif")
    assert json.loads(out.stderr[:out.stderr.rindex("}") + 1])["version"] == "2.1.0", out.stderr
    for words, part in ((["report", "--format", "pdf", "x"], "expected text, json, sarif, html, junit or github"),
                        (["run", "--compress", "--", "true"], "option '--compress' needs '--report' with a directory"),
                        (["run", "--report", str(work.path) + "/", "--format", "html", "--", "true"], "holds json lines")):
        assert part in work.zguard(*words, status=64).stderr, words


def processes_that_are_not_guarded(work):
    """`zguard check` and similar commands say why they show nothing."""
    plain = subprocess.Popen(["sleep", "600"])
    source = work.path / "still.c"
    source.write_text("#include <unistd.h>\nint main(void) { write(1, \"\\n\", 1); pause(); }\n")
    subprocess.run(["gcc", "-static", "-o", work.path / "still", source], check=True)
    still = subprocess.Popen([work.path / "still"], stdout=subprocess.PIPE)
    try:
        still.stdout.readline()
        for command in ("check", "stats", "trim"):
            out = work.zguard(command, plain.pid, status=1)
            assert out.stderr == f"zguard: error: process {plain.pid} is not guarded\nhint: start it with: zguard run -- PROGRAM\n", out.stderr
        out = work.zguard("check", still.pid, status=1)
        assert out.stderr == (f"zguard: error: process {still.pid} is not guarded; cannot guard '{work.path / 'still'}': it is statically linked, so "
                              "nothing can be preloaded into it\nhint: link it dynamically (without -static, -static-pie or -static-executable), or with libzguard.a\n"), \
            out.stderr
        assert "does not exist" in work.zguard("check", 1 << 22, status=1).stderr
        if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
            assert work.zguard("check", 2, status=1).stderr == "zguard: error: process 2 is a kernel thread\n"
        # For process 1, whatever program it runs, zguard does not advise root to become root.
        out = work.zguard("check", 1, status=1).stderr
        assert re.match(r"zguard: error: (process 1 is not guarded|no permission to look into process 1: \S+ )", out), out
        if os.geteuid() == 0:
            assert "only the owner" not in out and "belongs to root" not in out, out
            shutil.copy(ZGUARD, work.path)  # where other users can execute it
            work.path.chmod(0o711)
            out = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", work.path / "zguard", "check", str(plain.pid)],
                                 capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            assert out.returncode == 1 and out.stderr == (f"zguard: error: no permission to look into process {plain.pid}: it belongs to root\n"
                                                          "hint: run zguard as root\n"), out.stderr
    finally:
        for process in (plain, still):
            process.kill()
            process.wait()


def main():
    tests = (suppressions, wrong_suppressions, suggestions_fit, merging, named_by_the_link, unreadable_reports, cut_off_lines, report_that_cannot_be_printed,
                 program_that_does_not_start, report_where_the_program_prints, report_removed_meanwhile, daemon_outlives_the_run,
                 no_room_for_findings, handler_that_waits, other_users, names_of_bytes, since, files_that_are_gone, full, source_is_shown, colors_on_a_terminal, forms,
             processes_that_are_not_guarded)
    return run_tests([(test.__name__, test) for test in tests], "zguard-reports-", workplace=Workplace)


if __name__ == "__main__":
    sys.exit(main())
