"""What jobs do to a worker, and what must come of it. Each test names the field cases that it stands for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from planrun.core.life import Outcome, Reason, State
from tests.jobs.lab_jobs import STRANGE
from tests.lab import Lab, alive_with_mark

pytestmark = pytest.mark.anyio


async def test_a_job_longer_than_its_lease_starts_once(lab: Lab) -> None:
    """C02: two idle workers and a job of many leases: one start. A killed worker is found by the lease, not the job."""
    first = lab.start_worker(lease_s=1)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 6})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1)
    await asyncio.sleep(4)

    assert len(lab.starts(job_id)) == 1
    first.kill()
    await lab.started(job_id, 2, timeout_s=3)


@pytest.mark.parametrize(
    ("kind", "params", "outcome", "code", "words"),
    [
        ("die", {"signal": "SIGSEGV"}, Outcome.TRANSIENT, "signal", "SIGSEGV"),
        ("die", {"signal": "SIGABRT"}, Outcome.TRANSIENT, "signal", "SIGABRT"),
        ("quit", {"code": 3}, Outcome.TRANSIENT, "exit", "code 3"),
        ("leak", {}, Outcome.TRANSIENT, "memory", "memory_bytes_max"),
        ("late", {}, Outcome.OVERTIME, "overtime", "max_runtime_s"),
        ("stuck", {}, Outcome.STALLED, "stalled", "no progress"),
        ("big", {}, Outcome.TRANSIENT, "output", "output_bytes_max"),
    ],
)
async def test_every_kind_of_death_names_its_cause(
    lab: Lab, kind: str, params: dict[str, Any], outcome: Outcome, code: str, words: str
) -> None:
    """C27, C50, C53: signal, exit code, memory, run time, standstill and output each read differently; all end."""
    worker = lab.start_worker(lease_s=2)
    await lab.ready(1)
    job_id = await lab.submit(kind, params, max_attempts=1)
    (row,) = await lab.ended(job_id, timeout_s=30)
    (attempt,) = await lab.attempts(job_id)
    result = await lab.result(job_id)

    assert (row.state, row.reason, row.failures) == (State.FAILED, Reason.EXHAUSTED, 1)
    assert attempt.outcome is outcome
    assert attempt.error is not None
    assert attempt.error.code == code
    assert words in attempt.error.message
    assert result.error is not None
    assert words in result.error.message
    if kind in ("die", "quit"):
        assert "last words" in result.error.tail or "leaving" in result.error.tail
    assert worker.process.poll() is None
    await lab.scratch_empty()


async def test_a_poisonous_job_ends_and_its_neighbours_live(lab: Lab) -> None:
    """C27: jobs that kill their process are bounded; good jobs beside them each run once."""
    for _ in range(2):
        lab.start_worker(lease_s=2, slots=2)
    await lab.ready(2)
    bad = [await lab.submit("die", {"signal": name}, max_attempts=2) for name in ("SIGKILL", "SIGSEGV")]
    good = [await lab.submit("nap", {"seconds": 0.2}) for _ in range(10)]
    await lab.ended(*bad, *good)

    assert all(len(lab.starts(job_id)) == 2 for job_id in bad)
    assert all(len(lab.starts(job_id)) == 1 for job_id in good)
    assert all(worker.process.poll() is None for worker in lab.workers)


@pytest.mark.parametrize("what", ["missing", "empty", "link", "outside", "folder", "nan", "bytes"])
async def test_an_answer_that_cannot_be_kept_fails_once_and_says_why(lab: Lab, what: str) -> None:
    """C40, C86: a missing, empty, linked or foreign file, and values that are no JSON, are permanent."""
    lab.start_worker(lease_s=2)
    await lab.ready(1)
    job_id = await lab.submit("keep", {"what": what})
    (row,) = await lab.ended(job_id)
    result = await lab.result(job_id)

    assert (row.state, row.reason, len(lab.starts(job_id))) == (State.FAILED, Reason.PERMANENT, 1)
    assert result.error is not None
    assert result.error.message
    assert "Traceback" not in result.error.message
    assert lab.stored() == {}


async def test_every_file_that_a_job_returns_is_stored(lab: Lab) -> None:
    lab.start_worker(lease_s=2)
    await lab.ready(1)
    job_id = await lab.submit("keep", {"what": "several"})
    await lab.ended(job_id)
    outputs = (await lab.result(job_id)).outputs

    assert [(output.name, await lab.content(output)) for output in outputs] == [
        (name, f"this is {name}".encode()) for name in "abc"
    ]
    await lab.check(job_id)


async def test_c86_whatever_a_job_returns_it_starts_once_and_its_answer_is_strict_json(lab: Lab) -> None:
    """The work is done: a second run would not help."""
    lab.start_worker(jobs=["tests.jobs.lab_jobs"], slots=3)
    await lab.ready(1)
    jobs = [await lab.submit("returns", {"case": case}, subscribers=(lab.receiver(),)) for case in STRANGE]
    jobs.append(await lab.submit("returns", {"case": "large-integer"}, subscribers=(lab.receiver(),)))
    rows = await lab.ended(*jobs)
    await lab.delivered()

    assert [(row.state, row.attempt) for row in rows] == [(State.FAILED, 1)] * len(STRANGE) + [(State.FINISHED, 1)]
    assert (await lab.result(jobs[-1])).value == 10**400
    await lab.check_answers("app")
    texts = [text for copies in lab.received().values() for text in copies]
    assert len(texts) == len(jobs)
    for text in texts:
        json.loads(text, parse_constant=pytest.fail)


async def test_a_flood_of_output_and_a_full_log_stop_nothing(lab: Lab) -> None:
    """C52: 50 MB on both streams; the log keeps its first and last lines, and the job ends."""
    lab.start_worker(lease_s=2)
    await lab.ready(1)
    job_id = await lab.submit("shout", {"megabytes": 50})
    (row,) = await lab.ended(job_id)

    assert row.state is State.FINISHED
    assert lab.place.log_of(job_id, 1).stat().st_size < 3 * 1024 * 1024


async def test_slow_is_not_stuck(lab: Lab) -> None:
    """C53: a job that reports progress under a short standstill limit finishes."""
    lab.start_worker(lease_s=2)
    await lab.ready(1)
    job_id = await lab.submit("nap-watched", {"seconds": 4})
    (row,) = await lab.ended(job_id)

    assert (row.state, row.failures) == (State.FINISHED, 0)


async def test_every_attempt_is_a_fresh_process_with_its_own_environment(lab: Lab) -> None:
    """C54: a module that starts threads holding locks at import hangs nothing; twenty jobs, twenty pids."""
    lab.start_worker(lease_s=3, slots=4, jobs=["tests.kit_hostile"])
    await lab.ready(1)
    jobs = [await lab.submit("threaded") for _ in range(20)]
    rows = await lab.ended(*jobs)
    values = [(await lab.result(job_id)).value for job_id in jobs]

    assert all(row.state is State.FINISHED for row in rows)
    assert len({value["home"] for value in values}) == 20


async def test_hostile_errors_are_reported_and_the_worker_goes_on(lab: Lab) -> None:
    """C58: errors that raise when printed, odd progress and a million reports change nothing else."""
    worker = lab.start_worker(lease_s=3, jobs=["tests.kit_hostile"])
    await lab.ready(1)
    jobs = [await lab.submit("hostile", {"what": what}, max_attempts=1) for what in ("error", "progress", "flood")]
    rows = await lab.ended(*jobs, timeout_s=60)
    results = [await lab.result(job_id) for job_id in jobs]

    assert [row.state for row in rows] == [State.FAILED, State.FINISHED, State.FINISHED]
    assert results[0].error is not None
    assert "Unprintable" in results[0].error.message
    assert worker.process.poll() is None


async def test_everything_of_a_job_is_dead_when_its_main_process_dies(lab: Lab, tmp_path: Path) -> None:
    """C45: kill -9 of the job's main process alone: the next attempt starts after its brood is dead."""
    marks = tmp_path / "marks"
    marks.mkdir()
    lab.start_worker(lease_s=2, isolation="subreaper")  # pids are the same inside and outside here
    await lab.ready(1)
    job_id = await lab.submit("brood", {"marks": str(marks), "seconds": 60}, max_attempts=2)
    await lab.started(job_id, 1)
    await lab.until(lambda: asyncio.to_thread(lambda: len(list(marks.iterdir())) == 2), "the brood lives")
    pid = int(lab.starts_file.read_text().split()[1])
    os.kill(pid, signal.SIGKILL)
    second = await lab.started(job_id, 2)
    last_sign = max(float(path.read_text().split()[-1]) for path in marks.glob("*-1-*"))

    assert last_sign < second.at
    assert not [path for path in alive_with_mark(marks) if "-1-" in path.name]


