#!/usr/bin/env python3
"""Tests the built tree as users get it.
The documentation agrees with the program, an installation elsewhere works, and wrong calls have the right exit codes and messages. Closing
line: N passed, N failed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support.environment import ROOT  # noqa: E402

ZGUARD = ROOT / "build/bin/zguard"
SWIFT = ROOT / "Sources/ZombieGuard"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **options)


def options_document():
    said = run(ZGUARD, "options", "--markdown").stdout
    assert said.strip() and (ROOT / "docs/OPTIONS.md").read_text().endswith(said), "docs/OPTIONS.md is not what zguard says"


# -- lists that exist in several places ----------------------------------------------------------------------------------

def rows(path, macro):
    """Returns the first two columns of an X-macro table of the runtime: identifier, and its text if there is one."""
    text = (ROOT / "Sources" / path).read_text()
    body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*)", text)
    assert body, f"{path} has no table {macro}"
    found = re.findall(r'\bX\((\w+)(?:,\s*(?:\\\n\s*)?"([^"]*)")?', body[1])
    assert found, f"{path}: {macro} has no rows"
    return found


def texts(path, macro):
    return [text for _, text in rows(path, macro)]


def sources(*patterns):
    """Returns path and text of the project's files that match."""
    found = [(path.relative_to(ROOT), path.read_text()) for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    assert found, patterns
    return found


def commands_in(text):
    """Returns the zguard calls in the code of a document: (command, rest of the line)."""
    code = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    code += re.findall(r"`([^`\n]+)`", re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S))
    return re.findall(r"^\s*(?:\$ )?(?:\S+=\S+ )*(?:sudo )?(?:\S*/)?zguard ([a-z]+)((?: [^\n#;&|]*)?)", "\n".join(code), re.M)


def documents_name_what_exists():
    """Commands, flags and options in documents, examples and debugger scripts exist in zguard."""
    overview = run(ZGUARD, "help").stdout
    flags = {name: set(re.findall(r"^  (-[-\w]+)", run(ZGUARD, name, "--help").stdout, re.M))
             for name in re.findall(r"^  ([a-z]+)", overview, re.M)}
    assert "run" in flags and "--profile" in flags["run"], overview
    options = {option["name"]: option for option in json.loads(run(ZGUARD, "options", "--json").stdout)}
    aliases = re.findall(r"\bX\((fence_\w+), (\w+)\)", (ROOT / "Sources/CZombie/include/zg_options.h").read_text())
    assert aliases and not {alias for alias, _ in aliases} & options.keys() and {name for _, name in aliases} <= options.keys(), aliases
    former = {alias: options[name] for alias, name in aliases}
    problems, seen = [], 0
    for path, text in sources("*.md", "docs/**/*.md", "Sources/*/*.md", "Sources/*/*.docc/*.md", "Examples/**/*.md"):
        for command, rest in commands_in(text):
            seen += 1
            if command not in flags:
                problems.append(f"{path}: zguard {command}")
                continue
            own = rest.split(" -- ")[0]
            problems += [f"{path}: zguard {command} {flag}" for flag in re.findall(r"(?<=[ \[])--?[a-z][-a-z]*", own)
                         if flag not in flags[command] | {"--help"}]
            problems += [f"{path}: profile {name}" for name in re.findall(r"--profile[ =]([a-z]+)", own)
                         if name not in options["profile"]["choices"]]
        given = re.findall(r'(?:-o |ZGUARD_OPTIONS="?|`)((?:[a-z_]+=[\w%|.]+:?)+)', text)
        for name, value in (pair.split("=", 1) for pairs in given for pair in pairs.strip(":").split(":")):
            if path.name == "CHANGELOG.md" and name in former:
                assert set(value.split("|")) <= set(former[name].get("choices", [value])), f"{path}: {name}={value}"
            elif name not in options:
                problems += [f"{path}: option {name}"] if "_" in name else []
            elif (choices := options[name].get("choices")) and not set(value.split("|")) <= set(choices):
                problems.append(f"{path}: {name}={value}")
            seen += name in options
    assert seen > 30, f"only {seen} commands and options were recognised"
    for path, text in sources("Debuggers/*.py"):
        called = re.search(r'\[zguard, "(\w+)"', text)
        assert called and called[1] in flags, f"{path} calls no command of zguard"
        problems += [f"{path}: zguard {called[1]} {flag}" for flag in re.findall(r'\["(--\w+)", "\w+"\]', text)
                     if flag not in flags[called[1]]]
        for message in re.findall(r'^PERMISSION = "(.*)"', text, re.M):
            if not any(message in swift for _, swift in sources("Sources/ZombieGuard/**/*.swift")):
                problems.append(f"{path}: zguard never says '{message}'")
    assert not problems, "there is no\n       " + "\n       ".join(problems)


