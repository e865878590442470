"""What the ledger of a fleet does beside: leases for clocks of other machines, many heartbeats at once, epochs."""

from __future__ import annotations

import pytest

from planrun.core.life import Reason, State
from planrun.core.machines import MachineClass
from planrun.core.messages import Beat, Lease, RenewRequest
from planrun.core.why import Cause, why
from planrun.ledger.fleet import FleetLedger

from .actors import LEASE_MS, Actors
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

LEDGER_LEASE_MS = LEASE_MS + 2_120
WARM_AFTER_S = 120


def beats_of(incarnation: str, *leases: Lease, fraction: float | None = None) -> RenewRequest:
    beats = tuple(Beat(lease=lease, fraction=fraction) for lease in leases)
    return RenewRequest(incarnation=incarnation, beats=beats, lease_ms=LEASE_MS)


class FleetContract(LedgerContract):
    @pytest.fixture
    def fleet(self, ledger: FleetLedger) -> FleetLedger:
        return ledger

    async def test_the_ledger_waits_longer_than_a_holder_trusts_itself(self, they: Actors, clock: ManualClock) -> None:
        lease = await they.running()
        granted_ms = clock.boot_ms_now
        clock.advance(10)
        await they.renew(lease)

        assert (await they.row(lease.job_id)).lease_until_ms == granted_ms + 10_000 + LEDGER_LEASE_MS

    async def test_a_batch_of_heartbeats_counts_from_its_own_transaction_and_answers_in_order(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        one, gone, two = [await they.running(by=by, content=by) for by in ("w1", "w1", "w2")]
        await they.cancel(gone.job_id)
        clock.advance(20)

        first, second = await fleet.renew_all([beats_of("w1", one, gone), beats_of("w2", two, fraction=0.5)])

        assert [standing.status for standing in (*first, *second)] == ["held", "canceled", "held"]
        row = await they.row(two.job_id)
        assert (row.fraction, row.lease_until_ms) == (0.5, clock.boot_ms_now + LEDGER_LEASE_MS)
        assert {worker.seen_at_ms for worker in await fleet.workers()} == {clock.wall_ms}

    async def test_the_stale_twin_of_a_lease_in_the_same_batch_is_lost(self, they: Actors, fleet: FleetLedger) -> None:
        held = await they.running()
        stale = Lease(job_id=held.job_id, attempt=held.attempt + 1, token=held.token)

        [standings] = await fleet.renew_all([beats_of("w1", held, stale)])

        assert [standing.status for standing in standings] == ["held", "lost"]

    async def test_a_new_epoch_gives_every_lease_its_full_length_again(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        short, long = await they.running(), await they.running(content="long")
        await they.grant((await they.submit(content="third")).job_id, lease_ms=90_000)
        clock.advance(3_600)

        assert await fleet.rearm(beat_epoch=await fleet.begin_beats()) == 3
        rearmed_ms = clock.boot_ms_now
        assert await they.sweep(stamp_ms=rearmed_ms) == 0
        ends = [(await they.row(lease.job_id)).lease_until_ms for lease in (short, long)]
        assert ends == [rearmed_ms + LEDGER_LEASE_MS] * 2
        clock.advance(LEDGER_LEASE_MS / 1000)
        assert await they.sweep(stamp_ms=clock.boot_ms_now) == 2
        clock.advance(30.06)
        assert await they.sweep(stamp_ms=clock.boot_ms_now) == 1

    async def test_epochs_only_grow_and_an_older_one_re_arms_nothing(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        older, newer = await fleet.begin_beats(), await fleet.begin_beats()
        clock.advance(10)

        assert newer > older
        assert await fleet.rearm(beat_epoch=older) == 0
        assert (await they.row(lease.job_id)).lease_until_ms == clock.boot_ms_now - 10_000 + LEDGER_LEASE_MS

    async def test_a_reboot_of_the_ledgers_machine_takes_no_lease_of_a_fleet(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        await fleet.begin_beats()
        lease = await they.running()
        clock.reboot()

        await fleet.adopt_epoch()

        assert await they.standing(lease) == "held"
        assert (await they.row(lease.job_id)).lease_until_ms == clock.boot_ms_now + LEDGER_LEASE_MS

    async def test_who_is_silent_is_known_before_anything_ends_and_one_worker_can_be_ended_alone(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        for by in ("w1", "w1", "w2"):
            await they.running(by=by, content=by)
        clock.advance(1)
        late = await they.running(by="w3", content="w3")
        clock.advance(LEDGER_LEASE_MS / 1000 - 1)
        stamp_ms = clock.boot_ms_now

        assert await fleet.silent(stamp_ms=stamp_ms) == {"w1": 2, "w2": 1}
        assert await they.sweep(stamp_ms=stamp_ms, incarnation="w1") == 2
        assert await fleet.silent(stamp_ms=stamp_ms) == {"w2": 1}
        assert (await they.row(late.job_id)).state is State.RUNNING

    async def test_what_ended_over_the_head_of_its_worker_is_astray_until_it_has_stopped(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        canceled, done, lost = [await they.running(by=by, content=by) for by in ("w1", "w2", "w3")]
        await they.cancel(canceled.job_id)
        await they.succeed(done)
        clock.advance(LEDGER_LEASE_MS / 1000)
        await they.sweep(stamp_ms=clock.boot_ms_now)
        jobs = [canceled.job_id, done.job_id, lost.job_id]

        found = {(each.incarnation, each.lease, each.status) for each in await fleet.astray(jobs)}
        assert found == {("w1", canceled, "canceled"), ("w3", lost, "lost")}
        await fleet.stopped(canceled, "w1")
        assert [each.incarnation for each in await fleet.astray(jobs)] == ["w3"]
        assert await fleet.astray([]) == []

    async def test_whoever_watches_hears_which_jobs_and_workers_each_commit_was_about(
        self, they: Actors, fleet: FleetLedger
    ) -> None:
        heard: list[frozenset[str] | None] = []
        fleet.watch(heard.append)

        lease = await they.running()
        await they.renew(lease)
        await they.succeed(lease)

        assert sum(lease.job_id in (about or ()) for about in heard) == 2

    # --- what nobody in the fleet could run ---

    async def test_a_capability_that_no_machine_has_fails_on_arrival_and_is_named(
        self, they: Actors, clock: ManualClock
    ) -> None:
        await they.register("w1", capabilities=("gpu",))
        clock.advance(WARM_AFTER_S)

        reply = await they.submit(needs=("gpu:h100",))

        assert (reply.state, (await they.row(reply.job_id)).reason) == (State.FAILED, Reason.UNSUPPORTED)
        error = (await they.result(reply.job_id)).error
        assert error is not None
        assert "gpu:h100" in error.message

    async def test_a_version_that_no_machine_has_fails_on_arrival_and_is_named(
        self, they: Actors, clock: ManualClock
    ) -> None:
        await they.register("w1")
        clock.advance(WARM_AFTER_S)

        reply = await they.submit(version="v9")

        error = (await they.result(reply.job_id)).error
        assert error is not None
        assert "preview v9" in error.message

    async def test_an_orchestrator_that_has_just_started_lets_workers_register_first(
        self, they: Actors, clock: ManualClock
    ) -> None:
        await they.register("w1")
        clock.advance(WARM_AFTER_S - 1)
        early = await they.submit(needs=("gpu",))
        clock.advance(1)

        assert (early.state, (await they.submit(needs=("gpu",), content="late")).state) == (State.QUEUED, State.FAILED)

    async def test_a_fleet_of_which_nobody_ever_registered_knows_nothing(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        await fleet.declare([MachineClass(name="box", kinds=("preview v1",))])
        clock.advance(WARM_AFTER_S)

        assert (await they.submit(needs=("gpu",))).state is State.QUEUED

    async def test_a_machine_that_is_away_for_less_than_an_hour_only_delays(
        self, they: Actors, clock: ManualClock
    ) -> None:
        await they.register("w1")
        await they.register("gpu", capabilities=("gpu",))
        clock.advance(3_599)
        await they.renew(by="w1")
        assert (await they.submit(needs=("gpu",))).state is State.QUEUED
        clock.advance(1)

        assert (await they.submit(needs=("gpu",), content="late")).state is State.FAILED

    async def test_what_a_declared_class_could_run_waits_for_it_however_long_it_is_away(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        await they.register("w1")
        await fleet.declare([MachineClass(name="gpu-box", kinds=("preview v1",), capabilities=("gpu",))])
        clock.advance(WARM_AFTER_S)
        waits, fails = await they.submit(needs=("gpu",)), await they.submit(needs=("gpu", "av1"), content="av1")
        clock.advance(2 * 3_600)
        await they.renew(by="w1")

        assert (waits.state, fails.state) == (State.QUEUED, State.FAILED)
        assert await fleet.end_unsupported(waited_ms=3_600_000) == 0
        outlook = await fleet.outlook(waits.job_id)
        assert outlook is not None
        said = why(outlook, dead=(), boot_ms=clock.boot_ms_now, wall_ms=clock.wall_ms)
        assert said.cause is Cause.FLEET_LOST
        assert "gpu-box" in said.sentence
        await fleet.declare([])
        assert await fleet.end_unsupported(waited_ms=3_600_000) == 1

    # --- rates ---

    async def test_rates_are_kept_with_the_ledger_and_lifted(self, fleet: FleetLedger) -> None:
        for kind, per_s in (("preview", 2.5), ("poster", 0.0), ("preview", 3.0), ("thumb", 1.0), ("thumb", None)):
            await fleet.set_rate(kind, per_s)

        assert await fleet.rates() == {"preview": 3.0, "poster": 0.0}

    # --- why a job waits ---

    async def test_a_rate_and_a_broker_that_takes_no_offers_are_reasons_to_wait(
        self, they: Actors, fleet: FleetLedger, clock: ManualClock
    ) -> None:
        await they.register("w1", slots=2)
        first, job_id = [(await they.submit()).job_id for _ in range(2)]

        async def said(job_id: str = job_id) -> tuple[Cause, str]:
            outlook = await fleet.outlook(job_id)
            assert outlook is not None
            found = why(outlook, dead=(), boot_ms=clock.boot_ms_now, wall_ms=clock.wall_ms)
            return found.cause, found.sentence

        await fleet.set_rate("preview", 0.5)
        assert (await said())[0] is Cause.BEHIND  # without a broker, workers take what they read
        await fleet.say_offering(goes_on=True)
        assert await said() == (
            Cause.RATE,
            "at most 30/min of preview are started (planrun rate); behind 1 job (1 older)",
        )
        assert (await said(first))[0] is Cause.RATE
        await fleet.set_rate("preview", 2.0)
        assert (await said())[0] is Cause.RATE
        assert (await said(first))[0] is Cause.NEXT  # what holds up the first for a second is no rate
        await fleet.say_offering(goes_on=False)
        clock.advance(60)
        await they.register("w1", slots=2)
        await fleet.say_offering(goes_on=False)
        clock.advance(60)
        await they.register("w1", slots=2)
        cause, sentence = await said()
        assert (cause, "taken no offers for 2 min" in sentence) == (Cause.NO_BROKER, True)
        await fleet.set_rate("preview", 0)
        assert "its rate is 0; let them go with planrun rate preview any" in (await said())[1]
        await fleet.set_rate("preview", None)
        await fleet.say_offering(goes_on=True)
        assert (await said())[0] is Cause.BEHIND
        await fleet.say_offering(goes_on=False)
        for _ in range(2):
            await they.running()
        assert (await said((await they.submit()).job_id))[0] is Cause.BUSY
        await fleet.say_offering(goes_on=None)
