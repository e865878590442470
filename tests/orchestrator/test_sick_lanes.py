"""A lane whose queue takes nothing, and a broker that takes nothing: who else gets offers meanwhile."""

from __future__ import annotations

import pytest

from planrun.core.errors import TransportUnavailable
from planrun.core.flows import lane_of
from tests.orchestrator.test_dispatcher import Stage, stage

__all__ = ["stage"]

pytestmark = pytest.mark.anyio


async def test_a_lane_that_takes_nothing_holds_up_no_other_and_is_left_alone_for_a_minute(stage: Stage) -> None:
    sick = lane_of(await stage.machine("sick", slots=9))
    await stage.machine("well", capabilities=("gpu",))
    stage.transport.sick = {sick}

    async def tick() -> bool:
        """Did every lane that was asked take its offers?"""
        await stage.submit(2, asked=str(stage.clock.wall_ms))
        try:
            await stage.tick()
        except TransportUnavailable:
            return False
        return True

    assert not await tick()
    assert not await tick()
    assert len(stage.out("well")) == 2
    [[offer, *_]] = [lane for name, lane in stage.transport.lanes.items() if name != sick]
    outlook = await stage.ledger.outlook(offer.job_id)
    assert outlook is not None
    assert outlook.offering is not None
    assert outlook.offering.stopped_at_ms is None
    asked = stage.transport.asked[sick]
    for _ in range(59):
        stage.clock.advance(1)
        await stage.take("well")
        assert await tick()
    assert stage.transport.asked[sick] == asked

    stage.transport.sick = set()
    stage.clock.advance(1)
    await stage.machine("sick", slots=9)
    assert await tick()
    assert len(stage.out("sick")) == 18


async def test_a_broker_that_is_away_is_asked_once_for_all_lanes_and_once_it_is_back_each_has_its_offers(
    stage: Stage,
) -> None:
    names = [f"w{n}" for n in range(4)]
    for name in names:
        await stage.machine(name, capabilities=(name,))
        await stage.submit(2, needs=(name,), asked=name)
    stage.transport.is_up = False
    for n in range(1, 7):
        with pytest.raises(TransportUnavailable):
            await stage.tick()
        assert stage.transport.asked.total() == 2 * n
    assert len(stage.transport.asked) == 4, "each has its turn"

    stage.transport.is_up = True
    await stage.tick()

    assert [len(stage.out(name)) for name in names] == [2] * 4
