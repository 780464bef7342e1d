"""Start-up cost: wall-clock time of short programs, plain and with every tool, interleaved."""

import statistics
from pathlib import Path

import tools as with_tools

SOURCE = Path(__file__).resolve().parent / "spawn.c"
PROGRAMS = {"true": ("/bin/true",), "ls": ("/bin/ls", "/usr/bin")}
STARTS = 200  # starts of each program with each tool
BATCH = 10  # starts in a row, before the next tool's turn
REDUCED_ROUNDS = 3  # rounds of one start each, for a tool with reduced work


def batch(spawn, command, tool, count):
    """Returns the nanoseconds of each of `count` starts, or None if the program failed."""
    words = [spawn, count, *tool.variables(), "--", *tool.prefix, *command]
    result = with_tools.run_quietly(words, with_tools.clean_environment())
    return list(map(int, result.stdout.split())) if result.returncode == 0 else None


def measure(compilers, tools, size, progress):
    """Returns {program: {tool: [[nanoseconds of each start], ...]}}, with one list for each round."""
    spawn = compilers.program(SOURCE)
    tools = [tool for tool in tools if tool.name != "asan"]  # asan needs the program's source
    results = {program: {tool.name: [] for tool in tools} for program in PROGRAMS}
    for number in range(max(2, int(STARTS * size / BATCH))):
        for program, command in PROGRAMS.items():
            for tool in with_tools.turns(tools, number):
                if tool.is_reduced and number >= REDUCED_ROUNDS:
                    continue
                samples = batch(spawn, command, tool, 1 if tool.is_reduced else BATCH)
                if samples is None:
                    progress(f"start-up: {tool.name} cannot run {program}")
                else:
                    results[program][tool.name].append(samples)
    progress("start-up")
    return {program: {tool: rounds for tool, rounds in by_tool.items() if rounds} for program, by_tool in results.items()}


def summarise(results):
    """Returns {program: {tool: {"wall", "more"}}} in ms, medians within and over rounds. "more" is the excess over plain glibc."""
    summary = {}
    for program, by_tool in results.items():
        medians = {tool: [statistics.median(samples) / 1e6 for samples in rounds] for tool, rounds in by_tool.items()}
        summary[program] = {tool: {"wall": statistics.median(times),
                                   "more": statistics.median(time - plain for time, plain in zip(times, medians["glibc"]))}
                            for tool, times in medians.items()}
    return summary


def markdown(results):
    lines = ["### Start-up", "", "Milliseconds from before a process is created to after it has exited.", "",
             "| program | tool | plain | with it | difference |", "|---|---|---:|---:|---:|"]
    for program, by_tool in summarise(results).items():
        plain = by_tool["glibc"]["wall"]
        lines += [f"| {' '.join(PROGRAMS[program])} | {tool} | {plain:.2f} | {one['wall']:.2f} | {one['more']:+.2f} |"
                  for tool, one in by_tool.items() if tool != "glibc"]
    return [*lines, ""]
