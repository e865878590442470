"""A restored ledger answers as before, once somebody has decided that it is the one to go on with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnusable, StorageError
from planrun.core.life import Outcome, State
from planrun.core.manifests import manifest_key
from planrun.core.messages import Handler, Lease, Result
from planrun.core.names import job_id_of, token_of
from planrun.orchestrator import closer, recovery
from planrun.orchestrator.collector import Collector
from planrun.storage.filesystem import FilesystemStore
from tests.contract.actors import KIND
from tests.contract.manual_clock import ManualClock
from tests.contract.retention_contract import drop
from tests.orchestrator.standing import copy_of, standing

pytestmark = pytest.mark.anyio

MAIN = Path(__file__).with_name("history_main.py")
SETTLES = 50
DAY_S = 86_400


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Before:
    """What was said between the copy and the loss of the ledger."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.said: dict[str, str] = {}
        self.results: dict[str, Result] = {}


async def settled_after_the_copy(tmp_path: Path, clock: ManualClock, settles: int) -> Before:
    """A ledger whose backup and whose snapshot are older than these answers; the backup lacks five of the jobs."""
    before = Before()
    ledger, store = tmp_path / "ledger.db", tmp_path / "store"
    async with standing(ledger, store, clock) as party:
        for n in range(settles):
            if n == settles - 5:
                await party.ledger.backup(str(tmp_path / "backup.db"))
            lease = await party.they.running(request_id=f"r{n}", key=f"k{n}", subscribers=(f"webhook:{n}",))
            before.leases.append(lease)
        assert await party.say() == {}
    # Nobody has it open: a snapshot that lacks no grant, and every settle.
    copy_of(ledger, tmp_path / "snapshot.db")
    async with standing(ledger, store, clock) as party:
        for n, lease in enumerate(before.leases):
            match n % 3:
                case 0:
                    await party.finish(lease, f"result {n}", tmp_path)
                case 1:
                    await party.they.fail(lease, Outcome.PERMANENT, f"no good {n}")
                case _:
                    await party.they.cancel(lease.job_id)
        before.said = await party.say()
        for lease in before.leases:
            before.results[lease.job_id] = await party.they.result(lease.job_id)
    assert len(before.said) == settles
    return before


