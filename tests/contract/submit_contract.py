"""Submitting: new, repeated, joined, answered, or in conflict (T1 to T4)."""

from __future__ import annotations

import pytest

from planrun.core.errors import Conflict
from planrun.core.life import Outcome, Reason, State
from planrun.core.names import job_id_of
from planrun.ledger.contract import Ledger

from .actors import Actors, a_request
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock


class SubmitContract(LedgerContract):
    async def test_a_new_request_makes_one_queued_job(self, they: Actors, clock: ManualClock) -> None:
        reply = await they.submit(
            request_id="r1", namespace="media", inputs={"upload": "/in/42.mov"},
            params={"height": 1080, "tags": ["a", None]},
            priority=3, max_attempts=2, needs=("ffmpeg",), retry_of="an-older-job", deadline_at_ms=clock.wall_ms + 5,
        )  # fmt: skip

        assert (reply.job_id, reply.disposition, reply.state) == (job_id_of("media", "r1"), "new", State.QUEUED)
        row = await they.row(reply.job_id)
        assert (row.state, row.attempt, row.failures, row.losses, row.handbacks) == (State.QUEUED, 1, 0, 0, 0)
        assert (row.namespace, row.priority, row.max_attempts, row.needs) == ("media", 3, 2, ("ffmpeg",))
        assert row.inputs == {"upload": "/in/42.mov"}
        assert row.params == {"height": 1080, "tags": ["a", None]}
        assert (row.retry_of, row.created_at_ms) == ("an-older-job", clock.wall_ms)
        assert row.deadline_at_ms == clock.wall_ms + 5

    async def test_a_retry_takes_the_key_along_unless_another_job_holds_it_by_now(
        self, they: Actors, ledger: Ledger
    ) -> None:
        old = (await they.submit(key="k")).job_id
        await they.cancel(old)

        first = await they.submit(key="k", retry_of=old)
        await they.cancel(first.job_id)
        await they.submit(key="k")
        second = await they.submit(key="k", retry_of=old, content="other")

        assert (first.disposition, second.disposition) == ("new", "new")
        assert ((await they.row(first.job_id)).key, (await they.row(second.job_id)).key) == ("k", None)

    async def test_a_job_whose_retry_is_open_is_not_retried_again(self, they: Actors, ledger: Ledger) -> None:
        old = (await they.submit()).job_id
        await they.cancel(old)
        retry = (await they.submit(request_id="again", retry_of=old)).job_id

        with pytest.raises(Conflict, match=f"job {retry} is queued") as caught:
            await they.submit(retry_of=old)
        assert caught.value.job_id == retry
        assert (await they.submit(request_id="again", retry_of=old)).disposition == "repeated"

        await they.cancel(retry)
        assert (await they.submit(retry_of=old)).disposition == "new"

    async def test_a_job_of_another_namespace_is_to_a_retry_as_one_that_never_was(
        self, they: Actors, ledger: Ledger
    ) -> None:
        old = (await they.submit()).job_id
        await they.cancel(old)

        assert (await they.submit(namespace="media", retry_of=old)).disposition == "new"
        assert "retried" not in [event.what for event in await ledger.events(old)]
        await they.submit(retry_of=old)
        assert (await they.submit(namespace="media", retry_of=old)).disposition == "new"

    async def test_a_retry_stands_in_the_history_of_both_jobs_with_who_and_why(
        self, they: Actors, ledger: Ledger
    ) -> None:
        old = (await they.submit()).job_id
        await they.cancel(old)

        new = (await they.submit(retry_of=old, who="ann", why="the disk is empty again")).job_id

        for job_id, what, other in [(old, "retried", new), (new, "submitted", old)]:
            event = (await ledger.events(job_id))[-1]
            assert (event.what, event.who) == (what, "ann")
            assert other in event.detail
            assert "the disk is empty again" in event.detail

    async def test_a_retried_request_is_the_same_job(self, they: Actors, ledger: Ledger) -> None:
        request = a_request()
        [first] = await ledger.submit([request])
        [second] = await ledger.submit([request])

        assert second.job_id == first.job_id
        assert (first.disposition, second.disposition) == ("new", "repeated")
        assert await ledger.counts(None) == {"queued": 1} | {
            state: 0 for state in (await ledger.counts(None)) if state != "queued"
        }

    @pytest.mark.parametrize("end", [Outcome.SUCCESS, Outcome.PERMANENT, None])
    async def test_a_request_retried_after_the_end_still_names_its_own_job(
        self, they: Actors, ledger: Ledger, end: Outcome | None
    ) -> None:
        """A client that retries late must not start a second job, whatever became of the first."""
        request = a_request(key="video-42")
        [first] = await ledger.submit([request])
        await ended(they, first.job_id, end)

        [again] = await ledger.submit([request])

        assert (again.job_id, again.disposition) == (first.job_id, "repeated")
        assert again.state is (await they.row(first.job_id)).state

    async def test_a_request_id_with_other_content_is_a_conflict(self, they: Actors, ledger: Ledger) -> None:
        first = await they.submit(request_id="r1")
        before = await they.row(first.job_id)

        with pytest.raises(Conflict) as caught:
            await they.submit(request_id="r1", content="other", priority=9, subscribers=("webhook:https://x.example",))

        assert caught.value.job_id == first.job_id
        assert await they.row(first.job_id) == before
        await ended(they, first.job_id, Outcome.SUCCESS)
        assert await they.bodies() == {}

    async def test_the_same_request_id_in_two_namespaces_is_two_jobs(self, they: Actors) -> None:
        one = await they.submit(request_id="r1", namespace="media")
        other = await they.submit(request_id="r1", namespace="ads", content="other")

        assert one.job_id != other.job_id

    async def test_a_conflict_anywhere_in_a_batch_writes_nothing_of_it(self, they: Actors, ledger: Ledger) -> None:
        await they.submit(request_id="taken")

        with pytest.raises(Conflict):
            await ledger.submit([a_request(request_id="fresh"), a_request(request_id="taken", content="other")])

        assert await ledger.job(None, job_id_of("default", "fresh")) is None

    async def test_a_batch_is_answered_in_order_and_may_join_itself(self, ledger: Ledger) -> None:
        replies = await ledger.submit([a_request(key="k"), a_request(), a_request(key="k")])

        assert [reply.disposition for reply in replies] == ["new", "new", "joined"]
        assert replies[0].job_id == replies[2].job_id != replies[1].job_id

    async def test_without_a_key_nothing_is_joined(self, they: Actors) -> None:
        one, other = await they.submit(), await they.submit()

        assert other.disposition == "new"
        assert one.job_id != other.job_id

    @pytest.mark.parametrize("is_running", [False, True])
    async def test_the_same_key_joins_the_open_job(self, they: Actors, ledger: Ledger, is_running: bool) -> None:
        first = await they.submit(key="video-42")
        if is_running:
            await they.grant(first.job_id)

        second = await they.submit(key="video-42", request_id="second")

        assert (second.job_id, second.disposition) == (first.job_id, "joined")
        assert second.state is (State.RUNNING if is_running else State.QUEUED)
        by_request = await ledger.job("default", "second")
        assert by_request is not None
        assert by_request.job_id == first.job_id

    async def test_a_retried_join_is_a_repeat_of_itself(self, they: Actors, ledger: Ledger) -> None:
        first = await they.submit(key="k")
        joining = a_request(key="k")

        [joined], [repeated] = await ledger.submit([joining]), await ledger.submit([joining])

        assert (joined.disposition, repeated.disposition) == ("joined", "repeated")
        assert joined.job_id == repeated.job_id == first.job_id

    @pytest.mark.parametrize(
        "other", [{"version": "v2"}, {"kind": "poster"}, {"namespace": "ads"}, {"key": "video-43"}]
    )
    async def test_version_kind_and_namespace_belong_to_the_key(self, they: Actors, other: dict[str, str]) -> None:
        """A request for v3 is not answered by v2."""
        await they.submit(key="video-42")

        assert (await they.submit(**{"key": "video-42", **other})).disposition == "new"

    @pytest.mark.parametrize("state", ["queued", "running", "finished"])
    async def test_a_key_with_other_content_is_a_conflict(self, they: Actors, state: str) -> None:
        first = await they.submit(key="k")
        if state == "running":
            await they.grant(first.job_id)
        if state == "finished":
            await ended(they, first.job_id, Outcome.SUCCESS)
        before = await they.row(first.job_id)

        with pytest.raises(Conflict) as caught:
            await they.submit(key="k", content="other", priority=9)

        assert caught.value.job_id == first.job_id
        assert await they.row(first.job_id) == before

    @pytest.mark.parametrize(("first", "second", "then"), [(1, 5, 5), (5, 1, 5)])
    async def test_a_join_raises_the_priority_and_never_lowers_it(
        self, they: Actors, first: int, second: int, then: int
    ) -> None:
        job_id = (await they.submit(key="k", priority=first)).job_id
        await they.submit(key="k", priority=second)

        assert (await they.row(job_id)).priority == then

    @pytest.mark.parametrize(
        ("first_s", "second_s", "then_s"), [(10, 20, 20), (20, 10, 20), (10, None, None), (None, 10, None)]
    )
    async def test_a_join_moves_the_deadline_only_out(
        self, they: Actors, clock: ManualClock, first_s: int | None, second_s: int | None, then_s: int | None
    ) -> None:
        """The one who gives more time, or no limit at all, is not failed by the other's hurry."""

        def at_ms(seconds: int | None) -> int | None:
            return None if seconds is None else clock.wall_ms + seconds * 1000

        job_id = (await they.submit(key="k", deadline_at_ms=at_ms(first_s))).job_id
        await they.submit(key="k", deadline_at_ms=at_ms(second_s))

        assert (await they.row(job_id)).deadline_at_ms == at_ms(then_s)

    async def test_after_the_job_finished_the_same_key_gets_the_stored_answer(
        self, they: Actors, ledger: Ledger
    ) -> None:
        first = await they.submit(key="k")
        await ended(they, first.job_id, Outcome.SUCCESS)
        answer = await they.result(first.job_id)

        again = await they.submit(key="k")

        assert (again.job_id, again.disposition, again.state) == (first.job_id, "answered", State.FINISHED)
        assert await they.result(first.job_id) == answer
        assert await they.line() == []

    @pytest.mark.parametrize("end", [Outcome.PERMANENT, None])
    async def test_after_failed_or_canceled_the_same_key_makes_a_new_job(
        self, they: Actors, end: Outcome | None
    ) -> None:
        first = await they.submit(key="k")
        await ended(they, first.job_id, end)

        again = await they.submit(key="k", content="other")

        assert again.disposition == "new"
        assert again.job_id != first.job_id
        await ended(they, again.job_id, Outcome.SUCCESS)
        assert (await they.row(first.job_id)).state is not State.FINISHED

    async def test_a_delayed_job_waits_its_time(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        job_id = (await they.submit(delay_s=30)).job_id

        assert await they.line() == []
        assert (await they.row(job_id)).not_before_ms == clock.boot_ms_now + 30_000
        clock.advance(29.999)
        assert not (await ledger.due()).promotable
        assert await ledger.promote() == 0
        clock.advance(0.001)
        assert (await ledger.due()).promotable
        assert await ledger.promote() == 1
        assert await they.line() == [job_id]

    async def test_a_moved_wall_clock_changes_no_delay(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        job_id = (await they.submit(delay_s=30)).job_id
        clock.jump_wall(3600)

        assert await ledger.promote() == 0
        clock.jump_wall(-7200)
        clock.advance(30)

        assert await ledger.promote() == 1
        assert await they.line() == [job_id]

    async def test_an_impossible_need_on_a_cold_ledger_waits(self, they: Actors) -> None:
        """People submit before they start their first worker: no fleet is known yet that could say no."""
        reply = await they.submit(needs=("gpu",))

        assert reply.state is State.QUEUED

    async def test_what_no_machine_of_the_fleet_can_run_fails_at_once_by_name(self, they: Actors) -> None:
        await they.register("w1", capabilities=("ffmpeg",))

        reply = await they.submit(needs=("ffmpeg", "gpu"), subscribers=("webhook:https://x.example",))

        assert reply.state is State.FAILED
        result = await they.result(reply.job_id)
        assert result.reason is Reason.UNSUPPORTED
        assert result.error is not None
        assert "gpu" in result.error.message
        assert "ffmpeg" not in result.error.message
        assert list(await they.bodies()) == [f"result:{reply.job_id}:webhook:https://x.example"]


async def ended(they: Actors, job_id: str, outcome: Outcome | None) -> None:
    """Bring a job to its end; None: canceled."""
    if outcome is None:
        await they.cancel(job_id)
    elif outcome is Outcome.SUCCESS:
        await they.succeed(await they.grant(job_id))
    else:
        await they.fail(await they.grant(job_id), outcome)
