"""A server and 200 clients in one event loop, executors beside it, and a second server in its own process."""
import asyncio
import concurrent.futures
import hashlib
import json
import sys
import zlib


async def serve(reader, writer):
    while line := await reader.readline():
        request = json.loads(line)
        body = await reader.readexactly(request["bytes"])
        if request["kind"] == "digest":
            answer = hashlib.sha256(body).hexdigest().encode()
        elif request["kind"] == "thread":
            answer = await asyncio.get_running_loop().run_in_executor(None, zlib.compress, body)
        else:
            await asyncio.sleep(0)
            answer = body[::-1]
        writer.write(b"%d\n" % len(answer) + answer)
        await writer.drain()
    writer.close()


async def client(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    total = hashlib.sha256()
    for i in range(12):
        body = bytes((number * i + j) % 251 for j in range(number * 37 % 4000 + i))
        kind = ("digest", "thread", "reverse")[(number + i) % 3]
        writer.write(json.dumps({"kind": kind, "bytes": len(body)}).encode() + b"\n" + body)
        await writer.drain()
        size = int(await asyncio.wait_for(reader.readline(), 60))
        total.update(await reader.readexactly(size))
    writer.close()
    await writer.wait_closed()
    return total.hexdigest()


def square(n):
    return sum(i * i for i in range(n))


async def cancelled():
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "cancelled"


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answers = await asyncio.gather(*(client(port, number) for number in range(200)))
    print(hashlib.sha256("".join(answers).encode()).hexdigest())
    loop = asyncio.get_running_loop()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(sum(await asyncio.gather(*(loop.run_in_executor(pool, square, n) for n in range(0, 4000, 100)))))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read().upper())",
                                                   stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate(b"line of text\n" * 20000)
    print(len(out), hashlib.sha256(out).hexdigest())
    tasks = [asyncio.create_task(cancelled()) for _ in range(50)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    print({await task for task in tasks})
    server.close()


asyncio.run(main())
