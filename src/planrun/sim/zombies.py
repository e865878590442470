"""Holders that outlive their leases, drawn from a seed: what fences, deadlines and markers are there for.

What goes wrong at any moment hardly ever meets one. So here a holder is stopped where it is about to do something, for
longer than the ledger waits, and goes on when somebody else may run the job; or it is off the network just when what it
was told came late; or its heartbeats wait to be read.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

from planrun.core.lease import fleet_lease_ms, heartbeat_ms
from planrun.sim.script import Act
from planrun.sim.settings import Mode, Settings

PLACES = ("settle:before", "upload:before-complete", "fence:after-check")
SHARE = 0.2  # of all seeds, for each kind of them
OVER_S = 20.0  # by then somebody else has begun


class Zombies:
    """Of one seed: from a stream of chance of their own, so that they change nothing else of its plan."""

    def __init__(self, seed: int, settings: Settings, sure: Collection[str]) -> None:
        """
        Args:
            sure: Kinds that there are in any case.
        """
        self._chance = random.Random(f"{seed} zombies")
        self._settings = settings
        self._sure = sure
        lease_ms = round(settings.lease_s * 1000)
        self._heartbeat_s = heartbeat_ms(lease_ms) / 1000
        self._waits_s = (fleet_lease_ms(lease_ms) if settings.mode is Mode.FLEET else lease_ms) / 1000

    def acts(self) -> Iterator[Act]:
        """All that it does."""
        kinds = [self.stopped]
        if self._settings.mode is Mode.FLEET:
            kinds += [self.silent, self.unread]
        for kind in kinds:
            if self._chance.random() < SHARE or kind.__name__ in self._sure:
                yield from kind()

    def stopped(self) -> Iterator[Act]:
        """One worker, where it is about to do something; the others are there."""
        name = self._worker()
        for place in self._chance.sample(PLACES, self._chance.randint(1, 2)):
            args = {"name": name, "at": place, "nth": self._chance.choice((1, 1, 2, 3))}
            after_s = self._chance.choice((0.1, 0.5, 3))
            yield Act("outlive", {**args, "after_s": after_s, "for_s": round(self._waits_s + OVER_S, 2)})

    def silent(self) -> Iterator[Act]:
        """Off the network, when the last that it has heard came late."""
        by_s = round(self._heartbeat_s * self._chance.uniform(0.1, 0.48), 2)
        for_s = round(self._waits_s + self._chance.uniform(0, OVER_S), 2)
        yield Act(
            "fall_silent", {"name": self._worker(), "nth": self._chance.randint(1, 4), "by_s": by_s, "for_s": for_s}
        )

    def unread(self) -> Iterator[Act]:
        """The orchestrator is behind with what the broker has confirmed, perhaps just when a dead one's lease ends."""
        for _ in range(self._chance.randint(1, 3)):
            at_s = self._moment_s()
            if self._chance.random() < 0.5:
                yield Act("crash", {"name": self._worker(), "at_s": at_s})
                at_s = round(at_s + self._waits_s * self._chance.uniform(0.7, 1), 3)
            by_s = round(self._waits_s * self._chance.uniform(0.5, 1.6), 2)
            yield Act("lag_beats", {"at_s": at_s, "by_s": by_s})

    def _worker(self) -> str:
        return f"w{self._chance.randint(1, self._settings.workers)}"

    def _moment_s(self) -> float:
        """While there is most to do."""
        return round(self._chance.uniform(0, 0.7 * self._settings.honest_s), 3)
