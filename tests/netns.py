"""Hosts of a test's own: network namespaces on one bridge, whose cables can be cut and whose ports can be blocked.

Nothing outside of them is touched: the hub is a namespace of its own, too. A thread that is `at` a host opens its
sockets there, and the processes that it starts live there. Needs root, `ip` and `iptables`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

CLONE_NEWNET = 0x40000000
_numbers = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)


@dataclass(eq=False)
class Network:
    """A hub, where the services live, and hosts around it. `close` removes all of it."""

    name: str = field(default_factory=lambda: f"pr{os.getpid()}-{next(_numbers)}")
    hosts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        _run("ip", "netns", "add", self.name)
        _run("ip", "-n", self.name, "link", "set", "lo", "up")
        _run("ip", "-n", self.name, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self.name, "address", "add", f"{self.hub_address}/24", "dev", "bridge")
        _run("ip", "-n", self.name, "link", "set", "bridge", "up")

    @property
    def hub_address(self) -> str:
        """Where the services listen."""
        return "10.77.0.1"

    def add(self, host: str) -> None:
        """One more host, on a cable of its own."""
        self.hosts.append(host)
        space, cable = self.space(host), self._cable(host)
        _run("ip", "netns", "add", space)
        _run("ip", "-n", self.name, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "-n", self.name, "link", "set", cable, "master", "bridge", "up")
        _run("ip", "-n", space, "link", "set", "lo", "up")
        _run("ip", "-n", space, "address", "add", f"10.77.0.{len(self.hosts) + 1}/24", "dev", "eth0")
        _run("ip", "-n", space, "link", "set", "eth0", "up")

    def space(self, host: str) -> str:
        """The name of its namespace."""
        return f"{self.name}-{host}"

    def on(self, host: str) -> Sequence[str]:
        """What to put before a command so that it runs there."""
        return ("ip", "netns", "exec", self.space(host))

    def cut(self, host: str) -> None:
        """Pull its cable: nothing gets through, and no connection is closed by that."""
        _run("ip", "-n", self.name, "link", "set", self._cable(host), "down")

    def heal(self, host: str) -> None:
        _run("ip", "-n", self.name, "link", "set", self._cable(host), "up")

    def block(self, host: str, port: int) -> None:
        """Drop what it sends to one port of the hub, and what comes back."""
        self._filter(host, "-A", port)

    def unblock(self, host: str, port: int) -> None:
        self._filter(host, "-D", port)

    @contextmanager
    def at_hub(self) -> Iterator[None]:
        """This thread, and what it starts, is at the hub."""
        with Path("/proc/self/ns/net").open("rb") as home, Path(f"/run/netns/{self.name}").open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def close(self) -> None:
        """End it. Whatever still runs there is without a network from then on."""
        for space in [*map(self.space, self.hosts), self.name]:
            with suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "delete", space)

    def _cable(self, host: str) -> str:
        return f"to-{host}"

    def _filter(self, host: str, change: str, port: int) -> None:
        there = ("ip", "netns", "exec", self.space(host), "iptables", "-w", change)
        _run(*there, "OUTPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")
        _run(*there, "INPUT", "-p", "tcp", "--sport", str(port), "-j", "DROP")


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
