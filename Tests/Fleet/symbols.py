#!/usr/bin/env python3
"""Tests `zguard symbols`: findings of stripped builds get names in directories, SQLite and PostgreSQL, and join the groups of their bugs.
Closing line: N passed, N failed.

Programs are built twice with moved lines, and stripped. Uploads are killed at random moments and repeated; findings are sent again before
and after uploads; decisions about a stripped build's group are kept."""

import argparse
import json
import os
import pwd
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
from Fleet.store_server import finding, write_report  # noqa: E402
from Support.environment import ZGUARD  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

# A program with two bugs, a use after free and a double free. With MORE, a further function moves their code.
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
    """`build` caches programs, since every case runs in three stores."""

    number = 0

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


def groups(work, place, state="all"):
    """Returns the groups by signature from the server's API: as stored, without names that a reader looks up."""
    return {one["signature"]: one for one in json.loads(api(work, place, f"/api/groups?limit=1000&state={state}"))["groups"]}


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
    rows = query("SELECT id, signature, occurrences FROM zguard_findings WHERE occurrences > 0")
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
    """A build with symbols and a stripped one have the same groups once the symbols of the stripped one are uploaded."""
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
        # If a group was joined to another group, the old signature of the first still finds the joined group.
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
        # Sending findings or symbols again changes nothing.
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
    # A stripped file still has the names of exported functions, but no source lines and no inlined calls.
    one_bug_is_one_group(work, "gcc -O2", "-rdynamic")


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
    """A tree of debug files as distributions install it, with other files in it."""
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


@everywhere
def what_was_decided(work, place):
    """Decisions about a stripped build's groups hold for the named groups that replace them. Later findings are named as well."""
    program = work.build("gcc -O2", 3)
    bare = work.reports(work.stripped(program))
    work.store(place, bare, "1.0")
    first, second = sorted(groups(work, place))
    work.run("triage", place, "resolve", first, "--in", "1.1", "--author", "anna")
    work.run("triage", place, "mute", second, "--author", "bob", "--comment", "known since May")
    work.upload(place, program)
    named = groups(work, place, "all")
    assert len(named) == 2 and not {first, second} & set(named), named
    assert sorted(one["state"] for one in named.values()) == ["muted", "resolved"], named
    shown = work.run("triage", place, "show", second).stdout
    assert "bob muted it: known since May" in shown and shown.split()[0] in named, shown
    # A later version, still stripped, has both bugs; the resolved one is a regression. Readers see that before `symbols apply`.
    work.store(place, work.reports(work.stripped(program)), "1.1")
    states = {one["state"] for one in groups(work, place, "all").values()}
    assert states == {"muted", "regression"}, states
    assert set(work.findings(place)) == set(named), (work.findings(place), named)
    assert not work.findings(place, "--new-since", "1.1")
    assert set(work.findings(place, "--state", "regression")) == {key for key, one in named.items() if one["state"] == "resolved"}
    work.symbols("apply", place)
    after = groups(work, place, "all")
    assert set(after) == set(named) and {one["count"] for one in after.values()} == {2}, after
    assert {one["state"] for one in after.values()} == {"muted", "regression"}, after
    consistent(place, 4)
    assert not work.findings(place, "--new-since", "1.1")
    words = json.loads(api(work, place, "/api/groups?q=cancel&state=all"))["groups"]
    assert len(words) == 1 and words[0]["kind"] == "double-free", words


def alert_rules(work, *lines):
    path = work.path / "rules"
    path.write_text("\n".join(["way team command /bin/true", *lines]) + "\n")
    return path


def raw_findings(program, offsets, version, number, pid):
    """Findings whose only module is a library in /usr/lib, with `program`'s build id, as a machine without any symbols writes them."""
    new = []
    for offset in offsets:
        one = finding(number + len(new), 0, pid=pid + len(new), at=int(time.time()) - 3600, program="/usr/bin/shop", signature=False,
                      origin={"host": "a", "version": version})
        frame = {"pc": hex(0x7f0000000000 + offset), "module": "/usr/lib/libshop.so.1", "build_id": build_id(program), "offset": hex(offset)}
        one["stacks"] = {stack: [frame] for stack in ("access", "free", "alloc")}
        del one["block"]["class"], one["block"]["member"]
        new.append(one)
    return new


