#!/usr/bin/env python3
"""Tests `zguard symbols`: findings of stripped builds get names in directories, SQLite and PostgreSQL, and join the groups of their bugs.
Closing line: N passed, N failed.

Programs are built twice with moved lines, and stripped. Uploads are killed at random moments and repeated; lines are sent again before and
after; what was decided about a stripped build's group stays."""

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet import fleet  # noqa: E402
from Fleet.serve import Served  # noqa: E402
from Fleet.store_server import Postgres, finding, write_report  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import ZGUARD  # noqa: E402

# Two bugs: a use after free and a double free. LINES moves what is behind it.
C_SOURCE = """#include <stdlib.h>
#include <string.h>
#if MORE
int unrelated(int a) { return a * 3 + MORE; }
#endif
struct order { long items, price; };
static struct order *kept;
__attribute__((noinline)) static void drop(struct order *one) { free(one); __asm__ volatile(""); }
__attribute__((noinline)) long total(struct order *one) { long sum = one->items * one->price; __asm__ volatile(""); return sum; }
static inline long checked(struct order *one) { return total(one) + 1; }
__attribute__((noinline)) void cancel(struct order *one) { drop(one); drop(one); __asm__ volatile(""); }
int main(int count, char **words) {
    kept = malloc(sizeof *kept);
    memset(kept, 1, sizeof *kept);
    if (count > 1 && !strcmp(words[1], "twice")) { cancel(kept); return 0; }
    drop(kept);
    return (int)(checked(kept) & 1);
}
"""

CXX_SOURCE = """#include <cstring>
#include <string>
#include <vector>
#if MORE
template <typename T> T unrelated(T a) { return a; }
int used = unrelated(MORE);
#endif
namespace shop {
struct Item { long price; virtual long total() const { return price; } virtual ~Item() {} };
struct Cart { std::vector<Item *> items; long sum() const; };
__attribute__((noinline)) long Cart::sum() const { long all = 0; for (auto *item : items) all += item->total(); return all; }
__attribute__((noinline)) void clear(Cart &cart) { for (auto *item : cart.items) delete item; }
__attribute__((noinline)) void twice(char *text) { free(text); free(text); }
}
int main(int count, char **words) {
    shop::Cart cart;
    cart.items.push_back(new shop::Item{});
    if (count > 1 && !strcmp(words[1], "twice")) { shop::twice(strdup("a")); return 0; }
    shop::clear(cart);
    return (int)cart.sum();
}
"""

SWIFT_SOURCE = """MOREfinal class Cart {
    var total = 3
    @inline(never) func add(_ n: Int) { total += n }
}
@inline(never) func release(_ cart: Unmanaged<Cart>) { cart.release() }
@inline(never) func charge(_ cart: Unmanaged<Cart>) { cart._withUnsafeGuaranteedRef { $0.add(2) } }
@inline(never) func overflow(_ numbers: [Int], _ index: Int) -> Int { numbers[index] }
let cart = Unmanaged.passRetained(Cart())
if CommandLine.arguments.contains("twice") { print(overflow([1, 2], CommandLine.arguments.count + 5)) }
release(cart)
charge(cart)
"""

SOURCES = {"c": C_SOURCE, "cpp": CXX_SOURCE, "swift": SWIFT_SOURCE}
COMPILERS = {
    "gcc -O0": ("c", ["gcc", "-O0", "-g"]), "gcc -O2": ("c", ["gcc", "-O2", "-g"]), "clang++ -O1": ("cpp", ["clang++", "-O1", "-g"]),
    "g++ -O2": ("cpp", ["g++", "-O2", "-g"]), "swiftc -Onone": ("swift", ["swiftc", "-Onone", "-g"]),
}


