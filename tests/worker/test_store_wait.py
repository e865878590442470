"""An attempt waits for a store that is away, and for nothing else."""

from __future__ import annotations

import logging

import pytest

from planrun.complaints import Complaints
from planrun.core.errors import LostLease, StorageError
from planrun.core.lease import HeldLease
from planrun.core.messages import Lease, Standing
from planrun.worker.keeper import Holding
from planrun.worker.orders import Orders
from planrun.worker.store_wait import Drained, StoreWait
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

AWAY = StorageError("bucket results: no connection", is_away=True)


class Party:
    """A wait, all that may end it, and a store that says no so many times."""

    def __init__(self, *, drain_grace_s: float = 0) -> None:
        self.clock = ManualClock()
        self.orders = Orders()
        self.holding = Holding(
            Lease(job_id="j", attempt=1, token=1),
            HeldLease(job_id="j", attempt=1, token=1, lease_ms=1000, trusted_until_ms=2**60),
        )
        complaints = Complaints(logging.getLogger("test"), self.clock)
        self.wait = StoreWait("job j", self.holding, self.orders, self.clock, complaints, drain_grace_s)
        self.asked = 0
        self.answers: list[StorageError | str] = []

    def act(self) -> str:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, StorageError):
            raise answer
        return answer


async def test_a_store_that_is_away_is_asked_until_it_is_back_and_the_job_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    party = Party()
    party.answers = [AWAY, AWAY, AWAY, AWAY, AWAY, "stored"]

    assert await party.wait.carry(party.act) == "stored"

    assert party.asked == 6
    assert party.holding.message == "waiting for the store: bucket results: no connection"
    assert len(caplog.records) == 1


async def test_a_refusal_is_no_absence() -> None:
    party = Party()
    party.answers = [AWAY, StorageError("no such bucket"), "never"]

    with pytest.raises(StorageError, match="no such bucket"):
        await party.wait.carry(party.act)


async def test_a_canceled_job_waits_no_longer() -> None:
    party = Party()
    party.answers = [AWAY, "never"]
    party.holding.end(Standing(status="canceled"))

    with pytest.raises(LostLease):
        await party.wait.carry(party.act)

    assert party.asked == 1


@pytest.mark.parametrize("order", ["hurry", "abandon"])
async def test_a_worker_that_has_to_go_waits_no_longer(order: str) -> None:
    party = Party(drain_grace_s=1000)
    party.answers = [AWAY, "never"]
    party.orders.give(hand_back_ms=0 if order == "hurry" else None, hurry=order == "hurry", abandon=order == "abandon")

    with pytest.raises(Drained, match="no connection"):
        await party.wait.carry(party.act)


async def test_a_draining_worker_waits_as_long_as_its_jobs_may_go_on() -> None:
    party = Party(drain_grace_s=5)
    party.orders.give(hand_back_ms=party.clock.boot_ms())

    def two_seconds_later() -> str:
        party.clock.advance(2)
        return party.act()

    party.answers = [AWAY, AWAY, AWAY, AWAY, "never"]
    with pytest.raises(Drained):
        await party.wait.carry(two_seconds_later)

    assert party.asked == 3
