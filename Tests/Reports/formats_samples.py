"""Sample findings and timelines that stress renderers: every kind, blocks of every size, names with injection attacks."""

import json
import random

from Support.environment import ROOT

hostile = ("</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\u0007\u2028 {0} [x](http://example.invalid/)"
           " \\ & &amp; ü 漢字 " + "a" * 300)
SCHEMA = json.loads((ROOT / "docs/finding.schema.json").read_text())
KINDS, ACCESSES = (SCHEMA["properties"][name]["examples"] for name in ("kind", "access"))
SIZES = [1, 7, 16, 48, 64, 200, 4096, 1 << 20, 1 << 30, 33]
STATES = SCHEMA["$defs"]["block"]["properties"]["state"]["examples"]


def frame(number, is_evil=False):
    return {"pc": hex(0x550000000000 + number), "module": "/opt/app/bin/server" + hostile * is_evil, "build_id": "bb" * 20,
            "offset": hex(number), "function": hostile * 3 if is_evil else f"Session.handle(request:priority:)_{number}",
            "file": hostile if is_evil else f"/build/server/Sources/Server/Session{number % 7}.swift",
            "line": number % 400 + 1, "column": 9, "inlined": number % 3 == 0}


def runtime_frame(number):
    return {"pc": hex(0x7f0000000000 + number), "module": "/usr/lib/x86_64-linux-gnu/libc.so.6", "build_id": "aa" * 20,
            "offset": hex(number), "function": "__libc_start_main", "inlined": False}


def block(number, size, offset, is_evil):
    result = {"start": hex(0x7b0000001000 + number * 4096), "size": size, "offset": offset,
              "state": hostile if is_evil else STATES[number % 4], "language": ["swift", "c++", "unknown"][number % 3],
              "alloc_thread": 1, "free_thread": 2}
    if number % 3 < 2:
        result["class"] = hostile if is_evil else f"Server.Session{number % 4}"
        result["member"] = hostile if is_evil else "buffer"
    return result


def finding(number):
    is_evil = number % 10 == 3
    kind = hostile if number % 25 == 7 else KINDS[number % len(KINDS)]
    size = SIZES[number % len(SIZES)]
    offset = [0, 1, 8, -4, -200, size - 1, size, size + 40, size // 2, 16][number * 7 % 10]
    detail = {}
    if kind == "write-after-free":
        detail = {"offset": str(max(0, min(offset, size - 1))), "length": str(min(size, 4)), "old": "0x55", "new": "0x41",
                  "found_by": "eviction"}
    elif kind == "heap-overflow" and number % 2:
        detail = {"length": "3", "old": "0x0", "new": "0x41", "found_by": "free"}
    elif kind == "heap-overflow":
        detail = {"call": "read", "bytes": str(size + 10), "excess": "10"}
    if is_evil:
        detail.update({"what": hostile, "signal": hostile, hostile: hostile})
    result = {
        "schema": "zguard.finding/1", "kind": kind, "access": ACCESSES[number % len(ACCESSES)],
        "confidence": "inferred" if number % 6 == 0 else "exact", "address": hex(0x7b0000001000 + number * 4096 + offset),
        "thread": {"id": number % 5 + 1, "name": hostile if is_evil else "worker"},
        "stacks": {"access": [frame(number * 3 + i, is_evil) for i in range(4)] + [runtime_frame(i) for i in range(3)],
                   "free": [frame(number * 5 + i, is_evil) for i in range(3)] + [runtime_frame(i) for i in range(2)],
                   "alloc": [frame(number * 7 + i) for i in range(6)]},
        "count": number % 4 * number + 1, "pid": 100 + number % 2,
        "program": "/opt/app/bin/" + (hostile if is_evil else "server"),
        "time": f"2026-11-21T05:{number % 60 // 2:02}:{number % 60:02}.{number % 1000:03}Z", "signature": f"{number:016x}",
        "detail": detail}
    if kind not in ("wild-access", "null-access", "stack-overflow"):
        result["block"] = block(number, size, offset, is_evil)
    return result


def worst_case(count):
    return (finding(number) for number in range(count))


def samples(count):
    """Yields samples, 1.8 seconds apart, of a process that grows, peaks and then gets a smaller quarantine."""
    chance = random.Random(7)
    live = held = 40 << 20
    for number in range(count):
        live = max(1 << 20, live + chance.randint(-2 << 20, 2 << 20))
        held = min(1 << 20, held + chance.randint(0, 30000)) if number % 200 else 200000
        peak = 300 << 20 if count // 2 <= number < count // 2 + 60 else 0
        milliseconds = number * 1800
        yield {"schema": "zguard.timeline/1",
               "time": f"2026-11-21T05:{milliseconds // 60000:02}:{milliseconds // 1000 % 60:02}.{milliseconds % 1000:03}Z",
               "pid": 100, "program": "/opt/app/bin/server", "live_blocks": live // 100, "live_bytes": live + peak,
               "quarantined_blocks": held // 64, "quarantined_bytes": held,
               "quarantine_cap": 1 << (20 if number < count * 7 // 10 else 19), "retired_blocks": number * 40,
               "retired_bytes": number * number * 4000, "heap_committed_bytes": live + peak + (8 << 20),
               "metadata_bytes": 3 << 20, "findings": number // 100, "pressure_level": 0, "overhead_permille": 40}
