"""Of a job that nobody knows any more no answer is left: not for its id, if that is used again, nor for a recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.core.errors import StorageError
from planrun.core.manifests import manifest_key
from planrun.core.messages import Lease
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.retention import Retention
from tests.contract.manual_clock import ManualClock
from tests.contract.retention_contract import archived, drop
from tests.orchestrator.standing import Standing, copy_of, standing

pytestmark = pytest.mark.anyio

DAY_S = 86_400


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def archived_long_ago(party: Standing, clock: ManualClock, tmp_path: Path) -> Lease:
    """A job whose answer was said, and whose ids are about to be forgotten."""
    lease = await party.they.running(request_id="r1", subscribers=("webhook:https://x.example",))
    await party.finish(lease, "old", tmp_path)
    await party.ledger.stopped(lease, "w1")
    await party.say()
    clock.advance(2 * DAY_S)
    await drop(party.ledger)
    await archived(party.they, [lease.job_id])
    clock.advance(90 * DAY_S)
    await party.they.register("w2")
    assert (await party.ledger.stale(limit=9)).ids == (lease.job_id,)
    return lease


def a_retention(party: Standing, tmp_path: Path) -> Retention:
    archive = Archive(tmp_path / "archive")
    return Retention(party.ledger, party.store, archive, keep=None, logs=tmp_path / "logs", believe_clock=True)


async def test_a_request_id_that_is_free_again_gets_an_answer_of_its_own(tmp_path: Path, clock: ManualClock) -> None:
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        old = await archived_long_ago(party, clock, tmp_path)
        await a_retention(party, tmp_path).tick(0)
        new = await party.they.running(request_id="r1", by="w2")
        assert new.job_id == old.job_id
        await party.finish(new, "new", tmp_path)
        await party.say()

        assert (await party.they.result(new.job_id)).token == new.token


async def test_an_id_is_known_until_its_manifest_has_gone(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that lets nobody delete keeps nothing else."""

    def refused(key: str) -> None:
        raise StorageError("these credentials may not do that")

    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        old = await archived_long_ago(party, clock, tmp_path)
        canceled = (await party.they.submit()).job_id
        await party.they.cancel(canceled)
        await party.say()
        clock.advance(14 * DAY_S)
        with monkeypatch.context() as patch:
            patch.setattr(party.store, "delete", refused)
            with pytest.raises(StorageError):
                await a_retention(party, tmp_path).tick(0)
        assert await party.ledger.archived(None, "r1") is not None
        assert await party.ledger.result(canceled) is None

        await a_retention(party, tmp_path).tick(0)

        assert await party.ledger.archived(None, "r1") is None
        assert party.store.read(manifest_key("default", old.job_id)) is None
        assert party.store.read(manifest_key("default", canceled)) is not None


async def test_a_recovery_does_not_bring_back_what_was_forgotten(tmp_path: Path, clock: ManualClock) -> None:
    """As where the store, too, is a copy, and has what was deleted since."""
    async with standing(tmp_path / "ledger.db", tmp_path / "store", clock) as party:
        old = await archived_long_ago(party, clock, tmp_path)
        assert (await drop(party.ledger)).ids == (old.job_id,)
    copy_of(tmp_path / "ledger.db", tmp_path / "copy.db")

    async with standing(tmp_path / "copy.db", tmp_path / "store", clock, recover=True) as party:
        assert await party.say() == {}
        assert await party.ledger.job(None, old.job_id) is None
