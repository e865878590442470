"""What a worker is offered, and who goes first: the most urgent job, and every tenth time the one that waited longest.

By priority alone, a steady stream of urgent jobs would keep all others waiting for ever. So at least one in ten starts
of each worker goes to the oldest job that it could run, whatever its priority. The jobs that are older than a given one
only become fewer: if `n` of them wait, it starts after at most `OLDEST_EVERY * (n + 1)` starts of any worker that can
run it. An urgent job loses a tenth of the starts by this, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from planrun.core.messages import Handler, Lease, Struct
from planrun.core.names import token_shown

OLDEST_EVERY = 10


class Offer(Struct, kw_only=True):
    """A hint that a job waits at this attempt. Never trusted, never needed for safety.

    Attributes:
        by_age: It is the one that has waited longest, and was asked for as such.
        seal: Proves that this ledger offered it.
    """

    job_id: str
    attempt: int
    namespace: str
    kind: str
    version: str
    priority: int = 0
    by_age: bool = False
    seal: str = ""


class OfferQuery(Struct, kw_only=True):
    """Attributes:
    oldest_at: Where in the answer the oldest job stands at the latest, whatever its priority; None: at its own place.
    """

    namespaces: tuple[str, ...]
    handlers: tuple[Handler, ...]
    capabilities: tuple[str, ...]
    limit: int
    oldest_at: int | None = None


def oldest_at(since: int, free: int) -> int | None:
    """Where in a worker's next offers the oldest job stands.

    Args:
        since: Its starts since the last one by age. One by age that could not be had stays due.
        free: How many jobs it would start now.

    Returns:
        An index; None: the start that is due by age is not among so many.
    """
    at = max(0, OLDEST_EVERY - 1 - since)
    return at if at < free else None


def with_oldest(line: Sequence[Offer], oldest: Offer, at: int) -> list[Offer]:
    """The line by urgency, with the oldest job no later than at that index."""
    place = next((n for n, offer in enumerate(line[:at]) if offer.job_id == oldest.job_id), at)
    others = [offer for offer in line if offer.job_id != oldest.job_id]
    return [*others[:place], msgspec.structs.replace(oldest, by_age=True), *others[place:]]


def since_oldest(since: int | None, offer: Offer, lease: Lease) -> int:
    """Starts since the last one by age, now that this offer was granted.

    Args:
        since: None for a worker's first start: it goes on from the count of all grants, so that workers that are
            started anew all the time go by age, too.
    """
    if offer.by_age:
        return 0
    return token_shown(lease.token) % OLDEST_EVERY if since is None else since + 1