@everywhere
def several_bugs_of_one_signature(work, place):
    """Bugs that shared a signature, because only the name of a system library was known, get groups and counts of their own."""
    program = work.build("gcc -O2", 5)
    places = {line.split()[-1]: int(line.split()[0], 16) for line in
              subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout.splitlines() if len(line.split()) == 3}
    total, cancel = places["total"] + 1, places["cancel"] + 1
    old = write_report(work.path / f"old-{work.number}", 1, raw_findings(program, [total, total, cancel], "1.0", 10, 100)).parent
    new = write_report(work.path / f"new-{work.number}", 2, raw_findings(program, [cancel, places["drop"] + 1], "1.1", 20, 200)).parent
    work.number += 1
    for reports in (old, new):
        if Path(place).name == "kept":
            shutil.copytree(reports, place, dirs_exist_ok=True)
        else:
            work.store(place, reports)
    before = groups(work, place)
    assert len(before) == 1 and count_of(before) == 5, before
    one = next(iter(before))
    rules = alert_rules(work, "alert new to team")
    work.run("alerts", place, "--rules", rules)
    work.run("triage", place, "mute", one)
    said = work.upload(place, program).stdout
    after = groups(work, place, "all")
    assert sorted(group["count"] for group in after.values()) == [1, 2, 2] and one not in after, after
    if Path(place).name != "kept":
        assert f"{one} was several bugs: " in said, said
    fresh = work.findings(place, "--new-since", "1.1")
    assert len(fresh) == 1 and all("drop" in item["stacks"]["access"][0]["function"] for item in fresh.values()), fresh
    # It is unknown which bug the decision was meant for, and which bug the alert had reported. So all bugs are open, and each gives an
    # alert.
    assert {group["state"] for group in after.values()} == {"open"}, after
    assert [work.run("alerts", place, "--rules", rules).stdout.count("sent: team: new bug") for _ in range(2)] == [3, 0]
    if Path(place).name != "kept":
        work.store(place, old, again=True)
        work.store(place, new, again=True)
        assert {key: group["count"] for key, group in groups(work, place, "all").items()} == {key: group["count"] for key, group in after.items()}
        consistent(place, 5)


@everywhere
def only_its_own_build(work, place):
    """Symbols of another build name nothing, and uploads of the wrong kind are refused with a reason."""
    program, other = work.build("gcc -O2", 3), work.build("gcc -O2", 4)
    bare = work.stripped(program)
    work.store(place, work.reports(bare), "1.0")
    before = groups(work, place)
    work.upload(place, other)
    assert set(groups(work, place)) == set(before)
    damaged = work.path / "damaged"
    text, rest = work.path / "text", work.path / "rest"
    damaged.write_bytes(program.read_bytes()[:-400])
    text.write_text("no program\n" * 20)
    nameless = work.path / "nameless"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", str(program), str(nameless)], check=True)
    rest.write_bytes(b"\x7fELF" + os.urandom(5000))
    tree = work.path / "wrong/.build-id/ab"
    tree.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, tree / "cdef.debug")
    empty = work.path / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "notes").write_text("nothing")
    for path, words in ((damaged, "damaged or cut off"), (text, "not a 64-bit little-endian ELF file"), (nameless, "no build-id"),
                        (bare, "neither a symbol table nor debug information"), (rest, "ELF file"), (tree.parents[1], "and its name says abcdef"),
                        (empty, "no file with a build-id and symbols"), (work.path / "missing", "No such file")):
        said = work.upload(place, path, status=1)
        assert words in said.stderr, (path, said)
    assert set(groups(work, place)) == set(before)
    listed = [json.loads(line) for line in work.symbols("list", place, "--format", "json").stdout.splitlines()]
    assert [one["build_id"] for one in listed] == [build_id(other)] and listed[0]["name"] == "shop" and listed[0]["size"] == other.stat().st_size, listed
    # One wrong file does not keep the others from being uploaded.
    said = work.upload(place, text, program, status=1)
    assert "not a 64-bit" in said.stderr and not set(groups(work, place)) & set(before), said
    assert "removed" in work.symbols("remove", place, build_id(other)).stdout
    assert build_id(other) not in work.symbols("list", place).stdout
    work.symbols("remove", place, build_id(other), status=1)
    for words, text in ((("uplaod", "x"), "did you mean 'upload'?"), (("upload", str(program)), "needs '--to'"), (("list",), "needs a store"),
                        (("remove", place), "needs a build-id"), (("list", place, "more"), "unexpected operand"),
                        (("upload", str(program), "--to", "otlp+https://example.com"), "keeps no symbols")):
        assert text in work.symbols(*words, status=64).stderr, words


