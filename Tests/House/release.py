#!/usr/bin/env python3
"""Tests the products of scripts/release: archives, packages, SPDX documents and checksums.
A second build has the same bytes; the requirements on a system are as documented; the products are unpacked, installed, used and removed in
Debian 11, 12, 13 and unstable, and installed in the ways of docs/integration. Records the tested systems for docs/COMPATIBILITY.md.
Closing line: N passed, N failed."""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Detection import helper_root  # noqa: E402
from Support import builds, compatibility, emulation, processors, roots  # noqa: E402
from Support.checks import Checks, Failed  # noqa: E402
from Support.environment import LIBRARY, ROOT, ZGUARD, scrubbed  # noqa: E402

RELEASE = ROOT / "build/release"
KEYS = ROOT / "build/tests/keys"  # made anew by each run
INTEGRATION = ROOT / "docs/integration"
HOST = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
VERSION = re.search(r'^let version = "(.*)"$', (ROOT / "Package.swift").read_text(), re.M)[1]
NAME = f"zguard-{VERSION}-linux-{HOST}"
TRIED = ("bullseye", "bookworm", "trixie", "sid")
IN_ROOT = ("gcc", "libc6-dev", "man-db", "xz-utils")
SECONDS = 3600  # deadline for hanging commands

# The newest symbol versions that a file may require, so that it runs on older systems.
NEWEST = {"bin/zguard": {"GLIBC": "2.31"},
          "lib/zguard/libzguard.so": {"GLIBC": "2.31"}}
DELIVERED = {
    "bin/zguard": 0o755, "lib/zguard/libzguard.so": 0o644, "share/man/man1/zguard.1.gz": 0o644,
    "share/bash-completion/completions/zguard": 0o644, "share/zsh/site-functions/_zguard": 0o644,
    "share/fish/vendor_completions.d/zguard.fish": 0o644, "share/zguard/zguard_gdb.py": 0o644, "share/zguard/zguard_lldb.py": 0o644,
    "share/doc/zguard/LICENSE": 0o644, "share/doc/zguard/README.md": 0o644, "share/doc/zguard/CHANGELOG.md": 0o644,
    "share/doc/zguard/docs/OPTIONS.md": 0o644, "share/doc/zguard/zguard.spdx.json": 0o644, "share/zguard/files": 0o644,
    "share/zguard/uninstall": 0o755,
}
# SPDX component of each static library of the toolchain.
ARCHIVES = {
    "libswiftCore.a": "swift-runtime-and-standard-library", "libswift_Concurrency.a": "swift-concurrency",
    "libswift_StringProcessing.a": "swift-string-processing", "libswift_RegexParser.a": "swift-string-processing",
    "libdispatch.a": "swift-corelibs-libdispatch", "libBlocksRuntime.a": "blocks-runtime",
    "libFoundationEssentials.a": "swift-foundation-essentials", "lib_FoundationCShims.a": "swift-foundation-essentials",
    "lib_FoundationCollections.a": "swift-collections",
    "libFoundationInternationalization.a": "swift-foundation-internationalization", "libFoundation.a": "swift-corelibs-foundation",
    "libCoreFoundation.a": "swift-corelibs-foundation", "lib_FoundationICU.a": "icu",
}
SMALL_PARTS = re.compile(r"libswift\w+\.a")  # parts of the standard library


def run(*command, status=0, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, **options)
    assert status is None or result.returncode == status, (command, result.returncode, result.stdout[-400:], result.stderr[-800:])
    return result


def epoch():
    return run("git", "-C", ROOT, "log", "-1", "--format=%ct").stdout.strip()


def toolchain():
    return Path(builds.find_clang()).resolve().parent


def words_for(architectures):
    return [word for arch in architectures for word in ("--arch", arch)]


def made_for():
    return [arch for arch in DEBIAN if (RELEASE / f"zguard-{VERSION}-linux-{arch}.tar.xz").exists()]


# -- products ----------------------------------------------------------------------------------------------------------


