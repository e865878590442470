"""Leases: renewed, looked at, run out, proven dead, and of another boot (T8, T10, T16, T16d, T18, T24)."""

from __future__ import annotations

import pytest

from planrun.core.access import digest_of
from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Beat, Lease, RenewRequest
from planrun.core.presence import LOST_AFTER_MS
from planrun.ledger.contract import Ledger

from .actors import LEASE_MS, Actors, an_output
from .ledger_contract import LedgerContract, OpenLedger
from .manual_clock import ManualClock


class LeaseContract(LedgerContract):
    async def test_a_renewal_counts_from_the_ledgers_own_now(self, they: Actors, clock: ManualClock) -> None:
        lease = await they.running()
        clock.advance(20)

        assert await they.renew(lease) == ["held"]
        assert (await they.row(lease.job_id)).lease_until_ms == clock.boot_ms_now + LEASE_MS

    async def test_a_renewal_never_shortens_a_lease(self, they: Actors, clock: ManualClock) -> None:
        lease = await they.running()
        until_ms = clock.boot_ms_now + LEASE_MS

        assert await they.renew(lease, lease_ms=1_000) == ["held"]
        assert (await they.row(lease.job_id)).lease_until_ms == until_ms

    async def test_one_heartbeat_answers_for_every_lease_in_its_order(self, they: Actors) -> None:
        lost, held, canceled = await they.running(), await they.running(), await they.running()
        await they.release(lost)
        await they.cancel(canceled.job_id)
        unknown = Lease(job_id="nobody", attempt=1, token=1)

        assert await they.renew(canceled, lost, held, unknown) == ["canceled", "lost", "held", "lost"]

    @pytest.mark.parametrize("wrong", ["attempt", "token"])
    async def test_attempt_and_token_must_both_be_right_to_renew(
        self, they: Actors, clock: ManualClock, wrong: str
    ) -> None:
        lease = await they.running()
        until_ms = (await they.row(lease.job_id)).lease_until_ms
        clock.advance(20)
        foreign = off_by_one(lease, wrong)

        assert await they.renew(foreign) == ["lost"]
        assert await they.standing(foreign) == "lost"
        assert (await they.row(lease.job_id)).lease_until_ms == until_ms

    async def test_a_late_renewal_cannot_steal_the_job_back(self, they: Actors, clock: ManualClock) -> None:
        """C07."""
        first = await they.running(by="w1")
        await they.expire_all()
        second = await they.grant(first.job_id, by="w2")
        before = await they.row(first.job_id)
        clock.advance(1)

        assert await they.renew(first) == ["lost"]
        assert await they.row(first.job_id) == before
        assert await they.renew(second, by="w2") == ["held"]

    async def test_a_lease_that_ran_out_but_was_not_taken_can_still_be_renewed(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        clock.advance(2 * LEASE_MS / 1000)

        assert await they.renew(lease) == ["held"]
        assert await ledger.expire(stamp_ms=clock.boot_ms_now) == 0

    async def test_progress_rides_on_the_heartbeat(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running()
        beats = (Beat(lease=lease, fraction=0.25, message="encoding"),)
        await ledger.renew(RenewRequest(incarnation="w1", beats=beats, lease_ms=LEASE_MS))
        await they.renew(lease)  # nothing new to say: what was said stays

        row = await they.row(lease.job_id)

        assert (row.fraction, row.message) == (0.25, "encoding")

    async def test_a_stale_attempts_progress_is_not_shown(self, they: Actors, ledger: Ledger) -> None:
        stale = await they.running()
        await they.release(stale)
        current = await they.grant(stale.job_id, by="w2")
        for lease, fraction, by in [(current, 0.1, "w2"), (stale, 0.9, "w1")]:
            beats = (Beat(lease=lease, fraction=fraction, message=by),)
            await ledger.renew(RenewRequest(incarnation=by, beats=beats, lease_ms=LEASE_MS))

        row = await they.row(stale.job_id)

        assert (row.fraction, row.message) == (0.1, "w2")

    async def test_a_heartbeat_shows_that_the_worker_lives(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        clock.advance(20)
        await they.renew(lease)

        assert [worker.seen_at_ms for worker in await ledger.workers()] == [clock.wall_ms]

    async def test_the_fence_check_says_held_lost_or_canceled(self, they: Actors) -> None:
        held, lost, canceled = await they.running(), await they.running(), await they.running()
        await they.release(lost)
        await they.cancel(canceled.job_id)

        answers = [await they.standing(lease, [an_output(lease)]) for lease in (held, lost, canceled)]

        assert answers == ["held", "lost", "canceled"]

    async def test_whoever_hears_at_the_fence_that_it_holds_does_so_for_a_whole_lease(
        self, they: Actors, clock: ManualClock
    ) -> None:
        """It trusts itself from then on as after a heartbeat."""
        lease = await they.running()
        clock.advance(20)

        assert await they.standing(lease) == "held"
        assert (await they.row(lease.job_id)).lease_until_ms == clock.boot_ms_now + LEASE_MS

    async def test_held_lists_what_a_worker_has_right_now(self, they: Actors, ledger: Ledger) -> None:
        one, two = await they.running(by="w1"), await they.running(by="w1")
        other = await they.running(by="w2")

        assert sorted(await ledger.held("w1"), key=lambda lease: lease.token) == [one, two]
        assert await ledger.held("w2") == [other]
        await they.cancel(one.job_id)
        await they.release(two)
        assert await ledger.held("w1") == []

    # --- run out ---

    async def test_a_lease_ends_only_when_the_stamp_reached_its_end(self, they: Actors, clock: ManualClock) -> None:
        """Not the time at which the statement runs: that may be late because the ledger was locked."""
        lease = await they.running()
        until_ms = clock.boot_ms_now + LEASE_MS
        clock.advance(10 * LEASE_MS / 1000)

        assert await they.sweep(stamp_ms=until_ms - 1) == 0
        assert (await they.row(lease.job_id)).state is State.RUNNING
        assert await they.sweep(stamp_ms=until_ms) == 1
        assert (await they.row(lease.job_id)).state is State.QUEUED

    async def test_a_lease_renewed_after_the_stamp_is_left_alone(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        clock.advance(LEASE_MS / 1000)
        stamp_ms = clock.boot_ms_now
        await they.renew(lease)

        assert await ledger.expire(stamp_ms=stamp_ms) == 0
        assert await they.standing(lease) == "held"

    async def test_a_moved_wall_clock_ends_no_lease(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        """C12: by a day forward and two back; a dead holder's lease still ends in time."""
        lease = await they.running()
        clock.jump_wall(24 * 3600)

        assert await ledger.expire(stamp_ms=clock.boot_ms_now) == 0
        assert (await ledger.due()).lease_ms == (await they.row(lease.job_id)).lease_until_ms
        clock.jump_wall(-48 * 3600)
        assert await they.expire_all() == 1
        assert await they.standing(lease) == "lost"

    async def test_a_lost_worker_costs_a_loss_and_no_attempt_of_the_job(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        await they.expire_all()

        row = await they.row(lease.job_id)

        assert (row.state, row.attempt, row.token, row.incarnation) == (State.QUEUED, 2, None, None)
        assert (row.failures, row.losses, row.handbacks) == (0, 1, 0)
        assert row.not_before_ms <= clock.boot_ms_now
        [attempt] = await ledger.attempts(lease.job_id)
        assert (attempt.outcome, attempt.ended_at_ms, attempt.stopped) == (Outcome.LOST, clock.wall_ms, False)

    async def test_losses_wait_0_2_4_8_seconds_and_the_eighth_ends_the_job(
        self, they: Actors, clock: ManualClock
    ) -> None:
        job_id = (await they.submit(subscribers=("webhook:https://x.example",))).job_id
        waits = []
        for n in range(1, 9):
            await they.grant(job_id, by=f"w{n}")
            await they.expire_all()
            waits.append(max(0, (await they.row(job_id)).not_before_ms - clock.boot_ms_now))

        assert waits[:7] == [0, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]
        result = await they.result(job_id)
        assert (result.state, result.reason) == (State.FAILED, Reason.EXHAUSTED)
        assert result.error is not None
        assert "8 workers were lost" in result.error.message
        assert len(await they.bodies()) == 1

    # --- proven dead ---

    async def test_a_proof_of_death_ends_all_leases_of_that_incarnation_and_no_other(
        self, they: Actors, ledger: Ledger
    ) -> None:
        dead = [await they.running(by="w1"), await they.running(by="w1")]
        alive = await they.running(by="w2")

        assert await ledger.bury("w1", who="w2") == 2
        assert await ledger.bury("w1", who="w2") == 0
        assert [await they.standing(lease) for lease in dead] == ["lost", "lost"]
        assert await they.standing(alive) == "held"
        row = await they.row(dead[0].job_id)
        assert (row.state, row.attempt, row.losses, row.failures) == (State.QUEUED, 2, 1, 0)

    async def test_a_proof_from_another_machine_needs_the_secret_of_the_dead_and_no_other_will_do(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        secrets = {"w1": "its own secret", "w2": "the secret of its neighbour"}
        for name, secret in secrets.items():
            await they.register(name, proof=digest_of(secret))
        lease = await they.running(by="w1")

        for wrong in ("", secrets["w2"], digest_of(secrets["w1"])):
            assert await ledger.bury_own("w1", secret=wrong, who="w2") is None
        assert await ledger.bury_own("nobody", secret="", who="w2") is None
        assert await they.standing(lease) == "held"
        assert await ledger.bury_own("w1", secret=secrets["w1"], who="w3") == 1
        assert await ledger.bury_own("w1", secret=secrets["w1"], who="w3") == 0
        assert await they.standing(lease) == "lost"
        assert await ledger.live_tokens([lease.token]) == set()
        seen = {row.incarnation: clock.wall_ms - row.seen_at_ms for row in await ledger.workers()}
        assert seen["w1"] > LOST_AFTER_MS >= seen["w2"]  # lost at once, and no machine that waits for a job

    async def test_nobody_puts_a_secret_of_his_own_in_the_place_of_another_workers(
        self, they: Actors, ledger: Ledger
    ) -> None:
        await they.register("w1", proof=digest_of("its own"))
        await they.register("w2")
        leases = [await they.running(by=name) for name in ("w1", "w2")]

        for name, lease in zip(("w1", "w2"), leases, strict=True):
            await they.register(name, proof=digest_of("of a thief"))
            assert await ledger.bury_own(name, secret="of a thief", who="thief") is None
            assert await they.standing(lease) == "held"
        assert {row.proof for row in await ledger.workers()} == {""}

    async def test_after_a_proof_of_death_the_trees_are_known_to_be_stopped(self, they: Actors, ledger: Ledger) -> None:
        """Expiry proves nothing about processes: their scratch must stay until somebody knows."""
        silent, dead, canceled = (
            await they.running(by="w1"),
            await they.running(by="w2"),
            await they.running(by="w2"),
        )
        await they.cancel(canceled.job_id)
        await they.expire_all()
        again = await they.grant(dead.job_id, by="w2")
        tokens = [lease.token for lease in (silent, dead, canceled, again)]
        assert await ledger.live_tokens(tokens) == set(tokens)

        await ledger.bury("w2", who="w3")

        assert await ledger.live_tokens(tokens) == {silent.token}
        assert not (await they.row(canceled.job_id)).stopping

    async def test_an_attempt_that_nobody_can_prove_dead_is_taken_for_dead_after_a_week(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """Where the proof is switched off, say: its folder must not stay for ever."""
        lost = await they.running()
        await they.expire_all()
        clock.advance(6 * 86_400)
        assert await ledger.live_tokens([lost.token]) == {lost.token}

        clock.advance(2 * 86_400)

        assert await ledger.live_tokens([lost.token]) == set()

    # --- another boot ---

    async def test_after_a_reboot_every_lease_of_the_other_boot_ends_at_once(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        old = await they.running()
        clock.reboot()
        assert (await ledger.due()).foreign_epoch

        await ledger.adopt_epoch()
        assert not (await ledger.due()).foreign_epoch
        assert await they.standing(old) == "lost"
        row = await they.row(old.job_id)
        assert (row.state, row.attempt, row.losses) == (State.QUEUED, 2, 1)
        new = await they.grant(old.job_id)
        assert await ledger.adopt_epoch() == 0
        assert await they.standing(new) == "held"

    async def test_the_first_of_a_new_boot_to_look_does_not_take_the_leases_of_this_boot(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        lease = await they.running()

        assert await (await open_ledger()).adopt_epoch() == 0
        assert await they.standing(lease) == "held"

    async def test_a_reboot_does_not_stretch_a_wait(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        """Boottime starts again near zero: the old numbers would mean hours."""
        delayed = (await they.submit(delay_s=30)).job_id
        failing = await they.running(subscribers=("webhook:https://x.example",))
        await they.succeed(failing)
        assert len(await they.bodies()) == 1  # taken, owed again after a second
        clock.reboot(off_s=1)
        await ledger.adopt_epoch()

        assert (await they.row(delayed)).not_before_ms <= clock.boot_ms_now + 30_000
        clock.advance(30)
        await ledger.promote()
        assert await they.line() == [delayed]
        assert len(await they.bodies()) == 1

    async def test_a_reboot_with_a_dead_wall_clock_stretches_no_wait_by_years(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """A board without a battery starts in 1970; a wait is never longer than the old boot had been up."""
        uptime_ms = clock.boot_ms_now
        delayed = (await they.submit(delay_s=60)).job_id
        clock.reboot(off_s=1)
        clock.wall_ms = 0
        await ledger.adopt_epoch()

        assert (await they.row(delayed)).not_before_ms <= clock.boot_ms_now + uptime_ms + 60_000

    async def test_a_sweep_knows_when_to_look_again(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        assert (await ledger.due()).next_ms is None
        lease = await they.running()
        await they.submit(delay_s=5)

        due = await ledger.due()
        assert (due.promotable, due.next_ms) == (False, clock.boot_ms_now + 5_000)
        assert due.lease_ms == (await they.row(lease.job_id)).lease_until_ms
        clock.advance(5)
        await ledger.promote()
        assert (await ledger.due()).next_ms == (await they.row(lease.job_id)).lease_until_ms
        clock.advance(55)
        assert (await ledger.due()).lease_ms == clock.boot_ms_now

    async def test_a_sweep_sees_which_workers_still_have_something_to_prove(self, they: Actors, ledger: Ledger) -> None:
        await they.register("idle")
        running = await they.running(by="w1")
        canceled = await they.running(by="w2")
        await they.cancel(canceled.job_id)

        assert {worker.incarnation for worker in (await ledger.due()).holders} == {"w1", "w2"}
        await ledger.stopped(canceled, "w2")
        await they.succeed(running)
        await ledger.stopped(running, "w1")
        assert (await ledger.due()).holders == ()

    async def test_a_running_attempt_cannot_be_called_stopped(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running()

        await ledger.stopped(lease, "w1")

        assert await they.standing(lease) == "held"
        assert await ledger.live_tokens([lease.token]) == {lease.token}

    async def test_a_release_or_settle_says_itself_that_the_tree_is_dead(self, they: Actors, ledger: Ledger) -> None:
        """The process tree is dead before either is called."""
        released, settled = await they.running(), await they.running()
        await they.release(released)
        await they.succeed(settled)

        assert await ledger.live_tokens([released.token, settled.token, 12345]) == set()


def off_by_one(lease: Lease, field: str) -> Lease:
    return Lease(
        job_id=lease.job_id,
        attempt=lease.attempt + (field == "attempt"),
        token=lease.token + (field == "token"),
    )
