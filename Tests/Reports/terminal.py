#!/usr/bin/env python3
"""Tests reports and statistics as a user sees them in a terminal (tmux, 80 and 120 columns).
README's first example, findings of many kinds, the Swift runtime's crash reports next to zguard's, and statistics that fit the screen.
Closing line: N passed, N failed."""

import argparse
import functools
import os
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import builds  # noqa: E402
from Support.checks import Failed, as_shell, run_tests, run_within  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD, guarded_by, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

SOURCE = ROOT / "Tests/Reports/Terminal/crashes.swift"
TIMEOUT_SECONDS = 60
PROMPT = "shop$ "
# Output of the Swift runtime's crash reporter, on a terminal and elsewhere.
SWIFTS = re.compile(r"Program crashed|Backtracing from|Press space|Backtrace took|swift-backtrace")

# Ways in which the program ends, each with the kind of the finding that zguard reports.
REPORTED = {"method": "use-after-free", "retain": "use-after-free", "release": "use-after-free", "unowned": "use-after-free",
            "thunk": "use-after-free", "read": "use-after-free", "free": "double-free", "null": "null-access", "wild": "wild-access",
            "stack": "stack-overflow", "invalid": "invalid-free"}
UNREPORTED = ("fatal", "index", "abort", "overflow")


@functools.cache
def toolchain():
    """Returns the folder of the Swift toolchain, in which a statically linked runtime finds its crash reporter."""
    return Path(builds.find_clang()).resolve().parents[1]


@functools.cache
def program(build):
    """Returns the program in one of two builds: dynamic and optimized, or static and not optimized."""
    flags = {"dynamic": ["-O"], "static": ["-Onone", "-static-stdlib"]}[build]
    executable = builds.BUILD / f"terminal/crashes-{build}"
    return builds.compiled(executable, ["swiftc", "-g", *flags, "-o", executable, SOURCE.relative_to(ROOT)], [SOURCE], cwd=ROOT)


def environment(**variables):
    return scrubbed(SWIFT_ROOT=str(toolchain()), **variables)


class Terminal:
    """A shell in a terminal of a given size."""

    def __init__(self, directory, columns, rows=60, **variables):
        self.tmux = ["tmux", "-u", "-S", str(Path(directory) / f"tmux-{columns}-{rows}"), "-f", "/dev/null"]
        variables = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **variables}
        kept = {name: value for name, value in environment().items() if not name.startswith("TMUX")}
        self("new-session", "-d", "-x", columns, "-y", rows, f"env PS1='{PROMPT}' bash --norc --noprofile", cwd=ROOT, env={**kept, **variables})
        self.wait("the prompt", lambda screen: screen.endswith(PROMPT.rstrip()))

    def __call__(self, *words, **how):
        result = subprocess.run([*self.tmux, *(str(word) for word in words)], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, **how)
        if result.returncode:
            raise Failed(f"tmux {words[0]}: {result.stderr}")
        return result.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self("kill-server")

    def screen(self, joined=False, colour=False):
        """Returns the screen and all lines that have scrolled away; `joined`: undo the terminal's line wrapping."""
        return self("capture-pane", "-p", "-S", "-", *(["-J"] if joined else []), *(["-e"] if colour else [])).rstrip()

    def wait(self, what, is_there):
        end = time.monotonic() + TIMEOUT_SECONDS
        while not is_there(screen := self.screen(joined=True)):
            if time.monotonic() > end:
                raise Failed(f"{what} does not come:\n{screen}")
            time.sleep(0.05)
        return screen

    def type(self, command):
        self("send-keys", "-l", command)
        self("send-keys", "Enter")

    def run(self, command):
        """Types a command and waits for the next prompt. Returns the output after the command, in lines as the terminal shows them and in
        lines as they were written."""
        self("send-keys", "-l", "clear; tmux clear-history 2>/dev/null")
        self("send-keys", "Enter")
        self.wait("an empty screen", lambda screen: screen == PROMPT.rstrip())
        self("clear-history")
        self.type(command)

        def is_over(screen):
            *lines, last = screen.splitlines() or [""]
            return last == PROMPT.rstrip() and any(line.endswith(PROMPT + command) for line in lines)

        # On a busy machine, the terminal may echo the typed command before the prompt appears.
        whole = self.wait(f"the end of '{command}'", is_over).splitlines()
        typed = next(index for index, line in enumerate(whole) if line.endswith(PROMPT + command))
        return self.screen().splitlines(), whole[typed + 1:-1]