class Work(fleet.Work):
    """`build` and `run_bug` keep what they have made, since every case runs in three stores."""

    def __init__(self, path):
        super().__init__(path)
        self.built = {}

    def build(self, compiler, more, *flags):
        """Returns the path of a program with symbols. `more` makes builds that differ."""
        key = (compiler, more, *flags)
        if key in self.built:
            return self.built[key]
        language, command = COMPILERS[compiler]
        folder = self.path / f"build{len(self.built)}"
        folder.mkdir()
        source, program = folder / f"shop.{language}", folder / "shop"
        text = SOURCES[language]
        if language == "swift":
            text = text.replace("MORE", f"let unrelated = {more}\nfunc unrelatedTwice() -> Int {{ unrelated * 2 }}\n\n" if more else "")
            extra = ["-Xlinker", "--build-id", "-module-name", "shop"]
        else:
            extra = [f"-DMORE={more}", "-Wl,--build-id"]
        source.write_text(text)
        made = subprocess.run([*command, *extra, *flags, str(source), "-o", str(program)], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[-1000:]
        self.built[key] = program
        return program

    def stripped(self, program):
        """Returns a stripped copy in a folder of its own: no symbols can be found beside it."""
        copy = self.path / f"deployed-{program.parent.name}" / program.name
        if not copy.exists():
            copy.parent.mkdir()
            shutil.copy(program, copy)
            subprocess.run(["strip", "--strip-all", str(copy)], check=True)
        return copy

    def reports(self, program, bugs=("", "twice"), times=1):
        """Runs bugs of a program; returns the folder with their reports."""
        folder = self.path / f"reports-{program.parent.name}-{time.monotonic_ns()}"
        for _ in range(times):
            for bug in bugs:
                self.run("run", "--report", f"{folder}/", "--quiet", "--collect", "crashes", "--", program, *([bug] if bug else []), status=None)
        return folder

    def store(self, place, reports, version=None, again=False):
        """Puts reports into a store."""
        if again:
            for path in reports.glob(".zguard-collect-*"):
                path.unlink()
        return self.collect(place, *(["--program-version", version] if version else []), source=reports)

    def symbols(self, *words, **how):
        return self.run("symbols", *words, **how)

    def upload(self, place, *files, **how):
        return self.symbols("upload", *files, "--to", place, **how)


def everywhere(case):
    def test(work):
        for place in work.places():
            case(work, place)
    return test


def build_id(program):
    notes = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


def api(work, place, path):
    with Served(work, place) as served:
        answer = served.get(path)
    assert " 200 " in answer[:20], answer[:300]
    return answer.split("\r\n\r\n", 1)[1]


def groups(work, place):
    """Returns the groups of the pages by signature: what the store itself says, without the names that a reader finds."""
    return {one["signature"]: one for one in json.loads(api(work, place, "/api/groups?limit=1000"))["groups"]}


def count_of(found):
    return sum(one["count"] for one in found.values())


def consistent(place, count):
    """Each finding is stored once, and all counts agree."""
    if place.startswith("sqlite:"):
        with sqlite3.connect(place[7:], timeout=60) as base:
            def query(text):
                return [list(map(str, row)) for row in base.execute(text)]
            check(query, count)
    elif "://" in place:
        check(fleet.server.query, count)


def check(query, count):
    rows = query("SELECT id, signature, occurrences FROM zguard_findings WHERE body <> ''")
    assert len({row[0] for row in rows}) == len(rows) == count, f"{len(rows)} rows of {count} findings"
    stored = {}
    for _, signature, _ in rows:
        stored[signature] = stored.get(signature, 0) + 1
    for table in ("zguard_days", "zguard_hosts", "zguard_totals"):
        counted = {row[0]: int(row[1]) for row in query(f"SELECT signature, sum(findings) FROM {table} GROUP BY signature")}
        assert counted == stored, (table, counted, stored)
    shown = {row[0] for row in query("SELECT signature FROM zguard_groups")}
    assert shown == set(stored), (shown, stored)


def one_bug_is_one_group(work, compiler, *flags, files=lambda work, program: [program]):
    """Two builds with symbols and a stripped one have the same groups, once the symbols of the stripped one have come."""
    first, second = work.build(compiler, 0, *flags), work.build(compiler, 7, *flags)
    named = work.reports(first)
    bare = work.reports(work.stripped(second))
    for place in work.places():
        work.store(place, named, "1.0")
        before = groups(work, place)
        assert len(before) == 2 and count_of(before) == 2, before
        work.store(place, bare, "1.1")
        apart = groups(work, place)
        assert len(apart) == 4 and set(before) < set(apart), (compiler, before, apart)
        old = sorted(set(apart) - set(before))
        said = work.upload(place, *files(work, second)).stdout
        assert "uploaded" in said, said
        joined = groups(work, place)
        assert set(joined) == set(before), (compiler, place, said, sorted(before), sorted(joined), old)
        assert {one["count"] for one in joined.values()} == {2}, joined
        # The old signatures lead to the groups.
        for signature in old:
            shown = json.loads(api(work, place, f"/api/groups/{signature}"))["group"]
            assert shown["signature"] in joined, shown
        for signature in joined:
            shown = json.loads(api(work, place, f"/api/groups/{signature}"))
            assert [one["name"] for one in shown["versions"]] == ["1.0", "1.1"], shown["versions"]
            lines = [json.loads(line) for line in api(work, place, f"/api/groups/{signature}/findings").splitlines()]
            named_frames = [[frame.get("function") for frame in line["stacks"]["access"] or line["stacks"]["free"]][:4] for line in lines]
            assert all(any(name for name in names) for names in named_frames), named_frames
            raw = [frame for line in lines for stack in line["stacks"].values() for frame in stack if frame.get("module", "").endswith("/shop")]
            assert raw and all({"pc", "module", "build_id", "offset"} <= set(frame) for frame in raw), raw[:2]
        assert not work.findings(place, "--new-since", "1.1"), work.findings(place, "--new-since", "1.1")
        # Nothing changes if lines are sent again, or the symbols.
        work.store(place, bare, "1.1", again=True)
        work.store(place, named, "1.0", again=True)
        work.upload(place, *files(work, second))
        work.symbols("apply", place)
        again = groups(work, place)
        assert {key: one["count"] for key, one in again.items()} == {key: one["count"] for key, one in joined.items()}, again
        consistent(place, 4)


def c_without_optimization(work):
    one_bug_is_one_group(work, "gcc -O0")


def c_with_optimization(work):
    one_bug_is_one_group(work, "gcc -O2")


def cxx(work):
    one_bug_is_one_group(work, "clang++ -O1")


def cxx_of_gcc(work):
    one_bug_is_one_group(work, "g++ -O2")


def swift(work):
    one_bug_is_one_group(work, "swiftc -Onone")


def debug_file(work, program):
    """A separate debug file, with any name."""
    path = program.parent / "v2.symbols"
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(path)], check=True)
    return [path]


