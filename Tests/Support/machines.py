"""Runs commands in whole machines of another processor, emulated by QEMU with Debian's kernel.

Unlike qemu's user mode, a machine has real signal frames, page tables and memory tags. It sees a root of this machine (roots.py) and other
shared directories. It may write to all of them, but writes are discarded, except in directories given as `kept`. All output goes to its
serial line. The machine ends with its process.

    machine = machines.make("bookworm")                       # raises Unavailable with the reason if this is impossible here
    status, said = machine.run(root.path, ["uname", "-m"], seconds=120)
"""

import gzip
import lzma
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

from Support import emulation, roots
from Support.checks import run_within
from Support.emulation import Unavailable
from Support.roots import ENVIRONMENT, KEPT, MIRROR

QEMU = "qemu-system-aarch64"
# QEMU before version 8 has one MTE tag for each page, not for each 16 bytes. If QEMU is older here, a Debian 13 root's QEMU is used.
TAGS_SINCE, TAGS_SUITE = (8,), "trixie"
HOST = "/host"  # mount point of this machine's files in the root
MEMORY_MIB = 3072
BEGINS, ENDS = "== the machine begins ==", "== the machine ends with "
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]

# Process 1: mounts the shared directories, with overlays in memory for writes; then runs the script /job in the root.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
mount -t tmpfs tmpfs /written
share() { # tag, directory
    mkdir -p /shared/$1 /written/$1 /written/$1.work "$2"
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose $1 /shared/$1
    mount -t overlay -o lowerdir=/shared/$1,upperdir=/written/$1,workdir=/written/$1.work overlay "$2"
}
keep() { # tag, directory
    mkdir -p "$2"
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 $1 "$2"
}
share root /root
cp /job /root/.job
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount --bind /dev /root/dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /root/tmp
while read -r how tag directory; do $how $tag "/root$directory"; done < /shares
ip link set lo up
echo 1 > /proc/sys/kernel/printk
echo "BEGINS"
chroot /root /bin/sh /.job < /dev/null 2>&1
echo "ENDS$?"
poweroff -f
""".replace("BEGINS", BEGINS).replace("ENDS", ENDS)


class Machine:
    def __init__(self, path, root=None):
        self.path, self.root = path, root

    def emulating(self, words):
        """Returns the QEMU command, prefixed so that it runs in the root if Debian 13's QEMU is used."""
        return [str(word) for word in words] if self.root is None else self.root.words([str(word) for word in words], {"/": HOST})

    def run(self, root, command, seconds, shares=None, kept=None, directory="/", cpu="max,pauth-impdef=on", machine="virt,mte=on,gic-version=3", **environment):
        """Boots and runs a command as superuser in `root` (a directory of this machine). `shares`: {directory here: directory in the
        machine}; `kept`: the same, but writes change the directory here. Returns status and output; the status is None after a timeout of
        `seconds`."""
        shared = [("share", *pair) for pair in (shares or {}).items()] + [("keep", *pair) for pair in (kept or {}).items()]
        variables = [f"{name}={value}" for name, value in {**ENVIRONMENT, **environment}.items()]
        job = f"cd {shlex.quote(str(directory))} && exec env -i {shlex.join([*variables, *(str(word) for word in command)])}\n"
        with tempfile.NamedTemporaryFile(prefix="zguard-machine-") as image:
            with gzip.GzipFile(fileobj=image, mode="wb", compresslevel=1, mtime=0) as packed:
                archive = Archive(packed)
                archive.add("/init", INIT.encode(), 0o755)
                archive.add("/job", job.encode())
                archive.add("/shares", "".join(f"{how} t{number} {inside}\n" for number, (how, _, inside) in enumerate(shared)).encode())
                archive.add("/bin/busybox", (self.path / "busybox").read_bytes(), 0o755)
                for path in sorted((self.path / "modules").iterdir()):
                    archive.add(f"/modules/{path.name}", path.read_bytes())
                for name in ("proc", "dev", "root", "shared", "written"):
                    archive.add_directory("/" + name)
                archive.end()
            image.flush()
            host = HOST if self.root else ""
            words = [QEMU, "-machine", machine, "-cpu", cpu, "-m", MEMORY_MIB, "-smp", 2, "-nographic", "-no-reboot", "-nic", "none",
                     "-kernel", f"{host}{self.path}/vmlinuz", "-initrd", host + image.name, "-append", "console=ttyAMA0 quiet panic=-1 loglevel=1"]
            for tag, path, access in [("root", root, "on"), *((f"t{number}", path, "off" if how == "keep" else "on")
                                                              for number, (how, path, _) in enumerate(shared))]:
                words += ["-virtfs", f"local,path={host}{Path(path).resolve()},mount_tag={tag},security_model=none,readonly={access},multidevs=remap"]
            _, out, err = run_within(seconds, self.emulating(words))
        said = out.replace("\r\n", "\n")
        began, text = said.partition(BEGINS + "\n")[1:]
        before, ended, status = text.rpartition(ENDS)
        return (int(status.split()[0]), before) if ended else (None, text if began else said + err)


