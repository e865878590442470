"""A strict ledger: nobody gets an answer before it stands in the store, and what stands there is the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from planrun.core.errors import Conflict
from planrun.core.life import Outcome, Reason, State
from planrun.core.listing import ListQuery
from planrun.core.manifests import Manifest
from planrun.core.messages import Failure, Lease
from planrun.core.names import token_of
from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger

from .actors import Actors, an_output
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

ENDS = ["finished", "failed", "canceled", "unsupported", "deadline"]
DAY_S = 86_400


class ChronicleContract(LedgerContract):
    @pytest.fixture
    def chronicle(self, ledger: Ledger) -> Chronicle:
        """The second port of this test's ledger."""
        raise NotImplementedError("each backend has its own")


class ClosingContract(ChronicleContract):
    # --- before the answer stands in the store ---

    @pytest.mark.parametrize("end", ENDS)
    async def test_until_its_manifest_stands_a_job_runs_for_everybody(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, end: str
    ) -> None:
        await chronicle.be_strict()
        job_id = await ended(they, ledger, end, subscribers=("webhook:https://x.example",))

        row = await they.row(job_id)
        assert (row.state, row.closing, row.reason, row.ended_at_ms) == (State.RUNNING, True, None, None)
        assert (row.token, row.incarnation, row.lease_until_ms) == (None, None, None)
        assert await ledger.result(job_id) is None
        assert await they.bodies() == {}
        assert [attempt.outcome for attempt in await ledger.attempts(job_id)] in ([None], [])
        assert {event.what for event in await ledger.events(job_id)} <= {"submitted", "granted"}
        outlook = await ledger.outlook(job_id)
        assert outlook is not None
        assert (outlook.error, outlook.job.state) == (None, State.RUNNING)
        assert (await they.cancel(job_id)).state is State.RUNNING
        assert await ledger.violations() == []

    @pytest.mark.parametrize("end", ENDS)
    async def test_once_its_manifest_stands_everybody_gets_the_answer(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, end: str
    ) -> None:
        await chronicle.be_strict()
        job_id = await ended(they, ledger, end, subscribers=("webhook:https://x.example",))

        [manifest] = (await chronicle.closing(limit=9)).manifests
        await chronicle.adopt([manifest])
        await chronicle.adopt([manifest])

        row, result = await they.row(job_id), await they.result(job_id)
        assert row.state is result.state
        assert (row.closing, row.ended_at_ms) == (False, result.ended_at_ms)
        assert row.state in {"unsupported": ("failed",), "deadline": ("failed",)}.get(end, (end,))
        assert manifest.result == result
        [body] = (await they.bodies()).values()
        assert row.state in body
        assert (await chronicle.closing(limit=9)).manifests == ()
        assert await ledger.violations() == []

    async def test_a_ledger_that_is_not_strict_says_its_answers_at_once(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        lease = await they.running()
        await they.succeed(lease)

        assert (await they.row(lease.job_id)).state is State.FINISHED
        assert (await chronicle.closing(limit=9)).manifests == ()

    async def test_a_list_has_a_closing_job_among_those_that_run(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        said, unsaid = await they.running(key="a"), await they.running(key="b")
        await they.succeed(said)
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        await they.succeed(unsaid)
        runs = await they.running()

        async def listed(**query: str | None) -> list[str]:
            rows, _ = await ledger.jobs(ListQuery(limit=9, **query))  # type: ignore[arg-type]
            return [row.job_id for row in rows]

        assert await listed(state="running") == [runs.job_id, unsaid.job_id]
        assert await listed(state="running", kind="other") == []
        assert await listed(state="finished") == [said.job_id]
        assert await listed(state="running", key="b") == [unsaid.job_id]
        assert await listed(state="finished", key="b") == []
        assert await listed(kind="preview") == [runs.job_id, unsaid.job_id, said.job_id]

    async def test_a_caller_that_joins_a_closing_job_is_told_with_the_others(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running(key="k", request_id="one")
        await they.succeed(lease)

        joined = await they.submit(key="k", subscribers=("webhook:https://late.example",))
        again = await they.submit(key="k", request_id="one")
        with pytest.raises(Conflict):
            await they.submit(key="k", content="other")

        assert (joined.disposition, joined.state) == ("joined", State.RUNNING)
        assert (again.disposition, again.state) == ("repeated", State.RUNNING)
        assert await they.bodies() == {}
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:https://late.example"]
        assert (await they.submit(key="k")).disposition == "answered"

    async def test_a_closing_job_is_not_dropped_and_none_of_it_is_garbage(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, clock: ManualClock
    ) -> None:
        await chronicle.be_strict()
        lost = await they.running()
        await they.expire_all()
        await they.succeed(await they.grant(lost.job_id, by="w2"))
        clock.advance(30 * DAY_S)

        assert (await ledger.stale(limit=9)).results == ()
        assert await ledger.garbage(grace_ms=0, limit=9) == []
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        assert (await ledger.stale(limit=9)).results == (lost.job_id,)
        assert lost in [garbage.lease for garbage in await ledger.garbage(grace_ms=0, limit=9)]

    @pytest.mark.parametrize("end", ENDS)
    async def test_every_end_is_counted_so_that_a_copy_without_it_has_counted_less(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, end: str
    ) -> None:
        await chronicle.be_strict()
        counted: list[int] = []

        async def count() -> None:
            counted.append((await chronicle.history()).n)

        await ended(they, ledger, end, before=count)

        assert counted[0] < (await chronicle.closing(limit=9)).n

    # --- another answer stands there ---

    async def test_another_answer_that_stands_in_the_store_is_the_answer(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running(key="k", subscribers=("webhook:https://x.example",))
        await they.fail(lease, Outcome.PERMANENT)
        [ours] = (await chronicle.closing(limit=9)).manifests
        other = theirs(ours, token=token_of(0, 7))

        await chronicle.adopt([other])

        assert await they.result(lease.job_id) == other.result
        row = await they.row(lease.job_id)
        assert (row.state, row.reason, row.attempt) == (State.FINISHED, None, 1)
        [body] = (await they.bodies()).values()
        assert other.result.outputs[0].sha256 in body
        assert (await they.submit(key="k")).disposition == "answered"
        assert "adopted" in [event.what for event in await ledger.events(lease.job_id)]
        assert await ledger.violations() == []

    async def test_jobs_are_counted_by_the_end_that_stands_in_the_store(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running()
        for _ in range(300):  # so that its own count is in the tally
            await they.submit()
        await they.fail(lease, Outcome.PERMANENT)
        [ours] = (await chronicle.closing(limit=9)).manifests

        await chronicle.adopt([theirs(ours, token=token_of(0, 7))])

        assert await ledger.counts(None) == {"queued": 300, "running": 0, "finished": 1, "failed": 0, "canceled": 0}
        assert await ledger.violations() == []

    async def test_an_answer_that_was_said_is_never_replaced(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running()
        await they.fail(lease, Outcome.PERMANENT)
        [ours] = (await chronicle.closing(limit=9)).manifests
        await chronicle.adopt([ours])

        await chronicle.adopt([theirs(ours, token=token_of(0, 7))])

        assert await they.result(lease.job_id) == ours.result
        assert "adopted" not in [event.what for event in await ledger.events(lease.job_id)]

    async def test_a_failure_in_the_store_frees_the_key_and_one_that_is_taken_stays_taken(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running(key="k")
        await they.fail(lease, Outcome.PERMANENT)
        holder = await they.running(key="k")
        [ours] = (await chronicle.closing(limit=9)).manifests
        await chronicle.adopt([theirs(ours, token=token_of(0, 7))])

        assert (await they.submit(key="k")).job_id == holder.job_id
        await they.succeed(holder)
        [ours] = (await chronicle.closing(limit=9)).manifests
        failed = structs.replace(
            ours.result, state=State.FAILED, reason=Reason.EXHAUSTED, outputs=(), error=Failure(message="worn out")
        )
        await chronicle.adopt([structs.replace(ours, result=failed)])
        assert (await they.submit(key="k")).disposition == "new"


async def nothing() -> None: ...


async def ended(
    they: Actors, ledger: Ledger, end: str, *, before: Callable[[], Awaitable[None]] = nothing, **given: Any
) -> str:
    """A job that came to that end.

    Args:
        before: Called right before it.
    """
    if end == "unsupported":
        await they.register("w1")
        await before()
        return (await they.submit(needs=("gpu",), **given)).job_id
    if end == "deadline":
        job_id = (await they.submit(deadline_at_ms=they.clock.wall_ms + 1000, **given)).job_id
        they.clock.advance(2)
        await before()
        assert await ledger.end_overdue() == 1
        return job_id
    lease = await they.running(**given)
    await before()
    if end == "finished":
        await they.succeed(lease)
    elif end == "failed":
        await they.fail(lease, Outcome.PERMANENT)
    else:
        await they.cancel(lease.job_id)
    return lease.job_id


def theirs(ours: Manifest, *, token: int) -> Manifest:
    """The manifest of another history, in which the job finished."""
    lease = Lease(job_id=ours.result.job_id, attempt=1, token=token)
    output = an_output(lease, text="theirs")
    result = structs.replace(
        ours.result, state=State.FINISHED, reason=None, error=None, token=token, outputs=(output,), ended_at_ms=5
    )
    return structs.replace(ours, result=result, outcome=Outcome.SUCCESS)
