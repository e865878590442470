"""The sums of the lanes follow whoever comes, leaves, takes or ends something; signs of life alone add up nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import pytest
from msgspec import structs

from planrun.clock import Instant
from planrun.core.messages import Handler, WorkerRow
from planrun.ledger.fleet import FleetLedger
from planrun.orchestrator.roster import Roster

pytestmark = pytest.mark.anyio


class Registry:
    """What a roster asks of a ledger."""

    def __init__(self, *names: str) -> None:
        handlers = (Handler(kind="preview", version="v1"),)
        self.rows = {
            name: WorkerRow(incarnation=name, name=name, host="box", slots=2, handlers=handlers) for name in names
        }

    async def workers(self, seen_after_ms: int) -> list[WorkerRow]:
        return list(self.rows.values())

    async def workers_among(self, names: Collection[str]) -> list[WorkerRow]:
        return [self.rows[name] for name in names]


def at(boot_ms: int) -> Instant:
    return Instant(boot_ms, boot_ms, "epoch")


def free(roster: Roster, taken: dict[str, int]) -> list[int]:
    return [lane.free for lane in roster.lanes(taken)]


async def test_free_slots_are_added_up_anew_when_something_that_counts_has_changed() -> None:
    registry = Registry("w1", "w2")
    roster, none = Roster(cast("FleetLedger", registry)), dict[str, int]()
    await roster.look(at(0), ())
    assert free(roster, none) == [4]

    assert free(roster, {"w1": 1}) == [3]

    registry.rows["w3"] = structs.replace(registry.rows["w1"], incarnation="w3")
    await roster.look(at(1_000), ())
    assert free(roster, none) == [6]

    registry.rows["w2"] = structs.replace(registry.rows["w2"], state="draining")
    await roster.look(at(1_001), ("w2",))
    assert free(roster, none) == [4]

    registry.rows["w1"] = structs.replace(registry.rows["w1"], slots=5)
    await roster.look(at(1_002), ("w1",))
    assert free(roster, none) == [7]

    registry.rows.clear()
    await roster.look(at(60_000), ())
    assert free(roster, none) == []


async def test_a_sign_of_life_adds_nothing_up() -> None:
    registry = Registry("w1")
    roster, none = Roster(cast("FleetLedger", registry)), dict[str, int]()
    await roster.look(at(0), ())
    [before] = roster.lanes(none)

    registry.rows["w1"] = structs.replace(registry.rows["w1"], seen_at_ms=1_000)
    await roster.look(at(1_000), ())

    [after] = roster.lanes(none)
    assert after is before