async def test_fatal_ends_the_worker_and_its_jobs_return(lab: Lab) -> None:
    """A broken worker exits with 70; its jobs go on elsewhere, the one that said so is charged a failure."""
    broken = lab.start_worker(lease_s=1, slots=2)
    await lab.ready(1)
    neighbour = await lab.submit("nap", {"seconds": 4})
    await lab.started(neighbour, 1)
    fatal = await lab.submit("hurl", {"error": "fatal", "on_attempts": 1, "message": "the card has locked up"})
    code = await asyncio.to_thread(broken.wait)
    lab.start_worker(lease_s=1, slots=2)
    rows = await lab.ended(fatal, neighbour)

    assert code == 70
    assert [row.state for row in rows] == [State.FINISHED, State.FINISHED]
    assert (rows[0].failures, rows[0].losses) == (1, 0)
    assert (rows[1].failures, rows[1].losses) == (0, 1)


async def test_a_warm_process_is_reused_until_something_goes_wrong(lab: Lab) -> None:
    """Opt-in reuse: the same process serves the next job, and a failure ends it."""
    lab.start_worker(lease_s=3)
    await lab.ready(1)
    for params in ({"n": 0}, {"n": 1}, {"n": 2, "fail": True}, {"n": 3}):
        await lab.ended(await lab.submit("warmly", params))
    pids = [line.split()[1] for line in lab.starts_file.read_text().splitlines()]

    assert len(pids) == 4
    assert pids[0] == pids[1] == pids[2]
    await lab.scratch_empty()