@everywhere
def from_elsewhere(work, place):
    """`apply --symbols DIR` names findings of builds whose symbols are in DIR."""
    program = work.build("gcc -O2", 3)
    work.store(place, work.reports(work.stripped(program)), "1.0")
    before = groups(work, place)
    work.symbols("apply", place)
    assert set(groups(work, place)) == set(before)
    rules = alert_rules(work, "alert new to team", "alert rate over 0 per day to team")
    assert work.run("alerts", place, "--rules", rules).stdout.count("sent: ") == 2
    said = work.symbols("apply", place, "--symbols", program.parent).stdout
    after = groups(work, place)
    assert len(after) == 2 and not set(after) & set(before), (said, after)
    # No alert comes again.
    assert "nothing to send" in work.run("alerts", place, "--rules", rules).stdout
    consistent(place, 2)


@everywhere
def tenants(work, place):
    """The symbols of one tenant name no finding of another."""
    program = work.build("gcc -O2", 3)
    reports = work.reports(work.stripped(program))
    for tenant in ("red", "blue"):
        for path in reports.glob(".zguard-collect-*"):
            path.unlink()
        work.collect(place, "--tenant", tenant, source=reports)
    def of(tenant):
        return set(json.loads(api(work, place, f"/api/groups?tenant={tenant}"))["groups"][at]["signature"] for at in (0, 1))
    if Path(place).name == "kept":
        return
    red, blue = of("red"), of("blue")
    assert red == blue
    work.upload(place, program, "--tenant", "red")
    assert of("blue") == blue and not of("red") & red
    assert not work.symbols("list", place).stdout.count(build_id(program))
    assert work.symbols("list", place, "--tenant", "red").stdout.count(build_id(program)) == 1
    assert all("function" not in one["stacks"]["access"][0] or "shop" not in one["stacks"]["access"][0].get("file", "")
               for one in work.findings(place, "--tenant", "blue").values())


