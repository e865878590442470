"""Checkpoints: fenced, only ever newer, and dropped when they may be what is broken (T9)."""

from __future__ import annotations

from planrun.core.budget import Counter
from planrun.core.life import Outcome, Reason, State
from planrun.ledger.contract import Ledger

from .actors import Actors, a_checkpoint, a_log, an_output
from .ledger_contract import LedgerContract


class CheckpointContract(LedgerContract):
    async def test_the_next_attempt_resumes_from_the_newest_checkpoint(self, they: Actors) -> None:
        first = await they.running()
        assert (await they.save(first, 1)).status == "held"
        assert (await they.save(first, 2)).status == "held"
        await they.release(first)

        granted = await they.granted(first.job_id, by="w2")

        assert granted.checkpoint == a_checkpoint(first, 2)
        assert (await they.row(first.job_id)).checkpoint == a_checkpoint(first, 2)

    async def test_a_lost_attempt_leaves_its_checkpoint_to_the_next(self, they: Actors) -> None:
        lost = await they.running()
        await they.save(lost, 1)
        assert await they.expire_all() == 1

        granted = await they.granted(lost.job_id, by="w2")

        assert granted.checkpoint == a_checkpoint(lost, 1)

    async def test_an_older_checkpoint_never_replaces_a_newer_one(self, they: Actors) -> None:
        lease = await they.running()
        await they.save(lease, 2)
        await they.save(lease, 1)

        assert (await they.row(lease.job_id)).checkpoint == a_checkpoint(lease, 2)

    async def test_a_repeated_checkpoint_gets_the_same_answer(self, they: Actors) -> None:
        """The reply was lost. The worker must not hear that its lease is."""
        lease = await they.running()

        assert [(await they.save(lease, 1)).status for _ in range(2)] == ["held", "held"]

    async def test_the_next_attempt_counts_its_checkpoints_from_one_again(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first, 7)
        await they.release(first)
        second = await they.grant(first.job_id)

        assert (await they.save(second, 1)).status == "held"
        assert (await they.row(first.job_id)).checkpoint == a_checkpoint(second, 1)

    async def test_a_stale_attempts_checkpoint_is_refused(self, they: Actors) -> None:
        stale = await they.running(by="w1")
        await they.expire_all()
        current = await they.grant(stale.job_id, by="w2")
        await they.save(current, 1)

        assert (await they.save(stale, 9)).status == "lost"
        assert (await they.row(stale.job_id)).checkpoint == a_checkpoint(current, 1)

    async def test_a_canceled_jobs_checkpoint_is_refused(self, they: Actors) -> None:
        lease = await they.running()
        await they.cancel(lease.job_id)

        assert (await they.save(lease)).status == "canceled"

    async def test_a_newer_checkpoint_gives_all_hand_backs_again(self, they: Actors) -> None:
        job_id = (await they.submit()).job_id
        for _ in range(15):
            await they.release(await they.grant(job_id))
        lease = await they.grant(job_id)
        await they.save(lease)

        assert (await they.budgets(job_id))[Counter.HANDBACKS] == 0
        await they.release(lease)
        for _ in range(19):
            await they.release(await they.grant(job_id))
        assert (await they.row(job_id)).state is State.QUEUED

    async def test_a_stale_attempts_checkpoint_gives_no_hand_backs(self, they: Actors) -> None:
        """It would reset the count for ever."""
        lease = await they.running()
        await they.save(lease, 2)
        await they.release(lease)
        before = await they.budgets(lease.job_id)

        await they.save(lease, 1)

        assert before[Counter.HANDBACKS] == 1
        assert await they.budgets(lease.job_id) == before

    async def test_a_failure_after_resuming_goes_back_one_checkpoint_and_then_to_the_beginning(
        self, they: Actors
    ) -> None:
        """The checkpoint may be what is broken: one of two must not fail every attempt."""
        first = await they.running()
        await they.save(first, 1)
        await they.save(first, 2)
        await they.fail(first)
        resumed = []
        for _ in range(2):
            granted = await they.granted(first.job_id)
            resumed.append(granted.checkpoint)
            await they.fail(granted.lease)
        resumed.append((await they.granted(first.job_id)).checkpoint)

        assert resumed == [a_checkpoint(first, 2), a_checkpoint(first, 1), None]

    async def test_a_failure_after_a_newer_checkpoint_keeps_it(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first)
        await they.release(first)
        second = await they.grant(first.job_id)
        await they.save(second)
        await they.fail(second)

        assert (await they.granted(first.job_id)).checkpoint == a_checkpoint(second, 1)

    async def test_a_failure_of_the_attempt_that_wrote_it_keeps_the_checkpoint(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first)
        await they.fail(first)

        assert (await they.granted(first.job_id)).checkpoint == a_checkpoint(first, 1)

    async def test_a_hand_back_after_resuming_keeps_the_checkpoint(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first)
        await they.release(first)
        await they.release(await they.grant(first.job_id))

        assert (await they.granted(first.job_id)).checkpoint == a_checkpoint(first, 1)

    async def test_a_permanent_failure_after_resuming_counts_as_transient_once(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first)
        await they.release(first)
        second = await they.grant(first.job_id)

        doubted = await they.fail(second, Outcome.PERMANENT)

        assert (doubted.status, doubted.state) == ("requeued", State.QUEUED)
        assert await they.fail(second, Outcome.PERMANENT) == doubted
        assert (await they.budgets(first.job_id))[Counter.FAILURES] == 1
        third = await they.granted(first.job_id)
        assert third.checkpoint is None
        assert (await they.fail(third.lease, Outcome.PERMANENT)).state is State.FAILED
        assert (await they.result(first.job_id)).reason is Reason.PERMANENT

    async def test_a_doubted_permanent_failure_is_checked_from_the_very_beginning(self, they: Actors) -> None:
        """Any older checkpoint may be broken too: only a fresh start tells whether the input is at fault."""
        first = await they.running()
        await they.save(first, 1)
        await they.save(first, 2)
        await they.release(first)
        assert (await they.fail(await they.grant(first.job_id), Outcome.PERMANENT)).state is State.QUEUED
        again = await they.granted(first.job_id)
        assert again.checkpoint is None

        assert (await they.fail(again.lease, Outcome.PERMANENT)).state is State.FAILED

    async def test_a_permanent_failure_after_a_newer_checkpoint_is_believed(self, they: Actors) -> None:
        first = await they.running()
        await they.save(first)
        await they.release(first)
        second = await they.grant(first.job_id)
        await they.save(second)

        assert (await they.fail(second, Outcome.PERMANENT)).state is State.FAILED

    async def test_the_files_of_a_live_jobs_checkpoint_are_not_garbage(self, they: Actors, ledger: Ledger) -> None:
        first = await they.running()
        await they.save(first, 1)
        await they.save(first, 2)
        await they.release(first)
        await they.grant(first.job_id)
        kept = {file.key for seq in (1, 2) for file in a_checkpoint(first, seq).files}

        for garbage in await ledger.garbage(grace_ms=0, limit=10):
            assert garbage.lease.token == first.token
            assert kept <= set(garbage.keep)

    async def test_the_files_of_an_ended_jobs_checkpoint_are_garbage(self, they: Actors, ledger: Ledger) -> None:
        first = await they.running()
        await they.save(first)
        await they.release(first)
        await they.succeed(await they.grant(first.job_id))

        garbage = {named.lease: named for named in await ledger.garbage(grace_ms=0, limit=10)}

        assert garbage[first].keep == ()

    async def test_the_files_of_the_winners_own_checkpoint_are_garbage_but_not_its_outputs(
        self, they: Actors, ledger: Ledger
    ) -> None:
        winner = await they.running()
        await they.save(winner)
        await they.succeed(winner)

        [garbage] = await ledger.garbage(grace_ms=0, limit=10)

        assert (garbage.lease, garbage.keep) == (winner, (an_output(winner).key, a_log(winner)))

    async def test_what_a_live_job_may_resume_from_is_visited_again(self, they: Actors, ledger: Ledger) -> None:
        """Between the look and the word that all is collected, a newer checkpoint may have taken its place."""
        first = await they.running()
        await they.save(first)
        await they.release(first)
        [seen] = await ledger.garbage(grace_ms=0, limit=10)
        second = await they.grant(first.job_id)
        await they.succeed(second)
        named = {garbage.lease: garbage for garbage in await ledger.garbage(grace_ms=0, limit=10)}

        assert (seen.keep != (), seen.final) == (True, False)
        assert (named[first].keep, named[first].final) == ((), True)

    async def test_an_attempt_that_a_live_job_may_resume_from_stays_open_for_collection(
        self, they: Actors, ledger: Ledger
    ) -> None:
        """Its checkpoint is kept now and must go when the job ends."""
        first = await they.running()
        await they.save(first)
        await they.release(first)
        second = await they.grant(first.job_id)

        await ledger.collected(first)
        assert [named.lease for named in await ledger.garbage(grace_ms=0, limit=10)] == [first]
        await they.succeed(second)
        await ledger.collected(first)

        assert first not in [named.lease for named in await ledger.garbage(grace_ms=0, limit=10)]