async def test_a_busy_slot_takes_the_most_urgent_job_next_though_its_own_kind_would_be_cheaper(lab: Lab) -> None:
    """Jobs of one kind follow one another in one commit; that gives them no right of way."""
    lab.start_worker(lease_s=3)
    await lab.ready(1)
    first = await lab.submit("nap", {"seconds": 0.5})
    await lab.started(first, 1)
    alike = [await lab.submit("nap", {"seconds": 0, "n": n}) for n in range(3)]
    urgent = await lab.submit("warmly", priority=9)
    rows = await lab.ended(first, *alike, urgent)

    assert [row.state for row in rows] == [State.FINISHED] * 5
    assert [start.job_id for start in lab.starts()] == [first, urgent, *alike]
    await lab.scratch_empty()


async def test_c71_a_job_of_low_priority_starts_in_bounded_time_under_a_steady_stream_of_urgent_ones(lab: Lab) -> None:
    """One slot, always a dozen urgent jobs in line: every tenth start goes by age, also where another kind follows."""
    busy = await lab.submit("warmly", {"n": "first"}, priority=9)
    before = [await lab.submit("warmly", {"n": n}, priority=9) for n in range(2)]
    low = await lab.submit("nap", {"seconds": 0}, priority=-9)
    sent = 0
    lab.start_worker(lease_s=5)
    while not lab.starts(low):
        while (await lab.ledger.counts(None))["queued"] < 12:
            sent += 1
            await lab.submit("warmly", {"n": f"stream {sent}"}, priority=9)
        await asyncio.sleep(0.01)
        assert sent <= 100, "it waits for ever"
    order = [start.job_id for start in lab.starts()]

    assert order[:3] == [busy, *before]
    assert 3 < order.index(low) < 10 * (1 + len([busy, *before]))


