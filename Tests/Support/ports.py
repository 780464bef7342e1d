"""Reserves ports for test servers, so that no other process gets the same ports.
The ports are outside the kernel's range of ephemeral ports, belong to no registered service, and are held against other test processes
while they are needed.

A port is held by a name in the abstract namespace of Unix sockets: the name is visible to exactly those who see the port (both are
separated by network namespaces), for every account, and disappears with the process."""

import errno
import random
import socket
from pathlib import Path

FIRST, LAST = 10_240, 65_535
KERNELS_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FEWEST = 1_000  # if the kernel's range leaves fewer ports, ports in the range are used too


class NoPort(Exception):
    """All ports are in use."""


def kernels_range(text=None):
    """Returns the first and the last port of the kernel's ephemeral range."""
    try:
        first, last = map(int, (text or KERNELS_RANGE.read_text()).split())
        return first, last
    except (OSError, ValueError):
        return 32_768, 60_999


def candidates(first, last):
    """Returns all ports that may be used if the kernel's range is `first` to `last`."""
    # A row of consecutive ports cannot span the kernel's range, because the ports inside the range are missing.
    outside = [port for port in range(FIRST, LAST + 1) if not first <= port <= last]
    return outside if len(outside) >= FEWEST else list(range(FIRST, LAST + 1))


def is_free(port):
    """Returns whether no process has bound the port on any address, and no connection uses it."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            # The address family is not supported, so the port is free in it.
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
        """Returns a free port and holds it."""
        return self.take_row(1)

    def take_row(self, count):
        """Returns the first of `count` consecutive free ports and holds them."""
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
