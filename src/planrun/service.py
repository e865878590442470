"""What the service manager that started this process is told, such as systemd: ready, still at work, ending.

Its watchdog is fed only while every loop that matters keeps its word: each says by when it comes back. One that waits
for somebody who does not answer comes back all the same, later; one that is stuck never does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from planrun.clock import Clock

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLES = ("WATCHDOG_USEC", "WATCHDOG_PID")
FEEDS = 4  # within the watchdog's time; half of it a loop may be late

log = logging.getLogger(__name__)


class Returns:
    """By when each loop has said that it comes back, boottime milliseconds."""

    def __init__(self) -> None:
        self._by_ms: dict[str, int] = {}

    def say(self, loop: str, by_ms: int) -> None:
        self._by_ms[loop] = by_ms

    def leave(self, loop: str) -> None:
        """It has come to its end, and does not come back."""
        self._by_ms.pop(loop, None)

    def late_ms(self, now_ms: int) -> int:
        """How late the latest one is; 0: all keep their word."""
        return max([0, *(now_ms - by_ms for by_ms in self._by_ms.values())])


@dataclass(frozen=True, slots=True)
class Overseer:
    """Attributes:
    address: Of its socket; empty: there is none, and nothing is said.
    watchdog_s: After so long without a sign it kills this process; 0: never.
    """

    address: str = ""
    watchdog_s: float = 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Overseer:
        """The one that has started this process, by what it left in the environment."""
        span, pid = (environment.get(name, "") for name in WATCHDOG_VARIABLES)
        is_meant = span.isdecimal() and pid in ("", str(os.getpid()))
        return cls(environment.get(SOCKET_VARIABLE, ""), int(span) / 1e6 if is_meant else 0)

    @asynccontextmanager
    async def watching(self, returns: Returns, clock: Clock) -> AsyncIterator[None]:
        """Ready on entry, ending on exit; the watchdog is fed meanwhile, as long as all loops keep their word."""
        self._say("READY=1")
        feeding = asyncio.create_task(self._feed(returns, clock))
        try:
            yield
        finally:
            feeding.cancel()
            self._say("STOPPING=1")

    async def _feed(self, returns: Returns, clock: Clock) -> None:
        while self.watchdog_s:
            late_s = returns.late_ms(clock.boot_ms()) / 1000
            if late_s <= self.watchdog_s / 2:
                self._say("WATCHDOG=1")
            else:
                log.error("a loop of this process is stuck, %.0f s late: it will be killed, and started anew", late_s)
            await clock.sleep(self.watchdog_s / FEEDS)

    def _say(self, text: str) -> None:
        if not self.address:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.sendto(text.encode(), socket.MSG_DONTWAIT, name)
        except OSError as error:
            log.warning("the service manager at %s does not listen: %s", self.address, error)
