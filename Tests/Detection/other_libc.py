#!/usr/bin/env python3
"""Checks the preload library with other versions of glibc than the one it was built with, in debootstrap roots.

The roots are Debian 11 (glibc 2.31, with separate libpthread and libdl, and without _dl_find_object) and Debian unstable (glibc 2.43).
The one-bug programs, their corrected twins, the clean programs and real programs are compiled and run there, without and with the library
preloaded, and without zguard. Findings are compared with the programs' headers, except function names. Skipped if a root cannot be made.
Closing line: N passed, N failed."""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import bugs  # noqa: E402
from Support import roots  # noqa: E402
from Support.checks import Checks, Failed  # noqa: E402
from Support.environment import LIBRARY, ROOT, TESTS  # noqa: E402

SUITES = {"bullseye": "2.31", "sid": "2.43"}
COMMON = ("bash", "bc", "bzip2", "g++", "git", "jq", "libc6-dev", "lua5.3", "make", "perl", "python3", "redis-server", "ruby", "sqlite3",
          "xz-utils", "zstd")
PACKAGES = {"bullseye": COMMON, "sid": tuple("lua5.4" if name == "lua5.3" else name for name in COMMON)}
# Differences of a suite's C library: compiler errors for functions that the library lacks, macros that replace some of these functions, and
# programs that are not run because they depend on other behavior.
LACKS = {"bullseye": r"undefined reference to `(close_range|execveat|pthread_attr_setsigmask_np|_Fork)'|struct mallinfo2"}
MACROS = {"bullseye": ["-Dstrerrorname_np=strerror"]}
DIFFERS = {"bullseye": {"Clean/stack_use.c"}}  # reads an ended thread's stack, whose pages glibc 2.31 discards
JOB_SECONDS, ALL_SECONDS = 240, 5400
PRODUCT, WORK = "/product", "/work"
PRELOADED = f"{PRODUCT}/build/lib/libzguard.so"

# Real programs: name, shell command. Each must print the same with the library, without findings.
REAL = {
    "bash": "bash -c 'for i in $(seq 300); do a=$(echo $i); b+=$a; done; echo ${#b}'",
    "bc": "echo '2^4000' | bc | md5sum",
    "bzip2": "bzip2 -c /usr/bin/perl | bzip2 -d | cmp - /usr/bin/perl && echo same",
    "g++": "printf '#include <map>\\n#include <regex>\\nint main(){std::map<int,std::string> m; return m.size();}' > $DIR/x.cpp"
           " && g++ -O1 -S $DIR/x.cpp -o - | md5sum",
    "git": "cd $DIR && git init -q r && cd r && git config user.email a@b.c && git config user.name n && cp /etc/services . && git add ."
           " && git commit -qm one && git log --stat --format=%s && git fsck --full && git gc -q",
    "iconv": "perl -e 'print \"\\xe4\\xf6\" x 5000' | iconv -f LATIN1 -t UTF-16 | iconv -f UTF-16 -t UTF-8 | md5sum;"
             " for c in EUC-JP BIG5 KOI8-R CP1252 SHIFT_JIS; do echo abc | iconv -f ASCII -t $c | md5sum; done",
    "jq": "jq -n '[range(20000)] | map(. * 2) | add'",
    "lua": "$(ls /usr/bin/lua5.*[0-9] | head -1) -e 'local t = {} for i = 1, 2e5 do t[i] = tostring(i) end print(#table.concat(t))'",
    "make": "cd $DIR && printf 'all: a b\\na b:\\n\\techo $@\\n' > Makefile && make -j2 -O all | sort",
    "nss": "getent passwd root; getent services ssh; getent hosts localhost",
    "perl": "perl -e 'my %h; $h{$_ % 977} .= $_ for 1 .. 200000; print scalar(keys %h), length(join q(), values %h), qq(\\n)'",
    "perl modules": "perl -MPOSIX -MSocket -MData::Dumper -MEncode -MList::Util=sum -e 'print sum(map { length Encode::encode(q(UTF-16), $_) } 1 .. 9999)'",
    "python3": "python3 -c 'import json, re, decimal, hashlib; print(hashlib.md5(json.dumps([str(decimal.Decimal(i) / 7) for i in range(20000)]).encode()).hexdigest())'",
    "python3 extension modules": "python3 -c 'import ctypes, sqlite3, ssl, lzma, bz2, curses, zlib, multiprocessing; print(ctypes.CDLL(None).abs(-3))'",
    "python3 malloc": "PYTHONMALLOC=malloc python3 -c 'print(sum(len(str(i) * 3) for i in range(100000)))'",
    "python3 processes": "python3 -c 'import multiprocessing as m; p = m.Pool(3); print(sum(p.map(abs, range(-3000, 0))))'",
    "python3 threads": "python3 -c 'import threading; r = []; t = [threading.Thread(target=lambda: r.append(sum(range(50000)))) for _ in range(20)];"
                       " [x.start() for x in t]; [x.join() for x in t]; print(sum(r))'",
    "redis": "redis-server --port 0 --unixsocket $DIR/s --save '' --daemonize no > /dev/null & p=$!; for i in $(seq 600); do"
             " redis-cli -s $DIR/s ping 2> /dev/null | grep -q PONG && break; sleep 0.1; done; for i in 1 2 3; do"
             " redis-cli -s $DIR/s debug populate 20000 k$i 100; done; redis-cli -s $DIR/s dbsize; redis-cli -s $DIR/s flushall;"
             " redis-cli -s $DIR/s shutdown nosave; wait $p; echo $?",
    "ruby": "ruby -e 'h = Hash.new(0); 200000.times { |i| h[i % 977] += i }; puts h.values.sum; puts (1..5).map { |i| Thread.new { i * 2 }.value }.sum'",
    "sort": "seq 200000 | sort -R --random-source=/etc/services --parallel=4 | sort -n --parallel=4 | md5sum",
    "sqlite3": "sqlite3 $DIR/d.db 'create table t(a integer, b text); with recursive c(x) as (values(1) union all select x+1 from c where"
               " x < 30000) insert into t select x, hex(x) from c; create index i on t(b); select count(*), sum(length(b)) from t;"
               " pragma integrity_check;'",
    "tar": "tar -C /usr/share -cf - doc 2> /dev/null | tar -tf - | wc -l",
    "xz": "xz -T2 -c /usr/bin/perl | xz -d | cmp - /usr/bin/perl && echo same",
    "zstd": "zstd -q -T2 -c /usr/bin/perl | zstd -q -d | cmp - /usr/bin/perl && echo same",
}


