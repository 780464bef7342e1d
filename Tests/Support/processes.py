"""Describes hanging processes before they are killed: last output, stacks of all threads, and the holder of a port.
Also waits for processes, and finds all processes of a session."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

GDB_SECONDS = 60
MOST_PROCESSES = 12  # maximum number of stack dumps; servers have many similar processes
MOST_FRAMES = 40
TCP_STATES = ("", "established", "SYN sent", "SYN received", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "closed", "CLOSE-WAIT",
              "last ACK", "listening", "closing", "new SYN received")


# MARK: processes


def descendants(pid):
    """Returns the process and all its living descendants."""
    found, queue = [], [pid]
    while queue:
        pid = queue.pop()
        found.append(pid)
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    queue.extend(int(child) for child in file.read().split())
            except OSError:
                pass
    return found


def running_in(pid, executable):
    """Returns the process and descendants whose executable name matches the pattern, in the order found."""
    found = []
    for one in descendants(pid):
        try:
            if re.fullmatch(executable, os.path.basename(os.readlink(f"/proc/{one}/exe"))):
                found.append(one)
        except OSError:
            pass
    return found


def descriptors(pid):
    """Returns the paths in /proc of the process's open descriptors, with what each refers to. Omits descriptors that
    are closed meanwhile; a starting process closes many."""
    found = {}
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found[folder / name] = os.readlink(folder / name)
    return found


def state_and_session(pid):
    """Returns the process's state letter and session; ("X", 0) if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        return fields[0].decode(), int(fields[3])
    except (OSError, IndexError):
        return "X", 0


def has_ended(pid):
    """Returns whether the process has ended, including zombies."""
    return state_and_session(pid)[0] in "ZX"


def session_members(session):
    """Returns all living processes of the session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, its = state_and_session(name)
            if its == session and state not in "ZX":
                found.append(int(name))
    return found


def processor_seconds(pid):
    """Returns the CPU time of a process and of its children that were waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def wait_without_reaping(pid, seconds):
    """Returns the status of a child that ended within that time (negative after a signal), or None. The child stays a zombie, so that its
    process id, which is also its session id, is not reused."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # an old kernel, or a seccomp filter
        return _wait_by_looking(pid, seconds)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
    finally:
        os.close(descriptor)
    return _status_of_zombie(pid)


def _wait_by_looking(pid, seconds):
    deadline = time.monotonic() + seconds
    while (status := _status_of_zombie(pid)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return status


def _status_of_zombie(pid):
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


# MARK: what processes print and do


def last_lines(path, lines=20):
    """Returns the end of a text file, indented; "" if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 20_000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join("    | " + line[:300] for line in text.splitlines()[-lines:])


def logs_below(folder, most=6):
    """Returns the paths of probable logs in a server's directory, the newest first."""
    found = []
    for path in Path(folder).rglob("*"):
        try:
            if re.search(r"(^|[.-])log$|\.err$", path.name) and path.is_file() and path.stat().st_size:
                found.append((path.stat().st_mtime, path))
        except OSError:
            pass
    return [path for _, path in sorted(found, reverse=True)[:most]]


def said(paths):
    """Returns the last lines of each of these files that is not empty."""
    return "".join(f"{path.name}:\n{text}\n" for path in map(Path, paths) if (text := last_lines(path)))


def stacks(pids):
    """Returns the stacks of all threads of these processes as text. The processes continue."""
    pids = [pid for pid in dict.fromkeys(pids) if not has_ended(pid)]
    parts = [_stacks_of_one(pid) for pid in pids[:MOST_PROCESSES]]
    if len(pids) > MOST_PROCESSES:
        parts.append(f"and {len(pids) - MOST_PROCESSES} further processes: {' '.join(map(str, pids[MOST_PROCESSES:]))}\n")
    return "".join(parts)


def _stacks_of_one(pid):
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        title = f"process {pid}: {command[:200] or Path(f'/proc/{pid}/comm').read_text().strip()}\n"
    except OSError:
        return f"process {pid} is gone\n"
    # Read the kernel's wait channels first: gdb's stop hides them.
    kernels = _kernels_words(pid)
    return title + kernels + (_gdbs_words(pid) or "    (no gdb, or it may not look)\n")


