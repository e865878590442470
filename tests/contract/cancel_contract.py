"""Ends that nobody's attempt decides: canceled, past the deadline, impossible (T17, T18, T20, T21)."""

from __future__ import annotations

import asyncio

import pytest

from planrun.core.errors import UnknownJob
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Handler, Refused
from planrun.ledger.contract import Ledger

from .actors import KIND, Actors
from .ledger_contract import LedgerContract, OpenLedger
from .manual_clock import ManualClock
from .retention_contract import archived

HOUR_MS = 3_600_000


class CancelContract(LedgerContract):
    async def test_a_waiting_job_is_canceled(self, they: Actors, clock: ManualClock) -> None:
        job_id = (await they.submit(subscribers=("webhook:https://x.example",))).job_id

        reply = await they.cancel(job_id, who="ann", why="wrong film")

        assert (reply.canceled, reply.state) == (True, State.CANCELED)
        assert await they.line() == []
        assert await they.ask(job_id) == Refused(why="ended")
        result = await they.result(job_id)
        assert (result.state, result.reason, result.outputs) == (State.CANCELED, None, ())
        assert result.ended_at_ms == clock.wall_ms
        assert result.error is not None
        assert "ann" in result.error.message
        assert "wrong film" in result.error.message
        assert list(await they.bodies()) == [f"result:{job_id}:webhook:https://x.example"]

    async def test_a_running_job_is_canceled_at_once_and_its_holder_is_told_at_every_door(self, they: Actors) -> None:
        lease = await they.running()

        assert (await they.cancel(lease.job_id)).canceled
        assert await they.renew(lease) == ["canceled"]
        assert await they.standing(lease) == "canceled"
        assert (await they.save(lease)).status == "canceled"
        assert (await they.release(lease)).status == "canceled"
        assert (await they.succeed(lease)).status == "canceled"
        assert (await they.fail(lease)).status == "canceled"
        row = await they.row(lease.job_id)
        assert (row.state, row.token, row.attempt) == (State.CANCELED, None, 1)

    async def test_a_canceled_job_never_sends_a_success(self, they: Actors) -> None:
        lease = await they.running(subscribers=("webhook:https://x.example",))
        await they.cancel(lease.job_id)
        await they.succeed(lease)

        [body] = (await they.bodies()).values()
        assert '"canceled"' in body
        assert (await they.result(lease.job_id)).state is State.CANCELED

    async def test_a_canceled_job_is_stopping_until_its_tree_is_known_to_be_dead(
        self, they: Actors, ledger: Ledger
    ) -> None:
        lease = await they.running()
        await they.cancel(lease.job_id)
        assert (await they.row(lease.job_id)).stopping
        assert await ledger.live_tokens([lease.token]) == {lease.token}

        await ledger.stopped(lease, "w1")

        assert not (await they.row(lease.job_id)).stopping
        assert await ledger.live_tokens([lease.token]) == set()
        [attempt] = await ledger.attempts(lease.job_id)
        assert (attempt.outcome, attempt.stopped) == (Outcome.CANCELED, True)

    async def test_the_wrong_token_stops_nothing(self, they: Actors, ledger: Ledger) -> None:
        lease, other = await they.running(), await they.running()
        await they.cancel(lease.job_id)

        await ledger.stopped(type(lease)(job_id=lease.job_id, attempt=1, token=other.token), "w1")
        await ledger.stopped(type(lease)(job_id=lease.job_id, attempt=2, token=lease.token), "w1")

        assert (await they.row(lease.job_id)).stopping

    async def test_a_job_canceled_while_it_waits_has_nothing_to_stop(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        await they.cancel(job_id)

        assert not (await they.row(job_id)).stopping

    @pytest.mark.parametrize("end", [Outcome.SUCCESS, Outcome.PERMANENT])
    async def test_canceling_an_ended_job_changes_nothing(self, they: Actors, end: Outcome) -> None:
        lease = await they.running(subscribers=("webhook:https://x.example",))
        if end is Outcome.SUCCESS:
            await they.succeed(lease)
        else:
            await they.fail(lease, end)
        before = (await they.row(lease.job_id), await they.result(lease.job_id))

        reply = await they.cancel(lease.job_id)

        assert (reply.canceled, reply.state) == (False, before[0].state)
        assert (await they.row(lease.job_id), await they.result(lease.job_id)) == before
        assert len(await they.bodies()) == 1

    async def test_canceling_twice_keeps_the_first_ones_word(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        await they.cancel(job_id, who="ann")
        answer = await they.result(job_id)

        again = await they.cancel(job_id, who="bob")

        assert (again.canceled, again.state) == (False, State.CANCELED)
        assert await they.result(job_id) == answer

    async def test_a_shared_job_ends_for_all_who_asked(self, they: Actors) -> None:
        job_id = (await they.submit(key="k", subscribers=("webhook:https://a.example",))).job_id
        await they.submit(key="k", subscribers=("webhook:https://b.example",))
        await they.cancel(job_id, who="ann")

        bodies = await they.bodies()

        assert sorted(bodies) == [
            f"result:{job_id}:webhook:https://a.example",
            f"result:{job_id}:webhook:https://b.example",
        ]
        assert all("ann" in body for body in bodies.values())

    async def test_a_request_id_names_the_job_to_cancel_too(self, they: Actors) -> None:
        job_id = (await they.submit(request_id="r1")).job_id

        assert (await they.cancel("r1")).canceled
        assert (await they.row(job_id)).state is State.CANCELED

    async def test_a_job_id_names_its_own_job_whatever_requests_are_called(self, they: Actors) -> None:
        """Request ids are free text: one may well be the id of the job before it."""
        first = (await they.submit()).job_id
        second = (await they.submit(request_id=first)).job_id

        assert (await they.cancel(first)).canceled
        assert (await they.row(first)).state is State.CANCELED
        assert not (await they.cancel(first)).canceled
        assert (await they.row(second)).state is State.QUEUED

    async def test_the_id_of_an_archived_job_names_no_other_job_either(self, they: Actors, ledger: Ledger) -> None:
        first = (await they.submit()).job_id
        await they.cancel(first)
        await archived(they, [first])
        second = (await they.submit(request_id=first)).job_id

        assert await ledger.job(None, first) is None
        with pytest.raises(UnknownJob):
            await they.cancel(first)
        assert (await they.row(second)).state is State.QUEUED

    async def test_a_request_id_that_is_a_job_id_elsewhere_names_its_own_job(self, they: Actors) -> None:
        other = (await they.submit(namespace="ads")).job_id
        own = (await they.submit(request_id=other)).job_id

        assert (await they.cancel(other)).canceled
        assert (await they.row(own)).state is State.CANCELED
        assert (await they.row(other)).state is State.QUEUED

    async def test_nobody_cancels_an_unknown_job_or_one_of_another_namespace(self, they: Actors) -> None:
        job_id = (await they.submit(namespace="media")).job_id

        with pytest.raises(UnknownJob):
            await they.cancel("nobody")
        with pytest.raises(UnknownJob):
            await they.cancel(job_id, namespace="ads")
        assert (await they.row(job_id)).state is State.QUEUED

    @pytest.mark.parametrize("rival", ["settle", "release", "grant"])
    async def test_of_a_cancel_and_its_rival_exactly_one_wins(
        self, they: Actors, open_ledger: OpenLedger, rival: str
    ) -> None:
        other = Actors(await open_ledger(), they.clock, they.ready)
        for _ in range(10):
            job_id = (await they.submit(subscribers=("webhook:https://x.example",))).job_id
            if rival == "grant":
                await they.register("w1")
                canceled, granted = await asyncio.gather(they.cancel(job_id), other.ask(job_id))
                assert canceled.canceled
                assert (granted == Refused(why="ended")) == (await they.ledger.attempts(job_id) == [])
            else:
                lease = await they.grant(job_id)
                act = other.succeed if rival == "settle" else other.release
                canceled, settled = await asyncio.gather(they.cancel(job_id), act(lease))
                assert canceled.canceled == (settled.status in ("canceled", "requeued"))
            row = await they.row(job_id)
            assert row.state is (State.CANCELED if canceled.canceled else State.FINISHED)
            assert len(await they.bodies()) == 1
            assert (await they.result(job_id)).state is row.state

    # --- deadlines ---

    @pytest.mark.parametrize("is_running", [False, True])
    async def test_a_job_past_its_deadline_fails(
        self, they: Actors, ledger: Ledger, clock: ManualClock, is_running: bool
    ) -> None:
        job_id = (
            await they.submit(
                deadline_at_ms=clock.wall_ms + 10_000, subscribers=("webhook:https://x.example",), key="k"
            )
        ).job_id
        lease = await they.grant(job_id) if is_running else None
        clock.advance(9)
        assert not (await ledger.due()).deadlines
        assert await ledger.end_overdue() == 0
        clock.advance(1.001)

        assert (await ledger.due()).deadlines
        assert await ledger.end_overdue() == 1
        assert await ledger.end_overdue() == 0
        assert not (await ledger.due()).deadlines
        result = await they.result(job_id)
        assert (result.state, result.reason) == (State.FAILED, Reason.DEADLINE)
        assert len(await they.bodies()) == 1
        assert (await they.submit(key="k")).disposition == "new"
        if lease is not None:
            assert await they.renew(lease) == ["lost"]
            assert (await they.succeed(lease)).status == "lost"
            [attempt] = await ledger.attempts(job_id)
            assert (attempt.outcome, attempt.stopped) == (Outcome.CANCELED, False), "it is told to stop, and collected"

    async def test_a_deadline_does_not_undo_an_answer(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        lease = await they.running(deadline_at_ms=clock.wall_ms + 10_000)
        await they.succeed(lease)
        clock.advance(20)

        assert await ledger.end_overdue() == 0
        assert (await they.row(lease.job_id)).state is State.FINISHED

    # --- impossible ---

    async def test_needs_must_be_met_by_one_machine_not_by_two_together(self, they: Actors) -> None:
        await they.register("w1", capabilities=("ffmpeg",))
        await they.register("w2", capabilities=("gpu",))

        assert (await they.submit(needs=("ffmpeg", "gpu"))).state is State.FAILED
        assert (await they.submit(needs=("gpu",))).state is State.QUEUED

    async def test_a_kind_or_version_that_no_worker_has_fails_by_name(self, they: Actors) -> None:
        await they.register("w1")

        job_id = (await they.submit(version="v2")).job_id

        result = await they.result(job_id)
        assert result.reason is Reason.UNSUPPORTED
        assert result.error is not None
        assert KIND in result.error.message
        assert "v2" in result.error.message

    async def test_what_a_handler_misses_on_its_machine_is_named(self, they: Actors) -> None:
        handler = Handler(kind=KIND, version="v1", needs=("gpu",), missing=("gpu",))
        await they.register("w1", handlers=(handler,))

        result = await they.result((await they.submit()).job_id)

        assert result.reason is Reason.UNSUPPORTED
        assert result.error is not None
        assert "gpu" in result.error.message

    @pytest.mark.parametrize(("state", "is_offered"), [("draining", True), ("broken", True), ("gone", False)])
    async def test_a_rebooting_machine_still_counts_a_retired_one_does_not(
        self, they: Actors, state: str, is_offered: bool
    ) -> None:
        await they.register("cpu")
        await they.register("gpu", capabilities=("gpu",), state=state)

        reply = await they.submit(needs=("gpu",))

        assert reply.state is (State.QUEUED if is_offered else State.FAILED)

    async def test_a_queued_job_that_became_impossible_fails_only_after_the_timeout(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("gpu", capabilities=("gpu",))
        await they.register("cpu")
        impossible = (await they.submit(needs=("gpu",))).job_id
        possible = (await they.submit()).job_id
        await they.register("gpu", capabilities=("gpu",), state="gone")

        assert await ledger.end_unsupported(waited_ms=HOUR_MS) == 0
        clock.advance(3600)
        await they.register("cpu")
        assert await ledger.end_unsupported(waited_ms=HOUR_MS) == 1
        result = await they.result(impossible)
        assert result.reason is Reason.UNSUPPORTED
        assert result.error is not None
        assert "gpu" in result.error.message
        assert (await they.row(possible)).state is State.QUEUED

    async def test_a_job_that_a_cold_ledger_took_in_ends_by_the_sweep(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        job_id = (await they.submit(needs=("gpu",), subscribers=("webhook:https://x.example",))).job_id
        await they.register("cpu")
        clock.advance(3600)
        await they.register("cpu")

        assert await ledger.end_unsupported(waited_ms=HOUR_MS) == 1
        assert (await they.result(job_id)).reason is Reason.UNSUPPORTED
        assert len(await they.bodies()) == 1
