"""Table for profile fence: processor time and peak physical memory of each program by tool, and the number of complete runs."""

import statistics

import table

HEADINGS = (("real", "real programs"), ("built", "built from source"))


def tools(before=None):
    """Returns the tools that the table compares, in the syntax of Benchmarks/run."""
    another = [f"before=zguard@{before}:profile=fence"] if before else []
    return ",".join(["glibc", *another, "fence=zguard:profile=fence", "asan"])


def value(summary, name, tool, measure):
    """Returns the median ratio to glibc, an error text, or an empty text if the tool does not take part."""
    found = summary[name].get(tool, {})
    if "error" in found:
        return f"*{found['error']}*"
    return f"{found[measure]:.2f}" if measure in found else ""


def ended_by_memory(rounds, tool):
    """True if memory ran out in a run: the kernel killed a process, or the program's message says so."""
    return any(samples[tool].get("kills") or "memory" in samples[tool].get("message", "").lower()
               for samples in rounds if "error" in samples.get(tool, {}))


def markdown(results, kinds, tools):
    """Returns the lines of the page."""
    summary = table.summarise(results, tools)
    shown = [tool.name for tool in tools if tool.name != "glibc"]
    heads = ["program", "plain", *(f"{name}, time" for name in shown), "plain", *(f"{name}, memory" for name in shown)]
    lines = ["### Full guarding: processor time and peak physical memory", "", "| " + " | ".join(heads) + " |",
             "|---|" + "---:|" * (len(heads) - 1)]
    for kind, heading in HEADINGS:
        names = [name for name in results if kinds[name] == kind]
        if not names:
            continue
        for name in names:
            cells = [name]
            for measure, unit in (("cpu", lambda seconds: f"{seconds:.2f} s"), ("physical", lambda kib: f"{kib / 1024:.1f} MiB")):
                base = [samples["glibc"][measure] for samples in results[name] if measure in samples.get("glibc", {})]
                cells.append(unit(statistics.median(base)) if base else "")
                cells += [value(summary, name, tool, measure) for tool in shown]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("| " + " | ".join(mean_cells(summary, names, shown, f"**{heading}, geometric mean**")) + " |")
    return [*lines, "", *ends(results, shown), *table.failures(results)]


def mean_cells(summary, names, shown, title):
    cells = [title]
    for measure in ("cpu", "physical"):
        cells.append("")
        for tool in shown:
            values = [summary[name][tool][measure] for name in names if measure in summary[name].get(tool, {})]
            cells.append(f"**{table.geometric_mean(values):.2f}**" if values else "")
    return cells


def ends(results, shown):
    """Returns a line for each tool: how many programs ran to their end, and how many ran out of memory."""
    lines = []
    for tool in shown:
        took_part = [name for name, rounds in results.items() if any(tool in samples for samples in rounds)]
        failed = [name for name in took_part if any("error" in samples.get(tool, {}) for samples in results[name])]
        short = [name for name in failed if ended_by_memory(results[name], tool)]
        lines.append(f"- {tool}: {len(took_part) - len(failed)} of {len(took_part)} programs ran to their end, "
                     f"{len(short)} ended for want of memory" + (f" ({', '.join(short)})" if short else ""))
    return [*lines, ""]
