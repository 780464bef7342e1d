#!/usr/bin/env python3
"""Tests what is installed with the program: completions, manual page, Debian package, scripts/install.
Completions run in real shells; the Debian package is installed, used and removed. Closing line: N passed, N failed."""

import argparse
import fcntl
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from House.shells import Bash, Fish, Zsh  # noqa: E402
from Support import builds  # noqa: E402
from Support.checks import run_tests  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD, guarded_by, scrubbed  # noqa: E402

DOUBLE = "#include <stdlib.h>\nint main(void) { char *p = malloc(20); free(p); free(p); return 0; }\n"


def run(*command, status=0, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300,
                            stdin=subprocess.DEVNULL, **options)
    assert status is None or result.returncode == status, (command, result.returncode, result.stdout[-400:], result.stderr[-800:])
    return result


def tables():
    """Returns commands with their flags, as shown by the help, and the options of the runtime."""
    overview = run(ZGUARD, "help").stdout
    names = re.findall(r"^  ([a-z]+)", overview, re.M)
    flags = {name: re.findall(r"^  (-[-\w]+)", run(ZGUARD, name, "--help").stdout, re.M) for name in names}
    return flags, {option["name"]: option for option in json.loads(run(ZGUARD, "options", "--json").stdout)}


def shown(options):
    """Returns the names of the options that the help lists. Hidden options are for tests and special machines."""
    return [name for name, option in options.items() if option["shown"]]


def completes(shell_type, work):
    home = work / "home"
    home.mkdir()
    (home / "main.txt").write_text("")
    (home / "my files").mkdir()
    (home / "my files/mine.txt").write_text("")
    shell = shell_type(ZGUARD, home)
    shell.parses()
    flags, options = tables()
    problems = []

    def check(line, expected, exact=True, **more):
        found = {match.replace("\\ ", " ").rstrip("/") for match in shell.complete(line, **more)}
        expected = set(expected)
        if shell.name == "fish" and (attached := re.search(r"\S+=$|\S+=(?=[^= ]*$)", line)):
            expected = {attached[0] + value for value in expected}  # fish returns whole words
        if found != expected if exact else not found >= expected:
            problems.append(f"{line!r}: {sorted(found)[:12]}, not {sorted(expected)[:12]}")

    with_equals = (lambda names: {name + "=" for name in names}) if shell.name != "zsh" else set
    check("zguard ", flags)
    check("zguard re", {"report"})
    check("zguard nonsense ", set())
    check("zguard --", {"--help", "--version"})
    for name, own in flags.items():
        check(f"zguard {name} --", {flag for flag in own if flag.startswith("--")})
    check("zguard run --pro", {"--profile"})
    check("zguard run --profile ", {"guard", "fence", "sample", "mte"})
    check("zguard run --profile=f", {"fence"})
    check("zguard run -o ", with_equals(shown(options)))
    check("zguard run -o on_f", with_equals({"on_finding"}))
    check("zguard run -o on_finding=", {"abort", "continue"})
    check("zguard run -o stats=", {"0", "1"})
    check("zguard run --quiet -o children=follow -o on_finding=c", {"continue"})
    check("zguard run -o report_path=ma", {"main.txt"})
    check("zguard run --report m", {"main.txt", "my files"})
    check("zguard run --report=ma", {"main.txt"})
    check("zguard run --exit-code ", set())
    check("zguard run zgu", {"zguard"})
    check("zguard run --quiet -- zgu", {"zguard"})
    check("zguard run -- ls m", {"main.txt", "my files"})
    check("zguard run ls --pro", set())
    check("zguard report --format json m", {"main.txt", "my files"})
    check("zguard report main.txt m", {"main.txt", "my files"})
    check("zguard help re", {"report"})
    check("zguard completions ", {"bash", "zsh", "fish"})

    if str(os.getpid()) in shell.complete("zguard trim "):
        problems.append("a process that is not guarded is offered")
    sleeper = work / "odd '$(touch pwned)`x` name"
    shutil.copy("/bin/sleep", sleeper)
    child = subprocess.Popen([sleeper, "100"], env=guarded_by(LIBRARY))
    try:
        for _ in range(200):
            if str(child.pid) in run(ZGUARD, "completions", "processes").stdout:
                break
            time.sleep(0.02)
        check(f"zguard trim {str(child.pid)[:-1]}", {str(child.pid)}, exact=False)
        for line in ("zguard check ", "zguard stats ", "zguard stats --json ", "zguard stats --watch ", "zguard stats --watch 2 "):
            check(line, {str(child.pid)}, exact=False)
        check("zguard stats 1 ", set())
    finally:
        child.kill()
        child.wait()
    if list(home.rglob("pwned")) or list(work.glob("pwned")) or Path("pwned").exists():
        problems.append("a process's name was run as a command")
    if shell.name == "bash":
        check("zguard run --profile=f", {"--profile=fence"}, breaks="")
        check("zguard run -o on_finding=c", {"on_finding=continue"}, breaks="")
        check("zguard run -ochildren=", {"-ochildren=follow", "-ochildren=ignore"}, breaks="")
    if shell.name in ("bash", "zsh"):
        for line, expected in [("zguard run --profile=f", "zguard run --profile=fence "),
                               ("zguard run -o on_fin", "zguard run -o on_finding="),
                               ("zguard run -o on_finding=c", "zguard run -o on_finding=continue "),
                               ("zguard run --report my", "zguard run --report my\\ files/"),
                               ("zguard run --report=my\\ files/m", "zguard run --report=my\\ files/mine.txt "),
                               ("zguard doc", "zguard doctor ")]:
            typed = shell.typed(line)
            if typed != expected:
                problems.append(f"typed {line!r}: {typed!r}, not {expected!r}")
    if shell.name == "fish":
        texts = shell.described("zguard ")
        if set(texts) != set(flags):
            problems.append(f"not described: {set(flags) - set(texts)}")
    # Without zguard in PATH, completion offers no process ids and prints no message.
    shell.environment["PATH"] = "/usr/bin:/bin"
    check("zguard trim ", set())
    assert not problems, "\n       " + "\n       ".join(problems)