def completions_are_complete():
    options = [option for option in json.loads(run(ZGUARD, "options", "--json").stdout) if option["shown"]]
    words = set(re.findall(r"^  ([a-z]+)", run(ZGUARD, "help").stdout, re.M))
    words |= {option["name"] for option in options} | {choice for option in options for choice in option.get("choices", [])}
    assert len(words) > 40, words
    for shell in ("bash", "zsh", "fish"):
        script = run(ZGUARD, "completions", shell).stdout
        missing = sorted(word for word in words if not re.search(rf"\b{word}\b", script))
        assert not missing, f"{shell}: {missing}"


def kinds_stand_everywhere():
    kinds = set(texts("CZombie/include/zg_finding_kinds.h", "ZG_FINDING_KINDS"))
    # zguard, not the library, detects stalls, deadlocks and leaks; their programs are in Tests/Stalls and Tests/Graph.
    folders = {path.name for path in (ROOT / "Tests/Bugs").iterdir() if path.is_dir()} | {"stall", "deadlock", "leak", "retain-cycle"}
    assert folders == kinds, f"Tests/Bugs and the table of kinds: {folders ^ kinds}"
    for path, text in sources("Fuzz/dictionaries/*.dict"):
        named = set(re.findall(r'^"([a-z]+(?:-[a-z]+)+|exclusivity|crash|stall|deadlock|leak)"$', text, re.M))
        assert not named or named == kinds, f"{path}: {named ^ kinds}"


def details_are_described():
    """The schema describes all detail names that the runtime writes, and those that Swift reads and adds."""
    described = set(json.loads((ROOT / "docs/finding.schema.json").read_text())["$defs"]["detail"]["properties"])
    written = {name for _, text in sources("Sources/CZombie/*/*.c")
               for name in re.findall(r'zg_finding_detail_(?:text|number)\(&?\w+, "(\w+)"', text)}
    swift = sources("Sources/ZombieGuard/**/*.swift", "Sources/ZombieGuardGraph/*.swift", "Sources/ZombieGuardStalls/*.swift",
                    "Sources/ZombieGuardTesting/*.swift", "Sources/zguard/*.swift")
    read = {name for _, text in swift for name in re.findall(r'\bdetail\["(\w+)"\]', text)}
    assert written and read <= described, f"Swift reads what the schema does not have: {read - described}"
    written |= {name for _, text in swift for name in re.findall(r'\bdetail\["(\w+)"\] = ', text)}
    assert written == described, f"the runtime's details and the schema's: {written ^ described}"


def statistics_have_these_names():
    page = "CZombie/include/zg_stats_page.h"
    counters, degradations = ({name for name, _ in rows(page, macro)} for macro in ("ZG_COUNTERS", "ZG_DEGRADATIONS"))
    problems, seen = [], 0
    for path, text in sources("Sources/ZombieGuard/**/*.swift", "Sources/zguard/*.swift", "Sources/ZombieGuardTesting/*.swift"):
        for used, names, what in (
                (re.findall(r'\bstatistics\["(\w+)"\]', text), counters, "counter"),
                (re.findall(r'degradations\.contains \{ \$0\.name == "(\w+)"', text), degradations, "degradation")):
            seen += len(used)
            problems += [f"{path}: {what} {name}" for name in used if name not in names]
    assert seen > 15, f"only {seen} names were recognised"
    assert not problems, "the page has no\n       " + "\n       ".join(problems)


