"""Programs with unusual uses of memory, stacks, signals and threads."""

import random
import re
import signal
import struct

from case import Case, Need
from harness import INPUTS


class LuaJit(Case):
    """Its own heap, low in the address space, and generated code."""
    name = "luajit"
    what = "generated code, its own heap, calls into libc and back, coroutines, an exhausted stack; without generated code as well"
    version = ["luajit", "-v"]
    needs = (Need("luajit", "luajit"),)
    sees = (r"luajit.*",)

    def steps(self, run):
        run.step(["luajit", INPUTS / "work_luajit.lua"])
        run.step(["luajit", "-joff", INPUTS / "work_luajit.lua"])


class Prolog(Case):
    """Stacks move when they grow, and one of them grows up to its limit."""
    name = "swi-prolog"
    what = "stacks that grow by moving, an exhausted one, threads, garbage of atoms and terms"
    needs = (Need("swipl", "swi-prolog-nox"),)
    sees = ("swipl",)

    def steps(self, run):
        run.step(["swipl", "--stack-limit=32m", INPUTS / "work.prolog"], status=3)


class ChezScheme(Case):
    name = "chez"
    what = "a collector of its own, continuations, foreign memory"
    version = ["chezscheme", "--version"]
    needs = (Need("chezscheme", "chezscheme"),)
    sees = (r"(chez)?scheme.*",)

    def steps(self, run):
        run.step(["chezscheme", "-q", "--script", INPUTS / "work.ss"], status=3)


class Solvers(Case):
    """Two solvers that count their allocations, and search until a limit."""
    name = "solvers"
    what = "z3, clingo with threads, minisat: arithmetic, strings, bit vectors, answer sets, clauses"
    needs = (Need("z3", "z3"), Need("clingo", "gringo"), Need("minisat", "minisat"))
    sees = ("z3", "clingo", "minisat")

    def setup(self, inputs):
        numbers = random.Random(5)
        clauses = [" ".join(str(numbers.choice((1, -1)) * name) for name in numbers.sample(range(1, 161), 3)) + " 0" for _ in range(675)]
        (inputs / "clauses").write_text("p cnf 160 675\n" + "\n".join(clauses) + "\n")
        (inputs / "queens").write_text("{q(I,1..10)}=1 :- I=1..10.\n:- q(I,J), q(K,J), I<K.\n:- q(I,J), q(K,L), I<K, |I-K|==|J-L|.\n")

    def steps(self, run):
        run.step(["z3", "memory_max_size=500", INPUTS / "work.smt2"])
        answers = run.step(["clingo", "-n", "0", "-V0", "--outf=0", "-t", "2", run.inputs / "queens"], status=30, stderr="any",
                           normalise=lambda text: "\n".join(sorted(" ".join(sorted(line.split())) for line in text.splitlines())))
        run.note("answers", str(len(answers.stdout.splitlines())))
        run.step(["minisat", "-verb=0", run.inputs / "clauses", "model"], status=None, stderr="any", normalise=without_times)
        run.keep("model")


def without_times(text):
    return re.sub(r"(?m)^(CPU time|Memory used|restarts|.*/sec).*\n", "", text)


class DiskImages(Case):
    """Coroutines on stacks made with sigaltstack or makecontext, and threads for blocking calls."""
    name = "qemu-img"
    what = "disk images through coroutines and threads: written, copied with 8 workers, compressed, compared, checked"
    needs = (Need("qemu-img", "qemu-utils"), Need("qemu-io", "qemu-utils"))
    sees = ("qemu-img", "qemu-io")

    def steps(self, run):
        run.step(["qemu-img", "create", "-q", "-f", "qcow2", "first", "64M"])
        run.step(["qemu-io", "-c", "write -q -P 7 0 8M", "-c", "aio_write -q -P 9 16M 4M", "-c", "aio_flush", "-c", "read -q -P 7 1M 1M", "first"])
        run.step(["qemu-img", "snapshot", "-c", "one", "first"])
        run.step(["qemu-img", "convert", "-m", "8", "-W", "-c", "-O", "qcow2", "first", "second"])
        run.step(["qemu-img", "compare", "first", "second"])
        run.step(["qemu-img", "check", "first"])
        run.step(["qemu-img", "convert", "-O", "raw", "second", "third"])
        run.keep("third")


class Fio(Case):
    """Shared memory between processes and threads; files that are mapped, or accessed through libaio."""
    name = "fio"
    what = "threads and processes that write, map and verify files, results in shared memory"
    needs = (Need("fio", "fio"),)
    sees = ("fio",)

    def steps(self, run):
        common = ["--minimal", "--directory=.", "--randseed=5", "--verify=crc32c", "--do_verify=1"]
        for words in (["--name=a", "--size=2m", "--rw=randrw", "--bs=4k", "--numjobs=3", "--ioengine=psync", "--thread"],
                      ["--name=b", "--size=1m", "--rw=randwrite", "--ioengine=libaio", "--iodepth=8", "--numjobs=2"],
                      ["--name=c", "--size=1m", "--rw=write", "--ioengine=mmap"]):
            # Version, job, error number and kilobytes read; the other fields are times.
            run.step(["fio", *words, *common], normalise=lambda text: "\n".join(";".join(line.split(";")[2:6]) for line in text.splitlines()))


