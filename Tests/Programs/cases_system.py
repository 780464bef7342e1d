"""Debuggers, tracers, terminals, editors, pictures, and virtual machines with their own fault handlers."""

import hashlib
import os
import re
import shutil
import subprocess
import time

import generate
from case import Case, Need
from harness import INPUTS, CaseError


def build_debugged(inputs):
    subprocess.run(["g++", "-std=c++17", "-g", "-O0", "-pthread", INPUTS / "debugged.cpp", "-o", inputs / "debugged"], check=True, capture_output=True)


class Gdb(Case):
    """The debugger and its program are both guarded: the debugger sees a fault before the guard's handler does."""
    name = "gdb"
    what = "breakpoints, stacks, containers, Python, a watchpoint, a fault and a core file of a program that is also guarded"
    needs = (Need("gdb", "gdb"), Need("g++", "g++"))
    sees = ("gdb", "debugged")

    def setup(self, inputs):
        build_debugged(inputs)

    def steps(self, run):
        script = ["set debuginfod enabled off", "set pagination off", "break visit if depth == 9", "run", "backtrace 4", "print *node", "print table.size()",
                  "print table[\"key3\"]", "python print(sum(int(gdb.parse_and_eval('depth')) * i for i in range(1000)))",
                  "shell sleep 0.5",  # on a busy machine the watcher would miss a shorter life
                  "info locals", "up 3", "delete", "finish", "tbreak fault", "continue", "up", "watch total if total == -1", "continue",
                  "print $_siginfo.si_signo", "backtrace 2", "generate-core-file core", "kill"]
        words = [word for line in script for word in ("-ex", line)]
        run.step(["gdb", "-nx", "-batch", *words, "--args", run.inputs / "debugged", "fault"], normalise=without_addresses, stderr="any")
        run.step(["gdb", "-nx", "-batch", "-ex", "backtrace 2", "-ex", "print table.size()", run.inputs / "debugged", "core"],
                 normalise=without_addresses, stderr="any")
        run.step(["gdb", "-nx", "-batch", "-ex", "info functions visit", "-ex", "disassemble /s visit", "-ex", "ptype Node",
                  "-ex", "info line fault", run.inputs / "debugged"], normalise=without_addresses)


def without_addresses(text):
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"\b(LWP|process|Process|pid|PID) \d+", r"\1 N", text)
    # The debugger's messages about threads and libraries depend on timing and on preloaded libraries.
    return "\n".join(line for line in text.splitlines()
                     if not re.match(r"\[(New |Thread |Switching|Inferior)|Using host|warning: |Saved core|Core was|\[Current", line))


class Lldb(Case):
    name = "lldb"
    what = "breakpoints, stacks, expressions that are compiled and run in a guarded program, its fault"
    needs = (Need("/usr/bin/lldb", "lldb"), Need("g++", "g++"))
    sees = (r"lldb.*", "debugged")

    def setup(self, inputs):
        build_debugged(inputs)

    def steps(self, run):
        script = ["settings set target.disable-aslr true", "breakpoint set -n visit -c 'depth == 9'", "run", "thread backtrace -c 3", "frame variable depth",
                  "expression depth * 7 + (int)node->value", "expression int sum = 0; for (int i = 0; i < 100; i++) sum += i * depth; sum",
                  "platform shell sleep 0.5",  # on a busy machine the watcher would miss a shorter life
                  "breakpoint delete -f", "continue", "thread backtrace -c 2", "kill"]
        words = [word for line in script for word in ("-o", line)]
        run.step(["/usr/bin/lldb", "--no-lldbinit", "-b", *words, "--", run.inputs / "debugged", "fault"], normalise=lldb_text, stderr="any")


def lldb_text(text):
    kept = [line for line in without_addresses(text).splitlines() if re.search(r"visit|fault|main|\$\d|= \d|stop reason|total", line)]
    return "\n".join(line for line in kept if "where =" not in line)


class Strace(Case):
    """A tracer and its program are both guarded. The program's output must not change."""
    name = "strace"
    what = "python3 and a shell traced with their children: the same output, the same calls of the program itself"
    version = ["strace", "-V"]
    needs = (Need("strace", "strace"), Need("/usr/bin/python3", "python3"))
    sees = ("strace", r"python3[.\d]*")

    def steps(self, run):
        code = ("import json, subprocess, os; d = {str(i): list(range(i % 50)) for i in range(5000)}; print(len(json.dumps(d)));"
                "open('written', 'w').write('text' * 1000); print(subprocess.run(['sh', '-c', 'echo $((6 * 7)); kill -SEGV $$'], capture_output=True))")
        run.step(["strace", "-f", "-e", "trace=execve,rename,unlink,mkdir", "-o", "log", "/usr/bin/python3", "-c", code])
        run.step(["strace", "-f", "-c", "-o", "counts", "/usr/bin/python3", "-c", "print(sum(len(str(i)) for i in range(50000)))"])
        run.note("calls", "\n".join(sorted(re.sub(r"0x[0-9a-f]+ /\* \d+ vars \*/", "ENV", line.split(None, 1)[1])
                                           for line in (run.dir / "log").read_text().splitlines() if "execve" in line and '"sh"' in line)))


