"""Network programs: secure shell, tunnels, copies, and servers written in other languages."""

import os
import pwd
import shutil
import signal
import socket
import subprocess

import generate
from case import Case, Need
from cases_languages import PYTHON, PYTHON_NEED
from cases_web import WebServer, certificate, fetch
from harness import INPUTS


class Ssh(Case):
    """The server executes itself again for each connection, gives up root, and puts its child under a seccomp filter. It starts
    programs with a clean environment: the user's shell and sftp-server run unguarded."""
    name = "sshd"
    what = "commands, scp, sftp and a forwarded port over loopback; the server's unprivileged child runs under seccomp"
    version = ["ssh", "-V"]
    needs = (Need("/usr/sbin/sshd", "openssh-server"), Need("ssh", "openssh-client"), Need("sftp", "openssh-client"))
    sees = ("sshd", "ssh", "scp", "sftp")
    unguarded = ("bash", "dash", "sh", "sftp-server", "cat", "wc", "sort", "seq")  # sshd starts them with a clean environment

    def setup(self, inputs):
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", inputs / name], check=True)
        (inputs / "text").write_text(generate.text_lines(30_000))

    def steps(self, run):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        port = run.port()
        (run.dir / "sshd_config").write_text(f"""
Port {port}
ListenAddress 127.0.0.1
HostKey {run.inputs}/host
AuthorizedKeysFile {run.inputs}/user.pub
PidFile {run.dir}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
Subsystem sftp /usr/lib/openssh/sftp-server
""")
        server = run.spawn(["/usr/sbin/sshd", "-D", "-e", "-f", run.dir / "sshd_config"], stderr="any")
        server.wait_for(port)
        options = ["-F", "none", "-i", run.inputs / "user", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={run.dir}/known",
                   "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"]
        target = pwd.getpwuid(os.geteuid()).pw_name + "@127.0.0.1"
        ssh = ["ssh", *options, "-p", str(port)]
        run.step([*ssh, target, "echo hello; seq 1 50000 | sort -r | wc; exit 7"], status=7)
        run.step([*ssh, target, "cat | wc -c"], stdin=run.inputs / "text")
        run.step([*ssh, "-C", "-c", "aes256-gcm@openssh.com", target, f"cat '{run.inputs}/text'"])
        run.step(["scp", *options, "-q", "-P", str(port), run.inputs / "text", f"{target}:{run.dir}/copied"])
        run.step(["scp", *options, "-q", "-O", "-P", str(port), f"{target}:{run.dir}/copied", "back"])
        (run.dir / "batch").write_text(f"cd {run.dir}\nput copied put\nget put got\nrename put put2\nls -1\nrm put2\nbye\n")
        run.step(["sftp", *options, "-q", "-b", "batch", "-P", str(port), target], normalise=lambda text: "\n".join(
            sorted(line for line in text.splitlines() if not line.startswith("sftp> cd"))))
        forwarded = run.port()
        tunnel = run.spawn([*ssh, "-N", "-L", f"127.0.0.1:{forwarded}:127.0.0.1:{port}", target])
        tunnel.wait_for(forwarded)
        run.step(["ssh", *options, "-p", str(forwarded), target, "echo through"])
        tunnel.stop("ssh")
        run.keep("copied", "back", "got")
        server.stop("sshd")