class Unbound(Case):
    name = "unbound"
    what = "a resolver with 4 threads and regional allocators answers 300 questions by UDP and TCP, reads its configuration again"
    version = ["unbound", "-V"]
    needs = (Need("unbound", "unbound"), Need("dig", "bind9-dnsutils"))
    sees = ("unbound", "dig")

    def steps(self, run):
        port = run.port()
        data = "\n".join(f' local-data: "h{i}.example.test. A 10.0.{i // 250}.{i % 250}"' for i in range(300))
        (run.dir / "conf").write_text(f"""server:
 interface: 127.0.0.1@{port}
 do-daemonize: no
 username: ""
 chroot: ""
 directory: "{run.dir}"
 pidfile: "{run.dir}/pid"
 use-syslog: no
 logfile: "{run.dir}/log"
 num-threads: 4
 module-config: "iterator"
 local-zone: "example.test." static
{data}
""")
        (run.dir / "names").write_text("".join(f"h{i}.example.test\n" for i in range(0, 300, 3)))
        server = run.spawn(["unbound", "-c", run.dir / "conf"], stderr="any")
        server.wait_for(port)
        dig = ["dig", "@127.0.0.1", "-p", str(port), "+tries=5"]
        run.step([*dig, "+short", "-f", "names"])
        run.step([*dig, "+tcp", "+short", "h7.example.test", "h8.example.test", "TXT"])
        run.step([*dig, "+noall", "+comments", "absent.example.test"], normalise=lambda text: re.sub(r"id: \d+", "", text))
        server.send("unbound", signal.SIGHUP)
        run.step([*dig, "+short", "h299.example.test"])
        server.stop("unbound")


class Tarantool(Case):
    name = "tarantool"
    what = "100 fibers on stacks of their own, an arena for tuples, generated code, a log and a snapshot written by threads"
    needs = (Need("tarantool", "tarantool"),)
    sees = ("tarantool",)

    def steps(self, run):
        run.step(["tarantool", INPUTS / "work_tarantool.lua"], status=3)


class PacketReaders(Case):
    name = "tcpdump"
    what = "2,000 packets of a file decoded, filtered by compiled programs, written again"
    needs = (Need("tcpdump", "tcpdump"),)
    sees = ("tcpdump",)

    def setup(self, inputs):
        data = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
        for i in range(2000):
            payload = bytes((i * j) & 255 for j in range(i % 200))
            packet = (b"\1" * 6 + b"\2" * 6 + b"\x08\0"
                      + struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), i, 0, 64, 17, 0, bytes([10, 0, 0, i % 250]), bytes([10, 0, 1, 2]))
                      + struct.pack(">HHHH", 53 if i % 3 else 67, 1024 + i, 8 + len(payload), 0) + payload)
            data.append(struct.pack("<IIII", 1700000000 + i, i, len(packet), len(packet)) + packet)
        (inputs / "packets").write_bytes(b"".join(data))

    def steps(self, run):
        # -Z root: otherwise tcpdump drops root's rights and cannot read the file.
        reader = ["tcpdump", "-nn", "-Z", "root", "-r", run.inputs / "packets"]
        run.step([*reader, "-vvv", "-X"])
        run.step([*reader, "-w", "some", "udp and (port 53 or net 10.0.0.0/28) and ip[8] < 100"])
        run.step(["tcpdump", "-d", "tcp port 80 and host 10.1.2.3"])
        run.keep("some")


# Stressors in few rounds: bad alternate stacks, jumps out of handlers, contexts, faults of every kind, filters, ends of other processes,
# protected and locked memory. None fills memory or the disk.
STRESSORS = {"bad-altstack": 20, "clone": 20, "context": 200, "exit-group": 10, "longjmp": 500, "mlock": 20, "pkey": 10, "pthread": 100, "ptrace": 50,
             "rseq": 50, "seccomp": 10, "sigabrt": 10, "sigchld": 20, "sigfpe": 30, "signest": 20, "sigsegv": 100, "sigsuspend": 20, "sigtrap": 20,
             "usersyscall": 50, "vfork": 30, "vm-segv": 5}


class StressNg(Case):
    name = "stress-ng"
    what = f"{len(STRESSORS)} of its stressors, a few rounds each, verified: alternate stacks, contexts, jumps, faults, filters, forks, threads"
    needs = (Need("stress-ng", "stress-ng"),)
    sees = ("stress-ng",)

    def steps(self, run):
        for name, rounds in STRESSORS.items():
            run.step(["stress-ng", f"--{name}", "1", f"--{name}-ops", str(rounds), "--verify", "--timeout", "60", "--seed", "5", "--quiet",
                      "--temp-path", "."])
