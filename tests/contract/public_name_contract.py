"""Whose a public name is: of the jobs that finished, the one that asked for it last. For ever."""

from __future__ import annotations

import asyncio
import json

import pytest

from planrun.core.history import What
from planrun.core.life import Outcome
from planrun.core.messages import Handler
from planrun.ledger.contract import Ledger

from .actors import KIND, Actors
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

NAME = "campaign-42/master.mp4"
ROUTE = f"publish:{NAME}"
DAY_S = 86_400


def msg_id(job_id: str, route: str = ROUTE) -> str:
    return f"result:{job_id}:{route}"


class PublicNameContract(LedgerContract):
    async def holder(self, ledger: Ledger) -> str | None:
        return await ledger.holder_of("default", NAME)

    async def test_a_job_has_its_name_once_it_has_finished(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running(subscribers=(ROUTE,))
        assert await self.holder(ledger) is None

        await they.succeed(lease)

        assert await self.holder(ledger) == lease.job_id
        assert await ledger.holder_of("another", NAME) is None
        assert list(await they.bodies()) == [msg_id(lease.job_id)]

    @pytest.mark.parametrize("first_to_finish", [0, 1])
    async def test_of_two_jobs_the_later_one_has_the_name_whichever_finished_first(
        self, they: Actors, ledger: Ledger, first_to_finish: int
    ) -> None:
        leases = [await they.running(subscribers=(ROUTE,)) for _ in range(2)]
        await they.succeed(leases[first_to_finish])
        assert await self.holder(ledger) == leases[first_to_finish].job_id
        await they.succeed(leases[1 - first_to_finish])

        assert await self.holder(ledger) == leases[1].job_id
        owed = [msg_id(lease.job_id) for lease in leases]
        assert sorted(await they.bodies()) == sorted(owed if first_to_finish == 0 else owed[1:])
        superseded = [event.what for event in await ledger.events(leases[0].job_id) if event.what == "superseded"]
        assert len(superseded) == first_to_finish
        assert await ledger.violations() == []

    @pytest.mark.parametrize("end", [Outcome.PERMANENT, None])
    async def test_a_later_job_that_did_not_finish_takes_no_name(
        self, they: Actors, ledger: Ledger, end: Outcome | None
    ) -> None:
        first, second = [await they.running(subscribers=(ROUTE,)) for _ in range(2)]
        await they.fail(second, end) if end else await they.cancel(second.job_id)
        await they.succeed(first)

        assert await self.holder(ledger) == first.job_id
        assert list(await they.bodies()) == [msg_id(first.job_id)]
        assert await ledger.violations() == []

    async def test_the_order_outlives_the_jobs(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        """An old job that ends long after the newer one has left the ledger."""
        old = await they.running(subscribers=(ROUTE,))
        new = await they.running(by="w2", subscribers=(ROUTE,))
        await they.succeed(new)
        await ledger.confirm(msg_id(new.job_id), what=What.PUBLISHED, detail=NAME)
        await ledger.stopped(new, "w2")
        for _ in range(3):
            clock.advance(15 * DAY_S)
            stale = await ledger.stale(limit=10)
            records = await ledger.records(stale.jobs)
            await ledger.drop(stale, archived={record.job_id: record.seen for record in records})
            for garbage in await ledger.garbage(grace_ms=0, limit=10):
                await ledger.collected(garbage.lease)
        assert await ledger.job(None, new.job_id) is None

        await they.succeed(old)

        assert await self.holder(ledger) == new.job_id

    async def test_asking_again_changes_no_order(self, they: Actors, ledger: Ledger) -> None:
        first = await they.running(request_id="r1", subscribers=(ROUTE,))
        second = await they.running(subscribers=(ROUTE,))
        await they.submit(request_id="r1", subscribers=(ROUTE,))
        await they.succeed(second)
        await they.succeed(first)
        await they.submit(request_id="r1", subscribers=(ROUTE,))

        assert await self.holder(ledger) == second.job_id

    async def test_one_who_asks_for_a_name_after_the_end_gets_it(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running(key="k")
        await they.succeed(lease)

        await they.submit(key="k", subscribers=(ROUTE,))

        assert await self.holder(ledger) == lease.job_id
        assert list(await they.bodies()) == [msg_id(lease.job_id)]

    async def test_a_message_that_names_a_public_file_waits_for_it(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running(subscribers=(ROUTE, "publish:other", "webhook:https://x.example"))
        await they.succeed(lease)
        assert sorted(await they.bodies()) == [msg_id(lease.job_id), msg_id(lease.job_id, "publish:other")]

        await ledger.confirm(msg_id(lease.job_id))
        assert await they.bodies() == {}
        await ledger.confirm(msg_id(lease.job_id, "publish:other"))

        [body] = (await they.bodies()).values()
        assert json.loads(body)["public_names"] == [NAME, "other"]

    async def test_it_waits_no_longer_than_a_result_is_kept(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("w1", handlers=(Handler(kind=KIND, version="v1", result_ttl_s=DAY_S),))
        lease = await they.running(subscribers=(ROUTE, "webhook:https://x.example"))
        await they.succeed(lease)
        clock.advance(DAY_S - 1)
        assert list(await they.bodies()) == [msg_id(lease.job_id)]
        clock.advance(1)

        assert msg_id(lease.job_id, "webhook:https://x.example") in await they.bodies()

    async def test_while_a_file_is_not_public_its_result_is_kept(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running(subscribers=(ROUTE,))
        await they.succeed(lease)
        clock.advance(100 * DAY_S)
        assert (await ledger.stale(limit=10)).results == ()

        await ledger.confirm(msg_id(lease.job_id), what=What.PUBLISHED, detail=NAME)
        await ledger.confirm(msg_id(lease.job_id), what=What.PUBLISHED, detail=NAME)

        assert (await ledger.stale(limit=10)).results == (lease.job_id,)
        said = [event.detail for event in await ledger.events(lease.job_id) if event.what == "published"]
        assert said == [NAME]

    async def test_many_jobs_for_one_name_in_any_order(self, they: Actors, ledger: Ledger) -> None:
        leases = [await they.running(subscribers=(ROUTE,)) for _ in range(10)]
        await asyncio.gather(*(they.succeed(lease) for lease in leases[5:] + leases[:5]))

        assert await self.holder(ledger) == leases[-1].job_id
