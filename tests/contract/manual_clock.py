"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import itertools

from planrun.clock import Instant

BOOT_MS = 10_000_000  # far above every wait, so that a boottime of another boot is never right by chance
WALL_MS = 1_790_000_000_000


class ManualClock:
    """Implements `planrun.clock.Clock`. Its three readings move only by the methods below.

    Attributes:
        boot_ms_now: What boottime reads, milliseconds.
        wall_ms: What the wall clock reads, milliseconds since 1970.
        epoch: Identity of the pretended boot.
    """

    def __init__(self) -> None:
        self.boot_ms_now = BOOT_MS
        self.wall_ms = WALL_MS
        self.epoch = "boot-1"
        self._ids = itertools.count(1)

    def now(self) -> Instant:
        return Instant(self.boot_ms_now, self.wall_ms, self.epoch)

    def boot_ms(self) -> int:
        return self.boot_ms_now

    def new_id(self) -> str:
        return f"{next(self._ids):032x}"

    async def sleep(self, seconds: float) -> None:
        """Lets others run. Pretended time passes only by `advance`."""
        await asyncio.sleep(min(seconds, 0.01))

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.boot_ms_now += round(seconds * 1000)
        self.wall_ms += round(seconds * 1000)

    def jump_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock; no time passes."""
        self.wall_ms += round(seconds * 1000)

    def reboot(self, *, off_s: float = 60, boot_ms: int = 5_000) -> None:
        """The machine was off for a while, and counts its boottime from near zero again."""
        self.epoch = f"{self.epoch}'"
        self.boot_ms_now = boot_ms
        self.wall_ms += round(off_s * 1000)