async def test_c71_an_urgent_job_that_lost_its_worker_runs_next(lab: Lab) -> None:
    first = lab.start_worker(lease_s=1)
    await lab.ready(1)
    urgent = await lab.submit("nap", {"seconds": 3600}, priority=9)
    await lab.started(urgent, 1)
    for n in range(3):
        await lab.submit("nap", {"seconds": 0.5, "n": n})
    first.kill()
    lab.start_worker(lease_s=1)
    again = await lab.started(urgent, 2)

    assert len([start for start in lab.starts() if start.at < again.at]) <= 1 + 1  # one may start during its back-off


async def test_c26_no_job_waits_behind_a_long_one_while_a_slot_is_free_anywhere(lab: Lab) -> None:
    """A worker holds no jobs that it does not run; one that comes later gets work at once."""
    for _ in range(2):
        lab.start_worker()
    await lab.ready(2)
    long = await lab.submit("nap", {"seconds": 3600})
    await lab.started(long, 1)
    short = [await lab.submit("nap", {"seconds": 0.3, "n": n}) for n in range(6)]
    await lab.ended(*short, timeout_s=15)
    lab.start_worker()
    await lab.ready(3)
    short = [await lab.submit("nap", {"seconds": 0.3, "n": n}) for n in range(6)]
    await lab.ended(*short, timeout_s=15)
    workers = {attempt.worker for job in short for attempt in await lab.attempts(job)}

    assert (await lab.job(long)).state is State.RUNNING
    assert len(workers) == 2
    assert (await lab.job(long)).worker not in workers


async def test_a_job_waits_for_the_machine_that_can_run_it_or_fails_at_once(lab: Lab) -> None:
    """C66: a capability that nobody has is named at submit; one whose only worker is away is waited for."""
    able = lab.start_worker(lease_s=1, name="able", capabilities=["gpu"])
    await lab.ready(1)
    lab.start_worker(lease_s=1, name="plain")
    await lab.ready(2)
    able.signal(signal.SIGTERM)
    await asyncio.to_thread(able.wait)
    began = time.monotonic()
    refused = await lab.submit("nap", needs=("tpu",))
    unknown = await lab.submit("nonsuch")
    waiting = await lab.submit("gpu-only")
    rows = await lab.ended(refused, unknown)
    took_s = time.monotonic() - began

    assert took_s < 3
    assert [(row.state, row.reason) for row in rows] == [(State.FAILED, Reason.UNSUPPORTED)] * 2
    for job_id, word in ((refused, "tpu"), (unknown, "nonsuch")):
        error = (await lab.result(job_id)).error
        assert error is not None
        assert word in error.message
    assert (await lab.job(waiting)).state is State.QUEUED
    lab.start_worker(lease_s=1, name="able again", capabilities=["gpu"])
    (row,) = await lab.ended(waiting)
    assert row.state is State.FINISHED


async def test_a_worker_whose_ledger_was_removed_says_so_and_ends(lab: Lab) -> None:
    """It would work on a file that nobody can see; its jobs have nowhere to settle."""
    worker = lab.start_worker(lease_s=1)
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60})
    await lab.started(job_id, 1)
    for path in lab.folder.glob("lab.db*"):
        if path.is_file():
            path.unlink()

    assert await asyncio.to_thread(worker.wait) == 5
    assert "removed or replaced" in worker.text