def width(text):
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def check_report(lines, kind):
    """Checks that there is one complete report of this kind, at the start of the output, followed only by the closing line."""
    text = "\n".join(lines)
    heads = [index for index, line in enumerate(lines) if re.match(r"==zguard== [a-z-]+: ", line)]
    assert len(heads) == 1, f"{kind}: {text}"
    assert lines[heads[0]].startswith(f"==zguard== {kind}: "), f"{kind}: {text}"
    assert not SWIFTS.search(text), text
    assert re.search(r", signature [0-9a-f]{16}$", lines[-2]), text
    assert re.match(rf"==zguard== 1 finding \(1 {kind}\) in ", lines[-1]), text
    # Before the report there may only be output of the program and the Swift runtime's fatal errors.
    assert all(re.match(r"Fatal error: |Object 0x|\S+:\d+: Fatal error", line) for line in lines[:heads[0]] if line != "Ada pays 42"), text


def check_source(screen, columns):
    """Checks that no source line is wrapped, and that the caret is under its line; returns the number of carets."""
    carets = 0
    for index, line in enumerate(screen):
        assert width(line) <= columns, line
        if re.match(r"      [> ] +\d+ \|", line):
            follower = screen[index + 1] if index + 1 < len(screen) else ""
            assert re.match(r"      [> ] *\d* \||    (#|…)|==zguard==|      \(", follower), f"{line}\n{follower}"
        if caret := re.match(r"      + \| +\^$", line):
            carets += 1
            assert ">" in screen[index - 1][:9] and len(caret[0]) <= columns, line
            assert width(screen[index - 1]) >= len(caret[0]), f"{screen[index - 1]}\n{line}"
    return carets


