"""The project's own performance goals, and whether the figures of a run meet them."""

import statistics

import stack_capture
import start_up
import table
import thread_scaling

TOOL = "zguard"
TWO_THREADS = 1.8
QUARANTINE_KIB = (256, 1024)  # the quarantine's default limit is a 16th of the live memory, within these bounds


class Missing(Exception):
    """The run lacks a measurement that a goal needs, or the measurement is not meaningful."""


class Measured:
    """The figures of a run, in the formats of the measuring modules; empty for parts that did not run."""

    def __init__(self, summary, samples, targets, threads, startup, capture):
        self.summary, self.samples, self.targets = summary, samples, targets
        self.threads, self.startup, self.capture = threads, startup, capture

    def ratio(self, name, measure, tool=TOOL):
        found = self.summary.get(name, {}).get(tool, {})
        if measure not in found:
            raise Missing(f"{name} with {tool} not run")
        return found[measure]

    def mean(self, names, measure, base=None):
        """Returns the geometric mean of the targets' ratios, and their number. With `base`, ratios are relative to that tool."""
        ratios = []
        for name in names:
            try:
                ratios.append(self.ratio(name, measure) / (self.ratio(name, measure, base) if base else 1))
            except Missing:
                pass
        if not ratios:
            raise Missing("not run")
        mean = table.geometric_mean(ratios)
        if len(ratios) < len(names):
            raise Missing(f"only {len(ratios)} of {len(names)} programs run, their mean is {mean:.2f}")
        return mean, f"{len(names)} programs"

    def names(self, kind):
        return [target.name for target in self.targets if target.kind == kind]

    def allocating(self):
        """Returns the C and C++ programs that only allocate."""
        return [target.name for target in self.targets if target.is_allocating]


# Each of these functions returns a figure and a remark.


def capture_hit(measured):
    if not measured.capture:
        raise Missing("not run")
    return stack_capture.summarise(measured.capture)["20"]["hit"], ""


def real_time(measured):
    return measured.mean(measured.names("real"), "wall")


def quarantine_of(live_kib):
    least, most = QUARANTINE_KIB
    return min(max(live_kib // 16, least), most)


def real_memory(measured):
    """Peak memory relative to glibc, without the quarantine: subtracts the limit that the quarantine has if glibc's peak is live memory."""
    mean, remark = measured.mean(measured.names("real"), "memory")
    beyond = [statistics.median((round[TOOL]["memory"] - quarantine_of(round["glibc"]["memory"])) / round["glibc"]["memory"]
                                for round in measured.samples[name] if TOOL in round)
              for name in measured.names("real")]
    return table.geometric_mean(beyond), f"{remark}, {mean:.2f} with the quarantine"


def allocating_time(measured):
    return measured.mean(measured.allocating(), "wall")


def time_over_asan(measured):
    return measured.mean(measured.allocating(), "wall", "asan")


def two_threads(measured):
    if TOOL not in measured.threads or "glibc" not in measured.threads:
        raise Missing("not run")
    plain = thread_scaling.growth(measured.threads["glibc"], 2)
    if plain < TWO_THREADS:
        raise Missing(f"cannot be said: the machine had no two processors to spare, plain glibc reached {plain:.2f}")
    return thread_scaling.growth(measured.threads[TOOL], 2), f"glibc {plain:.2f}"


def start_of_true(measured):
    summary = start_up.summarise(measured.startup).get("true", {})
    if TOOL not in summary:
        raise Missing("not run")
    return summary[TOOL]["more"], ""


def swift_class(measured):
    return measured.ratio("swift-class", "wall"), ""


# Goal, unit, bound, whether higher is better, function that returns the figure.
GOALS = (
    ("stack capture of 20 frames, cache hit", " ns", 30, False, capture_hit),
    ("real programs, time, geometric mean", "", 1.10, False, real_time),
    ("real programs, peak memory without the quarantine, geometric mean", "", 1.35, False, real_memory),
    ("micro-benchmarks in C and C++, time, geometric mean", "", 2.5, False, allocating_time),
    ("the same over an AddressSanitizer build", "", 0.6, False, time_over_asan),
    ("throughput of two threads over one", "", TWO_THREADS, True, two_threads),
    ("start of `true`, above plain", " ms", 2, False, start_of_true),
    ("a Swift object made and dropped (swift-class), time", "", 2.0, False, swift_class),
)


def judge(measured):
    """Returns a list of {"goal", "bound", "measured", "remark", "verdict"}; `measured` is None if the run lacks the measurement."""
    rows = []
    for goal, unit, bound, more_is_better, find in GOALS:
        row = {"goal": goal, "bound": f"{'≥' if more_is_better else '≤'} {bound}{unit}", "measured": None, "remark": ""}
        try:
            value, row["remark"] = find(measured)
            row["measured"] = f"{value:.2f}{unit}"
            row["verdict"] = "met" if (value >= bound if more_is_better else value <= bound) else "not met"
        except Missing as missing:
            row["verdict"] = str(missing)
        rows.append(row)
    return rows


def markdown(rows):
    lines = ["### Targets", "", "| what | target | measured | | |", "|---|---:|---:|---|---|"]
    lines += [f"| {row['goal']} | {row['bound']} | {row['measured'] or ''} | {row['remark']} | {row['verdict']} |" for row in rows]
    return [*lines, ""]