def build_id_tree(work, program):
    """A tree as distributions have it, with other files in it."""
    root = work.path / f"tree-{program.parent.name}"
    name = build_id(program)
    place = root / "usr/lib/debug/.build-id" / name[:2]
    place.mkdir(parents=True, exist_ok=True)
    (root / "notes.txt").write_text("no ELF file\n")
    shutil.copy("/bin/true", root / "true")
    target = place / f"{name[2:]}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(target)], check=True)
    link = place / name[2:]
    if not link.is_symlink():
        link.symlink_to("../../../../../../true")
        link.unlink()
    return [root]


def separate_files(work):
    one_bug_is_one_group(work, "gcc -O2", files=debug_file)


def trees(work):
    one_bug_is_one_group(work, "gcc -O0", files=build_id_tree)


def compressed_sections(work):
    one_bug_is_one_group(work, "gcc -O2", "-gz=zlib")


FUNCTIONS = 500


def many_findings(work):
    """Findings of 500 bugs of a stripped program are named and regrouped."""
    source, program = work.path / "many.c", work.path / "many"
    source.write_text("".join(
        f"""__attribute__((noinline)) int use{one}(int a) {{ __asm__ volatile("nop"); return a + {one}; }}
__attribute__((noinline)) int caller{one}(int a) {{ a = use{one}(a) * 3; __asm__ volatile("" : "+r"(a)); return a; }}
""" for one in range(FUNCTIONS)) + "int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-O1", "-g", "-Wl,--build-id", str(source), "-o", str(program)], check=True)
    symbols = {line.split()[-1]: int(line.split()[0], 16)
               for line in subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
               if len(line.split()) == 3}
    identity = build_id(program)

    def frames(number, one):
        base = 0x550000000000 + number % 977 * 0x10000
        offsets = [symbols[f"use{one}"] + 1, symbols[f"caller{one}"] + 9, *(symbols[f"caller{(one * 7 + depth) % FUNCTIONS}"] + 9 for depth in range(8))]
        return [{"pc": hex(base + offset), "module": "/srv/shop/many", "build_id": identity, "offset": hex(offset)} for offset in offsets]

    now = int(time.time()) - 20 * 86400
    count = FINDINGS // 1000 * 1000 or FINDINGS
    number = 0
    for place in work.places():
        reports = work.path / f"many-{number}"
        for start in range(0, count, 1000):
            batch = []
            for each in range(start, min(start + 1000, count)):
                one = each % FUNCTIONS
                new = finding(each, one, pid=each, at=now + each * 10 % (10 * 86400), program="/srv/shop/many", signature=False,
                              origin={"host": f"host{each % 40}", "version": f"1.{each % 3}"})
                new["stacks"] = {"access": frames(each, one), "free": frames(each, (one + 1) % FUNCTIONS), "alloc": frames(each, (one + 2) % FUNCTIONS)}
                del new["block"]["class"], new["block"]["member"]
                batch.append(new)
            write_report(reports, start, batch)
        if Path(place).name != "kept":
            work.store(place, reports, "1.0")
        else:
            shutil.copytree(reports, place)
        before = groups(work, place)
        began = time.monotonic()
        said = work.upload(place, program, seconds=600).stdout
        took = time.monotonic() - began
        began = time.monotonic()
        after = groups(work, place)
        print(f"       {place.split(':')[0]}: {count} findings of {len(before)} groups in {took:.1f} s, pages after {time.monotonic() - began:.1f} s; {said.splitlines()[-1]}")
        assert len(before) == len(after) == FUNCTIONS and not set(before) & set(after), (len(before), len(after))
        assert count_of(after) == count
        assert all(" in use" in one["headline"] for one in after.values()), list(after.values())[:2]
        consistent(place, count)
        work.store(place, reports, "1.0", again=True) if Path(place).name != "kept" else None
        assert count_of(groups(work, place)) == count
        number += 1


TESTS = [("many findings", many_findings),
("C -O0", c_without_optimization), ("C -O2", c_with_optimization), ("C++ of clang", cxx), ("C++ of gcc", cxx_of_gcc),
         ("Swift", swift), ("separate debug files", separate_files), (".build-id trees", trees), ("compressed sections", compressed_sections)]


def main():
    global FINDINGS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    parser.add_argument("--findings", type=int, default=2000, help="findings that are regrouped at once (default 2000)")
    arguments = parser.parse_args()
    FINDINGS = arguments.findings
    fleet.server = Postgres()
    try:
        return run_tests(TESTS, "zguard-symbols-", arguments.only, Work)
    finally:
        fleet.server.close()


if __name__ == "__main__":
    sys.exit(main())