def says_what_it_is(_):
    said = run(ZGUARD, "version").stdout
    swift = re.search(r"Swift version (\d+\.\d+(\.\d+)?)", run("swift", "--version").stdout)[1]
    assert said == f"zguard {VERSION} ({HOST}, Swift {swift})\n", said
    assert run(ZGUARD, "--version").stdout == said


def everything_is_there(_):
    expected = {"SHA256SUMS", "SHA256SUMS.sig"}
    for arch in made_for():
        name = f"zguard-{VERSION}-linux-{arch}"
        expected |= {f"{name}.tar.xz", f"{name}.spdx.json", f"zguard_{VERSION}_{DEBIAN[arch]}.deb"}
    assert HOST in made_for()
    assert {path.name for path in RELEASE.iterdir()} == expected, sorted(path.name for path in RELEASE.iterdir())
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=RELEASE)
    listed = [line.split()[1].lstrip("*") for line in (RELEASE / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(expected - {"SHA256SUMS", "SHA256SUMS.sig"}), listed


def archives_hold(_):
    for arch in made_for():
        name = f"zguard-{VERSION}-linux-{arch}"
        with tarfile.open(RELEASE / f"{name}.tar.xz") as archive:
            members = archive.getmembers()
            names = [member.name for member in members]
            assert len(names) == len(set(names)) and all(path == name or path.startswith(name + "/") for path in names), names
            assert names == sorted(names, key=lambda path: path.split("/")), "not sorted"
            for member in members:
                assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", ""), member.name
                assert member.mtime == int(epoch()), (member.name, member.mtime)
                assert member.isdir() and member.mode == 0o755 or member.isfile() and member.mode in (0o644, 0o755), (member.name, oct(member.mode))
            files = {member.name[len(name) + 1:]: member.mode for member in members if member.isfile()}
            assert DELIVERED.items() <= files.items(), DELIVERED.items() - files.items()
            listed = archive.extractfile(f"{name}/share/zguard/files").read().decode().splitlines()
            assert sorted(listed) == sorted(files.keys() - {"share/zguard/files", "share/zguard/uninstall"}), set(listed) ^ set(files)
            licence = archive.extractfile(f"{name}/share/doc/zguard/LICENSE").read()
            assert licence == (ROOT / "LICENSE").read_bytes()
            for binary in ("bin/zguard", "lib/zguard/libzguard.so"):
                head = archive.extractfile(f"{name}/{binary}").read(20)
                assert head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == {"x86_64": 62, "aarch64": 183}[arch], binary


def version_key(text):
    return [int(part) for part in text.split(".")]


def needs_old_libraries_only(_):
    """Requires no symbol version newer than those of the oldest supported system, Debian 11."""
    problems = []
    for arch in made_for():
        name = f"zguard-{VERSION}-linux-{arch}"
        with tempfile.TemporaryDirectory() as folder:
            run("tar", "-C", folder, "-xJf", RELEASE / f"{name}.tar.xz")
            for binary, newest in NEWEST.items():
                said = run(toolchain() / "llvm-objdump", "-p", Path(folder, name, binary)).stdout
                asked = re.findall(r"^\s+0x[0-9a-f]+ 0x[0-9a-f]+ \d+ ([A-Z]+)_([\d.]+)$", said, re.M)
                assert asked, f"{binary} asks for no version"
                problems += [f"{arch}: {binary} asks for {library}_{version}" for library, version in asked
                             if library not in newest or version_key(version) > version_key(newest[library])]
                if re.search(r"^\s+RELR(SZ|ENT)?\s", said, re.M):
                    problems.append(f"{arch}: {binary} has relocations that older loaders do not know")
    assert not problems, "\n       " + "\n       ".join(problems)


def package_needs_what_the_program_asks_for(_):
    """The dependencies, computed without dpkg for every processor, equal those that dpkg-shlibdeps finds for this one."""
    with tempfile.TemporaryDirectory() as folder:
        package = RELEASE / f"zguard_{VERSION}_{DEBIAN[HOST]}.deb"
        stated = run("dpkg-deb", "-f", package, "Depends").stdout.strip().split(", ")
        run("dpkg-deb", "-x", package, Path(folder, "tree"))
        Path(folder, "debian").mkdir()
        Path(folder, "debian/control").write_text("Source: zguard\n\nPackage: zguard\nArchitecture: any\n")
        said = run("dpkg-shlibdeps", "-O", "tree/usr/bin/zguard", "tree/usr/lib/zguard/libzguard.so", cwd=folder).stdout
    found = dict(re.findall(r"([\w.+-]+) \(>= ([\d.]+)\)", said))
    ours = dict(re.findall(r"([\w.+-]+) \(>= ([\d.]+)\)", ", ".join(stated)))
    assert found.keys() == ours.keys(), (found, ours)
    # dpkg-shlibdeps uses the version in which a function moved into libc.so.6, even if the program requires an older version.
    assert all(version_key(found[name]) <= version_key(ours[name]) for name in found.keys() - {"libc6"}), (found, ours)
    assert version_key(ours["libc6"]) <= version_key(NEWEST["bin/zguard"]["GLIBC"]), ours


def same_bytes_again(work):
    """The bytes are the same with another time zone, locale, umask and home, at another time."""
    before = (RELEASE / "SHA256SUMS").read_text()
    script = 'umask 077; exec scripts/release "$@"'
    run("sh", "-c", script, "sh", *words_for(made_for()), cwd=ROOT, env=scrubbed(TZ="Asia/Tokyo", LC_ALL="C.UTF-8", HOME=str(work), SOURCE_DATE_EPOCH=epoch(), XZ_OPT="--extreme"))
    assert (RELEASE / "SHA256SUMS").read_text() == before, "a second release differs from the first"
    for words, message in [(["x"], "unknown argument"), (["--arch", "sparc"], "no release for 'sparc'"), (["--arch"], "no release for")]:
        assert message in run(ROOT / "scripts/release", *words, status=1).stderr, words
    assert (RELEASE / "SHA256SUMS").read_text() == before


def verify(folder, signers):
    """Runs the first command of docs/INSTALL.md that checks a release; returns whether it succeeds."""
    command = re.search(r"^ssh-keygen -Y verify .*$", (ROOT / "docs/INSTALL.md").read_text(), re.M)[0]
    shutil.copy(signers, folder / "signers")
    return run("sh", "-c", command, cwd=folder, status=None).returncode == 0


def write_keys(folder):
    """Makes two throw-away key pairs, and for each a file of allowed signers with the public key."""
    for name in ("key", "other"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        (folder / f"{name}.signers").write_text(f"releaser {(folder / f'{name}.pub').read_text()}")


def checksums_are_signed(work):
    """The signature verifies. It does not verify with another key, nor for changed checksums."""
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        shutil.copy(RELEASE / name, work)
    assert verify(work, KEYS / "key.signers"), "the signature does not verify"
    assert not verify(work, KEYS / "other.signers"), "it verifies with another key"
    (work / "SHA256SUMS").write_text((work / "SHA256SUMS").read_text() + "x")
    assert not verify(work, KEYS / "key.signers"), "changed checksums verify"
    assert "there is no key" in run(ROOT / "scripts/release", "--sign", work / "none", status=1).stderr


def copy_of_tree(folder):
    folder.mkdir(parents=True)
    files = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
    for name in filter(None, files):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def library_says_not_where_it_was_built(work):
    copy_of_tree(work / "another place")
    run("scripts/build", "--library", cwd=work / "another place")
    assert (work / "another place/build/lib/libzguard.so").read_bytes() == LIBRARY.read_bytes()
    for path in (LIBRARY, ZGUARD):
        assert str(ROOT).encode() + b"/" not in path.read_bytes(), f"{path.name} says where it was built"


def same_bytes_elsewhere(work):
    """The bytes are the same when built in another directory; takes minutes."""
    copy_of_tree(work / "elsewhere")
    result = subprocess.run(["scripts/release", *words_for([HOST])], cwd=work / "elsewhere", stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            env=scrubbed(SOURCE_DATE_EPOCH=epoch()))
    assert result.returncode == 0, result.stderr[-2000:]
    ours = dict(reversed(line.split()) for line in (RELEASE / "SHA256SUMS").read_text().splitlines())
    theirs = dict(reversed(line.split()) for line in (work / "elsewhere/build/release/SHA256SUMS").read_text().splitlines())
    assert theirs and theirs.items() <= ours.items(), theirs.items() - ours.items()


# -- SPDX document ----------------------------------------------------------------------------------------------------

LICENCES = {"Apache-2.0", "MIT", "Unicode-3.0", "curl", "Zlib", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-or-later",
            "LGPL-2.1-or-later", "LGPL-3.0-or-later", "PostgreSQL", "blessing"}
EXCEPTIONS = {"Swift-exception", "LLVM-exception", "GCC-exception-3.1"}


def is_licence(text):
    return all(name in LICENCES and (not exception or exception in EXCEPTIONS)
               for name, _, exception in (part.partition(" WITH ") for part in text.split(" OR ")))


def list_of_contents(_):
    """The document has the fields that SPDX 2.3 requires, in their formats. Its statements about the files are right."""
    for arch in made_for():
        name = f"zguard-{VERSION}-linux-{arch}"
        text = (RELEASE / f"{name}.spdx.json").read_bytes()
        with tarfile.open(RELEASE / f"{name}.tar.xz") as archive:
            assert archive.extractfile(f"{name}/share/doc/zguard/zguard.spdx.json").read() == text
            contents = {path: archive.extractfile(f"{name}/{path}").read() for path in ("bin/zguard", "lib/zguard/libzguard.so")}
        said = json.loads(text)
        assert (said["spdxVersion"], said["dataLicense"], said["SPDXID"], said["name"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT", name)
        assert re.fullmatch(r"https://[^#\s]+", said["documentNamespace"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said["creationInfo"]["created"])
        assert said["creationInfo"]["creators"] and all(re.match(r"(Person|Organization|Tool): \S", each) for each in said["creationInfo"]["creators"])
        known = [entry["SPDXID"] for entry in (said, *said["packages"], *said["files"])]
        assert len(known) == len(set(known)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in known), known
        for package in said["packages"]:
            assert package["name"] and package["downloadLocation"] and type(package["filesAnalyzed"]) is bool, package
            assert is_licence(package["licenseDeclared"]) and is_licence(package["licenseConcluded"]) and package["copyrightText"], package
            assert ("packageVerificationCode" in package) == package["filesAnalyzed"] == ("hasFiles" in package), package
        sums = []
        for file in said["files"]:
            content = contents.pop(file["fileName"].removeprefix("./"))
            stated = {each["algorithm"]: each["checksumValue"] for each in file["checksums"]}
            assert stated == {"SHA1": hashlib.sha1(content).hexdigest(), "SHA256": hashlib.sha256(content).hexdigest()}, file
            sums.append(stated["SHA1"])
        assert not contents, f"not listed: {list(contents)}"
        own = next(package for package in said["packages"] if package["filesAnalyzed"])
        assert own["packageVerificationCode"]["packageVerificationCodeValue"] == hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()
        assert (own["name"], own["versionInfo"]) == ("zguard", VERSION) and said["documentDescribes"] == [own["SPDXID"]]
        ends = set()
        for relation in said["relationships"]:
            assert relation["relationshipType"] in ("DESCRIBES", "CONTAINS", "STATIC_LINK", "DYNAMIC_LINK", "OPTIONAL_DEPENDENCY_OF"), relation
            ends |= {relation["spdxElementId"], relation["relatedSpdxElement"]}
        assert ends == set(known), ends ^ set(known)


def own_symbols(archives, tools):
    """Returns {name: the symbols that only this static library defines}, without weak symbols, which are duplicated."""
    defined = {}
    for path in archives:
        lines = run(tools / "llvm-nm", "--defined-only", "--extern-only", path).stdout.splitlines()
        defined[path.name] = {line.split()[2] for line in lines if re.match(r"[0-9a-f]+ [TDRB] ", line)}
    return {name: symbols - set().union(*(other for key, other in defined.items() if key != name)) for name, symbols in defined.items()}


def what_is_linked_in_is_listed(_):
    """The SPDX document lists each static library of the toolchain from which the program has a symbol, and no other."""
    tools = toolchain()
    archives = sorted((tools.parent / "lib/swift_static/linux").glob("*.a"))
    assert len(archives) > 10, archives
    ours = {line.rpartition(" ")[2] for line in run(tools / "llvm-nm", "--defined-only", ZGUARD).stdout.splitlines()}
    linked = {name for name, symbols in own_symbols(archives, tools).items() if symbols & ours}
    expected = {ARCHIVES.get(name) or ("swift-runtime-and-standard-library" if SMALL_PARTS.fullmatch(name) else name) for name in linked}
    said = json.loads((RELEASE / f"{NAME}.spdx.json").read_text())
    names = {package["SPDXID"]: package["name"] for package in said["packages"]}
    listed = {names[each["relatedSpdxElement"]] for each in said["relationships"] if each["relationshipType"] == "STATIC_LINK"}
    others = {"llvm-support", "unicode-character-database", "libgcc", "libstdc++", "musl"}
    assert listed - others == expected, f"linked in: {sorted(expected)}, listed: {sorted(listed)}"
    swift = run(ZGUARD, "version").stdout.split("Swift ")[1].rstrip(")\n")
    versions = {package["name"]: package.get("versionInfo") for package in said["packages"]}
    assert versions["swift-runtime-and-standard-library"] == versions["swift-foundation-essentials"] == swift, versions


# -- ways to install ----------------------------------------------------------------------------------------------------


def steps_of_dockerfile(path):
    """Returns [(instruction, text)] of a Dockerfile, with continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    steps = [line.partition(" ")[::2] for line in joined.splitlines()]
    assert steps and steps[0][0] == "FROM" and {name for name, _ in steps} <= {"FROM", "ARG", "COPY", "RUN", "ENV", "CMD"}, steps
    return steps


def integration_is_well_formed(_):
    steps = steps_of_dockerfile(INTEGRATION / "Dockerfile")
    assert steps[0][1] == "swift:6.3-bookworm", steps[0]
    for name, text in steps:
        if name == "RUN":
            run("sh", "-n", "-c", text)
    feature = json.loads((INTEGRATION / "devcontainer-feature/devcontainer-feature.json").read_text())
    assert {"id", "version", "name"} <= feature.keys() and feature["version"] == VERSION == feature["options"]["version"]["default"]
    script = INTEGRATION / "devcontainer-feature/install.sh"
    run("sh", "-n", script)
    assert script.stat().st_mode & stat.S_IXUSR
    # A dev container passes the options of a feature to its script as variables.
    used = set(re.findall(r"\$\{([A-Z]+)[:}]", script.read_text()))
    assert used == {name.upper() for name in feature["options"]}, used
    workflow = yaml.safe_load((INTEGRATION / "zombies.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["env"]["ZGUARD_VERSION"] == VERSION and job["runs-on"] and (True in workflow or "on" in workflow)
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step), step
        if "run" in step:
            run("sh", "-n", "-c", step["run"])


def integration_steps(root, checks, said):
    """Runs the steps of the Dockerfile, the feature's script and the workflow's installation in a root, without Docker, and removes what
    they install."""
    binds = {f"{RELEASE}:ro": "/release", f"{INTEGRATION}:ro": "/integration"}
    copied = "mkdir -p /tmp/zguard && cp /release/zguard-*-linux-*.tar.xz /tmp/zguard/ && "
    commands = [text for name, text in steps_of_dockerfile(INTEGRATION / "Dockerfile") if name == "RUN"]
    docker = copied + " && ".join(f"{{ {text}; }}" for text in commands)
    feature = "RELEASE=/release VERSION=%s PREFIX=/usr/local /integration/devcontainer-feature/install.sh" % VERSION
    (job,) = yaml.safe_load((INTEGRATION / "zombies.yml").read_text())["jobs"].values()
    install = next(step["run"] for step in job["steps"] if step.get("name") == "Install zguard")
    workflow = f"export ZGUARD_RELEASE=file:///release ZGUARD_VERSION={VERSION}; {install}"
    changed = "cp -r /integration/devcontainer-feature /tmp/own && cp /release/%s.tar.xz /tmp/own && echo x >>/tmp/own/%s.tar.xz && " \
        "cp /release/SHA256SUMS /tmp/own && ! /tmp/own/install.sh && test ! -e /usr/local/bin/zguard && mkdir -p /usr/local/share/zguard && " \
        "printf 'exit 0\\n' >/usr/local/share/zguard/uninstall && chmod +x /usr/local/share/zguard/uninstall" % (NAME, NAME)
    for name, script in [("the steps of the Dockerfile", docker), ("the feature's script", feature), ("the workflow's installation", workflow),
                         ("the feature's script refuses a changed archive", changed)]:
        script = f"set -e\n{script}\n"
        if "refuses" not in name:
            script += "/usr/local/bin/zguard run -- true\n"
        script += "sh /usr/local/share/zguard/uninstall; rm -rf /usr/local/share/zguard; test -z \"$(find /usr/local -name '*zguard*')\""
        status, out, err = root.run(["bash", "-c", script], SECONDS, binds)
        problems = [] if status == 0 else [f"status {status}", *(out + err).splitlines()[-12:]]
        checks.check(f"{said}: {name}", problems)


def workflow_runs(checks):
    """Runs the workflow's build and test steps in a root that has Swift, on a package whose test uses a deallocated object."""
    swift = helper_root.toolchain()
    try:
        if not swift:
            raise roots.Unavailable("Swift is not installed in a directory of its own")
        root = roots.make("bookworm", helper_root.NEEDED)
    except roots.Unavailable as reason:
        print(f"skipped: the workflow where Swift is installed: {reason}")
        checks.skipped += 1
        return
    (job,) = yaml.safe_load((INTEGRATION / "zombies.yml").read_text())["jobs"].values()
    build, test = (next(step["run"] for step in job["steps"] if step.get("name") == name) for name in ("Build", "Test, guarded"))
    # SwiftPM's sandbox needs features that a root may lack.
    script = "set -e; export PATH=/toolchain/usr/bin:/installed/bin:$PATH; cp -r /shop /tmp/shop; cd /tmp/shop\n" \
        f"{build} --disable-sandbox\nstatus=0; {{ {test} --disable-sandbox; }} || status=$?\necho \"status: $status\"; cat zombies.sarif"
    with tempfile.TemporaryDirectory(prefix="zguard-release-") as folder:
        run("tar", "-C", folder, "--strip-components=1", "-xJf", RELEASE / f"{NAME}.tar.xz")
        binds = {f"{swift}:ro": "/toolchain", f"{folder}:ro": "/installed", f"{ROOT}/Tests/House/Release/Shop:ro": "/shop"}
        status, out, err = root.run(["bash", "-c", script], SECONDS, binds)
    problems = [] if status == 0 else [f"status {status}"]
    said = re.search(r"^status: (\d+)\n(\{.*)", out, re.M | re.S)
    if not said or said[1] != "1":
        problems += [f"the tests end with {said[1] if said else 'nothing'}, not 1", *(out + err).splitlines()[-12:]]
    else:
        found = [(each["ruleId"], each["message"]["text"]) for each in json.loads(said[2])["runs"][0]["results"]]
        if len(found) != 1 or found[0][0] != "use-after-free" or "deallocated Shop.Cart" not in found[0][1]:
            problems.append(f"found: {found}")
    checks.check("the workflow's steps find a zombie in a package's tests", problems)


# -- in roots -----------------------------------------------------------------------------------------------------------


def try_in(root, arch, checks, emulator=""):
    """Does what a user does with the products for `arch`, in a root."""
    said = compatibility.distribution(root.path) + ("" if arch == HOST else f" on {arch}")
    binds = {f"{RELEASE}:ro": "/release", f"{ROOT}/Tests/House/Release:ro": "/trial"}
    archive, package = f"/release/zguard-{VERSION}-linux-{arch}.tar.xz", f"/release/zguard_{VERSION}_{DEBIAN[arch]}.deb"
    status, out, err = root.run(["sh", "/trial/trial.sh", archive, package, "/tmp/work"], SECONDS, binds)
    passed = re.findall(r"^passed (.*)$", out, re.M)
    failed = re.findall(r"^FAILED (.*\n(?:    .*\n)*)", out, re.M)
    skipped = re.findall(r"^skipped (.*)$", out, re.M)
    for name in passed:
        checks.check(f"{said}: {name}", [])
    for text in failed:
        name, *lines = text.splitlines()
        checks.check(f"{said}: {name}", lines or ["it says nothing"])
    for name in skipped:
        print(f"skipped: {said}: {name}")
        checks.skipped += 1
    if status != 0 or len(passed) + len(failed) < 30:
        checks.check(f"{said}: the trial comes to its end", [f"status {status}", *(out + err).splitlines()[-5:]])
    compatibility.record(f"release-{arch}", "the release unpacked and installed", len(passed), len(failed), len(skipped), root=root.path,
                         architecture=arch, emulator=emulator)


def try_in_roots(names, checks):
    for name in names:
        try:
            if name in DEBIAN:
                if name not in made_for():
                    raise roots.Unavailable("it is not built")
                try_in(processors.root_of(name), name, checks, processors.emulator(name))
                continue
            root = roots.make(name, IN_ROOT)
        except (roots.Unavailable, emulation.Unavailable) as reason:
            print(f"skipped: the release in {name}: {reason}")
            checks.skipped += 1
            continue
        try_in(root, HOST, checks)
        if name in ("bookworm", "trixie"):
            integration_steps(root, checks, compatibility.distribution(root.path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only tests whose name holds this")
    parser.add_argument("--root", action="append", choices=[*TRIED, *DEBIAN], help="only these roots, or this processor's (default: all)")
    parser.add_argument("--all", action="store_true", help="for every processor, not this machine's alone")
    parser.add_argument("--built", action="store_true", help="only: everything built again in another directory has the same bytes")
    arguments = parser.parse_args()
    checks = Checks()
    shutil.rmtree(KEYS, ignore_errors=True)
    KEYS.mkdir(parents=True)
    write_keys(KEYS)
    words = [*words_for([] if arguments.all else [HOST]), "--sign", KEYS / "key"]
    made = run(ROOT / "scripts/release", *words, env={name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"})
    print(made.stdout, end="")
    tests = [same_bytes_elsewhere] if arguments.built else [
        says_what_it_is, everything_is_there, checksums_are_signed, archives_hold, needs_old_libraries_only, package_needs_what_the_program_asks_for,
        same_bytes_again, library_says_not_where_it_was_built, list_of_contents, what_is_linked_in_is_listed, integration_is_well_formed]
    for test in tests:
        if arguments.filter not in test.__name__:
            continue
        with tempfile.TemporaryDirectory(prefix="zguard-release-") as work:
            try:
                test(Path(work))
                problems = []
            except (AssertionError, Failed, subprocess.SubprocessError, OSError, ValueError, KeyError) as fault:
                problems = [f"{type(fault).__name__}: {fault}"]
        checks.check(test.__name__, problems, shows_passed=True)
    if not arguments.built:
        names = arguments.root or [*TRIED, *(arch for arch in DEBIAN if arch != HOST and arguments.all)]
        if arguments.filter in "workflow" and not arguments.root:
            workflow_runs(checks)
        try_in_roots([name for name in names if arguments.filter in name], checks)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