def first_example():
    """Returns the commands of README's first example of zguard run, and the example's text."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    block = next(block for block in blocks if "==zguard==" in block and "zguard run" in block)
    return re.findall(r"^\$ (.*)$", block, re.M), block


def readme(columns, work):
    commands, block = first_example()
    command = next(command for command in commands if "zguard run" in command)
    words = command.split("#")[0].split()
    executable = ROOT / words[-1]
    builds.compiled(executable, ["swiftc", "-O", "-g", "-o", executable, "Examples/shop.swift"], [ROOT / "Examples/shop.swift"], cwd=ROOT)
    with Terminal(work, columns) as terminal:
        screen, lines = terminal.run(command)
        colours = terminal.screen(colour=True)
    check_report([line for line in lines if "Segmentation fault" not in line], "use-after-free")
    assert check_source(screen, columns) == 1, screen
    # The caret is under the called function.
    marked = next(index for index, line in enumerate(screen) if line.startswith("      > 34 |"))
    assert screen[marked][screen[marked + 1].index("^"):].startswith("add(price)"), screen[marked:marked + 2]
    assert "\x1b[" in colours, "no colours"
    # README's example matches the output, except for parts that differ from run to run.
    shown = block.split(f"$ {command}\n")[1]
    for line in re.findall(r"^(?:==zguard== [a-z-]+: .*?\d+ bytes at|    #\d+ .*|      .*)", shown, re.M):
        part = re.sub(r" \d+ bytes at$", "", line).rstrip()
        if "runtime frame" not in part and not re.match(r"      > +34|           \|", part):
            assert any(text.startswith(part[:columns - 2]) for text in lines), f"README's line is not there: {part}"


def seen(kind, columns, work):
    """A finding of each kind on a terminal, in the static build."""
    with Terminal(work, columns) as terminal:
        for how, kind in REPORTED.items():
            screen, lines = terminal.run(f"{ZGUARD} run -- {program('static')} {how}")
            lines = [line for line in lines if not re.match(r"(Segmentation fault|Aborted)", line)]
            check_report(lines, kind)
            check_source(screen, columns)


def one_report(build, work):
    """Without a terminal: one report, and the same exit status as unguarded."""
    for how, kind in REPORTED.items():
        # The optimizer may remove these bugs from the optimized build.
        if build == "dynamic" and how in ("free", "read"):
            continue
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", program(build), how], env=environment())
        check_report(err.splitlines(), kind)
        plain, _, own = run_within(TIMEOUT_SECONDS, [program(build), how], env=environment())
        # The program dies of the signal that also ends it without zguard, or, where an unguarded program may continue, of SIGSEGV.
        expected = {139} if kind != "double-free" and kind != "invalid-free" else {134}
        assert as_shell(code) in expected | {134} if how == "unowned" else as_shell(code) in expected, f"{how}: {code}"
        # Without zguard, these bugs certainly end the program. The effect of the other bugs is undefined.
        if how in ("unowned", "free", "invalid", "null", "wild", "stack"):
            assert plain < 0 and as_shell(plain) == code, f"{how}: {code}, without us {plain}"
            assert SWIFTS.search(own), f"{how}: the Swift runtime says nothing of its own: {own}"


def swifts_report(build, work):
    """Crashes that are no findings are left to the Swift runtime's reporter, as without zguard."""
    for how in UNREPORTED:
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", program(build), how], env=environment())
        plain, _, own = run_within(TIMEOUT_SECONDS, [program(build), how], env=environment())
        assert code == as_shell(plain) >= 128, f"{how}: {code} and {plain}"
        assert err.count("Backtrace took") == own.count("Backtrace took") == 1, f"{how}: {err}"
        assert "==zguard== no findings" in err.splitlines()[-1], f"{how}: {err}"
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", program(build), ""], env=environment())
    assert code == 0 and out == "well\n", (code, out, err)


def as_asked(build, work):
    """The Swift runtime also reports if SWIFT_BACKTRACE or swift_backtrace=keep is set, or if no zguard reads the finding."""
    cases = [([ZGUARD, "run"], {"SWIFT_BACKTRACE": "enable=yes,color=no"}), ([ZGUARD, "run"], {"SWIFT_BACKTRACE": "interactive=no"}),
             ([ZGUARD, "run", "-o", "swift_backtrace=keep"], {}), ([ZGUARD, "run"], {"ZGUARD_OPTIONS": "swift_backtrace=keep"})]
    for how in ("retain", "null", "unowned"):
        for command, variables in cases:
            code, out, err = run_within(TIMEOUT_SECONDS, [*command, "--", program(build), how], env=environment(**variables))
            assert code in (134, 139), (how, code, err)
            assert err.count("Backtrace took") == 1 and len(re.findall(r"^==zguard== [a-z-]+: ", err, re.M)) == 1, (how, command, variables, err)
            assert "seen 2 times" not in err, err
            # zguard's report comes first, and is complete.
            ours, swifts = err.index("==zguard== "), re.search(r"\n\*\*\* |Backtracing from|Program crashed", err).start()
            assert ours < err.index(", signature ") < swifts, err
        # Without zguard, Swift's own report is kept, because it has the names that the runtime's finding lacks.
        code, out, err = run_within(TIMEOUT_SECONDS, [program(build), how], env=guarded_by(LIBRARY, SWIFT_ROOT=str(toolchain())))
        assert re.match(rf"(Fatal error: .*\n)?==zguard== {REPORTED[how]} \(", err) and err.count("Backtrace took") == 1, err
        assert err.index("==zguard== " + REPORTED[how]) < err.index("Program crashed"), err
        assert as_shell(code) in (134, 139), code
        code, out, err = run_within(TIMEOUT_SECONDS, [program(build), how],
                                    env=guarded_by(LIBRARY, "swift_backtrace=skip", SWIFT_ROOT=str(toolchain())))
        assert "Program crashed" not in err and as_shell(code) in (134, 139), (code, err)
    # An empty setting counts as unset.
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", program(build), "retain"], env=environment(SWIFT_BACKTRACE=""))
    assert not SWIFTS.search(err), err


