# Python programs that end by an exit status, one per function, for Tests/Detection/panics.py. The lines before the
# functions have the format of exits.rs; their last field names a function of the interpreter.

import atexit
import json
import os
import subprocess
import sys
import threading
import traceback

TRACEBACK = 'Traceback (most recent call last):\n  File "shop.py", line 3, in <module>\nValueError: out of cheese\n'


def take():
    raise ValueError("out of cheese")


# ends: 1, ^ValueError: out of cheese$, Py_RunMain
def raises():
    take()


# ends: 1, ^KeyError: 'cheese'$, Py_RunMain
def chained():
    try:
        take()
    except ValueError as error:
        raise KeyError("cheese") from error


# ends: 1, ^json.decoder.JSONDecodeError: Expecting value, Py_RunMain
def in_the_library():
    json.loads("cheese")


# ends: 1, ^SyntaxError: invalid syntax$, Py_RunMain
def syntax():
    exec("x = = 1")


# ends: 1, ^ValueError: two\nlines$, Py_RunMain
def lines():
    raise ValueError("two\nlines")


# ends: 1, ^ExceptionGroup: several \(2 sub-exceptions\)$, Py_RunMain
def group():
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


# ends: 1, ^ValueError: out of cheese, Py_RunMain
def at_exit():
    atexit.register(sys.stdout.write, "closed\n")
    take()


# quiet: 1
def exits():
    sys.exit(1)


# quiet: 1
def exits_with_words():
    sys.exit(TRACEBACK)


# quiet: 1
def caught():
    try:
        take()
    except ValueError:
        traceback.print_exc()
        sys.exit(1)


# quiet: 1
def caught_by_hook():
    try:
        take()
    except ValueError:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


# quiet: 1
def caught_then_ended():
    try:
        take()
    except ValueError:
        traceback.print_exc()
        os._exit(1)


# quiet: 1
def in_thread():
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    sys.exit(1)


# quiet: 1
def relays():
    end = subprocess.run([sys.executable, __file__, "raises"], env={}, stderr=subprocess.PIPE)
    os.write(2, end.stderr)
    sys.exit(end.returncode)


# quiet: 1
def own_words():
    sys.excepthook = lambda *error: sys.stderr.write("")
    take()


# quiet: 0
def goes_on():
    traceback.print_stack()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
