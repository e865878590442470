"""Queues and exchanges: their names, and what each is declared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

DAY_MS = 24 * 3600 * 1000
DELIVERIES_MAX = 100  # of one offer; then it is put aside, and the ledger offers the job anew
BEATS_MAX = 1_000_000
DEAD_MAX = 10_000
CONTROL_EXPIRES_MS = 10 * 60 * 1000
UNUSED_EXPIRES_MS = 7 * DAY_MS


class Queue(NamedTuple):
    """All are durable. `arguments` as RabbitMQ knows them."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topology:
    """Attributes:
    prefix: What all names begin with, so that several fleets share one broker.
    queue_type: `quorum`, replicated where the broker is a cluster, or `classic`.
    """

    prefix: str = "pr"
    queue_type: str = "quorum"

    def offers(self, lane: str) -> Queue:
        """Nobody orders in here: the ledger did. It goes when no machine of that lane has come for a week."""
        arguments = {"x-expires": UNUSED_EXPIRES_MS, **self._dead_letters()}
        if self.queue_type == "quorum":
            arguments["x-delivery-limit"] = DELIVERIES_MAX
        return self._queue(f"{self.prefix}.offers.{lane}", arguments)

    def beats(self, generation: int, epoch: int) -> Queue:
        """Heartbeats of one epoch. A full queue says no; none that was confirmed is dropped, however old it is."""
        limits = {"x-max-length": BEATS_MAX, "x-overflow": "reject-publish", "x-expires": DAY_MS}
        return self._queue(f"{self.prefix}.beat.{generation}.{epoch}", {**self._dead_letters(), **limits})

    def control(self, incarnation: str) -> Queue:
        """Words to one worker: lossy, so never replicated."""
        arguments = {"x-queue-type": "classic", "x-expires": CONTROL_EXPIRES_MS, "x-message-ttl": CONTROL_EXPIRES_MS}
        return Queue(f"{self.prefix}.ctl.{incarnation}", arguments)

    @property
    def orphans(self) -> Queue:
        """Offers that the ledger did not know: evidence, so without any limit."""
        return self._queue(f"{self.prefix}.orphan", {})

    @property
    def dead(self) -> Queue:
        """What could not be read, and offers that were delivered too often."""
        limits = {"x-max-length": DEAD_MAX, "x-overflow": "drop-head", "x-message-ttl": 14 * DAY_MS}
        return self._queue(f"{self.prefix}.dead", limits)

    @property
    def beat_exchange(self) -> str:
        """Where heartbeats and markers are sent. The queue of the present epoch alone is bound to it."""
        return f"{self.prefix}.beats"

    @property
    def owner(self) -> str:
        """A queue that nothing is put into: the connection of the one orchestrator holds its name."""
        return f"{self.prefix}.owner"

    def _dead_letters(self) -> dict[str, Any]:
        """At most once: it is evidence of garbage, no job depends on it. At least once is what a broker (seen in 3.10)
        may not survive a restart with: from then on it makes no such queue, until it is restarted again."""
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead.name}

    def _queue(self, name: str, arguments: dict[str, Any]) -> Queue:
        return Queue(name, {"x-queue-type": self.queue_type, **arguments})