class Valgrind(Case):
    """Valgrind's own loader puts the program into a virtual processor, where the guard is one of the loaded libraries."""
    name = "valgrind"
    what = "memcheck of a guarded program with threads and containers: no errors, the same output"
    needs = (Need("valgrind", "valgrind"), Need("g++", "g++"))
    sees = (r"memcheck-.*",)

    def setup(self, inputs):
        build_debugged(inputs)

    def steps(self, run):
        # The guard serves the program's blocks, so valgrind counts other blocks.
        run.step(["valgrind", "-q", "--error-exitcode=99", run.inputs / "debugged"], status=None, stderr="any")


class Tmux(Case):
    """The server is a daemon. Its shells are guarded, too."""
    name = "tmux"
    what = "a server that becomes a daemon; windows, panes, scrollback and their contents"
    version = ["tmux", "-V"]
    needs = (Need("tmux", "tmux"),)
    sees = ("tmux",)

    def steps(self, run):
        tmux = ["tmux", "-S", run.dir / "socket", "-f", "/dev/null"]
        try:
            run.step([*tmux, "new-session", "-d", "-x", "100", "-y", "30", "-s", "one", "seq 1 3000; echo done; exec cat"])
            run.step([*tmux, "split-window", "-t", "one", "-v", "for i in 1 2 3; do printf '\\033[3%dmcolour %d\\033[0m\\n' $i $i; done; exec cat"])
            run.step([*tmux, "split-window", "-t", "one", "-h", "exec cat"])
            self.until(run, tmux, "one.0", "done")
            self.until(run, tmux, "one.1", "colour 3")
            for i in range(20):
                run.step([*tmux, "send-keys", "-t", "one.2", f"typed line {i}", "Enter"])
                # The terminal echoes the line, and cat prints it again. Wait for both outputs; otherwise the next line may come in between.
                self.until(run, tmux, "one.2", f"typed line {i}\ntyped line {i}\n")
            for pane in range(3):
                run.step([*tmux, "capture-pane", "-p", "-e", "-S", "-", "-t", f"one.{pane}"])
            run.step([*tmux, "resize-pane", "-t", "one.1", "-U", "3"])
            run.step([*tmux, "list-panes", "-t", "one", "-F", "#{pane_index} #{pane_width}x#{pane_height} #{history_size}"])
            run.step([*tmux, "set-buffer", "kept text"])
            run.step([*tmux, "show-buffer"])
        finally:
            run.step([*tmux, "kill-server"], status=None)

    def until(self, run, tmux, pane, text):
        for _ in range(1000):
            shown = subprocess.run([*map(str, tmux), "capture-pane", "-p", "-J", "-S", "-", "-t", pane], capture_output=True, text=True).stdout
            if text in shown:
                return
            time.sleep(0.01)
        raise CaseError(f"pane {pane} never showed {text!r}")


class Emacs(Case):
    name = "emacs"
    what = "batch: buffers, regular expressions, JSON, compiled code, threads, garbage collection, a subprocess"
    needs = (Need("emacs", "emacs-nox"),)
    sees = (r"emacs.*",)

    def steps(self, run):
        run.step(["emacs", "-Q", "--batch", "-l", INPUTS / "work.el"], status=3)


class ImageMagick(Case):
    """OpenMP threads; pixel caches in memory, or on disk if the limit is small."""
    name = "imagemagick"
    what = "fractals, blur, rotation, resizing, quantisation, with and without room in memory; PNG, JPEG, GIF"
    needs = (Need("convert-im6.q16", "imagemagick-6.q16"), Need("identify-im6.q16", "imagemagick-6.q16"))
    sees = (r"convert.*",)

    def steps(self, run):
        convert = ["convert-im6.q16", "-define", "png:exclude-chunks=date,time,tIME"]
        run.step([*convert, "-size", "240x180", "-seed", "7", "plasma:red-blue", "-strip", "plasma.png"])
        run.step([*convert, "plasma.png", "-blur", "0x4", "-rotate", "33", "-resize", "70%", "-unsharp", "0x2", "-strip", "turned.png"])
        run.step([*convert, "-limit", "memory", "256KiB", "-limit", "map", "256KiB", "plasma.png", "-resize", "500x500", "-swirl", "90", "-colors", "32", "-strip", "small.gif"])
        run.step([*convert, "plasma.png", "-charcoal", "2", "-quality", "80", "-strip", "charcoal.jpg"])
        run.step([*convert, "plasma.png", "-crop", "60x60", "+repage", "-append", "-auto-level", "-depth", "8", "appended.png"])
        run.step(["identify-im6.q16", "-format", "%f %wx%h %# %[mean]\n", "plasma.png", "turned.png", "small.gif", "charcoal.jpg"])
        run.keep("*.png", "*.gif", "*.jpg")


