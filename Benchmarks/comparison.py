"""Whole processes: wall-clock time, processor time, and peak resident and physical memory of every target under every tool,
interleaved."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import physical
import tools as with_tools

HERE = Path(__file__).resolve().parent
TIMEOUT = 600


class Bench:
    """Runs targets in a temporary directory of its own; a context manager."""

    def __init__(self, launcher):
        self.launcher, self.environment, self.meter = launcher, with_tools.clean_environment(), physical.Meter()

    def __enter__(self):
        self.work = Path(tempfile.mkdtemp(prefix="zguard-bench-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    def folder(self, target, size):
        folder = self.work / f"{target.name}-{size}"
        if not folder.exists():
            folder.mkdir()
            target.prepare(folder, size)
        return folder

    def forget(self, target):
        for folder in self.work.glob(f"{target.name}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def once(self, target, tool, size):
        """Runs a target once. Returns {"wall", "cpu" in seconds, "memory", "physical" in KiB, "digest"}, or {"error"}. "kills" is the
        number of processes that the kernel killed for lack of memory, if any."""
        folder = self.folder(target, size)
        result, output, errors = self.work / "result", self.work / "output", self.work / "errors"
        result.unlink(missing_ok=True)
        memory = self.meter.start()
        command = [*map(str, [self.launcher, result, memory.procs, *tool.variables(target.environment), "--", *tool.prefix,
                              *target.command(folder, size, tool.name)])]
        with open(output, "wb") as out, open(errors, "wb") as err:
            process = subprocess.Popen(command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
        memory.session = process.pid
        try:
            clients = target.drive(process, folder, size)
            process.wait(TIMEOUT)
        except (subprocess.TimeoutExpired, OSError) as error:
            os.killpg(process.pid, 9)
            process.wait()
            return {"error": "too slow" if isinstance(error, subprocess.TimeoutExpired) else "no answer", **told(memory.end())}
        measured = told(memory.end())
        if not result.exists():
            return {"error": "not started", **measured}
        wall, user, system, resident, status = map(int, result.read_text().split())
        if status != 0:
            text = [re.sub(r"^==\d+==\s*", "", line) for line in errors.read_text(errors="replace").splitlines()
                    if re.search(r"[a-z]{3}", line)]
            return {"error": f"signal {status - 128}" if status > 128 else f"exit {status}", "message": " ".join(text[:2])[:300],
                    **measured}
        return {"wall": clients or wall / 1e9, "cpu": (user + system) / 1e9, "memory": resident, **measured,
                "digest": hashlib.sha256(output.read_bytes()).hexdigest()}


def told(memory):
    """Returns a meter's result as part of a sample."""
    peak, kills = memory
    return {**({"physical": peak} if peak else {}), **({"kills": kills} if kills else {})}


def measure_target(bench, target, tools, runs, size, progress):
    """Returns a dictionary {tool: sample} for each round."""
    rounds, digests, given_up = [], {}, set()
    usable = [tool for tool in tools if target.supports(tool.name)]
    for number in range(runs):
        samples = {}
        for tool in with_tools.turns(usable, number):
            if tool.name in given_up or not tool.takes_part(number):
                continue
            part = size if tool.size is None else min(size, tool.size)
            if tool.is_reduced:
                samples["glibc (reduced)"] = bench.once(target, with_tools.make_tool("glibc"), part)
            sample = samples[tool.name] = bench.once(target, tool, part)
            if "error" in sample:
                given_up.add(tool.name)
                progress(f"{target.name}: {tool.name}: {sample['error']} {sample.get('message', '')}")
                continue
            # Servers print nothing; all other programs must print the same as under glibc.
            if digests.setdefault(part, sample["digest"]) != sample["digest"]:
                samples[tool.name] = {"error": "other output"}
                given_up.add(tool.name)
                progress(f"{target.name}: {tool.name}: other output")
        if "glibc" not in samples or "error" in samples["glibc"]:
            break
        rounds.append(samples)
    return rounds


def measure(chosen, compilers, tools, runs, size, progress):
    """Returns {target name: rounds}, and the names of the targets that are not installed."""
    results, absent = {}, []
    for target in chosen:
        target.build(compilers)
    with Bench(compilers.program(HERE / "launch.c")) as bench:
        for target in chosen:
            if target.missing():
                absent.append(target.name)
                progress(f"without {target.name}: {', '.join(target.missing())} not installed")
                continue
            begin = time.monotonic()
            results[target.name] = measure_target(bench, target, tools, runs, size, progress)
            progress(f"{target.name} ({time.monotonic() - begin:.0f} s)")
            bench.forget(target)
    return results, absent