class Archive:
    """Writes an initial file system for the kernel: cpio's "new" ASCII format (the kernel's Documentation/driver-api/early-userspace,
    buffer-format.rst)."""

    def __init__(self, stream):
        self.stream, self.inode, self.known = stream, 0, set()

    def _write(self, name, mode, data=b""):
        self.inode += 1
        name = name.lstrip("/").encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        self.stream.write(header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4))

    def _parents(self, name):
        for parent in reversed(Path(name).parents):
            self.add_directory(str(parent))

    def add_directory(self, name):
        if name != "/" and name not in self.known:
            self.known.add(name)
            self._parents(name)
            self._write(name, 0o040755)

    def add(self, name, data, mode=0o644):
        self._parents(name)
        if name not in self.known:
            self.known.add(name)
            self._write(name, 0o100000 | mode, data)

    def end(self):
        self._write("TRAILER!!!", 0)


def emulator(machine):
    """Returns a name such as "qemu-system 7.2"."""
    said = subprocess.run(machine.emulating([QEMU, "--version"]), capture_output=True, text=True).stdout
    return "qemu-system " + (re.findall(r"version (\d+\.\d+)", said) or ["of an unknown version"])[0]


def make(suite, mirror=MIRROR, with_tags=False):
    """Returns a machine with Debian's arm64 kernel of `suite`, such as "sid", or "sid-16k" for the kernel with 16 KiB pages; packages are
    downloaded once and kept. `with_tags`: memory tags must work."""
    for name in (QEMU, "dpkg-deb", "apt-get"):
        if not shutil.which(name):
            raise Unavailable(f"{name} is not installed")
    path = KEPT / f"machine-{suite}-arm64"
    if not (path / "vmlinuz").exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as making:
            _fetch(Path(making), *suite.partition("-")[::2], mirror)
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(Path(making) / "machine", path)
    if not with_tags or emulation.version(QEMU) >= TAGS_SINCE:
        return Machine(path)
    return Machine(path, roots.make(TAGS_SUITE, ["qemu-system-arm"], mirror))


def _fetch(making, suite, kind, mirror):
    """Downloads and unpacks the kernel, its modules and busybox, with a separate apt configuration for arm64."""
    for name in ("state/lists/partial", "cache/archives/partial", "machine", "packages"):
        (making / name).mkdir(parents=True)
    (making / "status").touch()
    (making / "sources").write_text(f"deb {mirror} {suite} main\n")
    (making / "conf").write_text(f"""
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "root";
Dir::State "{making}/state";
Dir::State::status "{making}/status";
Dir::Cache "{making}/cache";
Dir::Etc::sourcelist "{making}/sources";
Dir::Etc::sourceparts "-";
""")
    environment = {**os.environ, "APT_CONFIG": str(making / "conf"), "LC_ALL": "C"}

    def apt(*words):
        result = subprocess.run(words, env=environment, cwd=making / "packages", stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode:
            raise Unavailable(f"{' '.join(words)}: {(result.stderr or result.stdout).strip().splitlines()[-1:]}")
        return result.stdout

    apt("apt-get", "-q", "update")
    # The kernel and its modules are one package or two, depending on the suite.
    kernel, asked = [], ["-".join(filter(None, ["linux-image-arm64", kind]))]
    while asked:
        said = apt("apt-cache", "depends", asked.pop())
        new = set(re.findall(r"Depends: (linux-(?:image|binary|modules)-\d\S*)", said)) - set(kernel)
        kernel += new
        asked += new
    apt("apt-get", "-q", "download", *kernel, "busybox-static")
    for package in (making / "packages").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, making / "unpacked"], check=True)
    (making / "machine/vmlinuz").write_bytes(_without_loader(_kernel_in(making / "unpacked").read_bytes()))
    shutil.copy(next((making / "unpacked").glob("**/bin/busybox")), making / "machine/busybox")
    _take_modules(making / "unpacked", making / "machine/modules")


def _kernel_in(unpacked):
    return next(path for path in sorted(unpacked.glob("**/vmlinuz*")) if path.is_file())


def _without_loader(image):
    """Returns an image that QEMU can start. Newer kernels are compressed inside an EFI program
    (drivers/firmware/efi/libstub/zboot-header.S), which only later QEMU versions can unpack."""
    if image[4:8] != b"zimg":
        return image
    start, size = struct.unpack_from("<II", image, 8)
    how, payload = image[24:56].rstrip(b"\0").split(b"\0")[0].decode(), image[start:start + size]
    if how == "gzip":
        return zlib.decompressobj(31).decompress(payload)
    tools = {"zstd": ["zstd", "-dc"], "zstd22": ["zstd", "-dc"], "xzkern": ["xz", "-dc"], "lzma": ["xz", "-dc", "--format=lzma"]}
    if how not in tools or not shutil.which(tools[how][0]):
        raise Unavailable(f"the kernel is compressed by {how}")
    return subprocess.run(tools[how], input=payload, capture_output=True).stdout


def _take_modules(unpacked, modules):
    """Copies MODULES and their dependencies, and writes their load order. A module's dependencies are in its section .modinfo (modinfo(8));
    a module without a file is built into the kernel. Newer kernels compress the files."""
    for path in unpacked.glob("**/*.ko.xz"):
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
    paths = {path.name.partition(".")[0].replace("-", "_"): path for path in unpacked.glob("**/*.ko")}
    order = []

    def take(name):
        path = paths.get(name)
        if path is None or name in order:
            return
        for needed in re.findall(rb"\0depends=([^\0]*)\0", path.read_bytes())[0].decode().split(","):
            take(needed.replace("-", "_"))
        order.append(name)

    modules.mkdir()
    for name in MODULES:
        take(name)
    for name in order:
        shutil.copy(paths[name], modules / f"{name}.ko")
    (modules / "order").write_text("".join(f"{name}.ko\n" for name in order))