class Rsync(Case):
    """A daemon, and clients that send and fetch, with changes and deletions."""
    name = "rsync"
    what = "a daemon; trees sent, changed, sent again with checksums and compression, fetched, listed"
    needs = (Need("rsync", "rsync"),)
    sees = ("rsync",)

    def setup(self, inputs):
        for number in range(60):
            folder = inputs / "tree" / f"d{number % 5}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.txt").write_text(generate.text_lines(number * 60, seed=number))
            os.utime(folder / f"{number}.txt", (1700000000, 1700000000))

    def steps(self, run):
        port = run.port()
        (run.dir / "module").mkdir()
        os.utime(run.dir / "module", (1600000000, 1600000000))
        (run.dir / "conf").write_text(f"use chroot = no\n[m]\npath = {run.dir}/module\nread only = no\n"
                                      + ("uid = root\ngid = root\n" if os.geteuid() == 0 else ""))
        server = run.spawn(["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={run.dir}/conf",
                            f"--log-file={run.dir}/log"])
        server.wait_for(port)
        there = f"rsync://127.0.0.1:{port}/m/"
        run.step(["rsync", "-rt", "-v", "-z", f"{run.inputs}/tree/", there], normalise=without_rates)
        shutil.copytree(run.inputs / "tree", run.dir / "changed")
        for number in range(0, 60, 4):
            path = run.dir / "changed" / f"d{number % 5}" / f"{number}.txt"
            text = path.read_text()
            path.write_text(text[:len(text) // 2] + "inserted\n" + text[len(text) // 2:])
        shutil.rmtree(run.dir / "changed" / "d3")
        run.step(["rsync", "-rc", "-v", "--delete", "--no-whole-file", "--stats", "changed/", there], normalise=without_rates)
        run.step(["rsync", "-rt", "-v", "--checksum-choice=md5", there, "fetched/"], normalise=without_rates)
        run.step(["rsync", "-r", there + "absent", "nowhere/"], status=23)
        run.step(["diff", "-r", "changed", "fetched"])
        run.keep("fetched/**/*.txt")
        server.stop("rsync")


def without_rates(text):
    return "\n".join(line for line in text.splitlines()
                     if not line.startswith(("sent ", "total size", "File list", "Total bytes", "Literal", "Matched")))


class Stunnel(Case):
    """TLS in threads at both ends, in front of the driver's own echo server."""
    name = "stunnel"
    what = "a TLS server and a TLS client in front of an echo server, 8 connections at once, certificates checked"
    version = ["stunnel4", "-version"]
    needs = (Need("stunnel4", "stunnel4"), Need("openssl", "openssl"))
    sees = (r"stunnel4?",)

    def setup(self, inputs):
        certificate(inputs)

    def steps(self, run):
        import hashlib
        import socketserver
        import threading
        from concurrent.futures import ThreadPoolExecutor

        class Echo(socketserver.BaseRequestHandler):
            def handle(self):
                while data := self.request.recv(65536):
                    self.request.sendall(data)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        echo = Server(("127.0.0.1", 0), Echo)
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        outer, inner = run.port(), run.port()
        (run.dir / "server.conf").write_text(f"foreground = yes\npid =\n[in]\naccept = 127.0.0.1:{outer}\nconnect = 127.0.0.1:{echo.server_address[1]}\n"
                                             f"cert = {run.inputs}/cert.pem\nkey = {run.inputs}/key.pem\n")
        (run.dir / "client.conf").write_text(f"foreground = yes\npid =\n[out]\nclient = yes\naccept = 127.0.0.1:{inner}\nconnect = 127.0.0.1:{outer}\n"
                                             f"CAfile = {run.inputs}/cert.pem\nverifyPeer = yes\n")
        ends = [run.spawn(["stunnel4", run.dir / f"{name}.conf"], stderr="any") for name in ("server", "client")]
        try:
            ends[0].wait_for(outer)
            ends[1].wait_for(inner)

            def talk(number):
                data, got = os.urandom(200_000 + number), b""
                with socket.create_connection(("127.0.0.1", inner), 120) as connection:
                    sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
                    sender.start()
                    while part := connection.recv(65536):
                        got += part
                    sender.join()
                return "same" if hashlib.sha256(got).digest() == hashlib.sha256(data).digest() else f"{len(got)} bytes of {len(data)}"

            with ThreadPoolExecutor(8) as pool:
                run.note("echoes", " ".join(pool.map(talk, range(40))))
            for end in ends:
                end.stop(self.sees[0])
        finally:
            echo.shutdown()
            echo.server_close()


class Asyncio(Case):
    name = "python3-asyncio"
    what = "an asyncio server with 200 clients, threads, processes, cancelled tasks"
    needs = (PYTHON_NEED,)
    sees = (r"python3[.\d]*",)

    def steps(self, run):
        run.step([PYTHON, INPUTS / "asyncio_load.py"])


class NodeServer(WebServer):
    name = "node-http"
    what = "two workers of a cluster under wrk: compression, hashes, worker threads"
    needs = (Need("node", "nodejs"), Need("wrk", "wrk"))
    sees = (r"node(js)?", "wrk")
    executable = r"node(js)?"
    again = None
    load_path = "/lines?n=50"
    requests = (*((f"/lines?n={n * 50}",) for n in range(12)), *((f"/key?n={n}",) for n in range(4)),
                *((f"/json?n={n * 100}",) for n in range(5)), *((f"/thread?n={n * 1000}",) for n in range(4)),
                *(("/hash", "POST", {}, b"b" * (n * 40_000)) for n in range(5)))

    def command(self, run, port):
        return ["node", INPUTS / "server.mjs", str(port)]

    def all_requests(self):
        return list(self.requests)


class JavaServer(NodeServer):
    name = "java-http"
    long = True
    what = "HttpServer with 8 threads under wrk: compression, direct buffers, null checks by SIGSEGV; two collectors"
    needs = (Need("java", "default-jdk-headless"), Need("javac", "default-jdk-headless"), Need("wrk", "wrk"))
    sees = ("java", "wrk")
    executable = "java"
    end = None
    load_path = "/lines?50"
    requests = (*((f"/lines?{n * 50}",) for n in range(12)), *((f"/direct?{n * 500}",) for n in range(4)),
                *((f"/null?{n * 20_000}",) for n in range(4)), *(("/hash", "POST", {}, b"b" * (n * 40_000)) for n in range(5)))

    def setup(self, inputs):
        super().setup(inputs)
        subprocess.run(["javac", "-d", str(inputs), str(INPUTS / "Serve.java")], check=True, capture_output=True)

    def steps(self, run):
        for collector in ("-XX:+UseG1GC", "-XX:+UseSerialGC"):
            self.collector = collector
            super().steps(run)

    def command(self, run, port):
        return ["java", "-Xmx96m", self.collector, "-cp", run.inputs, "Serve", str(port)]

    def more(self, run, port, server):
        run.note("stop", fetch(port, "/stop"))


class PhpFpm(WebServer):
    """The process manager and its workers, behind nginx."""
    name = "php-fpm"
    what = "a process manager with 3 workers behind nginx under wrk; reloads, exceptions, workers that are replaced"
    version = ["php-fpm8.2", "-v"]
    needs = (Need("php-fpm8.2", "php8.2-fpm"), Need("nginx", "nginx-light"), Need("wrk", "wrk"),
             Need("php", "php-xml", ["php", "-r", "exit(extension_loaded('dom') ? 0 : 1);"]))
    sees = (r"php-fpm8?\.?\d*", "nginx")
    executable = r"php-fpm.*"
    again = None
    end = signal.SIGQUIT
    load_path = "/page.php?n=50"
    requests = (*((f"/page.php?n={n * 7}",) for n in range(15)), ("/page.php?n=13",), ("/page.php", "POST", {}, b"p" * 100_000))

    def all_requests(self):
        return list(self.requests)

    def command(self, run, port):
        account = pwd.getpwuid(os.geteuid()).pw_name
        (run.dir / "fpm.conf").write_text(f"""
[global]
daemonize = no
error_log = {run.dir}/fpm.log
[www]
user = {'www-data' if account == 'root' else account}
group = {'www-data' if account == 'root' else account}
listen = {run.dir}/socket
listen.mode = 0666
pm = static
pm.max_children = 3
pm.max_requests = 200
""")
        shutil.copy(INPUTS / "page.php", run.dir)
        (run.dir / "page.php").chmod(0o644)
        run.dir.chmod(0o755)
        paths = "".join(f"{kind}_temp_path {run.dir}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (run.dir / "nginx.conf").write_text(f"""
{'user www-data;' if account == 'root' else ''} daemon off; pid {run.dir}/pid; error_log {run.dir}/error.log; events {{}}
http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port}; location / {{ fastcgi_pass unix:{run.dir}/socket;
  fastcgi_param SCRIPT_FILENAME {run.dir}/page.php; fastcgi_param QUERY_STRING $query_string;
  fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length; }} }} }}
""")
        self.front = run.spawn(["nginx", "-p", run.dir, "-c", "nginx.conf"], stderr="any")
        return ["php-fpm8.2", "-n", *(["-R"] if account == "root" else []), "-y", run.dir / "fpm.conf",
                "-d", "extension=dom", "-d", "display_errors=1"]

    def wait_until_ready(self, run, server):
        def is_open():
            # php-fpm first creates the socket, then listens, and last makes the socket accessible to nginx.
            path = run.dir / "socket"
            return path.exists() and path.stat().st_mode & 0o666 == 0o666

        server.until(is_open, "php-fpm opened its socket", seconds=30)

    def more(self, run, port, server):
        self.front.stop("nginx", signal.SIGQUIT)