def children(build, work):
    """Child programs behave the same: zguard reports the findings, the Swift runtime all other crashes."""
    for how in ("retain", "fatal"):
        code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", "sh", "-c", f"{program(build)} {how}; exit 5"], env=environment())
        assert code == 5, (code, err)
        assert bool(SWIFTS.search(err)) == (how == "fatal"), err
        assert len(re.findall(r"^==zguard== use-after-free: ", err, re.M)) == (how == "retain"), err


def unwritten_reports(build, work):
    """If the finding could not be written completely to the raw file, Swift's report is kept."""
    script = 'raw=${ZGUARD_OPTIONS#*report_path=}; raw=${raw%%:*}; LD_PRELOAD= rm "$raw"; LD_PRELOAD= mkdir "$raw"; exec "$0" "$1"'
    code, out, err = run_within(TIMEOUT_SECONDS, [ZGUARD, "run", "--", "sh", "-c", script, program(build), "retain"], env=environment())
    assert code == 139, (code, err)
    assert err.count("Program crashed") == 1, err


def statistics(work):
    """'zguard stats --watch' on a small terminal that is then resized."""
    sleeper = subprocess.Popen([str(ZGUARD), "run", "--quiet", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment())
    try:
        with Terminal(work, 100, 20) as terminal:
            for columns, rows in (100, 20), (60, 12), (40, 30), (150, 80):
                terminal("resize-window", "-x", columns, "-y", rows)
                if (columns, rows) == (100, 20):
                    # With a long interval, only the resize can cause new output.
                    terminal.wait("a guarded process", lambda screen: terminal.run(f"{ZGUARD} stats")[1][-1:][0].endswith("cat"))
                    child = terminal.screen(joined=True).splitlines()[-2].split()[0]
                    terminal("send-keys", "-l", "clear")
                    terminal("send-keys", "Enter")
                    terminal.type(f"{ZGUARD} stats {child} --watch 3600")

                def fits(_, columns=columns, rows=rows):
                    lines = terminal("capture-pane", "-p").rstrip("\n").split("\n")
                    shown = [line for line in lines if line.strip()]
                    is_cut = columns < 100 and any(line.endswith("…") and width(line) == columns for line in shown)
                    is_short = re.search(r"… \d+ more lines", "\n".join(lines))
                    return (re.match(rf"\S+ \[{child}\], guarded by", lines[0]) and all(width(line) <= columns for line in lines)
                            and bool(is_short) == (rows < 50) and (is_cut or columns >= 100) and len(lines) <= rows)

                terminal.wait(f"a screen of {columns} columns and {rows} rows", fits)
                history = terminal("display-message", "-p", "#{history_size}")
                assert columns != 150 or int(history) < 200, f"{history} lines have scrolled away"
            terminal("send-keys", "C-c")
            terminal.wait("the prompt", lambda screen: screen.endswith(PROMPT.rstrip()))
    finally:
        sleeper.stdin.close()
        sleeper.wait()


def tests():
    for columns in (80, 120):
        yield f"README's first example at {columns} columns", functools.partial(readme, columns)
        yield f"findings at {columns} columns", functools.partial(seen, "", columns)
    for build in ("dynamic", "static"):
        for test in (one_report, swifts_report, as_asked, children, unwritten_reports):
            yield f"{test.__name__.replace('_', ' ')}, {build}", functools.partial(test, build)
    yield "statistics fit the terminal", statistics


def main():
    parser = argparse.ArgumentParser(description="Runs programs in terminals and reads what is there.")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    add_slice_option(parser)
    arguments = parser.parse_args()
    return run_tests(list(tests()), "zguard-terminal-", only=arguments.filter, workplace=str, part=arguments.slice)


if __name__ == "__main__":
    sys.exit(main())
