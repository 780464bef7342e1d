"""Completions of real shells: calls bash's completion function, asks fish, types into zsh."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time
from pathlib import Path


class Shell:
    """A shell with zguard's completion script for it. `directory` is its home and working directory."""

    def __init__(self, zguard, directory, script=None):
        self.directory = Path(directory)
        self.environment = {"PATH": f"{Path(zguard).parent}:/usr/bin:/bin", "HOME": str(directory), "TERM": "dumb",
                            "XDG_CONFIG_HOME": str(directory), "LC_ALL": "C.UTF-8", "TMPDIR": str(directory)}
        if script is None:
            script = self.directory / f".completions-{self.name}"
            made = subprocess.run([zguard, "completions", self.name], capture_output=True, text=True, check=True, timeout=60)
            assert not made.stderr, made.stderr
            script.write_text(made.stdout)
        self.script = script

    def run(self, *words):
        result = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=self.directory,
                                env=self.environment, stdin=subprocess.DEVNULL)
        assert result.returncode == 0 and not result.stderr, (words, result.returncode, result.stderr)
        return result.stdout

    def parses(self):
        self.run(self.name, "-n", str(self.script))


class Bash(Shell):
    name = "bash"

    def complete(self, line, breaks="=:"):
        """Returns the candidates at the end of the line, as bash shows them. Splits words at `breaks`, as bash does."""
        words = []
        for word in line.split(" "):
            words += [part for part in re.split(f"([{breaks}]+)", word) if part] or [""] if breaks else [word]
        text = f"""
            source {shlex.quote(str(self.script))}
            COMP_WORDBREAKS={shlex.quote(' ' + breaks)} COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
            COMP_WORDS=({' '.join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
            _zguard zguard {shlex.quote(words[-1])} ''
            ((${{#COMPREPLY[@]}} == 0)) || printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        return self.run("bash", "--norc", "--noprofile", "-uc", text).splitlines()

    def typed(self, line):
        setup = f"source {self.script}; bind -x '\"\\C-x\\C-b\": printf %s \"$READLINE_LINE\" >dumped'\n"
        return type_into(["bash", "--norc", "--noprofile", "-i"], setup, line, self.directory, self.environment)


class Fish(Shell):
    name = "fish"

    def complete(self, line):
        found = self.run("fish", "-c", f"source {shlex.quote(str(self.script))}; complete -C $argv[1]", line)
        return [row.split("\t")[0] for row in found.splitlines()]

    def described(self, line):
        found = self.run("fish", "-c", f"source {shlex.quote(str(self.script))}; complete -C $argv[1]", line)
        return dict(row.split("\t", 1) for row in found.splitlines() if "\t" in row)


class Zsh(Shell):
    name = "zsh"
    # Replaces compadd by a function that also writes every added match to a file.
    SETUP = r"""
        PS1=; BEFORE; autoload -Uz compinit; compinit -u -d $HOME/.zcompdump; AFTER
        compadd() {
            if (( ! ${@[(I)-[OAD]]} )); then
                local -a matches; builtin compadd -O matches "$@"; (( $#matches )) && print -rl -- $matches >>$HOME/matches
            fi
            builtin compadd "$@"
        }
        dump() { print -rn -- "$BUFFER" >$HOME/dumped }; zle -N dump; bindkey '^X^B' dump; zstyle ':completion:*' verbose no
    """

    def complete(self, line):
        matches = self.directory / "matches"
        matches.unlink(missing_ok=True)
        self.typed(line)
        return sorted(set(matches.read_text().splitlines())) if matches.exists() else []

    def typed(self, line):
        setup = self.directory / ".setup"
        # zsh itself finds a script named after its function, and loads it on first use.
        before, after = (f"fpath=({shlex.quote(str(self.script.parent))} $fpath)", ":")
        if self.script.name != "_zguard":
            before, after = ":", f"source {shlex.quote(str(self.script))}"
        setup.write_text(self.SETUP.replace("BEFORE", before).replace("AFTER", after))
        return type_into(["zsh", "-f", "-i"], f"source {setup}\n", line, self.directory, self.environment)


def type_into(command, setup, line, directory, environment):
    """Starts a shell in a terminal, types the line and a tab; returns the resulting command line."""
    dumped = directory / "dumped"
    dumped.unlink(missing_ok=True)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(directory)
        os.execvpe(command[0], command, environment)
    shown = b""
    try:
        def until(condition, what):
            nonlocal shown
            end = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < end, f"{command[0]} {what}: {shown[-600:]!r}"
                if select.select([terminal], [], [], 0.02)[0]:
                    shown += os.read(terminal, 1 << 16)

        os.write(terminal, setup.encode() + b"echo read''y\n")
        until(lambda: b"ready" in shown, "does not start")
        os.write(terminal, line.encode() + b"\t\x18\x02")
        until(lambda: dumped.exists() and dumped.stat().st_size, "does not complete")
        time.sleep(0.02)
        return dumped.read_text()
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)
