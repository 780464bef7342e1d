#!/usr/bin/env python3
"""Compares every frame of finished reports with llvm-symbolizer's answer for the same address.

The programs are bugs of Tests/Bugs, compiled in several ways, cases of Tests/Detection/Zombies, and the examples. Each runs guarded, and
each frame's function, file, line and column, and the functions inlined there, must equal llvm-symbolizer's. Functions are compared in their
displayed form: llvm-symbolizer's names become the symbols of a library that zguard symbolizes. For the programs of Tests/Symbols, and some
others, all addresses or every n-th are compared. Permitted differences are rules of Comparison, each with its reason; they are counted and
printed at the end.

Afterwards zguard must cope with damaged files of the programs, and with a debug information server, also one that never answers."""

import argparse
import collections
import concurrent.futures
import http.server
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import zombies  # noqa: E402
from Support import builds  # noqa: E402
from Support.checks import Failed, close  # noqa: E402
from Support.environment import ROOT, TESTS, ZGUARD, scrubbed  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

TIMEOUT_SECONDS = 30
LEAST_PROGRAMS = 30

BUGS = [
    "double-free/plain.c", "double-free/other_thread.c", "double-free/error_path.c", "double-free/getline.c",
    "double-free/atexit_handler.c", "double-free/exception_unwinding.cpp", "double-free/shared_ptr_twice.cpp",
    "double-free/pointer_twice_in_vector.cpp", "double-free/static_destructor.cpp",
    "double-free/virtual_destructor.cpp", "double-free/thread_local_destructor.cpp",
    "dealloc-mismatch/unique_ptr_array.cpp", "invalid-free/second_base.cpp", "null-access/method.cpp",
    "use-after-free/array_of_pointers.c", "stack-overflow/comparison.cpp",
]
CASES = 14  # cases of Tests/Detection/Zombies for each configuration
CONFIGURATIONS = ["Onone-dynamic", "O-dynamic", "O-static", "clang-O2", "gcc-O0"]
# Compilers of C and C++, and the ways to build a bug: compilers and flags. Each bug is built in the first four ways and in some of the
# others.
GCC, CLANG = ("gcc", "g++"), ("clang", "clang++")
WAYS = {
    "gcc-O0": (GCC, "-O0 -g"), "gcc-O2": (GCC, "-O2 -g"),
    "clang-O0": (CLANG, "-O0 -g"), "clang-O2": (CLANG, "-O2 -g"),
    "gcc-O3-dwarf4": (GCC, "-O3 -gdwarf-4"), "clang-O2-dwarf4": (CLANG, "-O2 -gdwarf-4"),
    "clang-O2-dwarf3": (CLANG, "-O2 -gdwarf-3"), "gcc-O2-dwarf2": (GCC, "-O2 -gdwarf-2"),
    "gcc-O1-split": (GCC, "-O1 -g -gsplit-dwarf"), "clang-O2-split": (CLANG, "-O2 -g -gsplit-dwarf"),
    "clang-O2-split4": (CLANG, "-O2 -gdwarf-4 -gsplit-dwarf"), "gcc-O2-split4": (GCC, "-O2 -gdwarf-4 -gsplit-dwarf"),
    "gcc-O2-gz": (GCC, "-O2 -g -gz"), "clang-O1-gz": (CLANG, "-O1 -g -gz"),
    "gcc-O2-sections": (GCC, "-O2 -g -ffunction-sections -Wl,--gc-sections -no-pie"),
    "gcc-O2-types": (GCC, "-O2 -g -fdebug-types-section"), "clang-O2-lines": (CLANG, "-O2 -gline-tables-only"),
    "gcc-O2-lto": (GCC, "-O2 -g -flto"), "gcc-O2-none": (GCC, "-O2"), "gcc-O2-64": (GCC, "-O2 -g -gdwarf64"),
}
EVERYWHERE = 4
MOST_ADDRESSES = 6000  # maximum number of addresses for one module
FLAGS = ["-fno-builtin", "-rdynamic", "-w", "-pthread"]


class Program:
    def __init__(self, name, executable, arguments=(), options=()):
        self.name, self.executable, self.arguments, self.options = name, executable, arguments, options


# MARK: programs


