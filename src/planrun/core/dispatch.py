"""How many offers a lane gets, whose they are, and when they go out again.

Offers are hints, and few: what is out cannot be overtaken by a more urgent job, so a lane holds about two for each
free slot, and what its machines start within a second while they are busy.

Each offer goes to the namespace that has the fewest jobs running or on offer there; among equals to the one whose turn
was longest ago. So if `n` namespaces have work for a lane, each holds at least one in `n` of its slots (rounded down)
once as many have come free, and one that holds less than its share waits for at most `n - 1` offers to others.
Within a namespace the order is the ledger's: by urgency, and every tenth time by age.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from planrun.core.offers import Offer

REOFFER_MS = 600_000
REOFFER_FROM_EMPTY_MS = 60_000
REOFFER_TO_IDLE_MS = 5_000
ELSEWHERE_AFTER_MS = 5_000
PER_FREE_SLOT = 2


def window(*, slots: int, free: int, starts_per_s: int) -> int:
    """How many offers may be out in a lane.

    Args:
        starts_per_s: What its machines have taken within the last second.
    """
    return min(PER_FREE_SLOT * free + starts_per_s, PER_FREE_SLOT * slots)


def is_overdue(out_for_ms: int, *, is_empty: bool, is_idle: bool) -> bool:
    """Has an offer been out for so long that it is taken for lost?

    A machine takes an offer out of its lane to ask for the job, which takes it no seconds, or to keep it until it has
    room: one at a time. So one too many lies in the lane afterwards, which is empty no more: they cannot pile up.

    Args:
        is_empty: Nothing lies in its lane.
        is_idle: Machines there have free slots.
    """
    if not is_empty:
        return out_for_ms >= REOFFER_MS
    return out_for_ms >= (REOFFER_TO_IDLE_MS if is_idle else REOFFER_FROM_EMPTY_MS)


def fair(
    lines: Mapping[str, Sequence[Offer]], *, holds: Mapping[str, int], turns: Mapping[str, int], limit: int
) -> list[Offer]:
    """The next offers of a lane.

    Args:
        lines: What waits, by namespace, the first one first.
        holds: Jobs of a namespace that run or are on offer there.
        turns: When it last had its turn; any growing number, none: never.
    """
    chosen: list[Offer] = []
    order = [(holds.get(name, 0), turns.get(name, -1), name, 0) for name, line in lines.items() if line]
    heapq.heapify(order)
    now = max(turns.values(), default=-1)
    while order and len(chosen) < limit:
        held, _, name, at = heapq.heappop(order)
        chosen.append(lines[name][at])
        now += 1
        if at + 1 < len(lines[name]):
            heapq.heappush(order, (held + 1, now, name, at + 1))
    return chosen
