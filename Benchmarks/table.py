"""Turns samples into medians, and medians into a Markdown page."""

import math
import statistics

MEASURES = (
    ("wall", "Time (wall clock)", lambda value: f"{value:.2f} s"),
    ("cpu", "Processor time (user + system, with children)", lambda value: f"{value:.2f} s"),
    ("memory", "Peak resident memory (largest process; a page counts once for each place where it is mapped)",
     lambda value: f"{value / 1024:.0f} MiB"),
    ("physical", "Peak physical memory (all processes of a program, with page tables, without files)",
     lambda value: f"{value / 1024:.0f} MiB"),
)


def ratios(rounds, tool, measure, base):
    """Returns the ratio of tool to base in each round. A disturbance during a round affects both, and so hardly their ratio."""
    return [samples[tool][measure] / samples[base][measure] for samples in rounds
            if tool in samples and base in samples and not samples[tool].get("error")
            and measure in samples[tool] and samples[base].get(measure, 0) > 0]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summarise(results, tools):
    """Returns {target: {tool: {measure: median ratio}}}, with errors as text."""
    summary = {}
    for target, rounds in results.items():
        summary[target] = {}
        for tool in tools:
            base = "glibc (reduced)" if tool.is_reduced else "glibc"
            errors = [samples[tool.name]["error"] for samples in rounds if tool.name in samples and samples[tool.name].get("error")]
            if tool.name == "glibc" or not any(tool.name in samples for samples in rounds):
                continue
            if errors:
                summary[target][tool.name] = {"error": errors[0]}
                continue
            summary[target][tool.name] = {
                measure: statistics.median(found) for measure, _, _ in MEASURES
                if (found := ratios(rounds, tool.name, measure, base))}
    return summary


HEADINGS = (("micro", "micro-benchmarks"), ("real", "real programs"), ("built", "programs built from source"))


def markdown(results, kinds, tools, runs):
    """Returns the lines of the page: a table for each measure, and the targets that could not be measured."""
    if not results:
        return []
    summary = summarise(results, tools)
    shown = [tool for tool in tools if tool.name != "glibc"]
    lines = []
    for measure, title, unit in MEASURES:
        heads = [tool.name + ("†" if tool.footnote(runs) else "") for tool in shown]
        lines += [f"### {title}", "", "| program | glibc | " + " | ".join(heads) + " |", "|---|---:|" + "---:|" * len(shown)]
        for kind, heading in HEADINGS:
            names = [name for name in results if kinds[name] == kind]
            lines += rows(results, summary, names, shown, measure, unit)
            lines += means(summary, names, shown, measure, heading) if names else []
        lines.append("")
    return lines + failures(results) + [line for tool in shown if (note := tool.footnote(runs)) for line in (f"† {note}", "")]


def rows(results, summary, names, shown, measure, unit):
    """Returns a line for each program: glibc's own value, and the ratios."""
    lines = []
    for name in names:
        base = [samples["glibc"].get(measure) for samples in results[name] if "glibc" in samples and not samples["glibc"].get("error")]
        known = [value for value in base if value is not None]
        cells = [unit(statistics.median(known)) if known else "not measured" if base else "failed"]
        for tool in shown:
            value = summary[name].get(tool.name, {})
            cells.append(f"*{value['error']}*" if "error" in value else f"{value[measure]:.2f}" if measure in value else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def means(summary, names, shown, measure, heading):
    lines = []
    for label, function in (("geometric mean", geometric_mean), ("median", statistics.median)):
        cells = []
        for tool in shown:
            values = [summary[name][tool.name][measure] for name in names if measure in summary[name].get(tool.name, {})]
            cells.append(f"**{function(values):.2f}**" if values else "")
        lines.append(f"| **{heading}, {label}** | | " + " | ".join(cells) + " |")
    return lines


def failures(results):
    lines = []
    for name, rounds in results.items():
        for tool, sample in {tool: sample for samples in rounds for tool, sample in samples.items() if sample.get("error")}.items():
            message = f" ({sample['message']})" if sample.get("message") else ""
            lines += [f"{tool} cannot run {name}: {sample['error']}{message}", ""]
    return lines