def processes_are_listed_safely(work):
    program = work / "a\tb\n\x1b[31m$(x)é"
    shutil.copy("/bin/sleep", program)
    child = subprocess.Popen([program, "100"], env=guarded_by(LIBRARY))
    try:
        end = time.monotonic() + 10
        while not (lines := [line for line in run(ZGUARD, "completions", "processes").stdout.splitlines()
                             if line.startswith(f"{child.pid}\t")]):
            assert time.monotonic() < end
        assert re.fullmatch(r"\d+\t[\w.+-]+", lines[0], re.A), lines
        times = []
        for _ in range(5):
            began = time.monotonic()
            run(ZGUARD, "completions", "processes")
            times.append(time.monotonic() - began)
        assert sorted(times)[2] < 1, times
    finally:
        child.kill()
        child.wait()


def manual_page(work):
    page = work / "zguard.1"
    made = run(ZGUARD, "help", "--man", env=scrubbed(SOURCE_DATE_EPOCH="1700000000"))
    page.write_text(made.stdout)
    assert '.TH ZGUARD 1 "2023-11-14"' in made.stdout
    bad = run(ZGUARD, "help", "--man", status=1, env=scrubbed(SOURCE_DATE_EPOCH="soon"))
    assert "SOURCE_DATE_EPOCH has the bad value 'soon'" in bad.stderr, bad.stderr
    run(ZGUARD, "help", "--man", "run", status=64)
    shown = run("man", "--warnings", "-E", "UTF-8", "-l", page, env=scrubbed(MANWIDTH="100", LC_ALL="C.UTF-8"))
    assert not shown.stderr, shown.stderr
    checked = run("groff", "-man", "-ww", "-b", "-z", page)
    assert not checked.stderr and not checked.stdout, checked
    linted = run("mandoc", "-Tlint", "-Wstyle", page, status=None)
    rest = [line for line in linted.stdout.splitlines() if "referenced manual not found" not in line]
    assert not rest, rest
    text = re.sub(r"\s+", " ", re.sub(r"‐\n\s*", "", shown.stdout))
    flags, options = tables()
    missing = [name for name in flags if f"zguard {name}" not in text]
    missing += [f"{name} {flag}" for name, own in flags.items() for flag in own if flag not in text]
    missing += [name for name in options if f" {name}=" not in text]
    assert not missing, missing


