"""Imports nearly all of the standard library, then uses threads, subprocess, ctypes, processes and a spread of modules."""

import sys
import warnings

warnings.simplefilter("ignore")

# Modules that must not be imported, because their import opens a browser, prints, or starts an editor.
SKIPPED = {"antigravity", "this", "idlelib", "turtledemo", "turtle", "tkinter", "test", "__main__"}


def import_everything():
    import importlib
    import pkgutil
    names = set(getattr(sys, "stdlib_module_names", ())) or {module.name for module in pkgutil.iter_modules()}
    packages = ("asyncio", "collections", "concurrent.futures", "ctypes", "email", "encodings", "html", "http", "importlib",
                "json", "logging", "multiprocessing", "unittest", "urllib", "wsgiref", "xml.dom", "xml.etree", "xml.sax",
                "xmlrpc", "curses", "dbm", "sqlite3")
    good, bad = 0, []
    for name in sorted(names - SKIPPED):
        try:
            importlib.import_module(name)
            good += 1
        except Exception as error:
            bad.append(f"{name}: {type(error).__name__}")
    for package in packages:
        try:
            path = importlib.import_module(package).__path__
        except Exception:
            continue
        for module in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
            if module.name in ("__main__", "mbcs", "oem"):
                continue
            try:
                importlib.import_module(f"{package}.{module.name}")
                good += 1
            except Exception as error:
                bad.append(f"{package}.{module.name}: {type(error).__name__}")
    print("imported", good, "not importable:", bad)


def threads():
    import queue
    import threading
    work, done, lock, totals = queue.Queue(), queue.Queue(50), threading.Lock(), {}

    def worker():
        while (number := work.get()) is not None:
            text = ",".join(str(number * i) for i in range(200))
            with lock:
                totals[number % 7] = totals.get(number % 7, 0) + len(text)
            done.put(text[-5:])
        done.put(None)

    started = [threading.Thread(target=worker) for _ in range(8)]
    for thread in started:
        thread.start()
    for number in range(3000):
        work.put(number)
    for _ in started:
        work.put(None)
    ended, seen = 0, 0
    while ended < len(started):
        if done.get() is None:
            ended += 1
        else:
            seen += 1
    for thread in started:
        thread.join()
    # Short-lived threads with their own thread-local data.
    for _ in range(60):
        local = threading.local()
        many = [threading.Thread(target=lambda: setattr(local, "data", [0] * 1000)) for _ in range(5)]
        [thread.start() for thread in many]
        [thread.join() for thread in many]
    print("threads", seen, sorted(totals.items()))


