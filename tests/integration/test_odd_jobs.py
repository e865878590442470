"""What no job should do, and what one on the machine next door did anyway: it costs that job, and nobody else."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from planrun.core.life import Reason, State
from tests.lab import Lab, WorkerProcess

pytestmark = pytest.mark.anyio

NO_SCALAR = "\\ud800"
LINES = (
    f'{{"say":"progress","fraction":0.5,"message":"{NO_SCALAR}"}}',
    f'{{"say":"progress","fraction":{"9" * 400},"message":"x"}}',
    '{"say":"progress","fraction":NaN,"message":"x"}',
    '{"say":"checkpoint","seq":1e999}',
    f'{{"say":"checkpoint","seq":{"9" * 40}}}',
    '{"say":"done","outputs":{"o":"a\\u0000b"},"value":"1"}',
    f'{{"say":"done","outputs":{{"{NO_SCALAR}":"f"}},"value":"1"}}',
    '{"say":"done","outputs":{"../o":"f"},"value":"1"}',
    f'{{"say":"done","outputs":{{}},"value":"\\"\\{NO_SCALAR}\\""}}',
    '{"say":"done","outputs":{},"value":"1e999"}',
    '{"say":"error","outcome":"lost","message":"m","code":"c"}',
    f'{{"say":"error","outcome":"permanent","message":"m","code":"{NO_SCALAR}"}}',
    '{"say":"stopped"}',
    "[" * 100_000,
    "[1]",
)


async def a_worker(lab: Lab, **options: Any) -> WorkerProcess:
    worker = lab.start_worker(jobs=["tests.kit_odd", "tests.kit_jobs"], **{"lease_s": 2, "gc_grace_s": 0, **options})
    await lab.ready_as(worker)
    return worker


async def test_whatever_a_job_writes_on_its_line_costs_that_job_alone(lab: Lab) -> None:
    worker = await a_worker(lab, lease_s=1, slots=6)
    neighbour = await lab.submit("nap", {"seconds": 600})
    jobs = [await lab.submit("line", {"text": text}, max_attempts=1) for text in LINES]
    rows = await lab.ended(*jobs)

    assert (await lab.job(neighbour)).losses == 0
    assert [row.losses + row.handbacks for row in rows] == [0] * len(rows)
    assert "Traceback" not in worker.text
    await lab.check(*jobs)


async def test_folders_of_any_depth_are_measured_kept_out_and_removed(lab: Lab) -> None:
    worker = await a_worker(lab)
    job_id = await lab.submit("deep", {"depth": 3000})
    (row,) = await lab.ended(job_id)

    assert (row.state, row.failures, row.losses) == (State.FINISHED, 0, 0)
    assert "checkpoint not taken" in worker.text
    await lab.scratch_empty()


async def test_holes_count_as_output(lab: Lab) -> None:
    await a_worker(lab)
    job_id = await lab.submit("holes", max_attempts=1)
    (row,) = await lab.ended(job_id)
    result = await lab.result(job_id)

    assert (row.state, row.reason) == (State.FAILED, Reason.EXHAUSTED)
    assert result.error is not None
    assert "output_bytes_max" in result.error.message
    assert lab.stored() == {}


async def test_names_that_are_no_text_reach_no_key(lab: Lab) -> None:
    worker = await a_worker(lab)
    job_id = await lab.submit("names")
    (row,) = await lab.ended(job_id)
    (output,) = (await lab.result(job_id)).outputs

    assert (row.state, row.losses) == (State.FINISHED, 0)
    assert output.key.endswith("/result")
    assert "not UTF-8" in worker.text
    await lab.check(job_id)


async def test_threads_that_checkpoint_at_once_all_get_their_answer(lab: Lab) -> None:
    await a_worker(lab)
    job_id = await lab.submit("at-once")
    (row,) = await lab.ended(job_id)

    assert (row.state, row.losses, (await lab.result(job_id)).value) == (State.FINISHED, 0, 24)


async def test_a_checkpoint_written_through_a_memory_map_is_the_latest(lab: Lab) -> None:
    await a_worker(lab)
    job_id = await lab.submit("mapped")
    await lab.ended(job_id)

    assert (await lab.result(job_id)).value == {"found": "C"}


async def test_inputs_that_became_pipes_stop_nobody(lab: Lab, tmp_path: Path) -> None:
    """More of them than there are threads; the worker still runs others, and drains."""
    worker = await a_worker(lab, slots=12)
    pipe = tmp_path / "input"
    os.mkfifo(pipe)
    jobs = [await lab.submit("copy", {"n": n}, inputs={"file": pipe.as_uri()}) for n in range(40)]
    jobs.append(await lab.submit("render", {"seconds": 0.1}))
    rows = await lab.ended(*jobs)

    assert [row.reason for row in rows] == [Reason.PERMANENT] * 40 + [None]
    worker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait) == 0


async def test_folders_that_somebody_removed_or_blocked_are_no_end(lab: Lab) -> None:
    worker = await a_worker(lab)
    await lab.ended(await lab.submit("render", {"seconds": 0.1}))
    for folder in (lab.place.scratch, lab.place.store, lab.place.logs):
        shutil.rmtree(folder, ignore_errors=True)  # who has printed nothing has made no folder for logs
    lab.place.logs.touch()  # no log can be written
    jobs = [await lab.submit("render", {"seconds": 0.1, "n": n}) for n in range(3)]
    rows = await lab.ended(*jobs)

    assert [(row.state, row.failures, row.losses) for row in rows] == [(State.FINISHED, 0, 0)] * 3
    assert len(worker.launchers()) <= 2  # the spare one, at full isolation with its witness
    await lab.check(*jobs)


async def test_an_attempt_whose_folders_cannot_be_made_says_so_and_leaves_no_process(lab: Lab) -> None:
    worker = await a_worker(lab)
    lab.place.scratch.mkdir(exist_ok=True)
    blocked = [lab.place.scratch / f"{2**40 + n:x}" for n in range(1, 3)]
    for path in blocked:
        path.touch()
    job_id = await lab.submit("render", {"seconds": 0.1}, max_attempts=2)
    (row,) = await lab.ended(job_id)

    assert (row.state, row.failures, row.losses) == (State.FAILED, 2, 0)
    assert len(worker.launchers()) <= 2
