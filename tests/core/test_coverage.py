"""Which open jobs still have somebody."""

from __future__ import annotations

from typing import Any

import pytest

from planrun.core.coverage import Coverage, OpenJobs, coverage
from planrun.core.messages import Handler, WorkerRow

LINE = OpenJobs(namespace="default", kind="preview", version="v1", queued=2, running=1)


def worker(name: str = "w1", *, version: str = "v1", missing: tuple[str, ...] = (), **given: Any) -> WorkerRow:
    handler = Handler(kind="preview", version=version, needs=missing, missing=missing)
    return WorkerRow(incarnation=name, name=name, host="box", slots=1, handlers=(handler,), **given)


def covered(*workers: WorkerRow, dead: tuple[str, ...] = ()) -> Coverage:
    [row] = [
        row for row in coverage([LINE], workers, [], dead=dead) if row.version == "v1" and row.namespace == "default"
    ]
    return row


def test_open_jobs_with_a_live_worker_are_no_warning() -> None:
    row = covered(worker("w1"), worker("w2"), worker("w3", state="draining"))

    assert (row.queued, row.running, row.live, row.leaving, row.warning) == (2, 1, ("w1", "w2"), ("w3",), "")


@pytest.mark.parametrize(
    ("workers", "dead", "words"),
    [
        ([], (), "3 open jobs, and no live worker has it; start"),
        ([worker()], ("w1",), "no live worker has it"),
        ([worker(state="gone")], (), "no live worker has it"),
        ([worker(version="v2")], (), "no live worker has it"),
        ([worker(namespaces=("ads",))], (), "no live worker has it"),
        ([worker(state="draining")], (), "its last worker (w1) takes no more work"),
        ([worker(missing=("gpu",))], (), "every worker that has it lacks gpu"),
    ],
)
def test_open_jobs_without_a_live_worker_are_a_warning(
    workers: list[WorkerRow], dead: tuple[str, ...], words: str
) -> None:
    row = covered(*workers, dead=dead)

    assert (row.live, words in row.warning) == ((), True)


def test_what_has_no_open_jobs_is_shown_while_a_worker_lives_and_never_warned_of() -> None:
    rows = coverage([], [worker(state="draining"), worker("w2", version="v2")], [], dead=("w2",))

    assert [(row.version, row.queued, row.running, row.warning) for row in rows] == [("v1", 0, 0, "")]
