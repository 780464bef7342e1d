"""Web servers, proxies and their backends under load. Answers are compared byte for byte."""

import gzip
import hashlib
import http.client
import os
import signal
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import generate
from case import Case, Need
from cases_languages import PYTHON
from harness import CaseError

SHOWN_HEADERS = ("content-type", "content-encoding", "content-range", "location", "allow", "x-test")


def fetch(port, path, method="GET", headers=None, body=None, tls=False):
    """Sends one request. Returns the answer as text: status, constant headers, length and digest of the body."""
    if tls:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    lines = [f"{method} {path} {answer.status} {answer.reason}"]
    # Some servers keep methods in hash tables with random seeds, and so list them in any order.
    lines += [f"  {name}: {','.join(sorted(answer.headers[name].replace(f':{port}/', ':PORT/').split(',')))}" for name in SHOWN_HEADERS if name in answer.headers]
    if answer.headers.get("content-encoding") == "gzip":
        data = gzip.decompress(data)
    return "\n".join([*lines, f"  {len(data)} bytes {hashlib.sha256(data).hexdigest()}"]) + "\n"


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-subj", "/CN=localhost",
                    "-days", "30", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())


def pages(folder):
    """Creates a few files of different sizes, with a fixed modification time."""
    folder.mkdir()
    for number, lines in enumerate((0, 1, 30, 400, 3000, 20_000)):
        (folder / f"{number}.txt").write_text(generate.text_lines(lines, seed=number))
        (folder / f"{number}.html").write_text("<p>" + generate.text_lines(lines // 4, seed=50 + number))
    for path in folder.iterdir():
        os.utime(path, (1700000000, 1700000000))
        path.chmod(0o644)
    folder.parent.chmod(0o755)


class WebServer(Case):
    """Sends requests one by one, and eight at a time under load from `wrk`, and sends all again after a configuration reload."""
    load_seconds = 2.0
    load_path = "/3.txt"
    requests = ()
    executable = ""
    # Signals that reload the configuration and that end the server; None if the server has no such signal.
    again, end = signal.SIGHUP, signal.SIGTERM

    def setup(self, inputs):
        pages(inputs / "pages")

    def command(self, run, port):
        raise NotImplementedError

    def files(self, folder="/"):
        for number in range(6):
            yield (f"{folder}{number}.txt",)
            yield (f"{folder}{number}.html", "GET", {"Accept-Encoding": "gzip"})
        yield (f"{folder}4.txt", "GET", {"Range": "bytes=1000-2999"})
        yield (f"{folder}3.txt", "HEAD")
        yield (f"{folder}absent",)
        yield (f"{folder}../../etc/passwd",)

    def all_requests(self):
        return [*self.files(), *self.requests]

    def steps(self, run):
        port = run.port()
        server = run.spawn(self.command(run, port), stderr="any")
        server.wait_for(port)
        self.wait_until_ready(run, server)
        self.compare(run, port, "requests")
        seconds = max(1, round(self.load_seconds * self.size))  # wrk accepts whole seconds only
        load = run.spawn(["wrk", "-t", "2", "-c", "16", "-d", f"{seconds}s", "--timeout", "30s",
                          f"http://127.0.0.1:{port}{self.load_path}"], stderr="any")
        for number in range(2 if self.again else 0):
            time.sleep(seconds / 3)
            server.send(self.executable, self.again)
            self.wait_for_reload(server, number + 1)
        self.compare(run, port, "requests under load")
        load.wait()
        text = run.records[-1].stdout
        run.records[-1].stdout = b""  # rates vary
        if b"requests in" not in text or b"Non-2xx" in text:
            raise CaseError(f"wrk met errors, {run.mode}\n" + text.decode("utf-8", "replace"))
        self.compare(run, port, "requests after it")
        self.more(run, port, server)
        if self.end:
            server.stop(self.executable, self.end)
        else:
            server.wait()

    def wait_until_ready(self, run, server):
        pass

    def wait_for_reload(self, server, number):
        pass

    def more(self, run, port, server):
        pass

    def compare(self, run, port, label):
        def ask(words):
            for _ in range(10):
                try:
                    return fetch(port, *words)
                except (ConnectionError, http.client.HTTPException):  # a replaced worker may close a connection
                    time.sleep(0.1)
            return fetch(port, *words)
        with ThreadPoolExecutor(8) as pool:
            run.note(label, "".join(pool.map(ask, self.all_requests())))


class Nginx(WebServer):
    name = "nginx"
    what = "3 workers under wrk: files, gzip, ranges, TLS, a proxy to itself with a cache; two reloads under load"
    version = ["nginx", "-v"]
    needs = (Need("nginx", "nginx-light"), Need("wrk", "wrk"), Need("openssl", "openssl"))
    sees = ("nginx", "wrk")
    executable = "nginx"
    end = signal.SIGQUIT
    requests = (*((f"/proxy/{number}.txt",) for number in range(6)), ("/cached/4.txt",), ("/cached/4.txt",),
                ("/post", "POST", {}, b"x" * 300_000), ("/replaced/2.txt",), ("/moved",), ("/long", "GET", {"X-Long": "y" * 9000}),
                ("/2.txt", "DELETE"))

    def setup(self, inputs):
        super().setup(inputs)
        certificate(inputs)

    def command(self, run, port):
        self.tls = run.port()
        for folder in ("logs", "temporary", "cache"):
            (run.dir / folder).mkdir()
        here, files = run.dir, run.inputs
        paths = "".join(f"{kind}_temp_path {here}/temporary/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (here / "nginx.conf").write_text(f"""
{'user www-data;' if os.geteuid() == 0 else ''}
worker_processes 3; daemon off; pid {here}/pid; error_log {here}/logs/error.log;
events {{ worker_connections 256; }}
http {{
    types {{ text/html html; text/plain txt; }} default_type application/octet-stream;
    access_log {here}/logs/access.log; {paths}
    gzip on; gzip_types text/plain; gzip_min_length 10; sendfile on; tcp_nopush on; keepalive_requests 50;
    proxy_cache_path {here}/cache keys_zone=zone:1m max_size=1m inactive=1s;
    server {{
        listen 127.0.0.1:{port}; listen 127.0.0.1:{self.tls} ssl;
        ssl_certificate {files}/cert.pem; ssl_certificate_key {files}/key.pem;
        root {files}/pages;
        location /proxy/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_http_version 1.1; add_header X-Test proxied; }}
        location /cached/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_cache zone; proxy_cache_valid 200 1s; }}
        location /post {{ client_body_buffer_size 8k; proxy_pass http://127.0.0.1:{port}/sink; }}
        location /sink {{ client_max_body_size 1m; proxy_pass http://127.0.0.1:{port}/answer; }}
        location /answer {{ return 200 "took $content_length\\n"; }}
        location /moved {{ return 301 /2.txt; }}
        location ~ ^/(long|replaced)/?(.*)$ {{ return 200 "$1 [$2] $http_x_long\\n"; }}
    }}
}}
""")
        return ["nginx", "-p", str(here), "-c", "nginx.conf"]

    def more(self, run, port, server):
        run.note("tls", "".join(fetch(self.tls, f"/{number}.txt", tls=True) for number in range(6)))
        log = (run.dir / "logs" / "error.log").read_text()
        run.note("alarms", "\n".join(line.split("] ", 1)[1] for line in log.splitlines() if "[alert]" in line or "[emerg]" in line))


class Lighttpd(WebServer):
    name = "lighttpd"
    what = "files, ranges, CGI scripts and redirects under wrk"
    version = ["lighttpd", "-v"]
    needs = (Need("lighttpd", "lighttpd"), Need("wrk", "wrk"))
    sees = ("lighttpd", "wrk")
    executable = r"lighttpd(-angel)?"
    again = None
    end = signal.SIGINT
    requests = (*((f"/cgi/show.sh?n={number}",) for number in range(6)), ("/cgi/show.sh", "POST", {}, b"z" * 50_000), ("/old/2.txt",))

    def command(self, run, port):
        cgi = run.dir / "cgi"
        cgi.mkdir()
        (cgi / "show.sh").write_text("#!/bin/sh\necho 'Content-Type: text/plain'\necho\necho \"$REQUEST_METHOD $QUERY_STRING $CONTENT_LENGTH\"\nwc -c\n")
        (run.dir / "lighttpd.conf").write_text(f"""
server.document-root = "{run.inputs}/pages"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_alias", "mod_cgi", "mod_redirect", "mod_accesslog")
mimetype.assign = (".html" => "text/html", ".txt" => "text/plain")
alias.url = ("/cgi/" => "{cgi}/")
cgi.assign = (".sh" => "/bin/sh")
url.redirect = ("^/old/(.*)" => "/$1")
accesslog.filename = "{run.dir}/access.log"
server.errorlog = "{run.dir}/error.log"
""")
        return ["lighttpd", "-D", "-f", str(run.dir / "lighttpd.conf")]


class Apache(WebServer):
    again = signal.SIGUSR1  # reloads gracefully
    end = signal.SIGTERM
    version = ["apache2", "-v"]
    needs = (Need("apache2", "apache2"), Need("wrk", "wrk"))
    sees = ("apache2", "wrk")
    executable = "apache2"
    model = ""
    requests = (*((f"/proxy/{number}.txt",) for number in range(6)), ("/cgi/show?n=1",), ("/cgi/show", "POST", {}, b"z" * 50_000),
                ("/2.txt", "OPTIONS"), ("/ssi.shtml",))

    def setup(self, inputs):
        super().setup(inputs)
        (inputs / "pages" / "ssi.shtml").write_text('<!--#echo var="QUERY_STRING_UNESCAPED" --> <!--#include virtual="/2.txt" -->\n')

    def command(self, run, port):
        modules = "/usr/lib/apache2/modules"
        names = [f"mpm_{self.model}", "authz_core", "mime", "dir", "deflate", "filter", "include", "alias", "proxy", "proxy_http", "rewrite",
                 "cgi" if self.model == "prefork" else "cgid"]
        loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names)
        cgi = run.dir / "cgi"
        cgi.mkdir()
        (cgi / "show").write_text("#!/bin/sh\necho 'Content-Type: text/plain'\necho\necho \"$REQUEST_METHOD $QUERY_STRING $CONTENT_LENGTH\"\nwc -c\n")
        (cgi / "show").chmod(0o755)
        (run.dir / "mime.types").write_text("text/html html\ntext/plain txt\n")
        # disablereuse=on: a reload may close the other end of a connection that the proxy keeps alive, and the proxy then answers 502.
        # Mutex pthread: Apache names POSIX semaphores by the time of day, so if two servers start in one microsecond, one fails.
        (run.dir / "apache.conf").write_text(f"""
{loads}
ServerName localhost
ServerRoot {run.dir}
Listen 127.0.0.1:{port}
{'User www-data' if os.geteuid() == 0 else ''}
{'Group www-data' if os.geteuid() == 0 else ''}
PidFile {run.dir}/pid
ErrorLog {run.dir}/error.log
Mutex pthread
DefaultRuntimeDir {run.dir}
TypesConfig {run.dir}/mime.types
DocumentRoot {run.inputs}/pages
StartServers {8 if self.model == 'prefork' else 2}
MaxConnectionsPerChild 300
AddOutputFilterByType DEFLATE text/html
AddType text/html .shtml
AddOutputFilter INCLUDES .shtml
ProxyPass /proxy/ http://127.0.0.1:{port}/ disablereuse=on
ScriptAlias /cgi/ {cgi}/
{f'ScriptSock {run.dir}/cgisock' if self.model != 'prefork' else ''}
<Directory {run.inputs}/pages>
  Options +Includes
  Require all granted
</Directory>
<Directory {cgi}>
  Require all granted
</Directory>
""")
        return ["apache2", "-D", "FOREGROUND", "-f", str(run.dir / "apache.conf")]

    def wait_for_reload(self, server, number):
        """Waits until Apache has replaced the daemon that runs CGI programs. Until then Apache answers CGI requests with 503."""
        log = server.run.dir / "error.log"
        server.until(lambda: log.read_text(errors="replace").count("resuming normal operations") > number,
                     "it loads its configuration anew", seconds=30)


class ApachePrefork(Apache):
    name = "apache-prefork"
    what = "a process for each connection: files, compression, server-side includes, CGI, a proxy to itself; reloads under wrk"
    model = "prefork"


class ApacheEvent(Apache):
    name = "apache-event"
    what = "processes with threads: files, compression, server-side includes, CGI by a daemon, a proxy to itself; reloads under wrk"
    model = "event"


class Haproxy(WebServer):
    """HAProxy in front of the driver's own unguarded server."""
    name = "haproxy"
    what = "master and worker with 4 threads, TLS at the front, compression, a Lua service, rules; two reloads under wrk"
    version = ["haproxy", "-v"]
    needs = (Need("haproxy", "haproxy"), Need("wrk", "wrk"), Need("openssl", "openssl"))
    sees = ("haproxy", "wrk")
    executable = "haproxy"
    again = signal.SIGUSR2
    end = signal.SIGUSR1
    requests = (("/lua/a",), ("/lua/b", "POST", {}, b"q" * 5000), ("/denied",))

    def setup(self, inputs):
        super().setup(inputs)
        certificate(inputs)

    def steps(self, run):
        self.back = run.port()
        with run.helper([PYTHON, "-m", "http.server", self.back, "--bind", "127.0.0.1", "-d", run.inputs / "pages"], self.back):
            super().steps(run)

    def command(self, run, port):
        self.tls = run.port()
        (run.dir / "service.lua").write_text("""
core.register_service("show", "http", function(applet)
    local body, parts = applet:receive(), {}
    for i = 1, 200 do parts[i] = applet.method .. " " .. applet.path .. " " .. (i * i) % 97 end
    local text = table.concat(parts, "\\n") .. "\\n" .. #body .. "\\n"
    applet:set_status(200); applet:add_header("content-length", tostring(#text)); applet:start_response(); applet:send(text)
end)
""")
        (run.dir / "haproxy.cfg").write_text(f"""
global
    nbthread 4
    lua-load {run.dir}/service.lua
    hard-stop-after 5s
defaults
    mode http
    timeout connect 30s
    timeout client 30s
    timeout server 30s
    retries 3
frontend front
    bind 127.0.0.1:{port}
    bind 127.0.0.1:{self.tls} ssl crt {run.inputs}/both.pem
    compression algo gzip
    compression type text/html
    http-request deny if {{ path /denied }}
    http-request use-service lua.show if {{ path_beg /lua }}
    default_backend files
backend files
    http-response set-header X-Test passed
    http-response del-header Last-Modified
    server one 127.0.0.1:{self.back} check inter 200ms
    server two 127.0.0.1:{self.back} backup
""")
        return ["haproxy", "-W", "-f", str(run.dir / "haproxy.cfg")]

    load_path = "/lua/load"

    def wait_for_reload(self, server, number):
        """Waits until the master process has reloaded. A signal is lost while the master executes itself again, guarded or not."""
        def is_loaded():
            log = server.outputs[1].read_text(errors="replace")
            return log.count("Reloading HAProxy") >= number and log.count("Former worker") == log.count("Reloading HAProxy")

        server.until(is_loaded, "it loads its configuration anew", seconds=30)

    def more(self, run, port, server):
        run.note("tls", "".join(fetch(self.tls, f"/{number}.txt", tls=True) for number in range(6)))
