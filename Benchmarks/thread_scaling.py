"""The same work with one, two and four threads: growth of the throughput."""

import statistics
from pathlib import Path

import tools as with_tools

SOURCE = Path(__file__).resolve().parent / "scaling" / "threads.c"
THREADS = (1, 2, 4)


def once(program, tool, threads, size):
    """Runs once. Returns {"wall", "cpu" in nanoseconds, "blocks"}, or {"error"}."""
    command = [*tool.prefix, program, size, threads]
    environment = {**with_tools.clean_environment(), **tool.environment}
    result = with_tools.run_quietly(command, environment)
    if result.returncode != 0:
        return {"error": f"status {result.returncode}"}
    return dict(zip(("wall", "cpu", "blocks"), map(int, result.stdout.split())))


def measure(compilers, tools, runs, size, progress):
    """Returns {tool: [{"1": sample, "2": sample, "4": sample}, ...]}, one entry for each round. The tools take turns."""
    programs = {"plain": compilers.program(SOURCE), "asan": compilers.program(SOURCE, "asan")}
    results = {tool.name: [] for tool in tools}
    for number in range(runs):
        for tool in with_tools.turns(tools, number):
            if not tool.takes_part(number):
                continue
            part = size if tool.size is None else min(size, tool.size)
            program = programs["asan" if tool.name == "asan" else "plain"]
            samples = {str(threads): once(program, tool, threads, part) for threads in THREADS}
            if any("error" in sample for sample in samples.values()):
                progress(f"threads: {tool.name}: {samples}")
            else:
                results[tool.name].append(samples)
    progress("threads")
    return {tool: rounds for tool, rounds in results.items() if rounds}


def throughput(sample):
    """Returns millions of blocks per second."""
    return sample["blocks"] / sample["wall"] * 1000


def growth(rounds, threads):
    """Returns the median ratio of the throughput with this number of threads to that of one thread."""
    return statistics.median(throughput(samples[str(threads)]) / throughput(samples["1"]) for samples in rounds)


def summarise(results):
    """Returns {tool: {"blocks": million per second with one thread, "2", "4": throughput ratios with that many threads, "cpu"}}. "cpu" is
    the processor time of a block with two threads, relative to one thread."""
    def processor_time(sample):
        return sample["cpu"] / sample["blocks"]

    return {tool: {"blocks": statistics.median(throughput(samples["1"]) for samples in rounds),
                   **{str(threads): growth(rounds, threads) for threads in THREADS[1:]},
                   "cpu": statistics.median(processor_time(samples["2"]) / processor_time(samples["1"]) for samples in rounds)}
            for tool, rounds in results.items()}


def markdown(results):
    summary = summarise(results)
    rows = (("blocks", "blocks with one thread, million a second", "{:.1f}"), ("2", "2 threads over 1, throughput", "{:.2f}"),
            ("4", "4 threads over 1, throughput", "{:.2f}"), ("cpu", "2 threads over 1, processor time for a block", "{:.2f}"))
    lines = ["### Threads", "", "| | " + " | ".join(summary) + " |", "|---|" + "---:|" * len(summary)]
    lines += [f"| {title} | " + " | ".join(form.format(one[key]) for one in summary.values()) + " |" for key, title, form in rows]
    return [*lines, ""]
