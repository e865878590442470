"""Time, randomness and ids, behind one port, so that tests and the simulator own them.

Leases run on CLOCK_BOOTTIME: it counts the time that a machine sleeps and no administrator can move
it. Wall-clock time is for people. A boottime means nothing after a reboot, so it always travels
with its *epoch*; inside a time namespace the namespace's offset is taken out, so that all processes
of one boot agree.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


class Instant(NamedTuple):
    """One reading of all clocks.

    Attributes:
        boot_ms: CLOCK_BOOTTIME, milliseconds.
        wall_ms: UTC, milliseconds since 1970. For people; never decides a lease.
        epoch: Identity of the boot that `boot_ms` belongs to.
    """

    boot_ms: int
    wall_ms: int
    epoch: str


class Clock(Protocol):
    """What planrun knows of time and chance."""

    def now(self) -> Instant: ...

    def boot_ms(self) -> int: ...

    def new_id(self) -> str:
        """A fresh id: 32 hex digits, unguessable."""
        ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of this machine. Where there is no boottime clock (macOS), the monotonic one stands in."""

    epoch: str
    _clock_id: int
    _offset_ms: int

    @classmethod
    def open_system(cls) -> SystemClock:
        """Read once what identifies this boot.

        Returns:
            A clock that every process of this boot agrees with.
        """
        boot_id = Path("/proc/sys/kernel/random/boot_id")
        epoch = boot_id.read_text().strip() if boot_id.exists() else f"host-{os.uname().nodename}"
        clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return cls(epoch, clock_id, _namespace_offset_ms())

    def now(self) -> Instant:
        return Instant(self.boot_ms(), time.time_ns() // 1_000_000, self.epoch)

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(self._clock_id) // 1_000_000 - self._offset_ms

    def new_id(self) -> str:
        return secrets.token_hex(16)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class BlockingClock(SystemClock):
    """For coroutines that run without an event loop."""

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop to hold up


def _namespace_offset_ms() -> int:
    """What this process's time namespace adds to boottime, milliseconds."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, seconds, nanoseconds = line.split()
        if name == "boottime":
            return int(seconds) * 1000 + int(nanoseconds) // 1_000_000
    return 0
