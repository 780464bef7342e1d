"""Databases, git, and programs that compress, sort and sign."""

import hashlib
import json
import os
import shutil
import subprocess

import generate
from case import Case, Need
from harness import CaseError


class Sqlite(Case):
    name = "sqlite3"
    what = "up to a million rows: queries, indexes, a dump"
    needs = (Need("sqlite3", "sqlite3"),)
    sees = ("sqlite3",)

    def setup(self, inputs):
        (inputs / "work.sql").write_text(generate.sql(int(1_000_000 * self.size)))

    def steps(self, run):
        run.step(["sqlite3", "work.db"], stdin=run.inputs / "work.sql")
        run.step(["sqlite3", "work.db", ".dump shelf"])
        run.keep("work.db")


class Git(Case):
    name = "git"
    what = "clone, log, blame, diff, rebase, merge, gc, fsck of 3,000 commits"
    needs = (Need("git", "git"),)
    sees = ("git",)

    def setup(self, inputs):
        generate.git_repository(inputs / "origin.git", commits=3000)

    def steps(self, run):
        git = ["git", "-c", "gc.auto=0", "-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"]
        run.step([*git, "clone", "--no-local", "-q", run.inputs / "origin.git", "copy"])
        inside = [*git, "-C", "copy", "-c", "core.pager=cat", "-c", "user.name=A", "-c", "user.email=a@example.invalid"]
        run.step([*inside, "log", "-p", "--stat", "-M", "--date=iso"])
        run.step([*inside, "blame", "part3/file3.txt"])
        run.step([*inside, "diff", "--word-diff", "HEAD~300", "HEAD"])
        run.step([*inside, "grep", "-n", "-E", "amber [0-9]{3}", "HEAD~50"])
        dated = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
        run.step([*inside, "checkout", "-q", "-b", "side", "HEAD~20"])
        (run.dir / "copy" / "new.txt").write_text("new\n")
        run.step([*inside, "add", "new.txt"])
        run.step([*inside, "commit", "-q", "-m", "A new file"], env=dated)
        run.step([*inside, "rebase", "-q", "main"], env=dated, stderr="any")
        run.step([*inside, "merge", "-q", "--no-ff", "-m", "Merge", "main~3"], env=dated)
        run.step([*inside, "gc", "-q", "--prune=now"])
        run.step([*inside, "fsck", "--full", "--strict", "--no-progress"])
        run.step([*inside, "log", "--graph", "--oneline", "--all", "-300"])


class Redis(Case):
    """A server under load that forks to save. `zguard stats` reads its statistics while it runs."""
    name = "redis"
    what = "a server under redis-benchmark, scripts, a save by fork, restart"
    needs = (Need("redis-server", "redis-server"), Need("redis-benchmark", "redis-tools"), Need("redis-cli", "redis-tools"))
    # Debian's redis-server is a link to the same executable as redis-check-rdb.
    sees = (r"redis-(server|check-rdb)", "redis-benchmark")

    def steps(self, run):
        port = str(run.port())
        server = self.start(run, port)
        load = run.step(["redis-benchmark", "-p", port, "-t", "set,get,lpush,lrange_100,mset,hset,sadd,zadd", "-n", int(20_000 * self.size),
                         "-r", "5000", "-d", "64", "-q"], normalise=lambda text: "", stderr="any")
        run.note("benchmark", str(load.status))
        self.ask(port, "FLUSHALL")
        commands = [f"SET key:{i} value-{i * 7919 % 10007}" for i in range(20000)]
        commands += [f"HSET hash:{i % 50} field{i} {i * i}" for i in range(5000)]
        commands += [f"RPUSH list:{i % 20} {i} {i + 1} {i + 2}" for i in range(5000)]
        commands += [f"ZADD sorted:{i % 10} {i * 31 % 997} member{i}" for i in range(5000)]
        commands += [f"DEL key:{i}" for i in range(0, 20000, 3)]
        commands += ["EVAL \"local t={} for i=1,2000 do t[i]=redis.call('get','key:'..i) or 'none' end return #table.concat(t)\" 0",
                     "SORT list:3 DESC LIMIT 0 5", "MEMORY DOCTOR", "DEBUG RELOAD", "DBSIZE", "DEBUG DIGEST"]
        self.ask(port, *commands, "CONFIG SET activedefrag no")
        run.note("state", self.ask(port, "DBSIZE", "DEBUG DIGEST", "ZRANGE sorted:4 0 5 WITHSCORES", "LLEN list:7"))
        self.statistics(run, server)
        run.note("save", self.ask(port, "BGSAVE"))
        server.until(lambda: "rdb_bgsave_in_progress:0" in self.ask(port, "INFO persistence"), "BGSAVE ends", seconds=10)
        run.note("saved", "ok" if "rdb_last_bgsave_status:ok" in self.ask(port, "INFO persistence") else "failed")
        self.ask(port, "SHUTDOWN NOSAVE")
        server.wait()
        server = self.start(run, port)
        run.note("reloaded", self.ask(port, "DBSIZE", "DEBUG DIGEST", "HGET hash:7 field57"))
        self.ask(port, "SHUTDOWN NOSAVE")
        server.wait()

    def start(self, run, port):
        # The log contains process ids and times, and so goes to a file.
        server = run.spawn(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", run.dir, "--save", "",
                            "--logfile", run.dir / "redis.log", "--enable-debug-command", "local", "--daemonize", "no"])
        server.until(lambda: subprocess.run(["redis-cli", "-p", port, "PING"], capture_output=True).stdout == b"PONG\n", "it answers", port=port)
        return server

    def ask(self, port, *commands):
        return subprocess.run(["redis-cli", "-p", port], input="\n".join(commands) + "\n", capture_output=True, text=True,
                              timeout=60).stdout

    def statistics(self, run, server):
        """`zguard stats PID --json` must show this process and its blocks."""
        if not run.guard or not run.guard.zguard:
            return
        pid = server.program_pid(self.sees[0])
        result = subprocess.run([str(run.guard.zguard), "stats", str(pid), "--json"], capture_output=True, text=True, timeout=30)
        try:
            numbers = dict(scalars(json.loads(result.stdout)))
        except ValueError:
            raise CaseError(f"zguard stats {pid} --json: not JSON (status {result.returncode}): {result.stderr[:200]}") from None
        if numbers.get("pid") != pid or not numbers.get("live_blocks", 0) > 0 or numbers.get("findings", 0) != 0:
            raise CaseError(f"zguard stats {pid} --json does not show a guarded server: {result.stdout[:300]}")


