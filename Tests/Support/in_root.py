#!/usr/bin/env python3
"""Runs a list of jobs inside a root, for a driver outside of it. Needs only Python 3.9.

usage: in_root.py JOBS RESULTS      JOBS: a JSON list of {"name", "row", "command", "environment", "seconds", "after": name or null}
Jobs of a row run one after the other. A job is skipped if the job named by "after" has failed. RESULTS: {name: {"status", "out", "err"}};
the status is negative after a signal, and null after a timeout or if skipped."""

import concurrent.futures
import json
import os
import resource
import signal
import subprocess
import sys


def run(job):
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", "LC_ALL": "C", **job["environment"]}
    process = subprocess.Popen(job["command"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=job["seconds"])
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return {"status": status, "out": out.decode(errors="replace"), "err": err.decode(errors="replace")}


def main():
    jobs = json.load(open(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    results = {}

    def row(first):
        for job in first:
            before = results.get(job["after"]) if job["after"] else {"status": 0}
            left_out = {"status": None, "out": "", "err": "left out"}
            results[job["name"]] = run(job) if before and before["status"] == 0 else left_out

    rows = {}
    for job in jobs:
        rows.setdefault(job["row"], []).append(job)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(row, rows.values()))
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