def options_of(program):
    return program.header.get("options", "")


class Jobs:
    def __init__(self, suite):
        self.jobs, self.suite = [], suite

    def add(self, row, name, command, after=None, **environment):
        self.jobs.append({"row": row, "name": name, "command": [str(word) for word in command], "environment": environment,
                          "seconds": JOB_SECONDS, "after": after})

    def compile(self, program, fixed):
        name = f"{program.name}{' fixed' * fixed}"
        target = f"{WORK}/{program.name.replace('/', '-').replace('.', '-')}{'-fixed' * fixed}"
        _, compiler, flags, bug_flags = bugs.LANGUAGES[program.path.suffix]
        # No warning flags: other compiler versions have other warnings.
        flags = [*flags, *(flag for flag in bugs.COMPILE_FLAGS if not flag.startswith("-W")), "-w", *MACROS.get(self.suite, [])]
        self.add(program.name, f"{name} compiled", [compiler, *flags, *["-DFIXED"] * fixed, "-o", target, f"{PRODUCT}/Tests/{program.name}",
                                                   *program.header.get("libs", "").split(), "-Wl,--as-needed", "-lpthread", "-ldl"])
        return name, target

    def run(self, row, name, command, report, options, after=None, **environment):
        """Adds a job without and a job with the library preloaded."""
        self.add(row, f"{name} plain", command, after, **environment)
        words = ":".join(word for word in (options, f"report_path={report}") if word)
        self.add(row, f"{name} guarded", command, after, LD_PRELOAD=PRELOADED, ZGUARD_OPTIONS=words, **environment)

    def add_program(self, program, fixed):
        name, target = self.compile(program, fixed)
        self.run(program.name, name, [target], f"{target}.jsonl", options_of(program), f"{name} compiled")


def without_names(header):
    """Returns the header without what only zguard provides: stacks must exist, but the names of their functions are not checked."""
    kept = {key: value for key, value in header.items() if key not in ("exit", "count", "detail", "stdout")}
    return {key: "- (no names)" if key.startswith("stack-") else value for key, value in kept.items()}


def findings_of(directory, report):
    path = directory / Path(report).name
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def said(text):
    return [line for line in text.splitlines() if "zguard: error" in line or "symbol lookup error" in line or "cannot be preloaded" in line]


def check_bug(program, results, directory):
    name, header = program.name, program.header
    if results[f"{name} compiled"]["status"] != 0:
        return [f"does not compile: {results[f'{name} compiled']['err'][-400:]}"]
    guarded = results[f"{name} guarded"]
    problems = said(guarded["err"])
    report = f"{WORK}/{name.replace('/', '-').replace('.', '-')}.jsonl"
    findings = findings_of(directory, report)
    if guarded["status"] is None:
        problems.append("guarded: still running")
    least, _, most = header.get("count", "1").partition("-")
    count = sum(finding.get("count", 1) for finding in findings)
    if not int(least) <= count <= int(most or least):
        problems.append(f"findings: expected {header.get('count', '1')}, got {count}: {guarded['err'][-300:]}")
    for finding in findings:
        # Class and member need symbols, which the library alone does not read.
        block = " ".join(pair for pair in header.get("block", "").split() if not pair.startswith(("member=", "class=")))
        problems += bugs.check_finding(finding, {**without_names(header), **({"block": block} if "block" in header else {})})
        if not (finding.get("stacks") or {}).get("access"):
            problems.append("no stack of the access")
    return problems


