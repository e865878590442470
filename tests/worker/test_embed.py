"""A worker inside a program, before it works and after it has."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from planrun import Worker
from planrun.config import place_of


def test_who_stops_a_worker_that_has_ended_hears_nothing_of_it(tmp_path: Path) -> None:
    worker, codes = Worker(f"sqlite:///{tmp_path}/ledger.db", jobs=["tests.kit_jobs"]), []
    worker.stop()
    running = threading.Thread(target=lambda: codes.append(worker.run()))
    running.start()
    running.join(60)
    assert codes == [0]

    worker.stop()


def test_who_never_became_a_worker_leaves_no_lock_file(tmp_path: Path) -> None:
    """A unit that cannot start is started again every few seconds."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    place = place_of(url)
    place.scratch.mkdir()
    (place.scratch / ".reserved").touch()

    with pytest.raises(FileExistsError):
        Worker(url, jobs=["tests.kit_jobs"]).run()

    assert list(place.workers.iterdir()) == []