def system_calls_are_named():
    made = {name for _, text in sources("Sources/CZombie/*/*.[ch]") for name in re.findall(r"\bSYS_(\w+)", text)}
    rows = re.findall(r"^\| .*", (ROOT / "docs/SYSTEM-CALLS.md").read_text(), re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}
    made.add("rt_sigaction")  # libc's sigaction makes this system call
    assert named == made, f"docs/SYSTEM-CALLS.md and the calls of the runtime: {sorted(named ^ made)}"


# -- pages ------------------------------------------------------------------------------------------------------------

PAGE_BYTES = 4096
PAGES = ["ARCHITECTURE.md", "Sources/CZombie/README.md"] + [f"docs/architecture/{name}.md" for name in (
    "life-of-a-block", "entry-threads-locks", "quarantine-and-isolated-pages", "from-fault-to-finding", "swift-and-cxx-objects",
    "way-of-a-report", "fork-signals-filters", "graph-of-a-heap", "heap-in-tests", "how-to-add")]
FOLDERS = ("", "Sources", "Sources/CZombie", "Sources/CZombie/include", "Sources/CZombie/*", "Sources/ZombieGuard", "Sources/ZombieGuard/*",
           "Sources/CZombiePublish/include", "docs", "docs/design", "Fuzz/dictionaries")
FILE = re.compile(r"(?:[A-Za-z][\w.-]*/)+[\w.-]*|[\w-]+\.(?:c|h|cpp|swift|md|py|json|dict)")


def named_places(text):
    """Files and folders in backticks, each once: relative paths, and names with a suffix of the project's files."""
    quoted = {word.strip() for word in re.findall(r"`([^`\n]+)`", text)}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} | {path.name for path in (ROOT / "Sources/CZombie").iterdir()}
    return {word for word in quoted if FILE.fullmatch(word) or word in folders or word.split("/")[0] in folders and " " not in word}


def exists(place):
    """Whether a place exists below the root or a folder that the pages describe. Words in capitals or angle brackets stand for any name."""
    if re.search(r"\b[A-Z]{4,}(?=Report|\b)", place) and place.split("/")[-1] not in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        place = place.rsplit("/", 1)[0]
    place = re.sub(r"<\w+>", "*", place)
    return any(list(ROOT.glob(f"{folder}/{place}".strip("/"))) for folder in FOLDERS)


def anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    """Relative links of a page to files or headings that do not exist."""
    problems = []
    for target in re.findall(r"\]\(([^):]+)\)", re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.M | re.S)):
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        if not file.exists() or anchor and anchor not in anchors(file):
            problems.append(f"{page} links to {target}, which does not exist")
    return problems


def architecture_pages():
    """docs/architecture has exactly the pages in PAGES. Each has at most PAGE_BYTES, and the places that it names and links to exist."""
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "docs/architecture").rglob("*") if path.is_file()}
    assert found == {page for page in PAGES if page.startswith("docs/architecture/")}, f"pages: {sorted(found ^ set(PAGES[2:]))}"
    problems, seen = [], 0
    for page in PAGES:
        text = (ROOT / page).read_text()
        if (size := len(text.encode())) > PAGE_BYTES:
            problems.append(f"{page} has {size} bytes, over {PAGE_BYTES}")
        places = named_places(text)
        seen += len(places)
        problems += [f"{page} names {place}, which does not exist" for place in sorted(places) if not exists(place)]
        problems += broken_links(page)
    overview = (ROOT / PAGES[0]).read_text()
    problems += [f"{PAGES[0]} does not link to {page}" for page in PAGES[1:] if f"]({page})" not in overview]
    assert seen > 100, f"only {seen} files and folders were recognised"
    assert not problems, "\n       ".join(problems)


README_LINES, README_BYTES, DOCUMENT_BYTES = 90, 5120, 10240
# Documents that may be long, because they contain a generated table.
GENERATED = {"OPTIONS.md", "COMPATIBILITY.md", "COMPATIBILITY-PROGRAMS.md"}
# Folders whose files the users' documents name. Other paths in the documents belong to installed files or other projects.
OURS = ("Benchmarks", "Debuggers", "Examples", "Fuzz", "Plugins", "Services", "Sources", "Tests", "docs", "scripts")