def processes():
    import multiprocessing
    import os
    import subprocess
    output = [subprocess.run(["/bin/sh", "-c", f"echo {i}; exit {i % 3}"], capture_output=True, text=True) for i in range(30)]
    print("subprocess", [(one.stdout.strip(), one.returncode) for one in output])
    piped = subprocess.Popen(["sort", "-r"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("pipe", piped.communicate("\n".join(str(i % 13) for i in range(2000)))[0][:20].split())
    code = "import ctypes, json, ssl, zlib; print(len(zlib.compress(json.dumps(list(range(9999))).encode())))"
    print("child", subprocess.check_output([sys.executable, "-I", "-c", code], text=True).strip())
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        print("pool", sum(pool.map(square_sum, range(60), chunksize=5)))
    for _ in range(20):  # fork from a program that had threads, with the heap in use
        child = os.fork()
        if child == 0:
            data = [str(i) * 3 for i in range(5000)]
            os._exit(len(set(data)) % 251)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ")
    print()


def square_sum(n):
    return sum(i * i for i in range(n * 100))


def foreign_functions():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.malloc.restype = libc.realloc.restype = libc.calloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    total = 0
    for size in list(range(1, 300)) + [4096, 70000, 3000000]:
        block = libc.malloc(size)
        ctypes.memset(block, size & 0xFF, size)
        block = libc.realloc(block, size * 2)
        total += ctypes.string_at(block, size).count(bytes([size & 0xFF]))
        libc.free(block)
        zeroed = libc.calloc(size, 3)
        total += sum(ctypes.string_at(zeroed, min(size * 3, 1000)))
        libc.free(zeroed)
    libc.strdup.restype = ctypes.c_void_p
    copy = libc.strdup(b"copied by the C library")
    text = ctypes.string_at(copy).decode()
    libc.free(copy)
    numbers = (ctypes.c_int * 5000)(*[(i * 7919) % 5003 for i in range(5000)])
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    libc.qsort(numbers, len(numbers), ctypes.sizeof(ctypes.c_int), compare(lambda a, b: a[0] - b[0]))
    print("ctypes", total, text, numbers[0], numbers[4999], list(numbers) == sorted(numbers))


def modules():
    import array, asyncio, base64, bz2, collections, csv, datetime, decimal, difflib, fractions, gc, hashlib, heapq, io
    import itertools, json, lzma, pickle, random, re, sqlite3, string, struct, tempfile, textwrap, unicodedata, uuid, weakref
    import xml.etree.ElementTree as tree
    import zipfile, zlib
    rng = random.Random(42)
    data = [{"id": i, "name": "".join(rng.choice(string.ascii_letters) for _ in range(12)), "values": [rng.random() for _ in range(5)]}
            for i in range(4000)]
    text = json.dumps(data)
    assert json.loads(text) == data and pickle.loads(pickle.dumps(data)) == data
    raw = text.encode()
    for name, module in (("zlib", zlib), ("bz2", bz2), ("lzma", lzma)):
        packed = module.compress(raw)
        assert module.decompress(packed) == raw
        print(name, len(packed) > 1000)
    print("hash", hashlib.sha256(raw).hexdigest()[:16], hashlib.blake2b(base64.b85encode(raw)).hexdigest()[:16])
    with decimal.localcontext() as context:
        context.prec = 400
        print("decimal", str(decimal.Decimal(2).sqrt() ** 7)[-20:], fractions.Fraction(1, 3) ** 50 % 7 > 0)
    print("re", len(re.findall(r"(?i)\b([a-z]{3})[a-z]*\1?", text)), re.sub(r"(\d)(?=(\d{3})+$)", r"\1,", "123456789"))
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a, b)")
    base.executemany("insert into t values(?, ?)", ((one["id"] % 50, one["name"]) for one in data))
    base.create_function("twist", 1, lambda value: value[::-1])
    print("sqlite3", base.execute("select a, count(*), max(twist(b)) from t group by a order by a limit 3").fetchall())
    base.close()
    root = tree.fromstring("<r>" + "".join(f"<i n='{i}'><t>{i * i}</t></i>" for i in range(2000)) + "</r>")
    print("xml", sum(int(node.text) for node in root.iter("t")))

    async def ticker(n):
        await asyncio.sleep(0)
        return n

    async def many():
        return sum(await asyncio.gather(*(ticker(i) for i in range(2000))))

    print("asyncio", asyncio.run(many()))
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(folder + "/a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for i in range(50):
                archive.writestr(f"{i}.txt", raw[i * 100:i * 100 + 5000])
        with zipfile.ZipFile(folder + "/a.zip") as archive:
            print("zip", sum(len(archive.read(name)) for name in archive.namelist()), archive.testzip())
    class Node:
        pass
    died = []
    for i in range(3000):
        a, b = Node(), Node()
        a.other, b.other = b, a
        weakref.finalize(a, died.append, i)
    del a, b
    gc.collect()
    print("cycles", len(died))
    print("difflib", round(difflib.SequenceMatcher(None, text[:1500], text[300:1800]).ratio(), 3))
    print("rest", textwrap.fill("lorem ipsum " * 9, 40).count("\n"), unicodedata.normalize("NFKD", "Å")[0],
          uuid.uuid5(uuid.NAMESPACE_DNS, "example.org"), datetime.date(2024, 2, 29).isocalendar()[1],
          struct.calcsize("<iqd"), list(itertools.islice(heapq.merge([1, 4], [2, 3]), 4)),
          collections.Counter(text).most_common(2), array.array("d", [1.5]).tobytes().hex(),
          len(list(csv.reader(io.StringIO(text)))))


def main():
    if "--small" not in sys.argv:
        import_everything()
        processes()
    threads()
    foreign_functions()
    modules()
    print("end")


if __name__ == "__main__":
    main()
