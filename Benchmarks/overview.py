#!/usr/bin/env python3
"""Writes the overview of docs/PERFORMANCE.md from the figures of one or more runs: a picture of time against memory, and a table.

usage: Benchmarks/overview.py RUN.json [RUN.json …] --picture FILE.svg --table FILE.md

The figures are those that `Benchmarks/run --json` writes. Each tool is one point at the geometric means of its ratios to plain glibc:
processor time and peak physical memory of the real programs. If a tool is in several runs, the first one counts; later ones add tools,
such as AddressSanitizer on the programs that are built from source. The colour says which accesses to freed memory the tool finds."""

import argparse
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import table  # noqa: E402
import targets  # noqa: E402

# Which accesses to freed blocks a tool finds: class in the style sheet, and text in the legend.
FINDS = {"nothing": "nothing", "some": "double frees, and some writes", "sampled": "one block in thousands, at the instruction",
         "most": "first blocks of each stack at the instruction; others when they are verified",
         "all": "nearly all, at the instruction"}
# Name of a tool in the run, name in the overview, and what it finds.
TOOLS = (("glibc", "glibc", "nothing"), ("mimalloc", "mimalloc", "nothing"), ("jemalloc", "jemalloc", "nothing"), ("scudo", "scudo", "some"),
         ("sample", "profile sample", "sampled"), ("budget", "overhead=5%", "most"), ("zguard", "profile guard (default)", "most"),
         ("fence", "profile fence", "all"), ("asan", "AddressSanitizer (rebuilt)", "all"))
LIGHT = {"nothing": "#767676", "some": "#b05f00", "sampled": "#7b4fc9", "most": "#0969da", "all": "#1a7f37", "text": "#1f2328",
         "line": "#d0d7de", "back": "#ffffff"}
DARK = {"nothing": "#9198a1", "some": "#e09b4a", "sampled": "#b392f0", "most": "#58a6ff", "all": "#3fb950", "text": "#e6edf3",
        "line": "#30363d", "back": "#0d1117"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 640, 70, 30, 24, 160
TIMES, MEMORIES = (0.8, 1, 1.25, 1.5, 2, 3, 4), (0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 20)
LETTER, LINE = 8, 16  # estimated width of a letter and height of a line, in pixels


def points_of(paths):
    """Returns [(name, what it finds, time, memory, number of programs)]."""
    found = {}
    real = {target.name for target in targets.all_targets() if target.kind in ("real", "built")}
    for path in paths:
        summary = {name: row for name, row in json.loads(path.read_text())["summary"].items() if name in real}
        for tool, name, finds in TOOLS:
            rows = [row[tool] for row in summary.values() if row.get(tool, {}).get("physical")]
            if rows and name not in found:
                time, memory = (table.geometric_mean([row[measure] for row in rows]) for measure in ("cpu", "physical"))
                found[name] = (name, finds, time, memory, len(rows))
    found["glibc"] = ("glibc", "nothing", 1.0, 1.0, max((point[4] for point in found.values()), default=0))
    return [found[name] for _, name, _ in TOOLS if name in found]


def place_x(time):
    return LEFT + math.log(time / TIMES[0]) / math.log(TIMES[-1] * 1.1 / TIMES[0]) * (WIDTH - LEFT - RIGHT)


def place_y(memory):
    return HEIGHT - BOTTOM - math.log(memory / MEMORIES[0]) / math.log(MEMORIES[-1] * 1.15 / MEMORIES[0]) * (HEIGHT - TOP - BOTTOM)


def overlaps(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def labels_of(points):
    """Returns the labels' places, so that no label covers a point or another label: [(name, what it finds, box, its point)]."""
    taken = [(place_x(time) - 7, place_y(memory) - 7, place_x(time) + 7, place_y(memory) + 7) for _, _, time, memory, _ in points]
    labels = []
    for name, finds, time, memory, _ in sorted(points, key=lambda point: -point[2]):
        x, y, width = place_x(time), place_y(memory), LETTER * len(name)
        places = [(x + 12, y), (x - 12 - width, y)]
        for distance in range(20, 140, 4):
            places += [(x - width / 2, y - distance), (x - width / 2, y + distance), (x + 12, y - distance), (x + 12, y + distance),
                       (x - 12 - width, y - distance), (x - 12 - width, y + distance)]
        boxes = [(left, middle - LINE / 2, left + width, middle + LINE / 2) for left, middle in places]
        fits = (box for box in boxes if box[0] > LEFT and box[2] < WIDTH - RIGHT and box[3] < HEIGHT - BOTTOM
                and not any(overlaps(box, other) for other in taken))
        box = next(fits, boxes[0])
        taken.append(box)
        labels.append((name, finds, box, (x, y)))
    return labels


def style(colours):
    rules = [f".{name} {{ fill: {colours[name]} }}" for name in (*FINDS, "text", "back")]
    return " ".join([*rules, f".line {{ stroke: {colours['line']} }}", f".leader {{ stroke: {colours['nothing']}; stroke-width: 0.7 }}"])


def axis_lines():
    for time in TIMES:
        x = place_x(time)
        yield f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text class="text" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{time:g}</text>'
    for memory in MEMORIES:
        y = place_y(memory)
        yield f'<line class="line" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="text" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{memory:g}</text>'
    yield f'<text class="text" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - BOTTOM + 38}" text-anchor="middle">processor time, times plain glibc</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text class="text" x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">physical memory, times plain glibc</text>'


def picture(points):
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="13">',
             "<title>Processor time and memory of allocators and detectors</title>",
             f"<style>{style(LIGHT)} @media (prefers-color-scheme: dark) {{ {style(DARK)} }}</style>",
             f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>', *axis_lines()]
    for _, finds, time, memory, _ in points:
        lines.append(f'<circle class="{finds}" cx="{place_x(time):.1f}" cy="{place_y(memory):.1f}" r="6"/>')
    for name, finds, box, (x, y) in labels_of(points):
        to_x, to_y = min(max(x, box[0] + 4), box[2] - 4), min(max(y, box[1]), box[3])
        if abs(to_y - y) > LINE:
            lines.append(f'<line class="leader" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>')
        lines.append(f'<text class="{finds}" x="{box[0]:.1f}" y="{box[3] - 4:.1f}">{escape(name)}</text>')
    used = [finds for finds in FINDS if any(point[1] == finds for point in points)]
    lines.append(f'<text class="text" x="{LEFT}" y="{HEIGHT - 98}">Finds of accesses to freed blocks:</text>')
    for number, finds in enumerate(used):
        y = HEIGHT - 80 + number * LINE
        lines.append(f'<circle class="{finds}" cx="{LEFT + 6}" cy="{y}" r="5"/>')
        lines.append(f'<text class="{finds}" x="{LEFT + 18}" y="{y + 4}">{escape(FINDS[finds])}</text>')
    return "\n".join([*lines, "</svg>", ""])


def rows_of(points):
    lines = ["| | processor time | physical memory | programs | finds of accesses to freed blocks |", "|---|---:|---:|---:|---|"]
    lines += [f"| {name} | {time:.2f} | {memory:.2f} | {count} | {FINDS[finds]} |" for name, finds, time, memory, count in points]
    return "\n".join([*lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--picture", type=Path, required=True, metavar="FILE.svg")
    parser.add_argument("--table", type=Path, required=True, metavar="FILE.md")
    arguments = parser.parse_args()
    points = points_of(arguments.runs)
    arguments.picture.write_text(picture(points))
    arguments.table.write_text(rows_of(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