def user_documents():
    """README.md is one screen. Each page of docs has a question as its title, is short and listed. Files that a document names or links to
    exist."""
    readme = (ROOT / "README.md").read_text()
    lines, size = readme.count("\n"), len(readme.encode())
    problems = []
    if lines > README_LINES or size > README_BYTES:
        problems.append(f"README.md has {lines} lines and {size} bytes, over {README_LINES} and {README_BYTES}")
    listed = dict(re.findall(r"^- \[(.*)\]\(([^)]+)\)$", (ROOT / "docs/README.md").read_text(), re.M))
    listed = {page: question for question, page in listed.items()}
    pages = sorted((ROOT / "docs").glob("*.md"))
    if (names := {page.name for page in pages} - {"README.md"}) != set(listed):
        problems.append(f"docs/README.md and the pages: {sorted(names ^ set(listed))}")
    for page in pages:
        title, first = page.read_text().split("\n\n")[:2]
        if page.name not in GENERATED and (size := page.stat().st_size) > DOCUMENT_BYTES:
            problems.append(f"docs/{page.name} has {size} bytes, over {DOCUMENT_BYTES}")
        if page.name == "OPTIONS.md":
            continue
        if not re.fullmatch(r"# .+\?", title) or not first.startswith("For "):
            problems.append(f"docs/{page.name} does not begin with its question and for whom it is")
        if listed.get(page.name, title[2:]) != title[2:]:
            problems.append(f"docs/README.md says '{listed[page.name]}' of docs/{page.name}")
    seen = 0
    for document in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in pages)]:
        places = {place for place in named_places((ROOT / document).read_text()) if place.split("/")[0] in OURS}
        seen += len(places)
        problems += [f"{document} names {place}, which does not exist" for place in sorted(places) if not exists(place.split()[0])]
        problems += broken_links(document)
    assert seen > 30, f"only {seen} files and folders were recognised"
    assert not problems, "\n       ".join(problems)


def design_records():
    """Each record in docs/design has question, figures and answer, and the records are numbered without a gap."""
    records = sorted((ROOT / "docs/design").iterdir())
    numbers = [int(record.name.split("-")[0]) for record in records]
    assert numbers == list(range(1, len(records) + 1)), f"docs/design: {numbers}"
    problems = [f"{record.name} lacks '{part}'" for record in records for part in ("## Question", "## Figures", "## Answer")
                if part not in record.read_text().splitlines()]
    problems += [f"{record.name} has {record.stat().st_size} bytes" for record in records if record.stat().st_size > PAGE_BYTES]
    problems += [f"{record.name} does not begin with its number" for record in records
                 if not record.read_text().startswith(f"# {record.name[:3]} ")]
    assert not problems, "\n       ".join(problems)


# -- the layers of Sources/ZombieGuard --------------------------------------------------------------------------------

DECLARED = re.compile(r"\b(?:struct|class|enum|actor|protocol|typealias|func|let|var|case)\s+`?([A-Za-z_]\w*)"
                      r"|\b([a-z]\w*)(?=\s*:|\s+in\b)")  # parameters, and the element names of loops and closures
ATTRIBUTES = r"(?:@\w+(?:\([^)]*\))?\s+|\b(?:public|package|internal|final|indirect|static|mutating|nonisolated)\s+)*"
TOP_LEVEL = re.compile(rf"^{ATTRIBUTES}(?:struct|class|enum|actor|protocol|typealias|func|let|var)\s+(\w+)", re.M)
EXTENSION = re.compile(r"^extension\s+(\[?\w+)[^{]*\{\n(.*?)^\}", re.M | re.S)
MEMBER = re.compile(rf"^    {ATTRIBUTES}(?:struct|class|enum|func|let|var|typealias)\s+(\w+)", re.M)


