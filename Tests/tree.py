#!/usr/bin/env python3
"""The built tree as users get it: documentation that says what the program says, an installation elsewhere, and the exit
codes and messages of wrong calls. Closing line: N passed, N failed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ZGUARD = ROOT / "build/bin/zguard"
SWIFT = ROOT / "Sources/ZombieGuard"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **options)


def options_document():
    said = run(ZGUARD, "options", "--markdown").stdout
    assert said.strip() and (ROOT / "docs/OPTIONS.md").read_text().endswith(said), "docs/OPTIONS.md is not what zguard says"


# -- the layers of Sources/ZombieGuard --------------------------------------------------------------------------------

DECLARED = re.compile(r"\b(?:struct|class|enum|actor|protocol|typealias|func|let|var|case)\s+`?([A-Za-z_]\w*)"
                      r"|\b([a-z]\w*)(?=\s*:|\s+in\b)")  # parameters, and what loops and closures call their elements
ATTRIBUTES = r"(?:@\w+(?:\([^)]*\))?\s+|\b(?:public|package|internal|final|indirect|static|mutating|nonisolated)\s+)*"
TOP_LEVEL = re.compile(rf"^{ATTRIBUTES}(?:struct|class|enum|actor|protocol|typealias|func|let|var)\s+(\w+)", re.M)
EXTENSION = re.compile(r"^extension\s+(\[?\w+)[^{]*\{\n(.*?)^\}", re.M | re.S)
MEMBER = re.compile(rf"^    {ATTRIBUTES}(?:struct|class|enum|func|let|var|typealias)\s+(\w+)", re.M)


def code_of(text):
    """Swift without comments and without the texts of its strings, whose interpolations stay."""
    result, strings, at = [], [], 0  # of the strings that are open: the quote and hash signs, and the depth of parentheses

    def is_in_text():
        return strings and strings[-1][2] is None

    while at < len(text):
        if is_in_text():
            quote, hashes, _ = strings[-1]
            if text.startswith(quote + hashes, at):
                strings.pop()
                at += len(quote + hashes)
            elif text.startswith("\\" + hashes + "(", at):
                strings[-1] = (quote, hashes, 0)
                at += len(hashes) + 2
                result.append(" ")
            else:
                at += 2 if not hashes and text[at] == "\\" else 1
        elif text.startswith("//", at):
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif opened := re.compile(r'(#*)("""|")').match(text, at):
            strings.append((opened[2], opened[1], None))
            at = opened.end()
            result.append(" ")
        else:
            if strings and text[at] in "()":
                quote, hashes, depth = strings[-1]
                depth += 1 if text[at] == "(" else -1
                strings[-1] = (quote, hashes, None if depth < 0 else depth)
                if depth < 0:
                    at += 1
                    continue
            result.append(text[at])
            at += 1
    return "".join(result)


def swift_layers():
    """The folders of ZombieGuard in the order in which ARCHITECTURE.md has them, the lowest first."""
    stated = re.search(r"^Layers of ZombieGuard.*?:\n`([^`]*)`", (ROOT / "ARCHITECTURE.md").read_text(), re.M | re.S)
    assert stated, "ARCHITECTURE.md does not say the layers of ZombieGuard"
    return re.split(r"\s*→\s*", stated[1])


def swift_folders_use_lower_ones_only():
    layers = swift_layers()
    folders = {path.parent.name for path in SWIFT.rglob("*.swift")}
    assert len(layers) == len(set(layers)) and set(layers) == folders, f"ARCHITECTURE.md and the folders: {set(layers) ^ folders}"
    files = {path: code_of(path.read_text()) for path in sorted(SWIFT.rglob("*.swift"))}
    # A name that this folder or a lower one declares, too, says nothing; what a folder adds to another's type is its own.
    places, types, members = {}, {}, {}
    for path, code in files.items():
        for name in map("".join, DECLARED.findall(code)):
            places.setdefault(name, set()).add(path.parent.name)
        types.update(dict.fromkeys((name for name in TOP_LEVEL.findall(code)), path))
    for path, code in files.items():
        for _, body in EXTENSION.findall(code):
            members.update(dict.fromkeys(MEMBER.findall(body), path))
    assert len(types) > 100 and len(members) > 50, "declarations were not recognised"
    upward = []
    for path, code in files.items():
        layer = layers.index(path.parent.name)
        words, dotted = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", code)), set(re.findall(r"\.([A-Za-z_]\w*)", code))
        for names, used in ((types, words), (members, words | dotted)):
            upward += [f"{path.relative_to(SWIFT)} uses {name} of {names[name].relative_to(SWIFT)}"
                       for name in sorted(names.keys() & used)
                       if min(layers.index(folder) for folder in places[name]) > layer]
    assert not upward, "lower folders use higher ones:\n       " + "\n       ".join(upward)


# -- the tree in use -----------------------------------------------------------------------------------------------------


def installed_elsewhere(work):
    prefix = work / "else.where"
    made = run(ROOT / "scripts/install", prefix)
    assert made.returncode == 0, made.stderr
    (work / "double.c").write_text("#include <stdlib.h>\nint main(void) { char *p = malloc(20); free(p); free(p); return 0; }\n")
    built = run("gcc", "-w", "-O0", "-g", "-o", work / "double", work / "double.c")
    assert built.returncode == 0, built.stderr
    result = run(prefix / "bin/zguard", "run", "--", work / "double", cwd="/")
    assert result.returncode == 134 and "==zguard== double-free: a freed block of 20 bytes" in result.stderr, result
    assert "double.c:2" in result.stderr, result.stderr


