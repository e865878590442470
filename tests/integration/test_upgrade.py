"""A worker whose ledger is upgraded while it works."""

from __future__ import annotations

import contextlib

import pytest

from planrun.core.life import State
from planrun.ledger.sqlite import migrating
from planrun.ledger.sqlite.database import connect
from planrun.ledger.sqlite.migrating import Migration, migrate
from tests.lab import Lab

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_an_old_worker_ends_what_it_runs_takes_nothing_more_and_says_why(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor starts it again, as the new version."""
    worker = lab.start_worker(slots=2)
    await lab.ready(1)
    running = await lab.submit("nap", {"seconds": 3})
    await lab.started(running, 1)
    waiting = await lab.submit("nap", {"seconds": 60}, delay_s=1)
    known = migrating.migrations()
    newer = Migration(known[-1].number + 1, "other", "-- Other.\n-- Breaking: leases are kept elsewhere.\nSELECT 1;\n")
    with monkeypatch.context() as patch, contextlib.closing(connect(lab.place.ledger)) as connection:
        patch.setattr(migrating, "migrations", lambda: (*known, newer))
        migrate(connection, lab.place.ledger)

    assert worker.wait(30) == 5
    assert (await lab.job(running)).state is State.FINISHED
    assert (await lab.job(waiting)).state is State.QUEUED
    assert f"upgraded to schema {newer.number}" in worker.text
    assert "Traceback" not in worker.text