def scalars(value, name=""):
    """Yields all numbers in a JSON value, with their names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from scalars(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from scalars(inner, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


class Archive(Case):
    """tar, gzip, xz with threads, zstd if installed; packs and unpacks."""
    name = "tar-xz"
    what = "tar, xz with threads, gzip, bzip2, and back"
    needs = (Need("tar", "tar"), Need("gzip", "gzip"), Need("xz", "xz-utils"), Need("bzip2", "bzip2"))
    sees = ("xz", "bzip2")

    def setup(self, inputs):
        for number in range(40):
            folder = inputs / "tree" / f"dir{number % 6}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"file{number}.txt").write_text(generate.text_lines(2500, seed=number))
            os.utime(folder / f"file{number}.txt", (1700000000, 1700000000))

    def steps(self, run):
        run.step(["tar", "--sort=name", "--mtime=@1700000000", "--owner=0", "--group=0", "--numeric-owner",
                  "-C", run.inputs, "-cf", "a.tar", "tree"])
        run.step(["xz", "-k", "-3", "-T2", "--block-size=1MiB", "a.tar"])
        run.step(["gzip", "-k", "-n", "-6", "a.tar"])
        run.step(["bzip2", "-k", "a.tar"])
        run.keep("a.tar*")
        for name in ("a.tar.xz", "a.tar.gz", "a.tar.bz2"):
            run.step(["tar", "-tvf", name])
        (run.dir / "out").mkdir()
        run.step(["tar", "-C", "out", "-xJf", "a.tar.xz"])
        run.step(["diff", "-r", run.inputs / "tree", "out/tree"])


class Text(Case):
    """sort with a small buffer and threads, awk, sed, grep, join, uniq on one large file."""
    name = "sort-awk"
    what = "sort with threads, awk, sed, grep on 250,000 lines"
    needs = (Need("sort", "coreutils"), Need("awk", "mawk"), Need("gawk", "gawk"), Need("sed", "sed"), Need("grep", "grep"))
    sees = ("sort", "gawk")

    def setup(self, inputs):
        (inputs / "text").write_text(generate.text_lines(250_000))

    def steps(self, run):
        source = run.inputs / "text"
        run.step(["sort", "-S", "8M", "--parallel=2", "-t", "\t", "-k2,2", "-k3n", source, "-o", "sorted"])
        script = ('{ split($2, w, " "); n[w[1]] += $3; t[w[2]] = t[w[2]] substr($4, 1, 1); if (length(t[w[2]]) > 200) t[w[2]] = "" } '
                  'END { for (k in n) print k, n[k] % 99991, length(t[k]) | "sort" }')
        for awk in ("gawk", "awk"):
            run.step([awk, "-F\t", script, source])
        run.step(["sed", "-E", "s/([a-z]+)-([0-9]+)$/\\2\\1/; /^0/d; y/abc/xyz/", source])
        run.step(["grep", "-c", "-E", "(amber|cedar).*(zenith|delta)-[0-9]*7", source])
        run.step(["sh", "-c", f"cut -f2 '{source}' | sort | uniq -c | sort -rn | head -20 | tac | nl | paste - - | fmt -w 60"])
        run.keep("sorted")


class Openssl(Case):
    """Digests, ciphers, keys and certificates; then a server and a client on the loopback interface."""
    name = "openssl"
    what = "digests, ciphers, signatures, certificates, a TLS server and clients"
    version = ["openssl", "version"]
    needs = (Need("openssl", "openssl"),)
    sees = ("openssl",)

    def setup(self, inputs):
        (inputs / "text").write_text(generate.text_lines(400_000))
        for command in (["genrsa", "-out", "rsa.key", "2048"], ["genpkey", "-algorithm", "ed25519", "-out", "ed.key"],
                        ["req", "-x509", "-key", "rsa.key", "-subj", "/CN=localhost", "-days", "30", "-out", "cert.pem"]):
            subprocess.run(["openssl", *command], cwd=inputs, check=True, capture_output=True)

    def steps(self, run):
        text = run.inputs / "text"
        run.step(["openssl", "dgst", "-sha512", text])
        run.step(["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-iter", "200000", "-S", "0011223344556677", "-pass", "pass:x",
                  "-in", text, "-out", "text.enc"])
        run.step(["openssl", "enc", "-d", "-aes-256-cbc", "-pbkdf2", "-iter", "200000", "-S", "0011223344556677", "-pass", "pass:x",
                  "-in", "text.enc", "-out", "text.dec"])
        run.step(["openssl", "dgst", "-sha256", "-sign", run.inputs / "rsa.key", "-out", "rsa.sig", text])
        run.step(["openssl", "pkeyutl", "-sign", "-inkey", run.inputs / "ed.key", "-rawin", "-in", run.inputs / "cert.pem", "-out", "ed.sig"])
        run.step(["openssl", "x509", "-in", run.inputs / "cert.pem", "-noout", "-text"])
        run.step(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "new.key", "-subj", "/CN=new", "-out", "new.pem"],
                 stderr="any")
        run.step(["openssl", "verify", "-CAfile", "new.pem", "new.pem"])
        run.keep("text.*", "*.sig")
        port = str(run.port())
        server = run.spawn(["openssl", "s_server", "-accept", port, "-key", run.inputs / "rsa.key", "-cert", run.inputs / "cert.pem",
                            "-WWW", "-quiet", "-naccept", "12"], stderr="any")
        shutil.copy(run.inputs / "cert.pem", run.dir / "page.txt")
        server.wait_for(port)  # the first of the twelve connections
        for _ in range(11):
            client = run.step(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet", "-servername", "localhost"],
                              stdin=b"GET /page.txt HTTP/1.0\r\n\r\n", stderr="any")
            if b"BEGIN CERTIFICATE" not in client.stdout:
                raise CaseError("openssl s_client received no page")
        server.wait()


class Curl(Case):
    """A guarded web server, and guarded clients with parallel transfers."""
    name = "curl"
    what = "a web server in python3 and parallel transfers"
    needs = (Need("curl", "curl"), Need("python3", "python3"))
    sees = ("curl", r"python3[.\d]*")

    def setup(self, inputs):
        for number in range(30):
            (inputs / f"{number}.txt").write_text(generate.text_lines(200 + 400 * number, seed=number))

    def steps(self, run):
        from cases_languages import PYTHON
        port = str(run.port())
        server = run.spawn([PYTHON, "-c", SERVER, port, run.inputs], stderr="any")
        server.wait_for(port)
        for index in range(4):
            run.step(["curl", "-sS", "--no-progress-meter", "--parallel", "--fail", f"http://127.0.0.1:{port}/[0-29].txt", "-o", f"got{index}-#1.txt"])
        run.step(["curl", "-sS", "-I", "-o", "/dev/null", "-w", "%{http_code} %{content_type} %{size_header}\n", f"http://127.0.0.1:{port}/3.txt"])
        run.step(["curl", "-s", "--fail", f"http://127.0.0.1:{port}/absent"], status=22)
        run.step(["curl", "-sS", "--data-binary", f"@{run.inputs}/9.txt", f"http://127.0.0.1:{port}/post"])
        run.step(["curl", "-sS", f"http://127.0.0.1:{port}/stop"])
        server.wait()
        run.keep("got*.txt")
        run.note("sources", hashlib.sha256(b"".join((run.dir / f"got0-{n}.txt").read_bytes() for n in range(30))).hexdigest())


SERVER = """
import functools, http.server, sys, threading
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200); self.end_headers(); self.wfile.write(b'%d bytes\\n' % len(body))
    def do_GET(self):
        if self.path == '/stop':
            self.send_response(200); self.end_headers()
            threading.Thread(target=server.shutdown).start()
        else:
            super().do_GET()
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), functools.partial(Handler, directory=sys.argv[2]))
server.serve_forever()
"""


class Jq(Case):
    name = "jq"
    what = "groups, regular expressions, a parse error"
    needs = (Need("jq", "jq"),)
    sees = ("jq",)

    def setup(self, inputs):
        rows = generate.text_lines(30_000).splitlines()
        fields = ("key", "words", "number", "code")
        (inputs / "rows.json").write_text(json.dumps([dict(zip(fields, row.split("\t"))) for row in rows]))

    def steps(self, run):
        source = run.inputs / "rows.json"
        run.step(["jq", "-c", "group_by(.words) | map({words: .[0].words, sum: (map(.number | tonumber) | add)}) | .[:30]", source])
        run.step(["jq", "-r", '.[] | select(.code | test("delta-[0-9]*3$")) | [.key, .words, .code] | @csv', source])
        run.step(["jq", "-n", "[range(20000)] | map(tostring) | join(\",\") | length"])
        run.step(["jq", ".[", source], status=3)
