"""Runs CPython's regression tests in this process and writes each test's start and outcome to a file: events FILE ARGUMENT…

The interpreter under test runs this script, with the arguments of `python3 -m test`. An event is one line of JSON; the file is opened for
each event, so that no additional descriptor is open in the tests.
"""

import json
import os
import runpy
import sys
import time


def main():
    path = os.path.abspath(sys.argv[1])
    process = os.getpid()

    def log(**event):
        if os.getpid() != process:  # a forked child that continues in the test framework is not the test
            return
        event["time"] = time.time()
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(event) + "\n")

    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        log(event="begin", guarded="libzguard.so" in file.read())
    from test.support.testresult import RegressionTestResult as Result

    def name_of(test):
        return test.id() if hasattr(test, "id") else str(test)

    def wrap(method, outcome):
        before = getattr(Result, method)

        def wrapped(self, test, *more):
            log(event="end", test=name_of(test), outcome=outcome)
            return before(self, test, *more)

        setattr(Result, method, wrapped)

    start = Result.startTest

    def start_test(self, test):
        log(event="start", test=name_of(test))
        return start(self, test)

    def add_sub_test(self, test, subtest, error):
        if error is not None:
            log(event="end", test=name_of(test), outcome="failed")
        return super(Result, self).addSubTest(test, subtest, error)

    Result.startTest = start_test
    Result.addSubTest = add_sub_test
    for method, outcome in (("addSuccess", "passed"), ("addFailure", "failed"), ("addError", "failed"), ("addSkip", "skipped"),
                            ("addExpectedFailure", "failed as expected"), ("addUnexpectedSuccess", "passed unexpectedly")):
        wrap(method, outcome)

    sys.argv = ["test", *sys.argv[2:]]
    runpy.run_module("test", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
