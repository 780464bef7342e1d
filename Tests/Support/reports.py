"""Reads JSON reports: a line for each finding, and at most one run record (docs/run.schema.json)."""

import json
from pathlib import Path


def lines_of(report, schema):
    """Returns the lines of a report that have this schema; [] if there is no report."""
    report = Path(report)
    lines = [json.loads(line) for line in report.read_text().splitlines() if line.strip()] if report.exists() else []
    return [line for line in lines if line["schema"] == schema]


def findings_of(report):
    return lines_of(report, "zguard.finding/1")


def ends_of(report):
    return lines_of(report, "zguard.run/1")