class Ghostscript(Case):
    name = "ghostscript"
    what = "PostScript to pixels and to PDF, the PDF to pixels again"
    needs = (Need("gs", "ghostscript"),)
    sees = ("gs",)

    def steps(self, run):
        gs = ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER"]
        run.step([*gs, "-sDEVICE=ppmraw", "-r60", "-dTextAlphaBits=4", "-dGraphicsAlphaBits=4", "-sOutputFile=page%d.ppm", INPUTS / "drawing.ps"])
        run.step([*gs, "-sDEVICE=pdfwrite", "-dCompressFonts=true", "-sOutputFile=all.pdf", INPUTS / "drawing.ps"])
        run.step([*gs, "-sDEVICE=png16m", "-r50", "-dNumRenderingThreads=2", "-sOutputFile=again%d.png", "all.pdf"])
        run.step([*gs, "-sDEVICE=txtwrite", "-sOutputFile=-", "all.pdf"])
        run.keep("*.ppm", "*.png")


class Ffmpeg(Case):
    """Threads for frames and slices; assembly code with its own alignment requirements."""
    name = "ffmpeg"
    what = "a generated film through filters, H.264, VP9, AAC and FLAC with threads, decoded again; checksums of every frame"
    version = ["ffmpeg", "-version"]
    needs = (Need("ffmpeg", "ffmpeg"),)
    sees = ("ffmpeg",)
    long = True

    def steps(self, run):
        ffmpeg = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-bitexact"]
        film = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=3", "-f", "lavfi", "-i", "sine=frequency=440:duration=3"]
        run.step([*ffmpeg, *film, "-vf", "rotate=t,unsharp,noise=alls=10:all_seed=7", "-c:v", "libx264", "-threads", "2", "-preset", "fast", "-c:a", "aac",
                  "-flags", "+bitexact", "a.mp4"])
        run.step([*ffmpeg, *film, "-c:v", "libvpx-vp9", "-threads", "2", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "300k", "-c:a", "flac", "-flags", "+bitexact", "-fflags", "+bitexact", "b.mkv"])
        for name in ("a.mp4", "b.mkv"):
            run.step([*ffmpeg, "-threads", "2", "-i", name, "-f", "framemd5", "-"])
        run.keep("a.mp4", "b.mkv")


class R(Case):
    name = "r"
    what = "regression, matrices, lists, garbage collection, forked workers, stack exhaustion caught as an error"
    needs = (Need("Rscript", "r-base-core"),)
    sees = ("R",)
    long = True

    def steps(self, run):
        run.step(["Rscript", "--vanilla", INPUTS / "work.R"], status=6, stderr="any")


class Guile(Case):
    """Boehm's garbage collector, which stops threads by signals and reads their stacks."""
    name = "guile"
    what = "Boehm's collector with threads, guardians, foreign memory, futures"
    needs = (Need("guile", "guile-3.0"),)
    sees = (r"guile.*",)

    def steps(self, run):
        run.step(["guile", "--no-auto-compile", INPUTS / "work.scm"], status=5, stderr="any")


class Sbcl(Case):
    """A garbage collector with its own heap, which protects pages and handles the faults."""
    name = "sbcl"
    what = "a collector with write barriers by SIGSEGV, threads, stack exhaustion, foreign memory, compiled code"
    needs = (Need("sbcl", "sbcl"),)
    sees = ("sbcl",)

    def steps(self, run):
        run.step(["sbcl", "--no-sysinit", "--no-userinit", "--disable-debugger", "--load", INPUTS / "work.lisp"], status=4, stderr="any")


class Mono(Case):
    name = "mono"
    what = "the compiler mcs and its program: null references by SIGSEGV, threads stopped by signals, unmanaged memory"
    needs = (Need("mono", "mono-runtime"), Need("mcs", "mono-mcs"))
    sees = (r"mono(-sgen)?",)
    long = True

    def steps(self, run):
        run.step(["mcs", "-out:work.exe", INPUTS / "Work.cs"])
        run.step(["mono", "work.exe"], status=9)


class Erlang(Case):
    """The virtual machine's allocators take large chunks with mmap."""
    name = "erlang"
    what = "the compiler; 2,500 processes, tables, ports, sockets on 4 schedulers"
    version = ["erl", "-noshell", "-eval", 'io:format("~s~n", [erlang:system_info(version)]), halt().']
    needs = (Need("erl", "erlang-base"), Need("erlc", "erlang-base"))
    sees = (r"beam\.smp",)

    def steps(self, run):
        run.step(["erlc", "-o", ".", INPUTS / "work.erl"])
        run.step(["erl", "+S", "4", "-noshell", "-noinput", "-pa", ".", "-s", "work", "main"], status=8)
