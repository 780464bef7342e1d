"""Runs CPython's regression tests, as packaged by Debian, with the installed interpreter.

A unit is a module of the package `test`. Each runs in a process of its own through cpython_events.py, which records each test's outcome; so
if the interpreter crashes, the outcomes of the earlier tests are known. Units with the suffix "+malloc" allocate all of Python's objects
with malloc.
"""

import json
from pathlib import Path

from suite import Result, Suite, Unit

PYTHON = "/usr/bin/python3"
LIBRARY = Path("/usr/lib/python3.11/test")
EVENTS = Path(__file__).resolve().parent / "cpython_events.py"

# Modules that are not run, with the reason.
LEFT_OUT = {
    "test_gdb": "debugs python with gdb and needs its debug symbols",
    "test_idle": "needs a screen", "test_tcl": "needs a package of its own", "test_tk": "needs a screen",
    "test_ttk_guionly": "needs a screen", "test_ttk_textonly": "needs a screen", "test_turtle": "needs a screen",
    "test_winconsoleio": "Windows", "test_winreg": "Windows", "test_winsound": "Windows", "test_msilib": "Windows",
    "test_cppext": "installs from the network",
    "test_ensurepip": "Debian has it replaced", "test_venv": "installs from the network",
}
# Tests that are ignored, with the reason.
IGNORED = {
    "test.test_socket.ThreadedVSOCKSocketStreamTest.*": "waits for ever where the machine itself is a guest with a vsock device",
}
# The slowest modules, which run last.
SLOW = ("test_concurrent_futures", "test_asyncio", "test_multiprocessing_fork", "test_multiprocessing_forkserver",
        "test_multiprocessing_spawn", "test_tokenize", "test_unicodedata", "test_io", "test_subprocess", "test_signal", "test_tools",
        "test_lib2to3", "test_zipfile", "test_distutils", "test_peg_generator", "test_compileall", "test_statistics", "test_random",
        "test_strtod", "test_decimal", "test_codecmaps_cn", "test_largefile", "test_regrtest", "test_xmlrpc", "test_dtrace")
# Modules that are run once more with all of Python's objects from malloc.
MALLOC = ("test_array", "test_ast", "test_asyncgen", "test_bytes", "test_collections", "test_coroutines", "test_ctypes",
          "test_datetime", "test_deque", "test_descr", "test_dict", "test_exceptions", "test_fork1", "test_functools", "test_gc",
          "test_generators", "test_itertools", "test_json", "test_list", "test_marshal", "test_memoryview", "test_mmap", "test_pickle",
          "test_pyexpat", "test_re", "test_set", "test_ssl", "test_struct", "test_super", "test_thread",
          "test_threading", "test_traceback", "test_unicode", "test_weakref", "test_xml_etree_c", "test_zlib")
QUICK = ("test_json", "test_gc", "test_weakref", "test_ctypes", "test_mmap", "test_zlib", "test_bz2", "test_thread",
         "test_struct", "test_array", "test_select", "test_pickle")


class CPython(Suite):
    name = "cpython"
    title = "CPython regression tests"
    command = "python3 -m test MODULE"
    packages = ("python3.11", "libpython3.11-testsuite")
    deadline = 1200.0
    is_quick = True

    def units(self):
        names = sorted((path.stem for path in LIBRARY.glob("test_*")
                        if path.suffix == ".py" or (path / "__init__.py").exists()),
                       key=lambda name: (name in SLOW, name))
        units = [Unit(name, quick=name in QUICK) for name in names if name not in LEFT_OUT]
        return units + [Unit(name + "+malloc", env={"PYTHONMALLOC": "malloc"}) for name in names if name in MALLOC]

    def run(self, unit, place, only=()):
        events = place.dir / "events"
        arguments = [PYTHON, EVENTS, events]
        for test in only:
            if not test.startswith("("):
                arguments += ["--match", test]
        for pattern in IGNORED:
            arguments += ["--ignore", pattern]
        module = unit.name.split("+")[0]
        ended = place.run([*arguments, module], env=unit.env, deadline=self.deadline)
        outcomes, running, starts, guarded = {}, None, [], False
        for event in read_events(events):
            if event["event"] == "begin":
                guarded = event["guarded"]
            elif event["event"] == "start":
                running = event["test"]
                starts.append((event["time"], running))
            else:
                running = None
                # A test may report several outcomes, such as a success after skipped subtests: the last one counts, except that a
                # failure stays.
                if outcomes.get(event["test"]) not in ("failed", "failed as expected"):
                    outcomes[event["test"]] = event["outcome"]
        if ended.status is None:
            outcomes[running or "(module)"] = "hung"
        elif running or ended.status > 128:
            outcomes[running or "(module)"] = f"crashed with status {ended.status}"
        outcomes["(module)"] = outcomes.get("(module)") or {
            0: "passed", 2: "failed", 3: "changed the environment"}.get(ended.status, f"status {ended.status}")
        if "skipped" in ended.output and not starts:
            outcomes["(module)"] = "skipped"
        for finding in ended.findings:
            earlier = [test for time, test in starts if time <= seconds_of(finding)]
            finding["test"] = earlier[-1] if earlier else "(module)"
        return Result(outcomes, ended.findings, guarded, ended.output[-4000:] + ended.errors[-2000:])


def read_events(path):
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                pass  # truncated when the process was killed


def seconds_of(finding):
    import datetime

    try:
        return datetime.datetime.fromisoformat(finding["time"].replace("Z", "+00:00")).timestamp() + 0.001
    except (KeyError, ValueError):
        return float("inf")
