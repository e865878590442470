"""How an attempt's end becomes the job's one answer, or another attempt (T11 to T15n)."""

from __future__ import annotations

import pytest
from msgspec import structs

from planrun.core.budget import Counter
from planrun.core.errors import Invalid
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Lease, Settled, SettleRequest
from planrun.ledger.contract import Ledger

from .actors import Actors, an_output
from .lease_contract import off_by_one
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

FAULTS = [Outcome.TRANSIENT, Outcome.FATAL, Outcome.STALLED, Outcome.OVERTIME]


class SettleContract(LedgerContract):
    async def test_a_success_is_the_result_of_the_job(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        lease = await they.running(key="k")
        clock.advance(7)

        settled = await they.succeed(lease, value={"frames": 24})

        assert (settled.status, settled.state) == ("won", State.FINISHED)
        result = await they.result(lease.job_id)
        assert (result.state, result.reason, result.error) == (State.FINISHED, None, None)
        assert (result.attempt, result.token, result.key) == (1, lease.token, "k")
        assert (result.outputs, result.value) == ((an_output(lease),), {"frames": 24})
        assert result.ended_at_ms == clock.wall_ms
        row = await they.row(lease.job_id)
        assert (row.state, row.token, row.incarnation, row.lease_until_ms) == (State.FINISHED, None, None, None)
        [attempt] = await ledger.attempts(lease.job_id)
        assert (attempt.outcome, attempt.ended_at_ms) == (Outcome.SUCCESS, clock.wall_ms)

    async def test_an_open_job_has_no_result(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running()
        await they.fail(lease)

        assert await ledger.result(lease.job_id) is None
        assert await ledger.result("nobody") is None

    @pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.PERMANENT])
    async def test_a_repeated_settle_gets_the_same_answer(self, they: Actors, ledger: Ledger, outcome: Outcome) -> None:
        """Else a lost reply would make the winner believe that it lost."""
        lease = await they.running(subscribers=("webhook:https://x.example",))
        first = await settle(they, lease, outcome)
        before = (await they.row(lease.job_id), await they.result(lease.job_id), await ledger.events(lease.job_id))

        assert await settle(they, lease, outcome) == first
        assert first.status == "won"
        now = (await they.row(lease.job_id), await they.result(lease.job_id), await ledger.events(lease.job_id))
        assert now == before
        assert len(await they.bodies()) == 1

    async def test_a_repeated_transient_settle_moves_the_job_once(self, they: Actors) -> None:
        lease = await they.running()
        first = await they.fail(lease)
        before = await they.row(lease.job_id)

        assert await they.fail(lease) == first
        assert first.status == "requeued"
        assert await they.row(lease.job_id) == before
        assert (before.attempt, before.failures) == (2, 1)

    async def test_a_transient_settle_repeated_while_the_next_attempt_runs_leaves_that_one_alone(
        self, they: Actors
    ) -> None:
        first = await they.running()
        await they.fail(first)
        second = await they.grant(first.job_id, by="w2")

        assert (await they.fail(first)).status == "requeued"
        assert await they.standing(second) == "held"
        assert (await they.succeed(second)).status == "won"
        assert (await they.fail(first)).status == "requeued"

    @pytest.mark.parametrize(
        ("first", "then"),
        [
            (Outcome.SUCCESS, Outcome.PERMANENT),
            (Outcome.PERMANENT, Outcome.SUCCESS),
            (Outcome.SUCCESS, Outcome.TRANSIENT),
            (Outcome.TRANSIENT, Outcome.SUCCESS),
        ],
    )
    async def test_one_attempt_cannot_end_in_two_ways(self, they: Actors, first: Outcome, then: Outcome) -> None:
        """The same token with another outcome is a bug somewhere: an alarm, and nothing changes."""
        lease = await they.running()
        await settle(they, lease, first)
        before = await they.row(lease.job_id)

        assert (await settle(they, lease, then)).status == "conflict"
        assert await they.row(lease.job_id) == before

    @pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.PERMANENT, Outcome.TRANSIENT])
    async def test_a_late_attempt_changes_nothing_while_another_runs(self, they: Actors, outcome: Outcome) -> None:
        late = await they.running(by="w1")
        await they.expire_all()
        current = await they.grant(late.job_id, by="w2")
        before = await they.row(late.job_id)

        assert (await settle(they, late, outcome)).status == "lost"
        assert await they.row(late.job_id) == before
        assert await they.standing(current) == "held"

    @pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.PERMANENT, Outcome.TRANSIENT])
    async def test_a_late_attempt_changes_nothing_while_the_job_waits(self, they: Actors, outcome: Outcome) -> None:
        late = await they.running()
        await they.expire_all()
        before = await they.row(late.job_id)

        assert (await settle(they, late, outcome)).status == "lost"
        assert await they.row(late.job_id) == before

    async def test_a_late_attempt_does_not_touch_the_answer_of_the_winner(self, they: Actors) -> None:
        """C06, C07: one answer, of the attempt that the ledger names."""
        late = await they.running(by="w1", subscribers=("webhook:https://x.example",))
        await they.expire_all()
        winner = await they.grant(late.job_id, by="w2")
        await they.succeed(winner, text="the winner's")
        answer = await they.result(late.job_id)

        assert (await they.succeed(late, text="too late")).status == "lost"
        assert await they.result(late.job_id) == answer
        assert answer.token == winner.token
        assert len(await they.bodies()) == 1

    @pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.TRANSIENT])
    @pytest.mark.parametrize("wrong", ["attempt", "token"])
    async def test_attempt_and_token_must_both_be_right_to_settle(
        self, they: Actors, wrong: str, outcome: Outcome
    ) -> None:
        lease = await they.running()
        foreign = off_by_one(lease, wrong)

        assert (await settle(they, foreign, outcome)).status == "lost"
        assert (await they.release(foreign)).status == "lost"
        assert await they.standing(lease) == "held"

    async def test_a_result_names_objects_of_its_own_attempt_alone(self, they: Actors, ledger: Ledger) -> None:
        """Else a worker could have the file of any other job handed out, of other namespaces too."""
        earlier = await they.running()
        await they.release(earlier)
        lease, other = await they.grant(earlier.job_id), await they.running()
        for key in (
            an_output(other).key,
            an_output(earlier).key,
            an_output(lease).key.replace("default/", "ads/", 1),
            "ledger/secret",
            "",
        ):
            output = structs.replace(an_output(lease), key=key)
            with pytest.raises(Invalid, match="no object of this attempt"):
                await ledger.settle(SettleRequest(lease=lease, outcome=Outcome.SUCCESS, outputs=(output,)))
        assert (await they.succeed(lease)).status == "won"

    async def test_nobody_settles_an_unknown_job(self, they: Actors) -> None:
        assert (await they.succeed(Lease(job_id="nobody", attempt=1, token=1))).status == "lost"

    async def test_a_lease_that_ran_out_but_was_not_taken_may_still_settle(
        self, they: Actors, clock: ManualClock
    ) -> None:
        """The compare-and-swap decides, so trying late is harmless and saves the work."""
        lease = await they.running()
        clock.advance(3600)

        assert (await they.succeed(lease)).status == "won"

    # --- failures ---

    async def test_a_permanent_failure_ends_the_job_once_and_says_why(self, they: Actors) -> None:
        lease = await they.running(subscribers=("webhook:https://x.example",))

        settled = await they.fail(lease, Outcome.PERMANENT, "no such filter: sclae")

        assert (settled.status, settled.state) == ("won", State.FAILED)
        result = await they.result(lease.job_id)
        assert (result.reason, result.attempt, result.outputs) == (Reason.PERMANENT, 1, ())
        assert result.error is not None
        assert "no such filter: sclae" in result.error.message
        assert (await they.row(lease.job_id)).reason is Reason.PERMANENT
        assert (await they.budgets(lease.job_id))[Counter.FAILURES] == 1
        assert "no such filter: sclae" in (await they.bodies())[f"result:{lease.job_id}:webhook:https://x.example"]

    @pytest.mark.parametrize("outcome", FAULTS)
    async def test_a_fault_of_the_job_waits_2_4_8_seconds_and_then_ends_it(
        self, they: Actors, clock: ManualClock, outcome: Outcome
    ) -> None:
        job_id = (await they.submit()).job_id
        waits = []
        for n in range(1, 4):
            settled = await they.fail(await they.grant(job_id), outcome)
            row = await they.row(job_id)
            assert (settled.status, settled.state, row.attempt, row.failures) == ("requeued", State.QUEUED, n + 1, n)
            waits.append(row.not_before_ms - clock.boot_ms_now)

        last = await they.fail(await they.grant(job_id), outcome)

        assert waits == [2_000, 4_000, 8_000]
        assert (last.status, last.state) == ("won", State.FAILED)
        assert (await they.row(job_id)).reason is Reason.EXHAUSTED

    async def test_the_exhausted_text_names_the_budget_and_every_cause(self, they: Actors) -> None:
        job_id = (await they.submit(max_attempts=3)).job_id
        await they.fail(await they.grant(job_id), message="disk full on box a")
        await they.grant(job_id)
        await they.expire_all()
        await they.fail(await they.grant(job_id), Outcome.STALLED, message="no sign of life")
        await they.fail(await they.grant(job_id), message="connection reset")

        result = await they.result(job_id)

        assert result.reason is Reason.EXHAUSTED
        assert result.error is not None
        told = result.error.message + result.error.tail
        assert "3 of 3 attempts failed" in told
        for cause in ("disk full on box a", "no sign of life", "connection reset", "lost"):
            assert cause in told

    async def test_a_repeated_last_failure_gets_the_same_answer(self, they: Actors) -> None:
        lease = await they.running(max_attempts=1)
        first = await they.fail(lease)

        assert (first.status, first.state) == ("won", State.FAILED)
        assert await they.fail(lease) == first

    async def test_a_loss_does_not_pay_for_a_failure(self, they: Actors) -> None:
        """C37: interrupted, crashed and failed attempts are counted apart."""
        job_id = (await they.submit(max_attempts=2)).job_id
        for _ in range(3):
            await they.grant(job_id)
            await they.expire_all()
        await they.fail(await they.grant(job_id))

        assert (await they.row(job_id)).state is State.QUEUED
        assert await they.budgets(job_id) == {Counter.FAILURES: 1, Counter.LOSSES: 3, Counter.HANDBACKS: 0}

    # --- hand-backs ---

    async def test_a_hand_back_is_free_and_due_at_once(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        lease = await they.running()

        released = await they.release(lease)

        assert (released.status, released.state) == ("requeued", State.QUEUED)
        row = await they.row(lease.job_id)
        assert (row.state, row.attempt, row.token) == (State.QUEUED, 2, None)
        assert (row.failures, row.losses, row.handbacks) == (0, 0, 1)
        assert row.not_before_ms <= clock.boot_ms_now
        assert await they.line() == [lease.job_id]
        [attempt] = await ledger.attempts(lease.job_id)
        assert attempt.outcome is Outcome.RELEASED

    async def test_a_job_that_never_started_waits_by_its_hand_backs(self, they: Actors, clock: ManualClock) -> None:
        job_id = (await they.submit()).job_id
        waits = []
        for _ in range(4):
            await they.release(await they.grant(job_id), started=False)
            waits.append((await they.row(job_id)).not_before_ms - clock.boot_ms_now)

        assert waits == [2_000, 4_000, 8_000, 8_000]
        assert await they.budgets(job_id) == {Counter.FAILURES: 0, Counter.LOSSES: 0, Counter.HANDBACKS: 4}

    async def test_a_repeated_release_moves_the_job_once(self, they: Actors) -> None:
        lease = await they.running()
        await they.release(lease)
        before = await they.row(lease.job_id)

        assert (await they.release(lease)).status in ("requeued", "lost")
        assert await they.row(lease.job_id) == before

    async def test_a_late_release_does_not_free_the_next_attempt(self, they: Actors) -> None:
        late = await they.running(by="w1")
        await they.expire_all()
        current = await they.grant(late.job_id, by="w2")

        assert (await they.release(late)).status == "lost"
        assert await they.standing(current) == "held"

    async def test_a_busy_deploy_day_is_free_but_a_livelock_ends(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        for _ in range(20):
            assert (await they.release(await they.grant(job_id))).state is State.QUEUED

        last = await they.release(await they.grant(job_id))

        assert last.state is State.FAILED
        result = await they.result(job_id)
        assert result.reason is Reason.EXHAUSTED
        assert result.error is not None
        assert "handed back 21 times" in result.error.message

    async def test_the_history_of_a_job_tells_its_attempts_in_order(self, they: Actors, ledger: Ledger) -> None:
        job_id = (await they.submit(who="ann")).job_id
        await they.fail(await they.grant(job_id), message="disk full")
        await they.release(await they.grant(job_id, by="w2"))
        await they.succeed(await they.grant(job_id, by="w3"))

        events = await ledger.events(job_id)

        assert [event.id for event in events] == sorted({event.id for event in events})
        assert all(event.job_id == job_id for event in events)
        assert {event.attempt for event in events} >= {1, 2, 3}
        assert any(event.who == "ann" for event in events)
        assert any("disk full" in event.detail for event in events)


async def settle(they: Actors, lease: Lease, outcome: Outcome) -> Settled:
    if outcome is Outcome.SUCCESS:
        return await they.succeed(lease)
    return await they.fail(lease, outcome)