def package_is_reproducible(work, package):
    first = package.read_bytes()
    time.sleep(1.1)
    epoch = run("git", "-C", ROOT, "log", "-1", "--format=%ct").stdout.strip()
    run(ROOT / "scripts/package-deb", env=scrubbed(SOURCE_DATE_EPOCH=epoch, TZ="Asia/Tokyo", LC_ALL="C.UTF-8"))
    assert package.read_bytes() == first, "a second package differs from the first"
    run(ROOT / "scripts/package-deb", "x", status=1)
    bad = run(ROOT / "scripts/package-deb", status=1, env=scrubbed(SOURCE_DATE_EPOCH="soon"))
    assert "SOURCE_DATE_EPOCH is 'soon'" in bad.stderr, bad.stderr
    assert package.read_bytes() == first


def package_contents(work, package):
    control = run("dpkg-deb", "-f", package).stdout
    assert f"Version: {run(ZGUARD, 'version').stdout.split()[1]}\n" in control
    assert re.search(r"^Depends: libc6 \(>= [\d.]+\), zlib1g, ", control, re.M), control
    for name in ("zlib1g", "libzstd1", "liblzma5"):
        assert re.search(rf"^Depends: .*\b{name}\b", control, re.M), control
    run("dpkg-deb", "-x", package, work / "tree")
    run("dpkg-deb", "-e", package, work / "control")
    run("md5sum", "--check", "--quiet", work / "control/md5sums", cwd=work / "tree")
    listed = {line.split(None, 1)[1] for line in (work / "control/md5sums").read_text().splitlines()}
    there = {str(path.relative_to(work / "tree")) for path in (work / "tree").rglob("*") if path.is_file()}
    assert listed == there, listed ^ there
    usr = work / "tree/usr"
    assert gzip.decompress((usr / "share/man/man1/zguard.1.gz").read_bytes()).startswith(b".TH ZGUARD 1 ")
    for shell, path in [("bash", "bash-completion/completions/zguard"), ("zsh", "zsh/vendor-completions/_zguard"),
                        ("fish", "fish/vendor_completions.d/zguard.fish")]:
        assert (usr / "share" / path).read_text() == run(ZGUARD, "completions", shell).stdout, path
    for script in (ROOT / "Debuggers").glob("*.py"):
        assert (usr / "share/zguard" / script.name).read_bytes() == script.read_bytes()
    sizes = sum((path.stat().st_size + 1023) // 1024 for path in usr.rglob("*") if path.is_file())
    assert f"Installed-Size: {sizes}\n" in control
    if shutil.which("lintian"):
        said = run("lintian", "--allow-root", "--fail-on", "none", package).stdout
        complaints = [line for line in said.splitlines() if re.match("[EW]: ", line)]
        assert not complaints, complaints
    else:
        print("       lintian is not installed: not asked")


def works(program, work, user=None):
    """An installed zguard guards a program with a bug, from an ordinary directory."""
    work.chmod(0o755)
    folder = work / "ordinary directory"
    folder.mkdir(exist_ok=True)
    (folder / "double.c").write_text(DOUBLE)
    run("gcc", "-w", "-O0", "-g", "-o", folder / "double", folder / "double.c")
    folder.chmod(0o777)
    options = {"cwd": folder, "env": {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, "user": user}
    doctor = run(program, "doctor", status=None, **options)
    assert re.search(r"^ok +self-test", doctor.stdout, re.M), doctor
    found = run(program, "run", "--", "./double", status=134, **options)
    assert "==zguard== double-free: a freed block of 20 bytes" in found.stderr and "double.c:2" in found.stderr, found.stderr
    found = run(program, "run", "--report", "reports/", "--compress", "--", "./double", status=134, **options)
    assert "1 finding" in run(program, "report", "reports", **options).stdout
    shutil.rmtree(folder)


def package_installs(work, package):
    """Installs into the system if possible, otherwise into a directory."""
    with builds.system_wide():
        install_into_system(work, package)


def install_into_system(work, package):
    owned = run("dpkg-query", "-W", "-f", "${Status}", "zguard", status=None).stdout
    if os.getuid() != 0 or "installed" in owned or Path("/usr/bin/zguard").exists():
        print("       not root, or a zguard is there already: the package is unpacked, not installed")
        run("dpkg-deb", "-x", package, work / "tree")
        works(work / "tree/usr/bin/zguard", work)
        return
    before = {path for folder in ("/usr/bin", "/usr/lib", "/usr/share") for path in Path(folder).glob("**/*zguard*")}
    assert not before, f"files of an earlier zguard: {before}"
    try:
        with open("/var/lib/dpkg/lock-frontend", "a") as lock:  # take apt's lock, as other processes may be installing
            fcntl.lockf(lock, fcntl.LOCK_EX)
            run("dpkg", "-i", package, env=scrubbed(DPKG_FRONTEND_LOCKED="1"))
        works("zguard", work)
        works("/usr/bin/zguard", work, user=65534)
        paths = [Path(line) for line in run("dpkg", "-L", "zguard").stdout.splitlines() if line != "/."]
        assert not run("dpkg", "--verify", "zguard", status=None).stdout.replace("missing", ""), "installed files differ"
        if (page := Path("/usr/share/man/man1/zguard.1.gz")).exists():
            assert run("man", "-w", "zguard").stdout.strip() == str(page)
        home = work / "home"
        home.mkdir()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_HOME": str(home), "LC_ALL": "C.UTF-8"}
        said = run("fish", "-c", "complete -C 'zguard run --pro'", env=environment).stdout
        assert said.startswith("--profile\t"), said
        said = run("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -u -d {home}/dump; print $_comps[zguard]",
                   env=environment).stdout
        assert said == "_zguard\n", said
    finally:
        with open("/var/lib/dpkg/lock-frontend", "a") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            removed = run("dpkg", "-P", "zguard", status=None, env=scrubbed(DPKG_FRONTEND_LOCKED="1"))
    assert removed.returncode == 0 and "not empty" not in removed.stderr, removed.stderr
    shared = {Path(line) for line in run("sh", "-c", "cat /var/lib/dpkg/info/*.list | sort -u").stdout.splitlines()}
    left = [path for path in paths if path.exists() and path not in shared]
    after = {path for folder in ("/usr/bin", "/usr/lib", "/usr/share") for path in Path(folder).glob("**/*zguard*")}
    assert not left and not after, (left, after)


def installs_the_same(work, package):
    run(ROOT / "scripts/install", work / "prefix")
    run("dpkg-deb", "-x", package, work / "tree")
    ours = {str(path.relative_to(work / "prefix")) for path in (work / "prefix").rglob("*") if path.is_file()}
    theirs = {str(path.relative_to(work / "tree/usr")).replace("vendor-completions", "site-functions").removesuffix(".gz")
              for path in (work / "tree/usr").rglob("*") if path.is_file()}
    theirs -= {"share/doc/zguard/copyright", "share/doc/zguard/changelog"}
    assert {name.removesuffix(".gz") for name in ours} == theirs, {name.removesuffix(".gz") for name in ours} ^ theirs
    works(work / "prefix/bin/zguard", work)
    home = work / "home"
    home.mkdir()
    shell = Zsh(work / "prefix/bin/zguard", home, work / "prefix/share/zsh/site-functions/_zguard")
    assert shell.complete("zguard run --profile ") == ["fence", "guard", "mte", "sample"], shell.complete("zguard run --profile ")
    # The layout of earlier versions: the library directly in lib.
    (work / "prefix/lib/zguard/libzguard.so").rename(work / "prefix/lib/libzguard.so")
    works(work / "prefix/bin/zguard", work)
    (work / "prefix/lib/libzguard.so").unlink()
    lost = run(work / "prefix/bin/zguard", "run", "--", "true", status=125)
    assert "cannot find the runtime library" in lost.stderr, lost.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    parser.add_argument("--quick", action="store_true", help="only completions and the manual page, without building a package")
    arguments = parser.parse_args()
    tests = [(f"{shell.name} completes", lambda work, shell=shell: completes(shell, work)) for shell in (Bash, Zsh, Fish)]
    tests += [(test.__name__, test) for test in (processes_are_listed_safely, manual_page)]
    if arguments.quick:
        return run_tests(tests, "zguard-package-", arguments.filter, shows_passed=True)
    made = run(ROOT / "scripts/package-deb", env={name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"})
    package = ROOT / made.stdout.split()[-1]
    tests += [(test.__name__, lambda work, test=test: test(work, package)) for test in (
        package_contents, package_is_reproducible, installs_the_same, package_installs)]
    return run_tests(tests, "zguard-package-", arguments.filter, shows_passed=True)


if __name__ == "__main__":
    sys.exit(main())