def compile_program(path, way, directory):
    compilers, flags = WAYS[way]
    source = TESTS / path
    is_plus = source.suffix == ".cpp"
    folder = directory / way / "-".join(source.with_suffix("").parts[-2:] + (source.suffix[1:],))
    executable = folder / "program"
    command = [compilers[is_plus], "-std=gnu++17" if is_plus else "-std=gnu17", *flags.split(), *FLAGS]
    header = dict(line[2:].strip().split(": ", 1) for line in source.read_text().splitlines()
                  if line.startswith("// ") and ": " in line)
    command += ["-o", str(executable), str(source), *header.get("libs", "").split()]
    # Compile in the directory into which the compiler writes split debug information.
    builds.compiled(executable, command, [source, TESTS / "Bugs/bug.h"], cwd=folder)
    options = [option for option in header.get("options", "").split(":") if option]
    return Program(f"{way} {path}", executable, options=options)


def build_programs(directory, part):
    """Builds programs so that every slice has each bug in one of the first ways, each of the other ways, and some cases of each
    configuration."""
    ways = list(WAYS)
    jobs = [(bug, way) for number, way in enumerate(ways[:EVERYWHERE]) for bug in part.choose(BUGS, kinds=lambda _: "*", way=number)]
    # Each other way builds two bugs: one C++ bug with templates and exceptions, and any other.
    plus = [bug for bug in BUGS if bug.endswith(".cpp")]
    for number, way in enumerate(ways[EVERYWHERE:]):
        jobs += [(plus[number % len(plus)], way), (BUGS[number % len(BUGS)], way)]
    jobs = sorted(set(jobs))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        programs = list(pool.map(lambda job: compile_program("Bugs/" + job[0], job[1], directory), jobs))
    cases = zombies.read_cases()
    chosen = [each for each in zombies.CONFIGURATIONS if each.name in CONFIGURATIONS]
    built = zombies.build_all(chosen, builds.BUILD / "zombies", cases)
    for configuration in chosen:
        own = [case for case in cases if case.language == configuration.language
               and not {"clean", "silent"} & set(case.expected(configuration))]
        for case in part.choose(own[::max(1, len(own) // CASES)][:CASES], lambda case: case.name, lambda _: "*", CONFIGURATIONS.index(configuration.name)):
            programs.append(Program(f"{configuration.name} {case.name}", built[configuration.name], ["--freed", case.name],
                                    [o for o in case.expected(configuration).get("options", "").split(":") if o]))
    for source, command in (("orders.c", ["clang", "-g", "-O1"]), ("shop.swift", ["swiftc", "-g", "-O"])):
        executable = directory / source.replace(".", "-")
        builds.compiled(executable, [*command, ROOT / "Examples" / source, "-o", executable], [ROOT / "Examples" / source], cwd=directory)
        programs.append(Program(source, executable))
    return programs


def run_guarded(zguard, program):
    """Runs a program guarded; returns its findings."""
    environment = scrubbed(SWIFT_BACKTRACE="enable=no")
    with tempfile.TemporaryDirectory(prefix="zguard-test-") as directory:
        report = Path(directory) / "report.jsonl"
        options = [word for option in program.options for word in ("-o", option)]
        command = [zguard, "run", "--quiet", "--report", report, "--format", "json", *options, "--", program.executable,
                   *program.arguments]
        try:
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{program.name}: still running after {TIMEOUT_SECONDS} s") from None
        text = report.read_text() if report.exists() else ""
    findings = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not findings:
        raise Failed(f"{program.name}: no finding")
    return findings


# MARK: llvm-symbolizer


def find_symbolizer():
    swift = Path(shutil.which("swift") or "swift").resolve()
    for path in (swift.with_name("llvm-symbolizer"), Path(shutil.which("llvm-symbolizer") or "")):
        if path.is_file():
            return path
    raise Failed("there is no llvm-symbolizer beside swift, nor on the PATH")


def ask(symbolizer, questions, *more):
    """Returns {(module, offset): frames}, innermost frame first; a frame is (symbol, file, line, column)."""
    modules = collections.defaultdict(set)
    for module, offset in questions:
        modules[module].add(offset)
    answers = {}
    for module, offsets in modules.items():
        offsets = sorted(offsets)
        command = [symbolizer, f"--obj={module}", "--output-style=JSON", "--inlines", "--no-demangle",
                   "--functions=linkage", "--no-debuginfod", *more]
        text = "".join(f"{offset:#x}\n" for offset in offsets)
        result = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line]
        if len(lines) != len(offsets):
            raise Failed(f"llvm-symbolizer answers {len(lines)} of {len(offsets)} questions about {module}")
        for offset, line in zip(offsets, lines):
            answers[module, offset] = [
                (frame["FunctionName"], frame["FileName"], frame["Line"], frame["Column"])
                for frame in line.get("Symbol", [])]
    return answers


def readable_names(zguard, symbols, directory):
    """Returns the displayed form of symbols: each becomes a function of a library that zguard symbolizes."""
    symbols = sorted(symbols)
    source = [".text\n"]
    for symbol in symbols:
        quoted = '"' + symbol.replace("\\", "\\\\").replace('"', '\\"') + '"'
        source.append(f".globl {quoted}\n.type {quoted}, @function\n{quoted}:\n.rept 16\nnop\n.endr\n"
                      f".size {quoted}, 16\n")
    folder = directory / "names"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "names.s").write_text("".join(source))
    library = folder / "names.so"
    subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,-Ttext=0x1000000", "-o", library, folder / "names.s"], check=True)
    frames = [{"pc": hex(0x1000000 + 16 * index + 4), "module": str(library), "offset": hex(0x1000000 + 16 * index + 4)}
              for index in range(len(symbols))]
    report = folder / "report.jsonl"
    report.write_text(json.dumps({"schema": "zguard.finding/1", "kind": "double-free", "stacks": {"access": frames}}))
    out = subprocess.run([zguard, "report", "--format", "json", report], stdout=subprocess.PIPE, check=True).stdout
    named = json.loads(out)["stacks"]["access"]
    if len(named) != len(symbols):
        raise Failed(f"zguard names {len(named)} of {len(symbols)} symbols")
    return {symbol: frame.get("function") for symbol, frame in zip(symbols, named)}


def aliases(modules):
    """Returns {module: {symbol: symbols of its address}}, from the file and its separate debug file, and {module: [(address, end, symbol)]}
    from the separate debug file alone."""
    found, separate = {}, collections.defaultdict(list)
    for module in modules:
        by_address = collections.defaultdict(set)
        build_id = subprocess.run(["readelf", "-n", module], stdout=subprocess.PIPE, text=True).stdout
        build_id = build_id.partition("Build ID: ")[2].split("\n")[0].strip()
        paths = [module, f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"]
        for path in paths if build_id else [module]:
            for more in ([], ["-D"]):
                out = subprocess.run(["nm", "-S", *more, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     text=True).stdout
                for line in out.splitlines():
                    fields = line.split(" ")
                    if not fields[0]:
                        continue
                    size = int(fields[1], 16) if len(fields[1]) > 1 else 0
                    name, address = " ".join(fields[3 if size else 2:]).partition("@")[0], int(fields[0], 16)
                    by_address[address].add(name)
                    if path != module:
                        separate[module].append((address, address + size, name))
        found[module] = {name: names for names in by_address.values() for name in names}
    return found, separate


# MARK: comparing


def groups(stack):
    """Groups the frames of a stack by address."""
    grouped = []
    for frame in stack:
        if grouped and grouped[-1][-1]["inlined"] and grouped[-1][0]["pc"] == frame["pc"]:
            grouped[-1].append(frame)
        else:
            grouped.append([frame])
    return grouped


class Comparison:
    def __init__(self, names, same_address, separate):
        self.names, self.same_address, self.separate = names, same_address, separate
        self.frames = self.addresses = self.inlined = self.lines = 0
        self.rules = collections.Counter()
        self.line_zero = []  # to be checked by check_line_zero

    def name(self, symbol):
        return None if symbol in ("", "??") else self.names[symbol]

    def compare(self, program, ours, theirs):
        """Returns the problems of the frames of one address."""
        self.addresses += 1
        theirs = theirs or [("", "", 0, 0)]
        if len(ours) != len(theirs):
            return [f"{len(ours)} frames, {len(theirs)} expected"]
        problems = []
        for level, (frame, expected) in enumerate(zip(ours, theirs)):
            self.frames += 1
            self.inlined += frame["inlined"]
            self.lines += "line" in frame
            problems += self.compare_frame(program, frame, expected, level, ours, theirs)
            if frame["inlined"] != (level < len(ours) - 1):
                problems.append(f"inlined is {frame['inlined']} in frame {level} of {len(ours)}")
        return problems

    def compare_frame(self, program, frame, expected, level, ours, theirs):
        symbol, file, line, column = expected
        problems = []
        if frame.get("function") != self.name(symbol):
            others = self.same_address.get(frame["module"], {}).get(symbol, ())
            if not frame["inlined"] and frame.get("function") in {self.names[other] for other in others}:
                self.rules["another name of the same address"] += 1
            elif not symbol and any(start <= int(frame["offset"], 16) < end and name == frame.get("function")
                                    for start, end, name in self.separate.get(frame["module"], ())):
                self.rules["only the symbol table of the separate debug file has the name"] += 1
            elif symbol and not symbol.startswith(("_Z", "$s")) and (frame.get("function") or "").endswith(f"::{self.name(symbol)}"):
                self.rules["a function without a linkage name has its scopes in front"] += 1
            else:
                problems.append(f"function {frame.get('function')!r}, not {self.name(symbol)!r} ({symbol})")
        got = frame.get("file"), frame.get("line"), frame.get("column")
        wanted = file or None, line or None, (column or None) if line else None
        if got == wanted:
            return problems
        if line == 0 and "/" not in file and len(theirs) == 1 and got == (None, None, None):
            self.rules["the symbol table's nearest file name is nobody's place"] += 1
        elif file.endswith("<compiler-generated>") and got == (None, None, None):
            self.rules["code that the compiler made has no place"] += 1
        elif line == 0 and level == 0 and got[0] and got[1] and got[2] is None:
            self.line_zero.append((program, frame, theirs, ours))
        else:
            problems.append(f"place {got}, not {wanted}")
        return problems


def check_line_zero(comparison, symbolizer):
    """Code of line 0 gets the line of earlier code in the same function with the same inlining; after code motion this need not be the
    nearest earlier code."""
    farthest = 1024
    questions = {(frame["module"], int(frame["offset"], 16) - back)
                 for _, frame, _, _ in comparison.line_zero for back in range(1, farthest)
                 if int(frame["offset"], 16) > back}
    answers = ask(symbolizer, questions) if questions else {}
    problems = collections.defaultdict(list)
    for program, frame, theirs, _ in comparison.line_zero:
        module, offset = frame["module"], int(frame["offset"], 16)
        chain = [theirs[0][0], *theirs[1:]]
        nearest = None
        for back in range(1, farthest):
            before = answers.get((module, offset - back)) or [("", "", 0, 0)]
            if [before[0][0], *before[1:]] != chain or not before[0][2]:
                continue
            if (before[0][1], before[0][2]) == (frame["file"], frame["line"]):
                rule = "line before it" if nearest is None else "line of code some way before it"
                comparison.rules[f"line 0 is the {rule} in the same function"] += 1
                break
            nearest = nearest or before[0][2]
        else:
            problems[program].append(f"{frame['offset']}: line 0 became {frame['file']}:{frame['line']}")
    return problems


def code_addresses(module, step, part):
    """Returns code addresses of a module, `step` bytes apart; in a slice every N-th."""
    for line in subprocess.run(["readelf", "-SW", module], stdout=subprocess.PIPE, text=True).stdout.splitlines():
        fields = line.partition("]")[2].split()
        if fields[:1] == [".text"]:
            addresses = range(int(fields[2], 16), int(fields[2], 16) + int(fields[4], 16), step)[:MOST_ADDRESSES]
            return list(addresses[part.number - 1::part.count])
    raise Failed(f"{module} has no code")


def every_address(zguard, module, step, directory, part):
    """Returns zguard's answers for the addresses of a module: (name, frames of one address)."""
    frames = [{"pc": hex(address), "module": str(module), "offset": hex(address)} for address in code_addresses(module, step, part)]
    report = directory / "every-address.jsonl"
    report.write_text(json.dumps({"schema": "zguard.finding/1", "kind": "double-free", "stacks": {"access": frames}}))
    out = subprocess.run([zguard, "report", "--format", "json", report], stdout=subprocess.PIPE, check=True).stdout
    grouped = groups(json.loads(out)["stacks"]["access"])
    if len(grouped) != len(frames):
        raise Failed(f"{module}: {len(grouped)} addresses, {len(frames)} expected")
    return [(f"every address of {module}", group) for group in grouped]


def modules_for_every_address(directory):
    """Yields modules, and the distance between addresses."""
    for way, (compilers, _) in WAYS.items():
        yield compile_program("Symbols/scopes.cpp", way, directory).executable, 3 if "O0" in way else 1
        if compilers == GCC:
            yield compile_program("Symbols/nested.c", way, directory).executable, 1
    yield directory / "shop-swift", 1
    yield builds.BUILD / "zombies/O-dynamic/shop", 7
    yield builds.BUILD / "zombies/Onone-dynamic/shop", 23
    yield ROOT / "build/lib/libzguard.so", 31
    # libc's debug information, if installed, is in a separate file.
    yield Path("/lib/x86_64-linux-gnu/libc.so.6").resolve(), 307


def check_programs(zguard, symbolizer, directory, part):
    programs = build_programs(directory, part)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda program: run_guarded(zguard, program), programs))
    found = []  # (program, frames of one address)
    for program, findings in zip(programs, reports):
        for finding in findings:
            for stack in finding["stacks"].values():
                for group in groups(stack):
                    if group[0].get("offset") and group[0].get("module", "").startswith("/"):
                        found.append((program.name, group))
    for module, step in modules_for_every_address(directory):
        found += every_address(zguard, module, step, directory, part)
    questions = {(group[0]["module"], int(group[0]["offset"], 16)) for _, group in found}
    answers = ask(symbolizer, questions)
    same_address, separate = aliases({module for module, _ in questions})
    symbols = {frame[0] for frames in answers.values() for frame in frames} - {"", "??"}
    symbols |= {other for module, offset in questions for frame in answers[module, offset][-1:]
                for other in same_address[module].get(frame[0], ())}
    comparison = Comparison(readable_names(zguard, symbols, directory), same_address, separate)
    problems = {name: [] for name in [program.name for program in programs] + [name for name, _ in found]}
    for name, group in found:
        key = group[0]["module"], int(group[0]["offset"], 16)
        for problem in comparison.compare(name, group, answers[key]):
            problems[name].append(f"{key[0]} {key[1]:#x}: {problem}")
    for name, more in check_line_zero(comparison, symbolizer).items():
        problems[name] += more
    passed = failed = 0
    for name, texts in problems.items():
        passed, failed = passed + (not texts), failed + bool(texts)
        if texts:
            print(f"FAIL {name}", *list(dict.fromkeys(texts))[:8], sep="\n     ")
    print(f"{len(programs)} programs, {comparison.addresses} addresses, {comparison.frames} frames, of them "
          f"{comparison.inlined} inlined and {comparison.lines} with a line")
    for rule, count in sorted(comparison.rules.items()):
        print(f"differs {count} times: {rule}")
    if len(programs) < LEAST_PROGRAMS or not comparison.inlined or not comparison.lines:
        print("FAIL too few programs, or nothing inlined")
        failed += 1
    return passed, failed


# MARK: damaged files

MUTANTS = 60  # number of mutants of each file
DAMAGE_SECONDS = 10
DAMAGED = ["gcc-O2", "clang-O2", "gcc-O3-dwarf4", "clang-O2-split", "gcc-O2-gz", "gcc-O2-lto"]


def sections(path):
    """Returns offset and size of the ELF headers and of the sections used for symbolizing."""
    found = [(0, 64)]
    for line in subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, text=True).stdout.splitlines():
        fields = line.partition("]")[2].split()
        if len(fields) > 5 and (fields[0].startswith((".debug", ".symtab", ".dynsym", ".note", ".strtab", ".rela"))):
            found.append((int(fields[3], 16), int(fields[4], 16)))
    header = Path(path).read_bytes()[:64]
    table, count = int.from_bytes(header[40:48], "little"), int.from_bytes(header[60:62], "little")
    return [*found, (table, count * 64)]


