"""Makes directories with another Debian, for tests that need other or fewer packages than this installation.

debootstrap makes a root, build/tests/roots keeps it, chroot enters it. Everything mounted for a program in a root is in a mount namespace
that disappears with the program.

    root = roots.make("trixie", ["libc6-dev", "swiftlang"])     # raises Unavailable with the reason if this is impossible here
    status, out, err = root.run(["swiftc", "x.swift"], seconds=600, binds={ROOT: "/product"})

A root of another processor (`processor="arm64"`) is entered in a user namespace in which qemu runs its programs (emulation.py). This
machine's tools only unpack its packages: running their scripts would take a quarter of an hour under qemu, and the tested programs do not
need them. dpkg and apt-get therefore do not work in it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from Support import emulation
from Support.checks import run_within
from Support.emulation import MIRROR, Unavailable
from Support.environment import ROOT

KEPT = ROOT / "build/tests/roots"
MAKING_SECONDS = 3600
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C", "TERM": "dumb"}

# Runs in a new mount namespace. $1: the root; then pairs of source and target of bind mounts, "--", the directory and the command. A source
# with the suffix :ro is mounted read-only. (Mounts are recursive: in another user namespace the kernel refuses mounts that would reveal
# what submounts hide.)
ENTER = r"""
set -e
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys" 2>/dev/null || :
mount -t tmpfs -o size=60%,mode=1777 tmpfs "$root/tmp"
while [ "$1" != -- ]; do
    from=${1%:ro}
    mkdir -p "$root$2"
    mount --rbind "$from" "$root$2"
    [ "$from" = "$1" ] || mount -o remount,ro,bind "$root$2"
    shift 2
done
directory=$2; shift 2
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$directory" "$@"
"""


class Root:
    """A root: `path` is its directory, `suite` its Debian, `processor` its processor if that is not this machine's (Debian's name)."""

    def __init__(self, path, suite, processor=""):
        self.path, self.suite, self.processor = path, suite, processor

    def run(self, command, seconds, binds=None, directory="/", **environment):
        """Runs a command in the root, as root, with /proc, /dev and an empty /tmp. `binds`: {directory here: directory in the root}; a
        directory with the suffix ":ro" is mounted read-only. Returns status, standard output and standard error; the status is None after a
        timeout of `seconds`."""
        return run_within(seconds, self.words(command, binds, directory), env={**ENVIRONMENT, **_proxies(), **environment})

    def words(self, command, binds=None, directory="/"):
        """Returns the command that `run` executes, for callers that start it themselves."""
        pairs = [str(word) for pair in (binds or {}).items() for word in pair]
        namespace = emulation.entering(self.processor) if self.processor else []
        return [*namespace, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.path, *pairs, "--", directory, *command]

    def has(self, path):
        """Returns whether the root has such a file; relative links are followed within the root."""
        return os.path.lexists(self.path / str(path).lstrip("/"))


def make(suite, packages=(), mirror=MIRROR, processor=""):
    """Returns a root with Debian's `suite` (bookworm, trixie, sid), the minimal variant, and these packages without recommended ones. A
    root made before with the same arguments is reused; of several processes, one makes it and the others wait."""
    reason = _why_not()
    if reason:
        raise Unavailable(reason)
    packages = sorted(packages)
    name = f"{'-'.join(filter(None, [suite, processor]))}-{hashlib.sha256(' '.join([mirror, *packages]).encode()).hexdigest()[:8]}"
    KEPT.mkdir(parents=True, exist_ok=True)
    root = Root(KEPT / name, suite, processor)
    with open(KEPT / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root.path / ".made").exists():
            shutil.rmtree(root.path, ignore_errors=True)
            _debootstrap(root, packages, mirror)
            (root.path / ".made").write_text(" ".join(packages) + "\n")
    return root


def _why_not():
    if os.geteuid() != 0:
        return "only the superuser makes a root"
    for name in ("debootstrap", "unshare", "chroot"):
        if not shutil.which(name):
            return f"{name} is not installed"
    # A container may forbid mounts even to the superuser.
    result = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stdin=subprocess.DEVNULL, capture_output=True)
    return f"nothing can be mounted: {_last_line(result.stderr)}" if result.returncode else ""


def _debootstrap(root, packages, mirror):
    made = root.path.with_name(root.path.name + ".new")
    shutil.rmtree(made, ignore_errors=True)
    foreign = [f"--arch={root.processor}", "--foreign"] if root.processor else []
    status, out, err = run_within(MAKING_SECONDS, ["debootstrap", "--variant=minbase", *foreign, root.suite, made, mirror], env={**os.environ, "LC_ALL": "C"})
    if status != 0:
        shutil.rmtree(made, ignore_errors=True)
        raise Unavailable(f"debootstrap of {root.suite} fails: {_last_line(err or out)}")
    install = _unpack if root.processor else _install
    status, out, err = install(Root(made, root.suite, root.processor), packages, mirror)
    if status != 0:
        shutil.rmtree(made, ignore_errors=True)
        raise Unavailable(f"{root.suite} has not all of {' '.join(packages)}: {_last_line(err or out)}")
    made.rename(root.path)


def _install(inside, packages, _):
    """Installs the packages with apt-get. Returns its status, output and errors."""
    # Prevents daemons from starting, and packages from asking questions.
    (inside.path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (inside.path / "usr/sbin/policy-rc.d").chmod(0o755)
    if not packages:
        return 0, "", ""
    shutil.copy("/etc/resolv.conf", inside.path / "etc/resolv.conf", follow_symlinks=True)
    install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages]
    result = inside.run(install, MAKING_SECONDS, DEBIAN_FRONTEND="noninteractive")
    inside.run(["apt-get", "clean"], MAKING_SECONDS)
    return result


def _unpack(root, packages, mirror):
    """This machine's apt-get downloads the packages with their dependencies, dpkg-deb unpacks them. Then writes the few files that the base
    packages' scripts would."""
    made, processor = root.path, root.processor
    for folder in ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"):
        (made / folder).mkdir(parents=True, exist_ok=True)
    (made / "var/lib/dpkg/status").write_text("")
    (made / "etc/apt/sources.list").write_text(f"deb {mirror} {root.suite} main\n")
    options = [f"Dir={made}", f"Dir::State::status={made}/var/lib/dpkg/status", "Dir::Etc::TrustedParts=/etc/apt/trusted.gpg.d",
               f"APT::Architecture={processor}", f"APT::Architectures::={processor}", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    for command in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", "--download-only", *packages]):
        status, out, err = run_within(MAKING_SECONDS, command, env=environment)
        if status != 0:
            return status, out, err
    archives = made / "var/cache/apt/archives"
    for package in sorted(archives.glob("*.deb")):
        status, out, err = run_within(MAKING_SECONDS, ["dpkg-deb", "--extract", package, made])
        if status != 0:
            return status, out, err
        package.unlink()
    for name in ("passwd", "group"):
        shutil.copy(made / f"usr/share/base-passwd/{name}.master", made / f"etc/{name}")
    (made / "tmp").chmod(0o1777)
    return 0, "", ""


def _proxies():
    return {name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ}


def _last_line(text):
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it says nothing"
