"""The clocks of one actor, and its chance."""

from __future__ import annotations

import asyncio
import random

from planrun.clock import Instant
from planrun.sim.loop import Actor

WALL_MS = 1_767_225_600_000  # 2026-01-01: when each history begins


class SimClock:
    """Implements `planrun.clock.Clock` for one machine.

    Attributes:
        wall_step_ms: By how much its wall clock is wrong.
        slept_s: How long it was suspended: boottime counts that, the monotonic clock does not.
        epoch: Changes with each boot.
    """

    def __init__(self, actor: Actor, chance: random.Random, *, epoch: str) -> None:
        self.actor = actor
        self.epoch = epoch
        self.wall_step_ms = 0
        self.slept_s = 0.0
        self._chance = chance

    def now(self) -> Instant:
        boot_ms = self.boot_ms()
        return Instant(boot_ms, WALL_MS + boot_ms + self.wall_step_ms, self.epoch)

    def boot_ms(self) -> int:
        return int((self.actor.mono_s + self.slept_s) * 1000)

    def new_id(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