@pytest.mark.parametrize("copy", ["backup.db", "snapshot.db"])
async def test_a_copy_from_before_the_last_fifty_settles_is_refused_and_recovered_without_a_second_answer(
    tmp_path: Path, clock: ManualClock, copy: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = await settled_after_the_copy(tmp_path, clock, SETTLES)
    restored, store = tmp_path / copy, tmp_path / "store"

    with pytest.raises(LedgerUnusable, match=r"older copy, such as a restored backup.*--recover"):
        async with standing(restored, store, clock):
            pass

    async with standing(restored, store, clock, recover=True) as party:
        again = await party.say()
        assert {msg_id: before.said[msg_id] for msg_id in again} == again
        for n, lease in enumerate(before.leases):
            assert await party.they.result(lease.job_id) == before.results[lease.job_id]
            assert (await party.they.row(f"r{n}")).state is before.results[lease.job_id].state
            if n % 3 == 0:
                assert (await party.they.submit(key=f"k{n}")).disposition == "answered"
            # a late worker of the generation that was left behind
            await party.they.succeed(lease, text="late")
            await party.they.fail(lease, Outcome.TRANSIENT)
        assert await party.say() == {}
        for lease in before.leases:
            assert await party.they.result(lease.job_id) == before.results[lease.job_id]
        assert (await party.they.running()).token > max(lease.token for lease in before.leases)
        clock.advance(9 * DAY_S)
        gone: list[str] = []
        await Collector(party.ledger, party.store, scratch=tmp_path / "scratch", gc_grace_s=0, tell=gone.append).tick(0)
        assert gone == []
        assert await party.ledger.violations() == []
    assert f"{SETTLES} answers" in caplog.text
    async with standing(restored, store, clock):
        pass  # nothing is wrong with it any more


async def test_a_job_that_ended_differently_since_the_restore_gets_the_answer_that_was_said_first(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Rule 3 alone: the restored copy was let in although it is behind."""
    before = await settled_after_the_copy(tmp_path, clock, 6)
    async with standing(tmp_path / "snapshot.db", tmp_path / "store", clock, began=False) as party:
        for lease in before.leases:
            await party.they.fail(lease, Outcome.PERMANENT, "another end")

        said = await party.say()

        assert said == before.said
        for lease in before.leases:
            assert await party.they.result(lease.job_id) == before.results[lease.job_id]
        assert await party.ledger.violations() == []


async def test_the_copy_that_was_left_behind_ends_and_what_it_still_says_is_no_second_answer(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Split brain: both run; the manifest decides."""
    old, new, store = tmp_path / "ledger.db", tmp_path / "new.db", tmp_path / "store"
    async with standing(old, store, clock) as party:
        lease = await party.they.running(subscribers=("webhook:x",))
    copy_of(old, new)
    async with standing(old, store, clock) as left:
        await left.finish(await left.they.running(), "so that the copy is behind", tmp_path)
        await left.say()
        async with standing(new, store, clock, recover=True) as right:
            await left.generations.tick(0)
            assert "generation 2 of this ledger has taken over from generation 1" in left.generations.replaced
            async with asyncio.timeout(5):
                await left.generations.wait_replaced()
            assert right.generations.replaced == ""
            await left.finish(lease, "left", tmp_path)
            await right.they.fail(lease, Outcome.PERMANENT, "right")

            said_right, said_left = await right.say(), await left.say()

            assert said_left == said_right
            assert await left.they.result(lease.job_id) == await right.they.result(lease.job_id)


async def test_a_store_that_is_away_delays_answers_and_no_settle(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        leases = [await party.they.running(subscribers=("webhook:x",)) for _ in range(3)]
        put = party.store.put_if_absent

        def away(key: str, data: bytes) -> bytes:
            if leases[1].job_id in key:
                raise StorageError("the store does not answer")
            return put(key, data)

        monkeypatch.setattr(party.store, "put_if_absent", away)
        for lease in leases:
            assert (await party.they.succeed(lease)).status == "won"

        with pytest.raises(StorageError):
            await party.closer.tick(0)

        states = [(await party.they.row(lease.job_id)).state for lease in leases]
        assert states == [State.FINISHED, State.RUNNING, State.FINISHED]
        monkeypatch.undo()
        assert len(await party.say()) == 3
        assert (await party.they.row(leases[1].job_id)).state is State.FINISHED


async def test_answers_that_cannot_be_written_hold_up_none_behind_them(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many of them as are tried at once, and more."""
    monkeypatch.setattr(closer, "AT_ONCE_MAX", 2)
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        leases = [await party.they.running() for _ in range(4)]
        put = party.store.put_if_absent

        def refused(key: str, data: bytes) -> bytes:
            if any(lease.job_id in key for lease in leases[:3]):
                raise StorageError("these credentials may not do that")
            return put(key, data)

        with monkeypatch.context() as patch:
            patch.setattr(party.store, "put_if_absent", refused)
            for lease in leases:
                await party.they.succeed(lease)
            for _ in range(2):
                with pytest.raises(StorageError):
                    await party.closer.tick(0)
            states = [(await party.they.row(lease.job_id)).state for lease in leases]
            assert states == [State.RUNNING] * 3 + [State.FINISHED]

        while await party.closer.tick(0) == 0:
            pass
        assert {(await party.they.row(lease.job_id)).state for lease in leases} == {State.FINISHED}


async def test_the_manifest_of_another_job_is_not_believed(tmp_path: Path, clock: ManualClock) -> None:
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        said, open_one, ended = [await party.they.running() for _ in range(3)]
        await party.they.succeed(said)
        await party.say()
        data = party.store.read(manifest_key("default", said.job_id))
        assert data is not None
        forged = data.replace(said.job_id.encode(), open_one.job_id.encode())
        party.store.put_if_absent(manifest_key("default", ended.job_id), forged)
        await party.they.succeed(ended)

        with pytest.raises(StorageError, match=f"{ended.job_id}.json is damaged: that is no manifest of this job"):
            await party.closer.tick(0)

        assert (await party.they.row(ended.job_id)).closing
        assert (await party.they.row(open_one.job_id)).ended_at_ms is None
        assert await party.they.renew(open_one) == ["held"]


async def test_what_a_namespace_called_results_has_published_holds_up_no_recovery(
    tmp_path: Path, clock: ManualClock
) -> None:
    before = await settled_after_the_copy(tmp_path, clock, 6)
    store = FilesystemStore(tmp_path / "store")
    store.put_if_absent("_public/results/index.json", b"{}")

    async with standing(tmp_path / "snapshot.db", store, clock, recover=True) as party:
        for lease in before.leases:
            assert await party.they.result(lease.job_id) == before.results[lease.job_id]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("is_read_first", [False, True])
async def test_of_finished_jobs_with_one_key_the_newest_has_it_after_a_recovery(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, is_read_first: bool, is_known: bool
) -> None:
    """Whether or not the older one is read first, or known to the copy: its files are gone by now."""
    monkeypatch.setattr(recovery, "AT_ONCE_MAX", 1)
    requests = sorted(("r1", "r2"), key=lambda each: job_id_of("default", each), reverse=not is_read_first)
    older, newer = requests
    copy, store = tmp_path / "copy.db", tmp_path / "store"
    async with standing(tmp_path / "ledger.db", store, clock) as party:
        await party.they.register("w1", handlers=(Handler(kind=KIND, version="v1", result_ttl_s=3600),))
        for request_id in requests:
            if request_id == (newer if is_known else older):
                await party.ledger.backup(str(copy))
            await drop(party.ledger)
            await party.finish(await party.they.running(request_id=request_id, key="k"), request_id, tmp_path)
            await party.say()
            clock.advance(3600)

    async with standing(copy, store, clock, recover=True) as party:
        reply = await party.they.submit(key="k")
        assert (reply.disposition, reply.job_id) == ("answered", job_id_of("default", newer))
        assert await party.ledger.violations() == []


async def test_a_damaged_manifest_is_said_and_holds_up_nobody_else(tmp_path: Path, clock: ManualClock) -> None:
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        bad, good = await party.they.running(), await party.they.running()
        party.store.put_if_absent(manifest_key("default", bad.job_id), b"{}")
        await party.they.succeed(bad)
        await party.they.succeed(good)

        with pytest.raises(StorageError, match=f"{bad.job_id}.json is damaged"):
            await party.closer.tick(0)

        assert (await party.they.row(good.job_id)).state is State.FINISHED
        assert (await party.they.row(bad.job_id)).closing


STEPS = ["closing:found", "mark:written", "closing:stands", "closing:said"]
RECOVERY = ["generation:taken", "generation:entered", "recovery:read", "recovery:adopted", "recovery:ended"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_closing_that_is_killed_at_any_step_says_each_answer_once(
    tmp_path: Path, clock: ManualClock, step: str
) -> None:
    ledger, store = tmp_path / "ledger.db", tmp_path / "store"
    async with standing(ledger, store, clock) as party:
        leases = [await party.they.running(subscribers=("webhook:x",)) for _ in range(3)]
        for lease in leases:
            await party.they.fail(lease, Outcome.PERMANENT)

    first = killed_at(step, tmp_path, ledger, store)
    second = ran(ledger, store)

    assert one_body_each(first + second) == {lease.job_id for lease in leases}
    assert ran(ledger, store) == []


@pytest.mark.parametrize("step", RECOVERY)
async def test_a_recovery_that_is_killed_at_any_step_goes_on_and_says_nothing_new(
    tmp_path: Path, clock: ManualClock, step: str
) -> None:
    before = await settled_after_the_copy(tmp_path, clock, 6)
    restored, store = tmp_path / "snapshot.db", tmp_path / "store"

    first = killed_at(step, tmp_path, restored, store, "--recover")
    second = ran(restored, store, *(["--recover"] if step == "generation:taken" else []))

    said = first + second
    assert one_body_each([*said, *before.said.values()]) == set(before.results)
    async with standing(restored, store, clock) as party:
        for job_id, result in before.results.items():
            assert await party.they.result(job_id) == result
        history = await party.chronicle.history()
        assert (history.recovering, history.generation) == (False, 3 if step == "generation:taken" else 2)
        assert (await party.they.running()).token > token_of(2, 0)


def killed_at(step: str, tmp_path: Path, *arguments: Path | str) -> list[str]:
    """Run until that step, and kill it there. Returns what it had said."""
    trips = tmp_path / "trips"
    trips.mkdir()
    (trips / step).touch()
    process = subprocess.Popen(
        [sys.executable, MAIN, *map(str, arguments)],
        env={**os.environ, "PLANRUN_TRIP_DIR": str(trips)},
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not list(trips.glob(f"{step}.*.reached")):
        assert process.poll() is None, f"it ended before {step}"
        assert time.monotonic() < until, f"it never came to {step}"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    return process.communicate(timeout=30)[0].splitlines()


def ran(*arguments: Path | str) -> list[str]:
    done = subprocess.run(
        [sys.executable, MAIN, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.splitlines()


def one_body_each(bodies: list[str]) -> set[str]:
    """Each message has one body, however often it was sent. Returns the jobs."""
    by_id: dict[str, set[str]] = {}
    for body in bodies:
        by_id.setdefault(json.loads(body)["msg_id"], set()).add(body)
    assert {len(found) for found in by_id.values()} <= {1}
    return {msg_id.split(":")[1] for msg_id in by_id}
