"""A strict ledger: nobody gets an answer before it stands in the store, and what stands there is the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from planrun.core.errors import Conflict
from planrun.core.life import Outcome, Reason, State
from planrun.core.listing import ListQuery
from planrun.core.manifests import Manifest, Subscriber
from planrun.core.messages import Failure, Granted, Lease, Refused, Result
from planrun.core.names import job_id_of, token_of
from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger

from .actors import Actors, a_request, an_output
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

ENDS = ["finished", "failed", "canceled", "unsupported", "deadline"]
DAY_S = 86_400


class ClosingContract(LedgerContract):
    @pytest.fixture
    def chronicle(self, ledger: Ledger) -> Chronicle:
        """The second port of this test's ledger."""
        raise NotImplementedError("each backend has its own")

    # --- before the answer stands in the store ---

    @pytest.mark.parametrize("end", ENDS)
    async def test_until_its_manifest_stands_a_job_runs_for_everybody(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, end: str
    ) -> None:
        await chronicle.be_strict()
        job_id = await ended(they, ledger, end, subscribers=("webhook:x",))

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
        job_id = await ended(they, ledger, end, subscribers=("webhook:x",))

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

        joined = await they.submit(key="k", subscribers=("webhook:late",))
        again = await they.submit(key="k", request_id="one")
        with pytest.raises(Conflict):
            await they.submit(key="k", content="other")

        assert (joined.disposition, joined.state) == ("joined", State.RUNNING)
        assert (again.disposition, again.state) == ("repeated", State.RUNNING)
        assert await they.bodies() == {}
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:late"]
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
        lease = await they.running(key="k", subscribers=("webhook:x",))
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

    async def test_an_answer_that_was_said_is_never_replaced(self, they: Actors, chronicle: Chronicle) -> None:
        await chronicle.be_strict()
        lease = await they.running()
        await they.fail(lease, Outcome.PERMANENT)
        [ours] = (await chronicle.closing(limit=9)).manifests
        await chronicle.adopt([ours])

        await chronicle.adopt([theirs(ours, token=token_of(0, 7))])

        assert await they.result(lease.job_id) == ours.result

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

    # --- recovery ---

    @pytest.mark.parametrize("state", ["queued", "running", "mine"])
    async def test_a_job_that_is_open_here_ends_as_its_manifest_says(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, state: str
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running(subscribers=("webhook:x",))
        manifest = a_manifest(lease, token=lease.token if state == "mine" else token_of(1, 99), attempt=1)
        if state == "queued":
            await they.release(lease)
            manifest = a_manifest(lease, token=token_of(1, 99), attempt=3)

        assert await chronicle.unadopted([lease.job_id, "nobody"]) == [lease.job_id, "nobody"]
        await chronicle.adopt([manifest])

        assert await chronicle.unadopted([lease.job_id]) == []
        assert await they.result(lease.job_id) == manifest.result
        row = await they.row(lease.job_id)
        assert (row.state, row.closing, row.attempt) == (State.FINISHED, False, manifest.result.attempt)
        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:x"]
        assert await they.standing(lease) == "lost"
        assert (await they.succeed(lease)).status == ("won" if state == "mine" else "lost")
        assert await they.result(lease.job_id) == manifest.result
        assert await ledger.violations() == []

    async def test_a_job_that_only_the_store_knows_answers_under_its_ids_and_its_key(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        asked = a_request(request_id="r", key="k")
        lease = Lease(job_id=job_id_of("default", "r"), attempt=2, token=token_of(1, 9))
        plain = a_manifest(lease, token=lease.token, attempt=2)
        manifest = structs.replace(
            plain,
            result=structs.replace(plain.result, key="k"),
            request_id="r",
            request_hash=asked.request_hash,
            content_hash=asked.content_hash,
            subscribers=(Subscriber(route="webhook:x"), Subscriber(route="publish:a.mp4", seq=4)),
        )

        await chronicle.adopt([manifest])

        assert await they.result(lease.job_id) == manifest.result
        row = await ledger.job(None, "r")
        assert row is not None
        assert (row.job_id, row.state, row.attempt) == (lease.job_id, State.FINISHED, 2)
        assert [attempt.token for attempt in await ledger.attempts(lease.job_id)] == [lease.token]
        [again] = await ledger.submit([asked])
        assert (again.disposition, again.job_id) == ("repeated", lease.job_id)
        assert (await they.submit(key="k")).job_id == lease.job_id
        assert list(await they.bodies()) == [f"result:{lease.job_id}:publish:a.mp4"]  # the other waits for it
        assert await ledger.holder_of("default", "a.mp4") == lease.job_id
        assert await ledger.violations() == []

    async def test_while_recovering_and_of_an_open_job_of_older_tokens_nothing_is_garbage(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, clock: ManualClock
    ) -> None:
        """A manifest may name what an older generation stored, until the job's own manifest stands."""
        await chronicle.be_strict()
        old = await they.running()
        await they.expire_all()
        await chronicle.take_generation(2, "me", recovering=True)
        new = await they.grant(old.job_id, by="w2")
        await they.release(new)
        clock.advance(8 * DAY_S)

        async def rubbish() -> Sequence[int]:
            return [garbage.lease.token for garbage in await ledger.garbage(grace_ms=0, limit=9)]

        assert await rubbish() == []
        await chronicle.end_recovery()
        assert await rubbish() == [new.token]
        await they.succeed(await they.grant(old.job_id, by="w2"))
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        assert old.token in await rubbish()

    async def test_a_new_generation_has_higher_tokens_and_never_goes_back(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        old = await they.running()
        await chronicle.take_generation(5, "me", recovering=True)
        await chronicle.take_generation(4, "other", recovering=False)

        known = await chronicle.history()
        assert (known.generation, known.owner, known.recovering) == (5, "me", True)
        new = await they.running()
        assert new.token >= token_of(5, 0) > old.token
        assert await they.standing(old) == "held"

    # --- proof that this ledger is behind ---

    async def test_a_token_that_was_not_given_out_is_proof_that_the_ledger_was_rolled_back(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.take_generation(1, "me", recovering=False)
        lease = await they.running()
        assert await they.renew(structs.replace(lease, token=lease.token + 5)) == ["lost"]

        assert "behind its workers" in (await chronicle.history()).rolled_back
        assert "behind its workers" in str(await ledger.violations())
        job = await they.submit()
        assert await they.ask(job.job_id) == Refused(why="not-ready")
        assert await they.renew(lease) == ["held"]
        await chronicle.take_generation(2, "me", recovering=True)
        assert isinstance(await they.ask(job.job_id), Granted)

    async def test_an_attempt_that_was_not_reached_is_proof_unless_the_ledger_was_recovered(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        await chronicle.take_generation(1, "me", recovering=False)
        job = await they.submit()
        await chronicle.take_generation(2, "me", recovering=True)
        assert await they.ask(job.job_id, 7) == Refused(why="ahead")
        assert (await chronicle.history()).rolled_back == ""

    async def test_an_attempt_ahead_of_the_ledger_stops_all_grants(self, they: Actors, chronicle: Chronicle) -> None:
        await chronicle.take_generation(1, "me", recovering=False)
        job = await they.submit()
        assert await they.ask(job.job_id, 7) == Refused(why="ahead")
        assert await they.ask(job.job_id) == Refused(why="not-ready")

    async def test_a_ledger_without_an_orchestrator_suspects_nobody(self, they: Actors, chronicle: Chronicle) -> None:
        lease = await they.running()
        await they.renew(structs.replace(lease, token=lease.token + 5))
        await they.ask(lease.job_id, 7)

        assert (await chronicle.history()).rolled_back == ""


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


def a_manifest(lease: Lease, *, token: int, attempt: int) -> Manifest:
    """As another history wrote it down for this job."""
    won = Lease(job_id=lease.job_id, attempt=attempt, token=token)
    result = Result(
        job_id=lease.job_id,
        namespace="default",
        kind="preview",
        version="v1",
        state=State.FINISHED,
        attempt=attempt,
        token=token,
        outputs=(an_output(won),),
        ended_at_ms=5,
    )
    return Manifest(result=result, outcome=Outcome.SUCCESS, inputs={}, params={}, content_hash="c", created_at_ms=1)
