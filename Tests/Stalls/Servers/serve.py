# asyncio HTTP server whose handler computes for /computes and sleeps for /sleeps; SIGTERM ends the server.
import asyncio
import signal
import sys
import time


def compute():
    end = time.process_time() + 0.8
    while time.process_time() < end:
        sum(range(10_000))


async def serve(reader, writer):
    while head := await reader.readline():
        path = head.split()[1]
        while (await reader.readline()).strip():
            pass
        if path == b"/computes":
            compute()
        if path == b"/sleeps":
            time.sleep(0.8)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\ndone\n")
        await writer.drain()
    writer.close()


async def main():
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await ended.wait()


asyncio.run(main())