def check_same(name, results, directory, report, allowed=None):
    plain, guarded = results[f"{name} plain"], results[f"{name} guarded"]
    problems = said(guarded["err"])
    err = bugs.without_warnings(guarded["err"].encode(), allowed).decode() if allowed else guarded["err"]
    for what, expected, got in (("exit", plain["status"], guarded["status"]), ("stdout", plain["out"], guarded["out"]),
                                ("stderr", plain["err"], err)):
        if expected != got or got is None:
            problems.append(f"{what}: unguarded {str(expected)[-200:]!r}, guarded {str(got)[-300:]!r}")
    return problems + [f"found: {finding.get('kind')} ({finding.get('access')})" for finding in findings_of(directory, report)]


def programs_matching(text):
    found = [program for program in bugs.discover(text) if program.path.suffix in (".c", ".cpp")]
    for program in found:
        program.read_header()
    return [program for program in found if not program.why_not()]


def check_in(root, suite, only, checks):
    programs = [program for program in programs_matching(only) if program.name not in DIFFERS.get(suite, ())]
    jobs = Jobs(suite)
    for program in programs:
        if program.is_bug:
            jobs.add_program(program, fixed=False)
        jobs.add_program(program, fixed=program.is_bug)
    real = {name: command for name, command in REAL.items() if only in name}
    for name, command in real.items():
        for how in ("plain", "guarded"):
            jobs.add(name, f"{name} {how}", ["bash", "-c", f"mkdir -p $DIR; {command}"], DIR=f"{WORK}/{name}-{how}".replace(" ", "-"),
                     **({"LD_PRELOAD": PRELOADED, "ZGUARD_OPTIONS": f"report_path={WORK}/{name.replace(' ', '-')}.jsonl"}
                        if how == "guarded" else {}))
    with tempfile.TemporaryDirectory(prefix="zguard-libc-") as work:
        directory = Path(work)
        (directory / "jobs").write_text(json.dumps(jobs.jobs))
        binds = {f"{ROOT}:ro": PRODUCT, directory: WORK}
        status, out, err = root.run(["ldd", "--version"], 60, binds)
        version = re.search(r"[\d.]+$", out.splitlines()[0] if out else "")
        checks.check(f"{suite}: glibc is {SUITES[suite]}", [] if version and version[0] == SUITES[suite] else [out + err])
        status, out, err = root.run(["python3", f"{PRODUCT}/Tests/Support/in_root.py", f"{WORK}/jobs", f"{WORK}/results"], ALL_SECONDS, binds)
        if status != 0:
            return checks.check(f"{suite}: the programs ran", [f"status {status}", (out + err)[-2000:]])
        results = json.loads((directory / "results").read_text())
        lacking = 0
        for program in programs:
            if re.search(LACKS.get(suite, "(?!)"), "".join(each["err"] for name, each in results.items() if name.startswith(f"{program.name} ")
                                                         and name.endswith("compiled"))):
                lacking += 1
                continue
            problems = check_bug(program, results, directory) if program.is_bug else []
            name = f"{program.name}{' fixed' * program.is_bug}"
            if results[f"{name} compiled"]["status"] != 0:
                problems.append(f"does not compile: {results[f'{name} compiled']['err'][-400:]}")
            else:
                report = f"{WORK}/{program.name.replace('/', '-').replace('.', '-')}{'-fixed' * program.is_bug}.jsonl"
                problems += check_same(name, results, directory, report, program.header.get("warning"))
            checks.check(f"{suite}: {program.name}", problems)
        for name in real:
            checks.check(f"{suite}: {name}", check_same(name, results, directory, f"{name.replace(' ', '-')}.jsonl"))
        if lacking:
            print(f"{lacking} programs call what glibc {SUITES[suite]} lacks")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="which of Debian's suites (default: all)")
    parser.add_argument("--filter", default="", metavar="SUBSTR", help="only programs whose name contains SUBSTR")
    arguments = parser.parse_args()
    if not os.access(LIBRARY, os.R_OK) or not TESTS.exists():
        parser.error(f"cannot read '{LIBRARY}'")
    checks = Checks()
    for suite in arguments.suites or SUITES:
        try:
            check_in(roots.make(suite, PACKAGES[suite]), suite, arguments.filter, checks)
        except roots.Unavailable as reason:
            print(f"skipped: programs with glibc {SUITES[suite]}: {reason}")
            checks.skipped += 1
        except Failed as failure:
            checks.check(suite, [str(failure)])
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
