"""Drives a headless Chromium through its debugging pipe: opens local pages, runs scripts, takes and decodes screenshots.
Needs the program `chromium`; no further package."""

import base64
import json
import os
import select
import struct
import subprocess
import tempfile
import time
import zlib


class BrowserError(Exception):
    """The browser could not be started, or an operation failed."""


class Browser:
    """One page; `requests` has its network requests, `complaints` its console messages."""

    def __init__(self, timeout_seconds=60):
        self.timeout_seconds = timeout_seconds
        self.profile = tempfile.TemporaryDirectory(prefix="zguard-browser-", ignore_cleanup_errors=True)
        self.number, self.buffer, self.answers, self.loaded = 0, b"", {}, set()
        self.requests, self.complaints = [], []
        their_input, self.output = os.pipe()
        self.input, their_output = os.pipe()

        def arrange():  # Chromium reads from descriptor 3 and writes to 4
            os.dup2(their_input, 100)
            os.dup2(their_output, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        try:
            self.process = subprocess.Popen(
                ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                 "--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-pipe",
                 f"--user-data-dir={self.profile.name}", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
                preexec_fn=arrange, start_new_session=True)
        except OSError as error:
            raise BrowserError(f"cannot run chromium: {error.strerror}") from None
        finally:
            os.close(their_input)
            os.close(their_output)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def close(self):
        os.close(self.output)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.input)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        deadline = time.monotonic() + self.timeout_seconds
        while self.number not in self.answers:
            self.receive(deadline, method)
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def receive(self, deadline, what):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.input], [], [], left)[0]:
            raise BrowserError(f"{what}: no answer in {self.timeout_seconds} seconds")
        data = os.read(self.input, 1 << 20)
        if not data:
            raise BrowserError(f"{what}: the browser ended")
        *messages, self.buffer = (self.buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.note(message["method"], message["params"])

    def note(self, event, parameters):
        if event == "Page.lifecycleEvent" and parameters["name"] == "load":
            self.loaded.add(parameters["loaderId"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("text", "exception"))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{parameters['type']}")
        elif event == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])

    def open(self, path, width=1280, height=900, dark=False, script=True, wait=30):
        """Loads a file, or an address that begins with http; returns the seconds until it was loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.requests, self.complaints = [], []
        began = time.monotonic()
        # The previous page may finish loading meanwhile: wait for the load event of the new page.
        loader = self.call("Page.navigate", url=path if str(path).startswith("http") else f"file://{path}")["loaderId"]
        while loader not in self.loaded:
            self.receive(began + wait, f"loading {path}")
        return time.monotonic() - began

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return answer["result"].get("value")

    def picture(self, whole=False):
        """Returns a screenshot of the visible part, or of the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": self.page_size()} if whole else {}))["data"]
        return base64.b64decode(data)

    def page_size(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}


def pixels(png):
    """Returns width, height and rows of bytes of a PNG with 8 bits for each of 3 or 4 channels, as Chromium writes it."""
    position, data, width, height, channels = 8, b"", 0, 0, 0
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position:position + 8])
        chunk = png[position + 8:position + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
            channels = {2: 3, 6: 4}[colour]
            assert depth == 8
        elif kind == b"IDAT":
            data += chunk
        position += length + 12
    raw, stride = zlib.decompress(data), width * channels
    rows, above = [], bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        row = unfiltered(raw[start], bytearray(raw[start + 1:start + 1 + stride]), above, channels)
        rows.append(row)
        above = row
    return width, channels, rows


def unfiltered(kind, row, above, channels):
    if kind == 2:
        return bytearray((a + b) & 255 for a, b in zip(row, above))
    for at in range(len(row) if kind else 0):
        left = row[at - channels] if at >= channels else 0
        corner = above[at - channels] if at >= channels else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + above[at]) // 2
        else:
            distances = abs(above[at] - corner), abs(left - corner), abs(left + above[at] - 2 * corner)
            guess = (left, above[at], corner)[distances.index(min(distances))]
        row[at] = (row[at] + guess) & 255
    return row


def colours(png, step=3):
    """Returns how often each color occurs, in every `step`th pixel of every `step`th row."""
    counts = {}
    _, channels, rows = pixels(png)
    for row in rows[::step]:
        for at in range(0, len(row) - 2, channels * step):
            colour = (row[at], row[at + 1], row[at + 2])
            counts[colour] = counts.get(colour, 0) + 1
    return counts


def brightness(counts):
    """Returns the mean brightness from 0 (black) to 255 (white)."""
    total = sum(counts.values())
    return sum((0.2126 * r + 0.7152 * g + 0.0722 * b) * count for (r, g, b), count in counts.items()) / total
