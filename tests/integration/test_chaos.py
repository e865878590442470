"""Workers, launchers and jobs that die at any moment: one right answer each, and a reason for every end."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from planrun.core.life import Outcome, Reason, State
from planrun.core.messages import Granted, GrantRequest
from tests.lab import Lab
from tests.soak.chaos import Storm, weather

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def fresh_seed() -> int:
    """Told to whoever reads the failure; CHAOS_SEED repeats it."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"CHAOS_SEED={seed}")
    return seed


async def test_c06_c16_jobs_end_right_while_a_worker_is_killed_every_second(lab: Lab) -> None:
    """No job has two answers or none, nothing is stuck or left behind; also without memory of ended attempts."""
    options = {"slots": 2, "dedup_size": 0}
    storm = Storm(jobs=30, workers=3, seed=fresh_seed(), seconds=(0.3, 1), strikes_max=8, options=options)

    print(await weather(lab, storm))


async def test_c16_jobs_end_right_under_all_faults_at_once(lab: Lab) -> None:
    """Kills, deploys, freezes of two leases, dead main processes and dead launchers, mixed by a seed."""
    faults = ("kill", "term", "freeze", "job", "launcher")
    storm = Storm(
        jobs=24, seed=fresh_seed(), workers=3, faults=faults, lease_s=1, seconds=(0.1, 0.5), worst=10, strikes_max=6
    )

    print(await weather(lab, storm))


async def test_c07_a_frozen_worker_that_comes_back_late_changes_nothing(lab: Lab) -> None:
    """Only the later attempt's bytes and one message are visible; the stale one says that it lost, and tidies up."""
    first = lab.start_worker(lease_s=1)
    await lab.ready(1)
    job_id = await lab.submit("render", {"seconds": 1.5}, subscribers=(lab.receiver(),))
    await lab.started(job_id, 1)
    first.signal(signal.SIGSTOP)
    second = lab.start_worker(lease_s=1)
    await lab.ended(job_id)
    first.signal(signal.SIGCONT)

    async def has_let_go() -> bool:
        return all(attempt.stopped for attempt in await lab.attempts(job_id))

    await lab.until(has_let_go, "the stale attempt is over")
    await lab.delivered()

    result = await lab.result(job_id)
    assert (result.state, result.attempt) == (State.FINISHED, 2)
    assert "attempt 1 (token 1) is over: lost" in first.text
    await lab.check(job_id)
    await lab.check_answers("app")
    await lab.collected()
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["late", "nap"])
async def test_c17_take_over_takes_as_long_whatever_the_run_time_limit(lab: Lab, kind: str) -> None:
    """A limit of one second or of a day: the killed worker's job starts again within two leases, even without proof."""
    first = lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(1)
    job_id = await lab.submit(kind, {"seconds": 60})
    await lab.started(job_id, 1)
    lab.start_worker(lease_s=1, proof_of_death=False)
    await lab.ready(2)
    killed_at = first.kill()
    second = await lab.started(job_id, 2)

    assert second.at - killed_at < 2


async def test_c27_jobs_that_kill_their_process_end_exhausted_and_hurt_nobody_else(lab: Lab) -> None:
    """Segmentation fault, SIGKILL, ever more memory: each is tried as often as allowed; the workers live on."""
    workers = [lab.start_worker(slots=3) for _ in range(2)]
    await lab.ready(2)
    poison = [
        await lab.submit("die", {"signal": "SIGSEGV"}, max_attempts=2),
        await lab.submit("die", {"signal": "SIGKILL"}, max_attempts=2),
        await lab.submit("leak", max_attempts=1),
    ]
    good = [await lab.submit("nap", {"seconds": 0.05, "n": n}) for n in range(20)]
    rows = await lab.ended(*poison, *good)

    assert [row.state for row in rows[3:]] == [State.FINISHED] * 20
    assert [(row.reason, row.failures, row.losses) for row in rows[:3]] == [
        (Reason.EXHAUSTED, 2, 0),
        (Reason.EXHAUSTED, 2, 0),
        (Reason.EXHAUSTED, 1, 0),
    ]
    assert [len(lab.starts(job_id)) for job_id in (*poison, *good)] == [2, 2, 1] + [1] * 20
    for job_id, word in zip(poison, ("SIGSEGV", "SIGKILL", "memory"), strict=True):
        result = await lab.result(job_id)
        assert result.error is not None
        assert word in result.error.message
    assert [worker.process.poll() for worker in workers] == [None, None]


