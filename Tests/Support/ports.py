"""Ports for the servers of tests, which nobody else gets: outside of those that the kernel gives to outgoing connections and to
whoever asks for any, without a service of that name, and each held against other test processes for as long as it is needed.

What holds a port is a name in the abstract namespace of Unix sockets: it is seen by exactly those who see the port (network
namespaces part both), by every account, and it goes with the process that has it."""

import errno
import random
import socket
from pathlib import Path

FIRST, LAST = 10_240, 65_535
KERNELS_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FEWEST = 1_000  # where the kernel's range leaves fewer, those within it must do


class NoPort(Exception):
    """All ports are in use."""


def kernels_range(text=None):
    """The first and the last port of those that the kernel gives away by itself."""
    try:
        first, last = map(int, (text or KERNELS_RANGE.read_text()).split())
        return first, last
    except (OSError, ValueError):
        return 32_768, 60_999


def candidates(first, last):
    """All ports that may be handed out where the kernel gives away those from `first` to `last`."""
    # Below and above are kept apart by the range: a row of ports never reaches across it.
    outside = [port for port in range(FIRST, LAST + 1) if not first <= port <= last]
    return outside if len(outside) >= FEWEST else list(range(FIRST, LAST + 1))


def is_free(port):
    """Whether nobody has bound the port on any address, nor has connections that used it."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            # No such family here: nobody can have the port in it.
    return True


def has_service(port):
    try:
        return bool(socket.getservbyport(port))
    except OSError:
        return False


class Ports:
    """Ports that are held until `close`, or the end of the process."""

    def __init__(self):
        self._holders = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for holder in self._holders.values():
            holder.close()
        self._holders.clear()

    def take(self):
        """A port that is free, and ours from now on."""
        return self.take_row(1)

    def take_row(self, count):
        """The first of `count` ports that follow one another."""
        allowed = candidates(*kernels_range())
        known = set(allowed)
        for first in random.sample(allowed, len(allowed)):
            row = range(first, first + count)
            if all(port in known and not has_service(port) for port in row) and self._hold(row):
                return first
        raise NoPort(f"no {count} free ports in a row from {allowed[0]} to {allowed[-1]}")

    def _hold(self, row):
        held = {}
        for port in row:
            holder = socket.socket(socket.AF_UNIX)
            held[port] = holder
            try:
                holder.bind(f"\0zguard-tests-port-{port}")
            except OSError:
                break
            if not is_free(port):
                break
        else:
            self._holders.update(held)
            return True
        for holder in held.values():
            holder.close()
        return False