def code_of(text):
    """Returns Swift code without comments and string literals; interpolations are kept."""
    # strings: for each open string literal its quote, hash signs, and depth of parentheses (None outside an interpolation)
    result, strings, at = [], [], 0

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
    """The folders of ZombieGuard in the order in which its README has them, the lowest first."""
    table = re.search(r"^\| folder \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", (SWIFT / "README.md").read_text(), re.M)
    assert table, "Sources/ZombieGuard/README.md has no table of folders"
    return re.findall(r"^\| (\w+) \|", table[1], re.M)


def swift_folders_use_lower_ones_only():
    layers = swift_layers()
    folders = {path.parent.name for path in SWIFT.glob("*/*.swift")}
    assert len(layers) == len(set(layers)) and set(layers) == folders, f"Sources/ZombieGuard/README.md and the folders: {set(layers) ^ folders}"
    files = {path: code_of(path.read_text()) for path in sorted(SWIFT.glob("*/*.swift"))}
    # Ignore names that the using folder, or a lower one, declares itself. A member that a folder adds to another folder's type belongs to
    # the adding folder.
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
                                  "ZGUARD_OPTIONS": "isolated_per_context=0"})
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
    """valgrind preloads the library like any other, and replaces its malloc."""
    for tool in ("memcheck", "none"):
        result = run("valgrind", "-q", f"--tool={tool}", "--error-exitcode=9", "ls", "/",
                     env={**os.environ, "LD_PRELOAD": str(ROOT / "build/lib/libzguard.so"), "LC_ALL": "C"})
        assert (result.returncode, result.stdout) == (0, run("ls", "/").stdout), (tool, result)


# The newest symbol versions that each file may require. glibc 2.31: Debian 11, Ubuntu 20.04.
OLDEST = {"build/lib/libzguard.so": {"GLIBC": (2, 31)}, "build/bin/zguard": {"GLIBC": (2, 31)}}
# The only libraries that libzguard.so and zguard may require, so that they work in a root with libc alone.
LIBC_ALONE = re.compile(r"libc\.so\.6|ld-linux-[\w-]+\.so\.\d")


def symbols_are_old_enough():
    """libzguard.so and zguard require no symbol that older systems lack, not even weakly, and no newer relocation format."""
    problems = []
    for name, newest in OLDEST.items():
        said = run("objdump", "-T", ROOT / name)
        asked = re.findall(r"\*UND\*\s+\w+\s+\(?([A-Z]+)_([\d.]+)\)?\s+(\S+)", said.stdout)
        assert said.returncode == 0 and len(asked) > 30, (name, said.stderr)
        for family, version, symbol in asked:
            if family not in newest or tuple(map(int, version.split("."))) > newest[family]:
                problems.append(f"{name}: {symbol} of {family}_{version}")
        # The loader also requires the versions that the file lists although none of its symbols uses them.
        needed = re.search(r"^Version References:\n((?:  .*\n)+)", run("objdump", "-p", ROOT / name).stdout, re.M)
        assert needed, name
        problems += [f"{name}: needs {family}_{version}" for family, version in re.findall(r"\b([A-Z]+)_([\d.]+)$", needed[1], re.M)
                     if family not in newest or tuple(map(int, version.split("."))) > newest[family]]
        dynamic = run("readelf", "-dW", ROOT / name).stdout
        libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        assert "libc.so.6" in libraries, (name, dynamic)
        problems += [f"{name}: needs {library}" for library in libraries if not LIBC_ALONE.fullmatch(library)]
        if "(RELR" in dynamic:
            problems.append(f"{name}: relative relocations of a form that glibc 2.36 introduced")
    assert not problems, "\n       ".join(problems)


def main():
    passed = failed = 0
    for test in (options_document, documents_name_what_exists, completions_are_complete, kinds_stand_everywhere,
                 details_are_described, statistics_have_these_names, system_calls_are_named, architecture_pages,
                 user_documents, design_records, swift_folders_use_lower_ones_only, installed_elsewhere, wrong_calls, streams_and_status,
                 dead_processes_leave_nothing, check_finds_a_late_write, valgrind_stays_usable, symbols_are_old_enough):
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
