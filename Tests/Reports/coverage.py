#!/usr/bin/env python3
"""Tests the coverage that a run reports: closing line, --require-coverage, 'zguard stats', SARIF and HTML.
The programs have known numbers of blocks and stacks, in one process or several, and end in every way. Closing line: N passed, N failed."""

import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, ZGUARD, scrubbed  # noqa: E402

TIMEOUT_SECONDS = 60
ALL_BLOCKS = 65535  # maximum of isolated_per_context

# usage: blocks STACKS BLOCKS [END [CHILDREN]]: allocates BLOCKS blocks from each of STACKS stacks (at most 65,536), then ends as END says.
# With CHILDREN, CHILDREN processes do this, one after another. Then the parent also allocates the blocks, and ends by exit.
# END spawn: executes the program once more, with END exit. END rare: frees one more block at another place. END wait: waits until standard
# input is closed. END inherit: see inherit().
SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *kept[256];
static unsigned next;
static __attribute__((noinline)) void take(int blocks) {
    for (int i = 0; i < blocks; i++) {
        void **slot = &kept[next++ % 256];
        free(*slot);
        *slot = malloc(40);
    }
}
// One of 2^16 ways down: each is a stack of its own.
static __attribute__((noinline)) void descend(int way, int depth, int blocks);
static __attribute__((noinline)) void left(int way, int depth, int blocks) { descend(way >> 1, depth - 1, blocks); __asm__(""); }
static __attribute__((noinline)) void right(int way, int depth, int blocks) { descend(way >> 1, depth - 1, blocks); __asm__(""); }
static __attribute__((noinline)) void descend(int way, int depth, int blocks) {
    if (!depth) take(blocks);
    else if (way & 1) right(way, depth, blocks);
    else left(way, depth, blocks);
    __asm__("");
}

static __attribute__((noinline)) void drop(int depth, int number) {
    if (depth) drop(depth - 1, number);
    else free(kept[number]);
    __asm__("");
}
// Frees late blocks of a stack at `places` places, then in each child an early block at the first of these places.
static void inherit(int places, int children) {
    take(256);
    for (int i = 0; i < places + children; i++) {
        pid_t child = i < places ? 0 : fork();
        if (!child) drop(i < places ? i : 0, i < places ? 255 - i : 0);
        if (i >= places && !child) _exit(0);
        if (child) waitpid(child, NULL, 0);
    }
    exit(0);
}

static void end(const char *how, char *self) {
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "fault")) *(volatile int *)16 = 1;
    if (!strcmp(how, "exec")) execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(how, "wait")) (void)!read(0, &(char){0}, 1);
    if (!strcmp(how, "double")) { void *block = kept[0]; free(block); free(block); }
    if (!strcmp(how, "fail")) exit(7);
    if (!strcmp(how, "rare")) free(kept[7]);
    if (!strcmp(how, "spawn")) {
        char *words[] = {self, "3", "5", "exit", NULL};
        extern char **environ;
        pid_t child;
        if (!posix_spawn(&child, self, NULL, NULL, words, environ)) waitpid(child, NULL, 0);
    }
    exit(0);
}

