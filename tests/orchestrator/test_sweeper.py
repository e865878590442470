"""What a sweep does about what it finds, and when it looks again."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import Lease, WorkerRow
from planrun.lockfile import WorkerLock
from planrun.orchestrator.expiry import EXPIRY_AHEAD_MS
from planrun.orchestrator.sweeper import GAP_GRACE_MS, Sweeper
from tests.orchestrator.fake_ledger import FakeLedger

pytestmark = pytest.mark.anyio


def holder_of(lock: WorkerLock, *, state: str = "ready") -> WorkerRow:
    return WorkerRow(
        incarnation=lock.path.name,
        name=lock.path.name,
        host="box",
        slots=1,
        lock_file=str(lock.path),
        lock_device=lock.device,
        lock_inode=lock.inode,
        state=state,
    )


async def test_a_ledger_with_nothing_due_gets_one_cheap_question(ledger: FakeLedger) -> None:
    next_ms = await Sweeper(ledger.port).tick(ledger.boot_ms)

    assert ledger.asked == ["due"]
    assert next_ms == ledger.boot_ms + 5_000


async def test_the_next_look_is_when_the_earliest_thing_comes_due(ledger: FakeLedger) -> None:
    ledger.lease_ms, ledger.promote_ms = ledger.boot_ms + 900, ledger.boot_ms + 1_700

    assert await Sweeper(ledger.port).tick(ledger.boot_ms) == ledger.boot_ms + 900 - EXPIRY_AHEAD_MS
    ledger.lease_ms = None
    assert await Sweeper(ledger.port).tick(ledger.boot_ms) == ledger.boot_ms + 1_700


async def test_all_that_is_due_is_done_in_one_tick(ledger: FakeLedger) -> None:
    now_ms = ledger.lease_ms = ledger.promote_ms = ledger.deadline_ms = ledger.boot_ms

    await Sweeper(ledger.port).tick(now_ms)

    assert ledger.asked == ["due", f"expire {now_ms}", "promote", "end_overdue"]


async def test_a_lease_that_ran_out_while_the_ledger_was_locked_is_left_to_its_renewal(ledger: FakeLedger) -> None:
    """The stamp is from before the question: 3 s later, when the answer comes, the lease has run out."""
    stamp_ms = ledger.boot_ms
    ledger.lease_ms = stamp_ms + 500
    ledger.boot_ms += 3_000

    await Sweeper(ledger.port).tick(stamp_ms)

    assert ledger.asked == ["due", f"expire {stamp_ms}"]
    assert ledger.lease_ms == stamp_ms + 500


async def test_after_a_gap_of_its_own_the_sweeper_lets_others_renew_first(ledger: FakeLedger) -> None:
    """C14: the machine slept; its workers wake up together with the sweeper."""
    sweeper = Sweeper(ledger.port)
    ledger.lease_ms = ledger.boot_ms + 20_000
    await sweeper.tick(ledger.boot_ms)
    ledger.boot_ms += 60_000

    await sweeper.tick(ledger.boot_ms)
    assert ledger.asked == ["due", "due"]

    ledger.boot_ms += GAP_GRACE_MS
    await sweeper.tick(ledger.boot_ms)
    assert ledger.asked[-1] == f"expire {ledger.boot_ms}"


async def test_a_reboot_is_adopted_instead_of_judged_by_the_old_clock(ledger: FakeLedger) -> None:
    ledger.foreign_epoch, ledger.lease_ms = True, 5

    await Sweeper(ledger.port).tick(ledger.boot_ms)

    assert ledger.asked == ["due", "adopt_epoch"]


async def test_what_failed_is_simply_done_at_the_next_tick(ledger: FakeLedger) -> None:
    ledger.lease_ms = ledger.boot_ms
    sweeper = Sweeper(ledger.port)
    ledger.out_of_order = True
    with pytest.raises(LedgerUnavailable):
        await sweeper.tick(ledger.boot_ms)
    ledger.out_of_order = False

    await sweeper.tick(ledger.boot_ms + 1_000)

    assert ledger.lease_ms is None


async def test_unsupported_jobs_end_rarely_and_not_before_the_fleet_had_time_to_come_up(ledger: FakeLedger) -> None:
    sweeper = Sweeper(ledger.port)
    ticks_s = range(0, 301, 5)
    for at_s in ticks_s:
        await sweeper.tick(ledger.boot_ms + at_s * 1000)
        if at_s < 120:
            assert "end_unsupported 3600000" not in ledger.asked

    assert ledger.asked.count("end_unsupported 3600000") == 4


async def test_jobs_that_came_to_a_cold_fleet_are_judged_once_it_is_warm(ledger: FakeLedger) -> None:
    sweeper, ledger.hopeless = Sweeper(ledger.port, warm_after_ms=30_000), 2
    for at_s in range(0, 61, 5):
        await sweeper.tick(ledger.boot_ms + at_s * 1000)

    judged = [asked for asked in ledger.asked if asked.startswith("end_unsupported")]
    assert judged == ["end_unsupported 0 to 30000"] * 2 + ["end_unsupported 3600000"]


async def test_a_sweeper_that_may_not_judge_fails_no_jobs_of_others(ledger: FakeLedger) -> None:
    sweeper = Sweeper(ledger.port, ends_unsupported=False)
    for at_s in range(0, 301, 5):
        await sweeper.tick(ledger.boot_ms + at_s * 1000)

    assert "end_unsupported 3600000" not in ledger.asked


async def test_a_dead_holder_is_buried_and_a_living_one_followed(ledger: FakeLedger, tmp_path: Path) -> None:
    dead, living = WorkerLock.acquire(tmp_path, "dead"), WorkerLock.acquire(tmp_path, "living")
    ledger.holders = (holder_of(dead), holder_of(living))
    dead.close()
    sweeper = Sweeper(ledger.port, incarnation="me")

    await sweeper.tick(ledger.boot_ms)

    assert ledger.asked == ["due", "bury dead"]
    assert [holder.incarnation for holder in sweeper.holders] == ["living"]
    assert not dead.path.exists()
    assert living.path.exists()
    living.close()


async def test_what_the_dead_left_running_is_ended_before_its_jobs_go_on(ledger: FakeLedger, tmp_path: Path) -> None:
    dead = WorkerLock.acquire(tmp_path, "dead")
    ledger.holders = (holder_of(dead),)
    dead.close()

    await Sweeper(ledger.port, clear=lambda name: ledger.asked.append(f"clear {name}")).tick(ledger.boot_ms)

    assert ledger.asked == ["due", "clear dead", "bury dead"]


async def test_a_proof_stays_until_nothing_is_left_that_it_has_to_prove(tmp_path: Path) -> None:
    class OneByOne(FakeLedger):
        async def bury(self, incarnation: str, *, who: str) -> int:
            self.leases[incarnation].pop()
            return 1

    ledger, dead = OneByOne(), WorkerLock.acquire(tmp_path, "dead")
    ledger.holders = (holder_of(dead),)
    ledger.leases["dead"] = [Lease(job_id="j", attempt=1, token=n) for n in (1, 2)]
    dead.close()
    sweeper = Sweeper(ledger.port)

    await sweeper.tick(ledger.boot_ms)
    assert dead.path.exists()
    await sweeper.tick(ledger.boot_ms)
    assert not dead.path.exists()


async def test_a_worker_that_died_while_it_held_nothing_is_buried_too(ledger: FakeLedger, tmp_path: Path) -> None:
    """Its lock file and the folders of its spare process would stay for ever."""
    names = ("dead", "living", "me")
    locks = [WorkerLock.acquire(tmp_path, name) for name in names]
    ledger.known = tuple(map(holder_of, locks))
    cleared: list[str] = []
    sweeper = Sweeper(ledger.port, incarnation="me", clear=cleared.append)
    locks[0].close()
    locks[2].close()

    await sweeper.bury_idle()
    await sweeper.bury_idle()

    assert cleared == ["dead"]
    assert [lock.path.exists() for lock in locks] == [False, True, True]
    locks[1].close()


async def test_a_worker_never_buries_itself(ledger: FakeLedger, tmp_path: Path) -> None:
    """Its own lock would be free to itself only by a bug; its row is no business of its own sweeper."""
    lock = WorkerLock.acquire(tmp_path, "me")
    ledger.holders = (holder_of(lock),)
    lock.close()

    await Sweeper(ledger.port, incarnation="me").tick(ledger.boot_ms)

    assert ledger.asked == ["due"]


async def test_without_proof_of_death_only_the_lease_counts(ledger: FakeLedger, tmp_path: Path) -> None:
    lock = WorkerLock.acquire(tmp_path, "dead")
    ledger.holders = ledger.known = (holder_of(lock),)
    lock.close()
    sweeper = Sweeper(ledger.port, proof_of_death=False)

    await sweeper.tick(ledger.boot_ms)
    await sweeper.bury_idle()

    assert ledger.asked == ["due"]
    assert sweeper.holders == ()


async def test_a_broken_worker_is_buried_once_its_leases_have_run_out(ledger: FakeLedger, tmp_path: Path) -> None:
    """Fatal: the neighbours' jobs return by expiry; afterwards the proof says that their trees are dead."""
    lock = WorkerLock.acquire(tmp_path, "broken")
    ledger.holders = (holder_of(lock, state="broken"),)
    ledger.leases["broken"] = [Lease(job_id="j", attempt=1, token=1)]
    lock.close()
    sweeper = Sweeper(ledger.port)

    await sweeper.tick(ledger.boot_ms)
    assert ledger.asked == ["due"]

    ledger.leases["broken"] = []
    await sweeper.tick(ledger.boot_ms + 5_000)
    assert ledger.asked == ["due", "due", "bury broken"]
