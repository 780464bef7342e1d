"""Reads the Test Anything Protocol."""

import re

LINE = re.compile(r"^(not )?ok\b(?: +(\d+))?([^#\n]*)(?:#[ \t]*(\w+))?", re.MULTILINE)
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*(?:skip|SKIP))?", re.MULTILINE)


def read_tap(text, status):
    """Returns outcomes by test number, and "(script)" for the script as a whole."""
    outcomes, count = {}, 0
    for match in LINE.finditer(text):
        count += 1
        word = (match.group(4) or "").lower()
        outcome = "failed" if match.group(1) else "passed"
        if word == "skip":
            outcome = "skipped"
        elif word == "todo":
            outcome = f"{outcome} as to be done"
        name = match.group(2) or str(count)
        outcomes[name if name not in outcomes else f"{name} (line {count})"] = outcome
    plan = PLAN.search(text)
    outcomes["(script)"] = "passed"
    if status is None:
        outcomes["(script)"] = "hung"
    elif status:
        outcomes["(script)"] = f"status {status}"
    elif not plan:
        outcomes["(script)"] = "failed: no plan"
    elif int(plan.group(1)) != count:
        outcomes["(script)"] = f"failed: {count} of {plan.group(1)}"
    elif not count:
        outcomes["(script)"] = "skipped"
    return outcomes
