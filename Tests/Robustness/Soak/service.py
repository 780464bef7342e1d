"""An HTTP server for the soak test: a thread for each request, JSON, compression, regular expressions, sometimes a child process."""

import http.server
import json
import re
import subprocess
import sys
import zlib

WORDS = [f"word{i}" for i in range(500)]
count = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global count
        count += 1
        table = {word: [len(word), word[::-1], {"at": i}] for i, word in enumerate(WORDS)}
        text = json.dumps(table)
        again = json.loads(re.sub(r"word(\d+)", r"name\1", text))
        body = zlib.compress(json.dumps(sorted(again)).encode())
        if count % 100 == 0:
            subprocess.run(["/bin/true"], check=True)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
server.serve_forever()