def damage(contents, places, chance):
    """Truncates a file, or changes some bytes, mostly in parts that are read."""
    contents = bytearray(contents)
    if chance.random() < 0.1:
        return contents[:chance.randrange(len(contents))]
    for _ in range(chance.choice((1, 2, 5, 20, 200))):
        start, size = chance.choice(places)
        if size == 0 or chance.random() < 0.1:
            start, size = 0, len(contents)
        # Damage the start of a section more often, because it is a header.
        at = start + (chance.randrange(min(size, 64)) if chance.random() < 0.4 else chance.randrange(size))
        if at < len(contents):
            contents[at] = chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256), contents[at] ^ 1 << chance.randrange(8)))
    return contents


def report_of(module, addresses):
    frames = [{"pc": hex(address), "module": str(module), "offset": hex(address)} for address in addresses]
    block = {"start": "0x10", "size": 8, "class_symbol": "_ZTS4Base", "member_frame": frames[0]}
    return json.dumps({"schema": "zguard.finding/1", "kind": "use-after-free", "access": "call", "block": block,
                       "detail": {"slot": "2"}, "stacks": {"access": frames, "free": frames[:9]}})


def check_damage(zguard, executables, directory, part):
    """Returns problems with damaged copies of executables."""
    problems = []
    folder = directory / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    jobs = []
    for number, executable in enumerate(executables):
        contents, places = Path(executable).read_bytes(), sections(executable)
        addresses = {int(line.split()[0], 16) for line in
                     subprocess.run(["nm", "--defined-only", executable], stdout=subprocess.PIPE, text=True).stdout.splitlines()
                     if line.split()[1] in "tTwW"}
        chance = random.Random(number)
        few = sorted(chance.sample(sorted(addresses), min(30, len(addresses))))
        few = [address + chance.randrange(40) for address in few] + [0, 1, 2, 2 ** 63, 2 ** 64 - 1]
        for mutant in range(part.number - 1, MUTANTS, part.count):
            # All mutants lie in one folder with the .dwo files, because split debug information is searched beside the executable.
            path, chance = folder / f"{number}-{mutant}", random.Random(f"{number}-{mutant}")
            path.write_bytes(damage(contents, places, chance))
            (folder / f"{number}-{mutant}.jsonl").write_text(report_of(path, few))
            jobs.append((executable, path))
        for split in Path(executable).parent.glob("*.dwo"):
            for mutant in range(part.number - 1, MUTANTS, part.count):
                path, chance = folder / f"{number}-{mutant}-split", random.Random(f"{number}-{mutant}-split")
                path.mkdir()
                (path / split.name).write_bytes(damage(split.read_bytes(), sections(split), chance))
                program = path / "program"
                # The file that the compiler named does not exist; the file beside the program does.
                program.write_bytes(contents.replace(str(split.parent).encode(), str(split.parent).encode()[::-1]))
                (path.parent / f"{path.name}.jsonl").write_text(report_of(program, few))
                jobs.append((f"{executable} (split)", path))

    def one(job):
        executable, path = job
        try:
            result = subprocess.run([zguard, "report", "--format", "json", f"{path}.jsonl"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, timeout=DAMAGE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{path} ({executable}): still running after {DAMAGE_SECONDS} s"
        if result.returncode != 0 or not result.stdout.startswith(b"{"):
            return f"{path} ({executable}): status {result.returncode}, {result.stderr[-300:]!r}"
        return None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [problem for problem in pool.map(one, jobs) if problem]
    print(f"{len(jobs)} damaged files")
    if not problems:
        shutil.rmtree(folder)
    return problems


# MARK: servers


class Files(http.server.BaseHTTPRequestHandler):
    """A debuginfod server: `files` by path; None: never answers."""
    files, asked, end = {}, [], threading.Event()

    def do_GET(self):
        self.asked.append(self.path)
        contents = self.files.get(self.path, b"")
        if contents is None:
            self.end.wait(TIMEOUT_SECONDS)
            return
        self.send_response(200 if contents else 404)
        self.send_header("Content-Length", str(len(contents)))
        self.end_headers()
        self.wfile.write(contents)

    def log_message(self, *_):
        pass


def check_servers(zguard, directory):
    """Returns problems with debug information from a server."""
    folder = directory / "served"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "program.c").write_text("int answer(int x) {\n    return x + 42;\n}\nint main(void) { return answer(0); }\n")
    build_id = "00112233445566778899aabbccddeeff00112233"
    subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{build_id}", "-o", "program", "program.c"], cwd=folder, check=True)
    start = next(int(line.split()[0], 16) for line in
                 subprocess.run(["nm", folder / "program"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
                 if line.endswith(" answer")) + 4
    subprocess.run(["objcopy", "--only-keep-debug", "program", "program.debug"], cwd=folder, check=True)
    subprocess.run(["strip", "-o", "stripped", "program"], cwd=folder, check=True)
    debug, executable = (f"/buildid/{build_id}/{kind}" for kind in ("debuginfo", "executable"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    problems, number = [], 0

    def check(what, files, module, function, line, asked, note="", seconds=5, urls=True):
        nonlocal number
        number += 1
        Files.files, Files.asked[:] = files, []
        report = folder / f"{number}.jsonl"
        frame = {"pc": hex(start), "module": str(module), "build_id": build_id, "offset": hex(start)}
        report.write_text(json.dumps({"schema": "zguard.finding/1", "kind": "double-free", "stacks": {"access": [frame]}}))
        environment = scrubbed(DEBUGINFOD_CACHE_PATH=str(folder / f"cache-{number}"), NO_PROXY="127.0.0.1")
        if urls:
            environment["DEBUGINFOD_URLS"] = f"http://127.0.0.1:{server.server_port}"
        began = time.monotonic()
        result = subprocess.run([zguard, "report", "--format", "json", report], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment, timeout=TIMEOUT_SECONDS)
        elapsed = time.monotonic() - began
        got = json.loads(result.stdout)["stacks"]["access"][0]
        if (got.get("function"), got.get("line")) != (function, line):
            problems.append(f"{what}: {got}, {result.stderr!r}")
        if bool(Files.asked) != asked:
            problems.append(f"{what}: asked for {Files.asked}")
        if note not in result.stderr or elapsed > seconds:
            problems.append(f"{what}: {elapsed:.1f} s, says {result.stderr!r}")

    both = {debug: (folder / "program.debug").read_bytes(), executable: (folder / "stripped").read_bytes()}
    stripped, gone = folder / "stripped", folder / "gone"
    check("no server is asked unless one is named", both, stripped, None, None, False, urls=False)
    check("debug information of a stripped file", both, stripped, "answer", 1, True)
    check("a file that is gone", both, gone, "answer", 1, True)
    check("a program with its own is not asked about", both, folder / "program", "answer", 1, False)
    check("a server that has nothing", {}, stripped, None, None, True)
    check("a server that has another file", {debug: b"garbage" * 1000}, stripped, None, None, True)
    check("a server that is silent", {debug: None, executable: None}, gone, None, None, True, "do not answer", seconds=12)
    Files.end.set()
    server.shutdown()
    return number, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zguard", type=Path, default=ZGUARD, metavar="PATH")
    parser.add_argument("--build", type=Path, default=builds.BUILD / "symbols", metavar="DIRECTORY")
    add_slice_option(parser)
    arguments = parser.parse_args()
    directory = arguments.build.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    zguard = arguments.zguard.resolve()
    passed, failed = check_programs(zguard, find_symbolizer(), directory, arguments.slice)
    victims = [compile_program("Bugs/" + BUGS[7], way, directory).executable for way in DAMAGED]
    victims.append(builds.BUILD / "zombies/O-dynamic/shop")
    problems = check_damage(zguard, victims, directory, arguments.slice)
    if not arguments.slice.is_whole:
        print(f"slice {arguments.slice}: a bug in one way to compile it, every {arguments.slice.count}th address and damaged file")
    passed, failed = passed + (not problems), failed + bool(problems)
    checks, more = check_servers(zguard, directory)
    passed, failed = passed + checks - len(more), failed + len(more)
    for problem in problems + more:
        print(f"FAIL {problem}")
    return close(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