def killed_uploads(work):
    """Uploads are killed at random moments while shippers run. Repeating an upload completes it."""
    seed = random.randrange(1 << 30)
    print(f"       seed {seed}")
    chance = random.Random(seed)
    program, other = work.build("gcc -O2", 3), work.build("gcc -O0", 3)
    # Make the files large enough for several parts and batches.
    for path in (program, other):
        big = path.parent / "big"
        big.write_bytes(random.Random(5).randbytes(3_000_000))
        subprocess.run(["objcopy", "--add-section", f".debug_more={big}", str(path)], check=True, capture_output=True)
        big.unlink()
    reports = work.reports(work.stripped(program), times=10)
    more = work.reports(work.stripped(other), times=10)
    for place in work.places():
        work.store(place, reports, "1.0")
        before = groups(work, place)
        began = time.monotonic()
        ended = killed = 0
        usual = 0.4
        for number in range(KILLS):
            process = subprocess.Popen([str(ZGUARD), "symbols", "upload", str(program), str(other), "--to", place], env=work.environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            shipper = None
            if number == KILLS // 2:
                shipper = subprocess.Popen([str(ZGUARD), "collect", "--from", str(more), "--to", place, "--program-version", "1.1"],
                                           env=work.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                _, errors = process.communicate(timeout=chance.uniform(0, usual))
                assert process.returncode == 0, errors[-600:]
                ended += 1
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
            if shipper:
                _, errors = shipper.communicate(timeout=120)
                assert shipper.returncode == 0, errors[-600:]
            usual = usual * 1.3 if ended * 3 < killed else usual
        print(f"       {place.split(':')[0]}: {killed} killed, {ended} ended, in {time.monotonic() - began:.0f} s")
        consistent(place, 40)
        work.upload(place, program, other)
        work.store(place, reports, "1.0", again=True)
        after = groups(work, place)
        assert not set(after) & set(before) and count_of(after) == 40, after
        consistent(place, 40)
        listed = work.symbols("list", place, "--format", "json").stdout.splitlines()
        assert {json.loads(line)["size"] for line in listed} == {path.stat().st_size for path in (program, other)}, listed
        if Path(place).is_dir():
            left = [path.name for path in (Path(place) / ".zguard-symbols").iterdir()]
            assert len(left) <= 3, left


def another_user(work):
    """Symbols that root uploads into another user's directory belong to that user. A symbolic link in their place is not followed."""
    if os.geteuid() != 0:
        return
    account = pwd.getpwnam("nobody")
    program = work.build("gcc -O2", 3)
    place = work.path / "theirs"
    work.store(str(place), work.reports(work.stripped(program)), "1.0")
    work.path.chmod(0o711)
    for path in (place, *place.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)
    work.upload(place, program)
    kept = place / ".zguard-symbols"
    assert {path.stat().st_uid for path in (kept, *kept.iterdir())} == {account.pw_uid}
    assert not any(path.stat().st_mode & 0o077 for path in (kept, *kept.iterdir())), [oct(path.stat().st_mode) for path in kept.iterdir()]
    for words in (["report", str(place), "--format", "json"], ["symbols", "list", str(place)], ["symbols", "upload", str(place), "--to", str(place)]):
        said = subprocess.run([str(ZGUARD), *words], capture_output=True, text=True, env=work.environment, stdin=subprocess.DEVNULL, cwd="/",
                              user=account.pw_uid, group=account.pw_gid, extra_groups=[])
        assert said.returncode == 0, said
        assert words[0] != "report" or "cancel" in said.stdout, said.stdout[:500]
    for path in kept.iterdir():
        path.unlink()
        path.symlink_to(program)
    assert "cancel" not in work.run("report", place, "--format", "json").stdout
    shutil.rmtree(kept)
    kept.symlink_to(program.parent)
    work.upload(place, program, status=1)
    assert "cancel" not in work.run("report", place, "--format", "json").stdout


def before_the_first_finding(work):
    """Symbols may be uploaded before any finding. `symbols apply` names a finding that arrives later."""
    program = work.build("gcc -O2", 3)
    reports = work.reports(work.stripped(program))
    for place in work.places():
        work.upload(place, program)
        work.store(place, reports, "1.0")
        said = work.run("report", place).stdout
        assert "cancel" in said and "total" in said, said
        work.symbols("apply", place)
        found = json.loads(api(work, place, "/api/groups?q=cancel"))["groups"]
        assert len(found) == 1, found
        consistent(place, 2)


def large_files(work):
    """A debug file of 300 MB is uploaded and used in bounded memory."""
    program = work.build("gcc -O2", 6)
    noise = program.parent / "noise"
    with open(noise, "wb") as file:
        for number in range(MEGABYTES):
            file.write((b"%08d" % number) * 100_000 + os.urandom(200_000))
    large = program.parent / "large"
    subprocess.run(["objcopy", "--add-section", f".debug_more={noise}", str(program), str(large)], check=True, capture_output=True)
    noise.unlink()
    reports = work.reports(work.stripped(program))
    for place in work.places():
        work.store(place, reports, "1.0")
        began = time.monotonic()
        process = subprocess.Popen([str(ZGUARD), "symbols", "upload", str(large), "--to", place], env=work.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        print(f"       {place.split(':')[0]}: {large.stat().st_size >> 20} MiB in {time.monotonic() - began:.1f} s, {usage.ru_maxrss >> 10} MiB of memory")
        assert status == 0 and usage.ru_maxrss < 150_000, (status, usage.ru_maxrss)
        assert len(json.loads(api(work, place, "/api/groups?q=cancel"))["groups"]) == 1


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


TESTS = [("C -O0", c_without_optimization), ("C -O2", c_with_optimization), ("C++ of clang", cxx), ("C++ of gcc", cxx_of_gcc),
         ("Swift", swift), ("separate debug files", separate_files), (".build-id trees", trees), ("compressed sections", compressed_sections),
         ("what was decided", what_was_decided), ("several bugs of one signature", several_bugs_of_one_signature),
         ("only its own build", only_its_own_build), ("from elsewhere", from_elsewhere), ("tenants", tenants),
         ("before the first finding", before_the_first_finding), ("another user", another_user), ("killed uploads", killed_uploads),
         ("large files", large_files), ("many findings", many_findings)]


def main():
    global FINDINGS, KILLS, MEGABYTES
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    parser.add_argument("--findings", type=int, default=2000, help="findings that are regrouped at once (default 2000)")
    parser.add_argument("--kills", type=int, default=12, help="uploads for each store, of which most are killed (default 12)")
    parser.add_argument("--megabytes", type=int, default=40, help="size of a large debug file (default 40)")
    add_slice_option(parser)
    arguments = parser.parse_args()
    FINDINGS, KILLS, MEGABYTES = arguments.findings, arguments.kills, arguments.megabytes
    return fleet.run_with_server(TESTS, "zguard-symbols-", arguments.only, Work, arguments.slice)


if __name__ == "__main__":
    sys.exit(main())