def _kernels_words(pid):
    lines = []
    try:
        tasks = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except OSError:
        return ""
    for task in tasks[:64]:
        parts = []
        for name in ("status", "wchan", "syscall", "stack"):
            try:
                text = Path(f"/proc/{pid}/task/{task}/{name}").read_text(errors="replace").strip()
            except OSError:
                continue
            if name == "status":
                fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
                parts.append(f"{fields.get('Name')}, {fields.get('State')}, signals pending {fields.get('SigPnd')}, "
                             f"blocked {fields.get('SigBlk')}")
            elif name == "stack":
                parts.append(" < ".join(re.findall(r"\] (\S+?)\+", text)))
            elif text not in ("", "0"):
                parts.append(f"{name} {text.split(chr(10))[0]}")
        lines.append(f"    thread {task}: " + "; ".join(part for part in parts if part) + "\n")
    return "".join(lines)


def _gdbs_words(pid):
    gdb = shutil.which("gdb")
    if not gdb:
        return ""
    command = [gdb, "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
               "-ex", "set pagination off", "-ex", "set print frame-arguments scalars", "-p", str(pid), "-ex", f"thread apply all bt {MOST_FRAMES}"]
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "ZGUARD_OPTIONS")}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
                          start_new_session=True) as process:
        try:
            text = process.communicate(timeout=GDB_SECONDS)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            process.terminate()  # on SIGTERM gdb detaches from the process
            text = process.communicate()[0].decode("utf-8", "replace") + "(gdb took too long)\n"
    kept = [line for line in text.splitlines() if re.match(r"Thread |#\d|\(gdb took", line)]
    return "".join(f"    {line[:240]}\n" for line in kept)


def holders(port):
    """Returns the holders of this TCP port, as text."""
    lines = []
    inodes = {}
    for name in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if int(fields[1].rsplit(":", 1)[1], 16) == int(port):
                state, peer = int(fields[3], 16), int(fields[2].rsplit(":", 1)[1], 16)
                word = TCP_STATES[state] if state < len(TCP_STATES) else f"state {state}"
                inodes.setdefault((word, fields[9] if fields[9] != "0" else ""), set()).add(peer)  # the kernel may list a socket twice
    owners = _owners({inode for _, inode in inodes if inode})
    for (word, inode), peers in sorted(inodes.items()):
        peers = sorted(peers)
        text = f"{word}{f', to port {peers[0]}' if peers[0] else ''}{f' and {len(peers) - 1} more' if len(peers) > 1 else ''}"
        lines.append(f"    {text}: {owners.get(inode, 'no process' if not inode else f'socket {inode}')}\n")
    if lines:
        return f"port {port} is held:\n" + "".join(lines[:12])
    with socket.socket() as probe:  # a bound socket that does not listen is in no list
        try:
            probe.bind(("127.0.0.1", int(port)))
        except OSError as error:
            return f"port {port} cannot be had ({error.strerror}), by a socket that does not listen\n"
    return f"nobody holds port {port}\n"


def _owners(inodes):
    found = {}
    for folder in Path("/proc").iterdir() if inodes else ():
        if not folder.name.isdigit():
            continue
        try:
            entries = os.listdir(folder / "fd")
            command = (folder / "comm").read_text().strip()
        except OSError:
            continue
        for entry in entries:
            try:
                link = os.readlink(folder / "fd" / entry)
            except OSError:  # closed meanwhile
                continue
            if link.startswith("socket:[") and link[8:-1] in inodes:
                found.setdefault(link[8:-1], f"{command}, process {folder.name}")
    return found


def kill_session(session, seconds=5.0):
    """Kills the remaining processes of a session. The leader must not have been reaped, or its id could belong to another process."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while left := session_members(session):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if time.monotonic() > deadline:
            return
        time.sleep(pause)
        pause = min(0.05, pause * 2)
