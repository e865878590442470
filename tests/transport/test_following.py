"""A worker's end goes where its fleet says: at once when its broker is lost, and by and by although it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from planrun.clock import SystemClock
from planrun.core.errors import Invalid, LedgerUnavailable
from planrun.transport.contract import WorkerTransport
from planrun.transport.following import FollowingTransport, Meeting
from tests.contract.transport_contract import soon

pytestmark = pytest.mark.anyio
OLD, NEW, NONE = Meeting("amqp://old", "pr"), Meeting("amqp://new", "pr"), Meeting("", "pr")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class End:
    def __init__(self, at: Meeting, lost: Callable[[], None]) -> None:
        self.at, self.lost, self.closed = at, lost, False

    async def offers(self, free: int) -> Any:
        return [self.at]

    async def close(self) -> None:
        self.closed = True


class Fleet:
    """Attributes:
    at: Where it says that it is; or how it fails to say it.
    ends: All that were made.
    """

    def __init__(self, every_s: float = 3600) -> None:
        self.at: Meeting | Exception = OLD
        self.ends: list[End] = []
        self.transport = FollowingTransport(
            OLD, SystemClock.open_system(), where=self.where, opening=self.open_end, every_s=every_s
        )

    async def where(self) -> Meeting:
        if isinstance(self.at, Exception):
            raise self.at
        return self.at

    def open_end(self, at: Meeting, lost: Callable[[], None]) -> WorkerTransport:
        if at.broker == "nonsense":
            raise Invalid("no such address")
        self.ends.append(End(at, lost))
        return cast("WorkerTransport", self.ends[-1])

    async def is_new(self) -> bool:
        return cast("list[Any]", await self.transport.offers(1)) == [self.at]


@pytest.mark.parametrize("at", [NEW, NONE])
async def test_a_worker_whose_broker_is_lost_looks_at_once_where_its_fleet_is(at: Meeting) -> None:
    fleet = Fleet()
    await fleet.transport.offers(1)
    fleet.at = at

    fleet.ends[0].lost()

    await soon(fleet.is_new)
    assert [end.closed for end in fleet.ends] == [True, False]
    await fleet.transport.close()
    assert fleet.ends[1].closed


async def test_a_broker_that_still_answers_keeps_no_worker_whose_fleet_has_left_it() -> None:
    fleet = Fleet(every_s=0.01)
    await fleet.transport.offers(1)
    fleet.at = NEW

    await soon(fleet.is_new)
    await fleet.transport.close()


@pytest.mark.parametrize(
    ("at", "error"),
    [(LedgerUnavailable("away"), LedgerUnavailable), (Meeting("nonsense", "pr"), Invalid), (OLD, None)],
)
async def test_a_worker_stays_where_it_is_until_it_can_go(
    at: Meeting | Exception, error: type[Exception] | None
) -> None:
    fleet = Fleet()
    fleet.at = at

    if error is None:
        await fleet.transport.tick()
    else:
        with pytest.raises(error):
            await fleet.transport.tick()

    assert cast("list[Any]", await fleet.transport.offers(1)) == [OLD]
    assert [end.closed for end in fleet.ends] == [False]
    await fleet.transport.close()