int main(int count, char **words) {
    int stacks = atoi(words[1]), blocks = atoi(words[2]);
    const char *how = count > 3 ? words[3] : "exit";
    if (!strcmp(how, "inherit")) inherit(stacks, atoi(words[4]));
    for (int children = count > 4 ? atoi(words[4]) : 0; children > 0; children--) {
        pid_t child = fork();
        if (!child) {
            for (int way = 0; way < stacks; way++) descend(way, 16, blocks);
            end(how, words[0]);
        }
        waitpid(child, NULL, 0);
    }
    for (int way = 0; way < stacks; way++) descend(way, 16, blocks);
    end(count > 4 ? "exit" : how, words[0]);
}
"""


class Workplace:
    def __init__(self, directory):
        self.path = Path(directory)
        (self.path / "blocks.c").write_text(SOURCE)
        self.program = self.path / "blocks"
        # Optimization would turn the calls into tail calls and loops.
        subprocess.run(["gcc", "-O0", "-g", "-o", self.program, self.path / "blocks.c"], check=True)

    def zguard(self, *words, status=0, limits=None, environment=()):
        result = subprocess.run([ZGUARD, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=TIMEOUT_SECONDS, env=scrubbed(**dict(environment)), cwd=self.path, preexec_fn=limits)
        assert result.returncode == status, (words, result.returncode, result.stdout, result.stderr)
        return result

    def run(self, *arguments, flags=(), status=0, **more):
        return self.zguard("run", *flags, "--", self.program, *arguments, status=status, **more)

    def coverage(self, *arguments, flags=(), status=0, **more):
        """Runs the program; returns the coverage in SARIF."""
        path = self.path / "report.sarif"
        self.run(*arguments, flags=["--report", path, "--format", "sarif", *flags], status=status, **more)
        return json.loads(path.read_text())["runs"][0]["properties"]["coverage"]


def options(**values):
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]


LINE = re.compile(r"^==zguard== (no findings|\d+ findings? .*); watched ([\d,]+) of ([\d,]+) allocation and free pairs?"
                  r"(?: of the [\d.]+ % of the blocks that were guarded)?, ([\d.]+) % of the frees at once"
                  r"(?:, ([\d.]+) % within ([\d.]+) KiB of other frees)?(?: \((.*)\))?(?:; (?:killed|ended) .*)?$")


def closing(result):
    """Returns the parts of the closing line: the start, watched pairs, pairs, the share of frees guarded at once, and the reason."""
    match = LINE.match(result.stderr.splitlines()[-1])
    assert match, result.stderr
    return match[1], int(match[2].replace(",", "")), int(match[3].replace(",", "")), float(match[4]), match[7]


def is_all(result, pairs=None):
    """Whether the closing line says: no findings, all pairs were watched, and 100 % of the frees were guarded at once."""
    says, watched, seen, at_once, reason = closing(result)
    return says == "no findings" and watched == seen and pairs in (None, seen) and at_once == 100 and reason is None


def shares_are_counted(work):
    # Each block is freed 256 allocations later, when the second or the third stack after the block's own stack allocates: 8 + 7 pairs.
    assert is_all(work.run(10, 100, flags=options(isolated_per_context=ALL_BLOCKS)), pairs=15)
    found = work.coverage(10, 100, flags=options(isolated_per_context=ALL_BLOCKS))
    assert (found["blocks"], found["blocks_watched"], found["stacks"], found["stacks_watched"]) == (1000, 1000, 10, 10), found
    assert found["reason"] is None, found
    assert (found["pairs"], found["pairs_watched"], found["pairs_percent"], found["frees"]) == (15, 15, 100, 744), found
    assert found["frees_guarded_at_once_percent"] == 100 and found["frees_guarded_later_percent"] == found["waiting_bytes_most"] == 0, found
    found = work.coverage(10, 100, flags=options(isolated_overhead="100%", isolated_windows="off"))
    assert (found["blocks"], found["stacks"], found["stacks_watched"]) == (1000, 10, 10) and 10 <= found["blocks_watched"] < 1000, found
    assert found["stacks_percent"] == 100 and found["blocks_percent"] < 100 and found["reason"] == "fence_per_context", found
    assert 0 < found["frees_guarded_at_once_percent"] < 100 and 0 < found["pairs_watched"] <= found["pairs"] == 15, found
    # Statistics are reported even if other processes cannot see the statistics page.
    assert work.coverage(10, 100, flags=options(stats=0, isolated_per_context=ALL_BLOCKS))["blocks_watched"] == 1000
    out = closing(work.run(10, 100, flags=options(isolated_per_context=0)))
    assert out == ("no findings", 0, 15, 0, "isolated_per_context is 0"), out
    # Nothing is freed: there is no pair.
    out = work.run(10, 10, flags=options(isolated_per_context=ALL_BLOCKS))
    assert out.stderr == "==zguard== no findings; no block was freed; 100 % of the blocks were isolated\n", out.stderr
    assert work.zguard("run", "true").stderr == "==zguard== no findings; no block was allocated\n"


def processes_are_added_up(work):
    # Threads update the counters in batches; the last batch is lost if a process ends without exit handlers.
    for end in "exit", "_exit", "kill", "abort", "fault", "exec", "spawn":
        expected = 4 * 3 * 1000 + (3 * 3 * 5 if end == "spawn" else 0)
        found = work.coverage(3, 1000, end, 3, flags=options(isolated_per_context=ALL_BLOCKS, handle_signals=0))
        lost = 0 if end in ("exit", "spawn") else 3 * 200
        assert expected - lost <= found["blocks"] <= expected and found["blocks_percent"] == 100, (end, found)
        # Children inherit the parent's stacks; each child counts them as new stacks.
        assert found["stacks"] == found["stacks_watched"] == (21 if end == "spawn" else 12), (end, found)
        assert found["unknown_processes"] == found["unguarded_programs"] == 0, (end, found)
    found = work.coverage(20, 500, "kill", 3)
    assert 0.95 * 40_000 <= found["blocks"] <= 40_000, found
    # All children watch one and the same pair, which the parent has, too. This pair counts at most once.
    found = work.coverage(10, 0, "inherit", 20, flags=options(isolated_per_context=1, isolated_windows="off"))
    assert found["pairs"] == 10 and found["pairs_watched"] <= 1 and found["frees_guarded_at_once_percent"] > 60, found


def an_end_by_a_signal_is_said_too(work):
    for end, status in ("kill", 137), ("abort", 134):
        assert is_all(work.run(5, 100, end, flags=options(isolated_per_context=ALL_BLOCKS), status=status)), end
    # A program executes another program: both are counted.
    assert is_all(work.run(5, 100, "exec", flags=options(isolated_per_context=ALL_BLOCKS)))


def reasons_are_told(work):
    for name, given, arguments in (
            ("fence_bytes", {"isolated_bytes": "4k", "isolated_overhead": "100%"}, (1000, 2)),
            ("mappings", {"mappings": 64, "protect": "mprotect", "isolated_overhead": "100%"}, (1000, 2)),
            ("sample_rate", {"sample_rate": 100}, (100, 1000)),
            ("overhead", {"overhead": "0.1%", "isolated_overhead": "100%", "isolated_bytes": "1g"}, (200, 20_000))):
        found = work.coverage(*arguments, flags=options(**given))
        assert found["reason"] == name, (name, found)
        timed = name != "sample_rate"
        assert (isinstance(found["reason_ms"], int) and found["reason_ms"] < TIMEOUT_SECONDS * 1000) == timed, found
        _, _, _, at_once, reason = closing(work.run(*arguments, flags=options(**given)))
        assert name.replace("fence_", "isolated_") in reason and bool(re.search(r" at [\d.]+ s$", reason)) == timed and at_once < 100, (name, reason)
    # Blocks served by libc's allocator (bypass) count too.
    found = work.coverage(100, 1000, flags=options(sample_rate=100))
    assert 95_000 <= found["blocks"] <= 100_000 and 0 < found["blocks_watched"] < 5000 and found["stacks_percent"] < 5, found
    assert found["pairs_percent"] < 5 and found["frees_guarded_at_once_percent"] < 5, found
    assert 0.9 * 4e6 <= work.coverage(200, 20_000, flags=options(overhead="0.1%"))["blocks"] <= 1.1 * 4e6
    # Blocks were freed, but none that the runtime guarded.
    out = work.run(1, 300, flags=options(sample_rate=1_000_000))
    assert out.stderr.startswith("==zguard== no findings; no guarded block was freed; "), out.stderr


def findings_say_it_too(work):
    out = work.run(5, 5, "double", flags=options(on_finding="continue"), status=99)
    assert closing(out)[0].startswith("1 finding (1 double-free) in "), out.stderr
    out = work.run(5, 5, "double", flags=["--report", "found.jsonl", *options(on_finding="continue")], status=99)
    assert closing(out)[0].endswith("written to 'found.jsonl'"), out.stderr
    assert [json.loads(line)["kind"] for line in (work.path / "found.jsonl").read_text().splitlines()] == ["double-free"]
    assert work.run(5, 5, flags=["--quiet"]).stderr == ""


def required_share(work):
    for value in "100%", "100", "61.5%", "0":
        assert closing(work.run(10, 100, flags=["--require-coverage", value, *options(isolated_per_context=ALL_BLOCKS)])), value
    less = options(isolated_bytes="4k")
    out = work.run(1000, 2, flags=["--require-coverage=90%", *less], status=98)
    assert re.fullmatch(r"zguard: error: [\d.]+ % of the allocation and free pairs were watched; '--require-coverage' asks for 90 %",
                        out.stderr.splitlines()[-1]) and LINE.match(out.stderr.splitlines()[0]), out.stderr
    assert "asks for 90 %" in work.run(1000, 2, flags=["--require-coverage", "90", "--quiet", *less], status=98).stderr
    assert closing(work.run(1000, 2, flags=["--require-coverage", "0.1%", *less]))
    # The first blocks of a busy stack are watched, but not the single free at another place.
    out = work.run(1, 300_000, "rare", flags=["--require-coverage", "90%"], status=98)
    says, watched, pairs, at_once, _ = closing(subprocess.CompletedProcess([], 0, "", out.stderr.splitlines()[0]))
    assert (says, pairs) == ("no findings", 4) and watched < pairs and at_once < 1, out.stderr
    # Other failures take precedence in the exit status.
    work.run(1000, 2, "fail", flags=["--require-coverage", "90%", *less], status=7)
    work.run(1000, 2, "kill", flags=["--require-coverage", "90%", *less], status=137)
    work.run(1000, 20, "double", flags=["--require-coverage", "90%", *less, *options(on_finding="continue")], status=99)
    for value in "101%", "x", "90 %", "1e1", "-5", "5.55":
        assert "require-coverage" in work.run(1, 1, flags=[f"--require-coverage={value}"], status=64).stderr, value


def nothing_is_known(work):
    def no_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    out = work.run(1, 1, limits=no_files)
    assert out.stderr == "==zguard== no findings; coverage is unknown\n", out.stderr
    out = work.run(1, 1, flags=["--require-coverage", "1"], limits=no_files, status=98)
    assert "coverage is unknown; '--require-coverage' asks for 1 %" in out.stderr, out.stderr
    # A soft limit of 0 does not stop zguard while the hard limit is infinite; the program inherits the soft limit.
    out = work.zguard("run", "sh", "-c", "ulimit -S -f", limits=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)))
    assert out.stdout == "0\n" and closing(out)[2] > 0, (out.stdout, out.stderr)
    if os.geteuid() == 0:
        # A program of another user cannot find zguard's page for coverage. The closing line counts such processes.
        script = f"{work.program} 2 2; setpriv --reuid 65534 --clear-groups {work.program} 2 2"
        os.chmod(work.path, 0o755)
        out = work.zguard("run", "sh", "-c", script)
        assert out.stderr.endswith(", 1 more process reported no coverage\n"), out.stderr
        out = work.zguard("run", "--require-coverage", "1%", "sh", "-c", script, status=98)
        assert "and the coverage of some processes is unknown" in out.stderr, out.stderr


def programs_without_the_library(work):
    (work.path / "static.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-O1", "-static", "-o", work.path / "static", work.path / "static.c"], check=True)
    subprocess.run(["gcc", "-O1", "-static-pie", "-o", work.path / "static-pie", work.path / "static.c"], check=True)
    subprocess.run(["gcc", "-O1", "-fsanitize=address", "-o", work.path / "sanitized", work.path / "static.c"], check=True)
    for shell in "sh", "bash":
        out = work.zguard("run", shell, "-c", "./static; ./static-pie; ./sanitized; true; /lib64/ld-linux-x86-64.so.2 /bin/true; exit 0")
        assert out.stderr.endswith(", 3 programs ran unguarded\n"), (shell, out.stderr)


def programs_without_their_environment(work):
    """A program executed without LD_PRELOAD is not watched. The closing line must say so, except with children=ignore."""
    script = f"env -i /bin/true; env -u LD_PRELOAD true; env true; {sys.executable} -c \"import os; os.execvpe('true', ['true'], {{}})\""
    out = work.zguard("run", "sh", "-c", script)
    assert out.stderr.endswith(", 3 programs ran unguarded\n"), out.stderr
    out = work.zguard("run", "-o", "children=ignore", "sh", "-c", script)
    assert "unguarded" not in out.stderr, out.stderr


def programs_with_privileges(work):
    """The loader preloads nothing into a program that gains privileges (setuid, file capabilities); under no_new_privs it preloads."""
    if os.geteuid() != 0:
        return
    os.chmod(work.path, 0o755)
    setuid, capable, plain = (work.path / name for name in ("setuid", "capable", "plain"))
    for copy in setuid, capable, plain:
        shutil.copy("/bin/true", copy)
    os.chmod(setuid, 0o4711)  # not readable for others, as sudo in some systems
    os.setxattr(capable, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))  # cap_net_raw+ep
    script = f"{setuid}; {capable}; {plain}; /bin/true; exit 0"
    nobody = lambda: (os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534))  # noqa: E731
    out = work.zguard("run", "sh", "-c", script, limits=nobody)
    assert out.stderr.endswith(", 2 programs ran unguarded\n"), out.stderr
    out = work.zguard("run", "setpriv", "--no-new-privs", "sh", "-c", script, limits=nobody)
    assert "unguarded" not in out.stderr, out.stderr
    # Root gains no privileges from a setuid program of root or from file capabilities.
    out = work.zguard("run", "sh", "-c", script)
    assert "unguarded" not in out.stderr, out.stderr


def running_processes(work):
    process = subprocess.Popen([work.program, "10", "1000", "wait"], stdin=subprocess.PIPE,
                               env=scrubbed(LD_PRELOAD=str(LIBRARY), ZGUARD_OPTIONS=f"isolated_per_context={ALL_BLOCKS}"))

    def allocated():
        said = json.loads(work.zguard("stats", "--json").stdout)["processes"]
        return next((one["counters"]["allocations"] for one in said if one["pid"] == process.pid), 0)

    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while allocated() < 9000:
            assert time.monotonic() < deadline, "it never allocated what it should"
            time.sleep(0.05)
        text = work.zguard("stats", process.pid).stdout
        assert re.search(r"\ncoverage: watched (\d+) of \1 allocation and free pairs, 100 % of the frees at once\n", text), text
        (said,) = json.loads(work.zguard("stats", process.pid, "--json").stdout)["processes"]
        coverage = said["coverage"]
        assert (coverage["stacks_percent"], coverage["blocks_percent"], coverage["stacks"]) == (100, 100, 10), said
        assert 9000 <= coverage["blocks"] <= 10_000, said
        assert said["counters"]["contexts_fenced"] == 10, said
        closes = work.zguard("check", process.pid).stdout.splitlines()[-1]
        assert re.search(r"; watched (\d+) of \1 allocation and free pairs, 100 % of the frees at once$", closes), closes
    finally:
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0


def reports_have_it(work):
    path = work.path / "report.html"
    work.run(10, 100, flags=["--report", path, "--format", "html"])
    page = path.read_text()
    assert re.search(r"Coverage: watched \d+ of 15 allocation and free pairs", page) and "No findings." in page
    # JSON Lines contain findings only: the file is empty without findings.
    work.run(10, 100, flags=["--report", work.path / "report.jsonl"])
    assert (work.path / "report.jsonl").read_text() == ""


def plain_preload_says_nothing(work):
    for given in "", f"report_path={work.path}/raw":
        result = subprocess.run([work.program, "10", "100"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                                env=scrubbed(LD_PRELOAD=str(LIBRARY), ZGUARD_OPTIONS=given))
        assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), result
    assert (work.path / "raw").read_text() == ""


def memory_tags_are_not_there(work):
    row = re.search(r"^(\w+) +memory tagging +(.*)$", work.zguard("doctor").stdout, re.M)
    assert row, "doctor says nothing of memory tagging"
    if not row[2].endswith("guard here"):
        return
    # The warning is printed once for all processes of a run; the coverage is that of profile guard.
    warning = "zguard: warning: no memory tagging on this processor or kernel: profile mte works as profile guard"
    everything = options(isolated_overhead="100%", isolated_windows="off")
    for arguments in (10, 100), (3, 10, "spawn", 3), (3, 10, "exec", 3):
        said = work.run(*arguments, flags=["--profile", "mte", *everything]).stderr.splitlines()
        assert said[:-1] == [warning], said
    plain, tagged = (work.coverage(10, 100, flags=["--profile", name, *everything]) for name in ("guard", "mte"))
    assert plain == tagged and tagged["blocks_watched"] >= 10, (plain, tagged)
    # Options given besides the profile apply.
    assert work.coverage(10, 100, flags=["--profile", "mte", *options(isolated_per_context=ALL_BLOCKS)])["blocks_watched"] == 1000
    result = subprocess.run([work.program, "10", "100"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                            env=scrubbed(LD_PRELOAD=str(LIBRARY), ZGUARD_OPTIONS="profile=mte"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", warning + "\n"), result


def nothing_is_left(work):
    before = set(os.listdir(work.path))
    work.zguard("run", work.program, 1, 1, environment={"TMPDIR": str(work.path)})
    assert set(os.listdir(work.path)) == before, set(os.listdir(work.path)) - before
    # The program has no additional descriptor.
    out = work.zguard("run", "ls", "-l", "/proc/self/fd")
    assert "zguard-coverage" not in out.stdout, out.stdout


def main():
    tests = (shares_are_counted, processes_are_added_up, an_end_by_a_signal_is_said_too, reasons_are_told, findings_say_it_too,
             required_share, nothing_is_known, programs_without_the_library, programs_without_their_environment, programs_with_privileges,
             running_processes, reports_have_it,
             plain_preload_says_nothing, memory_tags_are_not_there, nothing_is_left)
    return run_tests([(test.__name__, test) for test in tests], "zguard-coverage-", workplace=Workplace)


if __name__ == "__main__":
    sys.exit(main())