async def test_c35_c63_every_answer_arrives_though_senders_die_and_a_receiver_fails(lab: Lab) -> None:
    """Workers killed between result and message; a receiver that takes it and fails: equal copies under one id."""
    chance = random.Random(fresh_seed())
    lab.start_worker(slots=2)
    await lab.ready(1)
    await lab.submit("nap", {"seconds": 0}, subscribers=(lab.receiver("broken", code=1),))
    for n in range(6):
        standby = lab.start_worker(slots=2)
        await lab.ready(n + 2)
        await lab.ended(await lab.submit("nap", {"seconds": 0, "n": n}, subscribers=(lab.receiver(),)))
        await asyncio.sleep(chance.uniform(0, 0.05))
        for worker in lab.workers:
            if worker is not standby:
                worker.kill()

    async def all_sent() -> bool:
        twice = [copies for copies in lab.received("broken").values() if len(copies) > 1]
        return bool(twice) and lab.rows("SELECT count(*) FROM outbox WHERE confirmed = 0") == [(1,)]

    await lab.until(all_sent, "answers arrive", timeout_s=40, every_s=0.1)
    await lab.check_answers("app", "broken")


async def test_c37_crashes_of_the_job_count_and_hand_backs_do_not(lab: Lab) -> None:
    """Two attempts, three deploys: unhurt. Its own process killed twice: exhausted."""
    worker = lab.start_worker()
    await lab.ready(1)
    job_id = await lab.submit("nap", {"seconds": 60}, max_attempts=2)
    for deploy in range(1, 4):
        await lab.started(job_id, deploy)
        follower = lab.start_worker()
        await lab.ready(2)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        worker = follower
    await lab.started(job_id, 4)
    row = await lab.job(job_id)
    assert (row.failures, row.losses, row.handbacks) == (0, 0, 3)

    for attempt in (4, 5):
        await lab.started(job_id, attempt)
        for pid in worker.job_mains():
            os.kill(pid, signal.SIGKILL)
    [row] = await lab.ended(job_id)

    assert (row.reason, row.failures, row.losses, row.handbacks) == (Reason.EXHAUSTED, 2, 0, 3)
    outcomes = [attempt.outcome for attempt in await lab.attempts(job_id)]
    assert outcomes == [Outcome.RELEASED] * 3 + [Outcome.TRANSIENT] * 2


async def test_c38_offers_of_an_attempt_that_runs_or_has_ended_are_refused_and_change_nothing(lab: Lab) -> None:
    """50 more grants while it runs, after it finished, after cancel, after it was exhausted: one start, one answer."""
    lab.start_worker(slots=4)
    await lab.ready(1)
    [worker] = await lab.ledger.workers()

    async def ask(job_id: str, n: int) -> str:
        request = GrantRequest(job_id=job_id, attempt=1, incarnation=worker.incarnation, nonce=f"{n}", lease_ms=1_000)
        answer = await lab.ledger.grant(request)
        return "granted" if isinstance(answer, Granted) else answer.why

    async def known(job_id: str) -> object:
        history = [event for event in await lab.events(job_id) if event.what != "stopped"]
        return (await lab.job(job_id)).state, [attempt.token for attempt in await lab.attempts(job_id)], history

    async def ask_often(job_id: str) -> set[str]:
        before = await known(job_id)
        answers = await asyncio.gather(*[ask(job_id, n) for n in range(50)])
        assert await known(job_id) == before
        return set(answers)

    running = await lab.submit("spin", {"seconds": 2})
    canceled = await lab.submit("nap", {"seconds": 60})
    finished = await lab.submit("nap", {"seconds": 0})
    exhausted = await lab.submit("die", {"signal": "SIGKILL"}, max_attempts=1)
    for job_id in (running, canceled, finished, exhausted):
        await lab.started(job_id, 1)
    assert await ask_often(running) == {"running"}
    await lab.cancel(canceled)
    await lab.ended(canceled, finished, exhausted)
    for job_id in (canceled, finished, exhausted):
        assert await ask_often(job_id) == {"ended"}
    await lab.ended(running)

    assert await ask_often(running) == {"ended"}
    assert len(lab.starts()) == 4
    await lab.check(running, canceled, finished, exhausted)