def wrong_calls(work):
    plain = work / "plain"
    plain.write_text("no program\n")
    script = work / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    (work / "static.c").write_text("int main(void) { return 0; }\n")
    built = run("gcc", "-static", "-o", work / "static", work / "static.c")
    assert built.returncode == 0, built.stderr
    setuid = work / "setuid"
    shutil.copy("/bin/true", setuid)
    os.chmod(setuid, 0o4755)
    foreign = work / "foreign"
    header = bytearray(Path("/bin/true").read_bytes())
    header[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    foreign.write_bytes(header)
    foreign.chmod(0o755)
    rows = [
        (64, ["run", "--profil", "guard", "--", "true"], "unknown option '--profil'"),
        (64, ["run", "-o", "quarantine_bytes=lots", "--", "true"], "quarantine_bytes"),
        (64, ["run", "-o", "on_finding=explode", "--", "true"], "abort or continue"),
        (64, ["run", "--report", "/nowhere/at/all", "--", "true"], "/nowhere/at/all"),
        (64, ["run"], "zguard: error:"),
        (64, ["rnu", "--", "true"], "run"),
        (127, ["run", "--", "/nowhere/program"], "/nowhere/program"),
        (126, ["run", "--", plain], "plain"),
        (126, ["run", "--", work], "zguard: error:"),
        (125, ["run", "--", work / "static"], "static"),
        (125, ["run", "--", setuid], "setuid"),
        (125, ["run", "--", foreign], "zguard: error:"),
        (1, ["stats", "999999999"], "zguard: error:"),
        (1, ["check", "999999999"], "zguard: error:"),
        (1, ["trim", str(os.getpid())], "not guarded"),
        (1, ["report", work / "missing"], "No such file or directory"),
    ]
    for status, arguments, words in rows:
        result = run(ZGUARD, *arguments)
        lines = result.stderr.splitlines()
        assert result.returncode == status, (arguments, result)
        assert words in result.stderr, (arguments, result.stderr)
        assert len(lines) <= 2 and lines[0].startswith("zguard: error: "), (arguments, result.stderr)
        assert not result.stdout, (arguments, result.stdout)


def streams_and_status(work):
    result = run(ZGUARD, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.stdout, result.returncode) == ("out\n", 7), result
    assert result.stderr.startswith("err\n==zguard== no findings"), result
    result = run(ZGUARD, "run", "--quiet", "--", "sh", "-c", "kill -TERM $$")
    assert (result.returncode, result.stderr) == (143, ""), result


def dead_processes_leave_nothing(work):
    before = set(os.listdir("/tmp")) | set(os.listdir("/dev/shm"))
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "LD_PRELOAD": str(ROOT / "build/lib/libzguard.so")})
    for _ in range(200):
        if str(child.pid) in run(ZGUARD, "stats", "--json").stdout:
            break
    else:
        raise AssertionError("zguard stats does not show a guarded process")
    child.kill()
    child.wait()
    assert str(child.pid) not in run(ZGUARD, "stats", "--json").stdout
    left = (set(os.listdir("/tmp")) | set(os.listdir("/dev/shm"))) - before
    assert not [name for name in left if str(child.pid) in name], left


def check_finds_a_late_write(work):
    (work / "late.c").write_text("""#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static char *make(void) { return malloc(100); }
int main(void) { char *p = make(); free(p); ((volatile char *)p)[40] = 1; write(1, "x", 1); sleep(60); return 0; }
""")
    built = run("gcc", "-w", "-O1", "-g", "-o", work / "late", work / "late.c")
    assert built.returncode == 0, built.stderr
    child = subprocess.Popen([work / "late"], stdout=subprocess.PIPE,
                             env={**os.environ, "LD_PRELOAD": str(ROOT / "build/lib/libzguard.so"),
                                  "ZGUARD_OPTIONS": "fence_per_context=0"})
    try:
        child.stdout.read(1)
        result = run(ZGUARD, "check", child.pid)
        assert result.returncode == 99 and "write-after-free" in result.stdout, result
        assert "at offset 40" in result.stdout and "make" in result.stdout, result.stdout
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def valgrind_stays_usable():
    """It loads a preloaded library like any other, and puts its own malloc in place of ours."""
    for tool in ("memcheck", "none"):
        result = run("valgrind", "-q", f"--tool={tool}", "--error-exitcode=9", "ls", "/",
                     env={**os.environ, "LD_PRELOAD": str(ROOT / "build/lib/libzguard.so"), "LC_ALL": "C"})
        assert (result.returncode, result.stdout) == (0, run("ls", "/").stdout), (tool, result)


def main():
    passed = failed = 0
    for test in (options_document, swift_folders_use_lower_ones_only, installed_elsewhere, wrong_calls, streams_and_status, dead_processes_leave_nothing,
                 check_finds_a_late_write, valgrind_stays_usable):
        with tempfile.TemporaryDirectory(prefix="zguard-tree-") as work:
            try:
                test(Path(work)) if test.__code__.co_argcount else test()
                passed += 1
                print(f"pass   {test.__name__}")
            except (AssertionError, OSError, subprocess.SubprocessError) as fault:
                failed += 1
                print(f"FAIL   {test.__name__}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
