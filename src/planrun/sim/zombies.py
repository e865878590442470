"""Holders that outlive their leases, drawn from a seed: what fences, deadlines and markers are there for.

What goes wrong at any moment hardly ever meets one. So here a holder is stopped where it is about to do something, for
longer than the ledger waits, and goes on when somebody else may run the job; or it is off the network just when what it
was told came late; or its heartbeats wait to be read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from planrun.core.lease import fleet_lease_ms, heartbeat_ms
from planrun.sim.script import Act
from planrun.sim.settings import Mode, Settings

PLACES = ("settle:before", "upload:before-complete", "fence:after-check")
SHARE = 0.4  # of all seeds, for each kind of them
OVER_S = 40.0  # by then somebody else has begun


class Zombies:
    """Of one seed: from a stream of chance of their own, so that they change nothing else of its plan."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self._chance = random.Random(f"{seed} zombies")
        self._settings = settings
        lease_ms = round(settings.lease_s * 1000)
        self._heartbeat_s = heartbeat_ms(lease_ms) / 1000
        self._waits_s = (fleet_lease_ms(lease_ms) if settings.mode is Mode.FLEET else lease_ms) / 1000

    def acts(self) -> Iterator[Act]:
        """All that it does."""
        kinds = [self.stopped]
        if self._settings.mode is Mode.FLEET:
            kinds += [self.cut_off, self.unread]
        for kind in kinds:
            if self._chance.random() < SHARE:
                yield from kind()

    def stopped(self) -> Iterator[Act]:
        """One worker, where it is about to do something; the others are there."""
        name = self._worker()
        for place in self._chance.sample(PLACES, self._chance.randint(1, 2)):
            args = {"name": name, "at": place, "nth": self._chance.choice((1, 1, 2, 3))}
            after_s = self._chance.choice((0.1, 0.5, 3))
            yield Act("outlive", {**args, "after_s": after_s, "for_s": round(self._waits_s + OVER_S, 2)})

    def cut_off(self) -> Iterator[Act]:
        """From whoever could tell it; and what it hears of its last heartbeats comes late."""
        name, from_s = self._worker(), self._moment_s()
        until_s = round(from_s + self._waits_s + self._chance.uniform(0, OVER_S), 2)
        for whom in ("broker", "orchestrator"):
            yield Act("cut", {"who": name, "whom": whom, "from_s": from_s, "until_s": until_s})
        by_s = round(self._heartbeat_s * self._chance.uniform(0.2, 0.5), 2)
        since_s = max(0.0, round(from_s - self._heartbeat_s, 3))
        late = {"who": name, "what": "beat", "way": "back", "by_s": by_s, "from_s": since_s, "until_s": from_s}
        yield Act("delay", late)

    def unread(self) -> Iterator[Act]:
        """The orchestrator is behind with what the broker has confirmed."""
        for _ in range(self._chance.randint(1, 3)):
            by_s = round(self._waits_s * self._chance.uniform(0.2, 1.5), 2)
            yield Act("lag_beats", {"at_s": self._moment_s(), "by_s": by_s})

    def _worker(self) -> str:
        return f"w{self._chance.randint(1, self._settings.workers)}"

    def _moment_s(self) -> float:
        return round(self._chance.uniform(0, self._settings.honest_s), 3)
