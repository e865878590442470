"""The clocks of one actor, and its chance."""

from __future__ import annotations

import asyncio
import random

from planrun.clock import Instant
from planrun.sim.actor import Hardware

WALL_MS = 1_767_225_600_000  # 2026-01-01: when each history begins


class SimClock:
    """Implements `planrun.clock.Clock` for a process on one machine."""

    def __init__(self, hardware: Hardware, chance: random.Random) -> None:
        self._hardware = hardware
        self._chance = chance

    def now(self) -> Instant:
        boot_ms = self.boot_ms()
        hardware = self._hardware
        return Instant(boot_ms, WALL_MS + hardware.wall_step_ms + hardware.wall_ms, hardware.epoch)

    def boot_ms(self) -> int:
        return int(self._hardware.boot_s * 1000)

    def new_id(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
